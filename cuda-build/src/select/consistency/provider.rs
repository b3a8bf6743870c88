//! nvJitLink, which has to be as new as everything that hands it code.

use super::toolkit::{get, name, release};
use crate::component::{Class, Component, edges};
use crate::error::Conflict;
use crate::select::Chosen;

/// Providers that are older than one of their users.
///
/// nvJitLink exports one set of names per minor (`__nvJitLinkCreate_12_9`). cuSPARSE of CUDA 12
/// names those of its own release; cuSPARSE 13 and cuFFT ask for the version first, but the
/// code that they carry in themselves is of their own release, which an older one can't read.
pub(super) fn conflicts(chosen: &[Chosen]) -> Vec<Conflict> {
    let provides = |c: &&Chosen| c.found.component.facts().class == Class::Provider;
    let mut conflicts = Vec::new();
    for provider in chosen.iter().filter(provides) {
        let Some(there) = release(&provider.found) else {
            continue;
        };
        let users = Component::all().filter(|user| {
            edges(*user, provider.found.major)
                .iter()
                .any(|(to, _)| *to == provider.found.component)
        });
        for user in users.filter_map(|user| get(chosen, user)) {
            let Some(wanted) = release(&user.found).filter(|wanted| there < *wanted) else {
                continue;
            };
            let fix = match provider
                .found
                .component
                .facts()
                .package(provider.found.major)
            {
                Some(package) => format!(
                    "install `{package}>={wanted},<{}`, or get one consistent set with `cargo cuda toolkit add {wanted}`",
                    wanted.major + 1
                ),
                None => format!("get one consistent set with `cargo cuda toolkit add {wanted}`"),
            };
            conflicts.push(Conflict {
                reason: format!(
                    "{} is of CUDA {wanted}, {} is of CUDA {there}: it must be as new as what uses it",
                    name(user),
                    name(provider)
                ),
                fix,
            });
        }
    }
    conflicts
}

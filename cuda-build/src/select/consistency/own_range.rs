//! CCCL, whose releases each fit a range of CUDA releases.

use super::toolkit::{get, name, release};
use crate::component::{Class, Component};
use crate::error::Conflict;
use crate::select::Chosen;
use crate::version::ToolkitVersion;

/// Components of a range of their own that the compiler is too old for.
///
/// What compiles device code decides: nvcc, else NVRTC, else the runtime's headers.
pub(super) fn conflicts(chosen: &[Chosen]) -> Vec<Conflict> {
    let compilers = [Component::Nvcc, Component::Nvrtc, Component::Cudart];
    let mut compilers = compilers
        .into_iter()
        .filter_map(|component| get(chosen, component));
    let Some((compiler, there)) = compilers.find_map(|c| Some((c, release(&c.found)?))) else {
        return Vec::new();
    };
    let ranged = chosen
        .iter()
        .filter(|c| c.found.component.facts().class == Class::OwnRange);
    ranged
        .filter_map(|other| too_old(compiler, there, other))
        .collect()
}

fn too_old(compiler: &Chosen, there: ToolkitVersion, other: &Chosen) -> Option<Conflict> {
    let own = other.found.version.as_ref()?;
    let (since, oldest) = other
        .found
        .component
        .facts()
        .oldest_release
        .filter(|(since, _)| own.part(0) >= *since)?;
    (there < oldest).then(|| Conflict {
        reason: format!(
            "{} is of CUDA {there}, the headers of {} refuse releases before CUDA {oldest}",
            name(compiler),
            name(other)
        ),
        fix: match other.found.component.facts().package(there.major) {
            Some(package) => {
                format!(
                    "take {} before {since}.0: `{package}` in Python packages",
                    other.found.component
                )
            }
            None => format!("take {} before {since}.0", other.found.component),
        },
    })
}

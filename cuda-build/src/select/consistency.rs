//! Which components belong together: a pure function over a set.

use super::Chosen;
use crate::component::{Class, Component};
use crate::error::Conflict;
use crate::version::ToolkitVersion;

/// Every pair that does not belong together, each with its mend.
#[must_use]
pub fn conflicts(chosen: &[Chosen]) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    same_major(chosen, &mut conflicts);
    if !conflicts.is_empty() {
        return conflicts;
    }
    // What compiles device code decides: nvcc, else NVRTC.
    if let Some(nvcc) = get(chosen, Component::Nvcc) {
        for component in [Component::Nvvm, Component::Crt, Component::Cudart] {
            same_minor(nvcc, get(chosen, component), &mut conflicts);
        }
    }
    if let Some(nvrtc) = get(chosen, Component::Nvrtc) {
        same_minor(nvrtc, get(chosen, Component::Cudart), &mut conflicts);
    }
    library_not_older(chosen, &mut conflicts);
    conflicts
}

fn get(chosen: &[Chosen], component: Component) -> Option<&Chosen> {
    chosen.iter().find(|c| c.found.component == component)
}

fn same_major(chosen: &[Chosen], conflicts: &mut Vec<Conflict>) {
    let tied = |c: &&Chosen| c.found.component.facts().class != Class::Driver;
    let Some(first) = chosen.iter().find(tied) else { return };
    for other in chosen.iter().filter(tied) {
        if other.found.major != first.found.major {
            conflicts.push(Conflict {
                reason: format!(
                    "{} is for CUDA {}, {} is for CUDA {}",
                    name(first),
                    first.found.major,
                    name(other),
                    other.found.major
                ),
                fix: format!(
                    "take all components from one CUDA major: `cargo cuda toolkit add {}`",
                    first.found.major
                ),
            });
        }
    }
}

/// nvcc starts cicc with options of its own release, and the headers that device code is
/// compiled with call builtins of one release: `cuda_fp16.h` of 13.0 fails under 13.4, and the
/// other way round.
fn same_minor(compiler: &Chosen, other: Option<&Chosen>, conflicts: &mut Vec<Conflict>) {
    let Some(other) = other else { return };
    let (Some(wanted), Some(release)) = (compiler.found.toolkit, other.found.toolkit) else { return };
    if other.found.include.is_empty() && other.found.component == Component::Cudart {
        return;
    }
    if wanted != release {
        let what = match other.found.component {
            Component::Cudart => "headers of cudart".to_owned(),
            Component::Nvvm => "cicc (nvvm)".to_owned(),
            component => component.to_string(),
        };
        conflicts.push(Conflict {
            reason: format!("{}: they must be of one release", both(compiler, wanted, other, &what, release)),
            fix: mend(other, wanted),
        });
    }
}

/// Both sides with their releases; a place that both are in is named once.
fn both(
    compiler: &Chosen,
    wanted: ToolkitVersion,
    other: &Chosen,
    what: &str,
    release: ToolkitVersion,
) -> String {
    let version = other.found.shown_version();
    if compiler.origin == other.origin {
        return format!(
            "{}: {} is of CUDA {wanted}, {what} {version} is of CUDA {release}",
            compiler.origin, compiler.found
        );
    }
    format!(
        "{} is of CUDA {wanted}, {what} {version} ({}) is of CUDA {release}",
        name(compiler),
        other.origin
    )
}

/// An added toolkit comes after variables and environments in the search, so they have to be
/// told to stand back.
fn mend(other: &Chosen, wanted: ToolkitVersion) -> String {
    let add = format!(
        "take one consistent set: `cargo cuda toolkit add {wanted}`, and `CUDA_BUILD_SOURCES=stored` to search \
         nowhere else"
    );
    match other.found.component.facts().package(other.found.major) {
        Some(package) => format!("install `{package}=={wanted}.*` beside it, or {add}"),
        None => add,
    }
}

/// A program compiled with newer headers may call what an older library does not export.
fn library_not_older(chosen: &[Chosen], conflicts: &mut Vec<Conflict>) {
    let Some(cudart) = get(chosen, Component::Cudart) else { return };
    let Some(headers) = cudart.found.toolkit else { return };
    let library = cudart.found.version.as_ref().and_then(|v| v.to_string().parse::<ToolkitVersion>().ok());
    if let Some(library) = library.filter(|library| *library < headers) {
        conflicts.push(Conflict {
            reason: format!(
                "the headers of {} are of CUDA {headers}, its library is of CUDA {library}",
                name(cudart)
            ),
            fix: format!("install headers and library of one release, or `cargo cuda toolkit add {headers}`"),
        });
    }
}

fn name(chosen: &Chosen) -> String {
    format!("{} ({})", chosen.found, chosen.origin)
}

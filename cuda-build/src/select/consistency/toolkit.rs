//! Components of one toolkit.

use super::{own_range, provider};
use crate::component::{Bundle, Class, Component};
use crate::error::Conflict;
use crate::probe::Found;
use crate::release::release_of;
use crate::select::Chosen;
use crate::version::ToolkitVersion;

/// Every pair that does not belong together, each with its mend.
///
/// Of a set that holds several CUDA majors nothing else is said: a library of the wrong major is
/// of the wrong release too.
#[must_use]
pub fn conflicts(chosen: &[Chosen]) -> Vec<Conflict> {
    let mut conflicts = same_major(chosen);
    if !conflicts.is_empty() {
        return conflicts;
    }
    // What compiles device code decides: nvcc, else NVRTC.
    if let Some(nvcc) = get(chosen, Component::Nvcc) {
        let tied = |c: &&Chosen| c.found.component.facts().class == Class::ExactMinor;
        for other in chosen
            .iter()
            .filter(tied)
            .chain(get(chosen, Component::Cudart))
        {
            conflicts.extend(same_minor(nvcc, other));
        }
    }
    if let Some(nvrtc) = get(chosen, Component::Nvrtc) {
        conflicts
            .extend(get(chosen, Component::Cudart).and_then(|cudart| same_minor(nvrtc, cudart)));
        conflicts.extend(own_builtins(nvrtc));
    }
    conflicts.extend(library_not_older(chosen));
    conflicts.extend(provider::conflicts(chosen));
    conflicts.extend(own_range::conflicts(chosen));
    conflicts
}

pub(super) fn get(chosen: &[Chosen], component: Component) -> Option<&Chosen> {
    chosen.iter().find(|c| c.found.component == component)
}

/// The CUDA release that a component belongs to, by a file of its own or by its version.
pub(super) fn release(found: &Found) -> Option<ToolkitVersion> {
    found
        .toolkit
        .or_else(|| release_of(found.component, found.version.as_ref()?))
}

/// `cublas 13.8.0.4 (virtual environment (/venv))`.
pub(super) fn name(chosen: &Chosen) -> String {
    format!("{} ({})", chosen.found, chosen.origin)
}

fn same_major(chosen: &[Chosen]) -> Vec<Conflict> {
    let tied = |c: &&Chosen| {
        !matches!(
            c.found.component.facts().class,
            Class::Driver | Class::OwnRange
        )
    };
    let Some(first) = chosen.iter().find(tied) else {
        return Vec::new();
    };
    let others = chosen
        .iter()
        .filter(tied)
        .filter(|other| other.found.major != first.found.major);
    others.map(|other| major_conflict(first, other)).collect()
}

/// Two components of different majors.
pub(in crate::select) fn major_conflict(first: &Chosen, other: &Chosen) -> Conflict {
    let major = first.found.major;
    let get_set = format!("`cargo cuda toolkit add {major}`");
    let facts = other.found.component.facts();
    let fix = match facts.package(major) {
        Some(package) if facts.bundle == Bundle::Product => {
            format!(
                "take the {} that is built for CUDA {major}: `{package}` in Python packages",
                facts.id
            )
        }
        Some(package) => {
            format!(
                "take all components from one CUDA major: `{package}` in Python packages, or {get_set}"
            )
        }
        None => format!("take all components from one CUDA major: {get_set}"),
    };
    Conflict {
        reason: format!(
            "{} is for CUDA {major}, {} is for CUDA {}",
            name(first),
            name(other),
            other.found.major
        ),
        fix,
    }
}

/// nvcc starts cicc with options of its own release, and the headers that device code is
/// compiled with call builtins of one release: `cuda_fp16.h` of 13.0 fails under 13.4, and the
/// other way round.
fn same_minor(compiler: &Chosen, other: &Chosen) -> Option<Conflict> {
    let (wanted, release) = (compiler.found.toolkit?, other.found.toolkit?);
    let unused = other.found.component == Component::Cudart && other.found.include.is_empty();
    if unused || wanted == release {
        return None;
    }
    let what = match other.found.component {
        Component::Cudart => "headers of cudart".to_owned(),
        Component::Nvvm => "cicc (nvvm)".to_owned(),
        component => component.to_string(),
    };
    Some(Conflict {
        reason: format!(
            "{}: they must be of one release",
            both(compiler, wanted, other, &what, release)
        ),
        fix: mend(other, wanted),
    })
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

/// NVRTC opens `libnvrtc-builtins.so.<major.minor>` of exactly its own release.
fn own_builtins(nvrtc: &Chosen) -> Option<Conflict> {
    let builtins = nvrtc.found.libraries.get(1)?;
    let there: ToolkitVersion = builtins
        .file_name()?
        .to_str()?
        .strip_prefix("libnvrtc-builtins.so.")?
        .parse()
        .ok()?;
    let library = release_of(Component::Nvrtc, nvrtc.found.version.as_ref()?)?;
    (library != there).then(|| Conflict {
        reason: format!(
            "{} is of CUDA {library}, its builtins ({}) are of CUDA {there}: NVRTC loads only those of its own release",
            name(nvrtc),
            builtins.display()
        ),
        fix: mend(nvrtc, library),
    })
}

/// A program compiled with newer headers may call what an older library does not export.
fn library_not_older(chosen: &[Chosen]) -> Option<Conflict> {
    let cudart = get(chosen, Component::Cudart)?;
    let headers = cudart.found.toolkit?;
    let library: ToolkitVersion = cudart.found.version.as_ref()?.to_string().parse().ok()?;
    (library < headers).then(|| Conflict {
        reason: format!(
            "the headers of {} are of CUDA {headers}, its library is of CUDA {library}",
            name(cudart)
        ),
        fix: format!(
            "install headers and library of one release, or `cargo cuda toolkit add {headers}`"
        ),
    })
}

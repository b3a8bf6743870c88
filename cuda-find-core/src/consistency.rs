//! Which components belong together: pure functions of the chosen components.
//!
//! The class of a component ([`Class`]) decides which rule applies to it:
//!
//! | class | rule |
//! |---|---|
//! | exact minor | has the compiler's CUDA release; the headers of cudart must have this release too |
//! | major | is for the same CUDA major |
//! | provider | is at least as new as the newest component that uses it |
//! | own range | its headers accept the compiler's CUDA release |
//! | independent (products) | is for the same CUDA major, and has code for the declared capabilities |
//! | driver | none: the machine that runs the program decides |

use crate::capability::Plan;
use crate::component::{Class, Component, edges, release_of};
use crate::error::Conflict;
use crate::found::Found;
use crate::list::joined;
use crate::probe::release_in_file_name;
use crate::version::ToolkitVersion;

/// The reasons that the chosen components do not belong together; empty if they do.
pub fn conflicts(chosen: &[Found]) -> Vec<Conflict> {
    let conflicts = different_majors(chosen);
    if !conflicts.is_empty() {
        // A component for another major also has another release. A second conflict would add nothing.
        return conflicts;
    }
    let [nvcc, nvrtc, cudart] = Component::CORE.map(|component| get(chosen, component));
    let mut conflicts: Vec<Conflict> = Vec::new();
    if let Some(nvcc) = nvcc {
        let is_exact = |other: &&Found| class(other) == Class::ExactMinor;
        for other in chosen.iter().filter(is_exact).chain(cudart) {
            conflicts.extend(release_conflict(nvcc, other));
        }
    }
    if let (Some(nvrtc), Some(cudart)) = (nvrtc, cudart) {
        conflicts.extend(release_conflict(nvrtc, cudart));
    }
    conflicts.extend(nvrtc.and_then(builtins_conflict));
    conflicts.extend(cudart.and_then(library_conflict));
    conflicts.extend(provider_conflicts(chosen));
    // The release that compiles device code decides which CCCL is accepted: that of nvcc, otherwise of NVRTC, otherwise
    // of cudart.
    let mut compilers = [nvcc, nvrtc, cudart].into_iter().flatten();
    if let Some((compiler, release)) = compilers.find_map(|c| Some((c, release(c)?))) {
        for other in chosen {
            conflicts.extend(range_conflict(compiler, release, other));
        }
    }
    conflicts
}

/// A conflict for each chosen product that has no code for a capability of the plan.
///
/// A capability for which the plan has only PTX counts too, because a device with this capability may load the PTX.
pub fn capability_conflicts<'f>(
    chosen: impl Iterator<Item = &'f Found>,
    plan: &Plan,
) -> Vec<Conflict> {
    let capabilities = plan.all();
    let without_code = |product: &Found| {
        let facts = product.component.facts();
        let version = product.version.as_ref()?;
        let version = (version.part(0), version.part(1));
        let mut known = facts.oldest_capabilities.iter();
        let (since, oldest) = known.find(|(since, _)| version >= *since)?;
        let missing = capabilities.iter().filter(|c| c.base() < *oldest);
        let missing = joined(missing, ", ");
        if missing.is_empty() {
            return None;
        }
        let since = format!("{}.{}", since.0, since.1);
        let has_older = known.any(|(_, capability)| capability < oldest);
        let older = if has_older {
            format!(", or use {} before {since}", facts.id)
        } else {
            String::new()
        };
        Some(Conflict {
            reason: format!(
                "{} supports capabilities from {oldest} on (since version {since}), but this build is for {missing}",
                name(product)
            ),
            fix: format!("remove {missing} from the capabilities{older}"),
        })
    };
    chosen.filter_map(without_code).collect()
}

fn get(chosen: &[Found], component: Component) -> Option<&Found> {
    chosen.iter().find(|c| c.component == component)
}

fn class(chosen: &Found) -> Class {
    chosen.component.facts().class
}

/// The Python package of a component for a major.
fn package(chosen: &Found, major: u32) -> Option<&'static str> {
    chosen.component.facts().package(major)
}

/// The CUDA release that a component belongs to: the release that the probe found, otherwise the release that the
/// version of the component belongs to.
fn release(found: &Found) -> Option<ToolkitVersion> {
    found
        .release
        .or_else(|| release_of(found.component, found.version.as_ref()?))
}

/// `cublas 13.8.0.4 (virtual environment (/venv))`.
fn name(chosen: &Found) -> String {
    format!("{chosen} ({})", chosen.origin)
}

fn different_majors(chosen: &[Found]) -> Vec<Conflict> {
    let has_major = |c: &&Found| !matches!(class(c), Class::Driver | Class::OwnRange);
    let Some(first) = chosen.iter().find(has_major) else {
        return Vec::new();
    };
    let others = chosen.iter().filter(has_major);
    let others = others.filter(|other| other.major != first.major);
    others.map(|other| major_conflict(first, other)).collect()
}

/// The conflict of two components for different majors.
pub(crate) fn major_conflict(first: &Found, other: &Found) -> Conflict {
    let major = first.major;
    let facts = other.component.facts();
    let package = package(other, major).map(|package| format!("`{package}` in Python packages"));
    let fix = match package {
        Some(package) if facts.is_product() => {
            let id = facts.id;
            format!("take the {id} that is built for CUDA {major}: {package}")
        }
        package => {
            let fetched = format!("`cargo cuda toolkit add {major}`");
            let sets = joined(package.into_iter().chain([fetched]), ", or ");
            format!("take all components from one CUDA major: {sets}")
        }
    };
    let (first, name, other) = (name(first), name(other), other.major);
    Conflict {
        reason: format!("{first} is for CUDA {major}, {name} is for CUDA {other}"),
        fix,
    }
}

/// The conflict if a component has another CUDA release than the compiler.
///
/// nvcc starts cicc with options of its own release, and the headers for device code call builtins
/// of one release: `cuda_fp16.h` of 13.0 does not compile under 13.4, and vice versa.
fn release_conflict(compiler: &Found, other: &Found) -> Option<Conflict> {
    let (wanted, release) = (compiler.release?, other.release?);
    let component = other.component;
    let has_no_headers = component == Component::Cudart && other.include.is_empty();
    if has_no_headers || wanted == release {
        return None;
    }
    let (what, is) = match component {
        Component::Cudart => ("headers of cudart", "are"),
        Component::Nvvm => ("cicc (nvvm)", "is"),
        component => (component.id(), "is"),
    };
    let (compiler, version, origin) = (name(compiler), other.shown_version(), &other.origin);
    Some(Conflict {
        reason: format!(
            "{compiler} is from CUDA {wanted}, but {what} {version} ({origin}) {is} from CUDA {release}: they must be \
             from the same release"
        ),
        fix: release_fix(other, wanted),
    })
}

/// How to get a component of the wanted release. For a fetched toolkit, the user has to limit the search, because
/// variables and environments come before fetched toolkits.
fn release_fix(other: &Found, wanted: ToolkitVersion) -> String {
    let install = package(other, other.major).map_or_else(String::new, |package| {
        format!("install `{package}=={wanted}.*` beside it, or ")
    });
    format!(
        "{install}take one consistent set: `cargo cuda toolkit add {wanted}`, and `CUDA_BUILD_SOURCES=stored`"
    )
}

/// The conflict if NVRTC and its builtins have different releases. NVRTC opens only the
/// `libnvrtc-builtins.so.<major.minor>` of its own release.
fn builtins_conflict(nvrtc: &Found) -> Option<Conflict> {
    let index = nvrtc.component.facts().library_with_release?;
    let builtins = nvrtc.libraries.get(index)?;
    let release = release_in_file_name(builtins)?;
    let library = nvrtc.version.as_ref()?.release()?;
    (library != release).then(|| Conflict {
        reason: format!(
            "{} is from CUDA {library}, but its builtins ({}) are from CUDA {release}: NVRTC loads only builtins of \
             its own release",
            name(nvrtc),
            builtins.display()
        ),
        fix: release_fix(nvrtc, library),
    })
}

/// The conflict if the library of cudart is older than its headers. A program that is compiled with newer headers may
/// call functions that an older library does not export.
fn library_conflict(cudart: &Found) -> Option<Conflict> {
    let headers = cudart.release?;
    let library = cudart.version.as_ref()?.release()?;
    (library < headers).then(|| Conflict {
        reason: format!(
            "the headers of {} are from CUDA {headers}, but its library is from CUDA {library}",
            name(cudart)
        ),
        fix: release_fix(cudart, headers),
    })
}

/// Conflicts of an nvJitLink that is older than a component that uses it.
///
/// nvJitLink exports one set of names for each CUDA release (`__nvJitLinkCreate_12_9`). cuSPARSE of CUDA 12 uses the
/// names of its own release. cuSPARSE of CUDA 13 and cuFFT query the version of nvJitLink first. But they contain code
/// of their own release, which an older nvJitLink cannot read.
fn provider_conflicts(chosen: &[Found]) -> Vec<Conflict> {
    let conflict = |user: &Found, provider: &Found| {
        let (wanted, provided) = (release(user)?, release(provider)?);
        let mut used = edges(user.component, provider.major).into_iter();
        if provided >= wanted || !used.any(|(to, _)| to == provider.component) {
            return None;
        }
        Some(Conflict {
            reason: format!(
                "{} is from CUDA {wanted}, but {} is from CUDA {provided}: it must be at least as new as the component \
                 that uses it",
                name(user),
                name(provider)
            ),
            fix: release_fix(provider, wanted),
        })
    };
    let mut conflicts = Vec::new();
    for provider in chosen.iter().filter(|c| class(c) == Class::Provider) {
        for user in chosen {
            conflicts.extend(conflict(user, provider));
        }
    }
    conflicts
}

/// The conflict if the headers of a component require a newer release than the compiler's. Only components of the
/// class "own range" (CCCL) have such headers.
fn range_conflict(compiler: &Found, release: ToolkitVersion, other: &Found) -> Option<Conflict> {
    let component = other.component;
    let (since, oldest) = component.facts().oldest_release?;
    if other.version.as_ref()?.part(0) < since || release >= oldest {
        return None;
    }
    let package = package(other, release.major).map_or_else(String::new, |package| {
        format!(" (`{package}` in Python packages)")
    });
    Some(Conflict {
        reason: format!(
            "{} is from CUDA {release}, but the headers of {} require CUDA {oldest} or newer",
            name(compiler),
            name(other)
        ),
        fix: format!("take {component} before {since}.0{package}"),
    })
}

#[cfg(test)]
mod tests;

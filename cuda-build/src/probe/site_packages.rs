//! CUDA in Python wheels: a directory per component (CUDA 11 and 12), or one for all (13).

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{Absent, Skipped};
use super::prefix::{Prefix, Prefixes};
use super::{Found, Prober, Seen, Set, Unusable};
use crate::component::{Class, Component};
use crate::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use crate::version::{ToolkitVersion, Version};

/// Installed distributions: normalised name → version.
pub(super) type Installed = BTreeMap<String, Version>;

pub(super) fn probe(prober: &Prober<'_>, path: &Path) -> Seen {
    let installed = installed(prober, path);
    let mut seen = Seen::default();
    let mut prefixes = Prefixes::default();
    for major in OLDEST_MAJOR..=newest_major(prober, path) {
        let mut found: Vec<Found> = Vec::new();
        for component in Component::all() {
            found.extend(component_of(
                prober,
                path,
                &installed,
                &mut prefixes,
                component,
                major,
                &mut seen,
            ));
        }
        if !found.is_empty() {
            seen.sets.push(Set { major, found });
        }
    }
    seen.remarks
        .extend(unclaimed(prober, path, &installed, &mut prefixes, &seen));
    seen
}

/// What is whole and was passed over, because neither metadata nor its files tell its CUDA: `nvidia/`
/// copied without what lies beside it.
fn unclaimed(
    prober: &Prober<'_>,
    path: &Path,
    installed: &Installed,
    prefixes: &mut Prefixes,
    seen: &Seen,
) -> Option<String> {
    let majors = release::majors();
    let claimed: Vec<String> = Component::all()
        .flat_map(|component| majors.clone().map(move |major| (component, major)))
        .filter(|(component, major)| claim(installed, *component, *major).is_some())
        .filter_map(|(component, major)| directory_of(component, major))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for component in Component::all() {
        let known = seen.sets.iter().any(|set| set.get(component).is_some())
            || seen
                .unusable
                .iter()
                .any(|unusable| unusable.component == component);
        let there = majors.clone().filter(|_| !known).find_map(|major| {
            let directory = directory_of(component, major)?;
            let prefix = prefixes.at(prober, path.join(&directory));
            let passed_over = !claimed.contains(&directory)
                && !tells_major(prefix, prober, component, major, &directory)
                && prefix
                    .component(prober, component, major, &mut Skipped::default())
                    .is_ok();
            passed_over.then_some(directory)
        });
        names.extend(there.map(|directory| format!("{component} ({directory})")));
    }
    (!names.is_empty()).then(|| {
        format!(
            "no package metadata tells which CUDA these are for, so they are left out: {}; `*.dist-info` directories \
             belong beside `nvidia`",
            names.join(", ")
        )
    })
}

/// The newest major of the tables, or a newer one that a directory such as `nvidia/cu14` names.
fn newest_major(prober: &Prober<'_>, path: &Path) -> u32 {
    let named = prober.root.names(&path.join("nvidia"));
    let majors = named
        .iter()
        .filter_map(|name| name.to_str()?.strip_prefix("cu")?.parse::<u32>().ok());
    majors
        .filter(|major| *major < 100)
        .fold(NEWEST_MAJOR, u32::max)
}

fn component_of(
    prober: &Prober<'_>,
    path: &Path,
    installed: &Installed,
    prefixes: &mut Prefixes,
    component: Component,
    major: u32,
    seen: &mut Seen,
) -> Option<Found> {
    let directory = directory_of(component, major)?;
    let claim = claim(installed, component, major);
    let prefix = prefixes.at(prober, path.join(&directory));
    // CUDA 11 and 12 share directories: a file whose name does not tell the major counts for
    // the one whose package is installed.
    if claim.is_none() && !tells_major(prefix, prober, component, major, &directory) {
        return None;
    }
    let mut found = match prefix.component(prober, component, major, &mut Skipped::default()) {
        Ok(found) => found,
        Err(absent) => {
            if let Some((name, version)) = claim {
                let reason = explain(component, major, name, version, &absent);
                seen.unusable.push(Unusable {
                    component,
                    major,
                    reason,
                });
            } else if component == Component::Nvrtc && absent.something {
                let reason = format!(
                    "{directory} has no {}, so its NVRTC can't be used",
                    absent.missing
                );
                seen.unusable.push(Unusable {
                    component,
                    major,
                    reason,
                });
            }
            return None;
        }
    };
    if component == Component::Nvcc && found.tool("cudafe++").is_none() {
        seen.remarks
            .push(format!("{directory}/bin holds nvcc and no cudafe++"));
    }
    if component == Component::Nvcc {
        seen.remarks.extend(wrong_profile(prober, path, &directory));
    }
    if let Some((name, version)) = claim {
        found.toolkit = found.toolkit.or(claimed_release(&found, version));
        settle_claim(&mut found, name, version);
    }
    if component == Component::Cudart {
        settle_by_header(prober, prefix, &mut found, &mut seen.remarks);
    }
    Some(found)
}

/// The directory of a component's package. A major newer than the tables is expected to keep the newest layout.
pub(super) fn directory_of(component: Component, major: u32) -> Option<String> {
    let facts = component.facts();
    match facts.package_dir(major) {
        Some(directory) => Some(directory.to_owned()),
        None if major > NEWEST_MAJOR => Some(
            facts
                .package_dir(NEWEST_MAJOR)?
                .replace(&format!("cu{NEWEST_MAJOR}"), &format!("cu{major}")),
        ),
        None => None,
    }
}

/// A component's package, where that is installed.
pub(super) fn claim(
    installed: &Installed,
    component: Component,
    major: u32,
) -> Option<(&'static str, &Version)> {
    let facts = component.facts();
    let name = facts.package(major.min(NEWEST_MAJOR))?;
    Some((name, installed.get(name)?))
}

/// The CUDA release that a package's version names.
pub(super) fn claimed_release(found: &Found, version: &Version) -> Option<ToolkitVersion> {
    let release: Option<ToolkitVersion> = version.to_string().parse().ok();
    release
        .filter(|release| found.component.facts().follows_toolkit && release.major == found.major)
}

/// Version and evidence, as a package's metadata says.
pub(super) fn settle_claim(found: &mut Found, name: &str, version: &Version) {
    if found.component.facts().class != Class::OwnRange {
        found.version = Some(version.clone());
    }
    found.evidence = format!("{name} {version}: {}", found.evidence);
}

/// nvcc 13.0 to 13.2 look for libraries in `lib64`, and their wheels ship `lib`.
pub(super) fn wrong_profile(prober: &Prober<'_>, path: &Path, directory: &str) -> Option<String> {
    let root = path.join(directory);
    let profile = prober.root.text(&root.join("bin/nvcc.profile")).ok()?;
    let names_lib64 = profile.lines().any(|line| {
        line.trim_start().starts_with("LIBRARIES") && line.contains("/lib$(_TARGET_SIZE_)")
    });
    (names_lib64 && !prober.root.is_dir(&root.join("lib64"))).then(|| {
        format!(
            "{directory}/bin/nvcc.profile names `lib64`, which is not there: this nvcc can't link by itself"
        )
    })
}

/// The header counts: it is what a compiler will read, whatever the package says.
fn settle_by_header(
    prober: &Prober<'_>,
    prefix: &Prefix,
    found: &mut Found,
    remarks: &mut Vec<String>,
) {
    let Some((release, header)) = prefix.header_release(prober) else {
        return;
    };
    if let Some(claimed) = found.toolkit.filter(|claimed| *claimed != release) {
        remarks.push(format!(
            "package metadata says cudart {claimed}, {} says {release}; the header counts",
            header.display()
        ));
    }
    found.toolkit = Some(release);
}

/// Whether the files themselves show the major, without package metadata.
fn tells_major(
    prefix: &Prefix,
    prober: &Prober<'_>,
    component: Component,
    major: u32,
    directory: &str,
) -> bool {
    if directory.ends_with(&format!("cu{major}")) {
        return true;
    }
    let facts = component.facts();
    let by_soname = facts.soname(0, major).is_some_and(|soname| {
        facts.soname_tells_major(major)
            && prefix
                .lib
                .iter()
                .any(|lib| prober.root.is_file(&lib.join(soname)))
    });
    by_soname
        || (component == Component::Cudart
            && prefix
                .header_release(prober)
                .is_some_and(|(v, _)| v.major == major))
}

fn explain(
    component: Component,
    major: u32,
    name: &str,
    version: &Version,
    absent: &Absent,
) -> String {
    let missing = &absent.missing;
    if component == Component::Nvrtc && absent.something {
        return format!("{name} {version} has no {missing}, so its NVRTC can't be used");
    }
    if component == Component::Nvcc && !release::is_nvcc_packaged(major) {
        return format!(
            "{name} {version} holds ptxas and libnvvm but no nvcc: the wheels of CUDA {major} carry no compiler"
        );
    }
    format!(
        "{name} {version} is installed but holds no {missing} (an incomplete or damaged package, or a placeholder)"
    )
}

pub(super) fn installed(prober: &Prober<'_>, path: &Path) -> Installed {
    let mut installed = Installed::new();
    for name in prober.root.names(path) {
        let Some(stem) = name
            .to_str()
            .and_then(|name| name.strip_suffix(".dist-info"))
        else {
            continue;
        };
        let Some((name, version)) = stem.split_once('-') else {
            continue;
        };
        if let Ok(version) = version.parse() {
            installed.insert(name.to_ascii_lowercase().replace(['_', '.'], "-"), version);
        }
    }
    installed
}

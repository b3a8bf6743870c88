//! The search path of native modules (W04, W06, W07).

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_build::internal::release;

use super::Majors;
use super::sonames::{component_of, is_driver_library};
use crate::audit::check::{Finding, W04, W06, W07};
use crate::audit::facts::{Artifact, Library};
use crate::wheel::runpath::library_directory;

/// Parts of paths that exist only where a wheel is built.
const BUILD_MACHINE: [&str; 4] = ["stubs", ".rustup", ".cargo", "target"];

/// Where an entry of a search path leads.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A directory below site-packages.
    Inside(String),
    /// A directory relative to the module, but not below site-packages.
    Outside,
    /// Not relative to the module.
    NotRelative,
}

pub fn check(artifact: &Artifact, majors: &Majors, findings: &mut Vec<Finding>) {
    for library in &artifact.libraries {
        let elf = &library.elf;
        for entry in elf.rpath.iter().chain(&elf.runpath) {
            check_entry(artifact, library, entry, findings);
        }
        let places: Vec<String> = elf
            .search_path()
            .iter()
            .filter_map(|entry| inside(library, entry))
            .collect();
        check_majors(library, majors.of_module(library), &places, findings);
        // The path of a library that is audited alone leads to unknown directories.
        if artifact.package.is_some() {
            check_reach(
                artifact,
                library,
                majors.of_module(library),
                &places,
                findings,
            );
        }
    }
}

fn check_entry(artifact: &Artifact, library: &Library, entry: &str, findings: &mut Vec<Finding>) {
    let path = &library.path;
    let place = place(path, entry);
    if place == Place::NotRelative {
        let what = match entry.is_empty() {
            true => "an empty entry, which is the working directory".to_owned(),
            false => format!("`{entry}`, which is not relative to the module"),
        };
        findings.push(W04.error(format!("{path} has {what}, in its search path")));
    } else if entry.split('/').any(|part| BUILD_MACHINE.contains(&part)) {
        findings.push(W04.error(format!(
            "{path} has `{entry}` in its search path, a directory of the build machine"
        )));
    } else if place == Place::Outside && artifact.package.is_some() {
        findings.push(W04.warning(format!(
            "{path} has `{entry}` in its search path, which leaves site-packages"
        )));
    }
}

/// W07: directories of another major, or of several majors.
fn check_majors(
    library: &Library,
    major: Option<u32>,
    places: &[String],
    findings: &mut Vec<Finding>,
) {
    let of_places: Vec<(&String, BTreeSet<u32>)> = places
        .iter()
        .map(|place| (place, majors_of_directory(place)))
        .filter(|(_, majors)| !majors.is_empty())
        .collect();
    let path = &library.path;
    if let Some(major) = major {
        for (place, majors) in &of_places {
            if !majors.contains(&major) {
                let other = majors
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(" or ");
                findings.push(W07.error(format!(
                    "{path} is for CUDA {major}, and its search path leads to `{place}` of CUDA {other}"
                )));
            }
        }
        return;
    }
    let Some((first, majors)) = of_places.first() else {
        return;
    };
    if let Some((other, _)) = of_places
        .iter()
        .find(|(_, others)| others.is_disjoint(majors))
    {
        findings.push(W07.error(format!(
            "the search path of {path} leads to `{first}` and to `{other}`, which are for different CUDA majors"
        )));
    }
}

/// W06: libraries to which no entry of the search path leads.
fn check_reach(
    artifact: &Artifact,
    library: &Library,
    major: Option<u32>,
    places: &[String],
    findings: &mut Vec<Finding>,
) {
    if artifact.preloads || super::requirements::other_package(artifact, library).is_some() {
        return;
    }
    for soname in &library.elf.needed {
        let Some(component) = component_of(soname).filter(|_| !is_driver_library(soname)) else {
            continue;
        };
        if artifact.has_file(soname) {
            continue;
        }
        let directories: BTreeSet<String> = release::majors()
            .filter(|candidate| major.is_none_or(|major| *candidate == major))
            .filter_map(|major| library_directory(component, major))
            .collect();
        if places.iter().any(|place| directories.contains(place)) {
            continue;
        }
        let wanted = directories.first().map_or("", String::as_str);
        findings.push(W06.error(format!(
            "{} needs `{soname}`, and its search path does not lead to `{wanted}`",
            library.path
        )));
    }
}

fn inside(library: &Library, entry: &str) -> Option<String> {
    match place(&library.path, entry) {
        Place::Inside(directory) => Some(directory),
        _ => None,
    }
}

/// Where an entry leads for a module at `path` below site-packages.
fn place(path: &str, entry: &str) -> Place {
    let rest = entry
        .strip_prefix("$ORIGIN")
        .or_else(|| entry.strip_prefix("${ORIGIN}"));
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return Place::NotRelative;
    };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in rest
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part != ".." {
            parts.push(part);
        } else if parts.pop().is_none() {
            return Place::Outside;
        }
    }
    Place::Inside(parts.join("/"))
}

/// The CUDA majors whose packages have libraries in this directory.
fn majors_of_directory(directory: &str) -> BTreeSet<u32> {
    let of_major = |major: &u32| {
        Component::all()
            .any(|component| library_directory(component, *major).as_deref() == Some(directory))
    };
    release::majors().filter(of_major).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lead_to_places() {
        let module = "saxpy/deep/saxpy.abi3.so";
        for (entry, expected) in [
            ("$ORIGIN", Place::Inside("saxpy/deep".to_owned())),
            (
                "$ORIGIN/../../nvidia/cu13/lib/",
                Place::Inside("nvidia/cu13/lib".to_owned()),
            ),
            ("${ORIGIN}/../.", Place::Inside("saxpy".to_owned())),
            ("$ORIGIN/../../../lib", Place::Outside),
            ("$ORIGINAL/x", Place::NotRelative),
            ("/usr/lib", Place::NotRelative),
            ("", Place::NotRelative),
        ] {
            assert_eq!(place(module, entry), expected, "{entry}");
        }
    }

    #[test]
    fn directories_belong_to_majors() {
        let majors = |directory| Vec::from_iter(majors_of_directory(directory));
        assert_eq!(majors("nvidia/cu13/lib"), [13]);
        assert_eq!(majors("nvidia/cublas/lib"), [11, 12]);
        assert_eq!(majors("nvidia/cudnn/lib"), [11, 12, 13]);
        assert!(majors("saxpy.libs").is_empty());
    }
}

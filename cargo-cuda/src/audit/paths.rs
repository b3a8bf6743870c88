//! The search path of native modules (W04, W06, W07).

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_find_core::release;

use super::artifact::{Artifact, Majors, NativeModule};
use super::check::Severity::{Error, Warning};
use super::check::{Findings, W04, W06, W07};
use super::requirements::foreign_package_of_module;
use crate::package::nvidia::library_directory;

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

pub fn check(artifact: &Artifact, majors: &Majors, findings: &mut Findings) {
    for module in &artifact.modules {
        let (elf, path) = (&module.elf, &module.path);
        for entry in elf.rpath.iter().chain(&elf.runpath) {
            let place = place(path, entry);
            if place == Place::NotRelative {
                let text = format!("`{entry}` in the search path is not relative to the module");
                findings.add_file(&W04, Error, path, text);
            } else if place == Place::Outside && artifact.is_wheel() {
                let text = format!("`{entry}` in the search path leaves site-packages");
                findings.add_file(&W04, Warning, path, text);
            }
        }
        let entries = elf.search_path().iter();
        let directories: Vec<String> = entries
            .filter_map(|entry| match place(path, entry) {
                Place::Inside(directory) => Some(directory),
                _ => None,
            })
            .collect();
        let major = majors.of_module(module);
        check_majors(module, major, &directories, findings);
        // The path of a library that is audited alone leads to unknown directories.
        if artifact.is_wheel() {
            check_reach(artifact, module, major, &directories, findings);
        }
    }
}

/// W07: directories of another major, or of several majors.
fn check_majors(
    module: &NativeModule,
    major: Option<u32>,
    directories: &[String],
    findings: &mut Findings,
) {
    let directories = directories.iter();
    let mut of_cuda: Vec<(&String, BTreeSet<u32>)> = directories
        .map(|directory| (directory, majors_of_directory(directory)))
        .collect();
    of_cuda.retain(|(_, majors)| !majors.is_empty());
    for (directory, majors) in &of_cuda {
        let other = match major {
            Some(major) if !majors.contains(&major) => format!("the module is for CUDA {major}"),
            None if of_cuda[0].1.is_disjoint(majors) => "to another CUDA".to_owned(),
            _ => continue,
        };
        let majors = Vec::from_iter(majors.iter().map(u32::to_string)).join(" or ");
        let text = format!("the search path leads to `{directory}` of CUDA {majors}, and {other}");
        findings.add_file(&W07, Error, &module.path, text);
    }
}

/// W06: libraries that are not reachable through the search path.
fn check_reach(
    artifact: &Artifact,
    module: &NativeModule,
    major: Option<u32>,
    directories: &[String],
    findings: &mut Findings,
) {
    if artifact.preloads || foreign_package_of_module(artifact, module).is_some() {
        return;
    }
    for (soname, component) in artifact.needed_components(module) {
        let majors = release::majors().filter(|other| major.is_none_or(|major| *other == major));
        let wanted: BTreeSet<String> = majors
            .filter_map(|major| library_directory(component, major))
            .collect();
        if !directories
            .iter()
            .any(|directory| wanted.contains(directory))
        {
            let wanted = wanted.first().map_or("", String::as_str);
            let text = format!("needs `{soname}`, and the search path does not lead to `{wanted}`");
            findings.add_file(&W06, Error, &module.path, text);
        }
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
    let is_of = |major: u32| {
        Component::all()
            .any(|component| library_directory(component, major).as_deref() == Some(directory))
    };
    release::majors().filter(|major| is_of(*major)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lead_to_places() {
        let module = "saxpy/deep/saxpy.abi3.so";
        let inside = |directory: &str| Place::Inside(directory.to_owned());
        for (entry, expected) in [
            ("$ORIGIN", inside("saxpy/deep")),
            ("$ORIGIN/../../nvidia/cu13/lib/", inside("nvidia/cu13/lib")),
            ("${ORIGIN}/../.", inside("saxpy")),
            ("$ORIGIN/../../target/stubs", inside("target/stubs")),
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

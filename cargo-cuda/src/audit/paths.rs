//! The search path of native modules (W04, W06, W07).

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_find_core::release;

use super::artifact::{Artifact, NativeModule, file_name};
use super::check::Severity::{Error, Warning};
use super::check::{Audit, W04, W06, W07};
use super::requirements::links_another_package;
use crate::output::joined;
use crate::package::nvidia::{library_directory, majors_of_soname};

/// Where an entry of a search path leads.
#[derive(Debug, PartialEq, Eq)]
enum SearchPathEntry {
    /// A directory below site-packages.
    Inside(String),
    /// A directory relative to the module, but not below site-packages.
    Outside,
    /// Not relative to the module.
    NotRelative,
}

pub fn check(audit: &mut Audit<'_>) {
    let is_wheel = audit.artifact.is_wheel();
    for module in &audit.artifact.modules {
        let (elf, path) = (&module.elf, &module.path);
        for entry in elf.rpath.iter().chain(&elf.runpath) {
            let place = place(path, entry);
            if place == SearchPathEntry::NotRelative {
                let text = format!("`{entry}` in the search path is not relative to the module");
                audit.add_file(&W04, Error, path, text);
            } else if place == SearchPathEntry::Outside && is_wheel {
                let text = format!("`{entry}` in the search path leaves site-packages");
                audit.add_file(&W04, Warning, path, text);
            }
        }
        check_majors(audit, module, &own_directories(module));
        // The path of a library that is audited alone leads to unknown directories.
        if is_wheel {
            let directories = searched(audit.artifact, module, MAX_DEPENDENTS);
            check_reach(audit, module, &directories);
        }
    }
}

/// How many libraries may inherit a search path from one another.
const MAX_DEPENDENTS: usize = 8;

/// The directories below site-packages to which the search path of a module leads.
fn own_directories(module: &NativeModule) -> Vec<String> {
    let entries = module.elf.search_path().iter();
    let places = entries.map(|entry| place(&module.path, entry));
    let inside = places.filter_map(|place| match place {
        SearchPathEntry::Inside(directory) => Some(directory),
        _ => None,
    });
    inside.collect()
}

/// The directories in which the loader looks for what a module needs: its own, and without a RUNPATH also those in the
/// RPATH of what needs it. If several modules need it, those that all have.
fn searched(artifact: &Artifact, module: &NativeModule, depth: usize) -> Vec<String> {
    let mut directories = own_directories(module);
    let name = file_name(&module.path);
    let needs_it = |other: &&NativeModule| other.elf.needed.iter().any(|soname| soname == name);
    if depth == 0 || !module.elf.runpath.is_empty() {
        return directories;
    }
    let dependents = artifact.modules.iter().filter(needs_it);
    let inherited = dependents.map(|other| match other.elf.runpath.is_empty() {
        true => searched(artifact, other, depth - 1),
        false => Vec::new(),
    });
    let common = inherited.reduce(|mut all, other| {
        all.retain(|directory| other.contains(directory));
        all
    });
    directories.extend(common.into_iter().flatten());
    directories
}

/// W07: directories of another major, or of several majors. It is an error if a needed library is found there first, or
/// if no directory is of the own major.
fn check_majors(audit: &mut Audit<'_>, module: &NativeModule, directories: &[String]) {
    let major = audit.majors.of_module(module);
    let directories = directories.iter();
    let mut of_cuda = Vec::from_iter(directories.map(|it| (it, majors_of_directory(it))));
    of_cuda.retain(|(_, majors)| !majors.is_empty());
    let is_own = |majors: &BTreeSet<u32>| major.is_some_and(|own| majors.contains(&own));
    let own = of_cuda.iter().position(|(_, majors)| is_own(majors));
    for (index, (directory, majors)) in of_cuda.iter().enumerate() {
        let other = match major {
            Some(major) if !majors.contains(&major) => format!("the module is for CUDA {major}"),
            None if of_cuda[0].1.is_disjoint(majors) => "to another CUDA".to_owned(),
            _ => continue,
        };
        let mut needed = audit.artifact.needed_components(module);
        let can_load = needed.any(|(soname, component)| {
            let mut of = majors_of_soname(soname).into_iter();
            component.facts().is_product() || of.any(|of| majors.contains(&of))
        });
        let severity = match own {
            Some(own) if own < index || !can_load => Warning,
            _ => Error,
        };
        let majors = joined(majors, " or ");
        let text = format!("the search path leads to `{directory}` of CUDA {majors}, and {other}");
        audit.add_file(&W07, severity, &module.path, text);
    }
}

/// W06: libraries that are not reachable through the search path.
fn check_reach(audit: &mut Audit<'_>, module: &NativeModule, directories: &[String]) {
    let (artifact, major) = (audit.artifact, audit.majors.of_module(module));
    if artifact.preloads || links_another_package(artifact, module) {
        return;
    }
    for (soname, component) in artifact.needed_components(module) {
        let majors = release::majors().filter(|other| major.is_none_or(|major| *other == major));
        let places = majors.filter_map(|major| library_directory(component, major));
        let wanted: BTreeSet<String> = places.collect();
        if !directories.iter().any(|it| wanted.contains(it)) {
            let wanted = wanted.first().map_or("", String::as_str);
            let text = format!("needs `{soname}`, and the search path does not lead to `{wanted}`");
            audit.add_file(&W06, Error, &module.path, text);
        }
    }
}

/// Where an entry leads for a module at `path` below site-packages.
fn place(path: &str, entry: &str) -> SearchPathEntry {
    let rest = entry.strip_prefix("$ORIGIN");
    let rest = rest.or_else(|| entry.strip_prefix("${ORIGIN}"));
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return SearchPathEntry::NotRelative;
    };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.is_empty() => return SearchPathEntry::Outside,
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    SearchPathEntry::Inside(parts.join("/"))
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
        let inside = |directory: &str| SearchPathEntry::Inside(directory.to_owned());
        for (entry, expected) in [
            ("$ORIGIN", inside("saxpy/deep")),
            ("$ORIGIN/../../nvidia/cu13/lib/", inside("nvidia/cu13/lib")),
            ("${ORIGIN}/../.", inside("saxpy")),
            ("$ORIGIN/../../target/stubs", inside("target/stubs")),
            ("$ORIGIN/../../../lib", SearchPathEntry::Outside),
            ("$ORIGINAL/x", SearchPathEntry::NotRelative),
            ("/usr/lib", SearchPathEntry::NotRelative),
            ("", SearchPathEntry::NotRelative),
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

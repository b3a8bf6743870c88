//! The search path of native modules (W04, W06, W07).

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_find_core::release;

use super::artifact::NativeModule;
use super::check::Severity::{Error, Warning};
use super::check::{Audit, W04, W06, W07};
use super::requirements::foreign_package_of_module;
use crate::output::joined;
use crate::package::nvidia::library_directory;

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
        let mut directories = Vec::new();
        for entry in elf.search_path() {
            if let SearchPathEntry::Inside(directory) = place(path, entry) {
                directories.push(directory);
            }
        }
        check_majors(audit, module, &directories);
        // The path of a library that is audited alone leads to unknown directories.
        if is_wheel {
            check_reach(audit, module, &directories);
        }
    }
}

/// W07: directories of another major, or of several majors.
fn check_majors(audit: &mut Audit<'_>, module: &NativeModule, directories: &[String]) {
    let major = audit.majors.of_module(module);
    let directories = directories.iter();
    let mut of_cuda = Vec::from_iter(directories.map(|it| (it, majors_of_directory(it))));
    of_cuda.retain(|(_, majors)| !majors.is_empty());
    for (directory, majors) in &of_cuda {
        let other = match major {
            Some(major) if !majors.contains(&major) => format!("the module is for CUDA {major}"),
            None if of_cuda[0].1.is_disjoint(majors) => "to another CUDA".to_owned(),
            _ => continue,
        };
        let majors = joined(majors, " or ");
        let text = format!("the search path leads to `{directory}` of CUDA {majors}, and {other}");
        audit.add_file(&W07, Error, &module.path, text);
    }
}

/// W06: libraries that are not reachable through the search path.
fn check_reach(audit: &mut Audit<'_>, module: &NativeModule, directories: &[String]) {
    let (artifact, major) = (audit.artifact, audit.majors.of_module(module));
    if artifact.preloads || foreign_package_of_module(artifact, module).is_some() {
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

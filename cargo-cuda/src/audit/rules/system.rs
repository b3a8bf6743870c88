//! What a native module needs from the system (W11, W16, W20).

use std::collections::{BTreeMap, BTreeSet};

use super::requirements::{other_package, provides};
use super::sonames::is_driver_library;
use crate::audit::check::{Finding, W11, W16, W20};
use crate::audit::facts::{Artifact, Library, files_as_text};
use crate::wheel::dependencies;
use crate::wheel::filename::FileName;
use crate::wheel::foreign::MANYLINUX;

/// The newest version of libstdc++'s symbols that each manylinux tag allows: the second number of the tag
/// (`manylinux_2_28`), and the third number of `GLIBCXX_3.4.25`. A tag without a row has the value of the row before it.
const GLIBCXX: &[(u32, u32)] = &[
    (5, 8),
    (12, 13),
    (17, 19),
    (24, 22),
    (27, 24),
    (31, 28),
    (34, 29),
    (35, 30),
    (39, 33),
];

pub fn check(artifact: &Artifact, findings: &mut Vec<Finding>) {
    for library in &artifact.libraries {
        check_versions(library, findings);
        check_flags(library, findings);
    }
    let file_name = artifact
        .package
        .as_ref()
        .and_then(|package| package.file_name.as_ref());
    if let Some(file_name) = file_name {
        check_tag(artifact, file_name, findings);
    }
}

/// W11: libraries in the version table that are not in `NEEDED`.
fn check_versions(library: &Library, findings: &mut Vec<Finding>) {
    let files: BTreeSet<&String> = library.elf.versions.iter().map(|(file, _)| file).collect();
    for file in files {
        if !library.elf.needed.contains(file) {
            findings.push(W11.error(format!(
                "{} needs symbol versions of `{file}`, which is not among its needed libraries",
                library.path
            )));
        }
    }
}

/// W20: what no native module may have.
fn check_flags(library: &Library, findings: &mut Vec<Finding>) {
    let path = &library.path;
    for soname in &library.elf.needed {
        if soname.starts_with("libpython") {
            findings.push(W20.error(format!("{path} is linked to `{soname}`")));
        }
    }
    if library.elf.text_relocations {
        findings.push(W20.error(format!("{path} has text relocations")));
    }
    if library.elf.executable_stack {
        findings.push(W20.error(format!("{path} requires an executable stack")));
    }
}

/// W16: the promises of the platform tag.
fn check_tag(artifact: &Artifact, file_name: &FileName, findings: &mut Vec<Finding>) {
    let platforms = file_name.rest.rsplit('-').next().unwrap_or_default();
    if artifact.libraries.is_empty() || platforms == "any" {
        return;
    }
    let machines: BTreeSet<&str> = artifact.libraries.iter().map(|l| l.elf.machine).collect();
    for machine in machines.into_iter().filter(|machine| !machine.is_empty()) {
        if !platforms
            .split('.')
            .any(|platform| platform.ends_with(machine))
        {
            findings.push(W16.error(format!(
                "the native modules are for {machine}, and the tag is `{platforms}`"
            )));
        }
    }
    let Some(glibc) = platforms.split('.').filter_map(glibc_of_tag).min() else {
        findings.push(W16.warning(format!(
            "the tag `{platforms}` is not a manylinux tag, so indexes refuse the wheel"
        )));
        return;
    };
    let limits = [
        ("GLIBC_", vec![2, glibc]),
        ("GLIBCXX_", vec![3, 4, glibcxx_of(glibc)]),
    ];
    for (prefix, limit) in &limits {
        // The modules of one wheel usually need the same version.
        let mut too_new: BTreeMap<Vec<u32>, Vec<&str>> = BTreeMap::new();
        for library in &artifact.libraries {
            let versions = library.elf.versions.iter();
            // Copies of libstdc++ in the wheel come with their own versions.
            let versions = versions.filter(|(file, _)| !artifact.has_file(file));
            let newest = versions
                .filter_map(|(_, version)| numbers(version.strip_prefix(prefix)?))
                .max();
            if let Some(newest) = newest.filter(|newest| newest > limit) {
                too_new.entry(newest).or_default().push(&library.path);
            }
        }
        for (newest, paths) in too_new {
            findings.push(W16.error(format!(
                "{} {prefix}{}, newer than {prefix}{} of the tag `{platforms}`",
                needed_by(&paths),
                dotted(&newest),
                dotted(limit)
            )));
        }
    }
    check_needed(artifact, findings);
}

/// W16: libraries that neither the wheel nor every system of the tag has.
fn check_needed(artifact: &Artifact, findings: &mut Vec<Finding>) {
    let package = artifact.package.as_ref();
    let is_expected = |soname: &String| {
        MANYLINUX.contains(&soname.as_str())
            || dependencies::is_nvidia_library(soname)
            || is_driver_library(soname)
            || soname.starts_with("libpython")
            || artifact.has_file(soname)
            || package.is_some_and(|package| provides(package, soname).is_some())
    };
    // Several modules usually need the same library.
    let mut missing: BTreeMap<&String, Vec<&Library>> = BTreeMap::new();
    for library in &artifact.libraries {
        for soname in library.elf.needed.iter().filter(|s| !is_expected(s)) {
            missing.entry(soname).or_default().push(library);
        }
    }
    for (soname, libraries) in missing {
        let paths: Vec<&str> = libraries.iter().map(|l| l.path.as_str()).collect();
        let needs = format!(
            "{} `{soname}`, which neither the wheel nor every system of the tag has",
            needed_by(&paths)
        );
        let mut others = libraries.iter().map(|l| other_package(artifact, l));
        findings.push(match others.clone().flatten().next() {
            Some(other) if others.all(|other| other.is_some()) => W16.note(format!(
                "{needs}, but a requirement of `{other}` may bring it"
            )),
            _ => W16.warning(needs),
        });
    }
}

/// `a.so needs`, `a.so and b.so need`.
fn needed_by(paths: &[&str]) -> String {
    let verb = if paths.len() == 1 { "needs" } else { "need" };
    format!("{} {verb}", files_as_text(paths))
}

/// The second number of the glibc version in a tag: 28 of `manylinux_2_28_x86_64`.
fn glibc_of_tag(platform: &str) -> Option<u32> {
    for (legacy, minor) in [
        ("manylinux1_", 5),
        ("manylinux2010_", 12),
        ("manylinux2014_", 17),
    ] {
        if platform.starts_with(legacy) {
            return Some(minor);
        }
    }
    platform
        .strip_prefix("manylinux_2_")?
        .split('_')
        .next()?
        .parse()
        .ok()
}

fn glibcxx_of(glibc: u32) -> u32 {
    let known = GLIBCXX.iter().rev().find(|(minor, _)| *minor <= glibc);
    known.map_or(GLIBCXX[0].1, |(_, version)| *version)
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

fn dotted(numbers: &[u32]) -> String {
    numbers
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_limits() {
        assert_eq!(glibc_of_tag("manylinux_2_28_x86_64"), Some(28));
        assert_eq!(glibc_of_tag("manylinux2014_aarch64"), Some(17));
        assert_eq!(glibc_of_tag("linux_x86_64"), None);
        assert_eq!(glibcxx_of(28), 24);
        assert_eq!(glibcxx_of(36), 30);
        assert!(numbers("2.9") < numbers("2.17"));
    }
}

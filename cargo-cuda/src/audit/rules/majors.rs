//! The CUDA major that each part of an artifact is for (W08).

use std::collections::BTreeSet;

use cuda_build::internal::release::NEWEST_MAJOR;

use super::sonames::majors_of_soname;
use crate::audit::check::{Finding, W08};
use crate::audit::facts::{Artifact, Library};
use crate::requirement::major_of_word;

/// The CUDA majors that the parts of an artifact name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Majors {
    /// From the name of the distribution: 12 of `saxpy-cu12`.
    pub name: Option<u32>,
    /// From the requirements that hold without an extra.
    pub requirements: BTreeSet<u32>,
    /// From the SONAMEs that the native modules need.
    pub libraries: BTreeSet<u32>,
}

impl Majors {
    pub fn of(artifact: &Artifact) -> Self {
        let package = artifact.package.as_ref();
        let requires = package.map_or(&[][..], |package| &package.requires);
        let required = requires
            .iter()
            .filter(|requirement| !requirement.is_optional());
        Self {
            name: of_name(artifact.name()),
            requirements: required
                .filter_map(|requirement| requirement.cuda_major())
                .collect(),
            libraries: artifact.libraries.iter().flat_map(of_library).collect(),
        }
    }

    /// The major of a native module: from its SONAMEs, else from the rest of the artifact. `None` if nothing names one.
    pub fn of_module(&self, library: &Library) -> Option<u32> {
        let one = |majors: &BTreeSet<u32>| match majors.len() {
            1 => majors.first().copied(),
            _ => None,
        };
        one(&of_library(library))
            .or(self.name)
            .or_else(|| one(&self.libraries))
            .or_else(|| one(&self.requirements))
    }

    /// The major by which device code is judged.
    pub fn of_code(&self) -> u32 {
        let named = [
            self.libraries.last(),
            self.name.as_ref(),
            self.requirements.last(),
        ];
        named
            .into_iter()
            .flatten()
            .next()
            .copied()
            .unwrap_or(NEWEST_MAJOR)
    }
}

/// The majors of the SONAMEs that exist for one major only.
fn of_library(library: &Library) -> BTreeSet<u32> {
    let needed = library.elf.needed.iter();
    needed
        .filter_map(|soname| match majors_of_soname(soname)[..] {
            [major] => Some(major),
            _ => None,
        })
        .collect()
}

/// The major in the name of a distribution: `saxpy-cu12`, `cupy-cuda13x`, `jax-cuda12-plugin`, `torch-cu118`.
fn of_name(name: &str) -> Option<u32> {
    name.split('-').skip(1).find_map(major_of_word)
}

pub fn check(artifact: &Artifact, majors: &Majors, findings: &mut Vec<Finding>) {
    for library in &artifact.libraries {
        let own = of_library(library);
        if own.len() > 1 {
            findings.push(W08.error(format!(
                "{} needs libraries of CUDA {}",
                library.path,
                list(&own, " and of CUDA ")
            )));
        }
    }
    let Some(name) = majors.name else {
        let disagree = majors.libraries.is_disjoint(&majors.requirements)
            && !majors.libraries.is_empty()
            && !majors.requirements.is_empty();
        if disagree {
            findings.push(W08.error(format!(
                "the native modules are for CUDA {}, and the requirements bring CUDA {}",
                list(&majors.libraries, ", "),
                list(&majors.requirements, ", ")
            )));
        }
        return;
    };
    let mut others = Vec::new();
    for (what, found) in [
        ("the native modules are", &majors.libraries),
        ("the requirements are", &majors.requirements),
    ] {
        if !found.is_empty() && !found.contains(&name) {
            others.push(format!("{what} for CUDA {}", list(found, ", ")));
        }
    }
    if !others.is_empty() {
        findings.push(W08.error(format!(
            "the name `{}` is for CUDA {name}, but {}",
            artifact.name(),
            others.join(", and ")
        )));
    }
}

fn list(majors: &BTreeSet<u32>, separator: &str) -> String {
    majors
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_majors() {
        for (name, major) in [
            ("saxpy-cu12", Some(12)),
            ("cupy-cuda13x", Some(13)),
            ("jax-cuda12-plugin", Some(12)),
            ("thing-cu118", Some(11)),
            ("cupy", None),
            ("cu12", None),
            ("saxpy-cuda", None),
            ("mistralrs-cuda", None),
            ("a-cube2", None),
        ] {
            assert_eq!(of_name(name), major, "{name}");
        }
    }
}

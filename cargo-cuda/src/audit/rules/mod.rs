//! The checks as functions from facts to findings.

mod device;
mod libraries;
mod lower_bounds;
mod majors;
mod package;
mod paths;
mod requirements;
mod sonames;
mod system;

pub use device::files as device_files;
pub use majors::Majors;
pub use sonames::is_driver_library;

use super::check::Finding;
use super::facts::Artifact;

/// What the checks find in an artifact, in the order of the codes.
pub fn findings(artifact: &Artifact) -> Vec<Finding> {
    let majors = Majors::of(artifact);
    let mut findings = Vec::new();
    libraries::check(artifact, &mut findings);
    paths::check(artifact, &majors, &mut findings);
    requirements::check(artifact, &majors, &mut findings);
    majors::check(artifact, &majors, &mut findings);
    system::check(artifact, &mut findings);
    device::check(artifact, &majors, &mut findings);
    package::check(artifact, &mut findings);
    findings.sort_by(|a, b| (a.code, &a.message).cmp(&(b.code, &b.message)));
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::check::Severity;
    use crate::audit::facts::{Library, Package};
    use crate::requirement::Requirement;
    use crate::wheel::elf::ElfFacts;
    use crate::wheel::filename::FileName;

    /// A wheel with one module.
    fn artifact(name: &str, requires: &[&str], needed: &[&str], rpath: &[&str]) -> Artifact {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let elf = ElfFacts {
            needed: owned(needed),
            rpath: owned(rpath),
            ..ElfFacts::default()
        };
        Artifact {
            package: Some(Package {
                name: name.to_owned(),
                requires: requires
                    .iter()
                    .map(|text| Requirement::parse(text).unwrap())
                    .collect(),
                ..Package::default()
            }),
            libraries: vec![Library {
                path: "saxpy/saxpy.so".to_owned(),
                elf,
            }],
            ..Artifact::default()
        }
    }

    fn codes(artifact: &Artifact) -> Vec<&'static str> {
        findings(artifact)
            .iter()
            .map(|finding| finding.code)
            .collect()
    }

    #[test]
    fn libraries_of_other_packages_bring_their_own() {
        let needed = ["libtorch_cuda.so", "libc10.so", "libcudart.so.12"];
        let with_torch = artifact("saxpy", &["torch"], &needed, &[]);
        assert!(codes(&with_torch).is_empty(), "{:?}", findings(&with_torch));
        let without = artifact("saxpy", &["numpy"], &needed, &[]);
        assert_eq!(codes(&without), ["W05", "W06"]);
        assert_eq!(findings(&without)[0].severity, Severity::Error);
        let sibling = artifact(
            "pyrmm-cu12",
            &["librmm-cu12==26.*"],
            &["librmm.so", "libcudart.so.12"],
            &[],
        );
        assert!(codes(&sibling).is_empty());
    }

    #[test]
    fn libraries_of_requirements_of_requirements_are_notes() {
        let mut wheel = artifact(
            "rmm-cu12",
            &["librmm-cu12==26.*"],
            &["librmm.so", "librapids_logger.so", "libcublas.so.12"],
            &["$ORIGIN"],
        );
        let name = "rmm_cu12-26.10.0-cp311-abi3-manylinux_2_28_x86_64.whl";
        let set_name = |wheel: &mut Artifact| {
            wheel.package.as_mut().unwrap().file_name = FileName::parse(name);
        };
        set_name(&mut wheel);
        // The second module needs the same library.
        let mut second = wheel.libraries[0].clone();
        second.path = "saxpy/second.so".to_owned();
        wheel.libraries.push(second);
        let found = findings(&wheel);
        let text = "saxpy/saxpy.so and saxpy/second.so need `librapids_logger.so`, which neither the wheel nor every \
                    system of the tag has, but a requirement of `librmm-cu12` may bring it";
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].severity, found[0].message.as_str()),
            (Severity::Note, text)
        );

        let mut wheel = artifact("saxpy", &["numpy"], &["librapids_logger.so"], &[]);
        set_name(&mut wheel);
        let found = findings(&wheel);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
    }

    #[test]
    fn packages_for_the_same_major_may_bring_cuda() {
        let severity = |requirement: &str| {
            let wheel = artifact("saxpy", &[requirement], &["libcublas.so.12"], &[]);
            findings(&wheel)
                .iter()
                .find(|finding| finding.code == "W05")
                .map(|finding| finding.severity)
        };
        for (requirement, expected) in [
            ("torch", Some(Severity::Note)),
            ("cupy-cuda12x", Some(Severity::Note)),
            ("numpy", Some(Severity::Error)),
            ("cupy-cuda12x; extra == 'plot'", Some(Severity::Error)),
            ("nvidia-cuda-runtime-cu12", Some(Severity::Error)),
            ("nvidia-cudnn-cu12", None),
            ("nvidia-cusolver-cu12", None),
        ] {
            assert_eq!(severity(requirement), expected, "{requirement}");
        }
    }

    #[test]
    fn paths_of_two_majors_are_found_without_a_major() {
        let paths = ["$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../nvidia/curand/lib"];
        let ambiguous = artifact("saxpy", &[], &["libcurand.so.10"], &paths);
        assert_eq!(codes(&ambiguous), ["W07"]);
        let one = artifact("saxpy", &[], &["libcurand.so.10"], &paths[..1]);
        assert!(codes(&one).is_empty());
    }

    #[test]
    fn nothing_of_nvidia_has_no_findings() {
        assert!(codes(&Artifact::default()).is_empty());
        let plain = artifact("saxpy", &["numpy"], &["libc.so.6"], &[]);
        assert!(codes(&plain).is_empty());
    }
}

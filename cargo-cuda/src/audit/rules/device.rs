//! Device code (W13, W14, W15).

use std::collections::BTreeMap;

use cuda_build::Capability;

use super::Majors;
use crate::audit::check::{Finding, W13, W14, W15};
use crate::audit::device::{DeviceCode, Image};
use crate::audit::facts::{Artifact, files_as_text};
use crate::store::human_size;

/// Uncompressed SASS up to this size is not reported.
const LARGE: u64 = 1 << 20;

pub fn check(artifact: &Artifact, majors: &Majors, findings: &mut Vec<Finding>) {
    // Files that have code for the same GPUs are reported once.
    let mut groups: BTreeMap<Vec<Image>, (Vec<&str>, u32, &DeviceCode)> = BTreeMap::new();
    for (path, code, major) in files(artifact, majors) {
        if code.relocatable > 0 {
            findings.push(W15.note(format!(
                "{path} has {} of relocatable device code, which is linked already",
                human_size(code.relocatable)
            )));
        }
        if code.uncompressed >= LARGE {
            findings.push(W15.note(format!(
                "{path} has {} of SASS without compression",
                human_size(code.uncompressed)
            )));
        }
        let images: Vec<Image> = code.images.keys().copied().collect();
        if !images.is_empty() {
            groups
                .entry(images)
                .or_insert_with(|| (Vec::new(), major, code))
                .0
                .push(path);
        }
    }
    for (paths, major, code) in groups.values() {
        let path = files_as_text(paths);
        let mut gaps = list(&code.gaps(*major));
        if !code.runs_on_future() {
            gaps.push("newer than the known ones".to_owned());
        }
        if !gaps.is_empty() {
            findings.push(W13.warning(format!("{path} has no code for GPUs {}", gaps.join(", "))));
        }
        let missing = list(&code.without_fallback(*major));
        if !missing.is_empty() {
            findings.push(W14.warning(format!(
                "{path} has code for {} and no portable code for the same GPU",
                missing.join(", ")
            )));
        }
    }
}

/// The device code of each file, with the CUDA major that compiled it.
pub fn files<'a>(
    artifact: &'a Artifact,
    majors: &'a Majors,
) -> impl Iterator<Item = (&'a str, &'a DeviceCode, u32)> {
    let libraries = artifact.libraries.iter().map(|library| {
        let major = majors.of_module(library).unwrap_or(majors.of_code());
        (library.path.as_str(), &library.elf.device, major)
    });
    let others = artifact.device_files.iter();
    libraries.chain(others.map(|(path, code)| (path.as_str(), code, majors.of_code())))
}

fn list(capabilities: &[Capability]) -> Vec<String> {
    capabilities.iter().map(ToString::to_string).collect()
}

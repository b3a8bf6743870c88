//! The wheel as a package (W17, W18, W19).

use std::collections::BTreeSet;

use crate::audit::check::{Finding, W17, W18, W19};
use crate::audit::facts::{Artifact, Package};
use crate::requirement::major_of_word;
use crate::store::human_size;

/// The size of a file that indexes accept by default.
const MAX_SIZE: u64 = 100 << 20;

/// The size from which on a wheel is near the limit.
const LARGE: u64 = 60 << 20;

pub fn check(artifact: &Artifact, findings: &mut Vec<Finding>) {
    for (path, reason) in &artifact.unreadable {
        findings.push(W18.error(format!("{path}: {reason}")));
    }
    let Some(package) = &artifact.package else {
        return;
    };
    findings.extend(package.errors.iter().map(|text| W18.error(text.clone())));
    findings.extend(
        package
            .warnings
            .iter()
            .map(|text| W18.warning(text.clone())),
    );
    if package.file_name.is_some() {
        check_size(artifact, findings);
    }
    check_import_name(artifact, package, findings);
}

fn check_size(artifact: &Artifact, findings: &mut Vec<Finding>) {
    let mut largest: Vec<_> = artifact.files.iter().collect();
    largest.sort_by_key(|file| std::cmp::Reverse(file.size));
    let largest: Vec<String> = largest
        .iter()
        .take(3)
        .map(|file| format!("{} ({})", file.path, human_size(file.size)))
        .collect();
    let size = human_size(artifact.size);
    let largest = largest.join(", ");
    if artifact.size > MAX_SIZE {
        findings.push(W17.error(format!(
            "the wheel has {size}, more than the 100 MiB that indexes accept; the largest files: {largest}"
        )));
    } else if artifact.size > LARGE {
        findings.push(W17.warning(format!(
            "the wheel has {size}, and indexes accept 100 MiB; the largest files: {largest}"
        )));
    }
}

/// W19: an import package that another distribution may have too.
fn check_import_name(artifact: &Artifact, package: &Package, findings: &mut Vec<Finding>) {
    // NVIDIA's packages share the directory `nvidia` on purpose.
    if package.name.starts_with("nvidia-") {
        return;
    }
    let parts = package
        .name
        .split('-')
        .filter(|part| major_of_word(part).is_none());
    let own = parts.collect::<Vec<_>>().join("_");
    let is_metadata = |top: &str| top.ends_with(".dist-info") || top.ends_with(".data");
    let is_module = |path: &str| path.ends_with(".so") || path.ends_with(".py");
    let mut foreign = BTreeSet::new();
    for file in &artifact.files {
        let Some((top, rest)) = file.path.split_once('/') else {
            continue;
        };
        if is_metadata(top) || top.ends_with(".libs") || !is_module(&file.path) {
            continue;
        }
        // `cuda-bindings` has `cuda/bindings`, in a namespace that several distributions share.
        let sub = rest.split('/').next().unwrap_or_default();
        let matches = |name: &str| name.eq_ignore_ascii_case(&own);
        if !matches(top) && !matches(&format!("{top}_{sub}")) {
            foreign.insert(top);
        }
    }
    // Packages beside the one with the distribution's name are its own affair.
    let has_own = artifact.files.iter().any(|file| {
        file.path
            .split('/')
            .next()
            .is_some_and(|top| top.eq_ignore_ascii_case(&own))
    });
    if let (false, Some(first)) = (has_own, foreign.first()) {
        findings.push(W19.note(format!(
            "`{}` installs the package `{first}`, which other distributions may install too",
            package.name
        )));
    }
}

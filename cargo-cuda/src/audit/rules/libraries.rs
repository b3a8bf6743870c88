//! NVIDIA's libraries in the artifact, and the driver's libraries as dependencies (W01, W02, W03, W12).

use cuda_build::Component;
use cuda_build::internal::release;

use super::sonames::{component_of, is_driver_library, without_hash};
use crate::audit::check::{Finding, W01, W02, W03, W12};
use crate::audit::facts::{Artifact, Library, file_name};
use crate::wheel::dependencies;

pub fn check(artifact: &Artifact, findings: &mut Vec<Finding>) {
    for library in &artifact.libraries {
        let driver = library
            .elf
            .needed
            .iter()
            .filter(|soname| is_driver_library(soname));
        for soname in driver {
            findings.push(match without_hash(soname) {
                Some(original) => W01.error(format!(
                    "{} needs `{soname}`, a copy of the driver's `{original}`",
                    library.path
                )),
                None => W03.warning(format!(
                    "{} needs `{soname}`, so it cannot be imported without a GPU driver",
                    library.path
                )),
            });
        }
    }
    if artifact.package.is_none() && artifact.files.len() < 2 {
        // A single library is not a copy of anything.
        return;
    }
    for library in &artifact.libraries {
        if !is_owned(artifact, &library.path) {
            check_copy(artifact, library, findings);
        }
    }
}

/// Whether a file belongs to one of NVIDIA's own packages.
fn is_owned(artifact: &Artifact, path: &str) -> bool {
    let name = artifact.name();
    let is_package = |component: Component| {
        release::majors().any(|major| component.facts().package(major) == Some(name))
    };
    match name.is_empty() {
        // Installed packages, side by side.
        true => path.split('/').any(|part| part == "nvidia"),
        false => name.starts_with("nvidia-") || Component::all().any(is_package),
    }
}

/// Reports a copy of one of NVIDIA's libraries.
fn check_copy(artifact: &Artifact, library: &Library, findings: &mut Vec<Finding>) {
    let name = file_name(&library.path);
    let soname = library.elf.soname.as_deref().unwrap_or(name);
    let Some(named) = [soname, name]
        .into_iter()
        .find(|name| dependencies::is_nvidia_library(name))
    else {
        return;
    };
    let path = &library.path;
    if is_driver_library(named) {
        findings.push(W01.error(format!(
            "{path} is a copy of the driver's library `{named}`"
        )));
        return;
    }
    let original = without_hash(named).unwrap_or_else(|| named.to_owned());
    let builtins = |file: &str| file.starts_with("libnvrtc-builtins.so.");
    if original.starts_with("libnvrtc.so.")
        && !artifact
            .files
            .iter()
            .any(|file| builtins(file_name(&file.path)))
    {
        findings.push(W12.error(format!(
            "{path} is a copy of NVRTC, and no `libnvrtc-builtins.so.<release>` is in the wheel"
        )));
        if original == named {
            return;
        }
    }
    let is_modified =
        original != named || component_of(soname).is_none() || has_copies_path(library);
    findings.push(match is_modified {
        true => W02.error(format!(
            "{path} is a modified copy of NVIDIA's `{original}`"
        )),
        false => W02.warning(format!("{path} is a copy of NVIDIA's `{original}`")),
    });
}

/// Whether the search path leads to the directory of a repair tool, which NVIDIA's own libraries never have.
fn has_copies_path(library: &Library) -> bool {
    let entries = library.elf.rpath.iter().chain(&library.elf.runpath);
    entries.into_iter().any(|entry| entry.ends_with(".libs"))
}

//! The requirements of a wheel against what its native modules need (W05, W09).

use std::collections::BTreeSet;

use cuda_build::Component;

use super::Majors;
use super::sonames::{component_of, is_driver_library};
use crate::audit::check::{Finding, W05, W09};
use crate::audit::facts::{Artifact, Library, Package};
use crate::requirement::major_of_word;
use crate::wheel::dependencies;
use crate::wheel::foreign::MANYLINUX;

pub fn check(artifact: &Artifact, majors: &Majors, findings: &mut Vec<Finding>) {
    let Some(package) = &artifact.package else {
        return;
    };
    for requirement in &package.requires {
        if let Some(fault) = requirement.unbounded() {
            findings.push(match requirement.is_optional() {
                true => W09.warning(format!("the wheel {fault}")),
                false => W09.error(format!("the wheel {fault}")),
            });
        }
    }
    for library in &artifact.libraries {
        let Some(major) = majors.of_module(library) else {
            continue;
        };
        check_coverage(artifact, package, library, major, findings);
        super::lower_bounds::check(package, library, major, findings);
    }
}

/// W05: components that no requirement brings.
fn check_coverage(
    artifact: &Artifact,
    package: &Package,
    library: &Library,
    major: u32,
    findings: &mut Vec<Finding>,
) {
    if other_package(artifact, library).is_some() {
        return;
    }
    let brought = |optional: bool| -> BTreeSet<Component> {
        let requires = package
            .requires
            .iter()
            .filter(|r| r.is_optional() == optional);
        requires
            .flat_map(|requirement| requirement.components(major))
            .collect()
    };
    let (always, optional) = (brought(false), brought(true));
    for soname in &library.elf.needed {
        let Some(component) = component_of(soname).filter(|_| !is_driver_library(soname)) else {
            continue;
        };
        // A package of the same component for another major is reported by W08.
        let is_other_major = package.requires.iter().any(|requirement| {
            requirement.cuda_major().is_some_and(|other| {
                other != major && requirement.components(other).contains(&component)
            })
        });
        let name = artifact.name();
        let is_own = component.facts().package(major) == Some(name);
        if artifact.has_file(soname) || always.contains(&component) || is_other_major || is_own {
            continue;
        }
        let needs = format!("{} needs `{soname}` of `{component}`", library.path);
        findings.push(if optional.contains(&component) {
            W05.warning(format!("{needs}, which only an extra of the wheel brings"))
        } else if let Some(other) = may_bring_cuda(package, major) {
            W05.note(format!(
                "{needs}, which no requirement brings, unless `{other}` does"
            ))
        } else {
            W05.error(format!(
                "{needs}, and no requirement of the wheel brings it"
            ))
        });
    }
}

/// A required package of another project that probably requires CUDA's packages, which only the index knows: torch,
/// and packages for the same CUDA major, such as `cupy-cuda12x`.
fn may_bring_cuda(package: &Package, major: u32) -> Option<&str> {
    let mut requires = package.requires.iter().filter(|r| !r.is_optional());
    let other = requires.find(|requirement| {
        !requirement.is_known()
            && (requirement.name == "torch" || requirement.major_in_name() == Some(major))
    });
    other.map(|requirement| requirement.name.as_str())
}

/// The required package of another project that has a library that a module needs: `torch` for `libtorch.so`. The
/// package is imported first, and brings and loads the libraries of its own requirements too, such as CUDA's.
pub fn other_package<'a>(artifact: &'a Artifact, library: &Library) -> Option<&'a str> {
    let package = artifact.package.as_ref()?;
    library.elf.needed.iter().find_map(|soname| {
        let is_elsewhere = !MANYLINUX.contains(&soname.as_str())
            && !dependencies::is_nvidia_library(soname)
            && !artifact.has_file(soname);
        provides(package, soname).filter(|_| is_elsewhere)
    })
}

/// The requirement whose package probably has a library: `libtorch_cuda.so` belongs to `torch`, `librmm.so` to
/// `librmm-cu13`.
pub fn provides<'a>(package: &'a Package, soname: &str) -> Option<&'a str> {
    let stem = soname.split(".so").next().unwrap_or(soname);
    let stem = stem.replace('_', "-").to_ascii_lowercase();
    let bare = stem.strip_prefix("lib").unwrap_or(&stem);
    let names = package
        .requires
        .iter()
        .map(|requirement| requirement.name.as_str());
    names.into_iter().find(|name| {
        let parts: Vec<&str> = name
            .split('-')
            .filter(|p| major_of_word(p).is_none())
            .collect();
        let name = parts.join("-");
        let name = name.strip_prefix("lib").unwrap_or(&name);
        bare == name
            || bare.starts_with(&format!("{name}-"))
            || name.starts_with(&format!("{bare}-"))
            || (name == "torch" && bare.starts_with("c10"))
    })
}

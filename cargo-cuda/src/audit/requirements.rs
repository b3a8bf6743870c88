//! The wheel's requirements: missing components, missing bounds, mixed majors (W05, W08, W09, W10).

use std::collections::BTreeSet;

use cuda_build::Component;

use super::artifact::{Artifact, NativeModule};
use super::check::Severity::{Error, Note, Warning};
use super::check::{Audit, W05, W08, W09, W10};
use crate::output::joined;
use crate::package::metadata::is_on_manylinux;
use crate::package::nvidia::{component_of, is_nvidia_library};
use crate::package::requirement::Requirement;
use crate::package::symbols::{self, Added};

pub fn check(audit: &mut Audit<'_>) {
    let (artifact, majors) = (audit.artifact, audit.majors);
    for module in &artifact.modules {
        let of_module = module.majors();
        if of_module.len() > 1 {
            let text = format!("needs libraries of CUDA {}", joined(&of_module, " and "));
            audit.add_file(&W08, Error, &module.path, text);
        }
    }
    let Some(name) = &artifact.name else {
        return;
    };
    check_majors(audit, name);
    for requirement in &artifact.requires {
        if let Some(fault) = requirement.unbounded() {
            let is_of_extra = requirement.of_extra().is_some();
            let severity = if is_of_extra { Warning } else { Error };
            audit.add(&W09, severity, format!("the wheel {fault}"));
        }
    }
    for module in &artifact.modules {
        if let Some(major) = majors.of_module(module) {
            check_coverage(audit, module, major);
            check_lower_bounds(audit, module, major);
        }
    }
}

/// W08: the name, the native modules and the requirements.
fn check_majors(audit: &mut Audit<'_>, name: &str) {
    let majors = audit.majors;
    let named = BTreeSet::from_iter(majors.name);
    let mut parts = vec![
        (format!("the name `{name}` is"), &named),
        ("the native modules are".to_owned(), &majors.modules),
        ("the requirements are".to_owned(), &majors.requirements),
    ];
    parts.retain(|(_, majors)| !majors.is_empty());
    let mut others = parts.iter().map(|(_, majors)| majors);
    if others.any(|majors| !majors.is_subset(parts[0].1)) {
        let text = |(what, majors)| format!("{what} for CUDA {}", joined(majors, " and "));
        audit.add(&W08, Error, joined(parts.into_iter().map(text), ", "));
    }
}

/// W05: components that no requirement brings.
fn check_coverage(audit: &mut Audit<'_>, module: &NativeModule, major: u32) {
    let artifact = audit.artifact;
    if links_another_package(artifact, module) {
        return;
    }
    let brings = |requirement: &Requirement, component: Component| {
        // A package of the same component for another major is reported by W08.
        let major = requirement.cuda_major().unwrap_or(major);
        requirement.components(major).contains(&component)
    };
    for (soname, component) in artifact.needed_components(module) {
        let is_package_of_component = component.facts().package(major) == artifact.name.as_deref();
        if is_package_of_component || artifact.required().any(|r| brings(r, component)) {
            continue;
        }
        let needs = format!("needs `{soname}` of `{component}`");
        let (severity, text) = if artifact.requires.iter().any(|r| brings(r, component)) {
            let text = format!("{needs}, which only an extra of the wheel brings");
            (Warning, text)
        } else if let Some(other) = package_that_may_require_cuda(artifact, module, major) {
            let text = format!("{needs}, which no requirement brings, unless `{other}` does");
            (Note, text)
        } else {
            let text = format!("{needs}, and no requirement of the wheel brings it");
            (Error, text)
        };
        audit.add_file(&W05, severity, &module.path, text);
    }
}

/// A package of another project that probably requires CUDA's packages, which only the index knows: torch if it is
/// required or linked, and packages for the same CUDA major, such as `cupy-cuda12x`.
fn package_that_may_require_cuda<'a>(
    artifact: &'a Artifact,
    module: &NativeModule,
    major: u32,
) -> Option<&'a str> {
    let other = artifact.required().find(|requirement: &&Requirement| {
        !requirement.is_nvidias()
            && (requirement.name == "torch" || requirement.major_in_name() == Some(major))
    });
    let mut needed = module.elf.needed.iter();
    let links_torch = needed.any(|soname| ["libtorch.so", "libc10.so"].contains(&&**soname));
    let other = other.map(|requirement| requirement.name.as_str());
    other.or(links_torch.then_some("torch"))
}

/// Whether a module links a library that another package than NVIDIA's probably has, such as `libtorch.so`. The package
/// is imported first, and brings and loads the libraries of its own requirements too, such as CUDA's.
pub fn links_another_package(artifact: &Artifact, module: &NativeModule) -> bool {
    let mut needed = module.elf.needed.iter();
    artifact
        .required()
        .any(|requirement| !requirement.is_nvidias())
        && needed.any(|soname| {
            let is_common = ["libgomp.so", "libpython"]
                .iter()
                .any(|it| soname.starts_with(it));
            !is_common
                && !is_nvidia_library(soname)
                && !is_on_manylinux(soname)
                && !artifact.has_file(soname)
        })
}

/// W10: requirements whose lowest version lacks a symbol that the module needs.
fn check_lower_bounds(audit: &mut Audit<'_>, module: &NativeModule, major: u32) {
    let mut reported = BTreeSet::new();
    for import in &module.elf.imports {
        let Some(soname) = &import.library else {
            continue;
        };
        let Some((component, added, compared)) = component_of(soname).and_then(|component| {
            let added = symbols::added(component, major, &import.symbol)?;
            Some((component, added, symbols::compared(component, major)?))
        }) else {
            continue;
        };
        let required = audit.artifact.required();
        let names = required.filter(|requirement| requirement.names(component, major));
        let [requirement] = Vec::from_iter(names)[..] else {
            continue;
        };
        // The metapackage has the version of the toolkit.
        if requirement.is_metapackage() && !component.facts().follows_toolkit {
            continue;
        }
        let lowest = requirement.lowest.as_ref().unwrap_or(&compared.first);
        let lacks = match added {
            Added::In(needed) => *lowest < needed,
            // Only the first version is known to lack the symbol.
            Added::UpTo(_) => *lowest <= compared.first,
        };
        if lacks && reported.insert(&requirement.text) {
            let (symbol, requirement) = (&import.symbol, &requirement.text);
            let text =
                format!("needs `{symbol}`, which the lowest version of `{requirement}` lacks");
            audit.add_file(&W10, Error, &module.path, text);
        }
    }
}

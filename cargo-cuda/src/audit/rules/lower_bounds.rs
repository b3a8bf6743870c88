//! Lower bounds that allow a library without a needed symbol (W10).

use std::collections::BTreeMap;

use cuda_build::internal::release;
use cuda_build::{Component, Version};

use super::sonames::component_of;
use crate::audit::check::{Finding, W10};
use crate::audit::facts::{Library, Package};
use crate::requirement::Requirement;
use crate::wheel::symbols::{self, Added};

/// Reports requirements whose lowest version lacks a symbol that the module needs.
pub fn check(package: &Package, library: &Library, major: u32, findings: &mut Vec<Finding>) {
    // For each requirement the symbols that its lowest version lacks.
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in &library.elf.imports {
        let Some(soname) = &import.library else {
            continue;
        };
        let Some(component) = component_of(soname) else {
            continue;
        };
        let Some(added) = symbols::added(component, major, soname, &import.symbol) else {
            continue;
        };
        let requires = package.requires.iter().filter(|r| !r.is_optional());
        let mut of_component = requires.filter(|r| r.names(component, major));
        if let Some(requirement) = of_component.next()
            && of_component.next().is_none()
            && lacks(requirement, component, major, &added)
        {
            lacking
                .entry(&requirement.text)
                .or_default()
                .push(&import.symbol);
        }
    }
    for (requirement, symbols) in lacking {
        let more = match symbols.len() {
            1 => String::new(),
            count => format!(" and {} more symbols", count - 1),
        };
        findings.push(W10.error(format!(
            "{} needs `{}`{more}, which the lowest version of `{requirement}` lacks",
            library.path, symbols[0]
        )));
    }
}

/// Whether the lowest version that a requirement accepts lacks a symbol.
fn lacks(requirement: &Requirement, component: Component, major: u32, added: &Added) -> bool {
    let Some(compared) = symbols::compared(component, major) else {
        return false;
    };
    let lowest = requirement.lowest().and_then(|parts| version(&parts));
    let lowest = match lowest {
        // The metapackage has the version of the toolkit.
        Some(lowest) if requirement.is_metapackage() && !component.facts().follows_toolkit => {
            let first = release::release_of(component, &compared.first);
            return match added {
                Added::In(needed) => release::release_of(component, needed)
                    .and_then(|release| release.to_string().parse::<Version>().ok())
                    .is_some_and(|release| lowest < release),
                // Only the first version is known to lack the symbol.
                Added::UpTo(_) => first
                    .and_then(|release| release.to_string().parse::<Version>().ok())
                    .is_some_and(|first| lowest <= first),
            };
        }
        Some(lowest) => lowest,
        None => compared.first.clone(),
    };
    match added {
        Added::In(needed) => lowest < *needed,
        Added::UpTo(_) => lowest <= compared.first,
    }
}

fn version(parts: &[u64]) -> Option<Version> {
    let text: Vec<String> = parts.iter().map(u64::to_string).collect();
    text.join(".").parse().ok()
}

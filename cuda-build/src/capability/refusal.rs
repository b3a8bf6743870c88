//! Why a toolkit does not build for a capability, and what to write instead.

use super::table::{facts, renamed};
use super::{Capability, Suffix, supported};
use crate::release::{self, OLDEST_MAJOR};
use crate::version::ToolkitVersion;

/// A reason in a sentence without a full stop, and what to do.
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

/// Explains a capability that is not among `available`.
pub(super) fn explain(
    capability: Capability,
    toolkit: ToolkitVersion,
    available: &[Capability],
) -> Refusal {
    let Some(facts) = facts(capability) else {
        return unknown(capability, toolkit, available);
    };
    if let Some(refusal) = explain_rename(capability, toolkit, available) {
        return refusal;
    }
    if let Some(max) = facts.max_cuda.filter(|&max| toolkit >= max) {
        let last = format!("{}.x", max.major - 1);
        return Refusal {
            reason: format!(
                "capability {} was removed in CUDA {max}; {last} is the last that builds for it",
                facts.capability
            ),
            hint: Some(if max.major > OLDEST_MAJOR {
                format!(
                    "remove {capability} for CUDA {}, or build with CUDA {last}",
                    toolkit.major
                )
            } else {
                format!("remove {capability}: CUDA before {OLDEST_MAJOR} is not supported")
            }),
        };
    }
    match facts.since(capability.suffix) {
        None => no_such_variant(capability, toolkit, available),
        Some(since) if toolkit < since => Refusal {
            reason: format!(
                "capability {capability} needs CUDA {since} or newer, this toolkit is {toolkit}"
            ),
            hint: Some(format!("use CUDA {since} or newer, or remove {capability}")),
        },
        Some(_) => Refusal {
            reason: format!(
                "the compiler of this CUDA {toolkit} does not list capability {capability}"
            ),
            hint: Some(format!("it lists {}", join(available))),
        },
    }
}

fn explain_rename(
    capability: Capability,
    toolkit: ToolkitVersion,
    available: &[Capability],
) -> Option<Refusal> {
    let (other, at) = renamed(capability)?;
    let (when, in_force) = if other > capability {
        (format!("from CUDA {at} on"), toolkit >= at)
    } else {
        (format!("before CUDA {at}"), toolkit < at)
    };
    (in_force && available.contains(&other)).then(|| Refusal {
        reason: format!(
            "capability {capability} is called {other} {when}, this toolkit is {toolkit}"
        ),
        hint: Some(format!("write {other} for CUDA {}", toolkit.major)),
    })
}

fn no_such_variant(
    capability: Capability,
    toolkit: ToolkitVersion,
    available: &[Capability],
) -> Refusal {
    let base = capability.base();
    let variants: Vec<Capability> = available
        .iter()
        .copied()
        .filter(|c| c.base() == base)
        .collect();
    let letter = capability.suffix.map_or(' ', Suffix::letter);
    Refusal {
        reason: format!("capability {base} has no `{letter}` variant"),
        hint: Some(if variants.is_empty() {
            format!("CUDA {toolkit} builds for {}", join(available))
        } else {
            format!("CUDA {toolkit} has {}", join(&variants))
        }),
    }
}

fn unknown(capability: Capability, toolkit: ToolkitVersion, available: &[Capability]) -> Refusal {
    let mut hint = format!("it builds for {}", join(available));
    if toolkit > release::newest() && available == supported(toolkit) {
        hint = format!(
            "CUDA {toolkit} is newer than {}, the newest known here, and its compiler was not asked; known are {}",
            release::newest(),
            join(available)
        );
    }
    Refusal {
        reason: format!("capability {capability} is none that CUDA {toolkit} builds for"),
        hint: Some(hint),
    }
}

fn join(list: &[Capability]) -> String {
    list.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

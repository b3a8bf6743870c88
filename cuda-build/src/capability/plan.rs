//! From a declaration and a toolkit to what is built.

use std::fmt;

use super::declared::EXAMPLE;
use super::refusal::{Refusal, explain};
use super::{Capability, Declared, Entry, Suffix, available, sass_runs_on};
use crate::error::Error;
use crate::version::ToolkitVersion;

/// What is built with one toolkit: every entry is one it can build, sorted, each once.
///
/// Prints as a list that [`Declared::parse`] reads back: `8.0, 9.0a, 12.0+PTX`, with
/// `compute_90` where there is PTX alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Compiled to SASS.
    pub real: Vec<Capability>,
    /// Kept as PTX, for the driver to compile on newer devices.
    pub ptx: Vec<Capability>,
}

impl Declared {
    /// Resolves the list for one toolkit.
    ///
    /// `gpus` are the devices of this machine, for `native`. `observed` is what the toolkit's own
    /// compiler lists ([`observed_from_ptxas_help`](super::observed_from_ptxas_help)); where it is given, it decides.
    ///
    /// # Errors
    /// [`Error::Capability`] that names every entry this toolkit can't build, with the reason of
    /// each; for `native` on a machine without a GPU; and for 10.0 beside 10.0f, which nvcc refuses.
    pub fn plan(
        &self,
        toolkit: ToolkitVersion,
        gpus: &[Capability],
        observed: Option<&[Capability]>,
    ) -> Result<Plan, Error> {
        let available = available(toolkit, observed);
        let mut plan = Plan::default();
        let mut refused = Vec::new();
        for &entry in self.entries() {
            match entry {
                Entry::Real(capability) if available.contains(&capability) => {
                    plan.real.push(capability);
                }
                Entry::Virtual(capability) if available.contains(&capability) => {
                    plan.ptx.push(capability);
                }
                Entry::Real(capability) | Entry::Virtual(capability) => {
                    refused.push(explain(capability, toolkit, &available));
                }
                Entry::Native if gpus.is_empty() => refused.push(no_gpu()),
                Entry::Native => {
                    for gpu in gpus.iter().map(|gpu| gpu.base()) {
                        if available.contains(&gpu) {
                            plan.real.push(gpu);
                        } else {
                            refused.push(native_refusal(gpu, toolkit, &available));
                        }
                    }
                }
                Entry::All => {
                    plan.add_all(
                        available
                            .iter()
                            .copied()
                            .filter(|c| c.suffix.is_none())
                            .collect(),
                    );
                }
                Entry::AllMajor => plan.add_all(first_of_each_major(&available)),
            }
        }
        for list in [&mut plan.real, &mut plan.ptx] {
            list.sort_unstable();
            list.dedup();
        }
        refused.extend(plan.slot_conflicts());
        if refused.is_empty() {
            Ok(plan)
        } else {
            Err(error(refused))
        }
    }
}

impl Plan {
    /// Adds SASS for each, and PTX for the first of the newest major, as nvcc's `all` does.
    /// (CMake puts the PTX on the last of its list instead.)
    fn add_all(&mut self, list: Vec<Capability>) {
        let newest = list.iter().map(|c| c.major).max();
        self.ptx.extend(
            list.iter()
                .copied()
                .filter(|c| Some(c.major) == newest)
                .min(),
        );
        self.real.extend(list);
    }

    /// nvcc 13.0 to 13.5 refuse SASS for 10.0 beside SASS for 10.0f ("The same GPU code … generated
    /// for non family-specific and family-specific GPU arch"). 10.0 beside 10.0a they take, and PTX
    /// never conflicts.
    fn slot_conflicts(&self) -> impl Iterator<Item = Refusal> {
        self.real
            .iter()
            .filter(|c| c.suffix == Some(Suffix::Family) && self.real.contains(&c.base()))
            .map(|family| Refusal {
                reason: format!(
                    "capabilities {} and {family} can't both be compiled to SASS: nvcc refuses",
                    family.base()
                ),
                hint: Some(format!(
                    "keep {family}, or {}; `{}` adds PTX beside {family}",
                    family.base(),
                    family.base().compute()
                )),
            })
    }
}

fn first_of_each_major(available: &[Capability]) -> Vec<Capability> {
    let mut list: Vec<Capability> = available
        .iter()
        .copied()
        .filter(|c| c.suffix.is_none())
        .collect();
    list.sort_unstable();
    list.dedup_by_key(|capability| capability.major);
    list
}

fn no_gpu() -> Refusal {
    Refusal {
        reason: "`native` builds for the GPUs in this machine, and there is none".to_owned(),
        hint: Some(format!("name the capabilities, for example\n{EXAMPLE}")),
    }
}

fn native_refusal(gpu: Capability, toolkit: ToolkitVersion, available: &[Capability]) -> Refusal {
    let refusal = explain(gpu, toolkit, available);
    let runs = |c: &&Capability| c.suffix.is_none() && sass_runs_on(**c, gpu, toolkit);
    let substitute = available.iter().rfind(runs);
    Refusal {
        reason: format!("`native`: this machine has a {gpu} GPU: {}", refusal.reason),
        hint: substitute.map_or(refusal.hint, |c| {
            Some(format!("write {c}, which runs on it"))
        }),
    }
}

/// All reasons and all hints, a line each: mending one at a time would cost a build each.
fn error(refused: Vec<Refusal>) -> Error {
    let (mut reasons, mut hints) = (Vec::new(), Vec::new());
    for Refusal { reason, hint } in refused {
        if !reasons.contains(&reason) {
            reasons.push(reason);
            hints.extend(hint.filter(|hint| !hints.contains(hint)));
        }
    }
    Error::Capability {
        reason: reasons.join("\n"),
        hint: (!hints.is_empty()).then(|| hints.join("\n")),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<Capability> = self.real.iter().chain(&self.ptx).copied().collect();
        all.sort_unstable();
        all.dedup();
        for (index, capability) in all.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match (
                self.real.contains(capability),
                self.ptx.contains(capability),
            ) {
                (true, true) => write!(f, "{capability}+PTX")?,
                (true, false) => write!(f, "{capability}")?,
                (false, _) => f.write_str(&capability.compute())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

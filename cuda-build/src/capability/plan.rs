//! Resolves the declared capabilities for one toolkit.

use std::fmt;

use super::declared::{EXAMPLE, Entry};
use super::rules::sass_runs_on;
use super::table::{facts, renamed, supported};
use super::{Capability, Declared, Suffix};
use crate::error::Error;
use crate::list::sorted_set;
use crate::release::{self, OLDEST_MAJOR};
use crate::version::ToolkitVersion;

/// The capabilities that are built with one toolkit. The toolkit supports all of them. Each list is sorted and has no
/// duplicates.
///
/// A plan is printed as a list that [`Declared::parse`] can read: `8.0, 9.0a, 12.0+PTX`, with `compute_90` for PTX
/// without SASS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The capabilities to compile SASS for.
    pub real: Vec<Capability>,
    /// The capabilities to compile PTX for. On newer devices, the driver compiles the PTX.
    pub ptx: Vec<Capability>,
}

/// The reason why a toolkit cannot build an entry, and what to write instead. The reason does not end with a full stop.
struct Refusal {
    reason: String,
    hint: String,
}

/// The capabilities that a toolkit can build for.
struct ToolkitTargets {
    version: ToolkitVersion,
    /// The capabilities, ascending.
    targets: Vec<Capability>,
    /// Whether the list is from the toolkit's own compiler. Otherwise it is from the table.
    observed: bool,
}

impl Declared {
    /// Resolves the list for one toolkit.
    ///
    /// `gpus` are the devices of this machine; `native` stands for them. `observed` is the list that the toolkit's own
    /// compiler prints ([`observed_from_ptxas_help`](super::observed_from_ptxas_help)). If present, it is used instead
    /// of the table.
    ///
    /// # Errors
    /// [`Error::Capability`] if the toolkit does not support an entry (the error names each such
    /// entry and the reason), for `native` on a machine without a GPU, and for 10.0 together with
    /// 10.0f, which nvcc rejects.
    pub fn plan(
        &self,
        toolkit: ToolkitVersion,
        gpus: &[Capability],
        observed: Option<&[Capability]>,
    ) -> Result<Plan, Error> {
        let observed = observed.filter(|list| !list.is_empty());
        let compiler = ToolkitTargets {
            version: toolkit,
            targets: observed.map_or_else(|| supported(toolkit), <[_]>::to_vec),
            observed: observed.is_some(),
        };
        let mut plan = Plan::default();
        let mut refused = Vec::new();
        for &entry in self.entries() {
            match entry {
                Entry::Real(capability) | Entry::Virtual(capability)
                    if !compiler.targets.contains(&capability) =>
                {
                    refused.push(compiler.refuse(capability));
                }
                Entry::Real(capability) => plan.real.push(capability),
                Entry::Virtual(capability) => plan.ptx.push(capability),
                Entry::Native if gpus.is_empty() => refused.push(Refusal {
                    reason: "`native` builds for the GPUs in this machine, and there is none"
                        .to_owned(),
                    hint: format!("name the capabilities, for example\n{EXAMPLE}"),
                }),
                Entry::Native => {
                    for gpu in gpus.iter().map(|gpu| gpu.base()) {
                        if compiler.targets.contains(&gpu) {
                            plan.real.push(gpu);
                        } else {
                            refused.push(compiler.refuse_gpu(gpu));
                        }
                    }
                }
                Entry::All => plan.add_all(compiler.without_suffix().collect()),
                Entry::AllMajor => {
                    let mut list: Vec<_> = compiler.without_suffix().collect();
                    list.dedup_by_key(|capability| capability.major);
                    plan.add_all(list);
                }
            }
        }
        for list in [&mut plan.real, &mut plan.ptx] {
            *list = sorted_set(list.drain(..));
        }
        refused.extend(plan.family_conflicts());
        if refused.is_empty() {
            Ok(plan)
        } else {
            Err(error(refused))
        }
    }
}

impl Plan {
    /// The capabilities of both lists, ascending and without duplicates.
    pub(crate) fn all(&self) -> Vec<Capability> {
        sorted_set(self.real.iter().chain(&self.ptx).copied())
    }

    /// Adds SASS for every capability of an ascending list, and PTX for the first one of the newest
    /// major, as nvcc's `all` does. (CMake adds PTX for the last one instead.)
    fn add_all(&mut self, list: Vec<Capability>) {
        let newest = list.last().map(|c| c.major);
        self.ptx
            .extend(list.iter().find(|c| Some(c.major) == newest));
        self.real.extend(list);
    }

    /// A refusal for each capability that has SASS both with `f` and without a suffix, such as 10.0 beside 10.0f. nvcc
    /// 13.0 to 13.5 reject this ("The same GPU code … generated for non family-specific and family-specific GPU
    /// arch"). They accept 10.0 beside 10.0a, and PTX never conflicts.
    fn family_conflicts(&self) -> impl Iterator<Item = Refusal> {
        self.real
            .iter()
            .filter(|c| c.suffix == Some(Suffix::Family) && self.real.contains(&c.base()))
            .map(|family| Refusal {
                reason: format!(
                    "capabilities {} and {family} can't both be compiled to SASS: nvcc refuses",
                    family.base()
                ),
                hint: format!(
                    "keep {family}, or {}; `{}` adds PTX beside {family}",
                    family.base(),
                    family.base().compute()
                ),
            })
    }
}

impl ToolkitTargets {
    fn without_suffix(&self) -> impl Iterator<Item = Capability> {
        self.targets.iter().copied().filter(|c| c.suffix.is_none())
    }

    /// Explains why a capability is not among the targets.
    fn refuse(&self, capability: Capability) -> Refusal {
        let version = self.version;
        let Some(facts) = facts(capability) else {
            return self.unknown(capability);
        };
        if let Some(refusal) = self.renamed(capability) {
            return refusal;
        }
        if let Some(max) = facts.removed_in.filter(|&max| version >= max) {
            let last = format!("{}.x", max.major - 1);
            return Refusal {
                reason: format!(
                    "capability {} was removed in CUDA {max}; {last} is the last that builds for it",
                    facts.capability
                ),
                hint: if max.major > OLDEST_MAJOR {
                    format!(
                        "remove {capability} for CUDA {}, or build with CUDA {last}",
                        version.major
                    )
                } else {
                    format!("remove {capability}: CUDA before {OLDEST_MAJOR} is not supported")
                },
            };
        }
        match facts.since(capability.suffix) {
            None => self.no_such_variant(capability),
            Some(since) if version < since => Refusal {
                reason: format!(
                    "capability {capability} needs CUDA {since} or newer; this toolkit is {version}"
                ),
                hint: format!("use CUDA {since} or newer, or remove {capability}"),
            },
            Some(_) => Refusal {
                reason: format!(
                    "the compiler of this CUDA {version} does not list capability {capability}"
                ),
                hint: format!("it lists {}", join(&self.targets)),
            },
        }
    }

    fn renamed(&self, capability: Capability) -> Option<Refusal> {
        let (other, at) = renamed(capability)?;
        if !self.targets.contains(&other) {
            return None;
        }
        let when = if other > capability {
            format!("from CUDA {at} on")
        } else {
            format!("before CUDA {at}")
        };
        Some(Refusal {
            reason: format!(
                "capability {capability} is called {other} {when}; this toolkit is {}",
                self.version
            ),
            hint: format!("write {other} for CUDA {}", self.version.major),
        })
    }

    fn no_such_variant(&self, capability: Capability) -> Refusal {
        let base = capability.base();
        let letter = capability.suffix.map_or(' ', Suffix::letter);
        let mut variants = self.targets.clone();
        variants.retain(|target| target.base() == base);
        if variants.is_empty() {
            variants.clone_from(&self.targets);
        }
        Refusal {
            reason: format!("capability {base} has no `{letter}` variant"),
            hint: format!("CUDA {} has {}", self.version, join(&variants)),
        }
    }

    fn unknown(&self, capability: Capability) -> Refusal {
        let (version, newest) = (self.version, release::newest());
        let targets = join(&self.targets);
        Refusal {
            reason: format!("CUDA {version} does not support compute capability {capability}"),
            hint: if version > newest && !self.observed {
                format!(
                    "CUDA {version} is newer than {newest}, the newest known release, and has no `ptxas` to query; \
                     the known targets are {targets}"
                )
            } else {
                format!("it supports {targets}")
            },
        }
    }

    /// The refusal of a GPU in this machine. If SASS for a target of the toolkit runs on the GPU, the hint names that
    /// target.
    fn refuse_gpu(&self, gpu: Capability) -> Refusal {
        let refusal = self.refuse(gpu);
        let mut targets = self.without_suffix().collect::<Vec<_>>().into_iter();
        let substitute = targets.rfind(|target| sass_runs_on(*target, gpu, self.version));
        Refusal {
            reason: format!("`native`: this machine has a {gpu} GPU: {}", refusal.reason),
            hint: substitute.map_or(refusal.hint, |c| format!("write {c}, which runs on it")),
        }
    }
}

fn join(list: &[Capability]) -> String {
    list.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// One error with all reasons and all hints, each on its own line, so that one build reports every refused entry.
fn error(refused: Vec<Refusal>) -> Error {
    let (mut reasons, mut hints) = (Vec::new(), Vec::new());
    for Refusal { reason, hint } in refused {
        if !reasons.contains(&reason) {
            reasons.push(reason);
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
    }
    Error::Capability {
        reason: reasons.join("\n"),
        hint: hints.join("\n"),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, capability) in self.all().iter().enumerate() {
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

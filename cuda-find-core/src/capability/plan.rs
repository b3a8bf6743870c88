//! A declared list of capabilities, and the plan that one toolkit makes of it.
//!
//! Which code runs on which device:
//!
//! - SASS without a suffix runs on devices of the same major whose minor is not smaller.
//! - SASS with `a` runs only on devices of the same capability.
//! - SASS with `f` runs on the devices of its family.
//! - The driver compiles PTX without a suffix for devices of the same or a newer capability.
//! - The driver compiles PTX with a suffix for the devices on which SASS with that suffix runs.
//!
//! `ptxas --help` documents these rules. They were checked for each pair of code and device with `ptxas` 12.9.86 and
//! 13.5.37.

use std::fmt;

use super::number::{Capability, Suffix};
use super::table::{facts, renamed, supported};
use crate::error::Error;
use crate::list::{each_once, joined, sorted_set};
use crate::release;
use crate::version::ToolkitVersion;

/// The list of capabilities in a manifest, a variable or an option. It does not depend on a toolkit.
///
/// The list is an array of texts. Each text may contain several entries, separated by `;`, `,` or spaces. An entry is
/// one of
///
/// | entry | SASS | PTX |
/// |---|---|---|
/// | `8.0`, `80`, `sm_80`, `80-real` | yes | no |
/// | `8.0+PTX`, `sm_80+PTX` | yes | yes |
/// | `compute_80`, `80-virtual` | no | yes |
/// | `native` | for the GPUs in this machine | no |
/// | `all` | for every capability | for the first capability of the newest major |
/// | `all-major` | for the first capability of every major | for the first capability of the newest major |
///
/// Any number may be followed by `a` or `f`. A plain `8.0` or `80` means SASS only, as in `TORCH_CUDA_ARCH_LIST`. In
/// CMake, a plain `80` means SASS and PTX.
///
/// ```
/// use cuda_find_core::capability::Declared;
/// let declared = Declared::parse(["8.0;9.0a", "120-real 120-virtual"])?;
/// assert_eq!(declared, Declared::parse(["8.0", "9.0a", "12.0+PTX"])?);
/// # Ok::<(), cuda_find_core::error::Error>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct Declared {
    /// Sorted and without duplicates.
    entries: Vec<DeclaredEntry>,
}

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeclaredEntry {
    /// SASS for this capability.
    Real(Capability),
    /// PTX for this capability.
    Virtual(Capability),
    /// SASS for the GPUs in this machine.
    Native,
    /// What `nvcc -arch=all` builds.
    All,
    /// What `nvcc -arch=all-major` builds.
    AllMajor,
}

impl Declared {
    /// Parses a list in the syntax of `[package.metadata.cuda]`, which [`Declared`] describes.
    ///
    /// # Errors
    /// [`Error::Capability`] for an entry that does not follow this syntax, and for an empty list.
    pub fn parse(items: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for item in items {
            let separator = |c: char| c == ';' || c == ',' || c.is_whitespace();
            for text in item.as_ref().split(separator).filter(|t| !t.is_empty()) {
                entries.extend(parse_entry(text)?);
            }
        }
        if entries.is_empty() {
            let hint = format!("write for example\n{EXAMPLE}");
            return Err(Error::capability("the list of capabilities is empty", hint));
        }
        Ok(Self {
            entries: sorted_set(entries),
        })
    }

    /// The list that is used if no capabilities are declared: `native`, the GPUs in this machine.
    pub fn native() -> Self {
        Self {
            entries: vec![DeclaredEntry::Native],
        }
    }

    /// The capabilities that the list names, whatever the toolkit supports. `native`, `all` and `all-major` name none.
    pub fn named_capabilities(&self) -> Plan {
        let mut plan = Plan::default();
        for entry in &self.entries {
            match entry {
                DeclaredEntry::Real(capability) => plan.real.push(*capability),
                DeclaredEntry::Virtual(capability) => plan.ptx.push(*capability),
                DeclaredEntry::Native | DeclaredEntry::All | DeclaredEntry::AllMajor => {}
            }
        }
        plan
    }

    /// Whether the list depends on the GPUs in this machine.
    pub fn is_native(&self) -> bool {
        self.entries.contains(&DeclaredEntry::Native)
    }
}

/// The entries for one word of the list. `8.0+PTX` has two entries: SASS and PTX.
fn parse_entry(text: &str) -> Result<Vec<DeclaredEntry>, Error> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "native" => return Ok(vec![DeclaredEntry::Native]),
        "all" => return Ok(vec![DeclaredEntry::All]),
        "all-major" => return Ok(vec![DeclaredEntry::AllMajor]),
        _ => {}
    }
    let (name, ending) = ["+ptx", "-real", "-virtual"]
        .into_iter()
        .find_map(|ending| Some((lower.strip_suffix(ending)?, ending)))
        .unwrap_or((&lower, ""));
    let capability: Capability = name.parse().map_err(|error: Error| {
        let others = "or `native`, `all`, `all-major`; `+PTX` adds PTX to a capability";
        let hint = format!("{}; {others}", error.hints().join("; "));
        Error::capability(format!("`{text}` is not a compute capability"), hint)
    })?;
    let real = DeclaredEntry::Real(capability);
    let ptx = DeclaredEntry::Virtual(capability);
    let prefix = name.split_once('_').map_or("", |(prefix, _)| prefix);
    match (prefix, ending) {
        ("" | "sm", "" | "-real") => Ok(vec![real]),
        ("" | "sm", "+ptx") => Ok(vec![real, ptx]),
        ("" | "compute", "-virtual") | ("compute", "") => Ok(vec![ptx]),
        _ => {
            let (sm, compute) = (capability.sm(), capability.compute());
            Err(Error::capability(
                format!("`{text}` contradicts itself"),
                format!(
                    "write `{sm}` for SASS, `{compute}` for PTX, or `{capability}+PTX` for both"
                ),
            ))
        }
    }
}

/// A list that every toolkit from 11.8 on can build.
const EXAMPLE: &str = "[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]";

/// The error for a build that declares no capability, on a machine without a GPU.
pub fn undeclared() -> Error {
    let hint = format!("declare capabilities in Cargo.toml:\n{EXAMPLE}");
    Error::capability(
        "no compute capability is declared, and this machine has no GPU",
        hint,
    )
}

/// The capabilities that are built with one toolkit. The toolkit supports all of them. Each list is sorted and has no
/// duplicates.
///
/// A plan is printed as a list that [`Declared::parse`] can read: `8.0, 9.0a, 12.0+PTX`, with `compute_90` for PTX
/// without SASS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The capabilities to compile SASS for.
    pub real: Vec<Capability>,
    /// The capabilities to compile PTX for. On newer devices, the driver compiles the PTX.
    pub ptx: Vec<Capability>,
}

/// The reason why a toolkit cannot build an entry, and what to write instead. The reason does not end with a full stop.
type Refusal = (String, String);

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
        for &entry in &self.entries {
            match entry {
                DeclaredEntry::Real(capability) | DeclaredEntry::Virtual(capability)
                    if !compiler.targets.contains(&capability) =>
                {
                    refused.push(compiler.refuse(capability));
                }
                DeclaredEntry::Real(capability) => plan.real.push(capability),
                DeclaredEntry::Virtual(capability) => plan.ptx.push(capability),
                DeclaredEntry::Native if gpus.is_empty() => refused.push((
                    "`native` builds for the GPUs in this machine, and there is none".to_owned(),
                    format!("name the capabilities, for example\n{EXAMPLE}"),
                )),
                DeclaredEntry::Native => {
                    for gpu in gpus.iter().map(|gpu| gpu.base()) {
                        if compiler.targets.contains(&gpu) {
                            plan.real.push(gpu);
                        } else {
                            refused.push(compiler.refuse_gpu(gpu));
                        }
                    }
                }
                DeclaredEntry::All => plan.add_all(compiler.without_suffix().collect()),
                DeclaredEntry::AllMajor => {
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
        if !refused.is_empty() {
            return Err(refusals(refused));
        }
        Ok(plan)
    }
}

impl From<&Plan> for Declared {
    fn from(plan: &Plan) -> Self {
        let real = plan.real.iter().copied().map(DeclaredEntry::Real);
        let ptx = plan.ptx.iter().copied().map(DeclaredEntry::Virtual);
        Self {
            entries: sorted_set(real.chain(ptx)),
        }
    }
}

impl Plan {
    /// The capabilities of both lists, ascending and without duplicates.
    pub fn all(&self) -> Vec<Capability> {
        sorted_set(self.real.iter().chain(&self.ptx).copied())
    }

    /// Whether the plan has code for this capability, as SASS or PTX, with or without a letter: `contains(9, 0)` is
    /// true for 9.0, 9.0a and `compute_90`.
    pub fn contains(&self, major: u32, minor: u32) -> bool {
        let capability = Capability::new(major, minor);
        self.all().iter().any(|code| code.base() == capability)
    }

    /// The lowest capability; `None` for an empty plan.
    pub fn lowest(&self) -> Option<Capability> {
        self.all().first().copied()
    }

    /// Adds SASS for every capability of an ascending list, and PTX for the first one of the newest
    /// major, as nvcc's `all` does. (CMake adds PTX for the last one instead.)
    fn add_all(&mut self, list: Vec<Capability>) {
        let newest = list.last().map(|c| c.major);
        let first = list.iter().find(|c| Some(c.major) == newest);
        self.ptx.extend(first);
        self.real.extend(list);
    }

    /// A refusal for each capability that has SASS both with `f` and without a suffix, such as 10.0 beside 10.0f. nvcc
    /// 13.0 to 13.5 reject this ("The same GPU code … generated for non family-specific and family-specific GPU
    /// arch"). They accept 10.0 beside 10.0a, and PTX never conflicts.
    fn family_conflicts(&self) -> impl Iterator<Item = Refusal> {
        let is_family = |c: &&Capability| c.suffix == Some(Suffix::Family);
        let families = self.real.iter().filter(is_family);
        let conflicts = families.filter(|family| self.real.contains(&family.base()));
        conflicts.map(|family| {
            let (base, ptx) = (family.base(), family.base().compute());
            let both = format!("capabilities {base} and {family}");
            let hint = format!("keep {family}, or {base}; `{ptx}` adds PTX beside {family}");
            (
                format!("{both} can't both be compiled to SASS: nvcc refuses"),
                hint,
            )
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
        let renamed = renamed(capability).filter(|(other, _)| self.targets.contains(other));
        if let Some((other, at)) = renamed {
            let when = match other > capability {
                true => format!("from CUDA {at} on"),
                false => format!("before CUDA {at}"),
            };
            let reason = format!("capability {capability} is called {other} {when}");
            let hint = format!("write {other} for CUDA {}", version.major);
            return (format!("{reason}; this toolkit is {version}"), hint);
        }
        let facts = facts(capability);
        let removed = facts.and_then(|facts| facts.removed_in);
        if let Some(removed) = removed.filter(|removed| version >= *removed) {
            let (base, last) = (capability.base(), removed.major - 1);
            let reason = format!("capability {base} was removed in CUDA {removed}");
            return (
                format!("{reason}; {last}.x is the last that builds for it"),
                format!(
                    "remove {capability}, or build with CUDA {last}.x{}",
                    release::newest_of(last).map_or_else(String::new, release::source_of_nvcc)
                ),
            );
        }
        let since = facts.and_then(|facts| facts.since(capability.suffix));
        if let Some(since) = since.filter(|since| version < *since) {
            let reason = format!("capability {capability} needs CUDA {since} or newer");
            let hint = format!("use CUDA {since} or newer, or remove {capability}");
            return (format!("{reason}; this toolkit is {version}"), hint);
        }
        let (newest, targets) = (release::newest(), join(&self.targets));
        (
            format!("CUDA {version} does not support compute capability {capability}"),
            match version > newest && !self.observed {
                true => format!(
                    "CUDA {version} is newer than {newest}, the newest known release, and has no `ptxas` to query; the \
                     known targets are {targets}"
                ),
                false => format!("it supports {targets}"),
            },
        )
    }

    /// The refusal of a GPU in this machine. If SASS for a target of the toolkit runs on the GPU, the hint names that
    /// target.
    fn refuse_gpu(&self, gpu: Capability) -> Refusal {
        let (reason, hint) = self.refuse(gpu);
        let fits = |target: &Capability| sass_runs_on(*target, gpu, self.version);
        let substitute = self.without_suffix().filter(fits).last();
        (
            format!("`native` selects {gpu} for this machine's GPU, but {reason}"),
            substitute.map_or(hint, |c| format!("write {c}, which runs on it")),
        )
    }
}

fn join(list: &[Capability]) -> String {
    joined(list, ", ")
}

/// One error with all reasons and all hints, each on its own line, so that one build reports every refused entry.
fn refusals(refused: Vec<Refusal>) -> Error {
    let (reasons, hints): (Vec<String>, Vec<String>) = refused.into_iter().unzip();
    let [reasons, hints] = [reasons, hints].map(|texts| each_once(texts).join("\n"));
    Error::capability(reasons, hints)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |c: &Capability| match (self.real.contains(c), self.ptx.contains(c)) {
            (true, true) => format!("{c}+PTX"),
            (true, false) => c.to_string(),
            (false, _) => c.compute(),
        };
        f.write_str(&joined(self.all().iter().map(entry), ", "))
    }
}

/// Which code of a plan a device can run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Support {
    /// SASS.
    Native,
    /// Only PTX, which the driver compiles.
    Jit,
    /// No code.
    None,
}

impl Plan {
    /// Whether a device runs this plan's SASS, or at least its PTX. `check_device` in the
    /// source from cuda-build's `generated_source` has the same result at run time.
    pub fn runs_on(&self, device: Capability, toolkit: ToolkitVersion) -> Support {
        let sass = |code: &Capability| sass_runs_on(*code, device, toolkit);
        let ptx = |code: &Capability| ptx_runs_on(*code, device, toolkit);
        if self.real.iter().any(sass) {
            Support::Native
        } else if self.ptx.iter().any(ptx) {
            Support::Jit
        } else {
            Support::None
        }
    }
}

/// Whether SASS that this toolkit compiled for `code` runs on a device.
///
/// An unknown device is assumed to belong to the families of its major, as 10.7 and 12.1 did when they were new.
/// Before CUDA 13, code for Jetson boards and code for other GPUs are not interchangeable.
pub fn sass_runs_on(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    let not_older = code.major == device.major && code.minor <= device.minor;
    match code.suffix {
        None => not_older && !jetson_mismatch(code, device, toolkit),
        Some(Suffix::ArchSpecific) => code.base() == device.base(),
        Some(Suffix::Family) => {
            let known_outside_family = facts(device).is_some()
                && facts(code).is_some_and(|facts| !facts.family.contains(&device.minor));
            not_older && !known_outside_family
        }
    }
}

/// Whether a driver that is as new as the toolkit can compile PTX for `code` on a device.
fn ptx_runs_on(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    match code.suffix {
        None => code.base() <= device.base(),
        Some(_) => sass_runs_on(code, device, toolkit),
    }
}

fn jetson_mismatch(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    let jetson = |capability| facts(capability).and_then(|facts| facts.jetson);
    toolkit.major < release::JETSON_UNIFIED_SINCE
        && matches!((jetson(code), jetson(device)), (Some(a), Some(b)) if a != b)
}

/// The capability for a consumer that takes exactly one.
#[derive(Debug)]
pub struct Single {
    /// The capability.
    pub capability: Capability,
    /// A message for the user that lists the declared capabilities for which the consumer does not build. `None` if
    /// only one capability is declared, or if the chosen capability fits the GPU of this machine.
    pub warning: Option<String>,
}

impl Single {
    /// The value of `CUDA_COMPUTE_CAP`, such as `90`. It has no suffix, because consumers read an integer.
    pub fn compute_cap(&self) -> String {
        self.capability.number().to_string()
    }
}

/// What a build script expects in a variable for these capabilities.
pub type Spelling = fn(&Plan) -> String;

/// The spelling of this name: `list` (`80,90`), `cmake` (`80-real;90-real`), `torch` (`8.0;9.0`), or `lowest`, for the
/// lowest capability alone (`80`).
///
/// # Errors
/// A message for another name.
pub fn spelling(name: &str) -> Result<Spelling, String> {
    match name {
        "list" => Ok(|plan| joined(plan.all().iter().map(|it| it.digits()), ",")),
        "cmake" => Ok(Plan::cmake),
        "torch" => Ok(Plan::torch),
        "lowest" => Ok(|plan| joined(plan.lowest().map(|it| it.number()), "")),
        _ => Err(format!(
            "expected `list` (80,90), `cmake` (80-real;90-real), `torch` (8.0;9.0) or `lowest` (80), and not `{name}`"
        )),
    }
}

impl Plan {
    /// The value of `CMAKE_CUDA_ARCHITECTURES` and `CUDAARCHS`: `80-real;90a-real;120-real;120-virtual`.
    pub fn cmake(&self) -> String {
        let real = self.real.iter().map(|c| format!("{}-real", c.digits()));
        let ptx = self.ptx.iter().map(|c| format!("{}-virtual", c.digits()));
        joined(real.chain(ptx), ";")
    }

    /// The value of `TORCH_CUDA_ARCH_LIST`: `8.0;9.0a;12.0+PTX`.
    ///
    /// PyTorch has no syntax for PTX without SASS, so `compute_90` becomes `9.0+PTX`.
    pub fn torch(&self) -> String {
        let ptx = |c: &Capability| if self.ptx.contains(c) { "+PTX" } else { "" };
        joined(self.all().iter().map(|c| format!("{c}{}", ptx(c))), ";")
    }

    /// The capability for a consumer that takes exactly one. It is the highest capability whose code runs on `gpu`, the
    /// GPU of this machine, if this toolkit compiles it. If there is none, it is the lowest capability, because PTX for
    /// it runs on the most devices. `None` only for an empty plan.
    pub fn single_for(&self, gpu: Option<Capability>, toolkit: ToolkitVersion) -> Option<Single> {
        let is_ptx = self.real.is_empty();
        let list = match is_ptx {
            true => &self.ptx,
            false => &self.real,
        };
        let fits = |gpu: Capability, code: Capability| match is_ptx {
            true => ptx_runs_on(code, gpu, toolkit),
            false => sass_runs_on(code, gpu, toolkit),
        };
        let for_gpu = gpu.and_then(|gpu| list.iter().rfind(|code| fits(gpu, **code)));
        let capability = *for_gpu.or(list.first())?;
        let mut others = self.all();
        others.retain(|other| *other != capability);
        let warning = (for_gpu.is_none() && list.len() > 1).then(|| {
            let others = join(&others);
            let gpu = gpu.map(|gpu| format!(", and none runs on the {gpu} GPU of this machine"));
            format!(
                "CUDA_COMPUTE_CAP takes one capability: it gets the lowest declared, {capability}, and not {others}{}; \
                 set `single-capability` in [package.metadata.cuda] to choose",
                gpu.unwrap_or_default()
            )
        });
        Some(Single {
            capability,
            warning,
        })
    }
}

#[cfg(test)]
mod tests;

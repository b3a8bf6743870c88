//! Resolves compute capabilities: the full list, and the single value for tools that accept only
//! one (`CUDA_COMPUTE_CAP`).

use cuda_build::internal::capability::Single;
use cuda_build::internal::{Declared, Env, Root};
use cuda_build::{Capability, Plan, Toolkit};

use crate::failure::Failure;
use crate::project::CAPABILITIES;
use crate::workspace::Package;

/// The capabilities to build for, the single capability for tools that accept only one, and notes
/// about the choice.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// `None` if no capabilities are declared and this machine has no GPU.
    pub plan: Option<Plan>,
    pub single: Option<Single>,
    pub notes: Vec<String>,
}

impl Capabilities {
    /// Chooses the capabilities that `packages` declare, otherwise those of this machine's GPUs.
    pub fn choose(
        root: &Root,
        env: &Env,
        packages: &[&Package],
        toolkit: &Toolkit,
        gpus: &[Capability],
    ) -> Result<Self, Failure> {
        let version = toolkit.version();
        let observed = toolkit.capabilities_of_ptxas(root, env);
        let plan = |declared: Declared| declared.plan(version, gpus, observed.as_deref());
        let mut chosen = Self::default();

        let mut items: Vec<String> = packages
            .iter()
            .filter_map(|package| package.config.for_major(version.major).capabilities)
            .flatten()
            .cloned()
            .collect();
        if packages.is_empty() {
            // If there are packages, `Package::config` already contains the variable's value.
            items.extend(env.text(CAPABILITIES));
        }
        let all = if !items.is_empty() {
            plan(Declared::parse(&items)?)?
        } else if !gpus.is_empty() {
            let note = "note: no capabilities are declared; building only for this machine's GPU";
            chosen.notes.push(note.to_owned());
            plan(Declared::native())?
        } else {
            return Ok(chosen);
        };

        let mut declared = packages
            .iter()
            .filter_map(|package| package.config.single_capability.as_ref());
        chosen.single = match declared.next() {
            Some(text) => plan(Declared::parse([text])?)?.single_for(None),
            None => all.single_for(gpus.first().copied()),
        };
        let warning = chosen
            .single
            .as_ref()
            .and_then(|single| single.warning.as_ref());
        // The warning is about the single capability only. A package that uses cuda-build reads the
        // whole list instead.
        let only_single_is_used = !packages.iter().any(|package| package.uses_cuda_build);
        if let Some(warning) =
            warning.filter(|_| only_single_is_used && env.peek(COMPUTE_CAP).is_none())
        {
            chosen.notes.push(format!("warning: {warning}"));
        }
        chosen.plan = Some(all);
        Ok(chosen)
    }
}

const COMPUTE_CAP: &str = "CUDA_COMPUTE_CAP";

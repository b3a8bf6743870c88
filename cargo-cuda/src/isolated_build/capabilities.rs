//! Resolves compute capabilities: the full list, and the single value for tools that accept only
//! one (`CUDA_COMPUTE_CAP`).

use cuda_build::{Capability, Plan, Toolkit};
use cuda_find::detail::{
    capability::{Declared, Single},
    env::Env,
    root::Root,
};

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
        let mut notes = Vec::new();

        let lists = packages.iter();
        let lists =
            lists.filter_map(|package| package.config.for_major(version.major).capabilities);
        let mut items: Vec<String> = lists.flatten().cloned().collect();
        if packages.is_empty() {
            // If there are packages, `Package::config` already contains the variable's value.
            items.extend(env.text(CAPABILITIES));
        }
        if items.is_empty() && gpus.is_empty() {
            return Ok(Self::default());
        }
        let declared = match items.is_empty() {
            true => {
                let note =
                    "note: no capabilities are declared; building only for this machine's GPU";
                notes.push(note.to_owned());
                Declared::native()
            }
            false => Declared::parse(&items)?,
        };
        let all = plan(declared)?;
        let mut declared = packages.iter();
        let single = match declared.find_map(|package| package.config.single_capability.as_ref()) {
            Some(text) => plan(Declared::parse([text])?)?.single_for(None),
            None => all.single_for(gpus.first().copied()),
        };
        // The warning is about the single capability only. A package that uses cuda-build reads the
        // whole list instead.
        let is_whole_list_used = packages.iter().any(|package| package.uses_cuda_build);
        if let Some(warning) = single.as_ref().and_then(|single| single.warning.as_ref())
            && !is_whole_list_used
            && env.peek("CUDA_COMPUTE_CAP").is_none()
        {
            notes.push(format!("warning: {warning}"));
        }
        Ok(Self {
            plan: Some(all),
            single,
            notes,
        })
    }
}

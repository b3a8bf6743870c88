//! Resolves compute capabilities: the full list, and the single value for tools that accept only
//! one (`CUDA_COMPUTE_CAP`).

use cuda_build::internal::capability::Single;
use cuda_build::internal::{Declared, Env};
use cuda_build::{Capability, Plan, ToolkitVersion};

use crate::failure::Failure;
use crate::workspace::Package;

/// A list and one of it, with notes about how they were chosen.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// `None` if nothing is declared and there is no GPU.
    pub plan: Option<Plan>,
    pub single: Option<Single>,
    pub notes: Vec<String>,
}

/// What the choice follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub env: &'a Env,
    pub version: ToolkitVersion,
    /// The capabilities that the toolkit's own compiler lists, if the tables do not know it.
    pub observed: Option<&'a [Capability]>,
    /// The packages whose declarations count.
    pub packages: &'a [&'a Package],
    /// The GPUs of this machine.
    pub gpus: &'a [Capability],
}

impl Choice<'_> {
    pub(super) fn make(&self) -> Result<Capabilities, Failure> {
        let mut notes = Vec::new();
        let plan = self.plan(&mut notes)?;
        let single = match &plan {
            Some(plan) => self.single(plan, &mut notes)?,
            None => None,
        };
        Ok(Capabilities {
            plan,
            single,
            notes,
        })
    }

    fn plan(&self, notes: &mut Vec<String>) -> Result<Option<Plan>, Failure> {
        let major = self.version.major;
        let lists = self
            .packages
            .iter()
            .filter_map(|package| package.config.for_major(major).capabilities);
        let mut items: Vec<String> = lists.flatten().cloned().collect();
        if items.is_empty() && self.packages.is_empty() {
            // Packages have read the variable themselves.
            let named = self.env.peek("CUDA_BUILD_CAPABILITIES");
            items.extend(named.map(|list| list.to_string_lossy().into_owned()));
        }
        let declared = if !items.is_empty() {
            Declared::parse(&items)?
        } else if !self.gpus.is_empty() {
            notes.push(
                "note: no capabilities are declared; built for the GPU of this machine alone"
                    .to_owned(),
            );
            Declared::native()
        } else {
            return Ok(None);
        };
        Ok(Some(declared.plan(
            self.version,
            self.gpus,
            self.observed,
        )?))
    }

    fn single(&self, all: &Plan, notes: &mut Vec<String>) -> Result<Option<Single>, Failure> {
        let declared = self
            .packages
            .iter()
            .find_map(|package| package.config.single_capability.as_ref());
        if let Some(text) = declared {
            let only = Declared::parse([text])?.plan(self.version, self.gpus, self.observed)?;
            return Ok(only.single_for(None));
        }
        let single = all.single_for(self.gpus.first().copied());
        if self.only_unmodified()
            && self.env.peek("CUDA_COMPUTE_CAP").is_none()
            && let Some(warning) = single.as_ref().and_then(|single| single.warning.as_ref())
        {
            notes.push(format!("warning: {warning}"));
        }
        Ok(single)
    }

    /// Whether all device code here is that of crates that do not use cuda-build, which takes lists.
    fn only_unmodified(&self) -> bool {
        !self.packages.iter().any(|package| package.uses_cuda_build)
    }
}

//! What a build is for: the list for those who take one, and the one for those who take no list.

use cuda_build::capability::Single;
use cuda_build::{Capability, Declared, Env, Plan, ToolkitVersion};

use crate::failure::Failure;
use crate::graph::Graph;
use crate::workspace::Package;

/// A list and one of it, with what the user should know about how they came to be.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// `None` where nothing is declared and there is no GPU.
    pub plan: Option<Plan>,
    pub single: Option<Single>,
    pub notes: Vec<String>,
}

/// What the choice follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub env: &'a Env,
    pub version: ToolkitVersion,
    /// What the toolkit's own compiler lists, where the tables don't know it.
    pub observed: Option<&'a [Capability]>,
    /// Packages whose declarations count.
    pub packages: &'a [&'a Package],
    /// What the command line says instead.
    pub asked: Option<&'a str>,
    /// Those of this machine.
    pub gpus: &'a [Capability],
    pub graph: &'a Graph,
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
        let mut items: Vec<String> = self.asked.map(str::to_owned).into_iter().collect();
        if items.is_empty() {
            let lists = self
                .packages
                .iter()
                .filter_map(|p| p.config.for_major(major).capabilities);
            items.extend(lists.flatten().cloned());
        }
        if items.is_empty() && self.packages.is_empty() {
            // Packages have read it themselves.
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
            if self.graph.others.iter().any(|other| other.takes_one) {
                notes.push(format!(
                    "note: no capabilities are declared and there is no GPU here: {} may fail or choose by \
                     itself; `--capabilities 8.0` tells, or `capabilities` in [package.metadata.cuda]",
                    self.takers()
                ));
            }
            return Ok(None);
        };
        Ok(Some(declared.plan(
            self.version,
            self.gpus,
            self.observed,
        )?))
    }

    fn single(&self, all: &Plan, notes: &mut Vec<String>) -> Result<Option<Single>, Failure> {
        if let Some(text) = self
            .packages
            .iter()
            .find_map(|p| p.config.single_capability.as_ref())
        {
            let only = Declared::parse([text])?.plan(self.version, self.gpus, self.observed)?;
            return Ok(only.single_for(None));
        }
        let single = all.single_for(self.gpus.first().copied());
        if self.graph.others.iter().any(|other| other.takes_one)
            && self.env.peek("CUDA_COMPUTE_CAP").is_none()
            && let Some(warning) = single
                .as_ref()
                .and_then(|single| single.warning(&self.takers()))
        {
            notes.push(format!("warning: {warning}"));
        }
        Ok(single)
    }

    fn takers(&self) -> String {
        let takers = self.graph.others.iter().filter(|other| other.takes_one);
        let names: Vec<&str> = takers.map(|other| other.name.as_str()).collect();
        format!("CUDA_COMPUTE_CAP (read by {})", names.join(", "))
    }
}

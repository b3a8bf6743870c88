//! Resolves compute capabilities: the full list, and the single value for tools that accept only
//! one (`CUDA_COMPUTE_CAP`).

use cuda_build::{Capability, Plan, Toolkit};
use cuda_build::{compile::matching_files, script::skipped_by};
use cuda_find_core::capability::{Declared, Single, undeclared};

use super::Purpose;
use crate::failure::Failure;
use crate::project::{CAPABILITIES, Project};
use crate::workspace::Package;

/// The capabilities to build for, the single capability for tools that accept only one, and notes
/// about the choice.
#[derive(Debug, Default)]
pub(crate) struct Capabilities {
    /// `None` if no capabilities are declared and this machine has no GPU.
    pub plan: Option<Plan>,
    pub single: Option<Single>,
    /// Whether they are those of this machine's GPUs.
    pub is_native: bool,
    pub notes: Vec<String>,
}

impl Capabilities {
    /// Chooses the capabilities that the packages declare, otherwise those of this machine's GPUs.
    ///
    /// What the build script of a package would refuse is refused here, before cargo compiles its dependencies: an
    /// empty list, and no list in a package with `.cu` files. Without such files, the script may only link.
    pub fn choose(
        project: &Project,
        purpose: Purpose,
        toolkit: &Toolkit,
        gpus: &[Capability],
        wraps_nvcc: bool,
    ) -> Result<Self, Failure> {
        let (root, env, packages) = (&project.root, &project.env, &project.packages);
        let version = toolkit.version();
        let observed = toolkit.capabilities_of_ptxas(root, env);
        let plan = |declared: Declared| declared.plan(version, gpus, observed.as_deref());
        let mut notes = Vec::new();

        let lists = packages.iter();
        let lists =
            lists.filter_map(|package| package.config.for_major(version.major).capabilities);
        if let Some(empty) = lists.clone().find(|list| list.is_empty()) {
            Declared::parse(empty)?;
        }
        let mut items: Vec<String> = lists.flatten().cloned().collect();
        if packages.is_empty() {
            // If there are packages, `Package::config` already contains the variable's value.
            items.extend(env.text(CAPABILITIES));
        }
        if items.is_empty() && gpus.is_empty() {
            let compiles = |package: &Package| compiles_device_code(package, root);
            let is_build = purpose == Purpose::Cargo && skipped_by(env)?.is_none();
            if is_build && packages.iter().any(compiles) {
                return Err(undeclared().into());
            }
            return Ok(Self::default());
        }
        let declared = match items.is_empty() {
            true => {
                let reason = match &project.workspace {
                    Some(_) => "no capabilities are declared",
                    None => "no capabilities are given",
                };
                notes.push(format!(
                    "note: {reason}; building only for this machine's GPU"
                ));
                Declared::native()
            }
            false => Declared::parse(&items)?,
        };
        let is_native = declared.is_native();
        let all = plan(declared)?;
        let mut declared = packages.iter();
        let single = match declared.find_map(|package| package.config.single_capability.as_ref()) {
            Some(text) => plan(Declared::parse([text])?)?.single_for(None, version),
            // The wrapper adds the other capabilities. A script decides by this one what a file may contain.
            None if wraps_nvcc => all.single_for(None, version),
            None => all.single_for(gpus.first().copied(), version),
        };
        // A package that uses cuda-build reads the whole list.
        let is_whole_list_used = packages.iter().any(|package| package.uses_cuda_build);
        if let Some(warning) = single.as_ref().and_then(|single| single.warning.as_ref())
            && !is_whole_list_used
            && !wraps_nvcc
            && env.peek("CUDA_COMPUTE_CAP").is_none()
        {
            notes.push(format!("warning: {warning}"));
        }
        Ok(Self {
            plan: Some(all),
            single,
            is_native,
            notes,
        })
    }
}

/// The list of each thin build, with its name: each capability by itself, and all PTX, which needs newer drivers.
pub fn split(plan: &Plan) -> Vec<(String, Plan)> {
    let sass = plan.real.iter().map(|it| {
        let (real, ptx) = (vec![*it], Vec::new());
        (format!("sm{}", it.digits()), Plan { real, ptx })
    });
    let (real, ptx) = (Vec::new(), plan.ptx.clone());
    let ptx = (!ptx.is_empty()).then(|| ("ptx".to_owned(), Plan { real, ptx }));
    sass.chain(ptx).collect()
}

/// Whether a package probably compiles `.cu` with cuda-build.
fn compiles_device_code(package: &Package, root: &cuda_find_core::root::Root) -> bool {
    let directory = package.manifest.parent().unwrap_or(&package.manifest);
    package.uses_cuda_build && matching_files("**/*.cu", &[], root, directory).is_ok()
}

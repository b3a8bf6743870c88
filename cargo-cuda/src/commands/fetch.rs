//! `cargo cuda fetch`: gets what the workspace needs, for CI and containers.

use clap::Args;
use cuda_build::internal::{Env, ReleaseReq, Root};

use super::toolkit;
use crate::failure::Failure;
use crate::options::WorkspaceOptions;
use crate::toolkits::{self, Finder, LockPolicy};

/// Fetch the toolkits that the workspace and its lock file need
///
/// One for each major that the packages declare, otherwise for each major in the lock file, with the
/// components that the packages declare.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// The CUDA release, 13 or 13.4; by default every declared major
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<ReleaseReq>,
    /// Fail if the lock file would change
    #[arg(long)]
    locked: bool,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Fetches the toolkits and returns the text for standard output.
///
/// # Errors
/// If the workspace is not usable; those of fetching.
pub fn run(arguments: &FetchArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let env = &match arguments.cuda {
        Some(release) => env.clone().with(ReleaseReq::VARIABLE, release.to_string()),
        None => env.clone(),
    };
    let workspace = arguments.workspace.load(root, env)?;
    let env = &toolkits::with_lock(env.clone(), workspace.as_ref());
    let target = arguments
        .workspace
        .platform(root, env, workspace.as_ref())?;
    let finder = Finder {
        lock: match arguments.locked {
            true => LockPolicy::Unchanged,
            false => LockPolicy::Prefer,
        },
        ..Finder::new(env, root, &target, workspace.as_ref())
    };
    Ok(finder
        .fetch_all()?
        .iter()
        .map(toolkit::added_text)
        .collect())
}

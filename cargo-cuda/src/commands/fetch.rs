//! `cargo cuda fetch`: gets what the workspace needs, for CI and containers.

use clap::Args;
use cuda_build::internal::{Env, ReleaseReq, Root};

use crate::failure::Failure;
use crate::options::WorkspaceOptions;
use crate::toolkits::{self, Finder};

/// Fetch the toolkits that the workspace and its lock file need
///
/// In every major that the packages declare, with the components that they declare.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// The CUDA release, 13 or 13.4; by default every declared major
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<ReleaseReq>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Fetches the toolkits.
///
/// # Errors
/// If the workspace is not usable; those of fetching.
pub fn run(arguments: &FetchArgs, env: &Env, root: &Root) -> Result<(), Failure> {
    let env = &match arguments.cuda {
        Some(release) => env.clone().with(ReleaseReq::VARIABLE, release.to_string()),
        None => env.clone(),
    };
    let workspace = arguments.workspace.load(root, env)?;
    let env = &toolkits::with_lock(env.clone(), workspace.as_ref());
    let target = arguments
        .workspace
        .platform(root, env, workspace.as_ref())?;
    Finder {
        env,
        root,
        target: &target,
        workspace: workspace.as_ref(),
        fetch: true,
        partial: false,
    }
    .fetch_all()
}

//! `cargo cuda fetch`: gets what the workspace needs, for CI and containers.

use clap::Args;
use cuda_build::internal::{Env, ReleaseReq, Root};

use crate::failure::Failure;
use crate::project::{BuildOptions, Project, WorkspaceOptions};

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
    let build = BuildOptions::new(arguments.cuda, true);
    Project::open(env, root, &build, &arguments.workspace)?
        .finder()
        .fetch_all()
}

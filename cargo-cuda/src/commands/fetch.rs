//! `cargo cuda fetch`: fetches the toolkits that the workspace needs, for CI and containers.

use clap::Args;
use cuda_build::internal::{Env, RequestedRelease, Root};

use crate::commands::toolkit;
use crate::failure::Failure;
use crate::project::{BuildOptions, Project, WorkspaceOptions};
use crate::toolkits::LockPolicy;

/// Fetch the toolkits that the workspace and its lock file need
///
/// Fetches one toolkit for each major that the packages declare, otherwise for each major in the lock
/// file. Each toolkit has the components that the packages declare.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// The CUDA release, 13 or 13.4; by default every declared major
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<RequestedRelease>,
    /// Fail if the lock file would change
    #[arg(long)]
    locked: bool,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Fetches the toolkits and returns the text for standard output.
pub fn run(arguments: &FetchArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let build = BuildOptions::new(arguments.cuda, true);
    let mut project = Project::open(env, root, &build, &arguments.workspace)?;
    if arguments.locked {
        project.lock = LockPolicy::Unchanged;
    }
    let added = project.finder().fetch_all()?;
    Ok(added.iter().map(toolkit::added_text).collect())
}

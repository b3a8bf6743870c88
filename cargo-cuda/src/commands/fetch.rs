//! `cargo cuda fetch`: fetches the toolkits that the workspace needs, for CI and containers.

use std::ffi::OsString;

use clap::Args;
use cuda_find_core::{env::Env, root::Root, select::RequestedRelease};

use crate::cargo_arguments::CargoOptions;
use crate::commands::toolkit;
use crate::failure::Result;
use crate::project::{BuildOptions, Project, WorkspaceOptions};

/// Fetch the toolkits that the workspace and its lock file need
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// The CUDA release, 13 or 13.4; by default every declared major
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<RequestedRelease>,
    /// Fail if Cargo.lock or the lock file of toolkits would change
    #[arg(long)]
    locked: bool,
    /// The features that the build enables
    #[arg(long, short = 'F', value_name = "FEATURES")]
    features: Vec<String>,
    /// As if all features were enabled
    #[arg(long)]
    all_features: bool,
    /// As if the default features were not enabled
    #[arg(long)]
    no_default_features: bool,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

impl FetchArgs {
    /// The options of cargo that decide which features are enabled, and whether its lock file may change.
    fn cargo_options(&self) -> CargoOptions {
        let features = self.features.iter().flat_map(|list| ["--features", list]);
        let flags = [
            self.all_features.then_some("--all-features"),
            self.no_default_features.then_some("--no-default-features"),
            self.locked.then_some("--locked"),
        ];
        let arguments = features.chain(flags.into_iter().flatten());
        CargoOptions::parse(&Vec::from_iter(arguments.map(OsString::from)))
    }
}

/// Fetches the toolkits and returns the text for standard output.
pub fn run(arguments: &FetchArgs, user_env: &Env, root: &Root) -> Result<String> {
    let build = BuildOptions::new(arguments.cuda, true);
    let workspace_options = WorkspaceOptions {
        cargo: arguments.cargo_options(),
        ..arguments.workspace.clone()
    };
    let project = Project::open(user_env, root, &build, &workspace_options)?;
    let added = project.finder().fetch_all()?;
    Ok(added.iter().map(toolkit::added_text).collect())
}

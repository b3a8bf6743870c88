//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cuda_build::internal::{Env, ReleaseReq, Root, Target};

use crate::build::CAPABILITIES;
use crate::cargo_config::Configured;
use crate::failure::Failure;
use crate::toolkits;
use crate::workspace::{Query, Workspace};

/// Which toolkit, and what for.
#[derive(Args, Clone, Debug, Default)]
pub struct BuildOptions {
    #[command(flatten)]
    pub search: SearchOptions,
    /// Compute capabilities instead of the declared ones, as in 8.0,9.0,12.0+PTX
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    pub capabilities: Option<String>,
}

/// Which toolkit.
#[derive(Args, Clone, Debug, Default)]
pub struct SearchOptions {
    /// The CUDA release, 13 or 13.4; by default the newest that is found
    #[arg(long, value_name = "RELEASE")]
    pub cuda: Option<ReleaseReq>,
    /// Fetch a toolkit if none is found
    #[arg(long)]
    pub fetch: bool,
}

/// Which workspace, and what is built in it.
#[derive(Args, Clone, Debug, Default)]
pub struct WorkspaceOptions {
    /// The package whose declarations count; by default those of all packages
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// The manifest of the workspace or package
    #[arg(long, value_name = "Cargo.toml")]
    pub manifest_path: Option<PathBuf>,
    /// The Rust triple to build for
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
}

impl SearchOptions {
    /// The variables as the command sees them: an option wins over the variable.
    #[must_use]
    pub fn over(&self, env: Env) -> Env {
        match self.cuda {
            Some(release) => env.with(ReleaseReq::VARIABLE, release.to_string()),
            None => env,
        }
    }
}

impl BuildOptions {
    /// The variables as the command sees them: an option wins over the variable.
    #[must_use]
    pub fn over(&self, env: Env) -> Env {
        let env = self.search.over(env);
        match &self.capabilities {
            Some(list) => env.with(CAPABILITIES, list),
            None => env,
        }
    }
}

impl WorkspaceOptions {
    /// The workspace that is meant, if there is one.
    ///
    /// # Errors
    /// If it is not usable, or has no package of the name.
    pub fn load(&self, root: &Root, env: &Env) -> Result<Option<Workspace>, Failure> {
        let query = Query {
            manifest: self.manifest_path.clone(),
            ..Query::default()
        };
        let workspace = Workspace::load_optional(root, env, &query)?;
        if let (Some(name), Some(workspace)) = (&self.package, &workspace) {
            workspace.package(name)?;
        }
        Ok(workspace)
    }

    /// The platform to build for.
    ///
    /// # Errors
    /// A platform that CUDA has no toolkit for.
    pub fn platform(
        &self,
        root: &Root,
        env: &Env,
        workspace: Option<&Workspace>,
    ) -> Result<Target, Failure> {
        let config = Configured::here(root, env, &[]);
        let mut packages = workspace.into_iter().flat_map(|w| &w.packages);
        let jetson = packages.any(|package| package.config.jetson);
        toolkits::target(
            self.target.as_deref(),
            config.build_target.as_deref(),
            jetson,
        )
    }
}

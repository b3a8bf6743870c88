//! `cargo cuda clean`: removes target directories that are no longer used.

use std::time::Duration;

use clap::Args;
use cuda_build::internal::{Env, Root};

use crate::build::directory;
use crate::failure::Failure;
use crate::output;
use crate::project::WorkspaceOptions;

/// Remove target directories that no build has used for 30 days
#[derive(Args, Clone, Debug)]
pub struct CleanArgs {
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Removes the directories, and returns a line for each.
pub fn run(arguments: &CleanArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let workspace = arguments.workspace.load(root, env)?;
    let base = directory::base(env, workspace.as_ref())?;
    let mut text = String::new();
    for path in directory::old(root, &base, UNUSED) {
        output::remove_directory(&path)?;
        text.push_str(&format!("removed {}\n", path.display()));
    }
    if text.is_empty() {
        text = format!(
            "no directory below {} has been unused for 30 days\n",
            base.display()
        );
    }
    Ok(text)
}

//! `cargo cuda clean`: what builds with a directory of their own left.

use std::path::PathBuf;

use clap::Args;
use cuda_build::{Env, Root};

use crate::failure::Failure;
use crate::output::{self, Removal};
use crate::session;
use crate::workspace::Workspace;

/// Remove the build directories of all environments: other majors, other capabilities, wheels
///
/// What plain cargo built stays, and so do the final files, views, and directories that a running
/// cargo works in. A shell that was given variables goes on working; cargo builds anew for it.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct CleanArgs {
    /// The workspace
    #[arg(long, value_name = "Cargo.toml")]
    manifest_path: Option<PathBuf>,
    /// Instead of cargo's own
    #[arg(long, value_name = "DIRECTORY")]
    target_dir: Option<PathBuf>,
}

/// Removes, and returns what to say about it.
///
/// # Errors
/// Where cargo does not tell the directory, or the disk says no.
pub fn run(arguments: &CleanArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let workspace = Workspace::load(root, env, arguments.manifest_path.as_deref())?;
    let workspace = workspace.at(arguments.target_dir.clone());
    let place = session::directories(&workspace);
    let mut text = String::new();
    for name in root.names(&place) {
        let directory = place.join(&name);
        if !name.to_str().is_some_and(session::names_directory) || !root.is_dir(&directory) {
            continue;
        }
        let line = match output::remove_all_but(&directory, session::KEPT)? {
            Removal::Done => "removed",
            Removal::InUse => "kept, because a cargo works in it:",
            Removal::Nothing => continue,
        };
        text.push_str(&format!("{line} {}\n", directory.display()));
    }
    if text.is_empty() {
        text = format!("nothing to remove in {}\n", place.display());
    }
    Ok(text)
}

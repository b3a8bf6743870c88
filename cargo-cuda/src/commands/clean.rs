//! `cargo cuda clean`: removes the target directory of `cargo cuda`, or what compilers made.

use clap::Args;
use cuda_build::compile::{output_store, remove_outputs};
use cuda_find_core::cache::required_cache_dir;
use cuda_find_core::{env::Env, root::Root};

use crate::failure::Result;
use crate::output::human_size;
use crate::project::WorkspaceOptions;
use crate::{output, toolkits};

/// Remove the target directory of `cargo cuda`
#[derive(Args, Clone, Debug)]
pub struct CleanArgs {
    /// Remove what compilers made for all projects, instead of the target directory
    #[arg(long)]
    images: bool,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Returns a line about what was removed.
pub fn run(arguments: &CleanArgs, env: &Env, root: &Root) -> Result<String> {
    if arguments.images {
        return remove_images(env);
    }
    let workspace = arguments.workspace.load(root, env)?;
    let base = toolkits::builds_directory(env, workspace.as_ref())?;
    if !root.is_dir(&base) {
        return Ok(format!("{} does not exist\n", base.display()));
    }
    // Builds of each kind lock a directory of their own.
    let separate = base.join(".separate");
    let mut all = vec![base.clone(), base.join(".wheel")];
    all.extend(root.names(&separate).iter().map(|it| separate.join(it)));
    let mut locks = Vec::new();
    for directory in all.iter().map(|path| path.join(".cuda")) {
        if root.is_dir(&directory) {
            locks.push(output::lock(&directory)?);
        }
    }
    // The directory is moved before it is removed, so that no build finds only a part of its contents.
    let removed = output::temporary_directory(output::parent(&base))?;
    output::rename(&base, &removed.path().join("cargo-cuda"))?;
    Ok(format!("removed {}\n", base.display()))
}

fn remove_images(env: &Env) -> Result<String> {
    required_cache_dir(env)?;
    let directory = output_store(env).unwrap_or_default();
    let size = human_size(remove_outputs(&directory)?);
    Ok(format!("removed {size} from {}\n", directory.display()))
}

//! `cargo cuda new`: packages from templates.

use std::path::PathBuf;

use clap::Args;
use cuda_build::config::Config;
use cuda_find_core::command;
use cuda_find_core::{env::Env, root::Root};

use crate::failure::{Failure, Result};
use crate::template::Template;
use crate::{exit_code, output, process};

/// Create a package that builds CUDA code
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// The directory to create
    path: PathBuf,
    /// What the package contains
    #[arg(long, value_enum, default_value_t)]
    template: Template,
    /// The name of the package; by default that of the directory
    #[arg(long)]
    name: Option<String>,
    /// The version control system, as for `cargo new`: git, hg, pijul, fossil, none
    #[arg(long, value_name = "VCS")]
    vcs: Option<String>,
}

/// Creates the package, and returns a text for the user, and cargo's exit code.
pub fn new(arguments: &NewArgs, env: &Env, root: &Root) -> Result<(String, u8)> {
    let template = arguments.template;
    // Cargo checks the name and the directory, adds the package to a workspace, and makes a repository.
    let kind = if template.is_library() {
        "--lib"
    } else {
        "--bin"
    };
    let mut call = process::cargo(env, &["new", kind]);
    for (option, value) in [("--name", &arguments.name), ("--vcs", &arguments.vcs)] {
        call = call.args(value.iter().flat_map(|value| [option, value.as_str()]));
    }
    let code = process::run(&call.args(["--"]).args([&arguments.path]), env)?;
    if code != exit_code::SUCCESS {
        return Ok((String::new(), code));
    }
    let of_directory = output::file_name(&arguments.path);
    let name = arguments.name.as_ref().unwrap_or(&of_directory);
    for (path, content) in template.files(name) {
        output::write(&arguments.path.join(path), content.as_bytes())?;
    }
    let manifest = arguments.path.join("Cargo.toml");
    let of_cargo = root
        .text(&manifest)
        .map_err(Failure::io("read", &manifest))?;
    // Cargo writes `[package]`, perhaps with keys of a workspace, and an empty table.
    let (package, rest) = of_cargo
        .split_once("\n[dependencies]\n")
        .unwrap_or((&of_cargo, ""));
    let mut tables = template.tables(name);
    // The list of a workspace is for all of its members.
    let config = Config::read(root, &Env::from_pairs::<&str, &str>([]), &arguments.path)?;
    if config.for_major(0).capabilities.is_some() {
        let lines = tables.split_inclusive('\n');
        let lines = lines.filter(|line| !line.starts_with("capabilities = "));
        tables = lines.collect();
    }
    let text = package.to_owned() + &tables + rest;
    output::write(&manifest, text.as_bytes())?;
    // `--fetch` fetches a toolkit on a machine without CUDA.
    let next = match template {
        Template::Python => "wheel",
        Template::Sys => "test",
        _ => "run",
    };
    let directory = command::quoted(arguments.path.as_os_str());
    let text = format!("next commands:\n  cd {directory}\n  cargo cuda {next} --fetch\n");
    Ok((text, exit_code::SUCCESS))
}

//! `cargo cuda`
#![allow(clippy::disallowed_methods, reason = "the process's own arguments and directory are read here")]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cargo_cuda::commands::toolkit::{self, ToolkitArgs};
use cargo_cuda::store::{Context, LOCK_FILE, Messages};
use clap::{Parser, Subcommand};
use cuda_build::Env;

#[derive(Parser)]
#[command(name = "cargo cuda", bin_name = "cargo cuda")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Toolkit(ToolkitArgs),
}

fn main() -> ExitCode {
    // Cargo starts `cargo-cuda cuda …`; by hand it may be `cargo-cuda …`.
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|argument| argument == "cuda") {
        arguments.remove(1);
    }
    let Command::Toolkit(arguments) = Cli::parse_from(arguments).command;
    let context = Context { env: Env::from_process(), lock_file: lock_file(), messages: Messages::Auto };
    match toolkit::run(&arguments, &context) {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:?}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Beside the nearest `Cargo.lock`, which cargo keeps at the workspace root.
fn lock_file() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let root = here.ancestors().find(|directory| directory.join("Cargo.lock").is_file())?;
    Some(root.join(LOCK_FILE))
}

//! The command line.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "here results and errors reach the terminal"
)]

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cuda_build::{Env, Root, config};

use crate::commands::capabilities::{self, CapabilitiesArgs};
use crate::commands::cargo;
use crate::commands::doctor;
use crate::commands::env::{self as variables, EnvArgs, ExecArgs};
use crate::commands::toolkit::{self, ToolkitArgs};
use crate::commands::view::{self, ViewArgs};
use crate::commands::wheel::{self, WheelArgs};
use crate::exit_code;
use crate::failure::Failure;
use crate::store::{Context, LOCK_FILE, Messages};
use crate::{cargo_config, runner, rustc_wrapper, session};

/// Fetch CUDA components, build crates with them, package wheels per CUDA major.
#[derive(Debug, Parser)]
#[command(name = "cargo cuda", bin_name = "cargo cuda", version, after_help = exit_code::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// `cargo build` with a CUDA toolkit found for it
    #[command(after_help = OWN_OPTIONS)]
    Build(CargoArgs),
    /// `cargo check` with a CUDA toolkit found for it
    #[command(after_help = OWN_OPTIONS)]
    Check(CargoArgs),
    /// `cargo run`, with CUDA's libraries on the loader path
    #[command(after_help = OWN_OPTIONS)]
    Run(CargoArgs),
    /// `cargo test`, with CUDA's libraries on the loader path
    #[command(after_help = OWN_OPTIONS)]
    Test(CargoArgs),
    /// `cargo bench`, with CUDA's libraries on the loader path
    #[command(after_help = OWN_OPTIONS)]
    Bench(CargoArgs),
    /// `cargo clippy` with a CUDA toolkit found for it
    #[command(after_help = OWN_OPTIONS)]
    Clippy(CargoArgs),
    /// `cargo doc` with a CUDA toolkit found for it
    #[command(after_help = OWN_OPTIONS)]
    Doc(CargoArgs),
    Exec(ExecArgs),
    Env(EnvArgs),
    Wheel(Box<WheelArgs>),
    View(ViewArgs),
    /// Say what is found here, what is chosen and why, and whether a build will work
    Doctor {
        /// As if this CUDA major were asked for
        #[arg(long, value_name = "N")]
        major: Option<u32>,
        /// The Rust triple that is built for
        #[arg(long, value_name = "TRIPLE")]
        target: Option<String>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    Toolkit(ToolkitArgs),
    Capabilities(CapabilitiesArgs),
    /// Not to be called by hand: cargo starts programs through it, so that `cargo cuda run`, `test` and
    /// `bench` give them the libraries that build scripts have made
    #[command(name = runner::NAME, hide = true)]
    RunProgram(CargoArgs),
}

/// Shown below each of these commands' help.
const OWN_OPTIONS: &str = "\
Every option of cargo's passes through. Our own, taken out wherever they stand before `--`:
  --major <N>            the CUDA major; the newest that is found where not given
  --capabilities <LIST>  instead of the manifest's, as in 8.0,9.0,12.0+PTX
  --fetch                fetch a toolkit where none is found";

#[derive(Debug, clap::Args)]
struct CargoArgs {
    /// For cargo, with our own among them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    arguments: Vec<OsString>,
}

/// The whole program; `arguments` without its own name.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(code) = rustc_wrapper::run(&arguments) {
        return code;
    }
    // Cargo starts `cargo-cuda cuda …`; by hand it may be `cargo-cuda …`.
    let own = arguments.first().is_some_and(|first| first == "cuda");
    let raw: Vec<OsString> = arguments.into_iter().skip(own.into()).collect();
    let cli = match Cli::try_parse_from(
        std::iter::once("cargo cuda".into()).chain(raw.iter().cloned()),
    ) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                exit_code::USAGE
            } else {
                exit_code::SUCCESS
            });
        }
    };
    // What is for cargo goes on as it is: the parser takes out a `--` that comes first.
    match dispatch(&cli.command, raw.get(1..).unwrap_or_default()) {
        Ok((text, code)) => {
            // A closed pipe (`… | head`) is no error.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::from(code)
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.code)
        }
    }
}

/// `rest` is the command line after the subcommand's name.
fn dispatch(command: &Command, rest: &[OsString]) -> Result<(String, u8), Failure> {
    let process = Env::from_process();
    let users = session::users_own(&process);
    let root = Root::system();
    let cargo =
        |name: &str| cargo::run(name, rest, &users, &root).map(|code| (String::new(), code));
    let env = cargo_config::with_variables(&root, &users, &[]);
    match command {
        Command::Build(_) => cargo("build"),
        Command::Check(_) => cargo("check"),
        Command::Run(_) => cargo("run"),
        Command::Test(_) => cargo("test"),
        Command::Bench(_) => cargo("bench"),
        Command::Clippy(_) => cargo("clippy"),
        Command::Doc(_) => cargo("doc"),
        Command::Exec(arguments) => {
            variables::exec(arguments, &users, &root).map(|code| (String::new(), code))
        }
        Command::Env(arguments) => {
            variables::print(arguments, &process, &root).map(|text| (text, exit_code::SUCCESS))
        }
        Command::Wheel(arguments) => {
            wheel::run(arguments, &env, &root).map(|text| (text, exit_code::SUCCESS))
        }
        Command::View(arguments) => {
            view::run(arguments, &env, &root).map(|text| (text, exit_code::SUCCESS))
        }
        Command::Doctor {
            major,
            target,
            json,
        } => doctor::run(*major, target.as_deref(), *json, &env, &root),
        Command::Capabilities(arguments) => capabilities::run(arguments, &env, &root),
        // The program gets what a `cargo cuda` above it has set.
        Command::RunProgram(_) => {
            runner::run(rest, &process, &root).map(|code| (String::new(), code))
        }
        Command::Toolkit(arguments) => {
            // Outside a workspace there is no lock file to keep.
            let here = std::env::current_dir().unwrap_or_default();
            let workspace = config::workspace_root(&root, &here).map(|found| found.join(LOCK_FILE));
            let context = Context {
                env,
                lock_file: workspace,
                messages: Messages::Auto,
            };
            Ok((toolkit::run(arguments, &context)?, exit_code::SUCCESS))
        }
    }
}

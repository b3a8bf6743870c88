//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as _, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use cuda_build::internal::{Env, Root, config};

use crate::cargo_arguments::{self, Options, SplitArguments, TakesValue};
use crate::cargo_config::CargoConfig;
use crate::commands::audit::{self, AuditArgs};
use crate::commands::build;
use crate::commands::capabilities::{self, CapabilitiesArgs};
use crate::commands::clean::{self, CleanArgs};
use crate::commands::develop::{self, DevelopArgs};
use crate::commands::doctor::{self, DoctorArgs};
use crate::commands::env::{self as variables, EnvArgs, ExecArgs};
use crate::commands::fetch::{self, FetchArgs};
use crate::commands::matrix::{self, MatrixArgs};
use crate::commands::new::{self, InitArgs, NewArgs};
use crate::commands::pep517::{self, Pep517Args};
use crate::commands::toolkit::{self, ToolkitArgs};
use crate::commands::view::{self, ViewArgs};
use crate::commands::wheel::{self, WheelArgs};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::TerminalOptions;
use crate::project::BuildOptions;
use crate::store::Context;
use crate::{help, output, previous, rustc_wrapper, signals};

/// Fetch CUDA components, build crates with them, package wheels per CUDA major.
#[derive(Debug, Parser)]
#[command(name = "cargo cuda", bin_name = "cargo cuda", version, styles = output::STYLES)]
struct Cli {
    #[command(flatten)]
    terminal: TerminalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(NewArgs),
    Init(InitArgs),
    /// `cargo build` with CUDA
    #[command(visible_alias = "b")]
    Build(BuildOptions),
    /// `cargo check` with CUDA
    #[command(visible_alias = "c")]
    Check(BuildOptions),
    /// `cargo run` with CUDA
    #[command(visible_alias = "r")]
    Run(BuildOptions),
    /// `cargo test` with CUDA
    #[command(visible_alias = "t")]
    Test(BuildOptions),
    /// `cargo bench` with CUDA
    Bench(BuildOptions),
    /// `cargo clippy` with CUDA
    Clippy(BuildOptions),
    /// `cargo doc` with CUDA
    #[command(visible_alias = "d")]
    Doc(BuildOptions),
    /// `cargo nextest` with CUDA
    Nextest(BuildOptions),
    /// `cargo install` with CUDA
    Install(BuildOptions),
    Exec(ExecArgs),
    Env(EnvArgs),
    Wheel(Box<WheelArgs>),
    Audit(AuditArgs),
    Develop(DevelopArgs),
    #[command(hide = true)]
    Pep517(Pep517Args),
    View(ViewArgs),
    Doctor(DoctorArgs),
    Toolkit(ToolkitArgs),
    Fetch(FetchArgs),
    Clean(CleanArgs),
    Capabilities(CapabilitiesArgs),
    Matrix(MatrixArgs),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// bash, zsh, fish or another shell
        #[arg(hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
    /// The exit codes of `cargo cuda`
    #[command(hide = true, help_template = "{about}{after-help}", after_help = help::exit_codes())]
    ExitCodes,
}

/// The command line with its help.
pub fn command() -> clap::Command {
    help::with_texts(Cli::command())
}

/// The command line as usage and `--version` name it.
fn with_name(name: &'static str) -> clap::Command {
    command().name(name).bin_name(name)
}

/// The name of this program, if it is not started by cargo.
const PROGRAM: &str = "cargo-cuda";

/// Cargo's commands that this program runs.
const CARGO_COMMANDS: [&str; 9] = [
    "build", "check", "run", "test", "bench", "clippy", "doc", "nextest", "install",
];

/// The entry point. `arguments` do not include the program's name.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(code) = rustc_wrapper::run(&arguments) {
        return code;
    }
    // Cargo runs `cargo-cuda cuda …`; a user may run `cargo-cuda …` directly, as with `uvx cargo-cuda …`.
    let by_cargo = arguments.first().is_some_and(|first| first == "cuda");
    let arguments: Vec<OsString> = arguments.into_iter().skip(by_cargo.into()).collect();
    let process = Env::from_process();
    let name = if by_cargo { "cargo cuda" } else { PROGRAM };
    let (cli, split) = match parse(name, &arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            output::use_colour(color(&Options::parse(&arguments)), &process);
            return usage(&error);
        }
    };
    output::set_up(terminal_options(&cli, &split), &process);
    signals::watch();
    let ended = dispatch(&cli.command, &split, &process)
        .and_then(|(text, code)| output::print(&text).map(|()| code));
    let code = ended.unwrap_or_else(|failure| {
        output::message(&failure.to_string());
        failure.code
    });
    signals::finish();
    ExitCode::from(code)
}

/// Prints the help or a usage error, and returns the exit code.
fn usage(error: &clap::Error) -> ExitCode {
    let code = match (error.use_stderr(), error.print()) {
        (true, _) => exit_code::USAGE,
        (false, Ok(())) => exit_code::SUCCESS,
        (false, Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => exit_code::SUCCESS,
        (false, Err(error)) => {
            output::message(&format!(
                "error: could not write to standard output: {error}"
            ));
            exit_code::DISK
        }
    };
    ExitCode::from(code)
}

/// Parses the command line. For cargo's commands, clap gets only the options of `cargo cuda`. `name` is what the user
/// has typed before the arguments.
fn parse(name: &'static str, arguments: &[OsString]) -> Result<(Cli, SplitArguments), clap::Error> {
    let parse = |arguments: &[OsString]| {
        let all = std::iter::once(name.into()).chain(arguments.iter().cloned());
        let matches = with_name(name).try_get_matches_from(all)?;
        Cli::from_arg_matches(&matches)
    };
    let Some((name, rest)) = cargo_command(arguments) else {
        return Ok((parse(arguments)?, SplitArguments::default()));
    };
    let options = BuildOptions::augment_args(clap::Command::new("build"));
    let find = |name: &str| {
        let mut ours = options.get_arguments();
        ours.find(|option| {
            option.get_long().is_some() && option.get_long() == name.strip_prefix("--")
        })
    };
    let is_ours = |name: &str| match name {
        "--help" | "-h" => Some(TakesValue::No),
        _ => find(name).map(|option| match option.get_action().takes_values() {
            true => TakesValue::Yes,
            false => TakesValue::No,
        }),
    };
    let split = cargo_arguments::split(&name, &rest, is_ours);
    let ours: Vec<OsString> = std::iter::once(name.clone().into())
        .chain(split.ours.iter().cloned())
        .collect();
    let cli = parse(&ours)?;
    // An option is probably misspelled if clap suggests an option of `cargo cuda` for it. Options of
    // cargo that take a value are not checked, because their names are known.
    for option in &split.cargos {
        let text = option.to_string_lossy();
        let long = text.split('=').next().unwrap_or_default();
        if long.starts_with("--")
            && !cargo_arguments::takes_value(long)
            && let Err(error) = parse(&[name.clone().into(), long.into()])
            && error.kind() == ErrorKind::UnknownArgument
            && let Some(ContextValue::String(suggestion)) = error.get(ContextKind::SuggestedArg)
            && find(suggestion).is_some()
        {
            return Err(error);
        }
    }
    Ok((cli, split))
}

/// The full name of the command of cargo in a command line, and its arguments. Options before the
/// command are passed to it: `-v b` is `build -v`.
fn cargo_command(arguments: &[OsString]) -> Option<(String, Vec<OsString>)> {
    let mut rest = arguments.iter().enumerate();
    let (index, name) = loop {
        let (index, argument) = rest.next()?;
        match argument.to_str()? {
            "--color" => drop(rest.next()),
            option if option.starts_with('-') => {}
            name => break (index, name),
        }
    };
    let cli = Cli::command();
    let command = cli.find_subcommand(name)?.get_name();
    if !CARGO_COMMANDS.contains(&command) {
        return None;
    }
    let before = arguments[..index].iter();
    let after = arguments[index + 1..].iter();
    Some((command.to_owned(), before.chain(after).cloned().collect()))
}

/// The options for the terminal, which cargo's commands also get.
fn terminal_options(cli: &Cli, split: &SplitArguments) -> TerminalOptions {
    if split.command.is_empty() {
        return cli.terminal;
    }
    let cargo = Options::parse(&split.cargos);
    TerminalOptions {
        quiet: cargo.has(&["-q", "--quiet"]),
        verbose: cargo.has(&["-v", "--verbose"]).into(),
        color: color(&cargo),
    }
}

/// The value of `--color`. Cargo reports an invalid one.
fn color(options: &Options) -> Option<ColorChoice> {
    options.value("--color")?.parse().ok()
}

/// Runs a command, and returns the text for standard output with the exit code.
fn dispatch(
    command: &Command,
    split: &SplitArguments,
    process: &Env,
) -> Result<(String, u8), Failure> {
    let root = &Root::system();
    let user = &previous::without(process);
    let seen = || CargoConfig::here(root, user, &[]).over(user);
    let silent = |code: u8| (String::new(), code);
    let done = |text: String| (text, exit_code::SUCCESS);
    match command {
        Command::New(arguments) => new::new(arguments, user, root),
        Command::Init(arguments) => new::init(arguments, root).map(done),
        Command::Build(options)
        | Command::Check(options)
        | Command::Run(options)
        | Command::Test(options)
        | Command::Bench(options)
        | Command::Clippy(options)
        | Command::Doc(options)
        | Command::Nextest(options)
        | Command::Install(options) => build::run(options, split, user, root).map(silent),
        Command::Exec(arguments) => variables::exec(arguments, user, root).map(silent),
        Command::Env(arguments) => variables::print(arguments, process, root).map(done),
        Command::Wheel(arguments) => wheel::run(arguments, user, root).map(done),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Develop(arguments) => develop::run(arguments, user, root).map(silent),
        Command::Pep517(arguments) => pep517::run(arguments, user, root).map(done),
        Command::View(arguments) => view::run(arguments, user, root).map(done),
        Command::Doctor(arguments) => doctor::run(arguments, user, root),
        Command::Fetch(arguments) => fetch::run(arguments, user, root).map(done),
        Command::Clean(arguments) => clean::run(arguments, &seen(), root).map(done),
        Command::Capabilities(arguments) => capabilities::run(arguments, &seen(), root),
        Command::Completions { shell } => {
            // The script for a name with a space would not complete the commands of a command.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut with_name(PROGRAM), PROGRAM, &mut script);
            Ok(done(String::from_utf8_lossy(&script).into_owned()))
        }
        Command::ExitCodes => Ok(done(help::exit_codes() + "\n")),
        Command::Matrix(arguments) => matrix::run(arguments, &seen(), root).map(done),
        Command::Toolkit(arguments) => {
            // Outside a workspace there is no lock file, unless `CUDA_BUILD_LOCK` names one.
            let here = std::env::current_dir().unwrap_or_default();
            let workspace = config::workspace_root(root, &here);
            let context = Context::new(&seen(), workspace.as_deref());
            Ok(done(toolkit::run(arguments, &context)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Cli, SplitArguments), clap::Error> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse("cargo cuda", &arguments)
    }

    #[test]
    fn a_misspelled_option_is_ours_with_a_suggestion() {
        for (line, suggestion) in [
            ("build --capabilites 8.0", "--capabilities"),
            ("run --release --cudaa=13 x", "--cuda"),
            ("env --cud 13", "--cuda"),
        ] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(suggestion), "{line}: {error}");
        }
    }

    #[test]
    fn no_option_of_cargo_is_taken_for_ours() {
        const FLAGS: &str = "--lib --bins --examples --tests --benches --bench --all-targets --all-features \
             --no-default-features --release --workspace --all --keep-going --ignore-rust-version --locked \
             --offline --frozen --verbose --quiet --no-run --no-fail-fast --doc --open --no-deps \
             --document-private-items --future-incompat-report --unit-graph --timings --fix --allow-dirty \
             --force --no-track --cargo-quiet --partition --features=x --jobs 4 --branch main --list";
        for command in CARGO_COMMANDS {
            let (_, split) = parsed(&format!("{command} {FLAGS} --cuda 12")).unwrap();
            assert_eq!(split.cargos.len(), FLAGS.split_whitespace().count());
        }
    }

    #[test]
    fn aliases_are_those_of_cargo() {
        for (alias, command) in [
            ("b", "build"),
            ("c", "check"),
            ("d", "doc"),
            ("r", "run"),
            ("t", "test"),
        ] {
            let (_, split) = parsed(&format!("{alias} -r --cuda 13")).unwrap();
            assert_eq!((split.command.as_str(), split.cargos.len()), (command, 1));
        }
        for alias in ["toolkit ls", "toolkit rm 13"] {
            assert!(parsed(alias).is_ok(), "{alias}");
        }
    }

    #[test]
    fn options_for_the_terminal_are_also_cargos() {
        for (line, cargos, quiet, verbose, color) in [
            ("-v build -r", "-v -r", false, 1, None),
            ("-v b -r", "-v -r", false, 1, None),
            ("build -qr", "-qr", true, 0, None),
            (
                "--color never -q run x -v",
                "--color never -q",
                true,
                0,
                Some(ColorChoice::Never),
            ),
            (
                "test --color=always -- -v",
                "--color=always",
                false,
                0,
                Some(ColorChoice::Always),
            ),
            (
                "doctor -vv --color always",
                "",
                false,
                2,
                Some(ColorChoice::Always),
            ),
            ("-q toolkit list", "", true, 0, None),
            ("exec ls -v --color never", "", false, 0, None),
        ] {
            let (cli, split) = parsed(line).unwrap();
            let expected: Vec<OsString> = cargos.split_whitespace().map(OsString::from).collect();
            assert_eq!(split.cargos, expected, "{line}");
            let options = terminal_options(&cli, &split);
            assert_eq!((options.quiet, options.verbose), (quiet, verbose), "{line}");
            assert_eq!(options.color, color, "{line}");
        }
        assert!(parsed("-v -q doctor").is_err());
    }

    #[test]
    fn bad_values_are_usage_errors() {
        for line in [
            "build --cuda",
            "build --cuda x",
            "build --cuda 3",
            "build --cuda 13.4.1",
            "build --capabilities",
            "build --capabilities=",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

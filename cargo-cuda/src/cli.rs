//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use cuda_find_core::{env::Env, root::Root, sources};

use crate::cargo_arguments::{self, CargoOptions, SplitArguments};
use crate::cargo_config::CargoConfig;
use crate::commands::{
    audit, build, bundle, doctor, env, fetch, new, pep517, toolkit, view, wheel,
};
use crate::exit_code;
use crate::failure::Result;
use crate::isolated_build::nvcc_script;
use crate::output::TerminalOptions;
use crate::project::BuildOptions;
use crate::{nvcc_wrapper, other_commands, output, signals, store};

/// Fetch CUDA components, build crates with them, package wheels per CUDA major.
#[derive(Debug, Parser)]
#[command(name = "cargo cuda", bin_name = "cargo cuda", version, styles = output::STYLES)]
#[command(after_help = concat!("Exit codes: ", env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/exit-codes.md"))]
struct CommandLine {
    #[command(flatten)]
    terminal: TerminalOptions,
    #[command(subcommand)]
    command: Command,
}

/// The text below the options of the commands that run cargo.
const CARGO_HELP: &str = "\
Every other option is passed to cargo. The output is in `<target>/cargo-cuda`, unless `--target-dir`
is given. `--locked` also fails if `cuda-toolkits.lock` would change.

Example: cargo cuda build --release --fetch --cuda 12 --capabilities 8.0,9.0+PTX";

/// The same for `install`.
const INSTALL_HELP: &str = "\
Every other option is passed to cargo. A program from git or a registry is built in a directory of
its own, which is removed after success; its capabilities are not known before.

Example: cargo cuda install --git https://github.com/user/app --capabilities 8.0,9.0";

#[derive(Debug, Subcommand)]
enum Command {
    #[command(after_help = "Example: cargo cuda new --template module-cudarc hello")]
    New(new::NewArgs),
    /// `cargo build` with CUDA
    #[command(visible_alias = "b", after_help = CARGO_HELP)]
    Build(BuildOptions),
    /// `cargo check` with CUDA
    #[command(visible_alias = "c", after_help = CARGO_HELP)]
    Check(BuildOptions),
    /// `cargo run` with CUDA
    #[command(visible_alias = "r", after_help = CARGO_HELP)]
    Run(BuildOptions),
    /// `cargo test` with CUDA
    #[command(visible_alias = "t", after_help = CARGO_HELP)]
    Test(BuildOptions),
    /// `cargo bench` with CUDA
    #[command(after_help = CARGO_HELP)]
    Bench(BuildOptions),
    /// `cargo clippy` with CUDA
    #[command(after_help = CARGO_HELP)]
    Clippy(BuildOptions),
    /// `cargo doc` with CUDA
    #[command(visible_alias = "d", after_help = CARGO_HELP)]
    Doc(BuildOptions),
    /// `cargo nextest` with CUDA
    #[command(after_help = CARGO_HELP)]
    Nextest(BuildOptions),
    /// `cargo install` with CUDA
    #[command(after_help = INSTALL_HELP)]
    Install(BuildOptions),
    #[command(
        after_help = "Options of `cargo build` are accepted, too.\n\nExample: cargo cuda bundle --fetch --output dist/app"
    )]
    Bundle(Box<bundle::BundleArgs>),
    #[command(after_help = "The exit code is that of a build.")]
    Doctor(doctor::DoctorArgs),
    #[command(
        after_help = "One toolkit for each major of the packages, otherwise of the lock, otherwise for the driver"
    )]
    Fetch(fetch::FetchArgs),
    Toolkit(toolkit::ToolkitArgs),
    #[command(after_help = "Example: cargo cuda wheel --fetch --cuda 12,13")]
    Wheel(Box<wheel::WheelArgs>),
    #[command(after_help = "The exit code is 17 if a finding is an error")]
    Audit(audit::AuditArgs),
    #[command(after_help = "Example: cargo cuda exec -- cmake -B build")]
    Exec(env::ExecArgs),
    #[command(after_help = "Example: eval \"$(cargo cuda env)\"")]
    Env(env::EnvArgs),
    #[command(after_help = "Example: ln -sfn \"$(cargo cuda view)\" ~/cuda")]
    View(view::ViewArgs),
    #[command(hide = true)]
    Pep517(pep517::Pep517Args),
}

/// The parser of the command line. Usage errors and `--version` print `name` as the name of the program.
pub fn command_line(name: &'static str) -> clap::Command {
    CommandLine::command().name(name).bin_name(name)
}

/// Cargo's commands that this program runs.
const CARGO_COMMANDS: [&str; 10] = [
    "build", "check", "run", "test", "bench", "clippy", "doc", "nextest", "install", "bundle",
];

/// The entry point. `arguments` do not include the program's name.
pub fn main(mut arguments: Vec<OsString>) -> ExitCode {
    if (arguments.first()).is_some_and(|first| first == nvcc_script::COMMAND) {
        return nvcc_wrapper::main(&arguments.split_off(1));
    }
    // Cargo runs `cargo-cuda cuda …`; a user may run `cargo-cuda …` directly, as with `uvx cargo-cuda …`.
    let is_started_by_cargo = arguments.first().is_some_and(|first| first == "cuda");
    // What help and `--version` print if cargo has not started this program.
    let mut program = "cargo-cuda";
    if is_started_by_cargo {
        arguments.remove(0);
        program = "cargo cuda";
    }
    let user_env = Env::from_process();
    let result = match parse(program, &arguments) {
        Ok((cli, split)) => {
            output::set_up(terminal_options(&cli, &split), &user_env);
            signals::watch();
            dispatch(&cli.command, &split, &user_env)
        }
        Err(error) => {
            output::use_colour(color(&CargoOptions::parse(&arguments)), &user_env);
            if error.use_stderr() {
                print_usage_error(error, &user_env);
                return exit_code::USAGE.into();
            }
            // Help, or the version.
            Ok((error.render().ansi().to_string(), exit_code::SUCCESS))
        }
    };
    let printed = result.and_then(|(text, code)| output::print(&text).map(|()| code));
    let code = printed.unwrap_or_else(|failure| {
        output::message(&failure.to_string());
        failure.code
    });
    signals::finish();
    ExitCode::from(code)
}

/// Prints an error in the command line. For an unknown command, it names what works, and never an alias of one letter.
fn print_usage_error(mut error: clap::Error, user_env: &Env) {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) {
        let config = CargoConfig::of_current_directory(&Root::system(), user_env, &[]);
        if let Some(failure) = other_commands::error(name, user_env, &config) {
            output::message(&failure.to_string());
            return;
        }
    }
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let names: Vec<String> = suggested
        .into_iter()
        .filter(|name| name.len() > 1)
        .collect();
    match names.is_empty() {
        true => _ = error.remove(ContextKind::SuggestedSubcommand),
        false => {
            let names = ContextValue::Strings(names);
            error.insert(ContextKind::SuggestedSubcommand, names);
        }
    }
    let _ = error.print();
}

/// Parses the command line. For cargo's commands, clap gets only the options of `cargo cuda`. `program` is the name
/// that usage errors print.
fn parse(
    program: &'static str,
    arguments: &[OsString],
) -> Result<(CommandLine, SplitArguments), clap::Error> {
    let parse_ours = |arguments: &[OsString]| {
        let all = std::iter::once(program.into()).chain(arguments.iter().cloned());
        let matches = command_line(program).try_get_matches_from(all)?;
        CommandLine::from_arg_matches(&matches)
    };
    let Some((command, arguments)) = cargo_command(arguments) else {
        return Ok((parse_ours(arguments)?, SplitArguments::default()));
    };
    let all = CommandLine::command();
    let split = cargo_arguments::split(&command, &arguments, |name: &str| match name {
        "--help" | "-h" => Some(false),
        _ => {
            let long = name.strip_prefix("--")?;
            let mut options = all.find_subcommand(&command)?.get_arguments();
            let option = options.find(|option| option.get_long() == Some(long))?;
            Some(option.get_action().takes_values())
        }
    });
    let mut ours = vec![OsString::from(&command)];
    ours.extend_from_slice(&split.for_cargo_cuda);
    Ok((parse_ours(&ours)?, split))
}

/// The full name of cargo's command in a command line, and the other arguments. Options before the command are passed
/// to it: `-v b` is `build -v`.
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
    let cli = CommandLine::command();
    let command = cli.find_subcommand(name)?.get_name();
    if !CARGO_COMMANDS.contains(&command) {
        return None;
    }
    let others = [&arguments[..index], &arguments[index + 1..]].concat();
    Some((command.to_owned(), others))
}

/// The options for the terminal. In a command of cargo, they are among the arguments for cargo.
fn terminal_options(cli: &CommandLine, split: &SplitArguments) -> TerminalOptions {
    if split.command.is_empty() {
        return cli.terminal;
    }
    let cargo = CargoOptions::parse(&split.for_cargo);
    TerminalOptions {
        quiet: cargo.has(&["-q", "--quiet"]),
        verbose: cargo.has(&["-v", "--verbose"]).into(),
        color: color(&cargo),
    }
}

/// The value of `--color`. An invalid value is ignored here, because cargo reports it.
fn color(options: &CargoOptions) -> Option<ColorChoice> {
    options.value("--color")?.parse().ok()
}

/// Runs a command, and returns the text for standard output with the exit code.
fn dispatch(command: &Command, split: &SplitArguments, user_env: &Env) -> Result<(String, u8)> {
    let root = &Root::system();
    let without_text = |code: u8| (String::new(), code);
    let with_success = |text: String| (text, exit_code::SUCCESS);
    match command {
        Command::New(arguments) => new::new(arguments, root).map(with_success),
        Command::Build(options)
        | Command::Check(options)
        | Command::Run(options)
        | Command::Test(options)
        | Command::Bench(options)
        | Command::Clippy(options)
        | Command::Doc(options)
        | Command::Nextest(options)
        | Command::Install(options) => {
            build::run(options, split, user_env, root).map(|(code, _)| without_text(code))
        }
        Command::Bundle(arguments) => {
            bundle::run(arguments, split, user_env, root).map(with_success)
        }
        Command::Exec(arguments) => env::exec(arguments, user_env, root).map(without_text),
        Command::Env(arguments) => env::print(arguments, user_env, root).map(with_success),
        Command::Wheel(arguments) => wheel::run(arguments, user_env, root).map(with_success),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Pep517(arguments) => pep517::run(arguments, user_env, root).map(with_success),
        Command::View(arguments) => view::run(arguments, user_env, root).map(with_success),
        Command::Doctor(arguments) => doctor::run(arguments, user_env, root),
        Command::Fetch(arguments) => fetch::run(arguments, user_env, root).map(with_success),
        Command::Toolkit(arguments) => {
            // Outside a workspace there is no lock file, unless `CUDA_BUILD_LOCK` names one.
            let here = std::env::current_dir().unwrap_or_default();
            let workspace = sources::workspace_root(root, &here);
            let config = CargoConfig::of_current_directory(root, user_env, &[]);
            let env = config.env_of_build_scripts(user_env);
            let env = store::with_lock_file(env, workspace.as_deref());
            toolkit::run(arguments, &env).map(with_success)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(CommandLine, SplitArguments), clap::Error> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse("cargo cuda", &arguments)
    }

    #[test]
    fn texts_of_help_are_not_wrapped_twice() {
        for command in CommandLine::command().get_subcommands() {
            let text = command.get_after_help().map(ToString::to_string);
            for line in text.unwrap_or_default().lines() {
                assert!(line.len() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn no_option_of_cargo_is_taken_for_an_option_of_cargo_cuda() {
        const FLAGS: &str = "--lib --bins --examples --tests --benches --bench --all-targets --all-features \
             --no-default-features --release --workspace --all --keep-going --ignore-rust-version --locked \
             --offline --frozen --verbose --quiet --no-run --no-fail-fast --doc --open --no-deps \
             --document-private-items --future-incompat-report --unit-graph --timings --fix --allow-dirty \
             --force --no-track --cargo-quiet --partition --features=x --jobs 4 --branch main --list";
        for command in CARGO_COMMANDS {
            let (_, split) = parsed(&format!("{command} {FLAGS} --cuda 12")).unwrap();
            assert_eq!(split.for_cargo.len(), FLAGS.split_whitespace().count());
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
            assert_eq!(
                (split.command.as_str(), split.for_cargo.len()),
                (command, 1)
            );
        }
        assert!(parsed("toolkit ls").is_ok());
    }

    #[test]
    fn options_for_the_terminal_are_also_for_cargo() {
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
            assert_eq!(split.for_cargo, expected, "{line}");
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

//! The help: commands in groups, and below the options of each command a text with examples.

use std::fmt::Write as _;

use clap::Command;

use crate::exit_code;
use crate::output::STYLES;

/// The commands in the order of the help. Commands that are in no group come last.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Commands of cargo, with CUDA",
        &[
            "build", "check", "run", "test", "bench", "clippy", "doc", "nextest", "install",
        ],
    ),
    (
        "Set up and inspect",
        &[
            "new",
            "init",
            "doctor",
            "fetch",
            "toolkit",
            "capabilities",
            "matrix",
            "clean",
        ],
    ),
    ("Python", &["wheel", "develop", "audit"]),
    ("Other tools", &["exec", "env", "view", "completions"]),
];

const CARGO: &str = "\
Every other option is passed to cargo. The output is in `<target>/cargo-cuda/<release>-<key>`,
unless `--target-dir` is given; `<target>/cargo-cuda/latest` links to the most recent one.
`--locked` also fails if `cuda-toolkits.lock` would change, or its toolkit has not been fetched.";

const WHEEL: &str = "\
maturin builds each wheel. The wheel then gets a name with `-cu12` or `-cu13`, the dependencies
for its major, and a library search path into NVIDIA's own wheels, instead of NVIDIA's libraries.
auditwheel copies libraries of others, for example OpenSSL, into the wheel. A wheel in which
`cargo cuda audit` finds an error is not written, and the exit code is 17.";

const AUDIT: &str = "\
The checks W01 to W20 are described in docs/audit.md. The report also has the libraries and the
driver that native modules need, and for each GPU generation what it runs: native code, code that
the driver compiles from PTX, or none. The exit code is 17 if a finding is an error.";

const DEVELOP: &str = "\
Runs uv or pip, whichever manages the environment, with the package's build backend. The native
module finds CUDA's libraries in that environment. Run the command again after a change of Rust or
CUDA code; a change of Python code needs no build.";

const FETCH: &str = "\
Fetches one toolkit for each major that the packages declare, otherwise for each major in the lock
file. Each toolkit has the components that the packages declare, and those that enabled features of
dependencies name, such as `cublas` of cudarc.";

const MATRIX: &str = "\
Each job sets `CUDA_BUILD_IMAGES` to a directory and runs `cargo cuda build` with the options of its
line. Put all directories together: a build of everything with that directory in
`CUDA_BUILD_IMAGES` joins what the jobs compiled.";

const ENV: &str = "\
Editors, makefiles and other build tools then find what `cargo cuda build` finds. For fish:
`cargo cuda env --shell fish | source`.";

/// A text and examples for each command, by the path of its name.
const TEXTS: &[(&str, &str, &[&str])] = &[
    (
        "new",
        "",
        &["cargo cuda new --template module-cudarc hello"],
    ),
    ("init", "", &["cargo cuda init", "cargo cuda init --vscode"]),
    (
        "build",
        CARGO,
        &[
            "cargo cuda build --release --fetch",
            "cargo cuda build --cuda 12 --capabilities 8.0,9.0+PTX",
        ],
    ),
    ("check", CARGO, &["cargo cuda check --workspace"]),
    ("run", CARGO, &["cargo cuda run --release -- input.bin"]),
    (
        "test",
        CARGO,
        &[
            "cargo cuda test --fetch",
            "cargo cuda test my_test -- --nocapture",
        ],
    ),
    ("bench", CARGO, &["cargo cuda bench"]),
    (
        "clippy",
        CARGO,
        &["cargo cuda clippy --all-targets -- -D warnings"],
    ),
    ("doc", CARGO, &["cargo cuda doc --open"]),
    ("nextest", CARGO, &["cargo cuda nextest run"]),
    (
        "install",
        CARGO,
        &[
            "cargo cuda install --path .",
            "cargo cuda install --git URL",
        ],
    ),
    (
        "exec",
        "",
        &[
            "cargo cuda exec -- nvcc --version",
            "cargo cuda exec -- cmake -B build",
        ],
    ),
    ("env", ENV, &["eval \"$(cargo cuda env)\""]),
    ("wheel", WHEEL, &["cargo cuda wheel --fetch --cuda 12,13"]),
    ("audit", AUDIT, &["cargo cuda audit dist/*.whl"]),
    ("develop", DEVELOP, &["cargo cuda develop --fetch"]),
    (
        "view",
        "",
        &[
            "cargo cuda view",
            "cargo cuda view --output /opt/cuda --copy",
        ],
    ),
    (
        "doctor",
        "The exit code is that of a build.",
        &["cargo cuda doctor", "cargo cuda doctor -v --cuda 12"],
    ),
    (
        "toolkit",
        "",
        &["cargo cuda toolkit add 13", "cargo cuda toolkit list"],
    ),
    (
        "toolkit add",
        "",
        &[
            "cargo cuda toolkit add 12 13",
            "cargo cuda toolkit add 13 --components cublas,cufft",
            "cargo cuda toolkit add 13 --target aarch64-unknown-linux-gnu",
        ],
    ),
    ("toolkit list", "", &["cargo cuda toolkit list --json"]),
    ("toolkit gc", "", &["cargo cuda toolkit gc"]),
    ("toolkit remove", "", &["cargo cuda toolkit remove 13.4"]),
    ("fetch", FETCH, &["cargo cuda fetch --locked"]),
    ("clean", "", &["cargo cuda clean"]),
    (
        "capabilities",
        "",
        &[
            "cargo cuda capabilities --cuda 13",
            "cargo cuda capabilities 8.0,9.0a,12.0+PTX",
        ],
    ),
    ("matrix", MATRIX, &["cargo cuda matrix --json"]),
    (
        "completions",
        COMPLETIONS,
        &["cargo-cuda completions bash > ~/.local/share/bash-completion/completions/cargo-cuda"],
    ),
];

const COMPLETIONS: &str = "\
The scripts complete `cargo-cuda` (with a hyphen). zsh also completes `cargo cuda` if the script is in a
directory of `fpath` as `_cargo-cuda`. In bash and fish, cargo's own completion does not reach the
options of subcommands.";

/// Adds groups, texts and examples to the command line.
pub fn with_texts(cli: Command) -> Command {
    let groups = groups(&cli);
    let header = STYLES.get_header();
    let footer = "See `cargo cuda help COMMAND` for a command, and `cargo cuda help exit-codes`.";
    with_text(cli, "")
        .after_help(format!("{groups}\n{footer}"))
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}{{after-help}}\n\n{header}Options:{header:#}\n{{options}}"
        ))
}

/// Adds the texts to a command and its subcommands. `path` is the name without `cargo cuda`.
fn with_text(command: Command, path: &str) -> Command {
    let known = TEXTS.iter().find(|(name, ..)| *name == path);
    let names: Vec<String> = command
        .get_subcommands()
        .map(|own| own.get_name().to_owned())
        .collect();
    let mut command = command;
    for name in names {
        let path = format!("{path} {name}").trim().to_owned();
        command = command.mut_subcommand(name, |own| with_text(own, &path));
    }
    match known {
        Some((_, text, examples)) => command.after_help(text_with_examples(text, examples)),
        None => command,
    }
}

fn text_with_examples(text: &str, examples: &[&str]) -> String {
    let header = STYLES.get_header();
    let mut help = String::new();
    if !text.is_empty() {
        help = format!("{text}\n\n");
    }
    let _ = write!(help, "{header}Examples:{header:#}");
    for example in examples {
        // Writing to a String does not fail.
        let _ = write!(help, "\n  {example}");
    }
    help
}

/// The commands with the first line of their help, in groups.
fn groups(cli: &Command) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let visible: Vec<&Command> = cli.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others = visible.iter().map(|command| command.get_name());
    let others: Vec<&str> = others.filter(|name| !is_grouped(name)).collect();
    let mut text = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("Other commands", &*others)]) {
        if names.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for command in names.iter().filter_map(|name| cli.find_subcommand(name)) {
            let aliases = command
                .get_visible_aliases()
                .map(|alias| format!(", {alias}"));
            let name = format!("{}{}", command.get_name(), aliases.collect::<String>());
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:12}{literal:#}  {about}");
        }
    }
    text
}

/// The table of exit codes, for `cargo cuda help exit-codes`.
pub fn exit_codes() -> String {
    let mut table = String::new();
    for (code, meaning) in exit_code::TABLE {
        let _ = writeln!(table, "  {code:2}  {meaning}");
    }
    format!("{table}\n{}", exit_code::OTHER_PROGRAMS)
}

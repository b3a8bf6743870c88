//! Arguments that pass through to cargo, as far as they decide what `cargo cuda` does.

use std::ffi::{OsStr, OsString};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cargo build`, `check`, `clippy`, `doc`
    Build,
    /// `cargo install`
    Install,
    /// `cargo run`: the first argument that is not an option is the program's
    Run,
    /// `cargo test`, `bench`
    Test,
    /// `cargo nextest`
    Nextest,
}

impl Kind {
    pub fn of(command: &str) -> Self {
        match command {
            "install" => Self::Install,
            "run" => Self::Run,
            "test" | "bench" => Self::Test,
            "nextest" => Self::Nextest,
            _ => Self::Build,
        }
    }

    /// Whether cargo runs what it has built.
    pub fn runs_programs(self) -> bool {
        matches!(self, Self::Run | Self::Test | Self::Nextest)
    }
}

/// Long options of cargo whose value is the argument after them.
const WITH_VALUE: [&str; 26] = [
    "--artifact-dir",
    "--bench",
    "--bin",
    "--branch",
    "--color",
    "--config",
    "--example",
    "--exclude",
    "--features",
    "--git",
    "--jobs",
    "--lint",
    "--lockfile-path",
    "--manifest-path",
    "--message-format",
    "--out-dir",
    "--package",
    "--path",
    "--profile",
    "--registry",
    "--rev",
    "--root",
    "--tag",
    "--target",
    "--target-dir",
    "--test",
];

/// Short ones. The value may also be the rest of the argument.
const SHORT_WITH_VALUE: [char; 5] = ['C', 'F', 'Z', 'j', 'p'];

/// The command line of one of cargo's commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The command: `build`, `run` …
    pub command: String,
    pub ours: Vec<OsString>,
    pub cargos: Vec<OsString>,
    /// Arguments of the programs that cargo runs, with the `--` before them.
    pub programs: Vec<OsString>,
}

/// Splits a command line. `ours` returns whether an option is one of this program, and whether it
/// has a value.
pub fn split(
    command: &str,
    arguments: &[OsString],
    ours: impl Fn(&str) -> Option<TakesValue>,
) -> Split {
    let is_option = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && text != "-"
    };
    let kind = Kind::of(command);
    let mut split = Split {
        command: command.to_owned(),
        ..Split::default()
    };
    let mut rest = arguments.iter().cloned().peekable();
    while let Some(argument) =
        rest.next_if(|next| next != "--" && (kind != Kind::Run || is_option(next)))
    {
        let text = argument.to_string_lossy().into_owned();
        let (name, attached) = text
            .split_once('=')
            .map_or((&*text, false), |(name, _)| (name, true));
        if let Some(takes) = ours(name) {
            split.ours.push(argument);
            if takes == TakesValue::Yes && !attached {
                split.ours.extend(rest.next());
            }
            continue;
        }
        // Some take a value or none: what looks like an option is one.
        let value = rest.next_if(|next| takes_next(&argument) && !is_option(next));
        split.cargos.push(argument);
        split.cargos.extend(value);
    }
    split.programs = rest.collect();
    split
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesValue {
    Yes,
    No,
}

/// Whether cargo has this option, with a value.
pub fn is_cargos(option: &str) -> bool {
    WITH_VALUE.contains(&option)
}

fn takes_next(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    let short =
        short(&text).is_some_and(|names| names.find(SHORT_WITH_VALUE) == Some(names.len() - 1));
    short || WITH_VALUE.contains(&&*text)
}

/// The names of short options in one argument, as in `-vr`.
fn short(text: &str) -> Option<&str> {
    text.strip_prefix('-')
        .filter(|names| !names.is_empty() && !names.starts_with('-'))
}

/// The directory of the profile that the arguments of `cargo build` name.
pub fn profile_directory(arguments: &[OsString]) -> String {
    let is_release = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text == "--release" || flags(&text).is_some_and(|flags| flags.contains('r'))
    };
    match value_of(arguments, "--profile").as_deref() {
        Some("dev" | "test") => "debug".to_owned(),
        Some("bench") => "release".to_owned(),
        Some(named) => named.to_owned(),
        None if arguments.iter().any(is_release) => "release".to_owned(),
        None => "debug".to_owned(),
    }
}

pub fn is_quiet(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| {
        let text = argument.to_string_lossy();
        text == "--quiet" || flags(&text).is_some_and(|flags| flags.contains('q'))
    })
}

/// The short options without a value in one argument, as `vr` in `-vrpname`.
fn flags(text: &str) -> Option<&str> {
    short(text).and_then(|names| names.split(SHORT_WITH_VALUE).next())
}

/// The options that `cargo metadata` gets as well: the configuration, and whether the lock file and
/// the network may be touched.
pub fn metadata_options(arguments: &[OsString]) -> Vec<String> {
    passed(
        arguments,
        &["--offline", "--locked", "--frozen"],
        &["--config"],
    )
}

/// Whether lock files may not change.
pub fn is_locked(arguments: &[OsString]) -> bool {
    let options = metadata_options(arguments);
    let mut options = options.iter();
    options.any(|option| option == "--locked" || option == "--frozen")
}

pub fn feature_options(arguments: &[OsString]) -> Vec<String> {
    passed(
        arguments,
        &["--all-features", "--no-default-features"],
        &["--features", "-F"],
    )
}

fn passed(arguments: &[OsString], flags: &[&str], with_value: &[&str]) -> Vec<String> {
    let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
    let mut options = Vec::new();
    while let Some(argument) = arguments.next() {
        let attached = |name: &&&str| {
            let rest = argument.strip_prefix(**name);
            rest.is_some_and(|rest| rest.starts_with('=') || (**name == "-F" && !rest.is_empty()))
        };
        if flags.contains(&argument) || with_value.iter().any(|name| attached(&name)) {
            options.push(argument.to_owned());
        } else if with_value.contains(&argument) {
            options.push(argument.to_owned());
            options.extend(arguments.next().map(str::to_owned));
        }
    }
    options
}

/// The value of an option. What comes after `--` is not cargo's.
pub fn value_of(arguments: &[OsString], name: &str) -> Option<String> {
    values_of(arguments, name).next()
}

/// The values of one that can be there more than once.
pub fn values_of(arguments: &[OsString], name: &str) -> impl Iterator<Item = String> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    std::iter::from_fn(move || {
        loop {
            let text = arguments.next()?.to_str().unwrap_or_default();
            if text == name {
                return arguments.next()?.to_str().map(str::to_owned);
            }
            if let Some(value) = text
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='))
            {
                return Some(value.to_owned());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_value_of_an_option_is_found() {
        let value = |text: &str, name: &str| value_of(&arguments(text), name);
        let both = "-r --target a -- --target b";
        assert_eq!(value(both, "--target").as_deref(), Some("a"));
        assert_eq!(value("--target=c", "--target").as_deref(), Some("c"));
        assert_eq!(value("--target-dir x", "--target"), None);
        let path = value("--release --manifest-path a/Cargo.toml", "--manifest-path");
        assert_eq!(path.as_deref(), Some("a/Cargo.toml"));
    }

    #[test]
    fn the_programs_arguments_are_not_cargos() {
        for (command, ours, cargos, programs) in [
            ("run", "", "-r", "x --release"),
            ("run", "", "-qp made --bin=made --features a", "x -r"),
            ("run", "", "-Fa -j4 --target", "-- x"),
            ("run", "", "", "- -r"),
            ("run", "--cuda 12 --fetch", "-r", "x --cuda 13 --fetch"),
            ("test", "--cuda=12", "some_test -r", "-- --cuda 13"),
            ("nextest", "", "run -r", "-- --release"),
        ] {
            let all = arguments(&format!("{ours} {cargos} {programs}"));
            let own = |name: &str| match name {
                "--cuda" => Some(TakesValue::Yes),
                "--fetch" => Some(TakesValue::No),
                _ => None,
            };
            let expected = Split {
                command: command.to_owned(),
                ours: arguments(ours),
                cargos: arguments(cargos),
                programs: arguments(programs),
            };
            assert_eq!(split(command, &all, own), expected);
        }
    }

    #[test]
    fn the_profile_is_read_as_cargo_reads_it() {
        for (text, expected) in [
            ("", "debug"),
            ("--profile dev", "debug"),
            ("--profile bench", "release"),
            ("-vr", "release"),
            ("-rp made", "release"),
            ("-pother -Fr --verbose", "debug"),
            ("--release", "release"),
            ("--profile=fast", "fast"),
        ] {
            assert_eq!(profile_directory(&arguments(text)), expected, "{text}");
        }
        assert!(is_quiet(&arguments("-vq")) && !is_quiet(&arguments("-pq")));
    }

    #[test]
    fn options_for_metadata_are_taken_over() {
        let all =
            arguments("-r --config a --config=b -F x -Fy --features=z --locked --all-features");
        assert_eq!(
            metadata_options(&all),
            ["--config", "a", "--config=b", "--locked"]
        );
        let features = ["-F", "x", "-Fy", "--features=z", "--all-features"];
        assert_eq!(feature_options(&all), features);
    }
}

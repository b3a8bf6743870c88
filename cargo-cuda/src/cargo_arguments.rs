//! Parses the arguments for cargo, because some of them also affect `cargo cuda`.

use std::ffi::{OsStr, OsString};

/// Long options of cargo that take a value.
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

/// Short options of cargo that take a value, which may be attached: `-j 4` or `-j4`.
const SHORT_WITH_VALUE: [char; 5] = ['C', 'F', 'Z', 'j', 'p'];

/// The arguments of a cargo command such as `build`, grouped by the program that reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitArguments {
    /// The command: `build`, `run` …
    pub command: String,
    pub ours: Vec<OsString>,
    pub cargos: Vec<OsString>,
    /// Arguments of the programs that cargo runs, and the `--` in front of these arguments.
    pub programs: Vec<OsString>,
}

/// Splits a command line. The program's arguments start at `--`, and for `run` also at the first
/// argument that is not an option. `ours` returns whether an option of `cargo cuda` takes a value,
/// and `None` for any other option.
pub fn split(
    command: &str,
    arguments: &[OsString],
    ours: impl Fn(&str) -> Option<TakesValue>,
) -> SplitArguments {
    let is_option = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && text != "-"
    };
    let mut split = SplitArguments {
        command: command.to_owned(),
        ..SplitArguments::default()
    };
    let mut rest = arguments.iter().cloned().peekable();
    while let Some(argument) =
        rest.next_if(|next| next != "--" && (command != "run" || is_option(next)))
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
        // The value of some options is optional, so an argument that starts with `-` is no value.
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

/// Whether `option` is a long option of cargo that takes a value.
pub fn takes_value(option: &str) -> bool {
    WITH_VALUE.contains(&option)
}

fn takes_next(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    let short =
        short(&text).is_some_and(|names| names.find(SHORT_WITH_VALUE) == Some(names.len() - 1));
    short || WITH_VALUE.contains(&&*text)
}

/// The names of the short options in one argument: `vr` for `-vr`.
fn short(text: &str) -> Option<&str> {
    text.strip_prefix('-')
        .filter(|names| !names.is_empty() && !names.starts_with('-'))
}

/// Options of cargo with their values. Joined short options are split: `-vrp name` becomes `-v`,
/// `-r`, `-p name`.
#[derive(Clone, Debug, Default)]
pub struct Options(Vec<(String, Option<String>)>);

impl Options {
    /// Reads the options before `--`. The arguments after `--` are not for cargo.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut options = Vec::new();
        let mut rest = arguments
            .iter()
            .take_while(|argument| *argument != "--")
            .filter_map(|argument| argument.to_str());
        while let Some(argument) = rest.next() {
            if argument.starts_with("--") {
                let (name, value) = match argument.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None if WITH_VALUE.contains(&argument) => (argument, rest.next()),
                    None => (argument, None),
                };
                options.push((name.to_owned(), value.map(str::to_owned)));
                continue;
            }
            let Some(names) = short(argument) else {
                continue;
            };
            for (index, name) in names.char_indices() {
                let attached = &names[index + name.len_utf8()..];
                if SHORT_WITH_VALUE.contains(&name) {
                    let value = Some(attached).filter(|value| !value.is_empty());
                    let value = value.or_else(|| rest.next()).map(str::to_owned);
                    options.push((format!("-{name}"), value));
                    break;
                }
                options.push((format!("-{name}"), None));
            }
        }
        Self(options)
    }

    /// The values of an option that may be given more than once.
    pub fn values(&self, name: &str) -> impl Iterator<Item = String> {
        let named = self.0.iter().filter(move |(own, _)| own == name);
        named.filter_map(|(_, value)| value.clone())
    }

    pub fn value(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    pub fn has(&self, names: &[&str]) -> bool {
        self.0.iter().any(|(own, _)| names.contains(&own.as_str()))
    }

    /// Whether an option forbids changes to lock files.
    pub fn is_locked(&self) -> bool {
        self.has(&["--locked", "--frozen"])
    }

    /// The options called `names`, as arguments.
    fn only(&self, names: &[&str]) -> Vec<String> {
        let named = self
            .0
            .iter()
            .filter(|(own, _)| names.contains(&own.as_str()));
        named
            .flat_map(|(name, value)| [Some(name), value.as_ref()])
            .flatten()
            .cloned()
            .collect()
    }

    /// The options that `cargo metadata` also needs: configuration, and restrictions on the lock
    /// file and the network.
    pub fn metadata_arguments(&self) -> Vec<String> {
        self.only(&["--config", "--offline", "--locked", "--frozen"])
    }

    pub fn features(&self) -> Vec<String> {
        self.only(&[
            "--features",
            "-F",
            "--all-features",
            "--no-default-features",
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn options(text: &str) -> Options {
        Options::parse(&arguments(text))
    }

    #[test]
    fn the_value_of_an_option_is_found() {
        let both = options("-r --target a -- --target b");
        assert_eq!(both.value("--target").as_deref(), Some("a"));
        assert_eq!(
            options("--target=c").value("--target").as_deref(),
            Some("c")
        );
        assert_eq!(options("--target-dir x").value("--target"), None);
        let path = options("--release --manifest-path a/Cargo.toml");
        assert_eq!(
            path.value("--manifest-path").as_deref(),
            Some("a/Cargo.toml")
        );
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
            let expected = SplitArguments {
                command: command.to_owned(),
                ours: arguments(ours),
                cargos: arguments(cargos),
                programs: arguments(programs),
            };
            assert_eq!(split(command, &all, own), expected);
        }
    }

    #[test]
    fn short_options_are_read_one_by_one() {
        assert!(options("-vq").has(&["-q"]) && !options("-pq").has(&["-q"]));
    }

    #[test]
    fn options_for_metadata_are_taken_over() {
        let all = options("-r --config a --config=b -F x -Fy --features=z --locked --all-features");
        assert_eq!(
            all.metadata_arguments(),
            ["--config", "a", "--config", "b", "--locked"]
        );
        let features = ["-F", "x", "-F", "y", "--features", "z", "--all-features"];
        assert_eq!(all.features(), features);
    }
}

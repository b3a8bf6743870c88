//! Parses the arguments for cargo, because some of them also affect `cargo cuda`.

use std::ffi::{OsStr, OsString};

/// Long options of cargo that take a value.
const WITH_VALUE: &str = "--artifact-dir --bench --bin --branch --color --config --example --exclude --features --git --jobs \
                          --lint --lockfile-path --manifest-path --message-format --out-dir --package --path --profile \
                          --registry --rev --root --tag --target --target-dir --test";

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

/// Splits a command line. The program's arguments start at `--`, and for `run` also at the first argument that is not an
/// option. `takes_value` returns whether an option of `cargo cuda` takes a value, and `None` for any other option.
pub fn split(
    command: &str,
    arguments: &[OsString],
    takes_value: impl Fn(&str) -> Option<bool>,
) -> SplitArguments {
    let is_option = |argument: &OsString| {
        let text = argument.as_encoded_bytes();
        text.starts_with(b"-") && text != b"-"
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
        let (name, is_attached) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text.as_str(), false),
        };
        if let Some(takes_value) = takes_value(name) {
            split.ours.push(argument);
            if takes_value && !is_attached {
                split.ours.extend(rest.next());
            }
            continue;
        }
        let letters = short(&text).unwrap_or_default();
        let last_takes_value = letters.find(SHORT_WITH_VALUE).map(|index| index + 1);
        split.cargos.push(argument);
        if is_with_value(&text) || last_takes_value == Some(letters.len()) {
            // The value of some options is optional, so an argument that starts with `-` is no value.
            split.cargos.extend(rest.next_if(|next| !is_option(next)));
        }
    }
    split.programs = rest.collect();
    split
}

/// Whether `option` is a long option of cargo that takes a value.
pub fn is_with_value(option: &str) -> bool {
    WITH_VALUE.split(' ').any(|name| name == option)
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
            .filter_map(|argument| OsStr::to_str(argument));
        while let Some(argument) = rest.next() {
            let mut add = |name: &str, value: Option<&str>| {
                options.push((name.to_owned(), value.map(str::to_owned)));
            };
            if argument.starts_with("--") {
                match argument.split_once('=') {
                    Some((name, value)) => add(name, Some(value)),
                    None if is_with_value(argument) => add(argument, rest.next()),
                    None => add(argument, None),
                }
                continue;
            }
            let mut letters = short(argument).unwrap_or_default().chars();
            while let Some(letter) = letters.next() {
                let name = format!("-{letter}");
                if !SHORT_WITH_VALUE.contains(&letter) {
                    add(&name, None);
                    continue;
                }
                let attached = Some(letters.as_str()).filter(|value| !value.is_empty());
                add(&name, attached.or_else(|| rest.next()));
                break;
            }
        }
        Self(options)
    }

    /// The values of an option that may be given more than once.
    pub fn values(&self, name: &str) -> impl Iterator<Item = String> {
        let options = self.0.iter().filter(move |option| option.0 == name);
        options.filter_map(|(_, value)| value.clone())
    }

    pub fn value(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    pub fn has(&self, names: &[&str]) -> bool {
        !self.only(names).is_empty()
    }

    /// Whether an option forbids changes to lock files.
    pub fn is_locked(&self) -> bool {
        self.has(&["--locked", "--frozen"])
    }

    /// The options called `names`, as arguments.
    fn only(&self, names: &[&str]) -> Vec<String> {
        let options = self.0.iter();
        options
            .filter(|(name, _)| names.contains(&name.as_str()))
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
            let takes_value = |name: &str| match name {
                "--cuda" => Some(true),
                "--fetch" => Some(false),
                _ => None,
            };
            let expected = SplitArguments {
                command: command.to_owned(),
                ours: arguments(ours),
                cargos: arguments(cargos),
                programs: arguments(programs),
            };
            assert_eq!(split(command, &all, takes_value), expected);
        }
    }

    #[test]
    fn options_have_their_values() {
        for (text, name, expected) in [
            ("-r --target a -- --target b", "--target", Some("a")),
            ("--target=c", "--target", Some("c")),
            ("--target-dir x", "--target", None),
            ("-vj4", "-j", Some("4")),
            ("-vp x -r", "-p", Some("x")),
        ] {
            assert_eq!(options(text).value(name).as_deref(), expected, "{text}");
        }
        assert!(options("-vq").has(&["-q"]) && !options("-pq").has(&["-q"]));
        let all = options("-r --config a --config=b -F x -Fy --features=z --locked --all-features");
        assert_eq!(
            all.metadata_arguments(),
            ["--config", "a", "--config", "b", "--locked"]
        );
        let features = ["-F", "x", "-F", "y", "--features", "z", "--all-features"];
        assert_eq!(all.features(), features);
    }
}

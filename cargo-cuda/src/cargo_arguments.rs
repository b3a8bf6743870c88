//! Splits a command line into the arguments of `cargo cuda`, of cargo and of the program that cargo runs, and reads
//! the options of cargo that also affect `cargo cuda`.

use std::ffi::OsString;

use cuda_find_core::command::quoted;

use crate::output::joined;

/// Long options of cargo and nextest that take a value.
const LONG_WITH_VALUE: &str = "--archive-file --artifact-dir --binaries-metadata --cargo-metadata --debugger --max-fail \
                               --tracer --bench --bin --branch --color --config --example --exclude --features \
                               --git --jobs --lint --lockfile-path --manifest-path --message-format --out-dir \
                               --package --path --profile --registry --rev --root --tag --target --target-dir --test";

/// Short options of cargo that take a value, which may be attached: `-j 4` or `-j4`.
const SHORT_WITH_VALUE: [char; 5] = ['C', 'F', 'Z', 'j', 'p'];

/// The arguments of a command such as `build`, grouped by the program that reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitArguments {
    /// The command: `build`, `run` …
    pub command: String,
    pub for_cargo_cuda: Vec<OsString>,
    pub for_cargo: Vec<OsString>,
    /// The arguments of the program that cargo runs, and the `--` in front of these arguments.
    pub for_program: Vec<OsString>,
}

/// Splits a command line. The program's arguments start at `--`, and for `run` also at the first argument that is not
/// an option. `our_option_takes_value` returns `None` if the option is not one of `cargo cuda`.
pub fn split(
    command: &str,
    arguments: &[OsString],
    our_option_takes_value: impl Fn(&str) -> Option<bool>,
) -> SplitArguments {
    let mut split = SplitArguments {
        command: command.to_owned(),
        ..SplitArguments::default()
    };
    let mut rest = arguments.iter().cloned().peekable();
    while let Some(argument) =
        rest.next_if(|next| next != "--" && (command != "run" || is_option(next)))
    {
        let text = argument.to_string_lossy().into_owned();
        let name = text.split('=').next().unwrap_or_default();
        if let Some(takes_value) = our_option_takes_value(name) {
            split.for_cargo_cuda.push(argument);
            if takes_value && name == text {
                split.for_cargo_cuda.extend(rest.next());
            }
            continue;
        }
        split.for_cargo.push(argument);
        if options_in(&text).1 {
            split
                .for_cargo
                .extend(rest.next_if(|next| !is_option(next)));
        }
    }
    split.for_program = rest.collect();
    split
}

/// The first of a program's arguments that is one of these options, perhaps with a value attached.
pub fn first_of<'a>(arguments: &'a [OsString], options: &[&str]) -> Option<&'a str> {
    let mut texts = arguments.iter().filter_map(|argument| argument.to_str());
    texts.find(|argument| options.iter().any(|option| argument.starts_with(option)))
}

/// The arguments without some options of cargo and their values.
pub fn without(arguments: &[OsString], options: &[&str]) -> Vec<OsString> {
    let mut others = Vec::new();
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let (found, needs_value) = options_in(&argument.to_string_lossy());
        let value = rest.next_if(|next| needs_value && !is_option(next));
        if !found
            .iter()
            .any(|(name, _)| options.contains(&name.as_str()))
        {
            others.extend(std::iter::once(argument).chain(value).cloned());
        }
    }
    others
}

/// The first word that is no option and no value of an option.
pub fn first_word(arguments: &[OsString]) -> Option<&str> {
    arguments[position_of_first_word(arguments)?].to_str()
}

fn position_of_first_word(arguments: &[OsString]) -> Option<usize> {
    let mut rest = arguments.iter().enumerate().peekable();
    while let Some((position, argument)) = rest.next() {
        if !is_option(argument) {
            return Some(position);
        }
        if options_in(&argument.to_string_lossy()).1 {
            rest.next_if(|(_, next)| !is_option(next));
        }
    }
    None
}

/// A command line of this program as the user has typed it, with `option` after the command. `words` start with the
/// program's path. If Cargo has started the program, the second word is `cuda`.
pub fn command_line_with(option: &str, words: &[OsString]) -> String {
    let (program, arguments) = match words {
        [_, cuda, arguments @ ..] if cuda == "cuda" => {
            (vec!["cargo".into(), cuda.clone()], arguments)
        }
        [program, arguments @ ..] => (vec![program.clone()], arguments),
        [] => return String::new(),
    };
    let end_of_command = position_of_first_word(arguments).map_or(0, |position| position + 1);
    let (command, others) = arguments.split_at(end_of_command);
    let all = [&program, command, &[option.into()], others].concat();
    let all = all.iter().map(|word| quoted(word));
    joined(all, " ")
}

/// Whether `option` is a long option of cargo that takes a value.
fn is_long_with_value(option: &str) -> bool {
    LONG_WITH_VALUE.split(' ').any(|name| name == option)
}

/// Whether an argument starts with `-`. Some options can be given without a value, so such an argument is no value.
fn is_option(argument: &OsString) -> bool {
    argument.len() > 1 && argument.as_encoded_bytes()[0] == b'-'
}

type CargoOption = (String, Option<String>);

/// The options in one argument, and whether the value of the last one is the next argument: `-vrp` is `-v`, `-r`, and
/// `-p` with the next argument, and in `-j4`, the value follows the letter.
fn options_in(argument: &str) -> (Vec<CargoOption>, bool) {
    if argument.starts_with("--") {
        return match argument.split_once('=') {
            Some((name, value)) => (vec![(name.to_owned(), Some(value.to_owned()))], false),
            None => (
                vec![(argument.to_owned(), None)],
                is_long_with_value(argument),
            ),
        };
    }
    let mut options = Vec::new();
    let mut letters = argument.strip_prefix('-').unwrap_or_default().chars();
    while let Some(letter) = letters.next() {
        let has_value = SHORT_WITH_VALUE.contains(&letter);
        let value = Some(letters.as_str()).filter(|value| has_value && !value.is_empty());
        options.push((format!("-{letter}"), value.map(str::to_owned)));
        if has_value {
            return (options, value.is_none());
        }
    }
    (options, false)
}

/// Options of cargo with their values.
#[derive(Clone, Debug, Default)]
pub struct CargoOptions(Vec<CargoOption>);

impl CargoOptions {
    /// Reads the options before `--`. The arguments after `--` are not for cargo.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut all = Vec::new();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next_if(|next| *next != "--") {
            let (mut options, needs_value) = options_in(&argument.to_string_lossy());
            if let Some((_, value)) = options.last_mut().filter(|_| needs_value) {
                let next = rest.next_if(|next| !is_option(next));
                *value = next.map(|next| next.to_string_lossy().into_owned());
            }
            all.extend(options);
        }
        Self(all)
    }

    /// The same options and one more, if it has a value.
    pub fn with(mut self, name: &str, value: Option<&String>) -> Self {
        self.0
            .extend(value.map(|value| (name.to_owned(), Some(value.clone()))));
        self
    }

    /// The values of an option that may be given more than once.
    pub fn values(&self, name: &str) -> impl Iterator<Item = String> {
        let same_name = self.0.iter().filter(move |(option, _)| option == name);
        same_name.filter_map(|(_, value)| value.clone())
    }

    /// The first value of an option.
    pub fn value(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    pub fn has(&self, names: &[&str]) -> bool {
        !self.arguments_of(names).is_empty()
    }

    /// The options with these names, as arguments.
    fn arguments_of(&self, names: &[&str]) -> Vec<String> {
        let mut options = self.0.clone();
        options.retain(|(name, _)| names.contains(&name.as_str()));
        let words = |(name, value): CargoOption| std::iter::once(name).chain(value);
        options.into_iter().flat_map(words).collect()
    }

    /// The options with which cargo resolves packages: its configuration, and restrictions on the lock file and the
    /// network.
    pub fn resolver_arguments(&self) -> Vec<String> {
        self.arguments_of(&[
            "--config",
            "--offline",
            "--locked",
            "--frozen",
            "--lockfile-path",
            "-Z",
        ])
    }

    fn feature_arguments(&self) -> Vec<String> {
        self.arguments_of(&[
            "--features",
            "-F",
            "--all-features",
            "--no-default-features",
        ])
    }

    /// The options that `cargo metadata` also needs.
    pub fn metadata_arguments(&self) -> Vec<String> {
        [self.resolver_arguments(), self.feature_arguments()].concat()
    }

    /// The options that select packages and features.
    pub fn selection_arguments(&self) -> Vec<String> {
        let mut packages = self.arguments_of(&["--package", "-p", "--workspace", "--exclude"]);
        // For `cargo tree`, the old name has a second meaning.
        packages.extend(self.has(&["--all"]).then(|| "--workspace".to_owned()));
        [packages, self.feature_arguments()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn options(text: &str) -> CargoOptions {
        CargoOptions::parse(&arguments(text))
    }

    #[test]
    fn arguments_of_the_program_are_not_for_cargo() {
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
                for_cargo_cuda: arguments(ours),
                for_cargo: arguments(cargos),
                for_program: arguments(programs),
            };
            assert_eq!(split(command, &all, takes_value), expected);
        }
    }

    #[test]
    fn options_are_left_out_with_their_values() {
        for (given, left) in [
            ("-F a --release", "--release"),
            ("-Fa -r --features b --bin x", "-r --bin x"),
            ("--features=a,b -p y --no-default-features", "-p y"),
            ("--target-dir t --target t", "--target t"),
        ] {
            let options = ["--features", "-F", "--no-default-features", "--target-dir"];
            assert_eq!(
                without(&arguments(given), &options),
                arguments(left),
                "{given}"
            );
        }
    }

    #[test]
    fn an_option_is_added_as_the_user_started_the_program() {
        for (typed, expected) in [
            (
                "/bin/cargo-cuda cuda build -r x",
                "cargo cuda build --fetch -r x",
            ),
            (
                "/bin/cargo-cuda cuda -v --color never b",
                "cargo cuda -v --color never b --fetch",
            ),
            (
                "cargo-cuda build -p cuda",
                "cargo-cuda build --fetch -p cuda",
            ),
            (
                "/opt/cargo-cuda --color=always run -- build",
                "/opt/cargo-cuda --color=always run --fetch -- build",
            ),
            ("cargo-cuda", "cargo-cuda --fetch"),
        ] {
            assert_eq!(command_line_with("--fetch", &arguments(typed)), expected);
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
        let expected = "--config a --config b --locked -F x -F y --features z --all-features";
        assert_eq!(all.metadata_arguments().join(" "), expected);
        let packages =
            options("-p a --package=b@1 --workspace --exclude c -r -Fx").selection_arguments();
        let expected = "-p a --package b@1 --workspace --exclude c -F x";
        assert_eq!(packages.join(" "), expected);
    }
}

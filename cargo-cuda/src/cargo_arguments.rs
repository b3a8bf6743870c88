//! Arguments that pass through to cargo, as far as they decide what `cargo cuda` does.

use std::ffi::{OsStr, OsString};

/// Long options whose value is the argument after them: cargo's, and two of ours.
const WITH_VALUE: [&str; 22] = [
    "--artifact-dir",
    "--bench",
    "--bin",
    "--capabilities",
    "--color",
    "--config",
    "--example",
    "--exclude",
    "--features",
    "--jobs",
    "--lint",
    "--lockfile-path",
    "--major",
    "--manifest-path",
    "--message-format",
    "--out-dir",
    "--package",
    "--profile",
    "--registry",
    "--target",
    "--target-dir",
    "--test",
];

/// Short ones. The value may also be the rest of the argument.
const SHORT_WITH_VALUE: [char; 5] = ['C', 'F', 'Z', 'j', 'p'];

/// How many of the arguments are cargo's and ours: those before `--`, and of `cargo run` those
/// before the first that is no option. That one and all after it are the program's.
#[must_use]
pub fn own(subcommand: &str, arguments: &[OsString]) -> usize {
    let is_option = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && text != "-"
    };
    let mut end = 0;
    while let Some(argument) = arguments.get(end) {
        if argument == "--" || (subcommand == "run" && !is_option(argument)) {
            break;
        }
        end += 1;
        // Some take a value or none: what looks like an option is one.
        if takes_next(argument) && arguments.get(end).is_some_and(|next| !is_option(next)) {
            end += 1;
        }
    }
    end
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

/// The profile that cargo's own arguments name.
#[must_use]
pub fn profile(subcommand: &str, own: &[OsString]) -> String {
    let names_release = |argument: &OsString| {
        let text = argument.to_string_lossy();
        let flags = short(&text).and_then(|names| names.split(SHORT_WITH_VALUE).next());
        text == "--release" || flags.is_some_and(|flags| flags.contains('r'))
    };
    match value_of(own, "--profile") {
        Some(named) => named,
        None if own.iter().any(names_release) || subcommand == "bench" => "release".to_owned(),
        None => "dev".to_owned(),
    }
}

/// The value of an option. What comes after `--` is not cargo's.
#[must_use]
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

/// Cargo takes `--target-dir` once.
#[must_use]
pub fn without_target_directory(own: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = own.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--target-dir" {
            rest.next();
        } else if !text.starts_with("--target-dir=") {
            kept.push(argument.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn cargos_target_is_seen() {
        assert_eq!(
            value_of(&arguments("-r --target a -- --target b"), "--target").as_deref(),
            Some("a")
        );
        assert_eq!(
            value_of(&arguments("--target=c"), "--target").as_deref(),
            Some("c")
        );
        assert_eq!(value_of(&arguments("--target-dir x"), "--target"), None);
    }

    #[test]
    fn the_programs_arguments_are_not_cargos() {
        for (subcommand, own, programs) in [
            ("run", "-r", "x --release"),
            ("run", "-qp made --bin=made --features a", "x -r"),
            ("run", "-Fa -j4 --target", "-- x"),
            (
                "run",
                "--major 12 --capabilities 8.0 --fetch",
                "x --major 13 --fetch",
            ),
            ("run", "", "- -r"),
            ("test", "some_test -r", "-- --release"),
        ] {
            let all = arguments(&format!("{own} {programs}"));
            assert_eq!(
                super::own(subcommand, &all),
                arguments(own).len(),
                "{own} {programs}"
            );
        }
    }

    #[test]
    fn the_profile_is_read_as_cargo_reads_it() {
        for (subcommand, text, expected) in [
            ("build", "", "dev"),
            ("bench", "", "release"),
            ("bench", "--profile dev", "dev"),
            ("build", "-vr", "release"),
            ("build", "-rp made", "release"),
            ("build", "-pother -Fr --verbose", "dev"),
            ("build", "--release", "release"),
            ("build", "--profile=fast", "fast"),
        ] {
            assert_eq!(
                profile(subcommand, &arguments(text)),
                expected,
                "{subcommand} {text}"
            );
        }
    }

    #[test]
    fn a_target_directory_is_taken_out() {
        let kept = without_target_directory(&arguments("-r --target-dir a --target-dir=b -v"));
        assert_eq!(kept, arguments("-r -v"));
    }
}

//! Writes variables as shell commands.

use std::ffi::OsStr;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    // bash, zsh and every other POSIX shell. (A documented value would make every help longer.)
    #[default]
    #[value(alias = "sh", alias = "zsh")]
    Bash,
    Fish,
}

/// Whether `name` is a valid variable name in a shell.
///
/// A name with other characters could contain commands: `X; rm -r ~; Y`.
pub fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

impl Shell {
    /// The line that sets a variable, or removes it.
    pub fn line(self, name: &str, value: Option<&OsStr>) -> String {
        let Some(value) = value else {
            return match self {
                Self::Bash => format!("unset {name}"),
                Self::Fish => format!("set -e {name}"),
            };
        };
        match self {
            // Between single quotes, only the single quote is special. `printf` accepts octal escapes
            // in every POSIX shell.
            Self::Bash => {
                let text = |text: &str| text.replace('\'', r"'\''");
                let byte = |byte: u8| format!(r#"'"$(printf '\{byte:03o}')"'"#);
                format!("export {name}='{}'", escaped(value, text, byte))
            }
            // In fish, the backslash is special between single quotes as well.
            Self::Fish => {
                let text = |text: &str| text.replace('\\', r"\\").replace('\'', r"\'");
                format!(
                    "set -gx {name} '{}'",
                    escaped(value, text, |byte| format!(r"'\X{byte:02x}'"))
                )
            }
        }
    }
}

/// Escapes a value. `text` escapes plain text. `byte` escapes each byte of invalid UTF-8 and of
/// control characters, because a control character could change the terminal. Line breaks are not
/// escaped, because `$(printf …)` would remove them.
fn escaped(value: &OsStr, text: impl Fn(&str) -> String, byte: impl Fn(u8) -> String) -> String {
    let mut written = String::new();
    for chunk in value.as_encoded_bytes().utf8_chunks() {
        for part in chunk.valid().split_inclusive(is_escaped) {
            let plain = part.trim_end_matches(is_escaped);
            written.push_str(&text(plain));
            written.extend(part[plain.len()..].bytes().map(&byte));
        }
        written.extend(chunk.invalid().iter().copied().map(&byte));
    }
    written
}

fn is_escaped(c: char) -> bool {
    c.is_control() && c != '\n'
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let value = OsStr::from_bytes(b"/it's:/x\xe9\xff/bin");
        let bash = r#"export X='/it'\''s:/x'"$(printf '\351')"''"$(printf '\377')"'/bin'"#;
        assert_eq!(Shell::Bash.line("X", Some(value)), bash);
        assert_eq!(
            Shell::Fish.line("X", Some(value)),
            r"set -gx X '/it\'s:/x'\Xe9''\Xff'/bin'"
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let value = OsStr::new("a\u{1b}[0m\u{9b}\tb\nc");
        assert_eq!(
            Shell::Bash.line("X", Some(value)),
            r#"export X='a'"$(printf '\033')"'[0m'"$(printf '\302')"''"$(printf '\233')"''"$(printf '\011')"'b"#.to_owned() + "\nc'"
        );
        assert_eq!(
            Shell::Fish.line("X", Some(value)),
            "set -gx X 'a'\\X1b'[0m'\\Xc2''\\X9b''\\X09'b\nc'"
        );
    }

    #[test]
    fn only_plain_names_are_names() {
        for name in ["CUDA_HOME", "_x", "a1"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "1a",
            "CUDA_X; id; #",
            "CUDA_X\nid",
            "A-B",
            "A B",
            "Ä",
            "A=",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    /// `tests/cli/shells.rs` gives such lines to bash, sh and fish.
    #[test]
    fn quoting_by_shell() {
        let cases = [
            ("", "''", "''"),
            ("/a b", "'/a b'", "'/a b'"),
            ("it's", r"'it'\''s'", r"'it\'s'"),
            (r#"say "x""#, r#"'say "x"'"#, r#"'say "x"'"#),
            (
                "$HOME `id` $(id)",
                "'$HOME `id` $(id)'",
                "'$HOME `id` $(id)'",
            ),
            (r"back\slash\", r"'back\slash\'", r"'back\\slash\\'"),
            (r"\'", r"'\'\'''", r"'\\\''"),
            ("line\nbreak\n", "'line\nbreak\n'", "'line\nbreak\n'"),
            (
                "*?[a] {b,c} ~ # ;",
                "'*?[a] {b,c} ~ # ;'",
                "'*?[a] {b,c} ~ # ;'",
            ),
            ("& | < > !", "'& | < > !'", "'& | < > !'"),
        ];
        for (value, bash, fish) in cases {
            let value = OsStr::new(value);
            assert_eq!(
                Shell::Bash.line("X", Some(value)),
                format!("export X={bash}")
            );
            assert_eq!(
                Shell::Fish.line("X", Some(value)),
                format!("set -gx X {fish}")
            );
        }
        assert_eq!(Shell::Bash.line("X", None), "unset X");
        assert_eq!(Shell::Fish.line("X", None), "set -e X");
    }
}

//! Variables as lines that a shell can evaluate.

use std::ffi::OsStr;

use clap::ValueEnum;

/// A shell, or a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash, zsh and every other POSIX shell: `eval "$(cargo cuda env)"`
    #[default]
    #[value(alias = "sh", alias = "zsh")]
    Bash,
    /// `cargo cuda env --shell fish | source`
    Fish,
    /// `cargo cuda env --shell powershell | Out-String | Invoke-Expression`
    Powershell,
    /// For programs
    Json,
}

impl Shell {
    /// Whether it can write this value as it is. For PowerShell and JSON all values are text; a
    /// replaced character in a list of directories would name another one.
    #[must_use]
    pub fn can_write(self, value: &OsStr) -> bool {
        match self {
            Self::Bash | Self::Fish => true,
            Self::Powershell | Self::Json => value.to_str().is_some(),
        }
    }

    /// The line that sets a variable; empty for JSON, which has no lines. One that only remarks
    /// that it is left out, where the shell can't write the value.
    #[must_use]
    pub fn set(self, name: &str, value: &OsStr) -> String {
        match self {
            // In single quotes nothing has a meaning but the quote. Every POSIX shell has this printf.
            Self::Bash => {
                let text = |text: &str| text.replace('\'', r"'\''");
                let byte = |byte: u8| format!(r#"'"$(printf '\{byte:03o}')"'"#);
                format!("export {name}='{}'", pieces(value, text, byte))
            }
            // Here a backslash has one too.
            Self::Fish => {
                let text = |text: &str| text.replace('\\', r"\\").replace('\'', r"\'");
                format!(
                    "set -gx {name} '{}'",
                    pieces(value, text, |byte| format!(r"'\X{byte:02x}'"))
                )
            }
            // Typographic quotes end a string here as the plain one does.
            Self::Powershell => {
                let Some(value) = value.to_str() else {
                    return self.comment(&format!("{name} is left out: its value is not UTF-8"));
                };
                let quotes = ['\'', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}'];
                let double =
                    |c: char| std::iter::repeat_n(c, if quotes.contains(&c) { 2 } else { 1 });
                format!(
                    "${{env:{name}}} = '{}'",
                    value.chars().flat_map(double).collect::<String>()
                )
            }
            Self::Json => String::new(),
        }
    }

    /// The line that takes a variable away; empty for JSON.
    #[must_use]
    pub fn unset(self, name: &str) -> String {
        match self {
            Self::Bash => format!("unset {name}"),
            Self::Fish => format!("set -e {name}"),
            Self::Powershell => format!("Remove-Item Env:{name} -ErrorAction SilentlyContinue"),
            Self::Json => String::new(),
        }
    }

    /// A line that says something.
    #[must_use]
    pub fn comment(self, text: &str) -> String {
        match self {
            Self::Json => String::new(),
            _ => format!("# {}", text.replace('\n', " ")),
        }
    }
}

/// A value with its text rewritten by `text`, and each byte that belongs to none by `byte`.
fn pieces(value: &OsStr, text: impl Fn(&str) -> String, byte: impl Fn(u8) -> String) -> String {
    let mut written = String::new();
    for chunk in value.as_encoded_bytes().utf8_chunks() {
        written.push_str(&text(chunk.valid()));
        written.extend(chunk.invalid().iter().map(|invalid| byte(*invalid)));
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_stay_or_the_variable_is_left_out() {
        let value = OsStr::from_bytes(b"/it's:/x\xe9\xff/bin");
        let bash = r#"export X='/it'\''s:/x'"$(printf '\351')"''"$(printf '\377')"'/bin'"#;
        assert_eq!(Shell::Bash.set("X", value), bash);
        assert_eq!(
            Shell::Fish.set("X", value),
            r"set -gx X '/it\'s:/x'\Xe9''\Xff'/bin'"
        );
        assert_eq!(
            Shell::Powershell.set("X", value),
            "# X is left out: its value is not UTF-8"
        );
        for (shell, can) in [
            (Shell::Bash, true),
            (Shell::Fish, true),
            (Shell::Powershell, false),
            (Shell::Json, false),
        ] {
            assert_eq!(shell.can_write(value), can);
            assert!(shell.can_write(OsStr::new("ü")));
        }
    }

    /// `tests/cli/shells.rs` gives such lines to bash, sh and fish; no PowerShell was given one.
    #[test]
    fn a_variable_goes_away() {
        assert_eq!(Shell::Bash.unset("X"), "unset X");
        assert_eq!(Shell::Fish.unset("X"), "set -e X");
        assert_eq!(
            Shell::Powershell.unset("X"),
            "Remove-Item Env:X -ErrorAction SilentlyContinue"
        );
    }

    /// `tests/cli/environment.rs` gives such lines to bash and sh. fish 3.6 was given these by
    /// hand; no PowerShell was.
    #[test]
    fn quoting_by_shell() {
        let cases = [
            ("", "''", "''", "''"),
            ("/a b", "'/a b'", "'/a b'", "'/a b'"),
            ("it's", r"'it'\''s'", r"'it\'s'", "'it''s'"),
            (r#"say "x""#, r#"'say "x"'"#, r#"'say "x"'"#, r#"'say "x"'"#),
            (
                "$HOME `id` $(id)",
                "'$HOME `id` $(id)'",
                "'$HOME `id` $(id)'",
                "'$HOME `id` $(id)'",
            ),
            (
                r"back\slash\",
                r"'back\slash\'",
                r"'back\\slash\\'",
                r"'back\slash\'",
            ),
            (r"\'", r"'\'\'''", r"'\\\''", r"'\'''"),
            (
                "line\nbreak\n",
                "'line\nbreak\n'",
                "'line\nbreak\n'",
                "'line\nbreak\n'",
            ),
            (
                "*?[a] {b,c} ~ # ;",
                "'*?[a] {b,c} ~ # ;'",
                "'*?[a] {b,c} ~ # ;'",
                "'*?[a] {b,c} ~ # ;'",
            ),
            ("& | < > !", "'& | < > !'", "'& | < > !'", "'& | < > !'"),
            (
                "\u{2018}ü\u{2019}",
                "'\u{2018}ü\u{2019}'",
                "'\u{2018}ü\u{2019}'",
                "'\u{2018}\u{2018}ü\u{2019}\u{2019}'",
            ),
        ];
        for (value, bash, fish, powershell) in cases {
            let value = OsStr::new(value);
            assert_eq!(Shell::Bash.set("X", value), format!("export X={bash}"));
            assert_eq!(Shell::Fish.set("X", value), format!("set -gx X {fish}"));
            assert_eq!(
                Shell::Powershell.set("X", value),
                format!("${{env:X}} = {powershell}")
            );
        }
    }
}

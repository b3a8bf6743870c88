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
    /// The line that sets a variable; empty for JSON, which has no lines.
    #[must_use]
    pub fn set(self, name: &str, value: &OsStr) -> String {
        let value = value.to_string_lossy();
        match self {
            // In single quotes nothing has a meaning but the quote.
            Self::Bash => format!("export {name}='{}'", value.replace('\'', r"'\''")),
            // Here a backslash has one too.
            Self::Fish => format!("set -gx {name} '{}'", value.replace('\\', r"\\").replace('\'', r"\'")),
            // Typographic quotes end a string here as the plain one does.
            Self::Powershell => {
                let quotes = ['\'', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}'];
                let double = |c: char| std::iter::repeat_n(c, if quotes.contains(&c) { 2 } else { 1 });
                format!("${{env:{name}}} = '{}'", value.chars().flat_map(double).collect::<String>())
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/cli/environment.rs` gives such lines to bash and sh. fish 3.6 was given these by
    /// hand; no PowerShell was.
    #[test]
    fn quoting_by_shell() {
        let cases = [
            ("", "''", "''", "''"),
            ("/a b", "'/a b'", "'/a b'", "'/a b'"),
            ("it's", r"'it'\''s'", r"'it\'s'", "'it''s'"),
            (r#"say "x""#, r#"'say "x"'"#, r#"'say "x"'"#, r#"'say "x"'"#),
            ("$HOME `id` $(id)", "'$HOME `id` $(id)'", "'$HOME `id` $(id)'", "'$HOME `id` $(id)'"),
            (r"back\slash\", r"'back\slash\'", r"'back\\slash\\'", r"'back\slash\'"),
            (r"\'", r"'\'\'''", r"'\\\''", r"'\'''"),
            ("line\nbreak\n", "'line\nbreak\n'", "'line\nbreak\n'", "'line\nbreak\n'"),
            ("*?[a] {b,c} ~ # ;", "'*?[a] {b,c} ~ # ;'", "'*?[a] {b,c} ~ # ;'", "'*?[a] {b,c} ~ # ;'"),
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
            assert_eq!(Shell::Powershell.set("X", value), format!("${{env:X}} = {powershell}"));
        }
    }
}

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
            Self::Powershell => format!("${{env:{name}}} = '{}'", value.replace('\'', "''")),
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

    #[test]
    fn quoting_by_shell() {
        let value = OsStr::new(r"/a 'b'\c$d`e`");
        assert_eq!(Shell::Bash.set("X", value), r"export X='/a '\''b'\''\c$d`e`'");
        assert_eq!(Shell::Fish.set("X", value), r"set -gx X '/a \'b\'\\c$d`e`'");
        assert_eq!(Shell::Powershell.set("X", value), r"${env:X} = '/a ''b''\c$d`e`'");
    }
}

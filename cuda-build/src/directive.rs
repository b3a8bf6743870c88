//! What a build script tells Cargo, as values that are written once, last.
#![allow(
    clippy::print_stdout,
    reason = "this is the one file that speaks to Cargo"
)]

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// One line for Cargo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directive {
    /// Run the build script again when this file changes.
    RerunIfChanged(PathBuf),
    /// Run the build script again when this variable changes.
    RerunIfEnvChanged(String),
    /// Declare a `cfg` that may be set.
    CheckCfg(String),
    /// Set a `cfg`.
    Cfg(String),
    /// Search this directory for libraries.
    LinkSearch(PathBuf),
    /// Link a library; `kind` is `static`, `dylib`, with modifiers.
    LinkLib {
        /// `static`, `dylib:+verbatim` …
        kind: &'static str,
        /// Link name, or a file name where the kind says `+verbatim`.
        name: String,
    },
    /// Hand the linker an argument, for everything that this package links.
    LinkArg(String),
    /// Give a build script above a value: `DEP_<links>_<KEY>`.
    Metadata {
        /// Lower case; Cargo makes it upper case.
        key: &'static str,
        /// Its value, to the end of the line.
        value: String,
    },
    /// Set a variable for the compiler, as `env!` reads it.
    RustcEnv {
        /// Its name.
        name: String,
        /// Its value, to the end of the line.
        value: String,
    },
    /// Show a warning to the user.
    Warning(String),
    /// No directive at all: a line for people, which Cargo keeps in the script's `output` file
    /// and shows with `-vv`.
    Remark(String),
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RerunIfChanged(path) => write!(f, "cargo::rerun-if-changed={}", path.display()),
            Self::RerunIfEnvChanged(name) => write!(f, "cargo::rerun-if-env-changed={name}"),
            Self::CheckCfg(cfg) => write!(f, "cargo::rustc-check-cfg=cfg({cfg})"),
            Self::Cfg(cfg) => write!(f, "cargo::rustc-cfg={cfg}"),
            Self::LinkSearch(path) => {
                write!(f, "cargo::rustc-link-search=native={}", path.display())
            }
            Self::LinkLib { kind, name } => write!(f, "cargo::rustc-link-lib={kind}={name}"),
            Self::LinkArg(argument) => write!(f, "cargo::rustc-link-arg={argument}"),
            Self::Metadata { key, value } => write!(f, "cargo::metadata={key}={value}"),
            Self::RustcEnv { name, value } => write!(f, "cargo::rustc-env={name}={value}"),
            // A directive ends at the line's end.
            Self::Remark(text) => write!(f, "cuda-build: {}", text.replace('\n', " ")),
            Self::Warning(text) => write!(f, "cargo::warning={}", text.replace('\n', " ")),
        }
    }
}

/// Directives in the order they have to stand in, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    lines: Vec<Directive>,
}

impl Directives {
    /// Adds one; a second of the same is dropped.
    pub fn push(&mut self, directive: Directive) {
        if !self.lines.contains(&directive) {
            self.lines.push(directive);
        }
    }

    /// Asks to be run again when one of these changes.
    pub fn rerun_if_changed(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        // Sorted, so that two runs print the same whatever order a compiler reported.
        let paths: BTreeSet<PathBuf> = paths.into_iter().collect();
        // There may be thousands: not compared with every other line, as `push` does.
        self.lines
            .extend(paths.into_iter().map(Directive::RerunIfChanged));
    }

    /// The lines.
    #[must_use]
    pub fn lines(&self) -> &[Directive] {
        &self.lines
    }

    /// Writes all lines to standard output, where Cargo reads them.
    ///
    /// # Errors
    /// Where standard output can't be written.
    pub fn emit(&self) -> io::Result<()> {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&format!("{line}\n"));
        }
        io::stdout().lock().write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_once_and_one_line_each() {
        let mut directives = Directives::default();
        for _ in 0..2 {
            directives.push(Directive::Warning("two\nlines".to_owned()));
            directives.push(Directive::LinkLib {
                kind: "dylib:+verbatim",
                name: "libcudart.so.13".to_owned(),
            });
        }
        let text: Vec<String> = directives.lines().iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "cargo::warning=two lines",
                "cargo::rustc-link-lib=dylib:+verbatim=libcudart.so.13"
            ]
        );
    }
}

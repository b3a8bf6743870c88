//! Cargo directives as values. A build script checks and prints all of them once, when it ends.
#![allow(
    clippy::print_stdout,
    reason = "this is the only file that prints directives"
)]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::Error;
use crate::list::sorted_set;

/// One line of a build script's standard output.
#[derive(Clone, Debug, PartialEq)]
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
    /// Link a library.
    LinkLib {
        /// `static`, `dylib:+verbatim` …
        kind: &'static str,
        /// The link name, or with `+verbatim` the file name.
        name: OsString,
    },
    /// Pass an argument to the linker for every binary, `cdylib`, example, test and benchmark of this package.
    LinkArg(String),
    /// Set `DEP_<links>_<KEY>` for the build scripts of packages that depend on this package.
    Metadata {
        /// `<KEY>` in lower case; Cargo converts it to upper case.
        key: &'static str,
        /// The value.
        value: OsString,
    },
    /// Show a warning to the user.
    Warning(String),
    /// A line that is not a directive. Cargo keeps it in the script's `output` file and shows it
    /// with `-vv`.
    Remark(String),
}

impl Directive {
    /// The start of the printed line up to the value, and the value.
    fn parts(&self) -> (&'static str, OsString) {
        let pair = |name: &str, value: &OsStr| {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            pair
        };
        match self {
            Self::RerunIfChanged(path) => ("cargo::rerun-if-changed=", path.into()),
            Self::RerunIfEnvChanged(name) => ("cargo::rerun-if-env-changed=", name.into()),
            Self::CheckCfg(cfg) => ("cargo::rustc-check-cfg=", format!("cfg({cfg})").into()),
            Self::Cfg(cfg) => ("cargo::rustc-cfg=", cfg.into()),
            Self::LinkSearch(path) => ("cargo::rustc-link-search=native=", path.into()),
            Self::LinkLib { kind, name } => ("cargo::rustc-link-lib=", pair(kind, name)),
            Self::LinkArg(argument) => ("cargo::rustc-link-arg=", argument.into()),
            Self::Metadata { key, value } => ("cargo::metadata=", pair(key, value)),
            // In a message, a line break may become a space. In a path it may not, so `line` returns an error.
            Self::Warning(text) => ("cargo::warning=", text.replace('\n', " ").into()),
            Self::Remark(text) => ("cuda-build: ", text.replace('\n', " ").into()),
        }
    }

    /// The line that Cargo reads.
    ///
    /// # Errors
    /// [`Error::Usage`] if Cargo would misread the line: a newline ends a directive, lines
    /// that are not UTF-8 are ignored, and white space at the end is removed.
    fn line(&self) -> Result<String, Error> {
        let (prefix, value) = self.parts();
        let refused = |reason: &str| {
            let directive = prefix.trim_end_matches('=').escape_debug();
            Error::usage(
                format!("cannot pass {value:?} to Cargo as `{directive}`: {reason}"),
                "rename the file or directory to UTF-8 without line breaks and trailing white space",
            )
        };
        let Some(text) = value.to_str() else {
            return Err(refused("it is not UTF-8, and Cargo ignores such a line"));
        };
        if text.contains('\n') {
            return Err(refused("it contains a newline, which ends a directive"));
        }
        let is_text = matches!(self, Self::Warning(_) | Self::Remark(_));
        if !is_text && text.trim_end() != text {
            return Err(refused("it ends with white space, which Cargo removes"));
        }
        Ok(format!("{prefix}{text}"))
    }
}

/// Directives in the order in which they are printed.
#[derive(Default)]
pub struct Directives {
    lines: Vec<Directive>,
}

impl Directives {
    /// Adds a directive unless it is already in the list.
    pub fn push(&mut self, directive: Directive) {
        if !self.lines.contains(&directive) {
            self.lines.push(directive);
        }
    }

    /// Adds a [`Directive::LinkLib`].
    pub fn link(&mut self, kind: &'static str, name: impl Into<OsString>) {
        let name = name.into();
        self.push(Directive::LinkLib { kind, name });
    }

    /// Adds a [`Directive::Warning`] for each line of a message. Equal lines are kept, because two messages
    /// may both have a line that contains only a caret.
    pub fn warn_lines(&mut self, message: &str) {
        let lines = message.lines().map(str::to_owned);
        self.lines.extend(lines.map(Directive::Warning));
    }

    /// Adds a [`Directive::RerunIfChanged`] for each path.
    pub fn rerun_if_changed(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        // Compilers report their inputs in no fixed order. The paths are sorted, so that every run prints the same.
        // The set has removed duplicates. `push` would compare each of possibly thousands of paths with every line.
        let paths = sorted_set(paths).into_iter();
        self.lines.extend(paths.map(Directive::RerunIfChanged));
    }

    /// All directives.
    pub fn lines(&self) -> &[Directive] {
        &self.lines
    }

    /// The lines that Cargo reads.
    ///
    /// # Errors
    /// [`Error::Usage`] if Cargo would misread a directive.
    pub fn to_lines(&self) -> Result<Vec<String>, Error> {
        self.lines.iter().map(Directive::line).collect()
    }

    /// Prints the lines to standard output.
    ///
    /// # Errors
    /// As [`Directives::to_lines`]; then nothing is printed.
    pub fn emit(&self) -> Result<(), Error> {
        print(&self.to_lines()?);
        Ok(())
    }
}

/// Prints lines for Cargo.
pub fn print(lines: &[String]) {
    // A macro, because the test harness captures what macros print.
    println!("{}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_is_one_line_and_printed_once() {
        let mut directives = Directives::default();
        for _ in 0..2 {
            directives.push(Directive::Warning("two\nlines".to_owned()));
            directives.push(Directive::LinkLib {
                kind: "dylib:+verbatim",
                name: "libcudart.so.13".into(),
            });
        }
        let lines: Vec<String> = directives
            .lines()
            .iter()
            .map(|directive| directive.line().unwrap())
            .collect();
        assert_eq!(
            lines,
            [
                "cargo::warning=two lines",
                "cargo::rustc-link-lib=dylib:+verbatim=libcudart.so.13"
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn values_that_cargo_would_change_are_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let metadata = |value: &str| Directive::Metadata {
            key: "root",
            value: value.into(),
        };
        for (directive, word) in [
            (
                Directive::RerunIfChanged(path(b"/a\ncargo::rustc-env=X=y")),
                "newline",
            ),
            (Directive::LinkSearch(path(b"/caf\xe9")), "not UTF-8"),
            (Directive::LinkSearch(path(b"/a ")), "white space"),
            (metadata("/a\ncargo::rustc-env=X=y"), "newline"),
            (Directive::RerunIfEnvChanged("A\nB".to_owned()), "newline"),
            (Directive::LinkArg("-Wl,a\nb".to_owned()), "newline"),
        ] {
            let error = directive.line().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(word) && !text.contains('\n'), "{text}");
            assert_eq!(error.hints().len(), 1);
        }
        assert_eq!(
            Directive::LinkSearch(path("/größe =a".as_bytes()))
                .line()
                .unwrap(),
            "cargo::rustc-link-search=native=/größe =a"
        );
    }
}

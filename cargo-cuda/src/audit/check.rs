//! The checks: a code that never changes, and what to do. `docs/audit.md` has the same table, with what is wrong.

use std::fmt;

use clap::builder::PossibleValuesParser;
use serde::Serialize;

use super::artifact::{Artifact, Majors};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Users of the wheel meet the fault. `audit` fails.
    Error,
    /// Some users meet the fault.
    Warning,
    /// A fact to know; nothing has to be changed.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One thing that `audit` checks.
#[derive(Debug)]
pub struct Check {
    /// `W05`. A code is never used for another check.
    pub code: &'static str,
    /// What to do about a finding.
    pub advice: &'static str,
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the check.
    pub code: &'static str,
    pub severity: Severity,
    /// The files with the fault; empty for a fault of the whole wheel.
    pub files: Vec<String>,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: ", self.severity, self.code)?;
        if !self.files.is_empty() {
            write!(f, "{}: ", files_as_text(&self.files))?;
        }
        f.write_str(&self.message)
    }
}

/// Some files in a sentence: `a.so`, `a.so and b.so`, `a.so and 7 other files`.
pub fn files_as_text(paths: &[String]) -> String {
    match paths {
        [first, second] => format!("{first} and {second}"),
        [first, _, others @ ..] => format!("{first} and {} other files", others.len() + 1),
        paths => paths.concat(),
    }
}

/// An artifact with the findings so far. Files with the same fault are one finding.
#[derive(Debug)]
pub struct Audit<'a> {
    pub artifact: &'a Artifact,
    pub majors: &'a Majors,
    pub findings: Vec<Finding>,
}

impl<'a> Audit<'a> {
    pub fn new(artifact: &'a Artifact, majors: &'a Majors) -> Self {
        let findings = Vec::new();
        Self {
            artifact,
            majors,
            findings,
        }
    }

    /// Adds a fault of the whole wheel.
    pub fn add(&mut self, check: &Check, severity: Severity, message: String) {
        self.findings.push(Finding {
            code: check.code,
            severity,
            files: Vec::new(),
            message,
            hint: check.advice,
        });
    }

    /// Adds a fault of a file.
    pub fn add_file(&mut self, check: &Check, severity: Severity, path: &str, message: String) {
        let same = self.findings.iter().position(|finding| {
            (finding.code, finding.severity, &finding.message) == (check.code, severity, &message)
        });
        let index = same.unwrap_or_else(|| {
            self.add(check, severity, message);
            self.findings.len() - 1
        });
        let files = &mut self.findings[index].files;
        if files.last().is_none_or(|last| last != path) {
            files.push(path.to_owned());
        }
    }
}

/// The codes that `--allow` accepts.
pub fn codes() -> PossibleValuesParser {
    ALL.iter().map(|check| check.code).into()
}

macro_rules! checks {
    ($($name:ident: $advice:literal;)*) => {
        $(pub const $name: Check = Check {
            code: stringify!($name),
            advice: $advice,
        };)*

        /// All checks, in the order of their codes.
        pub const ALL: &[Check] = &[$($name),*];
    };
}

// Other numbers were of checks that are gone.
checks! {
    W01: "build with `maturin build --auditwheel warn` or `auditwheel repair --exclude 'libcuda.so.*'`: the driver's \
          libraries must come from the installed driver";
    W02: "require NVIDIA's package instead, and exclude the library from the repair (`auditwheel repair --exclude`); \
          the licence forbids modified copies";
    W03: "load the driver at run time (`dlopen`), as cudart and cudarc with `dynamic-loading` do";
    W04: "remove the entry from the linker's arguments, or set the path with `patchelf --set-rpath`; every entry \
          starts with `$ORIGIN`";
    W05: "add the package to `dependencies` in pyproject.toml, or build with `cargo cuda wheel`";
    W06: "link with `-Wl,-rpath` to the package's directory, or load the library first with `cuda-pathfinder`";
    W07: "keep only the directories of the wheel's own major: some SONAMEs are the same in two majors";
    W08: "build with a toolkit of the major that the name has, and require packages of that major; what only one major \
          needs is listed in `dependencies` of `[package.metadata.cuda.major.12]` in Cargo.toml";
    W09: "for CUDA 13 write `cuda-toolkit[cudart]>=13.0,<14`, with the extras of the needed components";
    W10: "raise the lower bound, or build with the oldest toolkit that is to be supported";
    W13: "add PTX of a capability below those of the missing GPUs, as in `capabilities = [\"8.0\", \"9.0+PTX\"]`";
    W23: "build the wheel with `cargo cuda wheel --variants`, which takes the properties from the device code";
    W24: "build all wheels of a version into one directory with `cargo cuda wheel --variants`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_check() {
        let page = include_str!("../../../docs/audit.md");
        for check in ALL {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| {} |", check.code)));
            assert!(
                row.is_some_and(|row| row.contains(check.advice)),
                "{check:?}\n{row:?}"
            );
        }
    }

    #[test]
    fn files_with_one_fault_are_one_finding() {
        let (artifact, majors) = (Artifact::default(), Majors::default());
        let mut audit = Audit::new(&artifact, &majors);
        for path in ["a.so", "b.so", "b.so", "c.so"] {
            audit.add_file(&W05, Severity::Error, path, "needs x".to_owned());
        }
        audit.add_file(&W05, Severity::Note, "a.so", "needs x".to_owned());
        let texts: Vec<String> = audit.findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "error[W05]: a.so and 2 other files: needs x",
                "note[W05]: a.so: needs x"
            ]
        );
    }
}

//! The checks: a code that never changes, what is wrong, and what to do. `docs/audit.md` has the same table.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

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

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that `audit` checks.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// `W05`. A code is never used for another check.
    pub code: &'static str,
    /// The severities of its findings.
    pub severities: &'static [Severity],
    /// What is wrong, in one sentence.
    pub fault: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the check.
    pub code: &'static str,
    pub severity: Severity,
    /// What is wrong, with the file and the value.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, code) = (self.severity.name(), self.code);
        write!(f, "{severity}[{code}]: {}", self.message)
    }
}

impl Check {
    pub fn error(&self, message: String) -> Finding {
        self.finding(Error, message)
    }

    pub fn warning(&self, message: String) -> Finding {
        self.finding(Warning, message)
    }

    pub fn note(&self, message: String) -> Finding {
        self.finding(Note, message)
    }

    pub fn finding(&self, severity: Severity, message: String) -> Finding {
        debug_assert!(self.severities.contains(&severity), "{}", self.code);
        Finding {
            code: self.code,
            severity,
            message,
            hint: self.advice,
        }
    }
}

/// The code of a check, as `--allow` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub &'static str);

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = ALL
            .iter()
            .find(|check| check.code.eq_ignore_ascii_case(text));
        found.map(|check| Self(check.code)).ok_or_else(|| {
            let (first, last) = (ALL[0].code, ALL[ALL.len() - 1].code);
            format!("`{text}` is not the code of a check, which is one of {first} to {last}")
        })
    }
}

use Severity::{Error, Note, Warning};

/// Defines the checks and the list of them.
macro_rules! checks {
    ($($name:ident: $severities:expr, $fault:literal, $advice:literal;)*) => {
        $(pub static $name: Check = Check {
            code: stringify!($name),
            severities: &$severities,
            fault: $fault,
            advice: $advice,
        };)*

        /// Every check, in the order of the codes.
        pub static ALL: &[&Check] = &[$(&$name),*];
    };
}

checks! {
    W01: [Error],
        "A library of the GPU driver is in the wheel.",
        "build with `maturin build --auditwheel warn` or `auditwheel repair --exclude 'libcuda.so.*'`: the driver's \
         libraries must come from the installed driver";
    W02: [Error, Warning],
        "A copy of one of NVIDIA's libraries is in the wheel; an error if it was modified or renamed.",
        "require NVIDIA's package instead, and exclude the library from the repair (`auditwheel repair --exclude`); \
         the licence forbids modified copies";
    W03: [Warning],
        "A native module is linked to a library of the driver, so an import fails on a machine without a GPU.",
        "load the driver at run time (`dlopen`), as cudart and cudarc with `dynamic-loading` do";
    W04: [Error, Warning],
        "The search path has an entry of the build machine, or one that leaves site-packages.",
        "remove the entry from the linker's arguments, or set the path with `patchelf --set-rpath`; every entry \
         starts with `$ORIGIN`";
    W05: [Error, Warning, Note],
        "A native module needs a library of NVIDIA, and no requirement of the wheel brings it.",
        "add the package to `dependencies` in pyproject.toml, or build with `cargo cuda wheel`";
    W06: [Error],
        "A needed library is in a package that is required, but no search path leads to it and nothing preloads it.",
        "link with `-Wl,-rpath` to the package's directory, or load the library first with `cuda-pathfinder`";
    W07: [Error],
        "The search path leads to libraries of another CUDA major.",
        "keep only the directories of the wheel's own major: some SONAMEs are the same in two majors";
    W08: [Error],
        "The name, the native modules and the requirements are for different CUDA majors.",
        "build with a toolkit of the major that the name has, and require packages of that major";
    W09: [Error, Warning],
        "A requirement does not bound the CUDA major, or names an empty placeholder package.",
        "for CUDA 13 write `cuda-toolkit[cudart]>=13.0,<14`, with the extras of the needed components";
    W10: [Error],
        "The lower bound of a requirement allows a version that lacks a symbol that a native module needs.",
        "raise the lower bound, or build with the oldest toolkit that is to be supported";
    W11: [Error],
        "A native module needs symbol versions of a library that it does not list as needed, so the loader stops.",
        "link again: a tool that edits `NEEDED` must edit the version table too (`patchelf --replace-needed`)";
    W12: [Error],
        "NVRTC is in the wheel without the builtins library that it opens by name, so every compilation fails.",
        "require NVIDIA's NVRTC package instead of copying the library";
    W13: [Warning],
        "The device code does not run on newer GPUs, because it has no PTX that every newer GPU can use.",
        "add PTX of a capability below those of the missing GPUs, as in `capabilities = [\"8.0\", \"9.0+PTX\"]`";
    W14: [Warning],
        "Code with the suffix `a` or `f` has no portable code for the same GPU.",
        "add the capability without suffix, or PTX for an older one: code with a suffix runs on few GPUs";
    W15: [Note],
        "Device code takes more space than it needs: relocatable code that was linked already, or code without \
         compression.",
        "remove the section `__nv_relfatbin` (`objcopy --remove-section`), and let nvcc compress device code";
    W16: [Error, Warning, Note],
        "The platform tag promises more than the native modules keep: glibc, libstdc++, other libraries, processor.",
        "build in the container of the tag (manylinux), or use the tag that fits (`auditwheel show`)";
    W17: [Error, Warning],
        "The wheel is larger than indexes accept: 100 MiB by default; a warning from 60 MiB on.",
        "drop capabilities that PTX covers, compress device code (`-Xfatbin -compress-all`), or request a higher limit";
    W18: [Error, Warning],
        "Metadata, RECORD or the file name is not valid, or a file in the wheel cannot be read.",
        "build the wheel again; do not edit it without writing RECORD again";
    W19: [Note],
        "The wheel installs a package with another name than its own, so two distributions may own the same files.",
        "state in the README that only one of these distributions can be installed";
    W20: [Error],
        "A native module is linked to libpython, has text relocations, or requires an executable stack.",
        "do not link libpython into extension modules; compile with `-fPIC` and link with `-z noexecstack`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_w01_to_w20() {
        let expected: Vec<String> = (1..=20).map(|n| format!("W{n:02}")).collect();
        let codes: Vec<&str> = ALL.iter().map(|check| check.code).collect();
        assert_eq!(codes, expected);
        assert_eq!("w07".parse::<Code>(), Ok(Code("W07")));
        let error = "W21".parse::<Code>().unwrap_err();
        assert_eq!(
            error,
            "`W21` is not the code of a check, which is one of W01 to W20"
        );
    }

    #[test]
    fn the_documentation_has_every_check() {
        let page = include_str!("../../../docs/audit.md");
        for check in ALL {
            let severities: Vec<&str> = check.severities.iter().map(|s| s.name()).collect();
            let row = format!(
                "| {} | {} | {} | {} |",
                check.code,
                severities.join(", "),
                check.fault,
                check.advice
            );
            assert!(page.contains(&row), "docs/audit.md lacks the line\n{row}");
        }
    }
}

//! Choosing among compilers: pure, from what was asked to a choice or an error.

use std::path::{Path, PathBuf};

use super::{Bounds, Compiler, Family, refusal};
use crate::error::Error;
use crate::version::ToolkitVersion;

/// What a toolkit accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepts<'a> {
    /// Which toolkit.
    pub(super) toolkit: ToolkitVersion,
    /// The text of its `crt/host_config.h`.
    pub(super) header: Option<&'a str>,
    /// The header's bounds, or the table's where it has none that are understood.
    pub(super) bounds: Option<Bounds>,
}

impl Accepts<'_> {
    /// Whether the toolkit takes this compiler. Where nothing is known, it does: nvcc will say.
    pub(super) fn takes(&self, compiler: &Compiler) -> bool {
        if let Some(Ok(refused)) = self.header.map(|header| refusal(header, &compiler.macros)) {
            return refused.is_none();
        }
        self.bounds.is_none_or(|bounds| match compiler.family {
            Family::Gcc => compiler.major <= bounds.gcc_max,
            Family::Clang => compiler.major <= bounds.clang_max,
        })
    }

    fn bound(&self) -> String {
        match self.bounds {
            Some(Bounds { gcc_max, clang_max }) => {
                format!("gcc up to {gcc_max} and clang up to {clang_max}")
            }
            None => "no compiler of this version".to_owned(),
        }
    }

    fn example(&self) -> String {
        self.bounds.map_or_else(
            || "g++".to_owned(),
            |bounds| format!("g++-{}", bounds.gcc_max),
        )
    }
}

/// The first installed one that the toolkit accepts: gcc before clang, because its standard
/// library is the one that nvcc's headers are tried with, then the newest.
pub(super) fn preferred(mut installed: Vec<Compiler>, accepts: Accepts<'_>) -> Option<Compiler> {
    installed.sort_by_key(|compiler| (compiler.family, std::cmp::Reverse(compiler.major)));
    installed
        .into_iter()
        .find(|compiler| accepts.takes(compiler))
}

/// The error for a compiler that the toolkit does not accept.
pub(super) fn refused(
    compiler: &Compiler,
    named_by: Option<&str>,
    installed: &[Compiler],
    accepts: Accepts<'_>,
) -> Error {
    let named = named_by
        .map(|variable| format!(", which `{variable}` names,"))
        .unwrap_or_default();
    let fitting: Vec<&Compiler> = installed
        .iter()
        .filter(|compiler| accepts.takes(compiler))
        .collect();
    let mut hints = Vec::new();
    if let Some(other) = fitting.first() {
        hints.push(format!(
            "set `NVCC_CCBIN={}`, or unset it to have one chosen",
            other.path.display()
        ));
    } else {
        hints.push(format!(
            "install {} and, where it is not on `PATH`, set `NVCC_CCBIN` to it",
            accepts.example()
        ));
    }
    hints.push(
        "to try it all the same, set `NVCC_APPEND_FLAGS=-allow-unsupported-compiler`".to_owned(),
    );
    Error::HostCompiler {
        reason: format!(
            "host compiler {compiler}{named} is not accepted by CUDA {}, whose headers take {}",
            accepts.toolkit,
            accepts.bound()
        ),
        tried: installed
            .iter()
            .filter(|other| other.path != compiler.path)
            .map(ToString::to_string)
            .collect(),
        hints,
    }
}

/// The error where there is no compiler at all.
pub(super) fn absent(named: Option<(&str, &Path)>, accepts: Accepts<'_>) -> Error {
    let reason = match named {
        Some((variable, path)) => {
            format!(
                "`{variable}` names {}, which is no C++ compiler that can be run",
                path.display()
            )
        }
        None => format!(
            "nvcc needs a host compiler, and there is none on `PATH`; CUDA {} takes {}",
            accepts.toolkit,
            accepts.bound()
        ),
    };
    Error::HostCompiler {
        reason,
        tried: Vec::new(),
        hints: vec![format!(
            "install {} or set `NVCC_CCBIN` to a compiler",
            accepts.example()
        )],
    }
}

/// The program of the first host step among the lines of `nvcc --dryrun`: `gcc`,
/// `"/usr/bin"/g++-12`.
pub(super) fn from_dry_run(text: &str) -> Option<PathBuf> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("#$ "));
    let mut steps =
        lines.filter(|line| line.contains(" -E -x c++ ") || line.contains(" -c -x c++ "));
    let mut quoted = false;
    let mut program = String::new();
    for c in steps.next()?.trim_start().chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => break,
            c => program.push(c),
        }
    }
    (!program.is_empty()).then(|| PathBuf::from(program))
}

/// Whether flags for nvcc hold an option, in either of nvcc's spellings.
pub(super) fn has_option(flags: &str, names: &[&str]) -> bool {
    let words = flags
        .split_whitespace()
        .map(|word| word.split('=').next().unwrap_or_default());
    words.into_iter().any(|word| names.contains(&word))
}

/// A C++ compiler by its file name: `g++`, `g++-12`, `clang++-18`.
pub(super) fn is_compiler_name(name: &str) -> bool {
    ["g++", "clang++"].iter().any(|family| {
        name.strip_prefix(family).is_some_and(|rest| {
            rest.is_empty()
                || rest
                    .strip_prefix('-')
                    .is_some_and(|version| version.parse::<u32>().is_ok())
        })
    })
}

/// A warning where the compiler's assembler or linker was installed by somebody else: one of
/// them may not know what the other writes.
pub(super) fn origin_warning(compiler: &Path, tool: &str, tool_path: &Path) -> Option<String> {
    let (own, other) = (origin(compiler)?, origin(tool_path)?);
    let same = own == other || (own.components().count() > 2 && tool_path.starts_with(&own));
    (!same).then(|| {
        format!(
            "host compiler {} uses the `{tool}` at {}, which is of another origin: what the one writes, the \
             other may not read",
            compiler.display(),
            tool_path.display()
        )
    })
}

/// The prefix that a program was installed below. All of the Nix store counts as one.
fn origin(program: &Path) -> Option<PathBuf> {
    for whole in ["/nix/store", "/gnu/store", "/usr/local", "/usr"] {
        if program.starts_with(whole) {
            return Some(PathBuf::from(whole));
        }
    }
    // `/bin` is a link to `/usr/bin` wherever nvcc runs.
    if program.starts_with("/bin") || program.starts_with("/lib") {
        return Some(PathBuf::from("/usr"));
    }
    Some(program.parent()?.parent()?.to_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

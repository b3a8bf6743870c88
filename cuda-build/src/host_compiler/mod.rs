//! The compiler that nvcc hands host code to: chosen, or refused, by what the toolkit's own
//! headers accept.
//!
//! `NVCC_CCBIN` and `-ccbin` in nvcc's own variables are taken at their word: what they name is
//! used or refused. Otherwise nvcc's own choice is kept where the toolkit accepts it, and where
//! not, the newest installed compiler that it does accept is named to nvcc instead.

mod ask;
mod choose;
mod conditions;
mod expression;

use std::fmt;
use std::path::PathBuf;

pub use ask::choose;
pub use conditions::{Bounds, Macros, bounds, refusal};

/// A C++ compiler and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: PathBuf,
    /// Which one it is.
    pub family: Family,
    /// Its version in full: `12.2.0`.
    pub version: String,
    /// The number that a toolkit's bounds are about.
    pub major: u32,
    /// Everything that it defines by itself.
    pub macros: Macros,
}

/// The compilers that nvcc works with on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// GNU's.
    Gcc,
    /// LLVM's, and what is made from it.
    Clang,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gcc => "gcc",
            Self::Clang => "clang",
        })
    }
}

impl Compiler {
    /// A compiler by the macros that `-dM -E` prints; `None` for one that is neither gcc nor
    /// clang.
    #[must_use]
    pub fn from_macros(path: PathBuf, macros: Macros) -> Option<Self> {
        let (family, numbers) = if macros.value("__clang__").is_some() {
            (
                Family::Clang,
                ["__clang_major__", "__clang_minor__", "__clang_patchlevel__"],
            )
        } else {
            (
                Family::Gcc,
                ["__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"],
            )
        };
        let major = macros.number(numbers[0])?;
        let rest = numbers[1..]
            .iter()
            .map(|name| macros.number(name).unwrap_or(0).to_string());
        let version = std::iter::once(major.to_string())
            .chain(rest)
            .collect::<Vec<_>>()
            .join(".");
        Some(Self {
            path,
            family,
            version,
            major,
            macros,
        })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} ({})",
            self.family,
            self.version,
            self.path.display()
        )
    }
}

/// The compiler for one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCompiler {
    /// Which one.
    pub compiler: Compiler,
    /// What nvcc has to be told with `-ccbin`; `None` where it takes this one by itself.
    pub option: Option<PathBuf>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

impl HostCompiler {
    /// What the output of a compile step depends on.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("host compiler {}", self.compiler)
    }
}

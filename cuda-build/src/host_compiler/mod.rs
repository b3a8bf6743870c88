//! The C++ compiler that nvcc calls for host code.
//!
//! If `NVCC_CCBIN`, or `-ccbin` in nvcc's own variables, names a compiler, this compiler is used or
//! the build fails. Otherwise nvcc's own choice is used if the toolkit accepts it. If it does not,
//! the newest installed compiler that the toolkit accepts is passed to nvcc with `-ccbin`.
//!
//! The compiler itself decides what a toolkit accepts: it preprocesses the toolkit's
//! `crt/host_config.h`, which stops with an `#error` for a compiler that NVIDIA does not support.

mod choose;
mod judge;

use std::fmt;
use std::path::PathBuf;

pub use choose::choose;

/// A C++ compiler and what it reports about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiler {
    /// The program.
    pub path: PathBuf,
    /// Which compiler it is.
    pub family: Family,
    /// Its version in full: `12.2.0`.
    pub version: String,
    /// The number that the bounds of a toolkit refer to.
    pub major: u32,
    /// Changes when the program, or the compiler proper behind it (`cc1plus`), is replaced.
    pub fingerprint: String,
    /// The program, and the compiler proper behind it.
    pub files: Vec<PathBuf>,
}

/// The compilers that nvcc works with on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// GNU's.
    Gcc,
    /// LLVM's, and compilers based on it.
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
#[derive(Debug, PartialEq)]
pub struct HostCompiler {
    /// Which compiler.
    pub compiler: Compiler,
    /// The value of nvcc's option `-ccbin`; `None` if nvcc takes this compiler without it.
    pub option: Option<PathBuf>,
}

impl HostCompiler {
    /// A string that differs if the output of a compile step may differ.
    pub fn identity(&self) -> String {
        format!(
            "host compiler {} {}",
            self.compiler, self.compiler.fingerprint
        )
    }
}

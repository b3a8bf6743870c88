//! The C++ compiler that nvcc calls for host code.
//!
//! The user can name a compiler with `NVCC_CCBIN`, or with `-ccbin` in `NVCC_PREPEND_FLAGS` or
//! `NVCC_APPEND_FLAGS`. If the toolkit does not accept this compiler, the build fails. If no compiler is
//! named, the compiler that nvcc would choose is used if the toolkit accepts it. Otherwise the newest
//! accepted gcc on `PATH`, or the newest accepted clang if there is no such gcc, is passed to nvcc with
//! `-ccbin`.
//!
//! In a cross build, the variables of the `cc` crate (`CXX_aarch64_unknown_linux_gnu` …) are read after nvcc's
//! variables, and the default is `aarch64-linux-gnu-g++`. A compiler for another architecture than the target's is
//! never used.
//!
//! To find out whether a toolkit accepts a compiler, the compiler preprocesses the toolkit's
//! `crt/host_config.h`, which contains an `#error` for each compiler that NVIDIA does not support.

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
    /// The major version. The limits in `crt/host_config.h` refer to it: CUDA 12.4 accepts gcc up to 13.
    pub major: u32,
    /// A digest that changes if the program, or the compiler proper that it starts (`cc1plus`), is replaced.
    pub fingerprint: String,
    /// The program, and the compiler proper that it starts.
    pub files: Vec<PathBuf>,
    /// The version of glibc whose headers it includes.
    pub glibc: Option<(u32, u32)>,
}

/// The host compilers that this crate can choose for nvcc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// GNU's gcc.
    Gcc,
    /// LLVM's clang, and compilers based on it.
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
        let (family, version, path) = (self.family, &self.version, self.path.display());
        write!(f, "{family} {version} ({path})")
    }
}

/// The compiler for one build.
#[derive(Debug, PartialEq)]
pub struct HostCompiler {
    /// The compiler.
    pub compiler: Compiler,
    /// The value of nvcc's option `-ccbin`; `None` if nvcc uses this compiler without the option.
    pub option: Option<PathBuf>,
    /// Whether it compiles for another platform than this machine.
    pub is_cross: bool,
}

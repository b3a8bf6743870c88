//! NVRTC, the CUDA compiler as a library. It compiles device code without nvcc and without a host compiler.
//!
//! The library is loaded into this process from the path where the search found it, so a pip wheel
//! (`nvidia-cuda-nvrtc`, `-cu12`, `-cu11`) is enough. NVRTC writes no depfile, so
//! `includes` finds the headers that a source may include. NVRTC has no system headers, so
//! [`shims`] has small replacements for the usual C and C++ headers.

mod api;
mod compile;
mod library;
pub mod shims;

pub use compile::{CompiledProgram, Program};
pub use library::Nvrtc;
pub(crate) use library::loader_message;

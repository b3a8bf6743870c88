//! NVRTC, the CUDA compiler as a library: device code without nvcc and without a host compiler.
//!
//! The library is loaded into this process from the place where it was found, so a pip wheel
//! (`nvidia-cuda-nvrtc`, `-cu12`, `-cu11`) is enough. NVRTC works in memory. It writes no depfile:
//! [`includes`](crate::includes) finds the headers that a source may include. It has no system
//! headers: [`shims`] has small replacements for the usual C and C++ headers.

mod api;
mod compile;
mod library;
pub mod shims;

pub use compile::{NvrtcFailure, Output, Program, compilations};
pub use library::Nvrtc;

//! NVRTC, the CUDA compiler as a library: device code without nvcc and without a host compiler.
//!
//! It is loaded into this process from wherever it was found, so that a pip wheel
//! (`nvidia-cuda-nvrtc`, `-cu12`, `-cu11`) is enough. It does its work alone, in memory: no
//! depfile ([`includes`](crate::includes) finds the headers that a source uses) and no system headers ([`shims`]
//! has small ones for the usual C and C++ names).

mod api;
mod compile;
mod library;
pub mod shims;

pub use compile::{NvrtcFailure, Output, Program, compilations};
pub use library::Nvrtc;

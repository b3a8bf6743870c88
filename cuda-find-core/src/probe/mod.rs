//! Reads one candidate and returns an attempt: the components found, with evidence, or the reason there are none.
//!
//! A component is found if the file that makes it usable exists: a tool, a library under its SONAME, or a header.
//! Package metadata alone does not prove that. CUDA releases come first from files and programs (`CUDA_VERSION` in
//! `cuda.h`, the file name of NVRTC's builtins, the output of nvcc), and otherwise from package metadata.

mod attempt;
mod files;
mod names;
mod packages;
mod prober;
mod roots;

pub use attempt::RELATIVE_PATH_REASON;
pub use files::release_in_file_name;
pub(crate) use prober::Prober;

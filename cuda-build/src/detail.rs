//! What `cargo cuda` uses beside the first page: the manifest, and the parts of compiling.
//!
//! It may change in every release: a crate that uses it requires the exact version, `cuda-build = "=0.1.0"`.

pub use crate::config::Config;
pub use crate::script::{request, skipped_by};
pub use crate::view::{ViewPlace, WRAPPED_NVCC};

/// `[package.metadata.cuda]` and the variables that replace it.
pub mod config {
    pub use crate::config::*;
}
/// The driver and the GPUs of this machine.
#[cfg(feature = "compile")]
pub mod driver {
    pub use crate::driver::*;
}
/// The container of device code.
#[cfg(feature = "compile")]
pub mod fatbin {
    pub use crate::fatbin::*;
}
/// The C++ compiler that nvcc calls.
#[cfg(feature = "compile")]
pub mod host_compiler {
    pub use crate::host_compiler::*;
}
/// What compilers made, for all builds of a user, what they are making, and the headers that they miss.
#[cfg(feature = "compile")]
pub mod outputs {
    pub use crate::compile::{
        PROGRESS_VARIABLE, header_hint, missing_headers, output_store, remove_outputs,
    };
}
/// Programs that can be put before nvcc.
#[cfg(feature = "compile")]
pub mod launcher {
    pub use crate::compile::is_sccache;
}
/// Calls of nvcc by build scripts that do not use this crate.
#[cfg(feature = "nvcc-wrapper")]
pub mod wrapper {
    pub use crate::compile::{Call, WrappedNvcc, most_compilers};
}
/// NVRTC, loaded into this process.
#[cfg(feature = "compile")]
pub mod nvrtc {
    pub use crate::nvrtc::*;
}
/// Patterns of file names.
#[cfg(feature = "compile")]
pub mod sources {
    pub use crate::compile::matching_files;
}
/// The Rust source that a crate includes.
pub mod runtime {
    pub use crate::runtime::*;
}

//! `cargo cuda`: fetch CUDA components, build crates with them, package wheels per CUDA major.

pub mod rustc_wrapper;
pub mod wheel;

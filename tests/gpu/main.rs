//! What was built on a machine without a GPU, run on one that has one.
//!
//! `tests/gpu/pack DIRECTORY` builds the programs and puts this test program beside them; the
//! directory can be carried. Here `CUDA_BUILD_GPU_PROGRAMS` names it, where the test program was
//! started by cargo.
#![allow(
    clippy::disallowed_methods,
    reason = "tests run real programs in real directories"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code"
)]

mod bundles;
mod driver_api;
mod machine;
mod native_app;
mod support;
mod templates;
mod toolkit;
mod wheels;

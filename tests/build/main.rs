//! `cuda-build` against real CUDA components and real consumers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests, helpers included, stop at the first surprise and run real tools on real files"
)]

mod capability;
mod support;

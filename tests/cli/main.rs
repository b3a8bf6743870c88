//! `cargo cuda` against real tools.
//!
//! These tests fetch packages and run compilers. `CUDA_BUILD_TEST_OFFLINE=1` leaves them out and
//! says so; without it a missing tool is a failure.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "all of this is test code")]

mod toolkit;
mod wheel;

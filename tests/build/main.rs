//! `cuda-build` against NVIDIA's own components, without a GPU and without a driver.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod fatbin;
mod nvrtc;
mod support;

//! `cargo cuda`: fetch CUDA components, build crates with them, package wheels per CUDA major.
//!
//! This is a library so that tests can use its modules; `main.rs` contains no logic.
#![allow(missing_docs, reason = "the library of one program and its tests")]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "cargo-cuda runs on Linux only, because it fetches CUDA for Linux and builds with it; on other systems, \
     `CUDA_BUILD_SKIP=1` with plain cargo builds crates that use cuda-build without CUDA"
);

pub mod audit;
mod bundle;
pub mod cargo_arguments;
mod cargo_config;
pub mod cli;
pub mod commands;
pub mod dependencies;
mod diagnosis;
mod driver_limit;
pub mod environment;
pub mod exit_code;
pub mod failure;
pub mod isolated_build;
mod nvcc_wrapper;
mod other_commands;
mod output;
pub mod package;
mod process;
mod progress;
mod project;
pub mod report;
mod rustflags;
pub mod selection;
mod signals;
pub mod store;
pub mod toolkits;
pub mod wheel;
pub mod workspace;

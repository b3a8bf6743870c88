//! `cargo cuda`: fetch CUDA components, build crates with them, package wheels per CUDA major.
//!
//! A library so that tests reach the parts; the program is `main.rs`, which holds no logic.

mod cargo_arguments;
mod cargo_config;
pub mod cli;
pub mod commands;
pub mod environment;
pub mod exit_code;
pub mod failure;
mod fetch;
pub mod graph;
pub mod missing;
mod output;
mod process;
pub mod report;
mod runner;
pub mod rustc_wrapper;
pub mod rustflags;
pub mod session;
pub mod shell;
mod signs;
pub mod store;
pub mod toolkits;
pub mod wheel;
pub mod workspace;

//! `cargo cuda`: fetch CUDA components, build crates with them, package wheels per CUDA major.
//!
//! This is a library so that tests can use its modules; `main.rs` contains no logic.
#![allow(
    missing_docs,
    reason = "only this program and its tests use this library"
)]

pub mod audit;
pub mod build;
mod cargo_arguments;
mod cargo_config;
pub mod cli;
pub mod commands;
pub mod dependencies;
pub mod environment;
pub mod exit_code;
pub mod failure;
mod help;
mod lacking;
mod output;
mod previous;
mod process;
mod project;
pub mod report;
pub mod requirement;
pub mod rustc_wrapper;
pub mod shell;
mod signals;
pub mod store;
mod template;
pub mod toolkits;
pub mod wheel;
pub mod workspace;

//! `cargo cuda` from outside: the program as it is run, with real installers and components.
//!
//! These tests use the package index that uv and pip are configured with.
//! `CUDA_BUILD_TEST_OFFLINE=1` leaves out those that do, and says so.
#![allow(
    clippy::disallowed_methods,
    reason = "tests prepare real directories and run real programs"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this is test code"
)]

mod audit;
mod bad_input;
mod bad_variables;
mod build;
mod capabilities;
mod ci_guide;
mod cmake_crate;
#[path = "../support/components.rs"]
mod components;
mod device_link;
mod diagnostics;
mod directives;
mod directories;
mod doctor;
mod doctor_components;
mod environment;
mod errors;
mod fetching;
mod freshness;
mod guesses;
mod help;
mod installer_terminal;
mod interrupted;
mod lacking;
mod launchers;
#[path = "../build/layout_files.rs"]
#[allow(dead_code, reason = "these tests use some parts of it")]
mod layout_files;
mod library;
mod linking;
mod locked;
mod matrix;
mod meson;
mod project;
mod python_backend;
mod python_installs;
mod python_package;
mod redist;
mod redist_files;
mod redist_nvcc;
mod run;
mod shells;
mod skipped;
mod splits;
mod support;
mod templates;
mod terminal;
mod toolkit;
mod toolkit_gc;
mod toolkit_list;
#[path = "../support/tools.rs"]
mod tools;
mod wheel;
mod wheel_existing;
mod wheel_libraries;
mod wheel_projects;
mod wheel_publish;
mod wheel_resolution;
mod wheel_template;
mod wheel_unchanged;
#[path = "../support/wheels.rs"]
mod wheels;
mod workflow;

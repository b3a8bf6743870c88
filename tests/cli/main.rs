//! `cargo cuda` from outside: the program as it is run, with real installers and components.
//!
//! These tests use the package index that uv and pip are configured with.
//! `-- --skip online` leaves out those that do.
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
mod build;
mod bundle;
mod choosing;
mod clusters;
mod cmake_crate;
#[path = "../support/components.rs"]
mod components;
mod cudarc;
mod diagnosis;
mod diagnostics;
mod directories;
mod doctor;
mod doors;
mod environment;
mod freshness;
mod guesses;
mod help;
mod inherited;
mod install;
mod interrupted;
mod launcher;
#[path = "../build/layout_files.rs"]
#[allow(dead_code, reason = "these tests use some parts of it")]
mod layout_files;
mod library;
mod linking;
mod locked;
mod members;
#[path = "../support/objects.rs"]
mod objects;
mod others;
mod project;
mod python_backend;
mod python_installs;
mod python_package;
mod redist;
mod redist_nvcc;
mod run;
mod selection;
mod skipped;
mod splits;
mod support;
mod templates;
mod terminal;
mod toolkit;
#[path = "../support/tools.rs"]
mod tools;
mod variants;
mod wheel_existing;
mod wheel_projects;
mod wheel_publish;
mod wheel_template;
#[path = "../support/wheels.rs"]
mod wheels;
mod workflow;
mod wrapper;

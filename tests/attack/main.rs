//! Attacks on the build: edits of every kind between two builds, hostile names and files, and
//! processes that are killed.
//!
//! Everything is judged from outside: by the bytes that end in the program that Cargo builds.
//! `CUDA_BUILD_TEST_OFFLINE=1` leaves out what needs real components, and reports that.
//! `tests/attack/slow.sh` runs the long forms.
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

mod archive;
mod capabilities;
#[allow(dead_code, reason = "other test programs use all of it")]
#[path = "../support/components.rs"]
mod components;
mod cost;
mod differential;
mod disks;
mod headers;
mod hostile;
mod killed_images;
mod kills;
mod outputs;
mod package;
mod sources;
mod surroundings;

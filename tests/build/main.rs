//! `cuda-build` against real components: nvcc, NVRTC, ptxas, fatbinary, cuobjdump, CMake.
//!
//! They are fetched once into the user's cache, through the package index that uv and pip are
//! configured with. `-- --skip online` leaves these tests out.
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
mod cmake;
#[path = "../support/components.rs"]
mod components;
mod cross;
mod documents;
mod fatbin;
mod fuzz;
mod headers;
mod host_compiler;
mod hostile_builds;
mod images;
mod killed;
mod layout_files;
mod layouts;
mod lock;
mod mixed_libraries;
mod mutate;
mod named_places;
mod newest_major;
mod nvrtc;
#[path = "../support/objects.rs"]
mod objects;
mod package;
mod parts;
mod random_edits;
mod sources;
mod support;
mod surroundings;
mod system_products;
#[path = "../support/tools.rs"]
mod tools;
mod view;
mod view_faults;
mod watched;
#[path = "../support/wheels.rs"]
mod wheels;

/// What needs packages from an index.
mod online {
    pub mod capability;
    pub mod mixes;
    pub mod named_compilers;
    pub mod nvcc;
    pub mod products;
    pub mod tables;
}

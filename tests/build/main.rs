//! `cuda-build` against real components: nvcc, NVRTC, ptxas, fatbinary, cuobjdump, CMake.
//!
//! They are fetched once into the user's cache, through the package index that uv and pip are
//! configured with. `CUDA_BUILD_TEST_OFFLINE=1` leaves these tests out, and says so.
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

mod capability;
mod cmake;
#[path = "../support/components.rs"]
mod components;
mod cross;
mod documents;
mod fatbin;
mod fuzz;
mod host_compiler;
mod hostile;
mod image_attacks;
mod image_faults;
mod image_kernels;
mod images;
mod layout_files;
mod layouts;
mod lock;
mod mixed_libraries;
mod mixes;
mod mutate;
mod named_compilers;
mod named_places;
mod newest_major;
mod nvcc;
mod nvrtc;
mod other_tables;
mod products;
mod support;
mod system_products;
mod tables;
#[path = "../support/tools.rs"]
mod tools;
mod view;
mod view_faults;
mod view_output;
mod view_processes;
mod view_stubs;
#[path = "../support/wheels.rs"]
mod wheels;

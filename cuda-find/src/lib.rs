//! Finds CUDA wherever its components are installed, and checks that they belong together.
//!
//! The search reads variables such as `CUDA_HOME`, `cuda-toolkits.lock`, the active virtual environment, conda, Nix and
//! Spack environments, the HPC SDK, toolkits that `cargo cuda fetch` fetched, nvcc on `PATH`, `/usr/local/cuda` and the
//! packages of distributions. It needs neither a GPU nor a driver. The only programs that it starts are nvcc, for its
//! version and directories, and ptxas, if the toolkit is newer than the tables of this crate; after
//! [`Search::without_running_nvcc`], it starts none. It writes nothing, unless [`System::with_cache_dir`] names a
//! directory.
//!
//! In `build.rs`:
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_find::Error> {
//! let toolkit = cuda_find::Search::new()
//!     .need("cublas")
//!     .need_optional("cudnn")
//!     .release(">=12.2, <14")
//!     .find()?;
//! let cublas = toolkit.component("cublas")?;
//! eprintln!("CUDA {}: {} from {}", toolkit.release(), cublas.component(), cublas.origin());
//! toolkit.print_cargo_directives();
//! # Ok(())
//! # }
//! ```
//!
//! Five things are on this page:
//!
//! - [`Search`] is what is needed, and [`System`] what is read: both can be replaced part by part.
//! - [`Toolkit`] is what was found: its release, nvcc, directories, a [`Found`] for each component with its files of
//!   each [`Kind`], and lines for Cargo.
//! - [`Capabilities`] are a list such as `8.0;90a`, read, checked against the toolkit, and written for nvcc and CMake.
//! - [`Error`] lists what was tried, why it was not used, and what to do.
//! - [`runtime`] finds a shared library while a program runs.
//!
//! # Which toolkit is found
//!
//! A place that the user names decides alone, the first of them first: [`Search::place`], `CUDA_BUILD_ROOTS`, or a
//! variable such as `NVCC`,
//! `CUDA_HOME`, `CUDA_PATH`, `CUDA_ROOT` or `CUDAToolkit_ROOT`. If CUDA is not there, that is an error, and no other
//! place is tried. Otherwise the first of these that has everything is taken: the toolkit of `cuda-toolkits.lock`, the
//! active environment (`VIRTUAL_ENV`, `CONDA_PREFIX`, a Nix shell, Spack, the HPC SDK), fetched toolkits, nvcc on
//! `PATH`, `/usr/local/cuda`, the distribution's packages, site-packages of the Python on `PATH`. If none has
//! everything, missing components are added from later ones, if they belong together; products such as cuDNN may always
//! come from elsewhere. The [whole order][order] is in the guide.
//!
//! [order]: https://github.com/cuda-build/cuda-build/blob/main/docs/search.md
//!
//! # Without CUDA
//!
//! `cargo check` and docs.rs need no libraries. A crate that wants to be checked without CUDA links by name instead:
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_find::Error> {
//! match cuda_find::Search::new().need("cublas").find() {
//!     Ok(toolkit) => toolkit.print_cargo_directives(),
//!     Err(error) if error.kind() == cuda_find::ErrorKind::NotFound => {
//!         println!("cargo::rustc-link-lib=cublas");
//!         println!("cargo::rerun-if-env-changed=CUDA_HOME");
//!         println!("cargo::warning={}", format!("{error:?}").replace('\n', " "));
//!     }
//!     // A wrong `CUDA_HOME`, or components that do not belong together.
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is not here
//!
//! No GPU is queried, so `native` is no capability here; no directory with one root is made of a toolkit in parts
//! (`View` of cuda-build makes one); and nothing is compiled.
//!
//! # Versions
//!
//! This page follows semantic versioning. Types of `cuda-find-core` that it does not name are not part of it.
//!
//! [`cuda-build`](https://docs.rs/cuda-build) is built on the same search. It also compiles `.cu` files.
//!
//! Linux on x86-64 and aarch64, and Windows on x86-64 ([`ErrorKind::UnsupportedTarget`] elsewhere). Rust 1.85.

mod error;
pub mod runtime;
mod search;
mod system;
mod toolkit;

pub use cuda_find_core::capability::{Capability, Suffix};
pub use cuda_find_core::component::Component;
pub use cuda_find_core::version::{ToolkitVersion, Version};
pub use error::{Error, ErrorKind};
pub use search::Search;
pub use system::System;
pub use toolkit::{Capabilities, Found, Kind, Toolkit};

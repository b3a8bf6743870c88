//! Find scattered CUDA components, check that they belong together, compile `.cu` files and link.
//!
//! A complete `build.rs`, for a crate with one module (device code, loaded through the driver
//! API) and one library (host and device code, linked):
//!
//! ```no_run
//! use cuda_build::{Build, Engine, Library, Module};
//!
//! fn main() -> Result<(), cuda_build::Error> {
//!     Build::new()?
//!         .module("kernels/saxpy.cu")
//!         .module(Module::new("kernels/scan.cu").engine(Engine::Nvcc).include("kernels/include"))
//!         .library(Library::new("launch").glob("kernels/launch/*.cu").define("BLOCK", "256"))
//!         .run()?;
//!     Ok(())
//! }
//! ```
//!
//! `Cargo.toml` declares what to build for:
//!
//! ```toml
//! [build-dependencies]
//! cuda-build = "0.1"
//!
//! [package.metadata.cuda]          # [workspace.metadata.cuda] holds defaults
//! toolkit           = ">=12.2, <14"
//! components        = ["cudart", { name = "cudnn", version = ">=9", optional = true }]
//! capabilities      = ["8.0", "9.0", "10.0", "12.0+PTX"]
//! single-capability = "9.0"        # for consumers that accept only one
//! cudart            = "static"     # or "shared"
//! jetson            = false        # on aarch64 Linux: true for a Jetson board
//! [package.metadata.cuda.major.12] # overrides keys for one CUDA major
//! capabilities      = ["8.0", "9.0+PTX"]
//! ```
//!
//! The crate includes the compiled modules, in a Rust module of any name and visibility:
//!
//! ```text
//! mod cuda {
//!     include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
//! }
//! ```
//!
//! The included source needs edition 2018 or later, and only `core`. It contains no `unsafe`, and compiles with
//! `#![deny(missing_docs, warnings)]` and clippy's pedantic lints. It defines
//!
//! - `modules::SAXPY: &[u8]`, and so on for each module, for `cuModuleLoadData` (a `&str` for [`Format::Ptx`]);
//! - `check_device(major, minor) -> Result<Support, DeviceError>`: whether this build has code for a GPU, as machine
//!   code or as PTX. The text of the error is for the user: "this build has no code for your 7.5 GPU; it has 8.0, 9.0,
//!   12.0+PTX";
//! - `modules::check_device("saxpy", major, minor)`: the same for one module;
//! - `CAPABILITIES` and `PTX: &[Capability]`, the same as text in `CAPABILITY_LIST`, `CUDA_VERSION` and `CUDART`.
//!
//! With [cust](https://docs.rs/cust), which links the driver's library:
//!
//! ```ignore
//! use cust::device::{Device, DeviceAttribute};
//! use cust::module::Module;
//!
//! let _context = cust::quick_init()?;
//! let device = Device::get_device(0)?;
//! let attribute = |attribute| device.get_attribute(attribute).map(i32::unsigned_abs);
//! let major = attribute(DeviceAttribute::ComputeCapabilityMajor)?;
//! let minor = attribute(DeviceAttribute::ComputeCapabilityMinor)?;
//! cuda::check_device(major, minor)?;
//! let module = Module::from_fatbin(cuda::modules::SAXPY, &[])?;
//! let kernel = module.get_function("saxpy")?;
//! ```
//!
//! With [cudarc](https://docs.rs/cudarc), which loads the driver's library at run time if its feature `dynamic-loading`
//! is on:
//!
//! ```ignore
//! use cudarc::driver::CudaContext;
//! use cudarc::nvrtc::Ptx;
//!
//! let context = CudaContext::new(0)?;
//! let (major, minor) = context.compute_capability()?;
//! cuda::check_device(major.unsigned_abs(), minor.unsigned_abs())?;
//! let module = context.load_module(Ptx::from_binary(cuda::modules::SAXPY.to_vec()))?;
//! let kernel = module.load_function("saxpy")?;
//! ```
//!
//! `cargo cuda new --template module-cust` and `--template module-cudarc` write these as complete programs.
//!
//! The build script sets `cfg(cuda_since = "12.8")` for each CUDA release up to the toolkit's,
//! `cfg(cuda_capability = "9.0")` for each declared number, and `cfg(cuda_part = "saxpy")` for each library and module
//! that was compiled.
//!
//! On docs.rs, and with `CUDA_BUILD_SKIP=1`, nothing of CUDA is needed: modules are empty, `check_device` returns
//! `DeviceError::Skipped`, and `cfg(cuda_build_skipped)` is set ([`Build::is_skipped`]).
//!
//! A build script that starts the compilers itself needs only the toolkit:
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_build::Error> {
//! let build = cuda_build::Build::new()?;
//! for found in build.toolkit()?.components() {
//!     eprintln!("{found} from {}", found.origin);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The feature `nvcc-wrapper` is what `cargo cuda` needs for calls of nvcc by other build scripts. It is of no use to a
//! build script.

// Its examples are compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
mod coming_from {}

mod cc_variables;
#[doc(hidden)]
pub mod compile;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod diagnosis;
#[doc(hidden)]
pub mod driver;
mod error;
#[doc(hidden)]
pub mod fatbin;
mod freshness;
#[doc(hidden)]
pub mod host_compiler;
mod includes;
mod lex;
mod nvcc_options;
#[doc(hidden)]
pub mod nvrtc;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod script;
#[doc(hidden)]
pub mod view;

pub use compile::{Compiled, Engine, Format, Library, MadeOutput, Module};
pub use cuda_find_core::capability::{Capability, Plan, Suffix};
pub use cuda_find_core::component::Component;
pub use cuda_find_core::found::Found;
pub use cuda_find_core::toolkit::Toolkit;
pub use cuda_find_core::version::{ToolkitVersion, Version};
pub use error::Error;
pub use script::{Build, Built};
pub use view::View;

//! Find scattered CUDA components, prove that they belong together, compile `.cu` and link.
//!
//! A complete `build.rs`, for a crate with one module (device code, loaded through the driver
//! API) and one library (host and device code, linked):
//!
//! ```no_run
//! use cuda_build::{Build, Engine, Library, Module};
//!
//! fn main() -> Result<(), cuda_build::Error> {
//!     let built = Build::new()?
//!         .module("kernels/saxpy.cu")
//!         .module(Module::new("kernels/scan.cu").engine(Engine::Nvcc).include("kernels/include"))
//!         .library(Library::new("launch").file("kernels/launch.cu"))
//!         .run()?;
//!     assert!(built.toolkit.version().major >= 12);
//!     Ok(())
//! }
//! ```
//!
//! `Cargo.toml` says what for ([`config`] has all keys):
//!
//! ```toml
//! [build-dependencies]
//! cuda-build = "0.1"
//!
//! [package.metadata.cuda]
//! capabilities = ["8.0", "9.0", "12.0+PTX"]
//! ```
//!
//! and the crate includes what came out:
//!
//! ```text
//! mod cuda {
//!     include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
//! }
//! let image: &[u8] = cuda::modules::SAXPY;
//! ```
//!
//! # How it works
//!
//! ```text
//!           read only                  pure                     pure                 effects
//! process ─► Env ──┐                                               ┌─► view ─────► directory of links
//!                  ├─► sources ─► probe ─► [Attempt] ─► select ─► Toolkit ─► [Step] ─► run, link
//! disk ────► Root ─┘   where it    what is      │      what belongs  └─ Plan ─┘  │
//!                      may be      there        ▼      together    (capability)  ▼
//!                                          error texts                     [Directive], last
//! ```
//!
//! [`sources`] lists places without looking into them, [`probe`] looks and keeps evidence,
//! [`select`] chooses without touching anything, and so can be tested with tables. A [`Toolkit`]
//! and a [`Plan`] give [`compile::Step`]s, which are values until they are run; [`host_compiler`]
//! says what nvcc may hand host code to. A [`View`] is the toolkit as one root, for whatever
//! insists on one. What Cargo is told is written once, after everything has succeeded.
//!
//! Answers of nvcc and of host compilers are kept in the user's cache directory.
//!
//! A [`Search`] on its own, for build scripts that compile by themselves:
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_build::Error> {
//! let build = cuda_build::Build::new()?;
//! for chosen in build.toolkit()?.components() {
//!     eprintln!("{} from {}", chosen.found, chosen.origin);
//! }
//! # Ok(())
//! # }
//! ```

mod cache;
mod cached_answer;
pub mod capability;
pub mod command;
pub mod compile;
pub mod component;
pub mod config;
pub mod directive;
pub mod driver;
mod env;
mod error;
pub mod fatbin;
mod freshness;
mod hash;
pub mod host_compiler;
#[doc(hidden)]
pub mod includes;
mod link;
pub mod nvcc;
pub mod nvrtc;
pub mod probe;
pub mod release;
mod root;
mod script;
pub mod select;
pub mod sources;
pub mod store;
mod target;
mod toolkit;
mod version;
mod view;

pub use capability::{Capability, Declared, Plan};
pub use compile::{Engine, Format, Library, Module};
pub use component::Component;
pub use config::Config;
pub use env::Env;
pub use error::{Conflict, Error};
pub use root::Root;
pub use script::{Build, Built, request};
pub use select::NotFound;
pub use target::Target;
pub use toolkit::{Outcome, Search, Toolkit};
pub use version::{InvalidVersion, ReleaseReq, ToolkitVersion, Version};
pub use view::{View, ViewPlace};

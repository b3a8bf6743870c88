//! Finds CUDA wherever its components are installed, and checks that they belong together.
//!
//! The search reads variables such as `CUDA_HOME`, `cuda-toolkits.lock`, the active virtual environment, conda, Nix and
//! Spack environments, the HPC SDK, toolkits that `cargo cuda fetch` fetched, nvcc on `PATH`, `/usr/local/cuda` and the
//! packages of distributions. It needs neither a GPU nor a driver. The only compiler that it starts is nvcc, once, to
//! query its version and directories.
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
//! eprintln!("CUDA {}: {cublas} from {}", toolkit.version(), cublas.origin);
//! for line in toolkit.cargo_directives() {
//!     println!("{line}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An error lists what was tried, and why it was not used, and ends with what to do ([`Error::hints`]).
//!
//! [`cuda-build`](https://docs.rs/cuda-build) is built on this crate. It also compiles `.cu` files.

mod search;

pub use cuda_find_core::component::Component;
pub use cuda_find_core::error::Error;
pub use cuda_find_core::found::Found;
pub use cuda_find_core::toolkit::Toolkit;
pub use cuda_find_core::version::{ToolkitVersion, Version};
pub use search::Search;

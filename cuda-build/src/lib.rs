//! Find scattered CUDA components, prove that they belong together, compile `.cu` and link.

pub mod component;
mod env;
mod error;
pub mod fatbin;
pub mod nvrtc;
mod root;
mod target;
mod version;

pub use component::Component;
pub use env::Env;
pub use error::{Conflict, Error, NotFound};
pub use root::Root;
pub use target::Target;
pub use version::{InvalidVersion, ToolkitVersion, Version};

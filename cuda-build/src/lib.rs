//! Find scattered CUDA components, prove that they belong together, compile `.cu` and link.

pub mod capability;
pub mod command;
pub mod component;
pub mod config;
mod env;
mod error;
pub mod probe;
mod root;
pub mod select;
pub mod sources;
pub mod store;
mod target;
mod toolkit;
mod version;

pub use capability::{Capability, Declared, Plan};
pub use component::Component;
pub use config::Config;
pub use env::Env;
pub use error::{Conflict, Error, NotFound};
pub use root::Root;
pub use target::Target;
pub use toolkit::{Report, Search, Toolkit};
pub use version::{InvalidVersion, ToolkitVersion, Version};

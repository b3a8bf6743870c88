//! Find scattered CUDA components, prove that they belong together, compile `.cu` and link.

mod build;
mod cache;
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
pub mod host_compiler;
mod link;
pub mod nvrtc;
pub mod probe;
mod root;
pub mod select;
pub mod sources;
pub mod store;
mod target;
mod toolkit;
mod version;

pub use build::{Build, Built, request};
pub use capability::{Capability, Declared, Plan};
pub use compile::{Engine, Format, Library, Module};
pub use component::Component;
pub use config::Config;
pub use env::Env;
pub use error::{Conflict, Error, NotFound};
pub use root::Root;
pub use target::Target;
pub use toolkit::{Report, Search, Toolkit};
pub use version::{InvalidVersion, ToolkitVersion, Version};

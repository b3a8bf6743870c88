//! The components of CUDA, and the facts that are known about each of them.

mod edges;
mod releases;
mod table;
pub mod windows;

pub use edges::{EdgeKind, closure, edges};
pub use releases::{oldest_release_with, release_of};
pub use table::{Class, Component, Facts, VersionMacros};

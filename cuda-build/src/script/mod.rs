//! The entry point for build scripts.

mod build;
#[cfg(feature = "compile")]
mod code;
#[cfg(feature = "compile")]
mod compiling;
mod directives;
mod needs;

pub use build::{Build, Built, skipped_by};
pub use needs::request;

#[cfg(feature = "compile")]
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests;

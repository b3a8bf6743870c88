//! The entry point for build scripts.

mod build;
mod code;
mod compiling;
mod cpp_runtime;
mod directives;
mod needs;
mod watch;

pub use build::{Build, Built, skipped_by};
pub use needs::request;

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests;

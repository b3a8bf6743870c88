//! Checks wheels and libraries that any program built, for what is about CUDA.
//!
//! ```text
//!  package ─► artifact ─► rules (libraries and device code, paths, requirements) ─► report
//! ```
//!
//! The rules are functions from an artifact to findings. No rule reads a file.

pub mod artifact;
pub mod check;
mod paths;
pub mod report;
mod requirements;
mod rules;
mod variants;

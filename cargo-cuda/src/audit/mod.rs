//! Checks wheels, directories and libraries that any program built.
//!
//! ```text
//!  input: files, wheels ─► scan (device code), wheel::elf, package (metadata) ─► facts ─► rules ─► report
//! ```
//!
//! `input` alone reads files. The rules are functions from facts to findings.

pub mod check;
pub mod device;
pub mod facts;
pub mod input;
pub mod package;
pub mod report;
pub mod requirement;
pub mod rules;
pub mod scan;

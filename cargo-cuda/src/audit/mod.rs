//! Checks wheels, directories and libraries that any program built.
//!
//! ```text
//!  input: files, wheels ─► wheel::elf (with scan: device code), package (metadata) ─► facts ─► rules ─► report
//! ```
//!
//! `input` alone reads files. The rules are functions from facts to findings.

pub mod check;
pub mod device;
pub mod facts;
pub mod input;
pub mod package;
pub mod report;
pub mod rules;
pub mod scan;

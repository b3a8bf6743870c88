//! A program with the libraries of NVIDIA's that it needs, as a directory: one build, or several with a program that
//! starts the one for the machine.
//!
//! ```text
//!  cargo ─► a program ─► content: needs, libraries, licences ─┬─► directory: files, bundle.json, the report
//!           for each build                                    └─► start: what each build runs on ─► a program
//! ```

pub mod content;
pub mod directory;
pub mod start;

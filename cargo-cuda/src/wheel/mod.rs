//! Builds wheels. For each CUDA major, maturin builds a wheel, and `rewrite` turns it into the wheel for that major.
//!
//! ```text
//!  build: maturin ─► archive ─► rewrite ─► archive_writer ─► metapackage, summary
//!                                  │  elf: the libraries that native modules need
//!                                  │  dependencies: the packages with these libraries
//!                                  │  runpath: the directories of these packages
//!                                  │  distribution_lookups: Python code that needs the old name
//!                                  └─ metadata, record, sbom, static_runtime: text files
//! ```
//!
//! `build` calls the other modules. Only `archive` opens wheels.

pub mod archive;
pub mod archive_writer;
pub mod build;
pub mod dependencies;
pub mod distribution_lookups;
pub mod elf;
pub mod existing;
pub mod filename;
pub mod maturin;
pub mod metadata;
pub mod metapackage;
pub mod record;
pub mod reproducible;
pub mod rewrite;
pub mod runpath;
pub mod sbom;
pub mod static_runtime;
pub mod summary;
pub mod symbols;

//! Builds wheels. For each CUDA major, maturin builds a wheel, and `rewrite` turns it into the wheel for that major.
//!
//! ```text
//!  build: maturin ─► archive::read ─► rewrite ─► archive::write
//!                                               │  elf: the libraries that native modules need
//!                                               │  dependencies: the components with these libraries
//!                                               │  needs: the packages of these components; symbols: lower bounds
//!                                               │  requirements: these packages beside the author's requirements
//!                                               │  runpath: the directories of these packages
//!                                               └─ metadata, record, sbom: text files
//! ```
//!
//! `build` calls the other modules. Only `archive` reads and writes files.

pub mod archive;
pub mod build;
pub mod dependencies;
pub mod elf;
pub mod filename;
pub mod maturin;
pub mod metadata;
pub mod needs;
pub mod record;
pub mod reproducible;
pub mod requirements;
pub mod rewrite;
pub mod runpath;
pub mod sbom;
pub mod symbols;

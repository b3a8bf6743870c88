//! Builds wheels. For each CUDA major, maturin builds a wheel, and `rewrite` turns it into the wheel for that major.
//!
//! ```text
//!  build: source ─► maturin ─► foreign ─► archive::read ─► rewrite ─► archive::write
//!           │                    │                          │
//!           └─ pyproject         └─ auditwheel              ├─ elf: the libraries that native modules need
//!                                                           ├─ dependencies: the packages with these libraries
//!                                                           ├─ runpath: the directories of these packages
//!                                                           ├─ programs: a place with a search path
//!                                                           └─ metadata, record, sbom: text files
//! ```
//!
//! `build` calls the other modules. Only `archive` reads and writes files.

pub mod archive;
pub mod backend;
pub mod build;
pub mod build_system;
pub mod dependencies;
pub mod elf;
pub mod filename;
pub mod foreign;
pub mod maturin;
pub mod metadata;
pub mod programs;
pub mod pyproject;
pub mod record;
pub mod reproducible;
pub mod rewrite;
pub mod runpath;
pub mod sbom;
pub mod sdist;
pub mod source;

//! Builds wheels. For each CUDA major, maturin builds a wheel, and `rewrite` turns it into the wheel for that major.
//!
//! ```text
//!  build: source ─► compile ─► foreign ─► archive ─► rewrite ─► archive_writer ─► metapackage, summary
//!           │                    │                     │
//!           └─ pyproject         └─ auditwheel         ├─ elf: the libraries that native modules need
//!                                                      ├─ dependencies: the components with these libraries
//!                                                      ├─ needs: the packages of these components; symbols: lower bounds
//!                                                      ├─ requirements: these packages beside the author's requirements
//!                                                      ├─ runpath: the directories of these packages
//!                                                      ├─ programs: a place with a search path
//!                                                      ├─ distribution_lookups: Python code that needs the old name
//!                                                      └─ metadata, record, sbom, static_runtime: text files
//! ```
//!
//! `build` calls the other modules; `compile` runs maturin. Only `archive` opens wheels. `rewrite` has the finished file
//! audited before the file gets its name.

pub mod archive;
pub mod archive_writer;
pub mod backend;
pub mod build;
pub mod build_system;
mod compile;
pub mod dependencies;
pub mod distribution_lookups;
pub mod elf;
pub mod existing;
pub mod filename;
pub mod foreign;
pub mod maturin;
pub mod metadata;
pub mod metapackage;
pub mod needs;
pub mod programs;
pub mod pyproject;
pub mod record;
pub mod reproducible;
pub mod requirements;
pub mod rewrite;
pub mod runpath;
pub mod sbom;
pub mod sdist;
pub mod source;
pub mod static_runtime;
pub mod summary;
pub mod symbols;

//! Having a wheel built, and turning it into the wheel of one CUDA major.
//!
//! ```text
//!  build: session ─► maturin ─► archive::read ─► rewrite ─► archive::write
//!                                               │  elf: what the native modules need
//!                                               │  dependencies: which packages deliver that
//!                                               │  runpath: where those put their libraries
//!                                               └─ metadata, record, sbom: the texts
//! ```
//!
//! `build` leads, `archive` alone touches the disk, everything else works on values.

pub mod archive;
pub mod build;
pub mod dependencies;
pub mod elf;
mod error;
pub mod filename;
pub mod maturin;
pub mod metadata;
pub mod python;
pub mod record;
pub mod reproducible;
pub mod rewrite;
pub mod runpath;
pub mod sbom;

pub use error::WheelError;

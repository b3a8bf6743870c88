//! Reads and writes packages: wheels, the native modules in them, their metadata, and `pyproject.toml`.
//!
//! `audit` and `wheel` use this module, which uses neither of them.

/// The size of a file that the Python Package Index accepts by default: 100 MiB.
pub const INDEX_LIMIT: u64 = 100 << 20;

pub mod archive;
pub mod archive_writer;
pub mod device;
pub mod elf;
pub mod licence;
pub mod metadata;
pub mod nvidia;
pub mod pyproject;
pub mod requirement;
pub mod symbols;
pub mod variant;

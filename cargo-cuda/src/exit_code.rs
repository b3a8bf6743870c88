//! Exit codes, documented in `cargo cuda --help` and the README.

/// Everything went well.
pub const SUCCESS: u8 = 0;
/// Something failed that has no code of its own.
pub const FAILURE: u8 = 1;
/// The command line can't be understood.
pub const USAGE: u8 = 2;
/// A required component or toolkit was not found.
pub const NOT_FOUND: u8 = 10;
/// Components do not belong together.
pub const INCONSISTENT: u8 = 11;
/// A capability is missing, unknown, or not supported by the toolkit.
pub const CAPABILITY: u8 = 12;
/// A manifest or a variable has a value that can't be used.
pub const CONFIGURATION: u8 = 13;
/// A program that is needed is missing: uv or pip, maturin, cargo.
pub const MISSING_PROGRAM: u8 = 14;
/// Components could not be downloaded.
pub const DOWNLOAD: u8 = 15;
/// The disk said no: full, not writable, not readable.
pub const DISK: u8 = 16;
/// A wheel could not be built or checked.
pub const WHEEL: u8 = 17;

/// The table for `--help`.
pub const HELP: &str = "\
Exit codes:
  0  success
  1  failure without a code of its own
  2  the command line can't be understood
  10  a required component or toolkit was not found
  11  components do not belong together
  12  a capability is missing, unknown or unsupported by the toolkit
  13  a manifest or a variable has a value that can't be used
  14  a needed program is missing (uv or pip, maturin, cargo)
  15  components could not be downloaded
  16  the disk said no (full, not writable)
  17  a wheel could not be built or checked
build, check, run and test return cargo's own code once cargo has started.";

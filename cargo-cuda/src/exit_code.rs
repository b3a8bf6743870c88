//! Exit codes. `TABLE` is what `cargo cuda help exit-codes` prints and docs/exit-codes.md contains.

/// Success.
pub const SUCCESS: u8 = 0;
/// A failure without a code of its own.
pub const FAILURE: u8 = 1;
/// The command line is not valid, or names a platform that is not supported.
pub const USAGE: u8 = 2;
/// A required component or toolkit was not found.
pub const NOT_FOUND: u8 = 10;
/// Components do not belong together.
pub const INCONSISTENT: u8 = 11;
/// A capability is missing, unknown, or not supported by the toolkit.
pub const CAPABILITY: u8 = 12;
/// A manifest or a variable has an invalid value, such as a directory without CUDA. If the
/// directory has CUDA but lacks a component, the code is [`NOT_FOUND`].
pub const CONFIGURATION: u8 = 13;
/// A required program is missing: maturin, cargo.
pub const MISSING_PROGRAM: u8 = 14;
/// A wheel could not be built or checked.
pub const WHEEL: u8 = 15;
/// An I/O error that has no code of its own; output that cannot be written.
pub const DISK: u8 = 16;
/// `audit` found an error.
pub const AUDIT: u8 = 17;
/// Neither uv nor a usable pip was found.
pub const NO_INSTALLER: u8 = 20;
/// The package index could not be reached, or did not answer.
pub const INDEX: u8 = 21;
/// There is no such CUDA release, or it has no such component.
pub const NOT_RELEASED: u8 = 22;
/// A package does not contain the component that it is named after.
pub const NOT_IN_PACKAGE: u8 = 23;
/// The lock file is invalid, pins other files or versions, or its toolkit has not been fetched.
pub const LOCK: u8 = 24;
/// No space is left in the store.
pub const STORE_FULL: u8 = 25;
/// The store cannot be written or is not trusted, or no variable names its directory.
pub const NO_STORE: u8 = 26;
/// The installer failed for a reason that has no code of its own.
pub const INSTALLER: u8 = 27;

/// Every exit code with its meaning, for `cargo cuda help exit-codes` and docs/exit-codes.md.
pub const TABLE: [(u8, &str); 19] = [
    (SUCCESS, "success"),
    (FAILURE, "failure without a code of its own"),
    (
        USAGE,
        "the command line is not valid, or names a platform that is not supported",
    ),
    (NOT_FOUND, "a required component or toolkit was not found"),
    (INCONSISTENT, "components do not belong together"),
    (
        CAPABILITY,
        "a capability is missing, unknown or not supported by the toolkit",
    ),
    (
        CONFIGURATION,
        "a manifest or a variable has an invalid value, or names a directory without CUDA",
    ),
    (
        MISSING_PROGRAM,
        "a required program is missing (maturin, cargo)",
    ),
    (WHEEL, "a wheel could not be built or checked"),
    (DISK, "an I/O error; output that cannot be written"),
    (AUDIT, "the audit of a wheel or a library found an error"),
    (NO_INSTALLER, "neither uv nor a usable pip was found"),
    (INDEX, "the package index could not be reached"),
    (
        NOT_RELEASED,
        "there is no such CUDA release, or it has no such component",
    ),
    (
        NOT_IN_PACKAGE,
        "a package does not contain the component that it is named after",
    ),
    (
        LOCK,
        "the lock file is invalid, pins other files, or its toolkit has not been fetched",
    ),
    (STORE_FULL, "no space left in the store"),
    (NO_STORE, "the store cannot be written or is not trusted"),
    (INSTALLER, "the installer failed"),
];

/// The exit codes of commands that run another program.
pub const OTHER_PROGRAMS: &str = "\
Once cargo has started, a command of cargo ends with cargo's own exit code. `exec` ends with the
exit code of its program, `develop` with that of pip or uv, and `wheel` with 15 if maturin fails.";

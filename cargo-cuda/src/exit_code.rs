//! Exit codes. docs/exit-codes.md contains the table.

use crate::failure::Failure;

macro_rules! exit_codes {
    ($($name:ident $($constructor:ident)? = $code:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: u8 = $code;)*

        /// Every exit code with its meaning.
        pub const TABLE: &[(u8, &str)] = &[$(($code, $meaning)),*];

        /// A constructor for each exit code that a command itself ends with.
        impl Failure {
            $($(pub fn $constructor(message: impl Into<String>) -> Self {
                Self::new($name, message)
            })?)*
        }
    };
}

exit_codes! {
    SUCCESS = 0, "success";
    FAILURE other = 1, "failure without a code of its own";
    USAGE usage = 2, "the command line is not valid, or names a platform that is not supported";
    NOT_FOUND not_found = 10, "a required component or toolkit was not found";
    INCONSISTENT = 11, "components do not belong together";
    CAPABILITY capability = 12, "a capability is missing, unknown or not supported by the toolkit";
    CONFIGURATION configuration = 13,
        "a manifest or a variable has an invalid value, or names a directory without CUDA";
    MISSING_PROGRAM missing_program = 14, "a required program is missing (maturin, cargo)";
    WHEEL wheel = 15, "a wheel could not be built or checked";
    DISK disk = 16, "an I/O error; output that cannot be written";
    AUDIT audit = 17, "the audit of a wheel or a library found an error, or a bundle would not run";
    NO_INSTALLER no_installer = 20, "no program that can fetch was found: uv, a usable pip, or curl for archives";
    NOT_RELEASED not_released = 22, "a CUDA release has no such component, or its package does not contain it";
    LOCK lock = 24, "the lock file is invalid, pins other files, or its toolkit has not been fetched";
    NO_STORE no_store = 26, "the store cannot be written or is not trusted";
    INSTALLER installer = 27, "uv, pip or curl failed";
}

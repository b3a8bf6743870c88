//! Declarations of cuBLAS, which this crate links.
//!
//! The build script of a crate that depends on this one gets the toolkit in variables:
//! `DEP_LINKED_CUBLAS_ROOT`, `DEP_LINKED_CUBLAS_INCLUDE`, `DEP_LINKED_CUBLAS_LIB` and `DEP_LINKED_CUBLAS_VERSION`.

use std::ffi::c_int;

/// Success, as a `cublasStatus_t`.
pub const CUBLAS_STATUS_SUCCESS: c_int = 0;

/// The major version, as a `libraryPropertyType`.
pub const MAJOR_VERSION: c_int = 0;

unsafe extern "C" {
    /// Writes a part of cuBLAS's version to `value`, and returns a `cublasStatus_t`. Needs no driver.
    ///
    /// # Safety
    /// `value` must be valid for writes.
    pub fn cublasGetProperty(property: c_int, value: *mut c_int) -> c_int;
}

use linked_cublas::{CUBLAS_STATUS_SUCCESS, MAJOR_VERSION, cublasGetProperty};

#[test]
fn cublas_reports_its_version() {
    let mut major = 0;
    // SAFETY: `major` is valid for writes.
    let status = unsafe { cublasGetProperty(MAJOR_VERSION, &raw mut major) };
    assert_eq!(status, CUBLAS_STATUS_SUCCESS);
    assert!(major >= 11, "{major}");
}

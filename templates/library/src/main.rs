//! Runs saxpy on the first GPU, or reports the reason why it cannot.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int};
use std::process::ExitCode;

/// The output of the build script: the capabilities that the library is compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

unsafe extern "C" {
    fn saxpy(n: u32, a: f32, x: *const f32, y: *mut f32) -> c_int;
    fn saxpy_error(status: c_int) -> *const c_char;
    fn saxpy_driver(version: *mut c_int) -> c_int;
    fn saxpy_device(major: *mut c_int, minor: *mut c_int) -> c_int;
}

fn check(status: c_int, doing: &str) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the function returns a static string for every value.
    let text = unsafe { CStr::from_ptr(saxpy_error(status)) };
    Err(format!(
        "{doing}: {} (CUDA error {status})",
        text.to_string_lossy()
    ))
}

fn run() -> Result<(), Box<dyn Error>> {
    println!(
        "built with CUDA {}.{} for {}",
        cuda::CUDA_VERSION.0,
        cuda::CUDA_VERSION.1,
        cuda::CAPABILITY_LIST
    );
    let mut driver = 0;
    // SAFETY: `driver` is valid for writes.
    check(
        unsafe { saxpy_driver(&raw mut driver) },
        "could not query the driver",
    )?;
    if driver == 0 {
        return Err("no CUDA driver is installed on this machine".into());
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are valid for writes.
    check(
        unsafe { saxpy_device(&raw mut major, &raw mut minor) },
        "no GPU can be used",
    )?;
    let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
    let support = cuda::check_device(major, minor)?;
    if support == cuda::Support::Jit {
        eprintln!("warning: this build has only {support}");
    }
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut y = vec![1.0_f32; x.len()];
    // SAFETY: both have 1000 elements.
    check(
        unsafe { saxpy(1000, 2.0, x.as_ptr(), y.as_mut_ptr()) },
        "saxpy failed",
    )?;
    println!("2 * 999 + 1 = {}", y[999]);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn computes_or_reports_the_reason() {
        if let Err(error) = super::run() {
            let message = error.to_string();
            assert!(message.starts_with("no "), "{message}");
        }
    }
}

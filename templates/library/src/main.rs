//! Runs saxpy on the first GPU and checks the result, or reports the reason why it cannot.

use std::error::Error;
use std::process::ExitCode;

/// The output of the build script: the capabilities that the library is compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

/// The functions of `kernels/saxpy.cu`.
#[cfg(not(cuda_build_skipped))]
mod native {
    use std::ffi::{CStr, c_char, c_int};

    unsafe extern "C" {
        pub fn saxpy(n: u32, a: f32, x: *const f32, y: *mut f32) -> c_int;
        fn saxpy_error(status: c_int) -> *const c_char;
        pub fn saxpy_driver(version: *mut c_int) -> c_int;
        pub fn saxpy_device(major: *mut c_int, minor: *mut c_int) -> c_int;
    }

    pub fn check(status: c_int, doing: &str) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a static string for every value.
        let text = unsafe { CStr::from_ptr(saxpy_error(status)) };
        let text = text.to_string_lossy();
        Err(format!("{doing}: {text} (CUDA error {status})"))
    }
}

/// y = a·x + y on the first GPU.
#[cfg(not(cuda_build_skipped))]
fn compute(a: f32, x: &[f32], y: &mut [f32]) -> Result<(), Box<dyn Error>> {
    use native::check;

    assert_eq!(x.len(), y.len());
    let n = u32::try_from(x.len())?;
    let mut driver = 0;
    // SAFETY: `driver` is valid for writes.
    check(
        unsafe { native::saxpy_driver(&raw mut driver) },
        "could not query the driver",
    )?;
    if driver == 0 {
        return Err("no CUDA driver is installed on this machine".into());
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are valid for writes.
    check(
        unsafe { native::saxpy_device(&raw mut major, &raw mut minor) },
        "no GPU can be used",
    )?;
    let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
    let support = cuda::check_device(major, minor)?;
    if support == cuda::Support::Jit {
        eprintln!("warning: this build has only {support}");
    }
    // SAFETY: `x` and `y` have `n` elements.
    check(
        unsafe { native::saxpy(n, a, x.as_ptr(), y.as_mut_ptr()) },
        "saxpy failed",
    )?;
    Ok(())
}

/// With `CUDA_BUILD_SKIP=1`, nothing of CUDA is compiled and linked.
#[cfg(cuda_build_skipped)]
fn compute(_: f32, _: &[f32], _: &mut [f32]) -> Result<(), Box<dyn Error>> {
    Err("no CUDA code is in this build".into())
}

fn run() -> Result<(), Box<dyn Error>> {
    println!(
        "built with CUDA {}.{} for {}",
        cuda::CUDA_VERSION.0,
        cuda::CUDA_VERSION.1,
        cuda::CAPABILITY_LIST
    );
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut y = vec![1.0; x.len()];
    compute(2.0, &x, &mut y)?;
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(*y, 2.0 * x + 1.0);
    }
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
        let mut y = [3.0, 4.0];
        match super::compute(2.0, &[1.0, 2.0], &mut y) {
            Ok(()) => assert_eq!(y, [5.0, 8.0]),
            Err(error) => assert!(error.to_string().starts_with("no "), "{error}"),
        }
    }
}

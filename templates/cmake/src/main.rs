//! Runs a function of the CMake project in `native/` on the first GPU, and checks the result.

use std::error::Error;

/// The functions of `native/saxpy.cu`.
#[cfg(not(cuda_build_skipped))]
mod native {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        pub fn saxpy(n: u32, a: f32, x: *const f32, y: *mut f32) -> c_int;
        pub fn saxpy_error(status: c_int) -> *const c_char;
    }
}

/// y = a·x + y on the first GPU.
#[cfg(not(cuda_build_skipped))]
fn compute(a: f32, x: &[f32], y: &mut [f32]) -> Result<(), Box<dyn Error>> {
    assert_eq!(x.len(), y.len());
    let n = u32::try_from(x.len())?;
    // SAFETY: `x` and `y` have `n` elements.
    let status = unsafe { native::saxpy(n, a, x.as_ptr(), y.as_mut_ptr()) };
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the function returns a static string for every value.
    let text = unsafe { std::ffi::CStr::from_ptr(native::saxpy_error(status)) };
    Err(format!("{} (CUDA error {status})", text.to_string_lossy()).into())
}

/// With `CUDA_BUILD_SKIP=1`, nothing of CUDA is compiled and linked.
#[cfg(cuda_build_skipped)]
fn compute(_: f32, _: &[f32], _: &mut [f32]) -> Result<(), Box<dyn Error>> {
    Err("no CUDA code is in this build".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut y = vec![1.0; x.len()];
    compute(2.0, &x, &mut y)?;
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(*y, 2.0 * x + 1.0);
    }
    println!("2 * 999 + 1 = {}", y[999]);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn computes_or_reports_the_reason() {
        let mut y = [3.0, 4.0];
        match super::compute(2.0, &[1.0, 2.0], &mut y) {
            Ok(()) => assert_eq!(y, [5.0, 8.0]),
            Err(error) => {
                let reasons = ["driver", "no CUDA-capable device", "no CUDA code"];
                let text = error.to_string();
                assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
            }
        }
    }
}

//! Runs a kernel on the first GPU with the crate `cudarc`, and checks the result.
//!
//! `cudarc` loads the driver at run time: without a driver, the program prints a message, and the test is skipped.

use std::error::Error;
use std::process::ExitCode;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;

/// The output of the build script: the compiled kernels, and the capabilities that they are compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

/// The kernel's name in `kernels/saxpy.cu`.
const KERNEL: &str = "saxpy";

fn has_driver() -> bool {
    // SAFETY: this loads the library of the driver, which has no requirements.
    unsafe { sys::is_culib_present() }
}

/// a·x + y on the first GPU.
fn saxpy(a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    assert_eq!(x.len(), y.len());
    let n = u32::try_from(x.len())?;
    if n == 0 {
        return Ok(Vec::new()); // A launch with 0 blocks is an error.
    }
    let context = CudaContext::new(0)?;
    let (major, minor) = context.compute_capability()?;
    let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
    cuda::check_device(major, minor)?;

    let module = context.load_module(Ptx::from_binary(cuda::modules::SAXPY.to_vec()))?;
    let kernel = module.load_function(KERNEL)?;
    let stream = context.default_stream();
    let x = stream.clone_htod(x)?;
    let mut y = stream.clone_htod(y)?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&n).arg(&a).arg(&x).arg(&mut y);
    // SAFETY: the arguments are those of the kernel, and both buffers have `n` elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
    Ok(stream.clone_dtoh(&y)?)
}

fn run() -> Result<(), Box<dyn Error>> {
    println!(
        "built with CUDA {}.{} for {}",
        cuda::CUDA_VERSION.0,
        cuda::CUDA_VERSION.1,
        cuda::CAPABILITY_LIST
    );
    if !has_driver() {
        println!("no CUDA driver is installed on this machine, so the kernel cannot run here");
        return Ok(());
    }
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let result = saxpy(2.0, &x, &vec![1.0; x.len()])?;
    for (x, result) in x.iter().zip(&result) {
        assert_eq!(*result, 2.0 * x + 1.0);
    }
    println!("2 * 999 + 1 = {}", result[999]);
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
    use super::{has_driver, saxpy};

    /// Needs no GPU. Machine code has a section for each kernel; a build that was skipped has no code.
    #[test]
    #[cfg(not(cuda_build_skipped))]
    fn the_module_has_the_kernel() {
        let section = format!(".text.{}\0", super::KERNEL);
        let mut places = super::cuda::modules::SAXPY.windows(section.len());
        assert!(places.any(|bytes| bytes == section.as_bytes()));
    }

    #[test]
    fn computes() {
        assert!(saxpy(2.0, &[], &[]).unwrap().is_empty());
        if !has_driver() {
            eprintln!("skipped: no CUDA driver is installed on this machine");
            return;
        }
        assert_eq!(saxpy(2.0, &[1.0, 2.0], &[3.0, 4.0]).unwrap(), [5.0, 8.0]);
    }
}

//! Runs a kernel on the first GPU with the crate `cust`, and checks the result.
//!
//! `cust` links the driver's library: the program and its tests start only where a driver is installed.

use std::error::Error;
use std::process::ExitCode;

use cust::device::{Device, DeviceAttribute};
use cust::launch;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

/// The output of the build script: the compiled kernels, and the capabilities that they are compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

const BLOCK: u32 = 256;

/// The kernel's name in `kernels/saxpy.cu`.
const KERNEL: &str = "saxpy";

/// a·x + y on the first GPU.
fn saxpy(a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    assert_eq!(x.len(), y.len());
    let n = u32::try_from(x.len())?;
    if n == 0 {
        return Ok(Vec::new()); // A launch with 0 blocks is an error.
    }
    let _context = cust::quick_init()?;
    let device = Device::get_device(0)?;
    let attribute = |attribute| device.get_attribute(attribute).map(i32::unsigned_abs);
    let major = attribute(DeviceAttribute::ComputeCapabilityMajor)?;
    let minor = attribute(DeviceAttribute::ComputeCapabilityMinor)?;
    cuda::check_device(major, minor)?;

    let module = Module::from_fatbin(cuda::modules::SAXPY, &[])?;
    let kernel = module.get_function(KERNEL)?;
    // Unlike one with NON_BLOCKING, this stream waits for the copies of `from_slice`.
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    let x = DeviceBuffer::from_slice(x)?;
    let on_device = DeviceBuffer::from_slice(y)?;
    // SAFETY: the arguments are those of the kernel, and both buffers have `n` elements.
    unsafe {
        launch!(kernel<<<n.div_ceil(BLOCK), BLOCK, 0, stream>>>(n, a, x.as_device_ptr(), on_device.as_device_ptr()))?;
    }
    stream.synchronize()?;
    let mut result = vec![0.0; y.len()];
    on_device.copy_to(&mut result)?;
    Ok(result)
}

fn run() -> Result<(), Box<dyn Error>> {
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
    /// Needs the driver's library, but no GPU. Machine code has a section for each kernel.
    #[test]
    fn the_module_has_the_kernel() {
        let section = format!(".text.{}\0", super::KERNEL);
        let mut places = super::cuda::modules::SAXPY.windows(section.len());
        assert!(places.any(|bytes| bytes == section.as_bytes()));
    }

    #[test]
    fn computes() {
        let result = super::saxpy(2.0, &[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert_eq!(result, [5.0, 8.0]);
    }
}

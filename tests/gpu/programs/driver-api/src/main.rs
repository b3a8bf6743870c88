//! Sums squares on the first GPU, and says for which capability the code was that ran.

use std::error::Error;

use cust::device::{Device, DeviceAttribute};
use cust::function::FunctionAttribute;
use cust::launch;
use cust::memory::{CopyDestination, DeviceBox, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

const LENGTH: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let _context = cust::quick_init()?;
    let device = Device::get_device(0)?;
    let major = device
        .get_attribute(DeviceAttribute::ComputeCapabilityMajor)?
        .unsigned_abs();
    let minor = device
        .get_attribute(DeviceAttribute::ComputeCapabilityMinor)?
        .unsigned_abs();
    let support = cuda::check_device(major, minor)?;
    if support == cuda::Support::Jit {
        eprintln!("warning: this build has only {support}");
    }
    let module = Module::from_fatbin(cuda::modules::REDUCE, &[])?;
    let kernel = module.get_function("sum_of_squares")?;
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    let values: Vec<f32> = (0..LENGTH).map(|i| (i % 7) as f32).collect();
    let here: f64 = values.iter().map(|value| f64::from(value * value)).sum();
    let values = DeviceBuffer::from_slice(&values)?;
    let sum = DeviceBox::new(&0_f64)?;
    // SAFETY: the kernel takes these three, and reads no further than LENGTH.
    unsafe {
        launch!(kernel<<<64, 256, 0, stream>>>(LENGTH, values.as_device_ptr(), sum.as_device_ptr()))?;
    }
    stream.synchronize()?;
    let mut there = 0_f64;
    sum.copy_to(&mut there)?;
    println!("CUDA {}.{}", cuda::CUDA_VERSION.0, cuda::CUDA_VERSION.1);
    // Ten times the major and the minor.
    println!("device {}", 10 * major + minor);
    println!(
        "machine code {}",
        kernel.get_attribute(FunctionAttribute::BinaryVersion)?
    );
    println!(
        "made from PTX {}",
        kernel.get_attribute(FunctionAttribute::PtxVersion)?
    );
    println!("sum {there}, on the processor {here}");
    Ok(())
}

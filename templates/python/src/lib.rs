//! A Python module that runs a CUDA kernel on a GPU, and imports on machines without one.

use std::error::Error;
use std::ffi::c_int;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The output of the build script: the compiled kernels, and the capabilities that they are compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

unsafe extern "C" {
    /// A function of the CUDA runtime, which the module links and finds in NVIDIA's wheel.
    fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int;
}

/// The version of the CUDA runtime that is loaded: major × 1000 + minor × 10. Needs no driver.
#[pyfunction]
fn cuda_runtime_version() -> PyResult<i32> {
    let mut version = 0;
    // SAFETY: `version` is valid for writes.
    match unsafe { cudaRuntimeGetVersion(&raw mut version) } {
        0 => Ok(version),
        status => Err(PyRuntimeError::new_err(format!("CUDA error {status}"))),
    }
}

/// The capabilities that this build has code for, as in `8.0, 9.0, 10.0, 12.0+PTX`.
#[pyfunction]
fn capabilities() -> &'static str {
    cuda::CAPABILITY_LIST
}

/// a·x + y on the first GPU.
#[pyfunction]
fn axpy(a: f32, x: Vec<f32>, y: Vec<f32>) -> PyResult<Vec<f32>> {
    if x.len() != y.len() {
        return Err(PyValueError::new_err(format!(
            "x has {} elements, y has {}",
            x.len(),
            y.len()
        )));
    }
    on_first_gpu(a, &x, &y).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn on_first_gpu(a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    // SAFETY: this loads the library of the driver, which has no requirements.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver is installed on this machine".into());
    }
    let context = CudaContext::new(0)?;
    let (major, minor) = context.compute_capability()?;
    let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
    cuda::check_device(major, minor)?;

    let n = u32::try_from(x.len())?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let module = context.load_module(Ptx::from_binary(cuda::modules::AXPY.to_vec()))?;
    let kernel = module.load_function("axpy")?;
    let stream = context.default_stream();
    let x = stream.clone_htod(x)?;
    let mut y = stream.clone_htod(y)?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&n).arg(&a).arg(&x).arg(&mut y);
    // SAFETY: the arguments are those of the kernel, and both buffers have `n` elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
    Ok(stream.clone_dtoh(&y)?)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cuda_runtime_version, module)?)?;
    module.add_function(wrap_pyfunction!(capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(axpy, module)?)
}

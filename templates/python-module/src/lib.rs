//! A Python module that runs a CUDA kernel where there is a GPU, and imports where there is none.

mod driver;
mod runtime;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// What the build script made: the kernels, and the capabilities they were compiled for.
mod cuda {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}

/// The version of the CUDA runtime that is loaded: major × 1000 + minor × 10.
#[pyfunction]
fn cuda_runtime_version() -> PyResult<i32> {
    runtime::version().map_err(PyRuntimeError::new_err)
}

/// The capabilities that this build has code for: `8.0, 9.0, 10.0, 12.0+PTX`.
#[pyfunction]
fn capabilities() -> &'static str {
    cuda::CAPABILITY_LIST
}

/// The compiled kernels, as they are in the module.
#[pyfunction]
fn device_code() -> &'static [u8] {
    cuda::modules::SAXPY
}

/// a·x + y on the first GPU.
#[pyfunction]
fn saxpy(a: f32, x: Vec<f32>, y: Vec<f32>) -> PyResult<Vec<f32>> {
    if x.len() != y.len() {
        return Err(PyValueError::new_err(format!(
            "x has {} elements, y has {}",
            x.len(),
            y.len()
        )));
    }
    driver::saxpy(a, &x, y).map_err(PyRuntimeError::new_err)
}

#[pymodule(name = "saxpy")]
fn saxpy_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cuda_runtime_version, module)?)?;
    module.add_function(wrap_pyfunction!(capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(device_code, module)?)?;
    module.add_function(wrap_pyfunction!(saxpy, module)?)
}

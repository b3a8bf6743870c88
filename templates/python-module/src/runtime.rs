//! The calls of `libcudart` that this module makes. It is linked, and comes from NVIDIA's wheel.

use std::ffi::{CStr, c_char, c_int, c_void};

unsafe extern "C" {
    fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int;
    fn cudaDriverGetVersion(version: *mut c_int) -> c_int;
    fn cudaGetDeviceCount(count: *mut c_int) -> c_int;
    fn cudaSetDevice(device: c_int) -> c_int;
    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    fn cudaMalloc(pointer: *mut *mut c_void, size: usize) -> c_int;
    fn cudaFree(pointer: *mut c_void) -> c_int;
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: c_int) -> c_int;
    fn cudaDeviceSynchronize() -> c_int;
    fn cudaGetErrorString(error: c_int) -> *const c_char;
}

/// `cudaDevAttrComputeCapabilityMajor` and `…Minor`.
const CAPABILITY: [c_int; 2] = [75, 76];
/// `cudaMemcpyDefault`: the addresses tell which side is the device.
const DEFAULT: c_int = 4;

fn check(status: c_int, doing: &str) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the runtime returns a static string for every value.
    let text = unsafe { CStr::from_ptr(cudaGetErrorString(status)) };
    Err(format!(
        "{doing}: {} (CUDA error {status})",
        text.to_string_lossy()
    ))
}

/// The runtime's version; needs no driver.
pub fn version() -> Result<i32, String> {
    let mut version = 0;
    // SAFETY: writes one int.
    check(
        unsafe { cudaRuntimeGetVersion(&raw mut version) },
        "could not ask the CUDA runtime for its version",
    )?;
    Ok(version)
}

/// Makes the first GPU current and returns its compute capability.
pub fn first_gpu() -> Result<(u32, u32), String> {
    let mut count = 0;
    // SAFETY: each call writes one int through a valid pointer.
    unsafe {
        let mut driver = 0;
        check(
            cudaDriverGetVersion(&raw mut driver),
            "could not ask for the driver",
        )?;
        if driver == 0 {
            return Err(
                "no GPU can be used: no CUDA driver is installed on this machine".to_owned(),
            );
        }
        check(cudaGetDeviceCount(&raw mut count), "no GPU can be used")?;
        if count == 0 {
            return Err("no GPU can be used: this machine has none".to_owned());
        }
        check(cudaSetDevice(0), "could not use the first GPU")?;
        let mut capability = [0; 2];
        for (attribute, value) in CAPABILITY.into_iter().zip(&mut capability) {
            check(
                cudaDeviceGetAttribute(value, attribute, 0),
                "could not ask the GPU for its capability",
            )?;
        }
        Ok((capability[0].unsigned_abs(), capability[1].unsigned_abs()))
    }
}

/// Waits for everything the GPU was told to do.
pub fn synchronize() -> Result<(), String> {
    // SAFETY: no arguments.
    check(unsafe { cudaDeviceSynchronize() }, "the kernel failed")
}

/// Memory on the GPU.
pub struct Buffer {
    pointer: *mut c_void,
    length: usize,
}

impl Buffer {
    /// Copies `values` to the GPU.
    pub fn from_slice(values: &[f32]) -> Result<Self, String> {
        let mut pointer = std::ptr::null_mut();
        let size = size_of_val(values);
        // SAFETY: the allocation has the size that is then copied into it.
        unsafe {
            check(
                cudaMalloc(&raw mut pointer, size),
                "could not allocate on the GPU",
            )?;
            let buffer = Self {
                pointer,
                length: values.len(),
            };
            check(
                cudaMemcpy(pointer, values.as_ptr().cast(), size, DEFAULT),
                "could not copy to the GPU",
            )?;
            Ok(buffer)
        }
    }

    /// Copies back over `values`, which must be as long.
    pub fn copy_to(&self, values: &mut [f32]) -> Result<(), String> {
        assert_eq!(values.len(), self.length);
        // SAFETY: both sides hold `length` floats.
        let status = unsafe {
            cudaMemcpy(
                values.as_mut_ptr().cast(),
                self.pointer,
                size_of_val(values),
                DEFAULT,
            )
        };
        check(status, "could not copy from the GPU")
    }

    /// The address on the device.
    pub fn address(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by cudaMalloc, freed once.
        let _ = unsafe { cudaFree(self.pointer) };
    }
}

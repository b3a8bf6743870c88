//! Loads the compiled kernels through the driver API, which comes with the GPU's driver and is
//! loaded when a kernel is to run.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::{Library, Symbol};

use crate::cuda;
use crate::runtime::{self, Buffer};

type Handle = *mut c_void;
type LoadData = unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int;
type GetFunction = unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int;
type Unload = unsafe extern "C" fn(Handle) -> c_int;
type ErrorName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
type Launch = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

const BLOCK: u32 = 256;

/// a·x + y on the first GPU.
pub fn saxpy(a: f32, x: &[f32], mut y: Vec<f32>) -> Result<Vec<f32>, String> {
    let (major, minor) = runtime::first_gpu()?;
    let support = cuda::check_device(major, minor).map_err(|error| error.to_string())?;
    if support == cuda::Support::Jit {
        eprintln!("warning: this build has only {support}");
    }
    if x.is_empty() {
        return Ok(y);
    }
    let length = u32::try_from(x.len()).map_err(|_| "more than 4294967295 elements".to_owned())?;
    let (on_x, on_y) = (Buffer::from_slice(x)?, Buffer::from_slice(&y)?);
    let driver = Driver::load()?;
    let module = driver.module(cuda::modules::SAXPY)?;
    let (mut n, mut a, mut px, mut py) = (length, a, on_x.address(), on_y.address());
    let mut arguments: [*mut c_void; 4] = [
        (&raw mut n).cast(),
        (&raw mut a).cast(),
        (&raw mut px).cast(),
        (&raw mut py).cast(),
    ];
    module.launch(c"saxpy", length.div_ceil(BLOCK), BLOCK, &mut arguments)?;
    runtime::synchronize()?;
    on_y.copy_to(&mut y)?;
    Ok(y)
}

struct Driver {
    library: Library,
}

struct Module<'a> {
    driver: &'a Driver,
    handle: Handle,
}

impl Driver {
    fn load() -> Result<Self, String> {
        // SAFETY: the driver's library, as every CUDA program loads it.
        let library =
            unsafe { Library::new("libcuda.so.1") }.map_err(|e| format!("no CUDA driver: {e}"))?;
        Ok(Self { library })
    }

    /// # Safety
    /// `T` must be the function type that `cuda.h` declares for `name`.
    unsafe fn get<T>(&self, name: &CStr) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the caller's promise.
        unsafe { self.library.get(name.to_bytes_with_nul()) }
            .map_err(|_| format!("the CUDA driver has no `{}`", name.to_string_lossy()))
    }

    fn check(&self, status: c_int, doing: &str) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: the signature is that of cuda.h; the name is a static string, or null.
        let name = unsafe {
            let error_name: Symbol<'_, ErrorName> = self.get(c"cuGetErrorName")?;
            error_name(status, &raw mut name);
            if name.is_null() {
                "unknown".into()
            } else {
                CStr::from_ptr(name).to_string_lossy()
            }
        };
        Err(format!("{doing}: {name} (driver error {status})"))
    }

    /// The runtime has made the device's context current on this thread.
    fn module(&self, image: &[u8]) -> Result<Module<'_>, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: the signature is that of cuda.h, and the image is a whole fat binary.
        let status = unsafe {
            let load: Symbol<'_, LoadData> = self.get(c"cuModuleLoadData")?;
            load(&raw mut handle, image.as_ptr().cast())
        };
        self.check(status, "could not load the kernels")?;
        Ok(Module {
            driver: self,
            handle,
        })
    }
}

impl Module<'_> {
    fn launch(
        &self,
        name: &CStr,
        grid: u32,
        block: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), String> {
        let mut function = ptr::null_mut();
        // SAFETY: signatures of cuda.h; `arguments` point to one value for each parameter.
        unsafe {
            let get: Symbol<'_, GetFunction> = self.driver.get(c"cuModuleGetFunction")?;
            self.driver.check(
                get(&raw mut function, self.handle, name.as_ptr()),
                "could not find the kernel",
            )?;
            let launch: Symbol<'_, Launch> = self.driver.get(c"cuLaunchKernel")?;
            let status = launch(
                function,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                ptr::null_mut(),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            );
            self.driver.check(status, "could not start the kernel")
        }
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once; a failure leaves nothing to do.
        if let Ok(unload) = unsafe { self.driver.get::<Unload>(c"cuModuleUnload") } {
            // SAFETY: as above.
            let _ = unsafe { unload(self.handle) };
        }
    }
}

//! Queries the driver for the GPUs of this machine.
//!
//! `libcuda` is called in this process, because it is present wherever a GPU can be used. `nvidia-smi`
//! would have to be found and started, and its output would have to be parsed.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use libloading::{Library, Symbol};

use crate::nvrtc::loader_message;
use cuda_find_core::{capability::Capability, root::Root, version::ToolkitVersion};

/// The loader's search path first, then the directories of systems that keep the driver elsewhere:
/// WSL, NixOS, Jetson boards.
const LIBRARY_NAMES: [&str; 4] = [
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
];

/// The driver's answers.
#[derive(Debug)]
pub struct Driver {
    /// The newest CUDA release that the driver supports.
    pub version: ToolkitVersion,
    /// The capability of each GPU.
    pub gpus: Vec<Capability>,
    /// The path of the loaded library, or the name with which it was opened if the system does not report the path.
    pub library: String,
}

/// Why the driver cannot be queried.
pub struct NoDriver {
    /// The reason, in a sentence.
    pub reason: String,
    /// Whether a driver library exists: it could not be loaded, or a query failed.
    pub is_installed: bool,
}

impl std::fmt::Display for NoDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

/// `CUDA_ERROR_NO_DEVICE` in `cuda.h`: there is a driver, but no GPU that this process may use.
const NO_DEVICE: c_int = 100;

/// `CUDA_ERROR_STUB_LIBRARY`
const STUB_LIBRARY: c_int = 34;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR` in `cuda.h`.
const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// The end of the loader's message for a library that does not exist. The message starts with the name of the absent
/// library, which may be a library that the driver's library needs.
const ABSENT: &str = "cannot open shared object file: No such file or directory";

/// Queries the driver.
///
/// # Errors
/// [`NoDriver`] if no driver library can be loaded, or if a query fails.
pub fn driver() -> Result<Driver, NoDriver> {
    let installed = |reason| NoDriver {
        reason,
        is_installed: true,
    };
    let mut not_loaded = None;
    for name in LIBRARY_NAMES {
        // SAFETY: every CUDA program loads the driver's library in this way; its initialisers require
        // nothing of the caller.
        match unsafe { Library::new(name) } {
            Ok(library) => {
                // After `cuInit`, threads and destructors use the library's code, so the library must stay loaded.
                return query(&ManuallyDrop::new(library), name).map_err(installed);
            }
            Err(error) => {
                let message = loader_message(&error);
                if !message.starts_with(&format!("{name}: {ABSENT}")) {
                    let reason = format!("the driver's library cannot be loaded: {message}");
                    not_loaded.get_or_insert(installed(reason));
                }
            }
        }
    }
    Err(not_loaded.unwrap_or_else(|| NoDriver {
        reason: "no driver: libcuda.so.1 is neither on the loader's search path nor in the driver directories of WSL, \
                 NixOS and Jetson"
            .to_owned(),
        is_installed: false,
    }))
}

fn query(library: &Library, library_name: &str) -> Result<Driver, String> {
    type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    type Number = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: the signatures are those of `cuda.h`, unchanged since CUDA 2.0.
    let (init, version, count, attribute) = unsafe {
        (
            symbol::<unsafe extern "C" fn(u32) -> c_int>(library, "cuInit")?,
            symbol::<Number>(library, "cuDriverGetVersion")?,
            symbol::<Number>(library, "cuDeviceGetCount")?,
            symbol::<Attribute>(library, "cuDeviceGetAttribute")?,
        )
    };
    let check = |name: &str, status: c_int| match status {
        0 => Ok(()),
        STUB_LIBRARY => {
            let reason = "a stub library for linking is loaded instead of the driver: a directory `stubs` is on the \
                          loader's search path";
            Err(reason.to_owned())
        }
        status => Err(format!("the driver's {name} failed with error {status}")),
    };
    let mut number: c_int = 0;
    // SAFETY: each call writes one int, and its pointer is valid for writing one. Devices are numbered
    // from zero, and are queried only after `cuInit`. `cuDriverGetVersion` does not need `cuInit`.
    unsafe {
        check("cuDriverGetVersion", version(&raw mut number))?;
        let version = (u32::try_from(number).ok())
            .and_then(ToolkitVersion::from_cuda_version)
            .ok_or_else(|| format!("the driver reports version {number}"))?;
        let status = init(0);
        if status == NO_DEVICE {
            number = 0;
        } else {
            check("cuInit", status)
                .map_err(|reason| format!("{reason} (a driver for CUDA {version})"))?;
            check("cuDeviceGetCount", count(&raw mut number))?;
        }
        let mut gpus = Vec::new();
        for device in 0..number {
            let mut values = [0; 2];
            for (value, wanted) in values.iter_mut().zip([MAJOR, MINOR]) {
                let status = attribute(&raw mut *value, wanted, device);
                check("cuDeviceGetAttribute", status)?;
            }
            let [major, minor] = values.map(|value| u32::try_from(value).unwrap_or(0));
            gpus.push(Capability::new(major, minor));
        }
        let path = loaded_library_path(&Root::system());
        Ok(Driver {
            version,
            gpus,
            library: path.unwrap_or_else(|| library_name.to_owned()),
        })
    }
}

/// The function `name` of the library.
///
/// # Safety
/// `T` must be the function's signature.
unsafe fn symbol<'l, T>(library: &'l Library, name: &str) -> Result<Symbol<'l, T>, String> {
    // SAFETY: the caller guarantees that `T` is the signature.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| format!("libcuda.so.1 has no `{name}`"))
}

/// The path of the driver library that the loader opened, from `/proc/self/maps`.
fn loaded_library_path(root: &Root) -> Option<String> {
    let maps = root.text(&root.locate("/proc/self/maps")).ok()?;
    maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with("libcuda.so").then(|| path.to_owned())
    })
}

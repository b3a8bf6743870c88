//! Stubs of the driver's libraries, generated from the driver's headers.
//!
//! `libcuda.so.1` and `libnvidia-ml.so.1` are installed with the GPU driver. A library with the same
//! SONAME and the same symbols is enough to link a program on a machine without a driver. NVIDIA's
//! toolkits contain such stubs; Python wheels do not.

mod elf;
mod header;

use std::path::PathBuf;

use crate::component::Component;
use crate::error::Error;
use crate::list::sorted_set;
use crate::root::Root;

/// A library of the driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Driver {
    /// The component whose headers declare its functions.
    pub(super) component: Component,
    /// The name with which programs link the library: `cuda` in `-lcuda`.
    pub(super) name: &'static str,
    /// The file name that linked programs load.
    pub(super) soname: &'static str,
    /// The required header, then optional headers that declare more functions.
    pub(super) headers: &'static [&'static str],
    /// The prefix of the library's function names.
    prefix: &'static str,
    /// Functions that the stub defines even if no header that declares them is found.
    always: &'static [&'static str],
    /// The functions that return a string instead of a status.
    texts: &'static [&'static str],
    /// The status that the other functions return.
    status: u16,
}

/// The libraries of the driver that programs are linked with.
pub(super) static DRIVERS: [Driver; 2] = [
    Driver {
        component: Component::Cudart,
        name: "cuda",
        soname: "libcuda.so.1",
        headers: &[
            "cuda.h",
            "cudaGL.h",
            "cudaEGL.h",
            "cudaVDPAU.h",
            "cudaProfiler.h",
        ],
        prefix: "cu",
        // `cudaProfiler.h` is in another package, which is often not installed.
        always: &["cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"],
        texts: &[],
        // CUDA_ERROR_STUB_LIBRARY
        status: 34,
    },
    Driver {
        component: Component::Nvml,
        name: "nvidia-ml",
        soname: "libnvidia-ml.so.1",
        headers: &["nvml.h"],
        prefix: "nvml",
        always: &[],
        texts: &["nvmlErrorString"],
        // NVML_ERROR_LIBRARY_NOT_FOUND
        status: 12,
    },
];

impl Driver {
    /// The path of the stub in a view: `lib/stubs/libcuda.so`.
    pub(super) fn path(&self) -> String {
        format!("lib/stubs/lib{}.so", self.name)
    }
}

/// The inputs of a stub. The headers have about a megabyte, so they are read only when the view is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    pub(super) driver: &'static Driver,
    /// The headers that were found, the required one first.
    pub(super) headers: Vec<PathBuf>,
    /// The name of the platform directory, such as `x86_64-linux`.
    pub(super) platform: &'static str,
}

impl Stub {
    /// Reads the headers and returns the content of the stub, which is a shared object.
    pub(super) fn bytes(&self, root: &Root) -> Result<Vec<u8>, Error> {
        let driver = self.driver;
        let mut names = Vec::new();
        for path in &self.headers {
            let text = root.text(path).map_err(Error::io("read", path))?;
            names.extend(header::functions(&text, driver.prefix));
        }
        if names.is_empty() {
            return Err(Error::Format {
                what: "driver header",
                reason: format!("{:?} declare no function", self.headers),
                hint: "install CUDA's headers again: those of cudart have been changed",
            });
        }
        names.extend(driver.always.iter().map(|&name| name.to_owned()));
        let names = sorted_set(names);
        Ok(elf::shared_object(&elf::Library {
            machine: match self.platform {
                "x86_64-linux" => elf::Machine::X86_64,
                _ => elf::Machine::Aarch64,
            },
            soname: driver.soname,
            names: &names,
            texts: driver.texts,
            status: driver.status,
        }))
    }
}

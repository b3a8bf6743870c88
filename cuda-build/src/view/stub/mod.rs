//! Stubs of the driver's libraries, generated from the driver's headers.
//!
//! `libcuda.so.1` and `libnvidia-ml.so.1` are installed with the GPU driver. A library with the same
//! SONAME and the same names is enough to link a program on a machine without a driver. NVIDIA's
//! toolkits contain such stubs, Python wheels do not.

mod elf;
mod header;

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::root::Root;

/// A library of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// `libcuda`, from `cuda.h`.
    Cuda,
    /// `libnvidia-ml`, from `nvml.h`.
    Nvml,
}

/// What a stub is made from. Reading a megabyte of header waits until the view is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    /// The library.
    pub(super) driver: Driver,
    /// The headers that declare its functions.
    pub(super) headers: Vec<PathBuf>,
    /// The name of the platform directory, such as `x86_64-linux`.
    pub(super) platform: &'static str,
}

impl Driver {
    /// All libraries.
    pub(super) const ALL: [Self; 2] = [Self::Cuda, Self::Nvml];

    /// The name that the linker looks for.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so",
            Self::Nvml => "libnvidia-ml.so",
        }
    }

    /// The name that a program linked with it loads.
    pub(super) fn soname(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so.1",
            Self::Nvml => "libnvidia-ml.so.1",
        }
    }

    /// The required header, then those that may add names.
    pub(super) fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Cuda => &[
                "cuda.h",
                "cudaGL.h",
                "cudaEGL.h",
                "cudaVDPAU.h",
                "cudaProfiler.h",
            ],
            Self::Nvml => &["nvml.h"],
        }
    }

    /// Names that the library has even if no header is found that declares them.
    fn always(self) -> &'static [&'static str] {
        match self {
            // `cudaProfiler.h` is in another package, which is often not installed.
            Self::Cuda => &["cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"],
            Self::Nvml => &[],
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Nvml => "nvml",
        }
    }

    /// The status that functions return: `CUDA_ERROR_STUB_LIBRARY`, `NVML_ERROR_LIBRARY_NOT_FOUND`.
    fn status(self) -> u16 {
        match self {
            Self::Cuda => 34,
            Self::Nvml => 12,
        }
    }

    /// The functions that return a text instead of a status.
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Cuda => &[],
            Self::Nvml => &["nvmlErrorString"],
        }
    }
}

impl Stub {
    /// The shared object.
    ///
    /// # Errors
    /// [`Error::Io`] if a header cannot be read, [`Error::Format`] if the headers declare no function.
    pub(super) fn bytes(&self, root: &Root) -> Result<Vec<u8>, Error> {
        let mut names: Vec<String> = self
            .driver
            .always()
            .iter()
            .map(|&name| name.to_owned())
            .collect();
        let own = names.len();
        for path in &self.headers {
            let text = root.text(path).map_err(|source| Error::Io {
                action: "read",
                path: path.clone(),
                source,
            })?;
            names.extend(header::functions(&text, self.driver.prefix()));
        }
        if names.len() == own {
            let shown = self
                .headers
                .first()
                .map_or(Path::new("nothing"), PathBuf::as_path)
                .display();
            return Err(Error::Format {
                what: "driver header",
                reason: format!("{shown} declares no function"),
            });
        }
        names.sort();
        names.dedup();
        let machine = if self.platform == "x86_64-linux" {
            elf::Machine::X86_64
        } else {
            elf::Machine::Aarch64
        };
        Ok(elf::shared_object(&elf::Library {
            machine,
            soname: self.driver.soname(),
            names: &names,
            texts: self.driver.texts(),
            status: self.driver.status(),
        }))
    }
}

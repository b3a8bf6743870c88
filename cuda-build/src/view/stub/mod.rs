//! Libraries to link against where no driver is installed, made from the driver's own headers.
//!
//! `libcuda.so.1` and `libnvidia-ml.so.1` come with the GPU driver. To link a program on a machine
//! without one, a library of the same SONAME is enough that defines the same names; NVIDIA's
//! toolkits carry such stubs, Python wheels don't.

mod elf;
mod header;

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::root::Root;

/// Which of the driver's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// `libcuda`, from `cuda.h`.
    Cuda,
    /// `libnvidia-ml`, from `nvml.h`.
    Nvml,
}

/// A stub that is still to be made: reading a megabyte of header waits until it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    /// The library it stands for.
    pub(super) driver: Driver,
    /// Headers with its functions.
    pub(super) headers: Vec<PathBuf>,
    /// CUDA's name of the platform, such as `x86_64-linux`.
    pub(super) platform: &'static str,
}

impl Driver {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Cuda, Self::Nvml];

    /// What `-l` asks for.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so",
            Self::Nvml => "libnvidia-ml.so",
        }
    }

    /// What a program that was linked with it asks for.
    pub(super) fn soname(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so.1",
            Self::Nvml => "libnvidia-ml.so.1",
        }
    }

    /// The header without which there is nothing to make, then those that may add names.
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

    /// Names that every such library has, whatever the headers at hand show.
    fn always(self) -> &'static [&'static str] {
        match self {
            // `cudaProfiler.h` is a package of its own and often not there.
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

    /// `CUDA_ERROR_STUB_LIBRARY`, `NVML_ERROR_LIBRARY_NOT_FOUND`.
    fn status(self) -> u16 {
        match self {
            Self::Cuda => 34,
            Self::Nvml => 12,
        }
    }

    /// The functions that return text and no status.
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
    /// [`Error::Io`] where a header can't be read, [`Error::Format`] where it names no function.
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

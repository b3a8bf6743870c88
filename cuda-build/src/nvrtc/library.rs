//! Loads NVRTC and queries its version.

use std::ffi::c_int;
use std::path::Path;

use libloading::Library;

use super::api::Api;
use crate::error::Error;

/// An NVRTC that was loaded into this process.
///
/// Threads may share it: compilations run in parallel. Several versions can be loaded at once.
pub struct Nvrtc {
    pub(super) api: Api,
    version: (u32, u32),
}

impl Nvrtc {
    /// Loads NVRTC (`libnvrtc.so.11.2`, `.12`, `.13` …) from its full path, and `libnvrtc-builtins` from the
    /// same directory.
    ///
    /// NVRTC opens its builtins at the first compilation, and searches its `RUNPATH` for them. In some wheels, NVRTC
    /// has no `RUNPATH`, so the builtins are loaded here.
    ///
    /// # Errors
    /// [`Error::Library`] if the file cannot be loaded, is not NVRTC, or its builtins cannot be loaded.
    pub fn load(path: &Path) -> Result<Self, Error> {
        // The loader repeats the path.
        let loader_prefix = format!("{}: ", path.display());
        let failed = |reason: String| Error::Library {
            path: path.to_owned(),
            reason: reason.replace(&loader_prefix, ""),
        };
        // SAFETY: NVRTC's initialisers only set up its own state. Initialisers run even if the file
        // is not NVRTC, so the caller passes only a file that the search identified as NVRTC.
        let library =
            unsafe { Library::new(path) }.map_err(|error| failed(loader_message(&error)))?;
        let api = Api::load(&library)
            .map_err(|error| failed(format!("not NVRTC: {}", loader_message(&error))))?;
        // The library is never unloaded, so that all function pointers stay valid, and the destructors of the
        // thread-local data that NVRTC leaves.
        std::mem::forget(library);

        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the function writes two integers, and both variables outlive the call.
        let status = unsafe { (api.version)(&raw mut major, &raw mut minor) };
        let version = match (status, u32::try_from(major), u32::try_from(minor)) {
            (0, Ok(major), Ok(minor)) => (major, minor),
            _ => {
                return Err(failed(format!(
                    "`nvrtcVersion` returned status {status}, version {major}.{minor}"
                )));
            }
        };
        load_builtins(path, version)?;
        Ok(Self { api, version })
    }

    /// `(major, minor)`: `(12, 9)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }
}

/// Loads the builtins, `libnvrtc-builtins.so.12.9` or `nvrtc-builtins64_129.dll`, from NVRTC's directory, if the file
/// exists. At the first compilation, NVRTC opens this name without a path, and the loader returns the loaded library.
fn load_builtins(nvrtc: &Path, (major, minor): (u32, u32)) -> Result<(), Error> {
    let name = if nvrtc.extension() == Some("dll".as_ref()) {
        format!("nvrtc-builtins64_{major}{minor}.dll")
    } else {
        format!("libnvrtc-builtins.so.{major}.{minor}")
    };
    let path = nvrtc.with_file_name(name);
    if !path.is_file() {
        return Ok(());
    }
    // SAFETY: the library is a part of NVRTC; its initialisers set up tables of text and bitcode.
    match unsafe { Library::new(&path) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(Error::Library {
            path,
            reason: loader_message(&error),
        }),
    }
}

/// The loader's message, which `libloading` keeps as the error's source.
pub(crate) fn loader_message(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

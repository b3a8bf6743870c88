//! The functions of `nvrtc.h` that this crate calls, looked up by name.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// `nvrtcProgram`, a handle.
pub(super) type RawProgram = *mut c_void;
/// `nvrtcResult`; zero is success.
pub(super) type Status = c_int;

type GetSize = unsafe extern "C" fn(RawProgram, *mut usize) -> Status;
type GetBytes = unsafe extern "C" fn(RawProgram, *mut c_char) -> Status;

/// A pair of functions: one returns the size of a result, the other its bytes.
#[derive(Clone, Copy)]
pub(super) struct Getter {
    pub(super) size: GetSize,
    pub(super) bytes: GetBytes,
}

/// Function pointers that stay valid as long as the process runs: their library is never
/// unloaded.
#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    pub(super) error_string: unsafe extern "C" fn(Status) -> *const c_char,
    pub(super) create: unsafe extern "C" fn(
        *mut RawProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    pub(super) destroy: unsafe extern "C" fn(*mut RawProgram) -> Status,
    pub(super) compile: unsafe extern "C" fn(RawProgram, c_int, *const *const c_char) -> Status,
    pub(super) log: Getter,
    pub(super) ptx: Getter,
    /// `None` before CUDA 11.1.
    pub(super) cubin: Option<Getter>,
}

impl Api {
    /// Looks up all functions. `cubin` may be missing; any other missing function is an error.
    pub(super) fn load(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: each function pointer has the type that `nvrtc.h` declares for the function of this name.
        // The declarations are the same in every release from CUDA 11.0 to 13.4.
        unsafe {
            let getter = |size: &[u8], bytes: &[u8]| -> Result<Getter, libloading::Error> {
                Ok(Getter {
                    size: *library.get(size)?,
                    bytes: *library.get(bytes)?,
                })
            };
            Ok(Self {
                version: *library.get(b"nvrtcVersion\0")?,
                error_string: *library.get(b"nvrtcGetErrorString\0")?,
                create: *library.get(b"nvrtcCreateProgram\0")?,
                destroy: *library.get(b"nvrtcDestroyProgram\0")?,
                compile: *library.get(b"nvrtcCompileProgram\0")?,
                log: getter(b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0")?,
                ptx: getter(b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")?,
                cubin: getter(b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0").ok(),
            })
        }
    }
}

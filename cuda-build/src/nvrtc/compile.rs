//! Compiles one program to a cubin or to PTX.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use super::Nvrtc;
use super::api::{Api, Getter, RawProgram, Status};

/// A source and how to compile it.
#[derive(Clone, Default)]
pub struct Program<'a> {
    /// The bytes of the source, before preprocessing.
    pub source: &'a [u8],
    /// The source's path. Messages print it, and `#include "…"` searches its directory. A relative
    /// path is relative to the working directory of the process.
    pub name: &'a str,
    /// NVRTC's options, such as `-arch=sm_90a`, `-std=c++17`, `-I/usr/local/cuda/include`.
    /// `-arch=`, or `--gpu-architecture=`, decides the output: a cubin for `sm_`, PTX for `compute_` or without it.
    /// NVRTC defines `__CUDA_ARCH_LIST__` as the one capability that it compiles for; `-D` and `-U` do not
    /// change this macro. Without `-std=`, NVRTC 11 compiles C++98.
    pub options: Vec<String>,
    /// Headers in memory: the name as an `#include` spells it, and the text. NVRTC uses such a header instead
    /// of any file of the same name. In NVRTC 11, `__has_include` does not find these headers.
    pub headers: Vec<(String, String)>,
}

/// The result of a compilation.
#[derive(Debug)]
pub struct CompiledProgram {
    /// The cubin, or the PTX text without its final NUL.
    pub image: Vec<u8>,
    /// Warnings and remarks; empty if there are none.
    pub log: String,
}

impl Nvrtc {
    /// Compiles one program for one architecture.
    ///
    /// The output depends on the program and the files that it includes. The output contains the names of
    /// these files only through `__FILE__` and `assert` (measured with 11.8, 12.9 and 13.4). With `-G` or
    /// `-lineinfo`, it also contains the working directory.
    ///
    /// # Errors
    /// NVRTC's name of the error (`NVRTC_ERROR_COMPILATION`, `NVRTC_ERROR_INVALID_OPTION` …), and after it the messages
    /// with file and line, if the compiler was started.
    pub fn compile(&self, program: &Program<'_>) -> Result<CompiledProgram, String> {
        let makes_cubin = program.options.iter().any(|option| {
            option.starts_with("-arch=sm_") || option.starts_with("--gpu-architecture=sm_")
        });
        let getter = if makes_cubin {
            (self.api.cubin).ok_or("this NVRTC cannot make cubins: CUDA 11.1 or newer is needed")?
        } else {
            self.api.ptx
        };
        let source = text("the source", program.source)?;
        let name = text("the source's name", program.name)?;
        let options: Vec<CString> = (program.options.iter())
            .map(|option| text("an option", &**option))
            .collect::<Result<_, _>>()?;
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for (header, content) in &program.headers {
            names.push(text("a header's name", &**header)?);
            texts.push(text("a header", &**content)?);
        }
        let (names, texts) = (pointers(&names), pointers(&texts));
        let handle = Handle::create(self.api, &source, &name, &names, &texts)?;
        let options = pointers(&options);
        let count = options.len() as c_int;
        // SAFETY: the handle is alive, and `options` holds `count` pointers to NUL-terminated
        // strings that outlive the call.
        let status = unsafe { (self.api.compile)(handle.raw, count, options.as_ptr()) };
        // The log is read after a failure, too. If the log cannot be read, it is left empty.
        let log = handle.get(self.api.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let log = log.trim_end_matches(['\0', '\n']).to_owned();
        check(self.api, status).map_err(|error| format!("{error}\n{log}").trim_end().to_owned())?;
        let mut image = handle.get(getter)?;
        if !makes_cubin {
            let end = image.iter().rposition(|&byte| byte != 0);
            image.truncate(end.map_or(0, |last| last + 1));
        }
        Ok(CompiledProgram { image, log })
    }
}

/// An `nvrtcProgram`, destroyed when it goes out of scope.
struct Handle {
    api: Api,
    raw: RawProgram,
}

impl Handle {
    fn create(
        api: Api,
        source: &CStr,
        name: &CStr,
        header_names: &[*const c_char],
        header_texts: &[*const c_char],
    ) -> Result<Self, String> {
        let mut raw: RawProgram = ptr::null_mut();
        let count = header_names.len() as c_int;
        // SAFETY: `count` is the length of both header lists, all strings end in NUL and outlive
        // the call, and NVRTC copies the data that it keeps.
        let status = unsafe {
            (api.create)(
                &raw mut raw,
                source.as_ptr(),
                name.as_ptr(),
                count,
                header_texts.as_ptr(),
                header_names.as_ptr(),
            )
        };
        check(api, status).map(|()| Self { api, raw })
    }

    fn get(&self, getter: Getter) -> Result<Vec<u8>, String> {
        let mut size = 0_usize;
        // SAFETY: the handle is alive; the function writes one size.
        let status = unsafe { (getter.size)(self.raw, &raw mut size) };
        check(self.api, status)?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the function writes as many bytes as it has just reported, and `bytes` has room.
        let status = unsafe { (getter.bytes)(self.raw, bytes.as_mut_ptr().cast()) };
        check(self.api, status).map(|()| bytes)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from `nvrtcCreateProgram` and is destroyed nowhere else.
        unsafe { (self.api.destroy)(&raw mut self.raw) };
    }
}

/// The name of the error, if the status is one.
fn check(api: Api, status: Status) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the function takes any number and returns a string in static memory, or null.
    let text = unsafe { (api.error_string)(status) };
    if text.is_null() {
        return Err(format!("NVRTC error {status}"));
    }
    // SAFETY: the string is not null, ends in NUL and is never freed.
    let text = unsafe { CStr::from_ptr(text) };
    Err(text.to_string_lossy().into_owned())
}

fn text(what: &str, value: impl Into<Vec<u8>>) -> Result<CString, String> {
    let text = CString::new(value);
    text.map_err(|error| format!("{what} holds a NUL at byte {}", error.nul_position()))
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

//! Stubs of the driver's libraries, made from the driver's headers by the C compiler.
//!
//! `libcuda.so.1` and `libnvidia-ml.so.1` are installed with the GPU driver. A library with the same
//! SONAME and the same symbols is enough to link a program on a machine without a driver. NVIDIA's
//! toolkits contain such stubs; Python wheels do not.
#![allow(clippy::disallowed_methods, reason = "writes the source of a stub")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::lex;
use cuda_find_core::{command::Invocation, component::Component, env::Env, list::Set};
use cuda_find_core::{nvcc::locate, root::Root, target::Target};

/// A library of the driver.
#[derive(Debug)]
pub(super) struct DriverLibrary {
    /// The component whose headers declare its functions.
    pub(super) component: Component,
    /// The name with which programs link the library: `cuda` in `-lcuda`.
    pub(super) name: &'static str,
    /// The file name that linked programs load.
    soname: &'static str,
    /// The required header, then optional headers that declare more functions.
    pub(super) headers: &'static [&'static str],
    /// The prefix of the library's function names.
    prefix: &'static str,
    /// Functions that the stub defines even if no header that declares them is found.
    always: &'static [&'static str],
    /// The function that returns a string.
    error_string: &'static str,
    /// The status that the other functions return.
    status: u16,
}

/// The libraries of the driver that programs are linked with.
pub(super) static DRIVERS: [DriverLibrary; 2] = [
    DriverLibrary {
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
        error_string: "",
        // CUDA_ERROR_STUB_LIBRARY
        status: 34,
    },
    DriverLibrary {
        component: Component::Nvml,
        name: "nvidia-ml",
        soname: "libnvidia-ml.so.1",
        headers: &["nvml.h"],
        prefix: "nvml",
        always: &[],
        error_string: "nvmlErrorString",
        // NVML_ERROR_LIBRARY_NOT_FOUND
        status: 12,
    },
];

impl DriverLibrary {
    /// The path of the stub in a view: `lib/stubs/libcuda.so`.
    pub(super) fn path(&self) -> String {
        format!("lib/stubs/lib{}.so", self.name)
    }
}

/// The C compiler that can link for a platform, if there is one on `PATH`. `Err` has the names that were tried.
pub(super) fn compiler(root: &Root, env: &Env, target: &Target) -> Result<PathBuf, String> {
    let names = if target.is_native() {
        ["cc", "gcc", "clang"].map(str::to_owned).to_vec()
    } else {
        vec![format!("{}-gcc", target.multiarch())]
    };
    let directories = env.search_path();
    (names.iter())
        .find_map(|name| locate(root, Path::new(name), &directories))
        .ok_or_else(|| names.join("`, `"))
}

/// The inputs of a stub. The headers have about a megabyte, so they are read only when the view is written.
#[derive(Clone, Debug)]
pub(super) struct Stub {
    pub(super) driver: &'static DriverLibrary,
    /// The headers that were found, the required one first.
    pub(super) headers: Vec<PathBuf>,
    pub(super) compiler: PathBuf,
}

impl Stub {
    /// Makes the shared object at `path`.
    pub(super) fn compile(&self, root: &Root, path: &Path) -> Result<(), Error> {
        let driver = self.driver;
        let mut names = Set::default();
        for header in &self.headers {
            let text = root.text(header).map_err(Error::io("read", header))?;
            functions(&text, driver.prefix, &mut names);
        }
        if names.is_empty() {
            return Err(cuda_find_core::error::Error::Format {
                what: "driver header",
                reason: format!("{:?} declare no function", self.headers),
                hint: "install CUDA's headers again: those of cudart have been changed",
            }
            .into());
        }
        names.extend(driver.always.iter().map(|name| (*name).to_owned()));
        let mut text = format!("static int status(void) {{ return {}; }}\n", driver.status);
        for name in &names {
            text += &if name == driver.error_string {
                format!("const char *{name}(void) {{ return \"stub library\"; }}\n")
            } else {
                format!("int {name}(void) __attribute__((alias(\"status\")));\n")
            };
        }
        let source = path.with_extension("c");
        fs::write(&source, text).map_err(Error::io("write", &source))?;
        let soname = format!("-Wl,-soname,{}", driver.soname);
        let call = Invocation::new(&self.compiler)
            .args("-shared -nostdlib -fPIC -O1 -g0 -Wl,--build-id=none".split(' '))
            .args([&soname])
            .args(["-o".as_ref(), path.as_os_str(), source.as_os_str()]);
        let result = call.clone().in_english().run()?;
        fs::remove_file(&source).map_err(Error::io("remove", &source))?;
        if !result.success {
            return Err(cuda_find_core::error::Error::Program {
                command: call.to_string(),
                reason: result.output().trim().to_owned(),
            }
            .into());
        }
        Ok(())
    }
}

/// Adds the functions of the library that a header declares: each name with `prefix` and a capital letter that is
/// followed by `(`. No preprocessor is run, because a program may be compiled with any branch of an `#if`.
///
/// For a macro that renames a function, both names are added. If the macro also adds a suffix for per-thread default
/// streams (`_ptds`, `_ptsz`), the name with the suffix is added, too:
///
/// ```c
/// #define cuCtxCreate                 cuCtxCreate_v2
/// #define cuMemcpyHtoD                __CUDA_API_PTDS(cuMemcpyHtoD_v2)   // cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds
/// CUresult CUDAAPI cuInit(unsigned int Flags);
/// ```
fn functions(text: &str, prefix: &str, names: &mut Set<String>) {
    let is_name = |word: &&str| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    let is_no_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    for line in lex::without_comments(text).lines() {
        if line.trim_start().starts_with('#') {
            let words: Vec<&str> = line.split(is_no_word).filter(is_name).collect();
            // The target of such a macro starts with the macro's name. Other macros are constants and types.
            let [name, target] = words[..] else { continue };
            if !target.starts_with(name) {
                continue;
            }
            names.extend([name, target].map(str::to_owned));
            for (wrapper, suffix) in [("_PTDS(", "_ptds"), ("_PTSZ(", "_ptsz")] {
                names.extend(line.contains(wrapper).then(|| format!("{target}{suffix}")));
            }
            continue;
        }
        let parts: Vec<&str> = line.split('(').collect();
        for part in parts.windows(2) {
            let word = part[0].trim_end().rsplit(is_no_word).next();
            // `type (*name)(…)` declares a pointer.
            let is_function = !part[1].trim_start().starts_with('*');
            let name = word.filter(|name| is_function && is_name(name));
            names.extend(name.map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_declarations_and_macros() {
        let cuda = r"
#define CUDA_VERSION 13040
#define cuDeviceTotalMem                    cuDeviceTotalMem_v2 // trailing
    #define cuMemcpyHtoD                    __CUDA_API_PTDS(cuMemcpyHtoD_v2)
    #define cuMemcpyAsync  \
        __CUDA_API_PTSZ(cuMemcpyAsync)
#define cuSomeConstant 0x01
/* cuCommented(void); CUresult CUDAAPI cuHidden(int); */
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef void (CUDA_CB *CUhostFn)(void *userData);
CUresult CUDAAPI cuInit(unsigned int Flags);
extern __CUDA_DEPRECATED CUresult CUDAAPI
cuCtxAttach(CUcontext *pctx, unsigned int flags);
static inline CUresult cuShort(int a) { return cuInit(a); }
";
        let nvml = "#define nvmlInit nvmlInit_v2\n#define nvmlEventTypeNone 0x0LL\n\
                    nvmlReturn_t DECLDIR nvmlInit_v2(void);\n\
                    DEPRECATED(13.0) nvmlReturn_t DECLDIR nvmlOld (nvmlDevice_t device);\n\
                    typedef nvmlReturn_t (*Callback)(void);\n\
                    const DECLDIR char* nvmlErrorString(nvmlReturn_t r);\ntypedef struct nvmlDevice_st* nvmlDevice_t;\n\
                    #define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)\n";
        let expected = "cuCtxAttach cuDeviceTotalMem cuDeviceTotalMem_v2 cuInit cuMemcpyAsync cuMemcpyAsync_ptsz \
                        cuMemcpyHtoD cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds cuShort";
        for (text, prefix, expected) in [
            (cuda, "cu", expected),
            (nvml, "nvml", "nvmlErrorString nvmlInit nvmlInit_v2 nvmlOld"),
        ] {
            let mut names = Set::default();
            functions(text, prefix, &mut names);
            assert_eq!(Vec::from_iter(names).join(" "), expected);
        }
    }
}

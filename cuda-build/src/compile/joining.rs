//! Joins images into an object, and checks once per nvcc that this gives what nvcc itself makes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::execute::execute;
use super::images::OBJECT;
use super::{Image, Step};
use crate::command::Invocation;
use crate::error::Error;
use crate::fatbin::{Fatbin, elf};
use crate::output;

/// The sections into which nvcc puts device code. The second is used for relocatable device code (`-rdc=true`).
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// The source for the check. It has the constructs that joining could break: a template, and constant, static and
/// anonymous variables.
const SAMPLE: &str = "\
__constant__ int constant;
static __device__ int variable = 1;
namespace { __device__ int hidden; __global__ void kernel(int *p) { *p = variable + hidden; } }
template <class T> __global__ void scale(T *p) { p[threadIdx.x] *= constant; }
void run(int *p, float *q) { kernel<<<1, 1>>>(p); scale<<<1, 1>>>(q); scale<<<1, 1>>>(p); }
";

/// Whether objects can be joined with this nvcc and host compiler; checked at the first use.
#[derive(Debug, Default)]
pub struct Joining {
    /// The program `objcopy`, or why objects cannot be joined.
    checked: OnceLock<Result<PathBuf, String>>,
}

impl Joining {
    /// `objcopy` is the program with which an earlier check succeeded.
    pub(crate) fn new(objcopy: Option<PathBuf>) -> Self {
        let joining = Self::default();
        if let Some(objcopy) = objcopy {
            let _ = joining.checked.set(Ok(objcopy));
        }
        joining
    }

    /// The `objcopy` with which a check succeeded.
    pub(crate) fn objcopy(&self) -> Option<&Path> {
        self.checked.get()?.as_deref().ok()
    }

    /// The object `host` with `device_code` instead of its own, as bytes.
    ///
    /// # Errors
    /// The reason, in words.
    pub(super) fn join(
        &self,
        step: &Step,
        plain: &Invocation,
        compiler: &Path,
        pair: [Image; 2],
        host: &[u8],
        device_code: &Fatbin,
    ) -> Result<Vec<u8>, String> {
        let check = || {
            let objcopy = objcopy_of(compiler)?;
            let checked = self_check(step, plain, &objcopy, pair);
            checked.map(|()| objcopy).map_err(|reason| {
                format!("objects of this nvcc cannot be joined from images: {reason}")
            })
        };
        let objcopy = self.checked.get_or_init(check).as_ref()?;
        replace(objcopy, &step.output, host, device_code)
    }
}

/// Whether an output of nvcc is an object, and not a fat binary.
pub(super) fn is_object(output: &[u8]) -> bool {
    output.starts_with(b"\x7fELF")
}

/// The device code in an object, and the name of its section.
pub(super) fn device_code(object: &[u8]) -> Result<(&'static str, Fatbin), String> {
    for name in SECTIONS {
        if let Some(bytes) = elf::section(object, name.as_bytes()) {
            let fatbin = Fatbin::parse(bytes).map_err(|error| error.to_string())?;
            return Ok((name, fatbin));
        }
    }
    Err("the object has no device code".to_owned())
}

/// The host compiler's own `objcopy`.
fn objcopy_of(compiler: &Path) -> Result<PathBuf, String> {
    let asked = Invocation::new(compiler).args(["-print-prog-name=objcopy"]);
    let finished = asked.run().map_err(|error| error.to_string())?;
    match finished.stdout.trim() {
        "" => Err("the host compiler names no objcopy".to_owned()),
        name => Ok(PathBuf::from(name)),
    }
}

/// The object `host` with `device_code` in the section of its own device code. `objcopy` works on temporary files
/// beside `output`.
fn replace(
    objcopy: &Path,
    output: &Path,
    host: &[u8],
    device_code: &Fatbin,
) -> Result<Vec<u8>, String> {
    let (section, _) = self::device_code(host)?;
    let part = |what: &str| {
        let mut path = output.as_os_str().to_owned();
        path.push(what);
        PathBuf::from(path)
    };
    let (object, content, joined) = (part(".host"), part(".section"), part(".joined"));
    let bytes = device_code.write();
    let run = || -> Result<Vec<u8>, Error> {
        output::write(&object, host)?;
        output::write(&content, &bytes)?;
        let mut update = std::ffi::OsString::from(format!("{section}="));
        update.push(&content);
        let mut invocation = Invocation::new(objcopy).args(["--update-section".into(), update]);
        invocation
            .arguments
            .extend([object.clone().into(), joined.clone().into()]);
        let finished = invocation.run()?;
        if !finished.success {
            return Err(Error::Program {
                command: invocation.to_string(),
                reason: finished.output().trim().to_owned(),
            });
        }
        output::read(&joined)
    };
    let result = run().map_err(|error| error.to_string());
    for file in [&object, &content, &joined] {
        let _ = output::remove(file);
    }
    let result = result?;
    if elf::section(&result, section.as_bytes()) == Some(&bytes[..]) {
        Ok(result)
    } else {
        Err(format!("{} changed the device code", objcopy.display()))
    }
}

/// Compiles a sample for two architectures at once and one by one, and compares the objects.
fn self_check(
    step: &Step,
    plain: &Invocation,
    objcopy: &Path,
    [one, two]: [Image; 2],
) -> Result<(), String> {
    let directory = step.output.with_extension("self-check");
    let check = || -> Result<Option<String>, Error> {
        output::create_directory(&directory)?;
        let source = directory.join("sample.cu");
        output::write(&source, SAMPLE.as_bytes())?;
        let compile = |mode: &[&str], images: &[Image], name: &str| {
            let output = directory.join(name);
            let mut invocation = plain.clone().args(mode.iter().copied());
            invocation = invocation.args(images.iter().map(|image| image.nvcc_option()));
            invocation.arguments.push("-o".into());
            invocation
                .arguments
                .extend([output.clone().into(), source.clone().into()]);
            execute(step, &invocation, &output)?;
            output::read(&output)
        };
        let whole = compile(&OBJECT, &[one, two], "whole.o")?;
        let host = compile(&OBJECT, &[one], "host.o")?;
        let added = compile(&["-fatbin"], &[two], "added.fatbin")?;
        let joined = device_code(&host).and_then(|(_, first)| {
            let second = Fatbin::parse(&added).map_err(|error| error.to_string())?;
            let entries = first.entries().chain(second.entries()).cloned();
            let joined = Fatbin::from_entries(entries.collect());
            replace(objcopy, &directory.join("joined.o"), &host, &joined)
        });
        Ok(match joined {
            Ok(joined) => elf::difference(&joined, &whole)
                .map(|what| format!("`{what}` of the joined object differs")),
            Err(reason) => Some(reason),
        })
    };
    let result = check();
    let _ = output::remove_directory(&directory);
    match result {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

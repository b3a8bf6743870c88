//! Joins images into an object, and checks once per nvcc that this gives what nvcc itself makes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::run_directory::RunDirectory;
use super::step::{Image, Step, StepCommand, with_ending};
use crate::error::Error;
use crate::fatbin::{Entry, Fatbin, MAGIC_BYTES, elf};
use cuda_find_core::capability::{Plan, supported};
use cuda_find_core::{cache::CachedAnswer, command::Invocation, env::Env, hash::of_content};
use cuda_find_core::{nvcc::locate, output, root::Root, version::ToolkitVersion};

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

/// Why objects cannot be joined.
pub(super) type Reason = Box<dyn std::error::Error + Send + Sync>;

/// Whether objects can be joined with this nvcc and host compiler; checked at the first use.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    root: Root,
    /// Where `objcopy` is searched.
    search_path: Vec<PathBuf>,
    /// Two architectures for the check.
    pair: Vec<Image>,
    /// The `objcopy` of a check that succeeded.
    cached: CachedAnswer,
    /// The program `objcopy`, or why objects cannot be joined.
    checked: OnceLock<Result<PathBuf, String>>,
}

impl Joining {
    /// `compilers` identifies nvcc and the host compiler.
    pub(crate) fn new(
        env: &Env,
        root: &Root,
        compilers: &str,
        plan: &Plan,
        toolkit: ToolkitVersion,
    ) -> Self {
        let mut pair = Image::in_nvcc_order(&Image::of_plan(plan));
        pair.extend(supported(toolkit).into_iter().map(Image::Real));
        pair.dedup_by_key(|image| image.capability().number());
        pair.truncate(2);
        Self {
            root: root.clone(),
            search_path: env.search_path(),
            pair,
            cached: CachedAnswer::new(env, "objcopy", [OsStr::new(compilers)]),
            checked: OnceLock::new(),
        }
    }

    /// The object `host` with `device_code` instead of its own, as bytes.
    ///
    /// # Errors
    /// The reason, in words.
    pub(super) fn join(
        &self,
        step: &Step,
        run: &RunDirectory,
        host: &[u8],
        device_code: &Fatbin,
    ) -> Result<Vec<u8>, Reason> {
        let check = || self.check(step, run).map_err(|reason| reason.to_string());
        let objcopy = self.checked.get_or_init(check).clone()?;
        replace(&objcopy, &run.place_of(&step.output), host, device_code)
    }

    fn check(&self, step: &Step, run: &RunDirectory) -> Result<PathBuf, Reason> {
        let StepCommand::Nvcc { shared, host, .. } = &step.command else {
            return Err("nvcc does not compile this".into());
        };
        let objcopy = self.objcopy_of(host)?;
        let content = of_content(&self.root.bytes(&objcopy)?);
        let identity = format!("{} {content:016x}", objcopy.display());
        let known = self.cached.read(&self.root);
        if known.is_none_or(|(known, _)| known != identity) {
            let directory = run.place_of(&step.output.with_extension("self-check"));
            let checked = self.self_check(step, shared, &objcopy, &directory, run);
            let _ = output::remove_directory(&directory);
            checked.map_err(|reason| {
                format!("objects of this nvcc cannot be joined from images: {reason}")
            })?;
            self.cached.write(&identity, "");
        }
        Ok(objcopy)
    }

    /// The `objcopy` that belongs to the host compiler.
    fn objcopy_of(&self, compiler: &Path) -> Result<PathBuf, Reason> {
        let query = Invocation::new(compiler).args(["-print-prog-name=objcopy"]);
        let finished = query.run()?;
        if !finished.success {
            return Err(format!("`{query}` failed: {}", finished.output().trim()).into());
        }
        let name = Path::new(finished.stdout.trim());
        let objcopy = locate(&self.root, name, &self.search_path);
        Ok(objcopy.ok_or_else(|| format!("there is no `objcopy` for {}", compiler.display()))?)
    }

    /// Compiles a sample for two architectures at once and one by one, and compares the objects.
    fn self_check(
        &self,
        step: &Step,
        shared: &Invocation,
        objcopy: &Path,
        directory: &Path,
        run: &RunDirectory,
    ) -> Result<(), Reason> {
        let [one, two] = *self.pair else {
            return Err("there are no two capabilities for a check".into());
        };
        output::create_directory(directory)?;
        let source = directory.join("sample.cu");
        output::write(&source, SAMPLE.as_bytes())?;
        let compile = |mode: &[&str], images: &[Image], name: &str| -> Result<Vec<u8>, Error> {
            let output = directory.join(name);
            let invocation = shared.clone().args(mode.iter().copied());
            let invocation = invocation.args(images.iter().map(|image| image.nvcc_option()));
            let paths: [OsString; 3] = ["-o".into(), output.clone().into(), source.clone().into()];
            run.execute(step, &invocation.args(paths), &output)?;
            Ok(output::read(&output)?)
        };
        let whole = compile(&["-c", "-objtemp"], &[one, two], "whole.o")?;
        let host = compile(&["-c", "-objtemp"], &[one], "host.o")?;
        let added = Fatbin::parse(&compile(&["-fatbin"], &[two], "added.fatbin")?)?;
        let (_, first) = device_code(&host)?;
        let entries = first.entries().chain(added.entries()).cloned().collect();
        let device_code = Fatbin::from_entries(entries);
        let joined = replace(objcopy, &directory.join("joined.o"), &host, &device_code)?;
        match elf::difference(&joined, &whole) {
            None => Ok(()),
            Some(what) => Err(format!("`{what}` of the joined object differs").into()),
        }
    }
}

/// The images in an object or a fat binary.
pub(super) fn entries(output: &[u8]) -> Result<Vec<Entry>, Reason> {
    let is_alone = output.starts_with(&MAGIC_BYTES);
    let code = if is_alone {
        Fatbin::parse(output)?
    } else {
        device_code(output)?.1
    };
    Ok(code.entries().cloned().collect())
}

/// The device code in an object, and the name of its section.
fn device_code(object: &[u8]) -> Result<(&'static str, Fatbin), Reason> {
    for name in SECTIONS {
        if let Some(bytes) = elf::section(object, name.as_bytes()) {
            return Ok((name, Fatbin::parse(bytes)?));
        }
    }
    Err("the object has no device code".into())
}

/// The object `host` with `device_code` in the section of its own device code. `objcopy` works on temporary files
/// whose names start with `output`.
fn replace(
    objcopy: &Path,
    output: &Path,
    host: &[u8],
    device_code: &Fatbin,
) -> Result<Vec<u8>, Reason> {
    let (section, _) = self::device_code(host)?;
    let [object, content, joined] =
        [".host", ".section", ".joined"].map(|ending| with_ending(output, ending));
    let bytes = device_code.write();
    let mut update = OsString::from(format!("{section}="));
    update.push(&content);
    let invocation = Invocation::new(objcopy).args(["--update-section".into(), update]);
    let invocation = invocation.args([&object, &joined]);
    let run = || -> Result<Vec<u8>, Reason> {
        output::write(&object, host)?;
        output::write(&content, &bytes)?;
        let finished = invocation.run()?;
        if !finished.success {
            return Err(format!("`{invocation}` failed: {}", finished.output().trim()).into());
        }
        Ok(output::read(&joined)?)
    };
    let result = run();
    for file in [&object, &content, &joined] {
        let _ = output::remove(file);
    }
    let result = result?;
    if elf::section(&result, section.as_bytes()) == Some(&bytes[..]) {
        Ok(result)
    } else {
        Err(format!("{} changed the device code", objcopy.display()).into())
    }
}

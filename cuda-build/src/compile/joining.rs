//! Joins images into an object, and checks once per nvcc that this gives what nvcc itself makes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::execute::execute;
use super::images::OBJECT;
use super::run_directory::RunDirectory;
use super::{Image, Step};
use crate::cached_answer::CachedAnswer;
use crate::capability::{Plan, supported};
use crate::command::Invocation;
use crate::env::Env;
use crate::error::Error;
use crate::fatbin::{Fatbin, elf};
use crate::hash::of_content;
use crate::nvcc::locate;
use crate::output;
use crate::root::Root;
use crate::version::ToolkitVersion;

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
    root: Root,
    /// Where `objcopy` is searched.
    search_path: Vec<PathBuf>,
    /// Two architectures for the check.
    pair: Vec<Image>,
    /// Checks that succeeded: in the user's cache directory.
    own: Option<CachedAnswer>,
    /// Checks that succeeded: in the directory that builds and machines share.
    shared: Option<CachedAnswer>,
    has_checked_for_others: AtomicBool,
    /// The program `objcopy`, or why objects cannot be joined.
    checked: OnceLock<Result<PathBuf, String>>,
}

impl Joining {
    /// `compilers` identifies the toolkit and the host compiler, and `shared` is the directory that builds share.
    pub(crate) fn new(
        env: &Env,
        root: &Root,
        compilers: [&str; 2],
        shared: Option<&Path>,
        (plan, toolkit): (&Plan, ToolkitVersion),
    ) -> Self {
        let question = || compilers.map(OsStr::new);
        let of_toolkit = supported(toolkit).into_iter().map(Image::Real);
        let mut pair = Image::in_nvcc_order(&Image::of_plan(plan));
        pair.extend(of_toolkit);
        pair.dedup_by_key(|image| image.capability().number());
        pair.truncate(2);
        Self {
            root: root.clone(),
            search_path: env.search_path(),
            pair,
            own: Some(CachedAnswer::new(env, "objcopy", question())),
            shared: shared.map(|place| CachedAnswer::in_directory(place, "objcopy", question())),
            ..Self::default()
        }
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
        run: &RunDirectory,
        host: &[u8],
        device_code: &Fatbin,
    ) -> Result<Vec<u8>, String> {
        let check = || self.check(step, plain, compiler, run);
        let objcopy = self.checked.get_or_init(check).as_ref()?;
        replace(objcopy, &run.place_of(&step.output), host, device_code)
    }

    /// Checks on behalf of builds that share this build's outputs: each job compiles one capability, and a last build,
    /// which joins their outputs, then need not check.
    pub(super) fn check_for_others(
        &self,
        step: &Step,
        plain: &Invocation,
        compiler: &Path,
        run: &RunDirectory,
    ) {
        if self.shared.is_some() && !self.has_checked_for_others.swap(true, Ordering::Relaxed) {
            let check = || self.check(step, plain, compiler, run);
            // A reason why objects cannot be joined is reported when a build joins them.
            let _ = self.checked.get_or_init(check);
        }
    }

    fn check(
        &self,
        step: &Step,
        plain: &Invocation,
        compiler: &Path,
        run: &RunDirectory,
    ) -> Result<PathBuf, String> {
        let objcopy = self.objcopy_of(compiler)?;
        let content = self.root.bytes(&objcopy);
        let content = of_content(&content.map_err(|error| error.to_string())?);
        let identity = format!("{} {content:016x}", objcopy.display());
        let answers = || self.own.iter().chain(&self.shared);
        let is_known = |answer: &CachedAnswer| {
            let known = answer.read(&self.root);
            known.is_some_and(|(known, _)| known == identity)
        };
        if !answers().any(is_known) {
            let checked = self_check(step, plain, &objcopy, &self.pair, run);
            checked.map_err(|reason| {
                format!("objects of this nvcc cannot be joined from images: {reason}")
            })?;
        }
        for answer in answers().filter(|answer| !is_known(answer)) {
            answer.write(&identity, "");
        }
        Ok(objcopy)
    }

    /// The host compiler's own `objcopy`.
    fn objcopy_of(&self, compiler: &Path) -> Result<PathBuf, String> {
        let asked = Invocation::new(compiler).args(["-print-prog-name=objcopy"]);
        let finished = asked.run().map_err(|error| error.to_string())?;
        let name = Path::new(finished.stdout.trim());
        locate(&self.root, name, &self.search_path)
            .ok_or_else(|| format!("there is no `objcopy` for {}", compiler.display()))
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

/// The object `host` with `device_code` in the section of its own device code. `objcopy` works on temporary files
/// whose names start with `output`.
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
    pair: &[Image],
    run: &RunDirectory,
) -> Result<(), String> {
    let [one, two] = *pair else {
        return Err("there are no two capabilities for a check".to_owned());
    };
    let directory = run.place_of(&step.output.with_extension("self-check"));
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
            execute(step, &invocation, &output, run)?;
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

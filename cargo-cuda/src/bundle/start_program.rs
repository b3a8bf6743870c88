//! Starts the build of a program that this machine can run.
//!
//! The driver is asked, by the library that the program itself would load. Then this process becomes the program:
//! its arguments, environment, signals and streams are those that this process was started with.

// With Rust's own `main`, the program would inherit another reaction to a broken pipe.
#![no_main]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString, OsStr};
use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// One build of the program.
struct Build {
    name: &'static str,
    /// The path below the bundle.
    program: &'static str,
    /// The oldest CUDA release whose driver runs it, as in 13000; 0 for a build without CUDA.
    cuda: c_int,
    /// The driver of this release.
    driver: &'static str,
    code: &'static [Code],
}

/// What GPUs from one capability to another run, as in 80 to 89.
struct Code {
    from: c_int,
    to: c_int,
    /// The oldest CUDA release whose driver runs it.
    cuda: c_int,
    /// Whether the driver does not have to compile it first.
    is_native: bool,
}

/// The exit code if no build is started.
const NOT_STARTED: c_int = 125;

/// The variable with the name of the build to start.
const BUILD: &str = "CUDA_BUNDLE_BUILD";

/// The variable in which the program finds the name of its build.
const CHOSEN: &str = "CUDA_BUNDLE_CHOSEN";

#[link(name = "dl")]
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn execv(program: *const c_char, arguments: *const *const c_char) -> c_int;
}

/// What the driver says.
struct Machine {
    /// The CUDA release of the driver, as in 13010.
    cuda: c_int,
    /// The capabilities of the visible GPUs, as in 89.
    gpus: Vec<c_int>,
}

#[no_mangle]
pub extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    let info = count == 2 && argument(arguments, 1) == b"--bundle-info";
    let named = std::env::var_os(BUILD).filter(|named| !named.is_empty());
    let machine = match named {
        Some(_) => Err(String::new()),
        None => machine(),
    };
    let mut notes = String::new();
    let chosen = choose(named.as_deref(), &machine, &mut notes);
    if info {
        return print_info(&machine, &chosen, &notes);
    }
    let name = String::from_utf8_lossy(argument(arguments, 0)).into_owned();
    let name = name.rsplit('/').next().unwrap_or_default();
    let reason = match chosen {
        Err(reason) => reason,
        Ok(build) => {
            if !notes.is_empty() {
                let _ = writeln!(std::io::stderr(), "{name}: note: {notes}");
            }
            std::env::set_var(CHOSEN, build.name);
            start(build, arguments)
        }
    };
    let _ = writeln!(std::io::stderr(), "{name}: error: {reason}");
    NOT_STARTED
}

fn argument<'a>(arguments: *const *const c_char, index: usize) -> &'a [u8] {
    // The system ends the list with a null pointer.
    unsafe {
        match (0..=index).any(|index| (*arguments.add(index)).is_null()) {
            true => b"",
            false => CStr::from_ptr(*arguments.add(index)).to_bytes(),
        }
    }
}

/// Becomes the program. Returns why that failed.
fn start(build: &Build, arguments: *const *const c_char) -> String {
    let here = std::env::current_exe().unwrap_or_default();
    let bundle = here.parent().and_then(|bin| bin.parent());
    let program: PathBuf = bundle.map(|it| it.join(build.program)).unwrap_or_default();
    if let Ok(path) = CString::new(program.as_os_str().as_bytes()) {
        unsafe { execv(path.as_ptr(), arguments) };
    }
    let error = std::io::Error::last_os_error();
    format!("could not start {}: {error}", program.display())
}

/// The build to start, or why there is none. `notes` gets what the user should know about the choice.
fn choose(
    named: Option<&OsStr>,
    machine: &Result<Machine, String>,
    notes: &mut String,
) -> Result<&'static Build, String> {
    if let Some(named) = named {
        let named_build = BUILDS.iter().find(|build| build.name == named);
        return named_build.ok_or_else(|| {
            let names: Vec<&str> = BUILDS.iter().map(|build| build.name).collect();
            let named = named.to_string_lossy();
            format!(
                "`{BUILD}` names the build `{named}`, and there are {}",
                names.join(", ")
            )
        });
    }
    let best = match machine {
        Ok(machine) => best(machine, notes),
        Err(reason) => Err(reason.clone()),
    };
    best.or_else(|reason| {
        let fallback = BUILDS
            .iter()
            .find(|build| build.cuda == 0)
            .ok_or_else(|| reason.clone())?;
        let _ = write!(notes, "{reason}; starting the build without CUDA");
        Ok(fallback)
    })
}

/// How well a build serves a GPU: compiled code before code that the driver compiles, then the newest CUDA, then the
/// closest capability.
fn rank(build: &Build, machine: &Machine, gpu: c_int) -> Option<(bool, c_int, c_int)> {
    let runs = |code: &&Code| (code.from..=code.to).contains(&gpu) && code.cuda <= machine.cuda;
    let code = build
        .code
        .iter()
        .filter(runs)
        .filter(|_| build.cuda <= machine.cuda);
    code.map(|code| (code.is_native, build.cuda, code.from))
        .max()
}

/// The best build for all GPUs, otherwise for the first one.
fn best(machine: &Machine, notes: &mut String) -> Result<&'static Build, String> {
    let driver = release(machine.cuda);
    let with_cuda = BUILDS.iter().filter(|build| build.cuda > 0);
    let oldest = with_cuda.clone().min_by_key(|build| build.cuda);
    if let Some(oldest) = oldest.filter(|oldest| oldest.cuda > machine.cuda) {
        return Err(format!(
            "this driver is for CUDA {driver}, and CUDA {} is needed: install driver {} or newer",
            release(oldest.cuda),
            oldest.driver
        ));
    }
    let first = machine.gpus[0];
    let ranked = with_cuda.filter_map(|build| {
        let ranks: Vec<_> = machine
            .gpus
            .iter()
            .map(|gpu| rank(build, machine, *gpu))
            .collect();
        let unserved = ranks.iter().position(Option::is_none);
        let worst = ranks.iter().map(|rank| rank.map(|rank| rank.0)).min();
        Some((unserved.is_none(), worst, ranks[0]?, unserved, build))
    });
    let best = ranked.max_by_key(|(serves_all, worst, first, ..)| (*serves_all, *worst, *first));
    let Some((.., unserved, build)) = best else {
        let code = BUILDS.iter().flat_map(|build| build.code);
        let newer = code.filter(|code| (code.from..=code.to).contains(&first));
        let newer = newer.map(|code| code.cuda).min();
        let newer = newer.map_or(String::new(), |cuda| {
            format!(": install a driver for CUDA {} or newer", release(cuda))
        });
        return Err(format!(
            "no build has code for this GPU, whose compute capability is {}, that its driver (for CUDA {driver}) can \
             run{newer}",
            capability(first)
        ));
    };
    if let Some(other) = unserved {
        let (name, number) = (build.name, capability(machine.gpus[other]));
        let _ = write!(
            notes,
            "the build {name} has no code for GPU {other}, whose compute capability is {number}"
        );
    }
    Ok(build)
}

/// Prints what would be started and why.
fn print_info(
    machine: &Result<Machine, String>,
    chosen: &Result<&Build, String>,
    notes: &str,
) -> c_int {
    if let Ok(machine) = machine {
        println!("driver: CUDA {}", release(machine.cuda));
        for (index, gpu) in machine.gpus.iter().enumerate() {
            println!("GPU {index}: compute capability {}", capability(*gpu));
            for build in BUILDS.iter().filter(|build| build.cuda > 0) {
                let runs = match rank(build, machine, *gpu) {
                    Some((true, ..)) => "has code for it",
                    Some(_) => "has PTX, which the driver compiles",
                    None => "does not run on it",
                };
                println!("  {} {runs}", build.name);
            }
        }
    }
    if !notes.is_empty() {
        println!("note: {notes}");
    }
    match chosen {
        Ok(build) => println!("build: {}", build.name),
        Err(reason) => println!("error: {reason}"),
    }
    chosen.as_ref().map_or(NOT_STARTED, |_| 0)
}

fn release(cuda: c_int) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

fn capability(number: c_int) -> String {
    format!("{}.{}", number / 10, number % 10)
}

/// What the driver says, or why it says nothing.
fn machine() -> Result<Machine, String> {
    const RTLD_NOW: c_int = 2;
    let driver = unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW) };
    if driver.is_null() {
        let error = unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy();
        return Err(format!(
            "NVIDIA's driver is not installed, or not visible here ({error})"
        ));
    }
    let function = |name: &CStr| {
        let function = unsafe { dlsym(driver, name.as_ptr()) };
        let name = name.to_string_lossy();
        let missing = || format!("libcuda.so.1 is no driver of NVIDIA's: it has no {name}");
        (!function.is_null())
            .then_some(function)
            .ok_or_else(missing)
    };
    // The functions have these types in `cuda.h`.
    type One = extern "C" fn(*mut c_int) -> c_int;
    type Init = extern "C" fn(c_uint) -> c_int;
    type Get = extern "C" fn(*mut c_int, c_int) -> c_int;
    type Attribute = extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    let get_version: One = unsafe { transmute(function(c"cuDriverGetVersion")?) };
    let init: Init = unsafe { transmute(function(c"cuInit")?) };
    let get_count: One = unsafe { transmute(function(c"cuDeviceGetCount")?) };
    let get: Get = unsafe { transmute(function(c"cuDeviceGet")?) };
    let attribute: Attribute = unsafe { transmute(function(c"cuDeviceGetAttribute")?) };
    let (mut cuda, mut count) = (0, 0);
    succeeded(get_version(&mut cuda))?;
    succeeded(init(0))?;
    succeeded(get_count(&mut count))?;
    let mut gpus = Vec::new();
    for index in 0..count {
        let (mut device, mut major, mut minor) = (0, 0, 0);
        succeeded(get(&mut device, index))?;
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
        succeeded(attribute(&mut major, 75, device))?;
        succeeded(attribute(&mut minor, 76, device))?;
        gpus.push(10 * major + minor);
    }
    if gpus.is_empty() {
        succeeded(100)?;
    }
    Ok(Machine { cuda, gpus })
}

/// An error of the driver, in words.
fn succeeded(code: c_int) -> Result<(), String> {
    let text = match code {
        0 => return Ok(()),
        34 => "the libcuda.so.1 that was found is a stub of the toolkit: take its directory out of LD_LIBRARY_PATH",
        100 if std::env::var_os("CUDA_VISIBLE_DEVICES").is_some() => {
            "the driver shows no GPU; `CUDA_VISIBLE_DEVICES` is set"
        }
        100 => "the driver shows no GPU",
        802 => "the driver is not ready: on machines with NVSwitch, the fabric manager has to run",
        803 => "the driver's library and kernel module have different versions: restart the machine",
        804 => {
            "the compatibility package of CUDA (cuda-compat), which container images have, does not support this GPU: \
             update the driver, or take the package's directory out of LD_LIBRARY_PATH"
        }
        999 => {
            "the driver cannot reach a GPU: start a container with its GPUs (docker run --gpus all); elsewhere, load \
             the kernel module again (modprobe -r nvidia_uvm; modprobe nvidia_uvm)"
        }
        _ => return Err(format!("the driver ended with error {code}")),
    };
    Err(text.to_owned())
}

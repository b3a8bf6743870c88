//! What `doctor` found, as text and as JSON. Both print the same values.

pub mod driver;
mod json;
pub mod machine;
mod text;
mod verdict;

use std::path::PathBuf;

use cuda_build::component::Class;
use cuda_build::driver::{Driver, NoDriver};
use cuda_build::host_compiler::HostCompiler;
use cuda_build::release::HALF_NEEDS_CCCL_SINCE;
use cuda_build::{Component, Error, Outcome, Toolkit};

use crate::failure::Failure;
use crate::workspace::Workspace;

pub use json::json;
pub use text::text;
pub use verdict::{Verdict, verdict};

/// Package and plan for each that declares capabilities, or why the toolkit can't do them.
pub type Plans = Result<Vec<(String, String)>, Vec<String>>;

/// Everything `doctor` looked at.
#[derive(Debug)]
pub struct Diagnosis<'a> {
    /// Variables that are set.
    pub variables: Vec<(String, String)>,
    /// The search.
    pub report: &'a Outcome,
    /// The toolkit with nvcc that what needs one gets, where the one that was chosen has none.
    pub compiler: Option<&'a Toolkit>,
    /// What nvcc hands host code to, or why nothing will do; `None` where there is no nvcc.
    pub host: Option<Result<HostCompiler, Error>>,
    /// What the driver says, or why it says nothing.
    pub driver: &'a Result<Driver, NoDriver>,
    /// The version of the driver's kernel module, where the system tells it.
    pub module: Option<String>,
    /// What driver and GPUs mean for what is built here.
    pub driver_notes: Vec<String>,
    /// What kind of machine this is means for its driver.
    pub machine_notes: Vec<String>,
    /// Programs that some command starts.
    pub programs: Vec<Program>,
    /// The workspace at hand.
    pub workspace: Option<&'a Workspace>,
    /// Packages that compile without saying what for, on a machine that has no GPU to ask.
    pub undeclared: Vec<String>,
    /// Optional components that packages are built without, a sentence each.
    pub absent: Vec<String>,
    /// Package and plan, or why the toolkit can't do what is declared.
    pub capabilities: Option<Plans>,
}

/// A program that some command starts.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Where it is on `PATH`.
    pub path: Option<PathBuf>,
}

/// The exit code that a build would end with.
#[must_use]
pub fn code_of(error: &Error) -> u8 {
    Failure::code_of(error)
}

/// What a reader of the choice should know: of the search, and of the components themselves.
#[must_use]
pub fn notes(toolkit: &Toolkit) -> Vec<String> {
    let mut notes: Vec<String> = toolkit.notes().iter().map(ToString::to_string).collect();
    for found in toolkit.components().iter().map(|chosen| &chosen.found) {
        let other = found
            .toolkit
            .filter(|release| *release != toolkit.version());
        if let Some(release) = other.filter(|_| found.component.facts().follows_toolkit) {
            notes.push(match found.component.facts().class {
                Class::Provider => format!("{found} is of CUDA {release}: what uses it must not be newer"),
                _ => format!(
                    "{found} is of CUDA {release}, which fits: compiler and headers alone have to be of one release"
                ),
            });
        }
    }
    let compiles = [Component::Nvcc, Component::Nvrtc]
        .iter()
        .any(|c| toolkit.get(*c).is_some());
    if compiles && toolkit.get(Component::Cccl).is_none() {
        let major = toolkit.version().major;
        let package = Component::Cccl
            .facts()
            .package(major)
            .unwrap_or("nvidia-cuda-cccl");
        let half = if major >= HALF_NEEDS_CCCL_SINCE {
            ", and `cuda_fp16.h`,"
        } else {
            ""
        };
        notes.push(format!(
            "no cccl: kernels that include CUB, Thrust or libcu++{half} will not compile; `{package}` has it"
        ));
    }
    notes
}

//! Reports: what `doctor` found, and JSON for all commands.

pub mod driver;
mod findings;
pub mod machine;
mod verdict;

use std::path::Path;

use cuda_build::internal::Outcome;
use cuda_build::internal::component::Class;
use cuda_build::internal::driver::{Driver, NoDriver};
use cuda_build::internal::host_compiler::HostCompiler;
use cuda_build::internal::release::HALF_NEEDS_CCCL_SINCE;
use cuda_build::{Component, Error, Toolkit};
use serde::Serialize;

use crate::failure::Failure;
use crate::workspace::Workspace;

pub use findings::Findings;
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
    /// Packages that compile without declared capabilities, on a machine without a GPU.
    pub undeclared: Vec<String>,
    /// Optional components that packages are built without, a sentence each.
    pub absent: Vec<String>,
    /// Package and plan, or why the toolkit can't do what is declared.
    pub capabilities: Option<Plans>,
}

/// A program that some command starts.
#[derive(Debug, Serialize)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    #[serde(skip)]
    pub purpose: &'static str,
    /// Where it is on `PATH`.
    pub path: Option<String>,
}

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
const FORMAT_VERSION: u32 = 1;

/// A report as one JSON object and a newline.
#[must_use]
pub fn json(report: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        format_version: u32,
        #[serde(flatten)]
        report: &'a T,
    }
    let versioned = Versioned {
        format_version: FORMAT_VERSION,
        report,
    };
    // Reports hold strings, numbers and lists of them: nothing that JSON cannot hold.
    let text = serde_json::to_string_pretty(&versioned).unwrap_or_default();
    format!("{text}\n")
}

/// A path in a report. Bytes that are not UTF-8 are replaced: JSON cannot hold them.
#[must_use]
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
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

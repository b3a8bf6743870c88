//! The findings of `doctor`, from which both JSON and text are written.

use std::collections::BTreeMap;

use cuda_build::internal::Outcome;
use cuda_build::internal::component::Class;
use cuda_build::internal::driver::{self, NoDriver};
use cuda_build::internal::host_compiler::HostCompiler;
use cuda_build::internal::probe::Attempt;
use cuda_build::internal::release::HALF_NEEDS_CCCL_SINCE;
use cuda_build::internal::select::Note;
use cuda_build::{Component, Error, Found, Toolkit};
use serde::Serialize;

use super::machine::Machine;
use super::shown;
use super::verdict::verdict;
use crate::failure::Failure;

/// Everything that was found. Fields that JSON skips are for the text and the verdict.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub environment: BTreeMap<String, String>,
    pub(super) attempts: Vec<AttemptFindings>,
    pub(super) warnings: Vec<String>,
    pub(super) toolkit: Option<ToolkitFindings>,
    pub(super) problem: Option<Problem>,
    /// `None` if no capabilities are declared.
    pub capabilities: Option<Capabilities>,
    /// Packages with device code that declare no capabilities, on a machine without a GPU.
    pub capabilities_undeclared: Vec<String>,
    /// One sentence for each optional component that a package declares and the toolkit lacks.
    pub optional_absent: Vec<String>,
    /// Components that dependencies probably need, as their features suggest, and that the toolkit lacks.
    pub missing_for_features: Vec<MissingComponent>,
    /// `None` if the toolkit has no nvcc.
    pub host_compiler: Option<HostCompilerFindings>,
    /// `None` if no variable names a launcher, or if there is no nvcc or no host compiler.
    pub launcher: Option<LauncherFindings>,
    pub driver: Driver,
    pub programs: Vec<Program>,
    build_will_work: bool,
    pub(super) verdict: String,
    #[serde(skip)]
    pub workspace: Option<String>,
    /// Whether a package of the workspace uses pyo3, or there is no workspace.
    #[serde(skip)]
    pub builds_wheels: bool,
    /// Whether a package of the workspace uses `cuda-build`, so that a build may compile device code.
    /// Always true outside a workspace.
    #[serde(skip)]
    pub compiles: bool,
    /// Whether the build is for another platform, whose NVRTC cannot be loaded here.
    #[serde(skip)]
    pub is_cross: bool,
    /// The exit code that a build would have.
    #[serde(skip)]
    pub code: u8,
}

#[derive(Debug, Serialize)]
pub(super) struct AttemptFindings {
    step: &'static str,
    source: String,
    path: String,
    found: Vec<ComponentFindings>,
    unusable: Vec<Unusable>,
    remarks: Vec<String>,
    #[serde(skip)]
    pub line: String,
}

#[derive(Debug, Serialize)]
struct Unusable {
    component: &'static str,
    major: u32,
    reason: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ComponentFindings {
    pub component: &'static str,
    major: u32,
    version: Option<String>,
    toolkit: Option<String>,
    include: Vec<String>,
    libraries: Vec<String>,
    archives: Vec<String>,
    tools: Vec<String>,
    pub evidence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip)]
    pub name: String,
    /// The path of its source, such as a root or a `site-packages` directory.
    #[serde(skip)]
    pub place: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolkitFindings {
    pub version: String,
    pub combined: bool,
    pub components: Vec<ComponentFindings>,
    pub remarks: Vec<String>,
    /// The remarks that the user should act on.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Problem {
    pub message: String,
    pub hints: Vec<String>,
    #[serde(skip)]
    pub(super) code: u8,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self {
            message: error.to_string(),
            hints: error.hints(),
            code: Failure::exit_code_for(error),
        }
    }
}

/// The plan of each package, or the reasons why the toolkit cannot build some packages.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Capabilities {
    Plans(BTreeMap<String, String>),
    Refused(Vec<String>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum HostCompilerFindings {
    Chosen {
        path: String,
        family: String,
        version: String,
        named_to_nvcc: Option<String>,
    },
    Refused {
        refused: String,
        hints: Vec<String>,
        #[serde(skip)]
        code: u8,
    },
}

#[derive(Debug, Serialize)]
pub struct MissingComponent {
    pub component: &'static str,
    /// The feature that has the component's name, and its package.
    pub feature: String,
    pub package: String,
    /// Whether a build links it. Otherwise programs load it when they run.
    pub is_linked: bool,
}

/// The launcher of nvcc, such as ccache.
#[derive(Debug, Serialize)]
pub struct LauncherFindings {
    /// `None` if the program that the variable names does not exist.
    pub program: Option<String>,
    pub variable: Option<&'static str>,
    /// Why builds do not use the launcher; `None` if they use it.
    pub reason_unused: Option<String>,
}

impl LauncherFindings {
    pub fn absent(reason: String) -> Self {
        Self {
            program: None,
            variable: None,
            reason_unused: Some(reason),
        }
    }
}

/// The driver. If there is none, `absent` has the reason.
#[derive(Debug, Default, Serialize)]
pub struct Driver {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absent: Option<String>,
    /// Whether the driver's library exists. If `absent` has a reason, it could not be loaded or queried.
    #[serde(skip)]
    pub(super) is_installed: bool,
    pub(super) cuda: Option<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) library: Option<String>,
    /// The version of the kernel module, if the system reports it.
    pub(super) module: Option<String>,
    /// Warnings about running the built programs with this driver and these GPUs.
    pub warnings: Vec<String>,
    /// Notes about the driver on this kind of machine: WSL, NixOS, Jetson, container.
    pub(super) notes: Vec<String>,
}

/// A program that commands may start.
#[derive(Debug, Serialize)]
pub struct Program {
    pub name: &'static str,
    #[serde(skip)]
    pub purpose: &'static str,
    /// Where it is on `PATH`.
    pub path: Option<String>,
}

impl Findings {
    /// The findings of a search, outside a workspace, on a machine with this driver.
    pub fn new(
        outcome: &Outcome,
        driver: &Result<driver::Driver, NoDriver>,
        machine: Machine,
    ) -> Self {
        let toolkit = outcome.toolkit.as_ref();
        let mut report = Driver {
            notes: machine.notes(driver),
            module: machine.module,
            ..Driver::default()
        };
        match driver {
            Ok(driver) => {
                report.cuda = Some(driver.version.to_string());
                report.capabilities = driver.gpus.iter().map(ToString::to_string).collect();
                report.library = Some(driver.library.clone());
            }
            Err(reason) => {
                report.absent = Some(reason.to_string());
                report.is_installed = reason.is_installed;
            }
        }
        Self {
            attempts: outcome.attempts.iter().map(AttemptFindings::new).collect(),
            warnings: outcome.remarks.clone(),
            toolkit: toolkit
                .ok()
                .map(|toolkit| ToolkitFindings::new(toolkit, &outcome.attempts)),
            problem: toolkit.err().map(Problem::from),
            driver: report,
            compiles: true,
            builds_wheels: true,
            ..Self::default()
        }
    }

    /// Adds the verdict, which depends on all other findings.
    pub fn judged(mut self) -> Self {
        (self.code, self.verdict) = verdict(&self);
        self.build_will_work = self.code == crate::exit_code::SUCCESS;
        self
    }
}

impl AttemptFindings {
    fn new(attempt: &Attempt) -> Self {
        let found = attempt.sets.iter().flat_map(|set| &set.found);
        let unusable = attempt.unusable.iter().map(|unusable| Unusable {
            component: unusable.component.id(),
            major: unusable.major,
            reason: unusable.reason.clone(),
        });
        Self {
            step: attempt.candidate.step.id(),
            source: attempt.candidate.label.to_string(),
            path: shown(&attempt.candidate.path),
            found: found
                .map(|f| ComponentFindings::new(f, None, String::new()))
                .collect(),
            unusable: unusable.collect(),
            remarks: attempt.remarks.clone(),
            line: format!("{}: {}", attempt.candidate, attempt.summary()),
        }
    }
}

impl ComponentFindings {
    fn new(found: &Found, origin: Option<&str>, place: String) -> Self {
        let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| shown(path)).collect();
        Self {
            component: found.component.id(),
            major: found.major,
            version: found.version.as_ref().map(ToString::to_string),
            toolkit: found.release.map(|toolkit| toolkit.to_string()),
            include: paths(&found.include),
            libraries: paths(&found.libraries),
            archives: paths(&found.archives),
            tools: paths(&found.tools),
            evidence: found.evidence.clone(),
            origin: origin.map(str::to_owned),
            name: found.to_string(),
            place,
        }
    }
}

impl ToolkitFindings {
    fn new(toolkit: &Toolkit, attempts: &[Attempt]) -> Self {
        let components = toolkit.components().iter();
        let place = |origin: &str| {
            let mut candidates = attempts.iter().map(|attempt| &attempt.candidate);
            let own = candidates.find(|candidate| candidate.to_string() == origin);
            own.map_or_else(|| origin.to_owned(), |candidate| shown(&candidate.path))
        };
        Self {
            version: toolkit.version().to_string(),
            combined: toolkit.is_combined(),
            components: components
                .map(|chosen| {
                    ComponentFindings::new(
                        &chosen.found,
                        Some(&chosen.origin),
                        place(&chosen.origin),
                    )
                })
                .collect(),
            remarks: remarks(toolkit),
            warnings: toolkit
                .notes()
                .iter()
                .filter(|note| {
                    matches!(
                        note,
                        Note::LockNotFetched { .. } | Note::Incompatible { .. }
                    )
                })
                .map(ToString::to_string)
                .collect(),
        }
    }

    pub fn has(&self, component: Component) -> bool {
        let mut components = self.components.iter();
        components.any(|found| found.component == component.id())
    }
}

impl From<Result<HostCompiler, Error>> for HostCompilerFindings {
    fn from(host: Result<HostCompiler, Error>) -> Self {
        match host {
            Ok(host) => Self::Chosen {
                path: shown(&host.compiler.path),
                family: host.compiler.family.to_string(),
                version: host.compiler.version,
                named_to_nvcc: host.option.as_deref().map(shown),
            },
            Err(error) => Self::Refused {
                refused: error.to_string(),
                hints: error.hints(),
                code: Failure::exit_code_for(&error),
            },
        }
    }
}

/// Remarks about the chosen toolkit: notes of the search, and notes about its components.
fn remarks(toolkit: &Toolkit) -> Vec<String> {
    let mut notes: Vec<String> = toolkit.notes().iter().map(ToString::to_string).collect();
    for found in toolkit.components().iter().map(|chosen| &chosen.found) {
        let facts = found.component.facts();
        let other = found.release.filter(|own| *own != toolkit.version());
        let Some(release) = other.filter(|_| facts.follows_toolkit) else {
            continue;
        };
        notes.push(match facts.class {
            Class::Provider => {
                format!("{found} is from CUDA {release}: what uses it must not be newer")
            }
            _ => format!(
                "{found} is from CUDA {release}, which fits: compiler and headers alone have to be of one release"
            ),
        });
    }
    let compiles = [Component::Nvcc, Component::Nvrtc]
        .iter()
        .any(|c| toolkit.get(*c).is_some());
    if compiles && toolkit.get(Component::Cccl).is_none() {
        let major = toolkit.version().major;
        let package = Component::Cccl.facts().package(major);
        let half = match major >= HALF_NEEDS_CCCL_SINCE {
            true => ", and `cuda_fp16.h`,",
            false => "",
        };
        notes.push(format!(
            "no cccl: kernels that include CUB, Thrust or libcu++{half} will not compile; the package `{}` contains it",
            package.unwrap_or("nvidia-cuda-cccl")
        ));
    }
    notes
}

//! `cargo cuda doctor`: what a build would do on this machine, and why.

use clap::Args;
use cuda_build::diagnosis::c_library_conflict;
use cuda_build::driver::{self, Driver, NoDriver};
use cuda_build::{Capability, Component, Toolkit, ToolkitVersion, host_compiler};
use cuda_find_core::release::is_nvcc_packaged;
use cuda_find_core::{
    env::Env,
    found::Found,
    list::joined,
    root::Root,
    search::Outcome,
    select::{Need, Part, RequestedRelease},
    toolkit::Note,
};

use crate::driver_limit::DriverLimit;
use crate::failure::Failure;
use crate::isolated_build::{Capabilities, Purpose, note_about_cudarc};
use crate::project::{BuildOptions, Project, WorkspaceOptions};
use crate::report::{self, Diagnosis, RowState};
use crate::{exit_code, output};

/// Print whether a build will work, and what it will use
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Report as if this CUDA release were requested: 13 or 13.4
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<RequestedRelease>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Returns the report, with the exit code that a build would have.
pub fn run(arguments: &DoctorArgs, user_env: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let build = BuildOptions::new(arguments.cuda, false);
    let project = Project::open(user_env, root, &build, &arguments.workspace)?;
    let outcome = project.finder().outcome()?;
    let driver = driver::driver();
    let gpus = driver.as_ref().map_or(&[][..], |driver| &driver.gpus);
    let mut diagnosis = Diagnosis::of_search(&outcome);
    if let Ok(toolkit) = &outcome.toolkit {
        diagnosis.add_capabilities(toolkit, &project, gpus);
        diagnosis.add_absent_components(toolkit, &project);
        diagnosis.add_cudarc(toolkit, &project);
        let mut packages = project.packages.iter();
        let is_native = project.target.is_native();
        let needs_engine =
            project.workspace.is_none() || packages.any(|package| package.uses_cuda_build);
        let has_nvrtc = is_native && toolkit.get(Component::Nvrtc).is_some();
        let has_host_compiler =
            diagnosis.add_host_compiler(toolkit, &project, needs_engine && !has_nvrtc);
        diagnosis.set_verdict(toolkit, is_native, has_host_compiler);
    }
    diagnosis.add_driver(&driver);
    if let (Ok(driver), Ok(toolkit)) = (&driver, &outcome.toolkit) {
        diagnosis.add_driver_limit(driver, toolkit.version());
    }
    let text = match arguments.json {
        true => report::json(&diagnosis),
        false => diagnosis.text(output::is_verbose()),
    };
    Ok((text, diagnosis.exit_code))
}

const DECLARE: &str =
    "add `capabilities = [\"8.0\", \"9.0+PTX\"]` or similar to `[package.metadata.cuda]`";

impl Diagnosis {
    /// The places that were searched, and the toolkit or the reason why there is none.
    pub fn of_search(outcome: &Outcome) -> Self {
        let mut diagnosis = Self::default();
        for attempt in &outcome.attempts {
            diagnosis.add(RowState::Detail, "search", attempt.to_string());
        }
        for remark in &outcome.remarks {
            diagnosis.add(RowState::Warning, "search", remark);
        }
        match &outcome.toolkit {
            Ok(toolkit) => diagnosis.add_toolkit(toolkit),
            Err(error) => {
                let code = Failure::exit_code_of_search(error);
                let reason = match code {
                    exit_code::NOT_FOUND => "CUDA was not found, or a component is missing",
                    _ => "the CUDA that was found cannot be used",
                };
                diagnosis.fail(code, reason);
                diagnosis
                    .add(RowState::Error, "CUDA", error.to_string())
                    .hints = error.hints();
            }
        }
        diagnosis
    }

    fn add_toolkit(&mut self, toolkit: &Toolkit) {
        let topic = format!("CUDA {}", toolkit.version());
        let is_same_origin = |one: &Found, other: &Found| one.origin == other.origin;
        for same in toolkit.components().chunk_by(is_same_origin) {
            let components = joined(same.iter().map(|found| found.component), " ");
            let text = format!("{components}: {}", same[0].origin);
            self.add(RowState::Ok, &topic, text);
        }
        for found in toolkit.components() {
            self.add(RowState::Detail, &found.to_string(), &found.evidence);
        }
        for note in toolkit.notes() {
            let state = match note {
                Note::LockNotFetched { .. } | Note::Incompatible { .. } => RowState::Warning,
                Note::Combined(_) => RowState::Detail,
            };
            self.add(state, "note", note.to_string());
        }
        let version = toolkit.version();
        if toolkit.get(Component::Nvcc).is_none() {
            let text = "not found: libraries and crates that call nvcc do not build";
            let source = match is_nvcc_packaged(version.major) {
                true => "",
                false => " --from redist",
            };
            let hint = format!("run `cargo cuda toolkit add {version}{source}`");
            self.warn("nvcc", text, hint);
        }
        // A path that is not UTF-8 has no JSON.
        let file = toolkit.to_toml().ok();
        self.toolkit = file.and_then(|text| toml::from_str(&text).ok());
    }

    /// Adds the capabilities that a build would choose, or the reason why it would not start.
    fn add_capabilities(&mut self, toolkit: &Toolkit, project: &Project, gpus: &[Capability]) {
        let chosen = Capabilities::choose(project, Purpose::Cargo, toolkit, gpus, false);
        match chosen.map(|chosen| chosen.plan) {
            Ok(Some(plan)) => _ = self.add(RowState::Ok, "capabilities", plan.to_string()),
            Ok(None) if project.workspace.is_some() => {
                let text = "none are declared, and this machine has no GPU: build scripts that ask for its GPU fail";
                self.warn("capabilities", text, DECLARE);
            }
            Ok(None) => {}
            Err(failure) => {
                self.fail(failure.code, "the capabilities cannot be compiled");
                let row = self.add(RowState::Error, "capabilities", failure.message);
                row.hints = failure.hints;
            }
        }
    }

    /// Adds components that dependencies probably need, if the toolkit lacks them.
    fn add_absent_components(&mut self, toolkit: &Toolkit, project: &Project) {
        let is_met = |need: &Need| {
            let found = toolkit.get(need.component);
            found.is_some_and(|found| need.is_met_by(found))
        };
        for guess in project.finder().guesses() {
            let component = guess.component;
            if is_met(&Need::new(component, Part::main(component), "")) {
                continue;
            }
            let mut text = format!("not found; the {} needs it", guess.reason);
            let mut state = RowState::Error;
            if guess.is_loaded {
                state = RowState::Warning;
                text += " when a program runs";
            } else {
                self.fail(exit_code::NOT_FOUND, &format!("missing {component}"));
            }
            let row = self.add(state, component.id(), text);
            row.hints.push("`cargo cuda fetch` fetches it".to_owned());
        }
    }

    /// Adds what the cudarc in Cargo.lock requires of the toolkit.
    fn add_cudarc(&mut self, toolkit: &Toolkit, project: &Project) {
        let version = toolkit.version();
        let newest = project.needs.dependencies.newest_for_cudarc();
        let newest = newest.filter(|newest| newest.major < version.major);
        let unmet = newest.and_then(|it| DriverLimit::of_cudarc(it).unmet(version));
        let failure = match note_about_cudarc(project, version) {
            Err(failure) => Some((failure.message, failure.hints.concat())),
            Ok(note) => {
                let note = note.into_iter();
                note.for_each(|note| _ = self.add(RowState::Warning, "cudarc", note));
                unmet
            }
        };
        if let Some((text, hint)) = failure {
            self.fail(exit_code::INCONSISTENT, "cudarc is for another CUDA");
            self.add(RowState::Error, "cudarc", text).hints.push(hint);
        }
    }

    /// Adds nvcc's host compiler. `is_required` is whether nvcc is the only engine of a build script. Returns `false`
    /// if nvcc accepts no compiler.
    fn add_host_compiler(
        &mut self,
        toolkit: &Toolkit,
        project: &Project,
        is_required: bool,
    ) -> bool {
        if toolkit.get(Component::Nvcc).is_none() {
            return true;
        }
        let (env, root) = (&project.search_env, &project.root);
        match host_compiler::choose(env, root, toolkit, &project.target) {
            Ok(host) => {
                self.add(RowState::Ok, "host compiler", host.compiler.to_string());
                if let Some(text) = c_library_conflict(toolkit, root, &host.compiler) {
                    let reason = "the C library is newer than the CUDA";
                    self.fail(exit_code::INCONSISTENT, reason);
                    self.add(RowState::Error, "C library", text);
                }
                true
            }
            Err(error) => {
                if is_required {
                    let reason = "nvcc accepts no host compiler, and NVRTC is missing";
                    self.fail(Failure::exit_code_for(&error), reason);
                }
                let row = self.add(RowState::Warning, "host compiler", error.to_string());
                row.hints = error.hints();
                false
            }
        }
    }

    fn add_driver(&mut self, driver: &Result<Driver, NoDriver>) {
        match driver {
            Ok(driver) => {
                let gpus = match driver.gpus.as_slice() {
                    [] => "no GPU".to_owned(),
                    gpus => format!("GPU {}", joined(gpus, ", ")),
                };
                let text = format!("for CUDA {}, {gpus}, {}", driver.version, driver.library);
                self.add(RowState::Ok, "driver", text);
            }
            Err(reason) => {
                let text = format!("{reason} (not needed to build)");
                self.add(RowState::Warning, "driver", text);
            }
        }
    }

    /// Adds a warning if this machine's driver does not run what the toolkit builds.
    fn add_driver_limit(&mut self, driver: &Driver, toolkit: ToolkitVersion) {
        if let Some((text, hint)) = DriverLimit::of_machine(driver.version).unmet(toolkit) {
            self.warn("driver", text, hint);
        }
    }

    /// The verdict on a toolkit, unless a failure is the verdict already. `has_host_compiler` is whether nvcc accepts
    /// one, or there is no nvcc. NVRTC is not counted if the build is not native, because NVRTC for another platform
    /// cannot be loaded here.
    pub fn set_verdict(&mut self, toolkit: &Toolkit, is_native: bool, has_host_compiler: bool) {
        let has_nvrtc = is_native && toolkit.get(Component::Nvrtc).is_some();
        let except = match toolkit.get(Component::Nvcc) {
            Some(_) if has_host_compiler => "",
            Some(_) => ", except with nvcc, which accepts no host compiler",
            None if has_nvrtc => ", except with nvcc, which is missing",
            None => ", except device code: nvcc and NVRTC are missing",
        };
        if self.verdict.is_empty() {
            self.verdict = format!("Ready to build{except}.");
        }
    }
}

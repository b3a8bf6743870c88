//! `cargo cuda doctor`: what a build would do on this machine, and why.

use std::collections::BTreeMap;

use clap::Args;
use cuda_build::driver::{self, Driver, NoDriver};
use cuda_build::{Capability, Component, Error, Plan, Toolkit, ToolkitVersion};
use cuda_build::{host_compiler, script::request};
use cuda_find_core::capability::Support;
use cuda_find_core::{
    capability::Declared,
    env::Env,
    link::nixos_driver_directory,
    release::HALF_NEEDS_CCCL_SINCE,
    root::Root,
    search::Outcome,
    select::{Need, Part, RequestedRelease, Strength},
    toolkit::Note,
};

use crate::driver_limit::DriverLimit;
use crate::failure::Failure;
use crate::isolated_build::{TargetDirectory, wrapper_state};
use crate::project::{BuildOptions, CAPABILITIES, Project, WorkspaceOptions};
use crate::report::{self, Diagnosis, State};
use crate::workspace::Resolve;
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
    let mut workspace = arguments.workspace.clone();
    workspace.resolve = Resolve::IfPossible;
    let project = Project::open(user_env, root, &build, &workspace)?;
    let outcome = project.finder().outcome()?;
    let driver = driver::driver();
    let mut diagnosis = Diagnosis::of_search(&outcome);
    if let Ok(toolkit) = &outcome.toolkit {
        let gpus = driver.as_ref().map_or(&[][..], |driver| &driver.gpus);
        let plans = diagnosis.add_capabilities(toolkit, &project, gpus);
        diagnosis.add_absent_components(toolkit, &project);
        if let Some(text) = wrapper_state(&project, toolkit, gpus) {
            diagnosis.add(State::Detail, "nvcc wrapper", text);
            for note in TargetDirectory::latest(&project)?.wrapper_notes(root) {
                diagnosis.add(State::Detail, "last build", note);
            }
        }
        let host_compiler_error = diagnosis.add_host_compiler(toolkit, &project);
        diagnosis.add_driver(&driver, root);
        if let Ok(driver) = &driver {
            diagnosis.add_driver_limits(driver, toolkit.version(), &plans);
        }
        let mut packages = project.packages.iter();
        let uses_cuda_build =
            project.workspace.is_none() || packages.any(|package| package.uses_cuda_build);
        let is_native = project.target.is_native();
        diagnosis.set_verdict(toolkit, uses_cuda_build, is_native, host_compiler_error);
    } else {
        diagnosis.add_driver(&driver, root);
    }
    // This comes last, because every step above may read more variables.
    diagnosis.add_variables(&project.env, &project.search_env.names_read());
    let text = match arguments.json {
        true => report::json(&diagnosis),
        false => diagnosis.text(output::is_verbose(), output::stdout_has_colour()),
    };
    Ok((text, diagnosis.exit_code))
}

impl Diagnosis {
    /// The places that were searched, and the toolkit or the reason why there is none.
    pub fn of_search(outcome: &Outcome) -> Self {
        let mut diagnosis = Self::default();
        for attempt in &outcome.attempts {
            let text = format!("{}: {}", attempt.candidate, attempt.summary());
            diagnosis.add(State::Detail, "search", text);
        }
        for remark in &outcome.remarks {
            diagnosis.add(State::Warning, "search", remark);
        }
        match &outcome.toolkit {
            Ok(toolkit) => diagnosis.add_toolkit(toolkit),
            Err(error) => {
                let code = Failure::exit_code_of_search(error);
                let reason = match code {
                    exit_code::NOT_FOUND => "CUDA was not found, or a component is missing",
                    _ => "the CUDA that was found cannot be used",
                };
                let row = diagnosis.fail(code, reason, "CUDA", &error.to_string());
                row.hints = error.hints();
            }
        }
        diagnosis
    }

    fn add_toolkit(&mut self, toolkit: &Toolkit) {
        let version = toolkit.version();
        let mut origins: Vec<&String> = Vec::new();
        for chosen in toolkit.components() {
            if !origins.contains(&&chosen.origin) {
                origins.push(&chosen.origin);
            }
        }
        for origin in origins {
            let components = toolkit.components().iter();
            let same = components.filter(|chosen| chosen.origin == *origin);
            let ids: Vec<&str> = same.map(|chosen| chosen.component.id()).collect();
            let text = format!("{}: {origin}", ids.join(" "));
            self.add(State::Ok, &format!("CUDA {version}"), text);
        }
        for chosen in toolkit.components() {
            self.add(State::Detail, chosen, &chosen.evidence);
        }
        for note in toolkit.notes() {
            let state = match note {
                Note::LockNotFetched { .. } | Note::Incompatible { .. } => State::Warning,
                Note::OtherToolkits(_) | Note::Combined { .. } => State::Detail,
            };
            self.add(state, "note", note.to_string());
        }
        if toolkit.get(Component::Nvcc).is_none() {
            let text = "not found: libraries and crates that call nvcc do not build";
            self.add(State::Warning, "nvcc", text);
        }
        if toolkit.get(Component::Cccl).is_none() {
            // The header includes CCCL for nvcc, and not for NVRTC.
            let has_nvcc = toolkit.get(Component::Nvcc).is_some();
            let half = match has_nvcc && version.major >= HALF_NEEDS_CCCL_SINCE {
                true => ", and `cuda_fp16.h`,",
                false => "",
            };
            let text = format!(
                "not found: kernels that include CUB, Thrust or libcu++{half} do not compile"
            );
            self.add(State::Warning, "cccl", text);
        }
        // A path that is not UTF-8 has no JSON.
        let file = toolkit.to_toml().ok();
        self.toolkit = file.and_then(|text| toml::from_str(&text).ok());
    }

    /// Adds the plan of each package that declares capabilities, and a warning if the oldest driver that the manifest
    /// accepts does not run the code. Returns the plans.
    fn add_capabilities(
        &mut self,
        toolkit: &Toolkit,
        project: &Project,
        gpus: &[Capability],
    ) -> Vec<(String, Plan)> {
        let observed = toolkit.capabilities_of_ptxas(&project.root, &project.env);
        let version = toolkit.version();
        let mut lists = Vec::new();
        for package in &project.packages {
            let declared = package.config.for_major(version.major);
            if let Some(items) = declared.capabilities {
                let used = declared.components.iter().map(|c| c.component);
                lists.push((package.name.clone(), items.to_vec(), used.collect()));
            } else if package.uses_cuda_build && gpus.is_empty() {
                let text = "no capabilities are declared, and this machine has no GPU: `.cu` files do not compile";
                let row = self.add(State::Warning, &package.name, text);
                row.hints.push("add `capabilities = [\"8.0\", \"9.0+PTX\"]` or similar to `[package.metadata.cuda]`".to_owned());
            }
        }
        // The configuration of a package already contains the value of the variable.
        let variable = project.env.text(CAPABILITIES);
        if let Some(list) = variable.filter(|_| project.workspace.is_none()) {
            lists.push((CAPABILITIES.to_owned(), vec![list], Vec::new()));
        }
        let mut plans = Vec::new();
        for (name, capabilities, components) in lists {
            let plan = Declared::parse(&capabilities)
                .and_then(|declared| declared.plan(version, gpus, observed.as_deref()))
                .and_then(|plan| toolkit.check_plan(&plan, &components).map(|()| plan));
            match plan {
                Ok(plan) => {
                    self.add(State::Ok, &name, format!("capabilities {plan}"));
                    plans.push((name, plan));
                }
                Err(error) => {
                    let reason = format!("the capabilities of {name} cannot be compiled");
                    let row = self.fail(exit_code::CAPABILITY, &reason, &name, &error.to_string());
                    row.hints = error.hints();
                }
            }
        }
        for package in &project.packages {
            let mut plans = plans.iter().filter(|(name, _)| *name == package.name);
            let has_ptx = plans.any(|(_, plan)| !plan.ptx.is_empty());
            let limit = DriverLimit::of_manifests(std::iter::once(&package.config));
            if let Some((text, hint)) = limit.and_then(|limit| limit.unmet(version, has_ptx)) {
                let row = self.add(State::Warning, &package.name, text);
                row.hints.push(hint);
            }
        }
        plans
    }

    /// Adds components that dependencies probably need and optional components, if the toolkit lacks them.
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
            let text = format!("not found; the {} needs it", guess.reason);
            let row = match guess.is_loaded {
                false => {
                    let reason = format!("missing {component}");
                    self.fail(exit_code::NOT_FOUND, &reason, &component, &text)
                }
                true => {
                    let text = format!("{text} when a program runs");
                    self.add(State::Warning, &component, text)
                }
            };
            row.hints.push("`cargo cuda fetch` fetches it".to_owned());
        }
        let major = toolkit.version().major;
        for package in &project.packages {
            let request = request(&package.config);
            let is_absent = |need: &&Need| need.strength == Strength::Optional && !is_met(need);
            for need in request.needs_of(major).iter().filter(is_absent) {
                let component = need.component;
                let version = need.version.as_ref();
                let version = version.map_or(String::new(), |version| format!(" {version}"));
                let text = format!(
                    "optional {component}{version} was not found for CUDA {major}, so `cfg(cuda_have_{})` is off",
                    component.id().replace('-', "_")
                );
                self.add(State::Warning, &package.name, text);
            }
        }
    }

    /// Adds nvcc's host compiler. Returns the error if nvcc accepts none.
    fn add_host_compiler(&mut self, toolkit: &Toolkit, project: &Project) -> Option<Error> {
        toolkit.get(Component::Nvcc)?;
        let (env, root) = (&project.search_env, &project.root);
        match host_compiler::choose(env, root, toolkit, &project.target) {
            Ok(host) => {
                self.add(State::Ok, "host compiler", host.compiler.to_string());
                None
            }
            Err(error) => {
                let row = self.add(State::Warning, "host compiler", error.to_string());
                row.hints = error.hints();
                Some(error)
            }
        }
    }

    fn add_driver(&mut self, driver: &Result<Driver, NoDriver>, root: &Root) {
        match driver {
            Ok(driver) => {
                let gpus: Vec<String> = driver.gpus.iter().map(ToString::to_string).collect();
                let gpus = match gpus.is_empty() {
                    true => "no GPU".to_owned(),
                    false => format!("GPU {}", gpus.join(", ")),
                };
                let text = format!("for CUDA {}, {gpus}, {}", driver.version, driver.library);
                self.add(State::Ok, "driver", text);
            }
            Err(reason) => {
                let text = format!("{reason} (not needed to build)");
                let row = self.add(State::Warning, "driver", text);
                // If an installed driver fails to start, its own message explains the failure.
                row.hints
                    .extend(driver_hint(root).filter(|_| !reason.is_installed));
            }
        }
    }

    /// Adds warnings about running the built programs with this machine's driver and GPUs.
    fn add_driver_limits(
        &mut self,
        driver: &Driver,
        toolkit: ToolkitVersion,
        plans: &[(String, Plan)],
    ) {
        if let Some((text, hint)) = DriverLimit::of_machine(driver.version).unmet(toolkit, true) {
            self.add(State::Warning, "driver", text).hints.push(hint);
        }
        let mut gpus = driver.gpus.clone();
        gpus.sort();
        gpus.dedup();
        for (package, plan) in plans {
            for gpu in &gpus {
                let text = match plan.runs_on(*gpu, toolkit) {
                    Support::Native => continue,
                    Support::Jit if driver.version < toolkit => {
                        "only its PTX matches, which the driver is too old to compile"
                    }
                    Support::Jit => {
                        "only its PTX matches, which the driver compiles when a program starts"
                    }
                    Support::None => "no code for it",
                };
                let row = self.add(
                    State::Warning,
                    package,
                    format!("this machine's {gpu} GPU: {text}"),
                );
                row.hints.push(format!("add \"{gpu}\" to `capabilities`"));
            }
        }
    }

    /// The verdict on a toolkit, unless a failure is the verdict already. NVRTC is not counted if the build is not native,
    /// because NVRTC for another platform cannot be loaded here.
    pub fn set_verdict(
        &mut self,
        toolkit: &Toolkit,
        uses_cuda_build: bool,
        is_native: bool,
        host_compiler_error: Option<Error>,
    ) {
        if !self.verdict.is_empty() {
            return;
        }
        let has_nvcc = toolkit.get(Component::Nvcc).is_some();
        let has_nvrtc = is_native && toolkit.get(Component::Nvrtc).is_some();
        let reason_against_nvcc = match has_nvcc {
            true => "which accepts no host compiler",
            false => "which is missing",
        };
        let is_nvcc_usable = has_nvcc && host_compiler_error.is_none();
        if let Some(error) = host_compiler_error.filter(|_| uses_cuda_build && !has_nvrtc) {
            self.exit_code = Failure::exit_code_for(&error);
            let reason = "nvcc accepts no host compiler, and NVRTC is missing";
            self.verdict = format!("Not ready to build: {reason}.");
            return;
        }
        let ready_for = match (is_nvcc_usable, has_nvrtc) {
            (true, _) if !uses_cuda_build => ".".to_owned(),
            (false, _) if !uses_cuda_build => {
                format!(", except crates that call nvcc, {reason_against_nvcc}.")
            }
            (true, true) => ": modules with NVRTC or nvcc, libraries with nvcc.".to_owned(),
            (true, false) => ": modules and libraries with nvcc.".to_owned(),
            (false, true) => {
                format!(": modules with NVRTC; libraries need nvcc, {reason_against_nvcc}.")
            }
            (false, false) => ", except device code: nvcc and NVRTC are missing.".to_owned(),
        };
        self.verdict = format!("Ready to build{ready_for}");
    }

    /// Puts the variables that affect a build before all other rows: variables about CUDA, variables of compilers and of
    /// the loader, and the variables in `names_read`.
    fn add_variables(&mut self, env: &Env, names_read: &[String]) {
        const COMPILER_AND_LOADER: [&str; 3] = ["LIBRARY_PATH", "CPATH", "LD_LIBRARY_PATH"];
        const UNRELATED: [&str; 2] = ["HOME", "XDG_CACHE_HOME"];
        let is_shown = |name: &str| {
            name.starts_with("CUDA")
                || name.starts_with("NVCC")
                || COMPILER_AND_LOADER.contains(&name)
                || names_read.iter().any(|read| read == name) && !UNRELATED.contains(&name)
        };
        let variables: BTreeMap<_, _> = env.variables().collect();
        let rows = self.rows.len();
        for (name, value) in variables {
            if name.to_str().is_some_and(is_shown) && !value.is_empty() {
                let text = format!("{}={}", name.display(), value.display());
                self.add(State::Detail, "variable", text.replace('\n', "\\n"));
            }
        }
        self.rows.rotate_left(rows);
    }
}

/// How a driver is installed on this kind of machine.
fn driver_hint(root: &Root) -> Option<String> {
    let exists = |place: &str| root.exists(&root.locate(place));
    let kernel = root
        .text(&root.locate("/proc/sys/kernel/osrelease"))
        .unwrap_or_default();
    let is_wsl = kernel.to_lowercase().contains("microsoft");
    let is_container = exists("/.dockerenv") || exists("/run/.containerenv");
    let has_module = exists("/proc/driver/nvidia/version");
    let hint = if is_container && (is_wsl || has_module) {
        "start this container with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman)"
    } else if is_wsl {
        "this is WSL: install NVIDIA's driver in Windows, not in WSL"
    } else if nixos_driver_directory(root).is_some() {
        "this is NixOS: set `hardware.graphics.enable = true` and `services.xserver.videoDrivers = [ \"nvidia\" ]`"
    } else if exists("/etc/nv_tegra_release") {
        "this is a Jetson board: the driver comes with JetPack, in the package nvidia-l4t-cuda"
    } else if has_module {
        "the driver's kernel module is loaded, but its CUDA library is not installed: libcuda1 (Debian), \
         libnvidia-compute-… (Ubuntu), nvidia-driver-cuda-libs (Fedora), nvidia-utils (Arch)"
    } else {
        return None;
    };
    Some(hint.to_owned())
}

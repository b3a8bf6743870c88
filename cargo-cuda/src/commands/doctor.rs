//! `cargo cuda doctor`: what a build would do on this machine, and why.

use std::collections::BTreeMap;

use clap::Args;
use cuda_build::internal::host_compiler::{self, HostCompiler};
use cuda_build::internal::select::{Need, Part, Strength};
use cuda_build::internal::{Declared, Env, Outcome, RequestedRelease, Root, compile, driver};
use cuda_build::{Capability, Component, Error, Plan, Toolkit};

use crate::dependencies::Guess;
use crate::failure::Failure;
use crate::project::{BuildOptions, CAPABILITIES, Project, WorkspaceOptions};
use crate::report::machine::Machine;
use crate::report::{
    self, Capabilities, Findings, LauncherFindings, Layout, MissingComponent, Program, shown,
};
use crate::workspace::Resolve;
use crate::{output, previous, process, rustc_wrapper};

/// Variables that the report shows because they affect a build. It also shows the variables that
/// begin with `CUDA` or `NVCC`, and those that the search reads.
const SHOWN: [&str; 5] = [
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LIBRARY_PATH",
    "CPATH",
    "LD_LIBRARY_PATH",
];

/// Variables that the report does not show, although every search reads them, because they are not
/// about CUDA.
const HIDDEN: [&str; 3] = ["HOME", "XDG_CACHE_HOME", previous::RECORD];

const PROGRAMS: &[(&str, &str)] = &[
    ("uv", "fetches toolkits"),
    ("pip", "fetches toolkits if there is no uv"),
    ("maturin", "builds wheels"),
    ("g++", "compiles host code for nvcc"),
    ("ccache", "keeps objects, if CUDA_BUILD_LAUNCHER names it"),
    (
        "sccache",
        "keeps objects, if RUSTC_WRAPPER or CUDA_BUILD_LAUNCHER names it",
    ),
];

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
pub fn run(arguments: &DoctorArgs, user: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let build = BuildOptions::new(arguments.cuda, false);
    let mut workspace = arguments.workspace.clone();
    workspace.resolve = Resolve::IfPossible;
    let project = Project::open(user, root, &build, &workspace)?;
    let env = &project.search_env;
    let outcome = project.finder().report()?;
    let driver = driver::driver();
    let version = outcome.toolkit.as_ref().ok().map(Toolkit::version);
    let machine = Machine::read(root, project.target.multiarch(), version);
    let mut findings = Findings::new(&outcome, &driver, machine);
    findings.is_cross = !project.target.is_native();
    if let Some(workspace) = &project.workspace {
        findings.workspace = Some(shown(&workspace.root));
        findings.compiles = project.packages().any(|p| p.uses_cuda_build);
        findings.builds_wheels = project.packages().any(|p| p.uses_pyo3);
    }
    if let Ok(toolkit) = &outcome.toolkit {
        let gpus = driver.as_ref().map_or(&[][..], |driver| &driver.gpus);
        let plans = plans(toolkit, &project, gpus);
        if let Ok(driver) = &driver {
            let warnings = &mut findings.driver.warnings;
            warnings.extend(report::driver::notes(driver, toolkit.version()));
            for (package, plan) in &plans {
                if let Ok(plan) = plan {
                    warnings.extend(report::driver::gpu_notes(
                        driver,
                        toolkit.version(),
                        package,
                        plan,
                    ));
                }
            }
        }
        findings.capabilities = summary(&plans);
        if gpus.is_empty() {
            findings.capabilities_undeclared = undeclared(toolkit, &project);
        }
        findings.optional_absent = absent(&outcome, toolkit, &project);
        findings.missing_for_features = missing_for_features(toolkit, project.guesses());
        if toolkit.get(Component::Nvcc).is_some() {
            let host = host_compiler::choose(env, root, toolkit, &project.target);
            findings.launcher = host
                .as_ref()
                .ok()
                .and_then(|host| launcher(toolkit, host, &project));
            findings.host_compiler = Some(host.into());
        }
    }
    findings.programs = PROGRAMS
        .iter()
        .map(|&(name, purpose)| Program {
            name,
            purpose,
            path: process::on_path(env, name).as_deref().map(shown),
        })
        .collect();
    // This comes last, because every step above may read more variables.
    findings.environment = variables(&project.env, &env.names_read());
    let findings = findings.judged();
    let text = match arguments.json {
        true => report::json(&findings),
        false => {
            let summary = findings.summary(&Layout::of_stdout(&project.env));
            match output::is_verbose() {
                true => format!("{summary}\n{}", findings.evidence()),
                false => summary + "`cargo cuda doctor -v` prints the evidence.\n",
            }
        }
    };
    Ok((text, findings.code))
}

/// The launcher that builds would use. Cargo sets `RUSTC_WRAPPER` for build scripts to the wrapper
/// in its configuration, so this function sets the variable too.
fn launcher(toolkit: &Toolkit, host: &HostCompiler, project: &Project) -> Option<LauncherFindings> {
    let wrapper = rustc_wrapper::of_user(project).unwrap_or_default();
    let env = project.env.clone().with("RUSTC_WRAPPER", wrapper);
    let (launcher, reason_unused) =
        match compile::launcher_report(&env, &project.root, toolkit, host) {
            Ok(found) => found?,
            Err(reason) => return Some(LauncherFindings::absent(reason)),
        };
    Some(LauncherFindings {
        program: Some(shown(&launcher.program)),
        variable: Some(launcher.variable),
        reason_unused,
    })
}

/// A package's name, and its plan or the reason why it has no plan.
type PackagePlan = (String, Result<Plan, Error>);

/// The plan of each package that declares capabilities.
fn plans(toolkit: &Toolkit, project: &Project, gpus: &[Capability]) -> Vec<PackagePlan> {
    let observed = toolkit.capabilities_of_ptxas(&project.root, &project.env);
    let version = toolkit.version();
    let plan = |name: &str, items: &[String], used: &[Component]| {
        let plan = Declared::parse(items)
            .and_then(|declared| declared.plan(version, gpus, observed.as_deref()))
            .and_then(|plan| toolkit.check_plan(&plan, used).map(|()| plan));
        (name.to_owned(), plan)
    };
    if project.workspace.is_none() {
        // Without a workspace, only the variable can declare capabilities. With a workspace, the variable is not
        // read here, because `Package::config` already contains its value.
        let list = project.env.text(CAPABILITIES);
        return list
            .map(|list| plan(CAPABILITIES, &[list], &[]))
            .into_iter()
            .collect();
    }
    let packages = project.packages().filter_map(|package| {
        let declared = package.config.for_major(version.major);
        let used: Vec<Component> = declared.components.iter().map(|c| c.component).collect();
        Some(plan(&package.name, declared.capabilities?, &used))
    });
    packages.collect()
}

/// The plan of each package. If any package has no plan, only the reasons are returned. `None` if no
/// package declares capabilities.
fn summary(planned: &[PackagePlan]) -> Option<Capabilities> {
    let mut plans = BTreeMap::new();
    let mut refused = Vec::new();
    for (name, plan) in planned {
        match plan {
            Ok(plan) => drop(plans.insert(name.clone(), plan.to_string())),
            Err(error) => refused.push(format!("{name}: {error:?}")),
        }
    }
    match (planned.is_empty(), refused.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Capabilities::Plans(plans)),
        (false, false) => Some(Capabilities::Refused(refused)),
    }
}

/// The variables to show. `read` are the names of variables that the search has read.
fn variables(env: &Env, read: &[String]) -> BTreeMap<String, String> {
    let is_shown = |name: &str| {
        let is_about_cuda = name.starts_with("CUDA") || name.starts_with("NVCC");
        let is_relevant =
            is_about_cuda || SHOWN.contains(&name) || read.iter().any(|own| own == name);
        is_relevant && !HIDDEN.contains(&name)
    };
    env.variables()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
        .filter(|(name, value)| is_shown(name) && !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Packages that use cuda-build and declare no capabilities.
fn undeclared(toolkit: &Toolkit, project: &Project) -> Vec<String> {
    let major = toolkit.version().major;
    project
        .packages()
        .filter(|package| package.uses_cuda_build)
        .filter(|package| package.config.for_major(major).capabilities.is_none())
        .map(|package| package.name.clone())
        .collect()
}

/// The guessed components that the toolkit lacks.
fn missing_for_features(toolkit: &Toolkit, guesses: &[Guess]) -> Vec<MissingComponent> {
    let is_found = |component: Component| {
        let need = Need::new(component, Part::main(component), "");
        toolkit
            .get(component)
            .is_some_and(|found| need.is_met_by(found))
    };
    let missing = guesses.iter().filter(|guess| !is_found(guess.component));
    missing
        .map(|guess| MissingComponent {
            component: guess.component.id(),
            feature: guess.feature.clone(),
            package: guess.package.clone(),
            is_linked: guess.is_linked,
        })
        .collect()
}

/// One sentence for each optional component that a package is built without. The sentence names the
/// places that have the component for another CUDA major.
fn absent(outcome: &Outcome, toolkit: &Toolkit, project: &Project) -> Vec<String> {
    let major = toolkit.version().major;
    let mut absent = Vec::new();
    for package in project.packages() {
        let needs = cuda_build::internal::request(&package.config, Some(major)).needs;
        let lacks = |need: &&Need| {
            need.strength == Strength::Optional
                && !toolkit
                    .get(need.component)
                    .is_some_and(|found| need.is_met_by(found))
        };
        for need in needs.iter().filter(lacks) {
            let component = need.component;
            let version = need.version.as_ref();
            let wanted = version.map_or(String::new(), |version| format!(" {version}"));
            let mut line = format!(
                "{}: optional {component}{wanted} was not found for CUDA {major}, so `cfg(cuda_have_{})` is off",
                package.name,
                component.id().replace('-', "_")
            );
            for attempt in &outcome.attempts {
                for found in attempt.sets.iter().filter_map(|set| set.get(component)) {
                    let (source, other) = (&attempt.candidate, found.major);
                    line.push_str(&format!("; {source} has {found} for CUDA {other}"));
                }
            }
            absent.push(line);
        }
    }
    absent
}

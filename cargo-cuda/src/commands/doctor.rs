//! `cargo cuda doctor`: what a build would do on this machine, and why.

use std::path::PathBuf;

use clap::Args;
use cuda_build::internal::driver;
use cuda_build::internal::host_compiler;
use cuda_build::internal::select::{Need, Strength};
use cuda_build::internal::{Declared, Env, Outcome, ReleaseReq, Root};
use cuda_build::{Capability, Component, Error, Plan, Toolkit};

use crate::build::CAPABILITIES;
use crate::failure::Failure;
use crate::options::WorkspaceOptions;
use crate::report::machine::Machine;
use crate::report::{self, Diagnosis, Findings, Plans, Program};
use crate::toolkits::{self, Finder};
use crate::workspace::Workspace;

/// Variables that change what a build does, shown if they are set.
const SHOWN: &[&str] = &[
    "CUDA_BUILD_TOOLKIT",
    "CUDA_BUILD_ROOTS",
    "CUDA_BUILD_SOURCES",
    "CUDA_BUILD_RELEASE",
    "CUDA_BUILD_CAPABILITIES",
    "CUDA_BUILD_CUDART",
    "CUDA_BUILD_CACHE_DIR",
    "NVCC",
    "CUDACXX",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDAToolkit_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LIBRARY_PATH",
    "CPATH",
    "LD_LIBRARY_PATH",
];

/// Every search reads them, and they are not about CUDA.
const UNREMARKABLE: &[&str] = &["HOME", "XDG_CACHE_HOME"];

/// Programs that some command starts.
const PROGRAMS: &[(&str, &str)] = &[
    ("uv", "fetches toolkits"),
    ("pip", "fetches toolkits if there is no uv"),
    ("maturin", "builds wheels"),
    ("g++", "compiles host code for nvcc"),
    (
        "sccache",
        "shares compiler results, if a build is set to use it",
    ),
];

/// Show what is found here, what is chosen and why, and whether a build will work
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// As if this CUDA release were requested: 13 or 13.4
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<ReleaseReq>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Looks at everything and returns the report; the exit code is that of a build.
///
/// # Errors
/// If the workspace is not usable.
pub fn run(arguments: &DoctorArgs, env: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let env = &match arguments.cuda {
        Some(release) => env.clone().with(ReleaseReq::VARIABLE, release.to_string()),
        None => env.clone(),
    };
    let workspace = arguments.workspace.load(root, env)?;
    let user_env = env;
    let env = &toolkits::with_lock(env.clone(), workspace.as_ref());
    let target = arguments
        .workspace
        .platform(root, env, workspace.as_ref())?;
    let report = Finder {
        env,
        root,
        target: &target,
        workspace: workspace.as_ref(),
        fetch: false,
        partial: false,
    }
    .report()?;
    let driver = driver::driver();
    let gpus = driver
        .as_ref()
        .map(|driver| driver.gpus.as_slice())
        .unwrap_or_default();
    let plans = report
        .toolkit
        .as_ref()
        .map(|toolkit| plans(toolkit, root, env, workspace.as_ref(), gpus))
        .unwrap_or_default();
    let undeclared = match &report.toolkit {
        Ok(toolkit) if gpus.is_empty() => undeclared(toolkit, workspace.as_ref()),
        _ => Vec::new(),
    };
    let driver_notes = match (&driver, &report.toolkit) {
        (Ok(driver), Ok(toolkit)) => {
            let version = toolkit.version();
            let about = report::driver::notes(driver, version).into_iter();
            about
                .chain(report::driver::gpu_notes(
                    driver,
                    version,
                    &possible(&plans),
                ))
                .collect()
        }
        _ => Vec::new(),
    };
    let machine = Machine::read(root, target.multiarch());
    let version = report.toolkit.as_ref().ok().map(Toolkit::version);
    let with_nvcc = report
        .toolkit
        .as_ref()
        .ok()
        .filter(|toolkit| toolkit.get(Component::Nvcc).is_some());
    let findings = Findings::new(Diagnosis {
        host: with_nvcc.map(|toolkit| host_compiler::choose(env, root, toolkit)),
        variables: variables(user_env, &env.asked()),
        machine_notes: machine.notes(&driver, version),
        module: machine.module,
        driver_notes,
        report: &report,
        driver: &driver,
        programs: programs(env, root),
        workspace: workspace.as_ref(),
        undeclared,
        absent: absent(&report, workspace.as_ref()),
        capabilities: summary(&plans),
    });
    let text = match arguments.json {
        true => report::json(&findings),
        false => findings.text(),
    };
    Ok((text, findings.code))
}

/// The plan of each package that declares capabilities, or why the toolkit cannot build it.
fn plans(
    toolkit: &Toolkit,
    root: &Root,
    env: &Env,
    workspace: Option<&Workspace>,
    gpus: &[Capability],
) -> Vec<(String, Result<Plan, Error>)> {
    let observed = toolkit.observed_capabilities(root, env);
    let version = toolkit.version();
    let plan = |name: &str, items: &[String], used: &[Component]| {
        let plan = Declared::parse(items)
            .and_then(|declared| declared.plan(version, gpus, observed.as_deref()))
            .and_then(|plan| toolkit.check_plan(&plan, used).map(|()| plan));
        (name.to_owned(), plan)
    };
    let Some(workspace) = workspace else {
        // In a workspace, each package has read the variable.
        let list = env.text(CAPABILITIES);
        return list
            .map(|list| plan(CAPABILITIES, &[list], &[]))
            .into_iter()
            .collect();
    };
    let packages = workspace.packages.iter().filter_map(|package| {
        let declared = package.config.for_major(version.major);
        let used = declared.components.iter().map(|wanted| wanted.component);
        let used: Vec<Component> = used.collect();
        Some(plan(&package.name, declared.capabilities?, &used))
    });
    packages.collect()
}

/// All plans, or all reasons why there is none for a package; `None` if nothing is declared.
fn summary(plans: &[(String, Result<Plan, Error>)]) -> Option<Plans> {
    let refused: Vec<String> = plans
        .iter()
        .filter_map(|(name, plan)| Some(format!("{name}: {:?}", plan.as_ref().err()?)))
        .collect();
    let possible = possible(plans).into_iter();
    let shown = possible.map(|(name, plan)| (name, plan.to_string()));
    match (plans.is_empty(), refused.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Ok(shown.collect())),
        (false, false) => Some(Err(refused)),
    }
}

fn possible(plans: &[(String, Result<Plan, Error>)]) -> Vec<(String, Plan)> {
    let plan = |(name, plan): &(String, Result<Plan, Error>)| {
        Some((name.clone(), plan.as_ref().ok()?.clone()))
    };
    plans.iter().filter_map(plan).collect()
}

/// The set ones among [`SHOWN`], then everything else that the search has read and that is set.
fn variables(user_env: &Env, asked: &[String]) -> Vec<(String, String)> {
    let more = asked.iter().map(String::as_str);
    let more = more.filter(|name| !SHOWN.contains(name) && !UNREMARKABLE.contains(name));
    let names = SHOWN.iter().copied().chain(more);
    names
        .filter_map(|name| Some((name.to_owned(), user_env.text(name)?)))
        .collect()
}

/// Packages that use cuda-build and declare no capabilities.
fn undeclared(toolkit: &Toolkit, workspace: Option<&Workspace>) -> Vec<String> {
    let packages = workspace.iter().flat_map(|workspace| &workspace.packages);
    let silent = packages.filter(|p| p.uses_cuda_build).filter(|package| {
        package
            .config
            .for_major(toolkit.version().major)
            .capabilities
            .is_none()
    });
    silent.map(|package| package.name.clone()).collect()
}

/// Optional components that packages are built without, and sources that have them for another CUDA.
fn absent(report: &Outcome, workspace: Option<&Workspace>) -> Vec<String> {
    let Ok(toolkit) = &report.toolkit else {
        return Vec::new();
    };
    let major = toolkit.version().major;
    let mut absent = Vec::new();
    for package in workspace.iter().flat_map(|workspace| &workspace.packages) {
        let needs = cuda_build::internal::request(&package.config, Some(major)).needs;
        let lacks = |need: &&Need| {
            need.strength == Strength::Optional
                && !toolkit
                    .get(need.component)
                    .is_some_and(|found| need.is_met_by(found))
        };
        for Need {
            component, version, ..
        } in needs.iter().filter(lacks)
        {
            let wanted = version
                .as_ref()
                .map_or(String::new(), |version| format!(" {version}"));
            let mut line = format!(
                "{}: optional {component}{wanted} was not found for CUDA {major}, so `cfg(cuda_have_{})` is off",
                package.name,
                component.id().replace('-', "_")
            );
            for attempt in &report.attempts {
                let others = attempt.sets.iter().filter_map(|set| set.get(*component));
                for found in others {
                    line.push_str(&format!(
                        "; {} has {found} for CUDA {}",
                        attempt.candidate, found.major
                    ));
                }
            }
            absent.push(line);
        }
    }
    absent
}

fn programs(env: &Env, root: &Root) -> Vec<Program> {
    let directories = env.search_path();
    let find = |name: &str| -> Option<PathBuf> {
        directories
            .iter()
            .map(|directory| directory.join(name))
            .find(|path| root.is_file(path))
    };
    let program = |(name, purpose): &(&'static str, &'static str)| Program {
        name,
        purpose,
        path: find(name).as_deref().map(report::shown),
    };
    PROGRAMS.iter().map(program).collect()
}

//! `cargo cuda doctor`: what a build would do on this machine, and why.

use std::path::PathBuf;

use cuda_build::driver::{self, Driver, NoDriver};
use cuda_build::host_compiler;
use cuda_build::select::{Need, Strength};
use cuda_build::{Component, Declared, Env, Outcome, Plan, Root, Toolkit};

use crate::cargo_config;
use crate::failure::Failure;
use crate::report::machine::Machine;
use crate::report::{self, Diagnosis, Plans, Program};
use crate::toolkits::{self, Finder, Wish};
use crate::workspace::Workspace;

/// Variables that change what a build does, shown where they are set.
const SHOWN: &[&str] = &[
    "CUDA_BUILD_TOOLKIT",
    "CUDA_BUILD_ROOTS",
    "CUDA_BUILD_SOURCES",
    "CUDA_BUILD_MAJOR",
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

/// Asked for by every search, and not about CUDA.
const UNREMARKABLE: &[&str] = &["HOME", "XDG_CACHE_HOME"];

/// Programs that some command starts.
const PROGRAMS: &[(&str, &str)] = &[
    ("uv", "fetches toolkits"),
    ("pip", "fetches toolkits where there is no uv"),
    ("maturin", "builds wheels"),
    ("g++", "compiles host code for nvcc"),
    (
        "sccache",
        "shares compiler results, where something is set to use it",
    ),
];

/// Looks at everything and prints it; the exit code tells whether a build would find what it
/// needs.
///
/// # Errors
/// Where the workspace at hand can't be read.
pub fn run(
    major: Option<u32>,
    triple: Option<&str>,
    json: bool,
    env: &Env,
    root: &Root,
) -> Result<(String, u8), Failure> {
    let workspace = Workspace::load_optional(root, env)?;
    let jetson = workspace
        .iter()
        .flat_map(|w| &w.packages)
        .any(|p| p.config.jetson);
    let named = cargo_config::build_target(root, env, &[]);
    let target = toolkits::target(triple, named.as_deref(), jetson)?;
    let finder = Finder {
        env,
        root,
        target,
        workspace: workspace.as_ref(),
    };
    let report = finder.report(&Wish {
        major,
        ..Wish::default()
    })?;
    let driver = driver::driver();
    let capabilities = report
        .toolkit
        .as_ref()
        .ok()
        .and_then(|t| capabilities(t, env, workspace.as_ref(), &driver));
    let no_gpu = driver
        .as_ref()
        .map_or(true, |driver| driver.gpus.is_empty());
    let undeclared = match &report.toolkit {
        Ok(toolkit) if no_gpu => undeclared(toolkit, workspace.as_ref()),
        _ => Vec::new(),
    };
    let plans = plans(&report, workspace.as_ref(), &driver);
    let driver_notes = match (&driver, &report.toolkit) {
        (Ok(driver), Ok(toolkit)) => {
            let version = toolkit.version();
            let about = report::driver::notes(driver, version).into_iter();
            about
                .chain(report::driver::gpu_notes(driver, version, &plans))
                .collect()
        }
        _ => Vec::new(),
    };
    let machine = Machine::read(root, finder.target.multiarch());
    let version = report.toolkit.as_ref().ok().map(Toolkit::version);
    let with_nvcc = report
        .toolkit
        .as_ref()
        .ok()
        .filter(|toolkit| toolkit.get(Component::Nvcc).is_some());
    let lacks_nvcc = report
        .toolkit
        .as_ref()
        .is_ok_and(|toolkit| toolkit.get(Component::Nvcc).is_none());
    let wish = Wish {
        major,
        compiler: true,
        ..Wish::default()
    };
    let compiler = lacks_nvcc
        .then(|| finder.report(&wish).ok()?.toolkit.ok())
        .flatten();
    let diagnosis = Diagnosis {
        compiler: compiler.as_ref(),
        host: with_nvcc.map(|toolkit| host_compiler::choose(env, root, toolkit)),
        variables: variables(env),
        machine_notes: machine.notes(&driver, version),
        module: machine.module,
        driver_notes,
        report: &report,
        driver: &driver,
        programs: programs(env, root),
        workspace: workspace.as_ref(),
        undeclared,
        absent: absent(&report, workspace.as_ref()),
        capabilities,
    };
    let text = if json {
        report::json(&diagnosis)
    } else {
        report::text(&diagnosis)
    };
    Ok((text, report::verdict(&diagnosis).code))
}

/// Counts outside a workspace too; inside, each package has read it.
const CAPABILITIES: &str = "CUDA_BUILD_CAPABILITIES";

/// Per package that declares any, the plan, or why the toolkit can't do it.
fn capabilities(
    toolkit: &Toolkit,
    env: &Env,
    workspace: Option<&Workspace>,
    driver: &Result<Driver, NoDriver>,
) -> Option<Plans> {
    let mut plans = Vec::new();
    let mut refused = Vec::new();
    let gpus = driver
        .as_ref()
        .map(|d| d.gpus.as_slice())
        .unwrap_or_default();
    let observed = toolkit.observed_capabilities();
    let mut add = |name: &str, items: &[String], used: &[Component]| {
        let plan = Declared::parse(items)
            .and_then(|declared| declared.plan(toolkit.version(), gpus, observed.as_deref()))
            .and_then(|plan| toolkit.check_plan(&plan, used).map(|()| plan));
        match plan {
            Ok(plan) => plans.push((name.to_owned(), plan.to_string())),
            Err(error) => refused.push(format!("{name}: {error:?}")),
        }
    };
    if workspace.is_none() {
        add(CAPABILITIES, &[env.text(CAPABILITIES)?], &[]);
    }
    for package in workspace.iter().flat_map(|workspace| &workspace.packages) {
        let Some(items) = package
            .config
            .for_major(toolkit.version().major)
            .capabilities
        else {
            continue;
        };
        let components = package.config.for_major(toolkit.version().major).components;
        let used: Vec<Component> = components.iter().map(|wanted| wanted.component).collect();
        add(&package.name, items, &used);
    }
    Some(if refused.is_empty() {
        Ok(plans)
    } else {
        Err(refused)
    })
}

/// The plan of each package that declares capabilities this toolkit can do.
fn plans(
    report: &Outcome,
    workspace: Option<&Workspace>,
    driver: &Result<Driver, NoDriver>,
) -> Vec<(String, Plan)> {
    let Ok(toolkit) = &report.toolkit else {
        return Vec::new();
    };
    let gpus = driver
        .as_ref()
        .map(|d| d.gpus.as_slice())
        .unwrap_or_default();
    let observed = toolkit.observed_capabilities();
    let packages = workspace
        .into_iter()
        .flat_map(|workspace| &workspace.packages);
    let planned = packages.filter_map(|package| {
        let items = package
            .config
            .for_major(toolkit.version().major)
            .capabilities?;
        let plan = Declared::parse(items)
            .ok()?
            .plan(toolkit.version(), gpus, observed.as_deref())
            .ok()?;
        Some((package.name.clone(), plan))
    });
    planned.collect()
}

/// Those of [`SHOWN`] that are set, then what else the search has asked for and found set.
fn variables(env: &Env) -> Vec<(String, String)> {
    let asked = env.asked();
    let more = asked.iter().map(String::as_str);
    let more = more.filter(|name| !SHOWN.contains(name) && !UNREMARKABLE.contains(name));
    let names = SHOWN.iter().copied().chain(more);
    names
        .filter_map(|name| Some((name.to_owned(), env.text(name)?)))
        .collect()
}

/// Packages with a build script of ours that declare no capabilities.
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

/// Optional components that packages are built without, and where they are for another CUDA.
fn absent(report: &Outcome, workspace: Option<&Workspace>) -> Vec<String> {
    let Ok(toolkit) = &report.toolkit else {
        return Vec::new();
    };
    let major = toolkit.version().major;
    let mut absent = Vec::new();
    for package in workspace.iter().flat_map(|workspace| &workspace.packages) {
        let needs = cuda_build::request(&package.config, &[], &[], Some(major)).needs;
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
                "{}: optional {component}{wanted} is not there for CUDA {major}, so `cfg(cuda_have_{})` is off",
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
    let program = |(name, purpose): &(&str, &str)| Program {
        name: (*name).to_owned(),
        purpose: (*purpose).to_owned(),
        path: find(name),
    };
    PROGRAMS.iter().map(program).collect()
}

//! `cargo cuda wheel`: one wheel per CUDA major.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::command::Invocation;
use cuda_build::component::{EdgeKind, closure};
use cuda_build::config::Cudart;
use cuda_build::driver;
use cuda_build::{Component, Declared, Env, Plan, Root, Toolkit, capability};

use super::cargo::value_of;
use crate::exit_code;
use crate::failure::Failure;
use crate::process;
use crate::store::{self, human_size};
use crate::toolkits::{self, Finder, Wish};
use crate::wheel::WheelError;
use crate::wheel::archive::ArchiveDate;
use crate::wheel::dependencies::BuiltWith;
use crate::wheel::maturin::{Maturin, Request};
use crate::wheel::rewrite::{BuiltWheel, Rewrite};
use crate::wheel::runpath::{Kind, RunpathPlan};
use crate::workspace::{Package, Workspace};
use crate::{fetch, output, wheel};

/// Build one wheel per CUDA major.
///
/// maturin builds, and each result is renamed, given the dependencies of its major and a search
/// path for NVIDIA's own wheels; nothing of NVIDIA is copied in. The manylinux tag is the one
/// that maturin computes: it follows the glibc of the machine that builds.
#[derive(Args, Clone, Debug)]
pub struct WheelArgs {
    /// CUDA majors, as in `12,13`; those of the manifest's `majors` where not given
    #[arg(long, value_delimiter = ',', value_name = "MAJORS")]
    cuda: Vec<u32>,
    /// The crate
    #[arg(long, value_name = "Cargo.toml")]
    manifest_path: Option<PathBuf>,
    /// Where the wheels go
    #[arg(long, short, value_name = "DIRECTORY", default_value = "dist")]
    out: PathBuf,
    /// Capabilities instead of the manifest's, as in `8.0,9.0,12.0+PTX`
    #[arg(long, value_name = "LIST")]
    capabilities: Option<String>,
    /// Cargo's profile
    #[arg(long, default_value = "release")]
    profile: String,
    /// `runpath`, which `LD_LIBRARY_PATH` overrides, or `rpath`, which it doesn't
    #[arg(long, value_name = "KIND")]
    rpath: Option<String>,
    /// Fetch toolkits and maturin where they are missing
    #[arg(long)]
    fetch: bool,
    /// For maturin, after `--`
    #[arg(last = true)]
    passthrough: Vec<OsString>,
}

/// Builds the wheels and returns what to say about them.
///
/// # Errors
/// Where anything is missing or refused; wheels of majors that were finished stay.
pub fn run(arguments: &WheelArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let workspace = Workspace::load(root, env, arguments.manifest_path.as_deref())?;
    let package = package(&workspace, arguments.manifest_path.as_deref())?;
    let majors = majors(arguments, package)?;
    let kind = kind(arguments, package)?;
    let date = ArchiveDate::from_env(env)?;
    let maturin = maturin(arguments, env, root)?;
    let job = Job { arguments, env, root, workspace: &workspace, package, kind, date, maturin };
    // Every toolkit first: a second major that is not there should not cost the first one's build.
    let mut prepared = Vec::new();
    for major in majors {
        prepared.push(job.prepare(major)?);
    }
    let mut built = Vec::new();
    for prepared in &prepared {
        built.push(job.build(prepared)?);
    }
    Ok(summary(&built))
}

struct Job<'a> {
    arguments: &'a WheelArgs,
    env: &'a Env,
    root: &'a Root,
    workspace: &'a Workspace,
    package: &'a Package,
    kind: Kind,
    date: ArchiveDate,
    maturin: Maturin,
}

/// Everything about one major that is decided before anything is compiled.
struct Prepared {
    major: u32,
    toolkit: Toolkit,
    plan: Plan,
    /// Components whose shared library is linked.
    linked: BTreeSet<Component>,
    runpath: RunpathPlan,
}

impl Job<'_> {
    fn prepare(&self, major: u32) -> Result<Prepared, Failure> {
        let triple = value_of(&self.arguments.passthrough, "--target");
        let target = toolkits::target(triple.as_deref(), self.package.config.jetson)?;
        let finder = Finder { env: self.env, root: self.root, target, workspace: Some(self.workspace) };
        let toolkit =
            finder.find(&Wish { major: Some(major), fetch: self.arguments.fetch, ..Wish::default() })?;
        let declared = self.package.config.for_major(major);
        let plan = match (&self.arguments.capabilities, declared.capabilities) {
            (Some(list), _) => Declared::parse([list])?,
            (None, Some(items)) => Declared::parse(items)?,
            (None, None) => return Err(undeclared()),
        };
        let gpus = match plan.asks_for_gpu() {
            true => driver::driver().map(|d| d.gpus).unwrap_or_default(),
            false => Vec::new(),
        };
        let plan = plan.plan(toolkit.version(), &gpus, toolkit.observed_capabilities().as_deref())?;
        let used: Vec<Component> = declared.components.iter().map(|wanted| wanted.component).collect();
        toolkit.check_plan(&plan, &used)?;
        let linked: BTreeSet<Component> = declared
            .components
            .iter()
            .map(|wanted| wanted.component)
            .filter(|c| *c != Component::Cudart || self.package.config.cudart == Cudart::Shared)
            .filter(|c| toolkit.get(*c).is_some())
            .collect();
        let runpath = RunpathPlan::new(&linked, major, self.kind)?;
        Ok(Prepared { major, toolkit, plan, linked, runpath })
    }

    fn build(&self, prepared: &Prepared) -> Result<BuiltWheel, Failure> {
        let target = self.workspace.target_directory.join("cuda").join(format!("wheel-{}", prepared.major));
        let file = toolkits::write_file(&prepared.toolkit, &self.workspace.target_directory)?;
        let mut variables = vec![
            ("CUDA_BUILD_TOOLKIT".to_owned(), OsString::from(file)),
            ("CUDA_BUILD_MAJOR".to_owned(), prepared.major.to_string().into()),
            // Of its own: cargo does not rebuild what it built without the wrapper.
            ("CARGO_TARGET_DIR".to_owned(), target.clone().into()),
        ];
        if let Some(list) = &self.arguments.capabilities {
            variables.push(("CUDA_BUILD_CAPABILITIES".to_owned(), list.into()));
        }
        variables.extend(wheel::reproducible::environment(&process::own_program()?, self.env));
        output::make_directory(&target)?;
        let fresh = output::temporary_directory(&target)?;
        let invocation = self.maturin.build(&Request {
            manifest: &self.package.manifest,
            out: fresh.path(),
            profile: &self.arguments.profile,
            passthrough: &self.arguments.passthrough,
            // The module lies in one import package.
            rustc_args: &prepared.runpath.rustc_arguments(1),
            env: &variables,
        });
        self.run_maturin(&invocation, prepared.major)?;
        let wheel = one_wheel(&output::files(fresh.path())?, &invocation)?;
        output::make_directory(&self.arguments.out)?;
        let components = prepared.toolkit.components().iter();
        let rewrite = Rewrite {
            name: self.package.config.wheel.name.clone(),
            major: prepared.major,
            runpath: prepared.runpath.clone(),
            built_with: BuiltWith {
                toolkit: prepared.toolkit.version(),
                components: components
                    .filter_map(|c| Some((c.found.component, c.found.version.clone()?)))
                    .collect::<BTreeMap<_, _>>(),
            },
            loaded_at_run_time: loaded(&prepared.linked, &prepared.toolkit),
            capabilities: prepared.plan.real.iter().map(ToString::to_string).collect(),
            ptx: prepared.plan.ptx.iter().map(ToString::to_string).collect(),
            date: self.date,
        };
        let built = rewrite.apply(&wheel, &self.arguments.out)?;
        if !built.requires.is_empty() {
            output::say(
                "maturin's warning about external libraries is expected here: the wheel requires NVIDIA's packages \
                 and copies nothing of theirs",
            );
        }
        Ok(built)
    }

    fn run_maturin(&self, invocation: &Invocation, major: u32) -> Result<(), Failure> {
        output::say(&format!("building {} {} for CUDA {major}", self.package.name, self.package.version));
        match process::run(invocation)? {
            0 => Ok(()),
            code => Err(Failure::new(
                exit_code::WHEEL,
                format!(
                    "maturin ended with code {code}; its own messages are above\n  command: {invocation}"
                ),
            )),
        }
    }
}

/// What linked libraries open by name while they run, which no ELF file tells. NVIDIA's packages
/// name these too, but any version of them.
fn loaded(linked: &BTreeSet<Component>, toolkit: &Toolkit) -> BTreeSet<Component> {
    let linked: Vec<Component> = linked.iter().copied().collect();
    let needed = closure(&linked, toolkit.version().major).into_iter();
    let loaded =
        needed.filter(|(component, kind)| *kind == EdgeKind::Load && toolkit.get(*component).is_some());
    loaded.map(|(component, _)| component).collect()
}

fn one_wheel(files: &[PathBuf], invocation: &Invocation) -> Result<PathBuf, Failure> {
    match files {
        [wheel] if wheel.extension().is_some_and(|e| e == "whl") => Ok(wheel.clone()),
        other => Err(Failure::new(
            exit_code::WHEEL,
            format!(
                "expected maturin to make one wheel, it made {}: one interpreter at a time, or an abi3 module\n  \
                 command: {invocation}",
                other.len()
            ),
        )),
    }
}

fn undeclared() -> Failure {
    Failure::from(capability::undeclared())
        .hint("a wheel runs on other machines than this one, so `native` does not do")
}

fn maturin(arguments: &WheelArgs, env: &Env, root: &Root) -> Result<Maturin, Failure> {
    let answers = |invocation: &Invocation| process::output(invocation).is_some();
    // Where fetching is allowed, a pinned program of our own rather than one that `uvx` picks.
    let found = Maturin::find(env, root, answers);
    match found {
        Ok(program @ (Maturin::Program(_) | Maturin::Module(_))) => {
            let printed = process::output(&program.version()).unwrap_or_default();
            Maturin::check_version(&printed)?;
            Ok(program)
        }
        Ok(Maturin::Uvx(_)) | Err(WheelError::NoMaturin { .. }) if arguments.fetch => {
            Ok(Maturin::Program(fetch::maturin(env)?))
        }
        // What an earlier `--fetch` got is there for all that follow.
        found => match (store::fetched_maturin(env), found) {
            (Some(program), _) => Ok(Maturin::Program(program)),
            (None, Ok(uvx)) => Ok(uvx),
            (None, Err(error)) => Err(Failure::from(error).hint("or let this command fetch it: `--fetch`")),
        },
    }
}

/// The package at `--manifest-path`, else the only one that makes a Python module.
fn package<'a>(workspace: &'a Workspace, manifest: Option<&Path>) -> Result<&'a Package, Failure> {
    let modules: Vec<&Package> = workspace.packages.iter().filter(|p| p.cdylib.is_some()).collect();
    let named = manifest.and_then(|path| {
        let resolve = |path: &Path| Root::system().resolve(path);
        modules.iter().find(|p| resolve(&p.manifest) == resolve(path)).copied()
    });
    match (named, modules.as_slice()) {
        (Some(package), _) => Ok(package),
        (None, [package]) => Ok(package),
        (None, []) => Err(Failure::new(
            exit_code::CONFIGURATION,
            "no package here makes a Python module: none has a `cdylib` library",
        )
        .hint("add `crate-type = [\"cdylib\"]` below `[lib]`, or name the crate with `--manifest-path`")),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|p| p.name.as_str()).collect();
            Err(Failure::new(
                exit_code::CONFIGURATION,
                format!("several packages here make a module: {}", names.join(", ")),
            )
            .hint("name one with `--manifest-path`"))
        }
    }
}

fn majors(arguments: &WheelArgs, package: &Package) -> Result<Vec<u32>, Failure> {
    let majors = if arguments.cuda.is_empty() { &package.config.majors } else { &arguments.cuda };
    if majors.is_empty() {
        return Err(Failure::new(
            exit_code::CONFIGURATION,
            "which CUDA majors to make wheels for is not declared",
        )
        .hint("write `majors = [12, 13]` below `[package.metadata.cuda]`, or give `--cuda 12,13`"));
    }
    for major in majors {
        wheel::dependencies::check_major(*major)?;
    }
    Ok(majors.clone())
}

fn kind(arguments: &WheelArgs, package: &Package) -> Result<Kind, Failure> {
    match arguments.rpath.as_deref().or(package.config.wheel.rpath.as_deref()) {
        None | Some("runpath") => Ok(Kind::Runpath),
        Some("rpath") => Ok(Kind::Rpath),
        Some(other) => Err(Failure::new(
            exit_code::CONFIGURATION,
            format!("`{other}` is no kind of search path: `runpath` or `rpath`"),
        )),
    }
}

/// `2.34` of `cp39-abi3-manylinux_2_34_x86_64`.
fn glibc(tag: &str) -> Option<String> {
    let mut parts = tag.split_once("-manylinux_")?.1.split('_');
    let (major, minor) = (parts.next()?, parts.next()?);
    Some(format!("{major}.{minor}"))
}

fn summary(built: &[BuiltWheel]) -> String {
    let mut text = String::new();
    for wheel in built {
        text.push_str(&format!("{} ({})\n", wheel.path.display(), human_size(wheel.size)));
        for requirement in &wheel.requires {
            text.push_str(&format!("  requires {requirement}\n"));
        }
        if let Some(glibc) = wheel.tags.iter().find_map(|tag| glibc(tag)) {
            text.push_str(&format!(
                "  runs on glibc {glibc} and newer: follows from the machine that built it\n"
            ));
        }
        for library in &wheel.expected_on_system {
            text.push_str(&format!("  expects {library} on the system\n"));
        }
    }
    let paths: Vec<String> = built.iter().map(|wheel| wheel.path.display().to_string()).collect();
    text.push_str(&format!("to publish: uv publish {}\n", paths.join(" ")));
    text
}

impl From<WheelError> for Failure {
    fn from(error: WheelError) -> Self {
        let code = match &error {
            WheelError::NoMaturin { .. } | WheelError::OldMaturin { .. } => exit_code::MISSING_PROGRAM,
            WheelError::Io { .. } => exit_code::DISK,
            _ => exit_code::WHEEL,
        };
        Self { code, message: error.to_string(), hints: error.hints() }
    }
}

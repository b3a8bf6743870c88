//! `cargo cuda wheel`: one wheel per CUDA major.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, ReleaseReq, Root};

use crate::build::CAPABILITIES;
use crate::cargo_arguments::{feature_options, metadata_options, value_of, values_of};
use crate::cargo_config::Configured;
use crate::exit_code;
use crate::failure::Failure;
use crate::process;
use crate::store::{self, human_size};
use crate::wheel::WheelError;
use crate::wheel::build::Job;
use crate::wheel::maturin::Maturin;
use crate::wheel::rewrite::BuiltWheel;
use crate::wheel::runpath::Kind;
use crate::workspace::{Package, Query, Workspace};
use crate::{fetch, wheel};

/// Build one wheel per CUDA major.
///
/// maturin builds, and each result is renamed, given the dependencies of its major and a search
/// path for NVIDIA's own wheels; nothing of NVIDIA is copied in. The manylinux tag is the one
/// that maturin computes: it follows the glibc of the machine that builds.
#[derive(Args, Clone, Debug)]
pub struct WheelArgs {
    /// CUDA releases, as in `12,13` or `13.4`; by default the majors that the manifest declares
    #[arg(long, value_delimiter = ',', value_name = "RELEASES")]
    cuda: Vec<ReleaseReq>,
    /// The package, in a workspace with several modules
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,
    /// The manifest of the package
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
    let configs: Vec<String> = values_of(&arguments.passthrough, "--config").collect();
    let config = Configured::here(root, env, &configs);
    let env = &config.over(env);
    let env = &match &arguments.capabilities {
        Some(list) => env.clone().with(CAPABILITIES, list),
        None => env.clone(),
    };
    let manifest = arguments.manifest_path.clone();
    let manifest = manifest.unwrap_or_else(|| PathBuf::from("Cargo.toml"));
    let pyproject = root.text(&manifest.with_file_name("pyproject.toml"));
    let features = Maturin::graph_arguments(
        &manifest,
        &arguments.passthrough,
        &pyproject.unwrap_or_default(),
    );
    let query = Query {
        manifest: arguments.manifest_path.clone(),
        options: metadata_options(&arguments.passthrough),
        features: feature_options(&features),
    };
    let workspace = Workspace::load(root, env, &query)?;
    let package = match &arguments.package {
        Some(name) => workspace.package(name)?,
        None => package(&workspace, arguments.manifest_path.as_deref())?,
    };
    let releases = releases(arguments, package, env)?;
    let kind = kind(arguments, package)?;
    let maturin = maturin(arguments, env, root)?;
    let triple = value_of(&arguments.passthrough, "--target");
    let job = Job {
        env,
        root,
        workspace: &workspace,
        package,
        fetch: arguments.fetch,
        triple: triple.as_deref(),
        config: &config,
        profile: &arguments.profile,
        passthrough: &arguments.passthrough,
        out: &arguments.out,
        kind,
        maturin,
    };
    // Every toolkit first: a second major that is not there should not cost the first one's build.
    let mut prepared = Vec::new();
    for release in releases {
        prepared.push(job.prepare(release)?);
    }
    let mut built = Vec::new();
    for prepared in &prepared {
        built.push(job.build(prepared)?);
    }
    Ok(summary(&built))
}

fn maturin(arguments: &WheelArgs, env: &Env, root: &Root) -> Result<Maturin, Failure> {
    let answers = |invocation: &Invocation| process::output(invocation, env).is_some();
    // Where fetching is allowed, a pinned program of our own rather than one that `uvx` picks.
    let found = Maturin::find(env, root, answers);
    match found {
        Ok(program @ (Maturin::Program(_) | Maturin::Module(_))) => {
            let printed = process::output(&program.version(), env).unwrap_or_default();
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
            (None, Err(error)) => {
                Err(Failure::from(error).hint("or let this command fetch it: `--fetch`"))
            }
        },
    }
}

/// The package at `--manifest-path`, else the only one that makes a Python module.
fn package<'a>(workspace: &'a Workspace, manifest: Option<&Path>) -> Result<&'a Package, Failure> {
    let modules: Vec<&Package> = workspace
        .packages
        .iter()
        .filter(|p| p.cdylib.is_some())
        .collect();
    let named = manifest.and_then(|path| {
        let resolve = |path: &Path| Root::system().resolve(path);
        modules
            .iter()
            .find(|p| resolve(&p.manifest) == resolve(path))
            .copied()
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

/// The releases to build for: the option's, the variable's, or the declared majors.
fn releases(
    arguments: &WheelArgs,
    package: &Package,
    env: &Env,
) -> Result<Vec<ReleaseReq>, Failure> {
    let mut releases = arguments.cuda.clone();
    if releases.is_empty() {
        releases.extend(ReleaseReq::from_env(env)?);
    }
    if releases.is_empty() {
        let majors = package.config.majors.iter();
        releases.extend(majors.map(|major| ReleaseReq {
            major: *major,
            minor: None,
        }));
    }
    if releases.is_empty() {
        return Err(Failure::new(
            exit_code::CONFIGURATION,
            "which CUDA majors to make wheels for is not declared",
        )
        .hint(
            "write `majors = [12, 13]` below `[package.metadata.cuda]`, or give `--cuda 12,13`",
        ));
    }
    for release in &releases {
        wheel::dependencies::check_major(release.major)?;
    }
    Ok(releases)
}

fn kind(arguments: &WheelArgs, package: &Package) -> Result<Kind, Failure> {
    match arguments
        .rpath
        .as_deref()
        .or(package.config.wheel.rpath.as_deref())
    {
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
        text.push_str(&format!(
            "{} ({})\n",
            wheel.path.display(),
            human_size(wheel.size)
        ));
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
    let paths: Vec<String> = built
        .iter()
        .map(|wheel| wheel.path.display().to_string())
        .collect();
    text.push_str(&format!("to publish: uv publish {}\n", paths.join(" ")));
    text
}

impl From<WheelError> for Failure {
    fn from(error: WheelError) -> Self {
        let code = match &error {
            WheelError::NoMaturin { .. } | WheelError::OldMaturin { .. } => {
                exit_code::MISSING_PROGRAM
            }
            WheelError::Io { .. } => exit_code::DISK,
            _ => exit_code::WHEEL,
        };
        Self {
            code,
            message: error.to_string(),
            hints: error.hints(),
        }
    }
}

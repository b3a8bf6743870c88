//! `cargo cuda wheel`: one wheel per CUDA major.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use cuda_build::Plan;
use cuda_build::config::Config;
use cuda_find_core::{env::Env, root::Root, select::RequestedRelease};

use crate::audit::check;
use crate::failure::{Failure, Result};
use crate::isolated_build::{gpus, split};
use crate::output;
use crate::package::archive::WheelArchive;
use crate::package::metadata::{FileName, normalized_name};
use crate::package::pyproject::Pyproject;
use crate::package::variant;
use crate::project::{BuildOptions, WorkspaceOptions};
use crate::toolkits::distinct_majors;
use crate::wheel::build::{Prepared, WheelBuild};
use crate::wheel::index;
use crate::wheel::needs::check_major;
use crate::wheel::rewrite::{BuiltWheel, Purpose, Rewrite};
use crate::wheel::source::WheelSource;
use crate::wheel::summary;

/// Build one wheel for each CUDA major
#[derive(Args, Clone, Debug)]
// The options that have no effect on a wheel that is built already.
#[command(group(ArgGroup::new("build").multiple(true)))]
pub struct WheelArgs {
    /// CUDA releases, as in `12,13` or `13.4`; by default `CUDA_BUILD_RELEASE`, otherwise those of the manifest
    #[arg(long, value_delimiter = ',', value_name = "RELEASES")]
    cuda: Vec<RequestedRelease>,
    /// The package to build; by default the one in the current directory
    #[arg(long, short, value_name = "NAME", group = "build")]
    package: Option<String>,
    /// The manifest of the package
    #[arg(long, value_name = "Cargo.toml", group = "build")]
    manifest_path: Option<PathBuf>,
    /// The directory for the wheels
    #[arg(long, short, value_name = "DIRECTORY", default_value = "dist")]
    out: PathBuf,
    /// Build wheels of one name from which an installer chooses by driver and GPU, and one for installers that do not
    #[arg(long, group = "build")]
    variants: bool,
    /// With `--variants`: build a wheel for each capability
    #[arg(long, requires = "variants", group = "build")]
    split: bool,
    /// With `--variants`: write a static package index with the wheels, instead of `--out`
    #[arg(
        long,
        value_name = "DIRECTORY",
        requires = "variants",
        conflicts_with = "out",
        group = "build"
    )]
    index: Option<PathBuf>,
    /// Capabilities instead of the manifest's, as in `8.0,9.0,10.0,12.0+PTX`
    #[arg(long, value_name = "LIST", group = "build")]
    capabilities: Option<String>,
    /// The platform to build for, as in `aarch64-unknown-linux-gnu`
    #[arg(long, value_name = "TRIPLE", group = "build")]
    target: Option<String>,
    /// A library that is not copied into the wheel, as in `libtorch.so` or `libtorch*`; may be repeated
    #[arg(long, value_name = "LIBRARY", group = "build")]
    exclude: Vec<String>,
    /// Rewrite this wheel of another builder for the major of `--cuda`, instead of building one
    #[arg(
        long,
        value_name = "WHEEL",
        requires = "cuda",
        conflicts_with = "build"
    )]
    from_wheel: Option<PathBuf>,
    /// Fetch toolkits and maturin if they are missing
    #[arg(long, group = "build")]
    fetch: bool,
    /// Fail if Cargo.lock or the lock file of toolkits would change
    #[arg(long, group = "build")]
    locked: bool,
    /// Write the wheel although the audit finds an error of this check, as in `--allow W07`; may be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = check::codes(), ignore_case = true)]
    allow: Vec<String>,
    /// Arguments for maturin, after `--`, as in `-- -i python3.12 --profile dev`
    #[arg(last = true, group = "build")]
    passthrough: Vec<OsString>,
}

/// Builds the wheels and returns a report about them. After a failure, finished wheels are kept.
pub fn run(arguments: &WheelArgs, user_env: &Env, root: &Root) -> Result<String> {
    let built = match &arguments.from_wheel {
        Some(wheel) => BuiltWheels {
            wheels: vec![rewrite(arguments, wheel)?],
            out: arguments.out.clone(),
            ..BuiltWheels::default()
        },
        None => build(arguments, user_env, root)?,
    };
    let wheels = &built.wheels;
    output::messages(&summary::warnings(wheels));
    let publish = match arguments.variants {
        true => index::write(&built.out, arguments.index.as_deref(), wheels)?,
        false => summary::publish(wheels, &built.sdists),
    };
    Ok(summary::report(wheels, &built.sdists) + &publish)
}

/// Rewrites the wheel of another builder.
fn rewrite(arguments: &WheelArgs, path: &Path) -> Result<BuiltWheel> {
    let [RequestedRelease { major, minor: None }] = arguments.cuda[..] else {
        let text = "`--from-wheel` takes one CUDA major, because the wheel is built for one";
        return Err(
            Failure::usage(text).hint("name the major that the wheel was built for: `--cuda 13`")
        );
    };
    check_major(major)?;
    let name = FileName::parse(&output::file_name(path));
    if name.is_some_and(|name| name.label.is_some()) {
        let text = "`--from-wheel` takes a wheel that is for one CUDA major by its name, and this one is a variant";
        return Err(Failure::usage(text).hint("rewrite the wheel from which the variant was made"));
    }
    let rewrite = Rewrite::of_other_builder(major, arguments.allow.clone());
    rewrite.apply(WheelArchive::open(path)?, path, &arguments.out)
}

#[derive(Default)]
struct BuiltWheels {
    wheels: Vec<BuiltWheel>,
    sdists: Vec<PathBuf>,
    /// The directory of these files.
    out: PathBuf,
}

/// Builds the wheels and source distributions.
fn build(arguments: &WheelArgs, user_env: &Env, root: &Root) -> Result<BuiltWheels> {
    // These options must come first, because `passthrough` may contain a `--`, and the arguments
    // after it are for rustc.
    let mut passthrough: Vec<OsString> = Vec::new();
    passthrough.extend(arguments.locked.then(|| "--locked".into()));
    if let Some(target) = &arguments.target {
        passthrough.extend(["--target".into(), target.into()]);
    }
    passthrough.extend(arguments.passthrough.iter().cloned());
    let workspace_options = WorkspaceOptions {
        package: arguments.package.clone(),
        manifest_path: arguments.manifest_path.clone(),
        ..WorkspaceOptions::default()
    };
    let mut options = BuildOptions::new(None, arguments.fetch);
    options.search.reads_fetch_variable = true;
    options.capabilities.clone_from(&arguments.capabilities);
    let mut open = |capabilities: Option<String>| {
        options.capabilities = capabilities;
        WheelSource::open(&workspace_options, &options, &passthrough, user_env, root)
    };
    let source = open(arguments.capabilities.clone())?;
    source.project.check_not_skipped()?;
    let mut pyproject = source.pyproject.iter();
    pyproject.try_for_each(|pyproject| pyproject.check_backend(root))?;
    let config = source.package.config.clone();
    let releases = releases(arguments, &config, &source.project.env)?;
    let name = source.pyproject.as_ref().and_then(Pyproject::name);
    let name = normalized_name(name.unwrap_or(&source.package.name));
    let index = arguments.index.as_ref().map(|index| index.join(name));
    let out = index.unwrap_or(arguments.out.clone());
    let schema = variant::schema(&source.project.env);
    let variant = |label: Option<String>, plan: Option<Plan>| Purpose::Variant {
        label,
        plan,
        schema: schema.clone(),
    };
    let job = WheelBuild {
        excluded: arguments.exclude.clone(),
        allow: arguments.allow.clone(),
        ..WheelBuild::new(source, &out)?
    };
    // Code for the oldest major runs with the most drivers. Majors may be built one after the other.
    let built = releases.iter().map(|release| release.major);
    let majors = config.majors.iter().copied();
    let plain = config.plain_wheel.or(majors.chain(built).min());
    // Every toolkit is found before the first wheel is compiled, so that a missing one fails at once.
    let gpus = gpus();
    let mut builds: Vec<(WheelBuild, Prepared)> = Vec::new();
    for release in releases {
        let prepared = job.prepare(release, &gpus)?;
        let label = format!("cu{}", release.major);
        let is_plain = plain == Some(release.major);
        let mut job = job.clone();
        if arguments.split {
            let thin = split(&prepared.plan);
            if is_plain {
                // It is built first: the others take its device code.
                let purpose = variant(None, None);
                builds.push((
                    WheelBuild {
                        purpose,
                        ..job.clone()
                    },
                    prepared,
                ));
            }
            for (name, plan) in thin {
                job.source = open(Some(plan.to_string()))?;
                job.purpose = variant(Some(format!("{label}_{name}")), Some(plan));
                builds.push((job.clone(), job.prepare(release, &gpus)?));
            }
            continue;
        }
        if arguments.variants {
            job.purpose = variant(Some(label), None);
            job.also = is_plain.then(|| variant(None, None));
        }
        builds.push((job, prepared));
    }
    // If a build script needs nvcc, the build with a toolkit without nvcc fails. It comes first, so
    // that no other wheel is built before that.
    builds.sort_by_key(|(_, prepared)| prepared.has_nvcc());
    let mut built = BuiltWheels {
        out,
        ..BuiltWheels::default()
    };
    for (job, prepared) in &builds {
        let (wheels, sdists) = job.build(prepared)?;
        built.wheels.extend(wheels);
        // All builds make the same source distribution.
        built.sdists = sdists;
    }
    Ok(built)
}

/// The releases to build for: from `--cuda`, otherwise from `CUDA_BUILD_RELEASE`, otherwise the declared majors.
fn releases(arguments: &WheelArgs, config: &Config, env: &Env) -> Result<Vec<RequestedRelease>> {
    let mut releases = arguments.cuda.clone();
    if releases.is_empty() {
        releases.extend(RequestedRelease::from_env(env)?);
    }
    if releases.is_empty() {
        let majors = config.majors.iter();
        releases.extend(majors.map(|&major| RequestedRelease { major, minor: None }));
    }
    let releases = distinct_majors(&releases)?;
    releases
        .iter()
        .try_for_each(|release| check_major(release.major))?;
    if releases.is_empty() {
        let hint =
            "write `majors = [12, 13]` below `[package.metadata.cuda]`, or give `--cuda 12,13`";
        let text = "no CUDA majors to build wheels for are declared";
        return Err(Failure::configuration(text).hint(hint));
    }
    Ok(releases)
}

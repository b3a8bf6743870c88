//! `cargo cuda wheel`: one wheel per CUDA major.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::internal::config::parse_size;
use cuda_build::internal::{Env, RequestedRelease, Root};

use crate::audit::{self, report::Audited};
use crate::build;
use crate::cargo_arguments::Options;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::toolkits::LockPolicy;
use crate::wheel::build::Job;
use crate::wheel::dependencies;
use crate::wheel::maturin::{self, Maturin};
use crate::wheel::rewrite::BuiltWheel;
use crate::wheel::runpath::SearchPathKind;
use crate::wheel::{existing, metapackage, summary};
use crate::workspace::Package;

/// Build one wheel per CUDA major.
///
/// maturin builds each wheel. The wheel then gets a name with `-cu12` or `-cu13`, the dependencies
/// for its major, and a library search path into NVIDIA's own wheels. NVIDIA's shared
/// libraries are not copied into it, and the package is imported by the same name for every major.
/// maturin computes the manylinux tag, which depends on the glibc of the build machine.
#[derive(Args, Clone, Debug)]
pub struct WheelArgs {
    /// CUDA releases, as in `12,13` or `13.4`; by default the majors that the manifest declares
    #[arg(long, value_delimiter = ',', value_name = "RELEASES")]
    cuda: Vec<RequestedRelease>,
    /// The package to build, if the workspace has several Python modules
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,
    /// The manifest of the package
    #[arg(long, value_name = "Cargo.toml")]
    manifest_path: Option<PathBuf>,
    /// The directory for the wheels
    #[arg(long, short, value_name = "DIRECTORY", default_value = "dist")]
    out: PathBuf,
    /// Capabilities instead of the manifest's, as in `8.0,9.0,12.0+PTX`
    #[arg(long, value_name = "LIST")]
    capabilities: Option<String>,
    /// Cargo's profile
    #[arg(long, default_value = "release")]
    profile: String,
    /// `runpath`, which `LD_LIBRARY_PATH` overrides, or `rpath`, which it does not
    #[arg(long, value_name = "KIND")]
    rpath: Option<String>,
    /// Rewrite this wheel of another builder for the major of `--cuda`, instead of building one
    #[arg(
        long,
        value_name = "WHEEL",
        requires = "cuda",
        conflicts_with_all = ["package", "manifest_path", "capabilities", "profile", "fetch", "locked", "passthrough"]
    )]
    from_wheel: Option<PathBuf>,
    /// The largest wheel that the index accepts, as in `200 MiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Also write a wheel without code that has the extras `cu12`, `cu13` …, one for each major
    #[arg(long)]
    metapackage: bool,
    /// Fetch toolkits and maturin if they are missing
    #[arg(long)]
    fetch: bool,
    /// Fail if Cargo.lock or the lock file of toolkits would change
    #[arg(long)]
    locked: bool,
    /// Arguments for maturin, after `--`
    #[arg(last = true)]
    passthrough: Vec<OsString>,
}

/// Builds the wheels and returns a report about them. After a failure, finished wheels are kept.
pub fn run(arguments: &WheelArgs, user: &Env, root: &Root) -> Result<String, Failure> {
    let (built, max_size) = match &arguments.from_wheel {
        Some(wheel) => (vec![rewrite(arguments, wheel)?], None),
        None => build(arguments, user, root)?,
    };
    output::messages(&summary::notes(&built));
    for wheel in &built {
        // The size is checked below, because the manifest can change its limit.
        let audited = Audited::new(
            &audit::input::read(&wheel.path)?,
            &[audit::check::Code("W17")],
        );
        output::messages(&audited.messages());
    }
    let metapackage = match arguments.metapackage {
        true => metapackage::write(&built, &arguments.out)?,
        false => None,
    };
    summary::check_sizes(&built, arguments.max_size.or(max_size))?;
    Ok(summary::report(&built, metapackage.as_deref()))
}

/// Rewrites the wheel of another builder.
fn rewrite(arguments: &WheelArgs, wheel: &Path) -> Result<BuiltWheel, Failure> {
    let [release] = arguments.cuda.as_slice() else {
        return Err(Failure::new(
            exit_code::USAGE,
            "`--from-wheel` takes one CUDA major, because the wheel is built for one",
        ));
    };
    let kind = kind(arguments.rpath.as_deref())?;
    existing::rewrite(wheel, release.major, kind, &arguments.out)
}

/// Builds the wheels, and returns the largest size that the manifest declares.
fn build(
    arguments: &WheelArgs,
    user: &Env,
    root: &Root,
) -> Result<(Vec<BuiltWheel>, Option<u64>), Failure> {
    // `--locked` must come first, because `passthrough` may contain a `--`, and the arguments after
    // it are for rustc.
    let locked = arguments.locked.then(|| OsString::from("--locked"));
    let own = arguments.passthrough.iter().cloned();
    let passthrough: Vec<OsString> = locked.into_iter().chain(own).collect();
    let manifest = arguments.manifest_path.clone();
    let manifest = manifest.unwrap_or_else(|| PathBuf::from("Cargo.toml"));
    let pyproject = root.text(&manifest.with_file_name("pyproject.toml"));
    let features = maturin::default_features(&passthrough, &pyproject.unwrap_or_default());
    let cargo = Options::parse(&[features, passthrough.clone()].concat());
    let options = BuildOptions {
        capabilities: arguments.capabilities.clone(),
        ..BuildOptions::new(None, arguments.fetch)
    };
    let which = WorkspaceOptions {
        package: arguments.package.clone(),
        manifest_path: arguments.manifest_path.clone(),
        target: cargo.value("--target"),
        cargo,
        workspace: WorkspaceUse::Required,
    };
    let mut project = Project::open(user, root, &options, &which)?;
    let package = package(&project, arguments.manifest_path.as_deref())?.clone();
    project.package = Some(package.name.clone());
    if project.lock == LockPolicy::Prefer {
        project.lock = LockPolicy::Require;
    }
    let releases = releases(arguments, &package, &project.env)?;
    let job = Job {
        kind: kind(
            arguments
                .rpath
                .as_deref()
                .or(package.config.wheel.rpath.as_deref()),
        )?,
        maturin: Maturin::find(&project.env, arguments.fetch)?,
        project,
        package,
        profile: &arguments.profile,
        passthrough: &passthrough,
        out: &arguments.out,
    };
    // Every toolkit is found before the first wheel is compiled, so that a missing one fails at once.
    let gpus = build::gpus();
    let mut prepared = Vec::new();
    for release in releases {
        prepared.push(job.prepare(release, &gpus)?);
    }
    let mut built = Vec::new();
    for prepared in &prepared {
        built.push(job.build(prepared)?);
    }
    Ok((built, job.package.config.wheel.max_size))
}

/// The package that `--package` or `--manifest-path` names. Otherwise the only package with a Python
/// module, which is a `cdylib`.
fn package<'a>(project: &'a Project, manifest: Option<&Path>) -> Result<&'a Package, Failure> {
    let modules: Vec<&Package> = project
        .packages()
        .filter(|package| project.package.is_some() || package.config.cdylib)
        .collect();
    let resolve = |path: &Path| project.root.resolve(path);
    let is_named = |package: &&&Package| {
        manifest.is_some_and(|path| resolve(&package.manifest) == resolve(path))
    };
    if let Some(package) = modules.iter().find(is_named) {
        return Ok(package);
    }
    match modules.as_slice() {
        [package] => Ok(package),
        [] => Err(Failure::new(
            exit_code::CONFIGURATION,
            "no package in the workspace builds a Python module: none has a `cdylib` library",
        )
        .hint("add `crate-type = [\"cdylib\"]` below `[lib]`, or name the crate with `--manifest-path`")),
        several => {
            let names: Vec<&str> = several.iter().map(|p| p.name.as_str()).collect();
            Err(Failure::new(
                exit_code::CONFIGURATION,
                format!("several packages in the workspace build a Python module: {}", names.join(", ")),
            )
            .hint("name one with `--manifest-path`"))
        }
    }
}

/// The releases to build for: from `--cuda`, else from `CUDA_BUILD_RELEASE`, else the declared majors.
fn releases(
    arguments: &WheelArgs,
    package: &Package,
    env: &Env,
) -> Result<Vec<RequestedRelease>, Failure> {
    let mut releases = arguments.cuda.clone();
    if releases.is_empty() {
        releases.extend(RequestedRelease::from_env(env)?);
    }
    if releases.is_empty() {
        let majors = package.config.majors.iter();
        releases.extend(majors.map(|&major| RequestedRelease { major, minor: None }));
    }
    if releases.is_empty() {
        return Err(Failure::new(
            exit_code::CONFIGURATION,
            "no CUDA majors to build wheels for are declared",
        )
        .hint(
            "write `majors = [12, 13]` below `[package.metadata.cuda]`, or give `--cuda 12,13`",
        ));
    }
    for release in &releases {
        dependencies::check_major(release.major)?;
    }
    Ok(releases)
}

fn kind(name: Option<&str>) -> Result<SearchPathKind, Failure> {
    match name {
        None | Some("runpath") => Ok(SearchPathKind::Runpath),
        Some("rpath") => Ok(SearchPathKind::Rpath),
        Some(other) => Err(Failure::new(
            exit_code::CONFIGURATION,
            format!("`{other}` is not a kind of search path: use `runpath` or `rpath`"),
        )),
    }
}

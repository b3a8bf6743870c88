//! `cargo cuda wheel`: one wheel per CUDA major.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::internal::config::parse_size;
use cuda_build::internal::{Env, RequestedRelease, Root};

use crate::audit::check::{Code, Severity};
use crate::build;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::project::{BuildOptions, SearchOptions};
use crate::wheel::build::{Built, Job};
use crate::wheel::dependencies;
use crate::wheel::runpath::SearchPathKind;
use crate::wheel::source::{Choice, Source};
use crate::wheel::{existing, metapackage, summary};
use crate::workspace::Package;

/// Build one wheel for each CUDA major
#[derive(Args, Clone, Debug)]
pub struct WheelArgs {
    /// CUDA releases, as in `12,13` or `13.4`; by default the majors that the manifest declares
    #[arg(long, value_delimiter = ',', value_name = "RELEASES")]
    cuda: Vec<RequestedRelease>,
    /// The package to build; by default the one in the current directory
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,
    /// The manifest of the package
    #[arg(long, value_name = "Cargo.toml")]
    manifest_path: Option<PathBuf>,
    /// The directory for the wheels
    #[arg(long, short, value_name = "DIRECTORY", default_value = "dist")]
    out: PathBuf,
    /// Capabilities instead of the manifest's, as in `8.0,9.0,10.0,12.0+PTX`
    #[arg(long, value_name = "LIST")]
    capabilities: Option<String>,
    /// A Python to build for, as in `python3.12`; may be repeated
    #[arg(long, short, value_name = "PYTHON")]
    interpreter: Vec<PathBuf>,
    /// Cargo's profile; by default that of pyproject.toml, otherwise release
    #[arg(long)]
    profile: Option<String>,
    /// `rpath`, or `runpath`, which `LD_LIBRARY_PATH` overrides; by default the manifest's or `rpath`, and with
    /// `--from-wheel` the kind that the modules have
    #[arg(long, value_name = "KIND")]
    rpath: Option<String>,
    /// A library that is not copied into the wheel, as in `libtorch.so` or `libtorch*`; may be repeated
    #[arg(long, value_name = "LIBRARY")]
    exclude: Vec<String>,
    /// Rewrite this wheel of another builder for the major of `--cuda`, instead of building one
    #[arg(
        long,
        value_name = "WHEEL",
        requires = "cuda",
        conflicts_with_all = ["package", "manifest_path", "capabilities", "profile", "fetch", "locked", "interpreter", "exclude", "passthrough"]
    )]
    from_wheel: Option<PathBuf>,
    /// The largest wheel that the index accepts, as in `200 MiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Also write a wheel without code that has the extras `cu12`, `cu13` …, one for each major
    #[arg(long)]
    metapackage: bool,
    /// Fetch toolkits, maturin and auditwheel if they are missing
    #[arg(long)]
    fetch: bool,
    /// Fail if Cargo.lock or the lock file of toolkits would change
    #[arg(long)]
    locked: bool,
    /// Write the wheel although the audit finds an error of this check, as in `--allow W07`; may be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    allow: Vec<Code>,
    /// Arguments for maturin, after `--`
    #[arg(last = true)]
    passthrough: Vec<OsString>,
}

/// Builds the wheels and returns a report about them. After a failure, finished wheels are kept.
pub fn run(arguments: &WheelArgs, user: &Env, root: &Root) -> Result<String, Failure> {
    let (Built { wheels, sdists }, max_size) = match &arguments.from_wheel {
        Some(wheel) => (rewrite(arguments, wheel)?, None),
        None => build(arguments, user, root)?,
    };
    output::messages(&summary::notes(&wheels));
    let mut findings = Vec::new();
    for wheel in &wheels {
        let warnings = wheel.audited.of_severity(Severity::Warning).into_iter();
        let messages = warnings.map(|warning| format!("{warning}\nhint: {}", warning.hint));
        findings.push((wheel.path.as_path(), messages.collect()));
    }
    output::messages(&summary::findings(&findings));
    let metapackage = match arguments.metapackage {
        true => metapackage::write(&wheels, &arguments.out)?,
        false => None,
    };
    summary::check_sizes(&wheels, arguments.max_size.or(max_size))?;
    Ok(summary::report(&wheels, &sdists, metapackage.as_deref()))
}

/// Rewrites the wheel of another builder.
fn rewrite(arguments: &WheelArgs, wheel: &Path) -> Result<Built, Failure> {
    let [release] = arguments.cuda.as_slice() else {
        return Err(Failure::new(
            exit_code::USAGE,
            "`--from-wheel` takes one CUDA major, because the wheel is built for one",
        )
        .hint("name the major that the wheel was built for: `--cuda 13`"));
    };
    let kind = kind(arguments.rpath.as_deref())?;
    Ok(Built {
        wheels: vec![existing::rewrite(
            wheel,
            release.major,
            kind,
            &arguments.allow,
            &arguments.out,
        )?],
        sdists: Vec::new(),
    })
}

/// Builds the wheels and source distributions. Also returns the largest size that the manifest declares.
fn build(arguments: &WheelArgs, user: &Env, root: &Root) -> Result<(Built, Option<u64>), Failure> {
    if arguments.metapackage && arguments.passthrough.iter().any(|a| a == "--sdist") {
        return Err(Failure::new(
            exit_code::USAGE,
            "`--metapackage` and `--sdist` both write a distribution with the package's own name, and installers \
             expect the same requirements and extras in both",
        )
        .hint("leave out `--metapackage` or `--sdist`"));
    }
    // These options must come first, because `passthrough` may contain a `--`, and the arguments
    // after it are for rustc.
    let mut passthrough: Vec<OsString> = Vec::new();
    passthrough.extend(arguments.locked.then(|| "--locked".into()));
    for python in &arguments.interpreter {
        passthrough.extend(["--interpreter".into(), python.into()]);
    }
    passthrough.extend(arguments.passthrough.iter().cloned());
    let choice = Choice {
        package: arguments.package.as_deref(),
        manifest: arguments.manifest_path.as_deref(),
        build: BuildOptions {
            capabilities: arguments.capabilities.clone(),
            search: SearchOptions {
                cuda: None,
                fetch: arguments.fetch,
                fetch_variable: true,
            },
        },
        passthrough: &passthrough,
    };
    let source = Source::open(&choice, user, root)?;
    source.project.check_not_skipped()?;
    let releases = releases(arguments, &source.package, &source.project.env)?;
    let declared = source.package.config.wheel.rpath.as_deref();
    let kind = kind(arguments.rpath.as_deref().or(declared))?.unwrap_or_default();
    let job = Job {
        kind,
        profile: arguments.profile.clone(),
        excluded: arguments.exclude.clone(),
        allow: arguments.allow.clone(),
        ..Job::new(source, &arguments.out)?
    };
    // Every toolkit is found before the first wheel is compiled, so that a missing one fails at once.
    let gpus = build::gpus();
    let mut prepared = Vec::new();
    for release in releases {
        prepared.push(job.prepare(release, &gpus)?);
    }
    // If a build script needs nvcc, the build with a toolkit without nvcc fails. It comes first, so
    // that no other wheel is built before that.
    let mut order: Vec<usize> = (0..prepared.len()).collect();
    order.sort_by_key(|&index| prepared[index].has_nvcc());
    let mut built = Vec::new();
    for index in order {
        built.push((index, job.build(&prepared[index])?));
    }
    built.sort_by_key(|(index, _)| *index);
    let mut all = Built::default();
    for (_, of_major) in built {
        all.wheels.extend(of_major.wheels);
        // The builds of all majors make the same source distribution.
        all.sdists = of_major.sdists;
    }
    Ok((all, job.source.package.config.wheel.max_size))
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
    let mut chosen: Vec<RequestedRelease> = Vec::new();
    for release in releases {
        dependencies::check_major(release.major)?;
        let same_major = chosen.iter().find(|other| other.major == release.major);
        match same_major {
            None => chosen.push(release),
            Some(other) if *other == release => {}
            Some(other) => {
                return Err(Failure::new(
                    exit_code::USAGE,
                    format!(
                        "wheels for CUDA {other} and {release} are requested, but there is one wheel per CUDA major"
                    ),
                )
                .hint(format!("give one of them: `--cuda {release}`")));
            }
        }
    }
    Ok(chosen)
}

fn kind(name: Option<&str>) -> Result<Option<SearchPathKind>, Failure> {
    let parse = |text| {
        SearchPathKind::parse(text).ok_or_else(|| {
            Failure::new(
                exit_code::CONFIGURATION,
                format!("`{text}` is not a kind of search path"),
            )
            .hint("use `rpath`, or `runpath`, which `LD_LIBRARY_PATH` overrides")
        })
    };
    name.map(parse).transpose()
}

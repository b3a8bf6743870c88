//! `cargo cuda wheel`: one wheel per CUDA major.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use cuda_build::internal::{Env, RequestedRelease, Root};

use crate::build;
use crate::exit_code;
use crate::failure::Failure;
use crate::project::BuildOptions;
use crate::store::human_size;
use crate::wheel::build::{Built, Job};
use crate::wheel::dependencies;
use crate::wheel::rewrite::BuiltWheel;
use crate::wheel::runpath::SearchPathKind;
use crate::wheel::source::{Choice, Source};
use crate::workspace::Package;

/// Build one wheel per CUDA major.
///
/// maturin builds each wheel. The wheel then gets a name with `-cu12` or `-cu13`, the dependencies
/// for its major, and a library search path into NVIDIA's own wheels. None of NVIDIA's files is
/// copied into it, and the package is imported by the same name for every major. maturin computes
/// the manylinux tag, which depends on the glibc of the build machine. auditwheel copies libraries
/// of others into the wheel, for example OpenSSL; without auditwheel, such a wheel has no manylinux
/// tag.
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
    /// Capabilities instead of the manifest's, as in `8.0,9.0,12.0+PTX`
    #[arg(long, value_name = "LIST")]
    capabilities: Option<String>,
    /// A Python to build for, as in `python3.12`; may be repeated
    #[arg(long, short, value_name = "PYTHON")]
    interpreter: Vec<PathBuf>,
    /// Cargo's profile; by default that of pyproject.toml, otherwise release
    #[arg(long)]
    profile: Option<String>,
    /// `rpath` (default), or `runpath`, which `LD_LIBRARY_PATH` overrides
    #[arg(long, value_name = "KIND")]
    rpath: Option<String>,
    /// A library that is not copied into the wheel, as in `libtorch.so` or `libtorch*`; may be repeated
    #[arg(long, value_name = "LIBRARY")]
    exclude: Vec<String>,
    /// Fetch toolkits, maturin and auditwheel if they are missing
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
            ..BuildOptions::new(None, arguments.fetch)
        },
        passthrough: &passthrough,
    };
    let source = Source::open(&choice, user, root)?;
    let releases = releases(arguments, &source.package, &source.project.env)?;
    let kind = kind(arguments, &source.package)?;
    let job = Job {
        kind,
        profile: arguments.profile.clone(),
        excluded: arguments.exclude.clone(),
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
    let built: Vec<Built> = built.into_iter().map(|(_, built)| built).collect();
    Ok(summary(&built))
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

fn kind(arguments: &WheelArgs, package: &Package) -> Result<SearchPathKind, Failure> {
    let declared = package.config.wheel.rpath.as_deref();
    let Some(text) = arguments.rpath.as_deref().or(declared) else {
        return Ok(SearchPathKind::default());
    };
    SearchPathKind::parse(text).ok_or_else(|| {
        Failure::new(
            exit_code::CONFIGURATION,
            format!("`{text}` is not a kind of search path: use `rpath` or `runpath`"),
        )
    })
}

fn summary(built: &[Built]) -> String {
    let mut text = String::new();
    let wheels: Vec<&BuiltWheel> = built.iter().flat_map(|built| &built.wheels).collect();
    for wheel in &wheels {
        let size = human_size(wheel.size);
        text.push_str(&format!("{} ({size})\n", wheel.path.display()));
        for requirement in &wheel.requires {
            text.push_str(&format!("  requires {requirement}\n"));
        }
        if let Some(glibc) = &wheel.glibc {
            text.push_str(&format!(
                "  requires glibc {glibc} or newer, which the build machine determines\n"
            ));
        }
        for library in &wheel.expected_on_system {
            text.push_str(&format!("  expects {library} on the system\n"));
        }
        if wheel.glibc.is_none() && !wheel.expected_on_system.is_empty() {
            text.push_str(
                "  has no manylinux tag, so package indexes refuse it: install auditwheel and patchelf, or give \
                 `--fetch`, to copy these libraries into the wheel\n",
            );
        }
    }
    // The builds of all majors make the same source distribution.
    let sdists: BTreeSet<&PathBuf> = built.iter().flat_map(|built| &built.sdists).collect();
    for path in &sdists {
        text.push_str(&format!("{}\n", path.display()));
    }
    let paths = wheels.iter().map(|wheel| &wheel.path).chain(sdists);
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    text.push_str(&format!("to publish: uv publish {}\n", paths.join(" ")));
    text
}

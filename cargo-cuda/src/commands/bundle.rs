//! `cargo cuda bundle`: a program with the libraries of NVIDIA's that it needs, and their licences.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cuda_build::Component;
use cuda_build::config::{Config, Fallback};
use cuda_find_core::capability::{Plan, undeclared};
use cuda_find_core::{env::Env, root::Root, select::RequestedRelease};

use super::build;
use crate::bundle::content::{Build, Place};
use crate::bundle::directory;
use crate::bundle::start::{self, Described};
use crate::cargo_arguments::{CargoOptions, SplitArguments, without};
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::isolated_build::{self, IsolatedBuild, gpus};
use crate::output::{self, joined};
use crate::package::archive;
use crate::package::elf::ElfFacts;
use crate::process;
use crate::project::{BuildOptions, Project, WorkspaceOptions};
use crate::toolkits::{builds_directory, distinct_majors, release_of};
use crate::wheel::runpath::{MOST_LINKS, link_arguments, needed_by_runpath, no_end};
use crate::workspace::Package;

/// Write a program with the libraries of NVIDIA's that it needs, for machines with a driver alone
#[derive(Args, Clone, Debug)]
pub struct BundleArgs {
    /// The directory; by default `dist/<name>-<version>-<target>`
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// CUDA releases, as in `12,13` or `13.4`; of several builds, the one for the driver and GPU is started
    #[arg(long, value_delimiter = ',', value_name = "RELEASES")]
    cuda: Vec<RequestedRelease>,
    /// A build for each capability, for programs whose sources choose by it
    #[arg(long)]
    split: bool,
    /// Compute capabilities instead of the declared ones, as in 8.0,9.0,10.0,12.0+PTX
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    capabilities: Option<String>,
    /// Components that you may redistribute, though their licence is not recognised or not found
    #[arg(long, value_delimiter = ',', value_name = "COMPONENTS")]
    redistribute: Vec<Component>,
    /// Fetch the components that are not found; `CUDA_BUILD_FETCH=1` does the same
    #[arg(long)]
    fetch: bool,
}

/// What all builds of a bundle have in common.
struct Job<'a> {
    arguments: &'a BundleArgs,
    split: &'a SplitArguments,
    cargo: &'a CargoOptions,
    user_env: &'a Env,
    project: &'a Project,
    config: &'a Config,
    /// The file name of the program.
    name: &'a str,
    /// Where the programs are kept until they are copied.
    kept: &'a Path,
}

/// The features of a build, which those of the build without CUDA replace, and its directory.
const OF_A_BUILD: [&str; 5] = [
    "--features",
    "-F",
    "--all-features",
    "--no-default-features",
    "--target-dir",
];

/// Returns the report.
pub fn run(
    arguments: &BundleArgs,
    split: &SplitArguments,
    user_env: &Env,
    root: &Root,
) -> Result<String> {
    let cargo = CargoOptions::parse(&split.for_cargo);
    let options = WorkspaceOptions {
        target: cargo.value("--target"),
        manifest_path: cargo.value("--manifest-path").map(PathBuf::from),
        cargo: cargo.clone(),
        ..WorkspaceOptions::default()
    };
    let one = (arguments.cuda.first().copied()).filter(|_| arguments.cuda.len() == 1);
    let build_options = arguments.options(one, arguments.capabilities.clone());
    let project = Project::open(user_env, root, &build_options, &options)?;
    project.check_not_skipped()?;
    let named = cargo.value("--package").or(cargo.value("-p"));
    let package = match (&project.workspace, named) {
        (Some(workspace), Some(name)) => Some(workspace.package(&name)?),
        (Some(workspace), None) => workspace.package_at(root, options.manifest_path.as_deref()),
        (None, _) => None,
    };
    let name = built_file(&cargo, package)?;
    let version = package.map_or(String::new(), |package| format!("-{}", package.version));
    let stem = name.trim_end_matches(".so");
    let default = format!("dist/{stem}{version}-{}", project.target.triple());
    let output = arguments.output.clone().unwrap_or(default.into());
    output::check_replaceable(&output, directory::DESCRIPTION, "\"builds\":")?;
    output::create_directory(output::parent(&output))?;
    let kept = output::temporary_directory(output::parent(&output))?;
    let job = Job {
        arguments,
        split,
        cargo: &cargo,
        user_env,
        project: &project,
        config: &package.map_or_else(Config::default, |package| package.config.clone()),
        name: &name,
        kept: kept.path(),
    };
    let builds = job.builds()?;
    let start = |builds: &[Described]| start::compile(builds, &cargo, &project, kept.path());
    directory::write(&output, &name, &builds, start)
}

impl BundleArgs {
    fn options(
        &self,
        cuda: Option<RequestedRelease>,
        capabilities: Option<String>,
    ) -> BuildOptions {
        let mut options = BuildOptions::new(cuda, self.fetch);
        options.search.reads_fetch_variable = true;
        options.capabilities = capabilities;
        options
    }
}

impl Job<'_> {
    fn builds(&self) -> Result<Vec<Build>> {
        let arguments = self.arguments;
        let is_library = self.name.ends_with(".so");
        let fallback = (self.config.fallback.as_ref()).filter(|_| !is_library);
        let capabilities = || arguments.capabilities.clone();
        let mut releases = Vec::from_iter(distinct_majors(&arguments.cuda)?.into_iter().map(Some));
        if releases.len() < 2 && !arguments.split && fallback.is_none() {
            let release = releases.pop().flatten();
            return Ok(vec![self.compile(
                "",
                Place::only(),
                release,
                capabilities(),
            )?]);
        }
        if is_library {
            let text = "a bundle with several builds has a program that starts one of them, and this is a library";
            return Err(Failure::usage(text).hint("write a bundle for each CUDA release"));
        }
        if releases.is_empty() {
            releases.push(None);
        }
        let gpus = gpus();
        // All toolkits are found before anything is compiled.
        let mut planned = Vec::new();
        for release in releases {
            let of_release = release.map(|release| self.project.for_release(release));
            let project = of_release.as_ref().unwrap_or(self.project);
            let purpose = isolated_build::Purpose::Cargo;
            let found = IsolatedBuild::prepare(project, purpose, &gpus, None)?;
            let release = release_of(found.toolkit.version());
            let name = format!("cu{}", release.major);
            if !arguments.split {
                planned.push((release, name, None));
                continue;
            }
            for (part, plan) in isolated_build::split(&found.plan.ok_or_else(undeclared)?) {
                planned.push((release, format!("{name}-{part}"), Some(plan)));
            }
        }
        let mut builds = Vec::new();
        for (release, name, plan) in planned {
            let place = Place::of(&name, release.major);
            let list = plan.as_ref().map(Plan::to_string).or_else(capabilities);
            let build = self.compile(&name, place, Some(release), list)?;
            builds.push(Build { plan, ..build });
        }
        if let Some(fallback) = fallback {
            builds.push(self.without_cuda(fallback)?);
        }
        Ok(builds)
    }

    /// Builds the program, again if it needs libraries directly that only others searched for.
    fn compile(
        &self,
        name: &str,
        place: Place,
        release: Option<RequestedRelease>,
        capabilities: Option<String>,
    ) -> Result<Build> {
        let options = self.arguments.options(release, capabilities);
        let mut direct = BTreeMap::new();
        for _ in 0..MOST_LINKS {
            let search = [place.search_path()];
            let search = link_arguments(&search, direct.keys());
            let call = rustc_call(self.split, self.cargo, self.name, search);
            let (code, build) = build::run(&options, &call, self.user_env, &self.project.root)?;
            check_code(code)?;
            let file = self.keep(&build.directory.path, name)?;
            let program = ElfFacts::read_tables(archive::open(&file)?.0)?;
            let needed = needed_by_runpath(&program.needed, &build.toolkit)?;
            if needed.keys().all(|soname| direct.contains_key(soname)) {
                let release = release_of(build.toolkit.version());
                let permitted = &self.arguments.redistribute;
                return Build::new(
                    name,
                    place,
                    &file,
                    release,
                    self.project,
                    self.config,
                    permitted,
                );
            }
            direct.extend(needed);
        }
        let names = joined(direct.keys(), ", ");
        Err(no_end(&format!(
            "it needs another library directly after each of them, at last {names}"
        )))
    }

    /// Builds the program without CUDA, as plain cargo does.
    fn without_cuda(&self, fallback: &Fallback) -> Result<Build> {
        output::status("Building", &format!("{} without CUDA", self.name));
        let mut users = self.split.clone();
        users.for_cargo = without(&users.for_cargo, &OF_A_BUILD);
        let features = ["--features".to_owned(), fallback.features.join(",")];
        let default = (!fallback.default_features).then(|| "--no-default-features".to_owned());
        let features = features.into_iter().chain(default);
        users.for_cargo.extend(features.map(OsString::from));
        let call = rustc_call(&users, self.cargo, self.name, Vec::new());
        let builds = builds_directory(&self.project.env, self.project.workspace.as_ref())?;
        let directory = builds.join(".fallback");
        let cargo = process::cargo(self.user_env, &["rustc"]).args(call.for_cargo);
        let cargo = cargo.args(self.project.target_directory_arguments(&directory));
        check_code(process::run(&cargo.args(call.for_program), self.user_env)?)?;
        Build::fallback(&self.keep(&directory, "fallback")?)
    }

    /// Copies the program from a target directory, in which the next build writes its own.
    fn keep(&self, target_directory: &Path, name: &str) -> Result<PathBuf> {
        let config = &self.project.config;
        let directories = config.profile_directories(self.cargo, "release");
        let mut file = target_directory.to_owned();
        file.extend(directories.first());
        file.push(self.name);
        let kept = self.kept.join(name).join(self.name);
        output::copy(&file, &kept)?;
        Ok(kept)
    }
}

/// Fails with cargo's exit code.
fn check_code(code: u8) -> Result<()> {
    if code == exit_code::SUCCESS {
        return Ok(());
    }
    let text = format!("cargo ended with code {code}, so there is no bundle");
    Err(Failure::new(code, text).hint("correct what cargo's messages above name"))
}

/// The file that cargo builds: a program, or the package's `cdylib`.
fn built_file(cargo: &CargoOptions, package: Option<&Package>) -> Result<String> {
    let programs = package.map_or(&[][..], |package| &package.programs);
    let library = package.and_then(|package| package.cdylib.as_ref());
    let library = library.map(|name| format!("lib{name}.so"));
    let wants_library = cargo.has(&["--lib"]);
    let text = match (cargo.value("--bin"), programs, library) {
        _ if cargo.has(&["--example", "--test", "--bench"]) => {
            "`bundle` builds programs and `cdylib` libraries alone"
        }
        (Some(name), ..) => return Ok(name),
        (None, [name], _) if !wants_library => return Ok(name.clone()),
        (None, [], Some(library)) => return Ok(library),
        (None, _, Some(library)) if wants_library => return Ok(library),
        (None, ..) => "`bundle` needs one program or `cdylib`, and none or several are here",
    };
    Err(Failure::usage(text).hint("name one with `--package` and `--bin` or `--lib`"))
}

/// The command line of `cargo rustc`. The arguments for the linker are for the final crate alone, so that dependencies
/// of an earlier `cargo cuda build --release` are not compiled again.
fn rustc_call(
    users: &SplitArguments,
    cargo: &CargoOptions,
    name: &str,
    search: Vec<String>,
) -> SplitArguments {
    let mut call = users.clone();
    call.command = "rustc".to_owned();
    match name.ends_with(".so") {
        _ if cargo.has(&["--bin", "--lib"]) => {}
        true => call.for_cargo.push("--lib".into()),
        false => call.for_cargo.extend(["--bin".into(), name.into()]),
    }
    if !cargo.has(&["--release", "-r", "--profile"]) {
        call.for_cargo.push("--release".into());
    }
    if call.for_program.is_empty() {
        call.for_program.push("--".into());
    }
    call.for_program.extend(search.into_iter().map(Into::into));
    call
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;

//! The workspace, as `cargo metadata` describes it.

use std::path::{Path, PathBuf};

use cargo_metadata::{CrateType, DependencyKind, MetadataCommand, Target};
use cuda_build::internal::{Config, Env, Root};

use crate::cargo_arguments::Options;
use crate::dependencies::Dependencies;
use crate::exit_code;
use crate::failure::Failure;

/// A workspace with its packages.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The root directory of the workspace.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target_directory: PathBuf,
    /// Whether Cargo's configuration (`build.build-dir`) puts intermediate files outside the target directory.
    pub has_separate_build_directory: bool,
    /// The packages that are members of the workspace.
    pub packages: Vec<Package>,
    /// What the resolved dependencies reveal. Empty if [`Workspace::load`] did not resolve them.
    pub dependencies: Dependencies,
}

/// When `cargo metadata` resolves the dependencies, which takes longer than reading the workspace's own manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// Only if cudarc may be among the dependencies. If cargo fails, its error is ignored here, because cargo reports
    /// the same error when it builds.
    #[default]
    ForCudarc,
    /// For a report. If cargo fails, its error is ignored.
    IfPossible,
    /// Before anything is fetched for the workspace. Fails if cargo cannot resolve the dependencies.
    Always,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// The name of the library target; without one, that of the package with underscores.
    pub library: String,
    pub version: String,
    /// The path of the package's `Cargo.toml`.
    pub manifest: PathBuf,
    /// The CUDA settings from the package's manifest, the workspace, and the variables that override them.
    pub config: Config,
    /// Whether cuda-build is a build dependency of the package.
    pub uses_cuda_build: bool,
    /// Whether pyo3 is a dependency of the package.
    pub uses_pyo3: bool,
}

fn library(package: &cargo_metadata::Package) -> String {
    let crate_types = [CrateType::CDyLib, CrateType::Lib];
    let is_library = |target: &&Target| target.crate_types.iter().any(|t| crate_types.contains(t));
    match package.targets.iter().find(is_library) {
        Some(target) => target.name.clone(),
        None => package.name.replace('-', "_"),
    }
}

/// `cargo metadata` for a manifest, otherwise for the current directory.
fn metadata_command(env: &Env, manifest: Option<&Path>, options: Vec<String>) -> MetadataCommand {
    let mut command = MetadataCommand::new();
    if let Some(cargo) = env.peek("CARGO") {
        command.cargo_path(cargo);
    }
    if let Some(manifest) = manifest {
        command.manifest_path(manifest);
    }
    command.other_options(options);
    command
}

impl Workspace {
    /// Loads the workspace with `cargo metadata`.
    pub fn load(
        root: &Root,
        env: &Env,
        manifest: Option<&Path>,
        options: &Options,
        resolve: Resolve,
    ) -> Result<Self, Failure> {
        let mut command = metadata_command(env, manifest, options.metadata_arguments());
        let metadata = command.no_deps().exec().map_err(failure)?;
        let mut packages = Vec::new();
        for package in metadata.workspace_packages() {
            let manifest = package.manifest_path.clone().into_std_path_buf();
            let directory = manifest.parent().unwrap_or(Path::new("."));
            packages.push(Package {
                name: package.name.to_string(),
                library: library(package),
                version: package.version.to_string(),
                uses_cuda_build: package.dependencies.iter().any(|dependency| {
                    dependency.name == "cuda-build" && dependency.kind == DependencyKind::Build
                }),
                uses_pyo3: package
                    .dependencies
                    .iter()
                    .any(|dependency| ["pyo3", "pyo3-ffi"].contains(&dependency.name.as_str())),
                config: Config::read(root, env, directory)?,
                manifest,
            });
        }
        let build_directory = metadata.build_directory.as_ref();
        let lock = root.text(metadata.workspace_root.join("Cargo.lock").as_std_path());
        let has_no_cudarc = lock.is_ok_and(|text| !text.contains("name = \"cudarc\""));
        let resolved = || {
            let options = [options.metadata_arguments(), options.features()].concat();
            let metadata = metadata_command(env, manifest, options).exec();
            metadata
                .map(|metadata| Dependencies::new(&metadata))
                .map_err(failure)
        };
        let dependencies = match resolve {
            Resolve::Always => resolved()?,
            Resolve::ForCudarc if has_no_cudarc => Dependencies::default(),
            Resolve::ForCudarc | Resolve::IfPossible => resolved().unwrap_or_default(),
        };
        Ok(Self {
            has_separate_build_directory: build_directory
                .is_some_and(|directory| *directory != metadata.target_directory),
            dependencies,
            root: metadata.workspace_root.into_std_path_buf(),
            target_directory: metadata.target_directory.into_std_path_buf(),
            packages,
        })
    }

    /// Loads the workspace; `None` if there is no manifest in the current directory or its parents,
    /// or if cargo cannot be run.
    pub fn load_optional(
        root: &Root,
        env: &Env,
        manifest: Option<&Path>,
        options: &Options,
        resolve: Resolve,
    ) -> Result<Option<Self>, Failure> {
        // Do not start cargo if no manifest exists. Cargo would search the same directories, but starting it takes ten
        // times as long as creating a view.
        let here = std::env::current_dir().unwrap_or_default();
        let mut manifests = here
            .ancestors()
            .map(|directory| directory.join("Cargo.toml"));
        if manifest.is_none() && !manifests.any(|manifest| root.is_file(&manifest)) {
            return Ok(None);
        }
        match Self::load(root, env, manifest, options, resolve) {
            Ok(workspace) => Ok(Some(workspace)),
            Err(failure) if failure.code == exit_code::MISSING_PROGRAM => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The package of this name.
    pub fn package(&self, name: &str) -> Result<&Package, Failure> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.packages.iter().map(|p| p.name.as_str()).collect();
            Failure::new(
                exit_code::USAGE,
                format!(
                    "no package `{name}` in the workspace {}; it has {}",
                    self.root.display(),
                    names.join(", ")
                ),
            )
            .hint("give one of these names after `--package`")
        })
    }

    /// The majors that packages declare, newest first.
    pub fn majors(&self) -> Vec<u32> {
        let mut majors: Vec<u32> = self
            .packages
            .iter()
            .flat_map(|p| p.config.majors.iter().copied())
            .collect();
        majors.sort_unstable_by(|a, b| b.cmp(a));
        majors.dedup();
        majors
    }
}

fn failure(error: cargo_metadata::Error) -> Failure {
    match error {
        cargo_metadata::Error::CargoMetadata { stderr } => Failure::new(
            exit_code::FAILURE,
            stderr.trim().trim_start_matches("error: "),
        )
        .hint(match stderr.contains("could not find `Cargo.toml`") {
            true => {
                "change to the directory of a package, or name its manifest with `--manifest-path`"
            }
            false => "correct what cargo reports; `cargo metadata` reports it too",
        }),
        other => Failure::new(
            exit_code::MISSING_PROGRAM,
            format!("could not query cargo: {other}"),
        )
        .hint("install Rust, and put the directory of `cargo` on `PATH`"),
    }
}

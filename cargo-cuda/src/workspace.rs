//! The workspace, as `cargo metadata` describes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use cuda_build::config::Config;
use cuda_find_core::{env::Env, root::Root};

use crate::cargo_config::host;
use crate::failure::{Failure, Result};
use crate::output::joined;
use crate::selection::{CargoCommand, Selection};

/// A workspace with its packages.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The root directory of the workspace.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target_directory: PathBuf,
    /// The packages that are members of the workspace.
    pub packages: Vec<Package>,
    /// What `cargo metadata` printed. It has only the members if cargo could not resolve the dependencies.
    pub metadata: Metadata,
}

/// A package of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// The path of the package's `Cargo.toml`.
    pub manifest: PathBuf,
    /// The CUDA settings from the package's manifest, the workspace, and the variables that override them.
    pub config: Config,
    /// The names of its programs, as in `--bin <name>`.
    pub programs: Vec<String>,
    /// The name of its library, if that is a `cdylib`.
    pub cdylib: Option<String>,
    /// Whether cuda-build is a build dependency of the package.
    pub uses_cuda_build: bool,
    /// Whether pyo3 is a dependency of the package.
    pub uses_pyo3: bool,
}

impl Workspace {
    /// Loads the workspace with `cargo metadata`, with the dependencies that `command` may compile on its platforms and
    /// on this machine. If cargo cannot resolve the dependencies, only `must_resolve` makes that an error here, because
    /// cargo reports the same error when it builds.
    pub fn load(
        root: &Root,
        env: &Env,
        command: &CargoCommand<'_>,
        must_resolve: bool,
    ) -> Result<Self> {
        let mut query = MetadataCommand::new();
        if let Some(cargo) = env.peek("CARGO") {
            query.cargo_path(cargo);
        }
        if let Some(manifest) = command.manifest {
            query.manifest_path(manifest);
        }
        let mut arguments = command.options.metadata_arguments();
        for platform in command.platforms().into_iter().chain([host()]) {
            arguments.extend(["--filter-platform".to_owned(), platform]);
        }
        query.other_options(arguments);
        let metadata = match query.exec() {
            Err(_) if !must_resolve => query.no_deps().exec(),
            metadata => metadata,
        };
        let metadata = metadata.map_err(metadata_failure)?;
        let mut packages = Vec::new();
        for package in metadata.workspace_packages() {
            let manifest = package.manifest_path.clone().into_std_path_buf();
            let directory = manifest.parent().unwrap_or(Path::new("."));
            let uses = |names: &[&str], kind: DependencyKind| {
                let mut dependencies = package.dependencies.iter();
                dependencies.any(|it| names.contains(&it.name.as_str()) && it.kind == kind)
            };
            let mut targets = package.targets.iter();
            let programs = targets.clone().filter(|target| target.is_bin());
            let cdylib = targets.find(|target| target.is_cdylib());
            packages.push(Package {
                programs: programs.map(|target| target.name.clone()).collect(),
                cdylib: cdylib.map(|target| target.name.replace('-', "_")),
                name: package.name.to_string(),
                version: package.version.to_string(),
                uses_cuda_build: uses(&["cuda-build"], DependencyKind::Build),
                uses_pyo3: uses(&["pyo3", "pyo3-ffi"], DependencyKind::Normal),
                config: Config::read(root, env, directory)?,
                manifest,
            });
        }
        Ok(Self {
            root: metadata.workspace_root.clone().into_std_path_buf(),
            target_directory: metadata.target_directory.clone().into_std_path_buf(),
            packages,
            metadata,
        })
    }

    /// The package of this name.
    pub fn package(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.ok_or_else(|| {
            let names = joined(self.packages.iter().map(|p| &p.name), ", ");
            let root = self.root.display();
            let text = format!("no package `{name}` in the workspace {root}; it has {names}");
            Failure::usage(text).hint("give one of these names after `--package`")
        })
    }

    /// The members of a selection. If Cargo builds a dependency alone, no member is selected: then all members, because
    /// the workspace's declarations count.
    pub fn members_of(&self, selection: &Selection) -> Vec<Package> {
        let described = self.metadata.packages.iter();
        let selected: BTreeSet<&Path> = described
            .filter(|package| selection.contains(package))
            .map(|package| package.manifest_path.as_std_path())
            .collect();
        let members = self.packages.iter();
        let members: Vec<Package> = members
            .filter(|member| selected.contains(member.manifest.as_path()))
            .cloned()
            .collect();
        match members.is_empty() {
            true => self.packages.clone(),
            false => members,
        }
    }

    /// The package with this manifest, by default the one in or above the current directory.
    pub fn package_at(&self, root: &Root, manifest: Option<&Path>) -> Option<&Package> {
        let nearest = || nearest_manifest(root);
        let path = root.resolve(&manifest.map(Path::to_owned).or_else(nearest)?);
        let mut packages = self.packages.iter();
        packages.find(|package| root.resolve(&package.manifest) == path)
    }
}

/// The majors that packages declare, newest first.
pub fn declared_majors(packages: &[Package]) -> Vec<u32> {
    let declared = packages.iter().flat_map(|it| &it.config.majors);
    let majors: BTreeSet<u32> = declared.copied().collect();
    majors.into_iter().rev().collect()
}

/// The manifest in the current directory or the nearest one above.
pub fn nearest_manifest(root: &Root) -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut manifests = here.ancestors().map(|above| above.join("Cargo.toml"));
    manifests.find(|manifest| root.is_file(manifest))
}

fn metadata_failure(error: cargo_metadata::Error) -> Failure {
    let cargo_metadata::Error::CargoMetadata { stderr } = error else {
        return Failure::missing_program(format!("could not query cargo: {error}"))
            .hint("install Rust, and put the directory of `cargo` on `PATH`");
    };
    let hint = match stderr.contains("could not find `Cargo.toml`") {
        true => "change to the directory of a package, or name its manifest with `--manifest-path`",
        false => "correct what cargo reports; `cargo metadata` reports it too",
    };
    Failure::other(stderr.trim().trim_start_matches("error: ")).hint(hint)
}

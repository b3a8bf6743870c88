//! The crate from which a wheel is built, as cargo and maturin choose it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, Root};

use super::maturin::Arguments;
use super::pyproject::Pyproject;
use crate::cargo_arguments::Options;
use crate::exit_code;
use crate::failure::Failure;
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::toolkits::LockPolicy;
use crate::workspace::Package;

/// The options that choose a crate, a toolkit and the arguments of maturin.
#[derive(Clone, Debug, Default)]
pub struct Choice<'a> {
    /// `--package`.
    pub package: Option<&'a str>,
    /// `--manifest-path`.
    pub manifest: Option<&'a Path>,
    pub build: BuildOptions,
    /// The user's own arguments for maturin.
    pub passthrough: &'a [OsString],
}

/// A crate with its `pyproject.toml`.
#[derive(Clone, Debug)]
pub struct Source {
    /// The project, limited to `package`.
    pub project: Project,
    pub package: Package,
    pub pyproject: Option<Pyproject>,
    /// The arguments for maturin.
    pub arguments: Arguments,
}

impl Source {
    /// Finds the crate that `--package` or `--manifest-path` names. Otherwise the crate that `pyproject.toml` in the
    /// current directory names, else the package of the current directory, else the only Python package of the
    /// workspace.
    pub fn open(choice: &Choice<'_>, user: &Env, root: &Root) -> Result<Self, Failure> {
        let here = std::env::current_dir().unwrap_or_default();
        let named = choice.manifest.map(PathBuf::from);
        let manifest = named.or_else(|| manifest_of_pyproject(root, &here));
        let open = |manifest: Option<PathBuf>, added: Vec<OsString>| {
            let cargo = Options::parse(&[added, choice.passthrough.to_vec()].concat());
            let which = WorkspaceOptions {
                package: choice.package.map(str::to_owned),
                manifest_path: manifest,
                target: cargo.value("--target"),
                cargo,
                workspace: WorkspaceUse::Required,
                ..WorkspaceOptions::default()
            };
            Project::open(user, root, &choice.build, &which)
        };
        let mut project = open(manifest.clone(), Vec::new())?;
        let package = package(&project, manifest.as_deref(), &here)?.clone();
        let workspace = project.workspace.as_ref();
        let workspace = workspace.map_or(here, |workspace| workspace.root.clone());
        let pyproject = Pyproject::of_crate(root, &package.manifest, &workspace);
        // Features and other options in `pyproject.toml` change what `cargo metadata` prints.
        let added = pyproject
            .as_ref()
            .map(|file| file.cargo_options(choice.passthrough))
            .unwrap_or_default();
        if !added.is_empty() {
            project = open(Some(package.manifest.clone()), added)?;
        }
        project.package = Some(package.name.clone());
        if project.lock == LockPolicy::Prefer {
            project.lock = LockPolicy::Require;
        }
        Ok(Self {
            arguments: Arguments::new(choice.passthrough, pyproject.as_ref()),
            project,
            package,
            pyproject,
        })
    }

    /// The directory in which maturin has to start to find `pyproject.toml`, if it does not find the file from the
    /// path of the crate's `Cargo.toml`.
    pub fn directory(&self) -> Option<&Path> {
        let workspace = &self.project.workspace.as_ref()?.root;
        let pyproject = self.pyproject.as_ref()?;
        (!pyproject.is_found_from_crate(workspace)).then_some(&pyproject.directory)
    }
}

/// The crate's manifest, from `pyproject.toml` in `directory`: the value of `manifest-path`, or `rust/Cargo.toml` if
/// the directory itself has no crate.
fn manifest_of_pyproject(root: &Root, directory: &Path) -> Option<PathBuf> {
    let pyproject = Pyproject::read(root, directory)?;
    let below = directory.join("rust/Cargo.toml");
    let is_python_first = !root.is_file(&directory.join("Cargo.toml")) && root.is_file(&below);
    pyproject
        .manifest()
        .or_else(|| is_python_first.then_some(below))
}

fn package<'a>(
    project: &'a Project,
    manifest: Option<&Path>,
    here: &Path,
) -> Result<&'a Package, Failure> {
    let root = &project.root;
    let with_manifest = |path: &Path| {
        let path = root.resolve(path);
        project
            .packages()
            .find(|package| root.resolve(&package.manifest) == path)
    };
    if let Some(package) = manifest.and_then(with_manifest) {
        return Ok(package);
    }
    let is_chosen = project.package.is_some();
    let makes_wheel = |package: &&Package| {
        let workspace = project.workspace.as_ref();
        let workspace = workspace.map_or(here, |workspace| workspace.root.as_path());
        let pyproject = || Pyproject::of_crate(root, &package.manifest, workspace);
        is_chosen
            || package.config.cdylib
            || pyproject().is_some_and(|file| file.builds(root, &package.manifest))
    };
    let mut manifests = here
        .ancestors()
        .map(|directory| directory.join("Cargo.toml"));
    let nearest = manifests.find(|manifest| root.is_file(manifest));
    let current = nearest.as_deref().and_then(with_manifest);
    if let Some(package) = current.filter(makes_wheel).filter(|_| manifest.is_none()) {
        return Ok(package);
    }
    let packages: Vec<&Package> = project.packages().filter(makes_wheel).collect();
    match packages.as_slice() {
        [package] => Ok(package),
        [] => Err(Failure::new(
            exit_code::CONFIGURATION,
            "no package in the workspace builds a Python package: none has a `cdylib` library or a `pyproject.toml` for maturin",
        )
        .hint("add `crate-type = [\"cdylib\"]` below `[lib]`, or name the crate with `--manifest-path`")),
        several => {
            let names: Vec<&str> = several.iter().map(|p| p.name.as_str()).collect();
            Err(Failure::new(
                exit_code::CONFIGURATION,
                format!("several packages in the workspace build a Python package: {}", names.join(", ")),
            )
            .hint("name one with `--package`, or run the command in its directory"))
        }
    }
}

//! The crate from which a wheel is built, as cargo and maturin choose it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_find_core::{env::Env, root::Root};

use crate::cargo_arguments::{CargoOptions, first_of};
use crate::failure::{Failure, Result};
use crate::output::joined;
use crate::package::pyproject::{MaturinTable, Pyproject};
use crate::project::{BuildOptions, Project, WorkspaceOptions, WorkspaceUse};
use crate::toolkits::LockPolicy;
use crate::workspace::{Package, Workspace};

/// The options of maturin that `cargo cuda` sets.
const OURS: &str = "--auditwheel --skip-auditwheel --manifest-path -m --out -o";

/// A crate with its `pyproject.toml`.
#[derive(Clone, Debug)]
pub struct WheelSource {
    /// The project, limited to `package`.
    pub project: Project,
    pub package: Package,
    pub pyproject: Option<Pyproject>,
    /// The table `[tool.maturin]`.
    pub maturin: MaturinTable,
    /// The user's options for maturin: features, target, interpreters …
    pub options: Vec<OsString>,
    /// Arguments for rustc: those after a second `--`, otherwise those of `pyproject.toml`.
    pub rustc_args: Vec<OsString>,
}

impl WheelSource {
    /// Finds the crate that `--package` or `--manifest-path` names. Otherwise the crate that `pyproject.toml` in the
    /// current directory names, else the package of the current directory, else the only Python package of the
    /// workspace. `passthrough` are the user's own arguments for maturin.
    pub fn open(
        which: &WorkspaceOptions,
        build: &BuildOptions,
        passthrough: &[OsString],
        user: &Env,
        root: &Root,
    ) -> Result<Self> {
        let here = std::env::current_dir().unwrap_or_default();
        let named = which.manifest_path.clone();
        let manifest = named.or_else(|| manifest_of_pyproject(root, &here));
        let open = |manifest: Option<PathBuf>, added: Vec<OsString>| {
            let cargo = CargoOptions::parse(&[added, passthrough.to_vec()].concat());
            let which = WorkspaceOptions {
                manifest_path: manifest,
                target: cargo.value("--target"),
                cargo,
                workspace: WorkspaceUse::Required,
                ..which.clone()
            };
            Project::open(user, root, build, &which)
        };
        let project = open(manifest.clone(), Vec::new())?;
        let workspace = project.workspace()?;
        let package = match &which.package {
            Some(name) => workspace.package(name)?,
            None => choose(workspace, manifest.as_deref(), root)?,
        };
        let package = package.clone();
        let pyproject = Pyproject::of_crate(root, &package.manifest, &workspace.root);
        let maturin = pyproject.as_ref().map(Pyproject::maturin);
        let maturin = maturin.unwrap_or_default();
        // What this package needs, with the features and other options in `pyproject.toml`.
        let added = maturin.cargo_options(passthrough);
        let mut project = open(Some(package.manifest.clone()), added)?;
        let packages = &mut project.packages;
        packages.retain(|member| member.name == package.name);
        if project.lock == LockPolicy::Prefer {
            project.lock = LockPolicy::Require;
        }
        let mut parts = passthrough.splitn(2, |argument| argument == "--");
        let options = parts.next().unwrap_or_default().to_vec();
        if let Some(option) = first_of(&options, &Vec::from_iter(OURS.split(' '))) {
            let text = format!(
                "the arguments for maturin contain `{option}`, which `cargo cuda` sets itself"
            );
            return Err(Failure::usage(text).hint(
                "remove it; for a wheel without a manylinux tag, write `auditwheel = \"skip\"` below `[tool.maturin]` \
                 in pyproject.toml",
            ));
        }
        let mut rustc_args = parts.next().unwrap_or_default().to_vec();
        if rustc_args.is_empty() {
            rustc_args.extend(maturin.rustc_args.iter().map(OsString::from));
        }
        Ok(Self {
            project,
            package,
            pyproject,
            maturin,
            options,
            rustc_args,
        })
    }

    /// Cargo's profile: `release`, unless maturin's options or `pyproject.toml` name one. maturin's own default is
    /// `dev`.
    pub fn default_profile(&self) -> Option<&'static str> {
        let option = first_of(&self.options, &["-r", "--release", "--profile"]);
        let is_named = self.maturin.profile.is_some() || option.is_some();
        (!is_named).then_some("release")
    }

    /// maturin's working directory, if the path of `Cargo.toml` does not lead maturin to `pyproject.toml`.
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
    let below = is_python_first.then_some(below);
    pyproject.manifest().or(below)
}

/// The package of a workspace from which a wheel is built, if no option names one.
fn choose<'a>(
    workspace: &'a Workspace,
    manifest: Option<&Path>,
    root: &Root,
) -> Result<&'a Package> {
    if manifest.is_some()
        && let Some(package) = workspace.package_at(root, manifest)
    {
        return Ok(package);
    }
    let makes_wheel = |package: &&Package| {
        let pyproject = || Pyproject::of_crate(root, &package.manifest, &workspace.root);
        package.config.cdylib
            || pyproject().is_some_and(|file| file.builds(root, &package.manifest))
    };
    let here = workspace.package_at(root, None).filter(makes_wheel);
    if manifest.is_none()
        && let Some(package) = here
    {
        return Ok(package);
    }
    let packages: Vec<&Package> = workspace.packages.iter().filter(makes_wheel).collect();
    let (text, hint) = match (packages.as_slice(), &workspace.packages[..]) {
        // A single package is not ambiguous: it may be a program.
        ([package], _) => return Ok(package),
        ([], [package]) => return Ok(package),
        ([], _) => (
            "no package in the workspace has a `cdylib` library or a `pyproject.toml` for maturin"
                .to_owned(),
            "add `crate-type = [\"cdylib\"]` below `[lib]`, or name the crate with `--manifest-path`",
        ),
        (several, _) => {
            let names = joined(several.iter().map(|package| &package.name), ", ");
            let text = format!("several packages in the workspace build a Python package: {names}");
            (
                text,
                "name one with `--package`, or run the command in its directory",
            )
        }
    };
    Err(Failure::configuration(text).hint(hint))
}

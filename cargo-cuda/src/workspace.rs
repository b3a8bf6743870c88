//! What `cargo metadata` says of the workspace at hand.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};
use cuda_build::{Config, Env, Root};

use crate::exit_code;
use crate::failure::Failure;
use crate::signs::Files;

/// A workspace and the packages in it that declare CUDA.
#[derive(Debug)]
pub struct Workspace {
    /// The directory of its root.
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    pub target_directory: PathBuf,
    /// Where it keeps what is only needed on the way there; mostly the same.
    pub build_directory: PathBuf,
    /// Whether this cargo, 1.91 or newer, knows that directory apart.
    pub knows_build_directory: bool,
    /// Each package with its declarations.
    pub packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// What it declares.
    pub config: Config,
    /// Whether its build script uses cuda-build.
    pub uses_cuda_build: bool,
    /// Whether it calls cuda-build, from its build script or for those of others, and names what only
    /// nvcc can compile.
    pub wants_nvcc: bool,
    /// Name of the library target that is a `cdylib`, if it has one.
    pub cdylib: Option<String>,
}

impl Workspace {
    /// Asks cargo, as the user's own command line would be understood: `configs` is what its
    /// `--config` says.
    ///
    /// # Errors
    /// Where cargo can't be run, finds no manifest, or one can't be used.
    pub fn load(
        root: &Root,
        env: &Env,
        manifest: Option<&Path>,
        configs: &[String],
    ) -> Result<Self, Failure> {
        let mut command = MetadataCommand::new();
        if let Some(cargo) = env.peek("CARGO") {
            command.cargo_path(cargo);
        }
        if env.peek("CARGO_BUILD_BUILD_DIR").is_none() {
            // One that a `cargo cuda` above this one has set.
            command.env_remove("CARGO_BUILD_BUILD_DIR");
        }
        if let Some(manifest) = manifest {
            command.manifest_path(manifest);
        }
        command.other_options(
            configs
                .iter()
                .flat_map(|config| ["--config".to_owned(), config.clone()])
                .collect::<Vec<_>>(),
        );
        let metadata = command.no_deps().exec().map_err(not_answered)?;
        let files = Files::new(root, &metadata.packages);
        let dependencies = metadata
            .workspace_packages()
            .into_iter()
            .flat_map(|package| &package.dependencies);
        let called_by_scripts: BTreeSet<&str> = dependencies
            .filter(|dependency| dependency.kind == DependencyKind::Build)
            .map(|dependency| dependency.name.as_str())
            .collect();
        let mut packages = Vec::new();
        for package in metadata.workspace_packages() {
            let manifest = package.manifest_path.clone().into_std_path_buf();
            let directory = manifest.parent().unwrap_or(Path::new("."));
            let cdylib = package.targets.iter().find(|target| {
                target
                    .crate_types
                    .contains(&cargo_metadata::CrateType::CDyLib)
            });
            let uses_cuda_build = package.dependencies.iter().any(|dependency| {
                dependency.name == "cuda-build" && dependency.kind == DependencyKind::Build
            });
            let script = package
                .targets
                .iter()
                .find(|target| target.is_custom_build());
            let script = script.map(|target| target.src_path.as_std_path());
            // A crate that the workspace's build scripts call.
            let called = called_by_scripts.contains(package.name.as_str())
                && package.dependencies.iter().any(|dependency| {
                    dependency.name == "cuda-build" && dependency.kind == DependencyKind::Normal
                });
            let wants_nvcc = (uses_cuda_build && files.wants_nvcc(package, script))
                || (called && files.wants_nvcc(package, None));
            packages.push(Package {
                name: package.name.to_string(),
                version: package.version.to_string(),
                uses_cuda_build,
                wants_nvcc,
                config: Config::read(root, env, directory)?,
                cdylib: cdylib.map(|target| target.name.clone()),
                manifest,
            });
        }
        let target_directory = metadata.target_directory.into_std_path_buf();
        Ok(Self {
            root: metadata.workspace_root.into_std_path_buf(),
            knows_build_directory: metadata.build_directory.is_some(),
            build_directory: metadata
                .build_directory
                .map_or_else(|| target_directory.clone(), |path| path.into_std_path_buf()),
            target_directory,
            packages,
        })
    }

    /// The workspace, or none where the current directory belongs to none: some commands are also
    /// for machines.
    ///
    /// # Errors
    /// As [`Workspace::load`], for a workspace that is there and can't be read.
    pub fn load_optional(root: &Root, env: &Env) -> Result<Option<Self>, Failure> {
        // Cargo would look in the same places, ten times as long as a whole view takes.
        if manifest_here(root).is_none() {
            return Ok(None);
        }
        match Self::load(root, env, None, &[]) {
            Ok(workspace) => Ok(Some(workspace)),
            Err(failure) if failure.message.contains("could not find `Cargo.toml`") => Ok(None),
            Err(failure) if failure.code == exit_code::MISSING_PROGRAM => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The same with what the command line says of the target directory.
    #[must_use]
    pub fn at(mut self, target_directory: Option<PathBuf>) -> Self {
        if let Some(directory) = target_directory.and_then(|d| std::path::absolute(d).ok()) {
            if self.build_directory == self.target_directory {
                self.build_directory.clone_from(&directory);
            }
            self.target_directory = directory;
        }
        self
    }

    /// Whether cargo can be told another build directory, below this one. It takes braces for a
    /// template of its own.
    #[must_use]
    pub fn moves_build_directory(&self) -> bool {
        let text = self.build_directory.to_str();
        self.knows_build_directory && text.is_some_and(|text| !text.contains(['{', '}']))
    }

    /// The majors that packages declare, newest first.
    #[must_use]
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

/// Why cargo gave no answer.
pub fn not_answered(error: cargo_metadata::Error) -> Failure {
    match error {
        cargo_metadata::Error::CargoMetadata { stderr } => Failure::new(
            exit_code::FAILURE,
            stderr.trim().trim_start_matches("error: "),
        ),
        other => Failure::new(
            exit_code::MISSING_PROGRAM,
            format!("could not ask cargo: {other}"),
        ),
    }
}

/// Those of cargo's arguments that decide which packages are built: features, and whether the
/// lock file and the network may be touched.
#[must_use]
pub fn graph_options(arguments: &[OsString]) -> Vec<String> {
    let mut arguments = arguments
        .iter()
        .take_while(|a| *a != "--")
        .filter_map(|a| a.to_str());
    let mut options = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument {
            "--all-features" | "--no-default-features" | "--offline" | "--locked" | "--frozen" => {
                options.push(argument.to_owned());
            }
            "--features" | "-F" | "--config" => {
                options.push(argument.to_owned());
                options.extend(arguments.next().map(str::to_owned));
            }
            _ if ["--features=", "-F", "--config="]
                .iter()
                .any(|start| argument.starts_with(start)) =>
            {
                options.push(argument.to_owned());
            }
            _ => {}
        }
    }
    options
}

/// Where cargo puts what a profile builds, below its build directory.
#[must_use]
pub fn profile_directory(directory: &Path, triple: Option<&str>, profile: &str) -> PathBuf {
    let name = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        named => named,
    };
    triple
        .map_or_else(|| directory.to_owned(), |triple| directory.join(triple))
        .join(name)
}

/// The value of `--manifest-path` among arguments for cargo.
#[must_use]
pub fn manifest_path(arguments: &[OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if argument == "--manifest-path" {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(path) = argument
            .to_str()
            .and_then(|text| text.strip_prefix("--manifest-path="))
        {
            return Some(PathBuf::from(path));
        }
    }
    None
}

/// The manifest that cargo takes in the current directory.
#[must_use]
pub fn manifest_here(root: &Root) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors()
        .map(|directory| directory.join("Cargo.toml"))
        .find(|manifest| root.is_file(manifest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_path_is_read_up_to_the_separator() {
        let find = |arguments: &[&str]| {
            manifest_path(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(
            find(&["--release", "--manifest-path", "a/Cargo.toml"]),
            Some(PathBuf::from("a/Cargo.toml"))
        );
        assert_eq!(find(&["--manifest-path=b"]), Some(PathBuf::from("b")));
        assert_eq!(find(&["--", "--manifest-path", "c"]), None);
    }
}

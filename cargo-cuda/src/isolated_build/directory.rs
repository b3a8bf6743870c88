//! The target directory of a build, and what it was last built with.
//!
//! All builds of a workspace share `<target>/cargo-cuda`, whatever the toolkit and the list of capabilities. Build
//! scripts that look for CUDA by themselves do not declare what they read, so the directory has a record of what the
//! last build set. If that differs, cargo compiles again the packages that can depend on it (see
//! [`dependent_packages`]), and their dependents.
//!
//! ```text
//! <target>/cargo-cuda/
//!   debug/, release/ …           Cargo's output
//!   .cuda/view -> views/…        the toolkit as one root, at a stable path
//!   .cuda/views/                 the views; Cargo would add a directory in debug/ or release/ to the loader path
//!   .cuda/toolkit.toml           the toolkit, for build scripts with cuda-build
//!   .cuda/built-with.json        the record
//!   .cuda/dependent/             the packages that may depend on CUDA, for all dependencies that were built here
//!   .cuda/.lock                  locked while cargo runs: shared by builds with the same record
//!   .wheel/                      the same for wheels
//!   .separate/13.5-0123…/        the same for one toolkit and list, if `CUDA_BUILD_SEPARATE` is set, and for programs
//!   latest -> .                  the directory of the last build
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use cuda_build::{Component, Toolkit, ToolkitVersion, view::VIEWS_VARIABLE};
use cuda_find_core::output as files;
use cuda_find_core::{env::Env, root::Root};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::dependent::dependent_packages;
use crate::environment::Variable;
use crate::failure::Failure;
use crate::output::{self, joined};
use crate::project::Project;
use crate::toolkits::builds_directory;
use crate::workspace::Workspace;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Purpose {
    Cargo,
    /// A wheel. Its rustflags differ, so that cargo would rebuild everything after a build without them.
    Wheel,
    /// Not a build: `env` and `exec` set the variables for a shell or another program.
    Program,
}

/// Components that affect compiler output.
const COMPILER_COMPONENTS: [Component; 5] = [
    Component::Nvcc,
    Component::Nvvm,
    Component::Crt,
    Component::Cudart,
    Component::Cccl,
];

/// The user's variables that affect compiler output.
const FLAGS: &str = "NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS NVCC_CCBIN CUDAHOSTCXX CUDAFLAGS CUDA_COMPUTE_CAP CUDAARCHS \
                     CMAKE_CUDA_ARCHITECTURES TORCH_CUDA_ARCH_LIST CUDARC_CUDA_VERSION";

/// With another value than 0, each toolkit and list has a target directory of its own.
const SEPARATE: &str = "CUDA_BUILD_SEPARATE";

/// What a target directory was built with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// A hash of everything but the components: what compiles, and the variables for build scripts.
    inputs: String,
    /// The identity of each component, by id.
    components: BTreeMap<String, String>,
}

impl Record {
    /// The record of a build that sets `variables`.
    pub fn new(
        project: &Project,
        purpose: Purpose,
        toolkit: &Toolkit,
        variables: &[(&str, &OsStr)],
    ) -> Self {
        let (root, env, target) = (&project.root, &project.env, &project.target);
        let components = identities(root, toolkit);
        let compiler = COMPILER_COMPONENTS.map(|component| components.get(component.id()));
        let flags: Vec<_> = FLAGS.split(' ').map(|name| env.peek(name)).collect();
        let platform = (target.triple(), target.directory());
        Self {
            inputs: digest(&(
                purpose == Purpose::Wheel,
                platform,
                compiler,
                (variables, flags),
            )),
            components,
        }
    }

    /// Whether a build with another record can use what was built with this one. New components change nothing.
    fn serves(&self, other: &Self) -> bool {
        let mut components = self.components.iter();
        self.inputs == other.inputs
            && components.all(|(id, identity)| other.components.get(id) == Some(identity))
    }

    /// What identifies the components that affect compiler output.
    pub fn compiler_identity(&self) -> String {
        let identities = COMPILER_COMPONENTS.map(|it| self.components.get(it.id()).cloned());
        identities.map(Option::unwrap_or_default).join(" ")
    }
}

#[derive(Clone, Debug)]
pub struct TargetDirectory {
    /// The absolute path. Cargo gets it as the value of `--target-dir`.
    pub path: PathBuf,
}

impl TargetDirectory {
    /// The directory for a build. `named` is the value of `--target-dir`.
    pub fn choose(
        project: &Project,
        purpose: Purpose,
        named: Option<&Path>,
        version: ToolkitVersion,
        record: &Record,
    ) -> Result<Self, Failure> {
        if let Some(path) = named {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            return Ok(Self { path });
        }
        let base = builds_directory(&project.env, project.workspace.as_ref())?;
        let value = project.env.peek(SEPARATE);
        let is_requested = value.is_some_and(|value| !value.is_empty() && value != "0");
        // Variables for a shell hold while other builds run, and the packages of `cargo install` are not known.
        let is_separate =
            is_requested || purpose == Purpose::Program || project.workspace.is_none();
        let path = match purpose {
            _ if is_separate => base.join(format!(".separate/{version}-{}", digest(record))),
            Purpose::Wheel => base.join(".wheel"),
            Purpose::Cargo | Purpose::Program => base,
        };
        Ok(Self { path })
    }

    /// Waits until no build with another record uses the directory, and makes cargo compile again what depends on the
    /// difference. Until the returned file is dropped, builds with another record wait.
    pub fn enter(&self, project: &Project, record: &Record) -> Result<File, Failure> {
        let (root, file) = (&project.root, self.path.join(RECORD_FILE));
        let old_record = || {
            let old = serde_json::from_str::<Record>(&root.text(&file).ok()?).ok()?;
            Some(old).filter(|old| old.serves(record))
        };
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        // The program that cargo has started may start `cargo cuda` itself.
        let started_by = project.env.peek("CUDA_BUILD_TOOLKIT");
        let is_nested = started_by == Some(self.toolkit_file().as_os_str());
        let directory = self.path.join(".cuda");
        loop {
            let shared = output::lock_shared(&directory)?;
            if old_record().is_some_and(|old| old == *record) {
                let list = self.list_of_dependent_packages(project);
                if !root.is_file(&list) {
                    self.examine(project, &list)?;
                }
                return Ok(shared);
            }
            drop(shared);
            if is_nested {
                let path = self.path.display();
                let text = format!("{path} is in use by the build that has started this one");
                let hint = format!("set {SEPARATE}=1, or give another directory with --target-dir");
                return Err(Failure::usage(text).hint(hint));
            }
            let _alone = output::lock(&directory)?;
            // If there is one, the toolkit has more components, which change nothing that was compiled.
            if old_record().is_none() {
                // If this process is killed, the next one begins again.
                files::remove(&file)?;
                let list = self.list_of_dependent_packages(project);
                let mut independent = self.examine(project, &list)?;
                for list in root.names(output::parent(&list)) {
                    let names = root.text(&self.path.join(DEPENDENT).join(list));
                    let names = names.unwrap_or_default();
                    independent.retain(|name| !names.lines().any(|it| it == name));
                }
                forget_except(root, &self.path, &independent)?;
                files::remove_directory(&self.wrapper_files())?;
                files::create_directory(&self.wrapper_files())?;
            }
            output::write(&file, text.as_bytes())?;
        }
    }

    /// Returns the packages of the workspace that cannot depend on CUDA, and writes the names of the others into
    /// `list`.
    fn examine(&self, project: &Project, list: &Path) -> Result<BTreeSet<String>, Failure> {
        let Some(Workspace { metadata, .. }) = &project.workspace else {
            return Ok(BTreeSet::new());
        };
        let dependent = dependent_packages(metadata, &project.root);
        output::write(list, joined(&dependent, "\n").as_bytes())?;
        let names = metadata.packages.iter().map(|it| it.name.to_string());
        Ok(names.filter(|name| !dependent.contains(name)).collect())
    }

    /// The file for the dependencies of a workspace. Several workspaces may have one target directory, and a package
    /// may depend on CUDA in one version and not in another.
    fn list_of_dependent_packages(&self, project: &Project) -> PathBuf {
        let workspace = project.workspace.as_ref();
        let key = digest(&workspace.map(|it| (&it.root, &it.metadata.resolve)));
        self.path.join(DEPENDENT).join(key)
    }

    /// The path of the link to the view.
    pub fn view(&self) -> PathBuf {
        self.path.join(".cuda/view")
    }

    pub fn views(&self) -> PathBuf {
        self.path.join(".cuda/views")
    }

    /// The file with the toolkit.
    pub fn toolkit_file(&self) -> PathBuf {
        self.path.join(".cuda/toolkit.toml")
    }

    /// The directory in which the nvcc wrapper has files and locks.
    pub fn wrapper_files(&self) -> PathBuf {
        self.path.join(".cuda/nvcc")
    }

    /// Two variables for build scripts: the path of the file with the toolkit, and the directory of views.
    pub fn variables(&self, env: &Env) -> Vec<Variable> {
        let mut variables = vec![("CUDA_BUILD_TOOLKIT".to_owned(), self.toolkit_file().into())];
        if env.peek(VIEWS_VARIABLE).is_none() {
            variables.push((VIEWS_VARIABLE.to_owned(), self.views().into()));
        }
        variables
    }
}

/// A directory with one of these files has the outputs of a profile.
const LOCKS_OF_CARGO: [&str; 3] = [".cargo-lock", ".cargo-build-lock", ".cargo-artifact-lock"];

const RECORD_FILE: &str = ".cuda/built-with.json";

const DEPENDENT: &str = ".cuda/dependent";

/// Removes from a target directory what makes packages up to date, and the outputs of their build scripts, except those
/// of the packages in `independent`. Also packages that are no dependencies any more are removed: a later build may
/// have them again.
fn forget_except(
    root: &Root,
    target_directory: &Path,
    independent: &BTreeSet<String>,
) -> Result<(), Failure> {
    let below = |directory: &Path| -> Vec<PathBuf> {
        let mut names = root.names(directory);
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        let is_directory = |path: &PathBuf| root.is_dir(path) && !root.is_link(path);
        let paths = names.into_iter().map(|name| directory.join(name));
        paths.filter(is_directory).collect()
    };
    // For another platform than this one, profiles are below the name of the platform.
    let first = below(target_directory);
    let second = first.iter().flat_map(|directory| below(directory));
    let mut profiles: Vec<PathBuf> = first.iter().cloned().chain(second).collect();
    profiles.retain(|path| {
        let mut locks = LOCKS_OF_CARGO.iter().map(|name| path.join(name));
        locks.any(|lock| root.is_file(&lock))
    });
    for profile in profiles {
        // A cargo may still run whose `cargo cuda` was killed.
        let locks = LOCKS_OF_CARGO.map(|name| output::lock_file(&profile.join(name)));
        let units = profile.join(".fingerprint");
        if !root.is_dir(&units) {
            // Another layout than that of today's Cargo.
            files::remove_directory(&profile)?;
            continue;
        }
        for directory in [units, profile.join("build")] {
            for unit in root.names(&directory) {
                let name = unit.to_string_lossy();
                let package = name.rsplit_once('-').map_or(&*name, |(package, _)| package);
                if !independent.contains(package) {
                    files::remove_directory(&directory.join(&unit))?;
                }
            }
        }
        drop(locks);
    }
    Ok(())
}

/// The identity of each component: a hash of its version, and of the name, size and modification
/// time of each of its libraries and tools. Paths are not hashed, because they change although the
/// files do not: if a toolkit of the store gains a component, it moves to a new directory
/// that has hard links to the old files.
fn identities(root: &Root, toolkit: &Toolkit) -> BTreeMap<String, String> {
    toolkit
        .components()
        .iter()
        .map(|found| {
            let version = found.version.as_ref().map(ToString::to_string);
            let files = found.libraries.iter().chain(&found.archives);
            let files = files.chain(&found.tools);
            let files: Vec<_> = files
                .map(|file| (file.file_name(), root.identity(file)))
                .collect();
            (found.component.id().to_owned(), digest(&(version, files)))
        })
        .collect()
}

fn digest(value: &impl Serialize) -> String {
    let digest = Sha256::digest(serde_json::to_vec(value).unwrap_or_default());
    let bytes = digest[..8].iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_serves_a_toolkit_with_more_components() {
        let record = |inputs: &str, components: &[(&str, &str)]| Record {
            inputs: inputs.to_owned(),
            components: components
                .iter()
                .map(|(id, identity)| ((*id).to_owned(), (*identity).to_owned()))
                .collect(),
        };
        let new = record("a", &[("cudart", "1"), ("cublas", "1")]);
        for (old, expected) in [
            (record("a", &[]), true),
            (record("a", &[("cudart", "1")]), true),
            (record("b", &[("cudart", "1")]), false),
            (record("a", &[("cudart", "2")]), false),
            (record("a", &[("cudart", "1"), ("nvrtc", "1")]), false),
        ] {
            assert_eq!(old.serves(&new), expected, "{old:?}");
        }
    }

    #[test]
    fn independent_packages_stay() {
        let place = tempfile::tempdir().unwrap();
        let unit = "-0123456789abcdef";
        let paths = |package: &str| {
            [
                format!("debug/.fingerprint/{package}{unit}/lib"),
                format!("debug/build/{package}{unit}/out/x"),
                format!("aarch64-unknown-linux-gnu/release/.fingerprint/{package}{unit}/lib"),
            ]
        };
        for path in ["a-b", "cust"].map(paths).as_flattened() {
            output::write(&place.path().join(path), b"").unwrap();
        }
        for other in [
            "debug/.cargo-lock",
            "debug/deps/libcust.rlib",
            "aarch64-unknown-linux-gnu/release/.cargo-lock",
            ".wheel/release/.cargo-lock",
            "unknown/.cargo-lock",
            "doc/index.html",
        ] {
            output::write(&place.path().join(other), b"").unwrap();
        }
        let independent = BTreeSet::from(["a-b".to_owned()]);
        forget_except(&Root::system(), place.path(), &independent).unwrap();
        let exists = |path: &String| place.path().join(path).exists();
        assert!(paths("a-b").iter().all(exists));
        assert!(!paths("cust").iter().any(exists));
        assert!(!place.path().join("unknown").exists());
        assert!(place.path().join(".wheel/release").exists());
    }
}

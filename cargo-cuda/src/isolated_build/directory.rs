//! The target directory of a build: `<target>/cargo-cuda/<release>-<key>`.
//!
//! The key is a hash of the target, of the components that affect compiler output (nvcc, nvvm, crt,
//! cudart, CCCL), of the capabilities, and of the variables that affect a build. Each directory also
//! records every component of its toolkit. If a recorded component has changed or is missing, the
//! build uses another directory, with `-2` or a higher number after the key. If the toolkit has only
//! gained components, the build uses the same directory again.
//!
//! ```text
//! <target>/cargo-cuda/
//!   latest -> 13.5-0123456789abcdef
//!   13.5-0123456789abcdef/
//!     debug/, release/ …           Cargo's output
//!     .cuda/view -> views/…        the toolkit as one root, at a stable path
//!     .cuda/views/                 the views; Cargo would add a directory in debug/ or release/ to the loader path
//!     .cuda/toolkit.toml           the toolkit, for build scripts with cuda-build
//!     .cuda/components.json        the record of components; every build updates its modification time
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_build::{Component, Plan, Toolkit};
use cuda_find_core::{env::Env, list::Set, root::Root};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::environment::Variable;
use crate::failure::Failure;
use crate::output;
use crate::project::Project;
use crate::toolkits::{VIEWS_VARIABLE, builds_directory};

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

/// The identity of each component, by id.
type Record = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub struct TargetDirectory {
    /// The absolute path. Cargo gets it as the value of `--target-dir`.
    pub path: PathBuf,
}

impl TargetDirectory {
    /// The directory of the last build.
    pub fn latest(project: &Project) -> Result<Self, Failure> {
        let base = builds_directory(&project.env, project.workspace.as_ref())?;
        let path = base.join("latest");
        Ok(Self { path })
    }

    /// Chooses the directory for a toolkit and `variables`, and records the toolkit in it.
    pub fn choose(
        project: &Project,
        purpose: Purpose,
        toolkit: &Toolkit,
        variables: &[(&str, &OsStr)],
    ) -> Result<Self, Failure> {
        let root = &project.root;
        let record = identities(root, toolkit);
        let base = builds_directory(&project.env, project.workspace.as_ref())?;
        let is_wheel = purpose == Purpose::Wheel;
        let target = (project.target.triple(), project.target.directory());
        let compiler = COMPILER_COMPONENTS.map(|component| record.get(component.id()));
        let flags: Vec<_> = FLAGS
            .split(' ')
            .map(|name| project.env.peek(name))
            .collect();
        let key = digest(&(is_wheel, target, compiler, variables, flags));
        let name = format!("{}-{key}", toolkit.version());
        let _lock = output::lock(&base)?;
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = [name.clone()].into_iter().chain(numbered);
        let name = names.find(|name| is_reusable(root, &base.join(name), &record));
        let name = name.unwrap_or_default();
        let directory = Self::with_record(base.join(&name), &record)?;
        if purpose == Purpose::Cargo {
            output::link(Path::new(&name), &base.join("latest"))?;
        }
        Ok(directory)
    }

    /// The directory that the user has named with `--target-dir`. Adds a warning if its last build
    /// used another toolkit or other capabilities.
    pub fn named(
        root: &Root,
        path: &Path,
        toolkit: &Toolkit,
        plan: Option<&Plan>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut record = identities(root, toolkit);
        let capabilities = plan.map_or(String::new(), Plan::to_string);
        record.insert("capabilities".to_owned(), capabilities);
        if !is_reusable(root, &path, &record) {
            notes.push(format!(
                "warning: {} was built with another toolkit, or for other capabilities: crates that do not detect the \
                 change are not rebuilt; without --target-dir, each toolkit and list gets its own directory",
                path.display()
            ));
        }
        Self::with_record(path, &record)
    }

    fn with_record(path: PathBuf, record: &Record) -> Result<Self, Failure> {
        let file = path.join(RECORD_FILE);
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        output::write_if_changed(&file, text.as_bytes())?;
        output::touch(&file)?;
        Ok(Self { path })
    }

    /// What identifies the components that affect compiler output.
    pub fn compiler_identity(&self, root: &Root, toolkit: &Toolkit) -> String {
        let record = identities(root, toolkit);
        let identities = COMPILER_COMPONENTS.map(|component| record.get(component.id()).cloned());
        format!(
            "CUDA {} {}",
            toolkit.version(),
            identities.map(Option::unwrap_or_default).join(" ")
        )
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

    /// What calls through the nvcc wrapper could not be given of the declared list, each text once.
    pub fn wrapper_notes(&self, root: &Root) -> Set<String> {
        let directory = self.wrapper_files();
        let names = root.names(&directory).into_iter();
        let notes = names.filter(|name| name.to_string_lossy().ends_with(".note"));
        notes
            .filter_map(|name| root.text(&directory.join(name)).ok())
            .collect()
    }

    /// Writes `toolkit.toml`. Returns two variables for build scripts: the path of that file, and the
    /// directory of views.
    pub fn variables(&self, env: &Env, toolkit: &Toolkit) -> Result<Vec<Variable>, Failure> {
        let file = self.toolkit_file();
        output::write_if_changed(&file, toolkit.to_toml()?.as_bytes())?;
        let mut variables = vec![("CUDA_BUILD_TOOLKIT".to_owned(), file.into())];
        if env.peek(VIEWS_VARIABLE).is_none() {
            variables.push((VIEWS_VARIABLE.to_owned(), self.views().into()));
        }
        Ok(variables)
    }
}

const RECORD_FILE: &str = ".cuda/components.json";

/// Target directories whose last build is longer ago than `time`.
pub fn unused_for(root: &Root, base: &Path, time: Duration) -> Vec<PathBuf> {
    let paths = root.names(base).into_iter().map(|name| base.join(name));
    let is_old =
        |path: &PathBuf| output::age(&path.join(RECORD_FILE)).is_some_and(|age| age > time);
    paths
        .filter(|path| !root.is_link(path) && is_old(path))
        .collect()
}

/// Whether a build with the components in `record` can use the directory: it has no record yet, or
/// `record` contains everything that it records, unchanged.
fn is_reusable(root: &Root, path: &Path, record: &Record) -> bool {
    let text = match root.text(&path.join(RECORD_FILE)) {
        Ok(text) => text,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    let old: Result<Record, _> = serde_json::from_str(&text);
    old.is_ok_and(|mut old| {
        old.retain(|id, identity| record.get(id) != Some(identity));
        old.is_empty()
    })
}

/// The identity of each component: a hash of its version, and of the name, size and modification
/// time of each of its libraries and tools. Paths are not hashed, because they change although the
/// files do not: if a toolkit of the store gains a component, it moves to a new directory
/// that has hard links to the old files.
fn identities(root: &Root, toolkit: &Toolkit) -> Record {
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
    fn a_directory_holds_for_what_it_records() {
        let place = tempfile::tempdir().unwrap();
        let record: Record = [("cudart".to_owned(), "1".to_owned())].into();
        for (text, expected) in [
            (None, true),
            (Some("{}"), true),
            (Some(r#"{"cudart": "1"}"#), true),
            (Some(r#"{"cudart": "2"}"#), false),
            (Some(r#"{"cudart": "1", "nvrtc": "1"}"#), false),
            (Some(r#"{"cudart": "1""#), false),
            (Some(""), false),
        ] {
            if let Some(text) = text {
                output::write(&place.path().join(RECORD_FILE), text.as_bytes()).unwrap();
            }
            let is_reusable = is_reusable(&Root::system(), place.path(), &record);
            assert_eq!(is_reusable, expected, "{text:?}");
        }
    }
}

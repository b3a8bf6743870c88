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
//!     .cuda/notes.json             the notes of the last build, which are not printed again
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_build::internal::probe::Found;
use cuda_build::internal::{Env, Root};
use cuda_build::{Component, Toolkit};
use sha2::{Digest as _, Sha256};

use crate::environment::Setting;
use crate::failure::Failure;
use crate::output;
use crate::project::Project;
use crate::store;
use crate::toolkits::VIEWS;
use crate::workspace::Workspace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Cargo,
    /// A wheel. It has a target directory of its own: this program, as the rustc wrapper, changes
    /// rustc's arguments for a wheel, and cargo does not rebuild if the wrapper changes.
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
const FLAGS: [&str; 10] = [
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CUDAHOSTCXX",
    "CUDAFLAGS",
    "CUDA_COMPUTE_CAP",
    "CUDAARCHS",
    "CMAKE_CUDA_ARCHITECTURES",
    "TORCH_CUDA_ARCH_LIST",
    "CUDARC_CUDA_VERSION",
];

/// The identity of each component, by id.
type Record = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub struct Directory {
    /// The absolute path. Cargo gets it as the value of `--target-dir`.
    pub path: PathBuf,
}

impl Directory {
    /// Chooses the directory for a toolkit and `variables`, and records the toolkit in it.
    pub fn choose(
        project: &Project,
        purpose: Purpose,
        toolkit: &Toolkit,
        variables: &[(&str, OsString)],
    ) -> Result<Self, Failure> {
        let root = &project.root;
        let record = record(root, toolkit);
        let base = base(&project.env, project.workspace.as_ref())?;
        let key = key(project, purpose, &record, variables);
        let first = format!("{}-{key}", toolkit.version());
        let _lock = output::lock(&base)?;
        let mut name = first.clone();
        let mut number = 1;
        while !is_reusable(root, &base.join(&name), &record) {
            number += 1;
            name = format!("{first}-{number}");
        }
        let directory = Self {
            path: base.join(&name),
        };
        directory.write_record(&record)?;
        if purpose == Purpose::Cargo {
            output::link(Path::new(&name), &base.join("latest"))?;
        }
        Ok(directory)
    }

    /// The directory that the user has named with `--target-dir`. Adds a warning if its last build
    /// used another toolkit.
    pub fn named(
        root: &Root,
        path: &Path,
        toolkit: &Toolkit,
        notes: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let record = record(root, toolkit);
        if !is_reusable(root, &path, &record) {
            notes.push(format!(
                "warning: {} was built with another toolkit: crates that do not detect the change are not rebuilt; \
                 without --target-dir, each toolkit gets its own directory",
                path.display()
            ));
        }
        let directory = Self { path };
        directory.write_record(&record)?;
        Ok(directory)
    }

    fn write_record(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        output::write_if_changed(&self.private().join(RECORD), text.as_bytes())?;
        output::touch(&self.private().join(RECORD))
    }

    /// The texts in `notes` that the last build in this directory did not have.
    pub fn new_notes<'a>(&self, root: &Root, notes: &'a [String]) -> Result<Vec<&'a str>, Failure> {
        let file = self.private().join("notes.json");
        let text = root.text(&file).unwrap_or_default();
        let old: Vec<String> = serde_json::from_str(&text).unwrap_or_default();
        let text = serde_json::to_string_pretty(notes).unwrap_or_default();
        output::write_if_changed(&file, text.as_bytes())?;
        let new = notes.iter().filter(|note| !old.contains(note));
        Ok(new.map(String::as_str).collect())
    }

    fn private(&self) -> PathBuf {
        self.path.join(PRIVATE)
    }

    /// The path of the link to the view.
    pub fn view(&self) -> PathBuf {
        self.private().join("view")
    }

    pub fn views(&self) -> PathBuf {
        self.private().join("views")
    }

    /// Writes `toolkit.toml`. Returns two variables for build scripts: the path of that file, and the
    /// directory of views.
    pub fn settings(&self, env: &Env, toolkit: &Toolkit) -> Result<Vec<Setting>, Failure> {
        let file = self.private().join("toolkit.toml");
        output::write_if_changed(&file, toolkit.to_toml()?.as_bytes())?;
        let meaning = "the toolkit: build scripts that use cuda-build";
        let mut settings = vec![Setting::new("CUDA_BUILD_TOOLKIT", file, meaning)];
        if env.peek(VIEWS).is_none() {
            let meaning = "the directory of views: build scripts that use cuda-build";
            settings.push(Setting::new(VIEWS, self.views(), meaning));
        }
        Ok(settings)
    }
}

const PRIVATE: &str = ".cuda";
const RECORD: &str = "components.json";

/// The parent of all target directories of `cargo cuda`. It is in the workspace's target directory,
/// or in the user's cache directory if there is no workspace.
pub fn base(env: &Env, workspace: Option<&Workspace>) -> Result<PathBuf, Failure> {
    let place = match workspace {
        Some(workspace) => workspace.target_directory.clone(),
        None => store::cache_dir(env)?,
    };
    Ok(place.join("cargo-cuda"))
}

/// Target directories whose last build is older than `unused`.
pub fn old(root: &Root, base: &Path, unused: Duration) -> Vec<PathBuf> {
    root.names(base)
        .into_iter()
        .map(|name| base.join(name))
        .filter(|path| !root.is_link(path))
        .filter(|path| {
            output::age(&path.join(PRIVATE).join(RECORD)).is_some_and(|age| age > unused)
        })
        .collect()
}

/// Whether a build with the components in `record` can use the directory: it has no record yet, or
/// `record` contains everything that it records, unchanged.
fn is_reusable(root: &Root, path: &Path, record: &Record) -> bool {
    let Ok(text) = root.text(&path.join(PRIVATE).join(RECORD)) else {
        return true;
    };
    let old: Record = serde_json::from_str(&text).unwrap_or_default();
    old.iter()
        .all(|(id, identity)| record.get(id) == Some(identity))
}

/// The identity of each component: a hash of its version, and of the name, size and modification
/// time of each of its libraries and tools. Paths are not hashed, because they change although the
/// files do not: if a toolkit of the store gains a component, it moves to a new directory
/// that has hard links to the old files.
fn record(root: &Root, toolkit: &Toolkit) -> Record {
    let identity = |found: &Found| {
        let mut digest = Digest::default();
        digest.field(
            found
                .version
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
        let files = found.libraries.iter().chain(&found.archives);
        for path in files.chain(&found.tools) {
            digest.field(path.file_name().unwrap_or_default().as_encoded_bytes());
            digest.field(root.identity(path));
        }
        digest.hex()
    };
    let all = toolkit.components().iter().map(|chosen| &chosen.found);
    all.map(|found| (found.component.id().to_owned(), identity(found)))
        .collect()
}

fn key(
    project: &Project,
    purpose: Purpose,
    record: &Record,
    variables: &[(&str, OsString)],
) -> String {
    let mut digest = Digest::default();
    digest.field(match purpose {
        Purpose::Wheel => "wheel",
        Purpose::Cargo | Purpose::Program => "cargo",
    });
    digest.field(project.target.triple());
    digest.field(project.target.directory());
    for component in COMPILER_COMPONENTS {
        digest.field(record.get(component.id()).map_or("", String::as_str));
    }
    for (name, value) in variables {
        digest.field(name);
        digest.field(value.as_encoded_bytes());
    }
    for name in FLAGS {
        let value = project.env.peek(name).unwrap_or_default();
        digest.field(value.as_encoded_bytes());
    }
    digest.hex()
}

/// Hashes each field with its length, so that (`ab`, `c`) and (`a`, `bc`) give different digests.
#[derive(Default)]
struct Digest(Sha256);

impl Digest {
    fn field(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn hex(self) -> String {
        let digest = self.0.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_cache_directory_is_reported_as_such() {
        let failure = base(&Env::from_pairs([("PATH", "/bin")]), None).unwrap_err();
        assert!(failure.message.starts_with("there is no cache directory"));
        assert!(failure.hints[0].contains("`CUDA_BUILD_CACHE_DIR`"));
    }
}

//! The target directory of a build: `<target>/cargo-cuda/<release>-<key>`.
//!
//! The key follows from the components that decide what a compiler makes (nvcc, nvvm, crt, cudart,
//! CCCL), the capabilities, nvcc's flags and the variables. Every directory also records all
//! components of its toolkit. If one that is recorded differs or is gone, another directory is
//! used; if the toolkit only gained some, the directory stays.
//!
//! ```text
//! <target>/cargo-cuda/
//!   latest -> 13.5-0123456789abcdef
//!   13.5-0123456789abcdef/
//!     debug/, release/ …           Cargo's
//!     .cuda/view -> views/…        the toolkit as one root, at a path that stays
//!     .cuda/views/                 beside the profiles: Cargo puts what is below them on the loader path
//!     .cuda/toolkit.toml           the toolkit, for build scripts with cuda-build
//!     .cuda/components.json        the record
//!     .cuda/used                   changed by every build
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use cuda_build::internal::probe::Found;
use cuda_build::internal::{Env, Root, Target, store};
use cuda_build::{Component, Error, Toolkit};
use sha2::{Digest as _, Sha256};

use super::Request;
use crate::environment::Setting;
use crate::failure::Failure;
use crate::output;
use crate::toolkits::VIEWS;
use crate::workspace::Workspace;

/// What is built in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What cargo builds.
    Cargo,
    /// A wheel: this program is in front of rustc, and cargo does not rebuild for that.
    Wheel,
    /// Nothing; a program or a shell gets the variables.
    Program,
}

/// Components that decide what a compiler makes.
const COMPILING: [Component; 5] = [
    Component::Nvcc,
    Component::Nvvm,
    Component::Crt,
    Component::Cudart,
    Component::Cccl,
];

/// Variables of the user's that change what is compiled.
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

/// The name of the link to the directory that was used last.
pub const LATEST: &str = "latest";

/// Each component with its identity.
type Record = BTreeMap<String, String>;

/// A target directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// For `--target-dir`.
    pub path: PathBuf,
    /// Sentences that the user should read.
    pub notes: Vec<String>,
}

impl Directory {
    /// Chooses the directory for a toolkit and these variables, and records the toolkit in it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(
        request: &Request<'_>,
        target: &Target,
        toolkit: &Toolkit,
        variables: &[(&str, OsString)],
    ) -> Result<Self, Failure> {
        let record: Record = toolkit
            .components()
            .iter()
            .map(|chosen| &chosen.found)
            .map(|found| {
                let id = found.component.id().to_owned();
                (id, identity(request.root, found))
            })
            .collect();
        if let Some(named) = request.target_directory {
            return Self::named(request.root, named, &record);
        }
        let base = base(request.env, request.workspace)?;
        let key = key(request, target, &record, variables);
        let name = format!("{}-{key}", toolkit.version());
        let _lock = output::lock(&base)?;
        let mut names = std::iter::once(name.clone())
            .chain((2..).map(|number| format!("{name}-{number}")))
            .map(|name| (base.join(&name), name));
        let Some((path, name)) = names.find(|(path, _)| holds(request.root, path, &record)) else {
            return Err(Error::Format {
                what: "target directory",
                reason: format!("no name is free for {name}"),
            }
            .into());
        };
        let directory = Self {
            path,
            notes: Vec::new(),
        };
        directory.used(&record)?;
        if request.purpose == Purpose::Cargo {
            output::link(Path::new(&name), &base.join(LATEST))?;
        }
        Ok(directory)
    }

    /// The directory that the user has named.
    fn named(root: &Root, path: &Path, record: &Record) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut directory = Self {
            path,
            notes: Vec::new(),
        };
        if !holds(root, &directory.path, record) {
            directory.notes.push(format!(
                "warning: {} was built with another toolkit: crates that do not notice the change keep what they have; \
                 without --target-dir every toolkit has a directory of its own",
                directory.path.display()
            ));
        }
        directory.used(record)?;
        Ok(directory)
    }

    fn used(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        output::write_if_changed(&self.own().join(RECORD), text.as_bytes())?;
        output::touch(&self.own().join(USED))
    }

    fn own(&self) -> PathBuf {
        self.path.join(OWN)
    }

    /// The link to the view.
    #[must_use]
    pub fn view(&self) -> PathBuf {
        self.own().join("view")
    }

    /// The directory of views.
    #[must_use]
    pub fn views(&self) -> PathBuf {
        self.own().join("views")
    }

    /// Writes the toolkit's file, and returns the variables that name it and the views.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn settings(&self, env: &Env, toolkit: &Toolkit) -> Result<Vec<Setting>, Failure> {
        let file = self.own().join("toolkit.toml");
        output::write_if_changed(&file, toolkit.to_toml()?.as_bytes())?;
        let mut settings = vec![Setting {
            name: "CUDA_BUILD_TOOLKIT".to_owned(),
            value: file.into(),
            meaning: "the toolkit: build scripts with cuda-build",
        }];
        if env.peek(VIEWS).is_none() {
            settings.push(Setting {
                name: VIEWS.to_owned(),
                value: self.views().into(),
                meaning: "the directory of views: build scripts with cuda-build",
            });
        }
        Ok(settings)
    }
}

const OWN: &str = ".cuda";
const RECORD: &str = "components.json";
const USED: &str = "used";

/// The directory that the target directories are in: the workspace's, else the user's.
///
/// # Errors
/// If no variable names a cache directory.
pub fn base(env: &Env, workspace: Option<&Workspace>) -> Result<PathBuf, Failure> {
    let place = match workspace {
        Some(workspace) => Some(workspace.target_directory.clone()),
        None => store::cache_dir(env),
    };
    let place = place.ok_or_else(|| Error::ViewPlace {
        path: PathBuf::from("cargo-cuda"),
        reason: "no cache directory: neither `CUDA_BUILD_CACHE_DIR` nor `XDG_CACHE_HOME` nor `HOME` is set"
            .to_owned(),
        hint: "set `CUDA_BUILD_CACHE_DIR`".to_owned(),
    })?;
    Ok(place.join("cargo-cuda"))
}

/// Target directories that no build has used for `unused`.
///
/// # Errors
/// If the base cannot be read.
pub fn old(root: &Root, base: &Path, unused: Duration) -> Vec<PathBuf> {
    root.names(base)
        .into_iter()
        .map(|name| base.join(name))
        .filter(|path| !root.is_link(path))
        .filter(|path| output::age(&path.join(OWN).join(USED)).is_some_and(|age| age > unused))
        .collect()
}

/// Whether a directory is new, or everything that it records is as it was.
fn holds(root: &Root, path: &Path, record: &Record) -> bool {
    let Ok(text) = root.text(&path.join(OWN).join(RECORD)) else {
        return true;
    };
    let old: Record = serde_json::from_str(&text).unwrap_or_default();
    old.iter()
        .all(|(id, identity)| record.get(id) == Some(identity))
}

/// Version, and name, size and time of change of every file. A toolkit of the store that gains a
/// component is a new directory with hard links to the old files, so paths do not count.
fn identity(root: &Root, found: &Found) -> String {
    let mut hash = Sha256::new();
    let mut field = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    let version = found.version.as_ref().map(ToString::to_string);
    field(version.as_deref().unwrap_or_default());
    let files = found
        .libraries
        .iter()
        .chain(&found.archives)
        .chain(&found.tools);
    for path in files {
        field(&path.file_name().unwrap_or_default().to_string_lossy());
        if let Ok(metadata) = root.metadata(path) {
            let changed = metadata
                .modified()
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            field(&format!("{} {changed:?}", metadata.len()));
        }
    }
    hex(&hash.finalize())
}

fn key(
    request: &Request<'_>,
    target: &Target,
    record: &Record,
    variables: &[(&str, OsString)],
) -> String {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(match request.purpose {
        Purpose::Wheel => b"wheel",
        Purpose::Cargo | Purpose::Program => b"cargo",
    });
    field(target.triple().as_bytes());
    field(target.directory().as_bytes());
    for component in COMPILING {
        let identity = record.get(component.id()).map(String::as_str);
        field(identity.unwrap_or_default().as_bytes());
    }
    for (name, value) in variables {
        field(name.as_bytes());
        field(value.as_encoded_bytes());
    }
    for name in FLAGS {
        field(
            request
                .env
                .peek(name)
                .unwrap_or_default()
                .as_encoded_bytes(),
        );
    }
    hex(&hash.finalize())
}

fn hex(digest: &[u8]) -> String {
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

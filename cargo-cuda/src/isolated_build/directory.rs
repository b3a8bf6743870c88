//! The target directories of builds, and what each was built with.
//!
//! Build scripts that look for CUDA by themselves do not declare what they read, so Cargo does not run them again after
//! a change. Therefore each combination of toolkit, list of capabilities and variables has a target directory of its
//! own. Cargo's layout below that directory is not known here, except for the profile directories, which are public.
//!
//! ```text
//! <target>/cargo-cuda/             or the directory of `--target-dir`
//!   13.5-0123456789abcdef/         one combination: a target directory of Cargo
//!     debug/, release/ …           Cargo's output
//!     .cuda/view -> views/…        the toolkit as one root
//!     .cuda/views/                 the views; Cargo would add a directory in debug/ or release/ to the loader path
//!     .cuda/toolkit.toml           the toolkit, for build scripts with cuda-build
//!     .cuda/built-with.json        the record: the combination, and the components
//!     .cuda/used-by                the command that used the directory last
//!     .cuda/.lock                  locked while a build uses the directory
//!   debug -> 13.5-…/debug          the profile directory that was built last
//!   latest -> 13.5-…               the directory that was used last; only below `<target>`
//!   environments/                  the same without a build, for shells and programs
//!   .lock                          locked while directories are made and removed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cuda_build::{Component, Toolkit, ToolkitVersion, view::VIEWS_VARIABLE};
use cuda_find_core::output as files;
use cuda_find_core::{env::Env, root::Root};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::environment::Variable;
use crate::failure::{Failure, Result};
use crate::output;
use crate::project::Project;
use crate::toolkits::builds_directory;

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

/// For how many commands target directories stay: the value of [`KEPT_VARIABLE`], otherwise this number.
const KEPT_COMMANDS: usize = 3;

const KEPT_VARIABLE: &str = "CUDA_BUILD_TARGET_DIRECTORIES";

/// What a target directory was built with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// A hash of everything but the components: what compiles, and the variables for build scripts.
    inputs: String,
    /// The identity of each component, by id.
    components: BTreeMap<String, String>,
}

impl Record {
    /// The record of a target directory; `None` if there is no record, or if it cannot be read.
    fn read(root: &Root, directory: &Path) -> Option<Self> {
        let text = root.text(&directory.join(RECORD_FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn write(&self, directory: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        output::write_if_changed(&directory.join(RECORD_FILE), text.as_bytes())
    }

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
    fn can_be_used_for(&self, other: &Self) -> bool {
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

/// A target directory, which no other command removes while this value or a copy of it exists.
#[derive(Clone, Debug)]
pub struct TargetDirectory {
    /// The absolute path. Cargo gets it as the value of `--target-dir`.
    pub path: PathBuf,
    /// The directory that has links to what was built last.
    pub base: PathBuf,
    _lock: Option<Arc<File>>,
}

impl TargetDirectory {
    /// A directory that the command which has started this process uses.
    pub fn of_parent(path: PathBuf) -> Self {
        Self {
            base: output::parent(&path).to_owned(),
            path,
            _lock: None,
        }
    }

    /// The directory for a build, which is created if there is none yet. `named` is the value of `--target-dir`.
    pub fn choose(
        project: &Project,
        purpose: Purpose,
        named: Option<&Path>,
        version: ToolkitVersion,
        record: &Record,
    ) -> Result<Self> {
        let base = match named {
            Some(path) => {
                create_target_directory(path)?;
                std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
            }
            None => {
                if let Some(workspace) = &project.workspace {
                    create_target_directory(&workspace.target_directory)?;
                }
                builds_directory(&project.env, project.workspace.as_ref())?
            }
        };
        // A shell uses its directory after this command has ended, so these directories stay.
        let base = match purpose {
            Purpose::Program => base.join("environments"),
            Purpose::Cargo | Purpose::Wheel => base,
        };
        let choosing = output::lock(&base)?;
        let path = Self::path_for(&project.root, &base, version, record)?;
        create_target_directory(&path)?;
        record.write(&path)?;
        let lock = output::lock_shared(&path.join(OURS))?;
        output::write(&path.join(USED_BY), this_command().as_bytes())?;
        let directory = Self {
            path,
            base,
            _lock: Some(Arc::new(lock)),
        };
        let unused = match purpose {
            Purpose::Program => Vec::new(),
            Purpose::Cargo | Purpose::Wheel => {
                set_unused_aside(&project.root, &directory.base, kept_commands(&project.env)?)
            }
        };
        drop(choosing);
        for path in unused {
            // What cannot be removed, such as files of another user, is left to the next command.
            let _ = files::remove_directory(&path);
        }
        Ok(directory)
    }

    /// The path of a directory that can be used for a build with this record, or of a new one. The caller holds the lock of `base`.
    fn path_for(
        root: &Root,
        base: &Path,
        version: ToolkitVersion,
        record: &Record,
    ) -> Result<PathBuf> {
        let name = format!("{version}-{}", record.inputs);
        let mut path = base.join(&name);
        let mut number = 1;
        loop {
            match Record::read(root, &path) {
                Some(old) if old.can_be_used_for(record) => return Ok(path),
                // The same inputs, but one of its components was changed or removed since.
                Some(_) => {
                    number += 1;
                    path = base.join(format!("{name}-{number}"));
                }
                // A command may have been killed before it had written the record: nothing was built then.
                None => {
                    files::remove_directory(&path)?;
                    return Ok(path);
                }
            }
        }
    }

    /// Lets `<base>/<profile>` lead to what a command has built there. `profiles` are paths such as `release` or
    /// `aarch64-unknown-linux-gnu/release`.
    pub fn publish(&self, profiles: &[PathBuf]) -> Result<()> {
        for profile in profiles {
            let link = self.base.join(profile);
            let name = self.path.file_name().unwrap_or_default();
            // From `<base>/<triple>`, the directory is one level higher.
            let above = profile.components().skip(1).map(|_| "..");
            let target: PathBuf = above.map(OsStr::new).chain([name]).collect();
            output::link(&target.join(profile), &link)?;
        }
        Ok(())
    }

    /// Fails if there is something else than a link of [`Self::publish`], before anything is compiled. It may be what
    /// plain cargo has built, or an earlier version of this program.
    pub fn check_places(&self, profiles: &[PathBuf]) -> Result<()> {
        let root = Root::system();
        let mut places = profiles.iter().map(|profile| self.base.join(profile));
        let Some(place) = places.find(|place| root.exists(place) && !root.is_link(place)) else {
            return Ok(());
        };
        let text = format!(
            "{} was not written by this `cargo cuda`, which lets this path lead to what it builds",
            place.display()
        );
        let hint = "remove it, or give another directory with `--target-dir`";
        Err(Failure::usage(text).hint(hint))
    }

    /// Whether `record` is still that of the directory: another build may have come with more components since. The
    /// returned file is the lock of the base, which keeps it so.
    pub fn lock_for(&self, project: &Project, record: &Record) -> Result<(File, bool)> {
        let lock = output::lock(&self.base)?;
        let is_current = Record::read(&project.root, &self.path).as_ref() == Some(record);
        Ok((lock, is_current))
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

/// What this program keeps in a target directory of Cargo.
const OURS: &str = ".cuda";

const RECORD_FILE: &str = ".cuda/built-with.json";

const USED_BY: &str = ".cuda/used-by";

/// Directories that are being removed. If a command is killed before it has removed one, the next command does it.
const REMOVED: &str = ".removed-";

/// By this text, tools for backups know a directory that can be made again, and `cargo clean` one that it may remove.
const CACHE_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
     # Cargo's output, in a directory that `cargo cuda` has created.\n\
     # For information about cache directory tags, see https://bford.info/cachedir/\n";

/// Creates a directory as Cargo creates its target directory.
fn create_target_directory(path: &Path) -> Result<()> {
    if Root::system().exists(path) {
        return Ok(());
    }
    output::create_directory(path)?;
    output::write(&path.join("CACHEDIR.TAG"), CACHE_TAG.as_bytes())
}

/// The time and the process of this command. All directories that one command uses have the same text, and stay
/// together.
fn this_command() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = now.as_ref().map_or(0, Duration::as_millis);
        format!("{milliseconds:020} {}", std::process::id())
    })
}

fn kept_commands(env: &Env) -> Result<usize> {
    let Some(text) = env.text(KEPT_VARIABLE) else {
        return Ok(KEPT_COMMANDS);
    };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        let text = format!("`{KEPT_VARIABLE}` is {text:?}, and not a number from 1 on");
        Failure::configuration(text).hint(format!(
            "unset it, or set it to a number such as {KEPT_COMMANDS}"
        ))
    })
}

/// Gives other names to the target directories that none of the commands which are kept has used, unless a build still
/// runs in them, or a profile leads to them. Returns what can be removed then, also what an interrupted command has left.
/// The caller holds the lock of `base`.
fn set_unused_aside(root: &Root, base: &Path, kept_commands: usize) -> Vec<PathBuf> {
    let (mut directories, mut commands, mut unused) = (Vec::new(), BTreeSet::new(), Vec::new());
    for path in root.names(base).into_iter().map(|name| base.join(name)) {
        let Ok(command) = root.text(&path.join(USED_BY)) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(REMOVED.as_bytes()) {
            unused.push(path);
        } else if !root.is_link(&path) {
            commands.insert(command.clone());
            directories.push((command, path));
        }
    }
    // If there are fewer commands than may be kept, everything stays.
    let Some(oldest_kept) = commands.iter().nth_back(kept_commands - 1) else {
        return unused;
    };
    let published = published(root, base);
    for (command, path) in directories {
        let name = path.file_name().unwrap_or_default();
        let is_published = published.iter().any(|it| it.starts_with(name));
        if command >= *oldest_kept || is_published || !output::is_unlocked(&path.join(OURS)) {
            continue;
        }
        let aside = base.join(format!(
            "{REMOVED}{}-{}",
            std::process::id(),
            name.display()
        ));
        if files::rename(&path, &aside).is_ok() {
            unused.push(aside);
        }
    }
    unused
}

/// Where the links lead that [`TargetDirectory::publish`] has made, in `base` and in the directories of platforms.
fn published(root: &Root, base: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for path in root.names(base).into_iter().map(|name| base.join(name)) {
        if root.is_link(&path) {
            places.push(path);
        } else if !root.exists(&path.join(OURS)) {
            let below = root.names(&path).into_iter().map(|name| path.join(name));
            places.extend(below.filter(|path| root.is_link(path)));
        }
    }
    let base = root.resolve(base);
    let targets = places.iter().map(|place| root.resolve(place));
    targets
        .filter_map(|target| Some(target.strip_prefix(&base).ok()?.to_owned()))
        .collect()
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
    fn a_record_can_be_used_for_more_components() {
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
            assert_eq!(old.can_be_used_for(&new), expected, "{old:?}");
        }
    }

    #[test]
    fn the_directories_of_the_last_commands_stay() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path();
        let directory = |name: &str, command: &str| {
            output::write(&base.join(name).join(USED_BY), command.as_bytes()).unwrap();
        };
        // One command has used two directories.
        for (name, command) in [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", "3"),
            ("e", "4"),
            ("f", "5"),
        ] {
            directory(name, command);
        }
        directory(".removed-1-x", "1");
        // Not ours.
        output::write(&base.join(".removed-mails/1"), b"").unwrap();
        directory("p", "0");
        output::write(&base.join("p/triple/debug/app"), b"").unwrap();
        output::link(Path::new("../p/triple/debug"), &base.join("triple/debug")).unwrap();
        let lock = output::lock_shared(&base.join("b").join(OURS)).unwrap();
        let left = || {
            for path in set_unused_aside(&Root::system(), base, 3) {
                files::remove_directory(&path).unwrap();
            }
            let names = Root::system().names(base).into_iter();
            let mut names = Vec::from_iter(names.map(|it| it.into_string().unwrap()));
            names.sort();
            names.join(" ")
        };
        assert_eq!(
            left(),
            ".removed-mails b c d e f p triple",
            "a build runs in b"
        );
        drop(lock);
        assert_eq!(left(), ".removed-mails c d e f p triple");
    }
}

//! The plan of a view: a map from relative paths to entries, made before anything is written.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::place::WRAPPED_NVCC;
use super::stub::Stub;
use crate::error::Error;
use cuda_find_core::{component::Component, hash::Hasher, list::Set, root::Root};

/// What a view has at one path.
#[derive(Clone, Debug)]
pub(super) enum ViewEntry {
    /// A file or directory of a component, with its absolute path.
    Component(ComponentPath),
    /// A relative link to another path of the view. It stays valid if the view is moved.
    Link(PathBuf),
    /// A file written for this view; executable if it is a script.
    Text(String),
    /// A stub of a driver library, made when the view is written.
    Stub(Stub),
}

/// A file or directory of a component.
#[derive(Clone, Debug)]
pub(super) struct ComponentPath {
    pub(super) component: Component,
    pub(super) path: PathBuf,
}

/// The contents of several directories: for each name, the file or directory of this name in each of them.
#[derive(Default)]
pub(super) struct Contents(BTreeMap<OsString, Vec<ComponentPath>>);

impl Contents {
    /// Adds a file or directory, unless `name` already has the same path.
    pub(super) fn add(&mut self, name: OsString, source: ComponentPath) {
        let sources = self.0.entry(name).or_default();
        if !sources.iter().any(|other| other.path == source.path) {
            sources.push(source);
        }
    }

    /// Adds what is in `directory`, except what is [excluded](is_excluded) or not `wanted`.
    pub(super) fn add_all_of(
        &mut self,
        root: &Root,
        directory: &ComponentPath,
        wanted: &dyn Fn(&OsStr) -> bool,
    ) {
        for name in root.names(&directory.path) {
            if !is_excluded(&name) && wanted(&name) {
                let path = directory.path.join(&name);
                self.add(name, ComponentPath { path, ..*directory });
            }
        }
    }
}

/// The paths of a view, and what is at each. A directory that the view creates has no entry.
#[derive(Debug)]
pub(super) struct ViewPlan<'a> {
    pub(super) root: &'a Root,
    /// A directory that only one component has is one entry, so that the 2000 headers of CCCL need one link.
    pub(super) entries: BTreeMap<PathBuf, ViewEntry>,
    /// What the view lacks, and why.
    pub(super) notes: Vec<String>,
}

impl<'a> ViewPlan<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Self {
            root,
            entries: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a file or directory of a component. If a component already has a file with other content at
    /// `path`, that is an error.
    pub(super) fn add(
        &mut self,
        path: impl Into<PathBuf>,
        source: ComponentPath,
    ) -> Result<(), Error> {
        let path = path.into();
        // A relative target would be resolved against the directory of the link.
        let target = std::path::absolute(&source.path).unwrap_or(source.path);
        match self.entries.get(&path) {
            Some(ViewEntry::Component(first)) if !same_content(self.root, &first.path, &target) => {
                Err(Error::ViewConflict {
                    path,
                    components: [first.component, source.component],
                    files: [first.path.clone(), target],
                })
            }
            Some(_) => Ok(()),
            None => {
                let entry = ViewEntry::Component(ComponentPath {
                    path: target,
                    ..source
                });
                self.entries.insert(path, entry);
                Ok(())
            }
        }
    }

    fn add_directories(&mut self, path: &Path, directories: &[ComponentPath]) -> Result<(), Error> {
        let mut contents = Contents::default();
        for directory in directories {
            contents.add_all_of(self.root, directory, &|_| true);
        }
        self.add_contents(path, contents)
    }

    /// Adds `contents` below `path`. A directory with several sources becomes a real directory with the
    /// contents of all sources.
    pub(super) fn add_contents(&mut self, path: &Path, contents: Contents) -> Result<(), Error> {
        for (name, sources) in contents.0 {
            let path = path.join(&name);
            if sources.iter().all(|source| self.root.is_dir(&source.path)) && sources.len() > 1 {
                self.add_directories(&path, &sources)?;
            } else {
                for source in sources {
                    self.add(&path, source)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file that this crate generates. It replaces a component's entry at the same path.
    pub(super) fn set_text(&mut self, path: impl Into<PathBuf>, text: String) {
        self.entries.insert(path.into(), ViewEntry::Text(text));
    }

    /// Makes `bin/nvcc` a script, and adds a second root with nvcc itself and links to all other programs and
    /// directories: nvcc and `tileiras` derive paths from the directory above `bin`.
    pub(super) fn wrap_nvcc(&mut self, script: &str) {
        let Some(nvcc) = self.entries.remove(Path::new("bin/nvcc")) else {
            return;
        };
        let second = Path::new(WRAPPED_NVCC).iter().next().unwrap_or_default();
        let names = |path: &PathBuf| match path.strip_prefix("bin") {
            Ok(program) => Some(Path::new("bin").join(program.iter().next()?)),
            Err(_) => Some(PathBuf::from(path.iter().next()?)).filter(|name| name != path),
        };
        let linked: Set<PathBuf> = self.entries.keys().filter_map(names).collect();
        for path in linked {
            let up = path.iter().map(|_| "..").collect::<PathBuf>();
            self.set_link(Path::new(second).join(&path), up.join(path));
        }
        self.entries.insert(WRAPPED_NVCC.into(), nvcc);
        self.set_text("bin/nvcc", script.to_owned());
    }

    /// Adds a relative link to another path of the view. It replaces a component's entry at the same path.
    pub(super) fn set_link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        let link = ViewEntry::Link(target.into());
        self.entries.insert(path.into(), link);
    }

    /// Whether the plan has an entry for `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(Path::new(path))
    }

    /// 32 hexadecimal digits that depend on every path, target and text, and on the size and date of
    /// every file of a component. They do not depend on the version of Rust, because they are part of the
    /// view's path, and other tools store that path.
    pub(super) fn digest(&self) -> String {
        fn bytes(path: &Path) -> &[u8] {
            path.as_os_str().as_encoded_bytes()
        }
        let mut hash = Hasher::default();
        let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| hash.field(part));
        let identity = |path: &Path| self.root.identity(path).into_bytes();
        for (path, entry) in &self.entries {
            add(&[bytes(path)]);
            match entry {
                ViewEntry::Component(ComponentPath { path, .. }) => {
                    add(&[b"component", bytes(path), &identity(path)]);
                }
                ViewEntry::Link(target) => add(&[b"link", bytes(target)]),
                ViewEntry::Text(text) => add(&[b"text", text.as_bytes()]),
                ViewEntry::Stub(stub) => {
                    // Another version of this crate may make another stub.
                    add(&[env!("CARGO_PKG_VERSION").as_bytes()]);
                    for path in stub.headers.iter().chain([&stub.compiler]) {
                        add(&[b"stub", bytes(path), &identity(path)]);
                    }
                }
            }
        }
        hash.digest().short()
    }
}

/// Whether a file in a wheel is left out of views: a file of Python, or a second build of a library under another name,
/// such as `libnvrtc.alt.so.12`.
fn is_excluded(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "__init__.py" || name == "__pycache__" || name.contains(".alt.so")
}

/// Whether two paths lead to one file, or to two files with the same content.
fn same_content(root: &Root, a: &Path, b: &Path) -> bool {
    if a == b || root.resolve(a) == root.resolve(b) {
        return true;
    }
    let length = |path| match root.metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(metadata.len()),
        _ => None,
    };
    length(a).is_some()
        && length(a) == length(b)
        && matches!((root.bytes(a), root.bytes(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        place
    }

    #[test]
    fn digest_changes_with_targets_and_texts() {
        let place = tree(&[("libcudart.so.13", "one")]);
        let path = place.path().join("libcudart.so.13");
        let root = Root::system();
        let plan = |version: &str| {
            let mut plan = ViewPlan::new(&root);
            let component = Component::Cudart;
            let path = path.clone();
            let library = ComponentPath { component, path };
            plan.add("lib/libcudart.so.13", library).unwrap();
            plan.set_text("version.json", version.to_owned());
            plan.digest()
        };
        let first = plan("13.4");
        assert_eq!(first, plan("13.4"));
        assert_ne!(first, plan("13.5"));
        std::fs::write(&path, "other").unwrap();
        assert_ne!(first, plan("13.4"));
    }

    /// The paths of a view's headers, and where they lead, if two components have the directories `a` and `b`.
    fn joined(place: &Path) -> Result<Vec<String>, Error> {
        let root = Root::system();
        let mut contents = Contents::default();
        for (component, name) in [(Component::Cudart, "a"), (Component::Nvcc, "b")] {
            let path = place.join(name);
            contents.add_all_of(&root, &ComponentPath { component, path }, &|_| true);
        }
        let mut plan = ViewPlan::new(&root);
        plan.add_contents(Path::new("include"), contents)?;
        let shown = |(path, entry): (&PathBuf, &ViewEntry)| match entry {
            ViewEntry::Component(source) => {
                let target = source.path.strip_prefix(place).unwrap();
                format!("{} {}", path.display(), target.display())
            }
            other => panic!("{other:?}"),
        };
        Ok(plan.entries.iter().map(shown).collect())
    }

    #[test]
    fn shared_directories_are_joined_and_others_linked() {
        let place = tree(&[
            ("a/cuda.h", "same"),
            ("b/cuda.h", "same"),
            ("a/cub/x.cuh", ""),
            ("a/crt/one.h", ""),
            ("b/crt/two.h", ""),
            ("b/crt/deep/y.h", ""),
            ("a/__init__.py", "a"),
            ("b/__init__.py", "b"),
            ("b/__pycache__/x.pyc", ""),
        ]);
        let links = [
            "include/crt/deep b/crt/deep",
            "include/crt/one.h a/crt/one.h",
            "include/crt/two.h b/crt/two.h",
            "include/cub a/cub",
            "include/cuda.h a/cuda.h",
        ];
        assert_eq!(joined(place.path()).unwrap(), links);
    }

    #[test]
    fn different_files_and_a_file_against_a_directory_are_conflicts() {
        for (a, b) in [("a/cuda.h", "b/cuda.h"), ("a/nv", "b/nv/target")] {
            let place = tree(&[(a, "one"), (b, "two")]);
            let error = joined(place.path()).unwrap_err();
            assert!(matches!(error, Error::ViewConflict { .. }));
            let error = error.to_string();
            for word in ["include/", "cudart", "nvcc", "/a/", "/b/"] {
                assert!(error.contains(word), "{word}: {error}");
            }
        }
    }
}

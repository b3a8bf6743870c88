//! The plan of a view: a map from relative paths to entries, made before anything is written.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::stub::Stub;
use crate::component::Component;
use crate::error::Error;
use crate::hash::Fnv;
use crate::root::Root;

/// What a view has at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A file or directory of a component.
    Component {
        component: Component,
        /// The absolute path of the file or directory.
        target: PathBuf,
        /// A text that changes if the file or directory at `target` is replaced.
        identity: String,
    },
    /// A relative link to another path of the view. It stays valid if the view is moved.
    Link(PathBuf),
    /// A file written for this view.
    Text(String),
    /// A stub of a driver library, generated when the view is written.
    Stub {
        stub: Stub,
        /// A text that changes if one of the stub's headers changes.
        identity: String,
    },
}

/// A file or directory of a component that is added to a view.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) component: Component,
    pub(super) path: PathBuf,
}

/// The entries of several directories: each name with its sources, one for each directory that has the
/// name. Sorted by name.
pub(super) type Contents = Vec<(OsString, Vec<Source>)>;

/// The paths of a view, and what is at each. A directory that the view creates has no entry.
#[derive(Debug)]
pub(super) struct ViewPlan<'a> {
    root: &'a Root,
    /// Whether files are copied instead of linked. With copies, every file of a component has an
    /// entry. With links, a directory that only one component has is one entry, so that the 2000
    /// headers of CCCL need one link.
    pub(super) copy: bool,
    /// Sorted by path, so that the same components give the same digest.
    pub(super) entries: Vec<(PathBuf, Entry)>,
}

impl<'a> ViewPlan<'a> {
    pub(super) fn new(root: &'a Root, copy: bool) -> Self {
        Self {
            root,
            copy,
            entries: Vec::new(),
        }
    }

    /// Adds a file or directory of a component. If a component already has a file with other content at
    /// `path`, that is an error.
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, source: Source) -> Result<(), Error> {
        let path = path.into();
        if self.copy && self.root.is_dir(&source.path) {
            let mut contents = Contents::new();
            list(self.root, &source, &mut contents, &|_| true);
            return self.join(&path, contents);
        }
        self.insert(path, source)
    }

    fn insert(&mut self, path: PathBuf, source: Source) -> Result<(), Error> {
        let Source {
            component,
            path: target,
        } = source;
        // A relative target would be resolved against the directory of the link.
        let target = std::path::absolute(&target).unwrap_or(target);
        match self.position(&path) {
            Err(at) => {
                let identity = self.root.identity(&target);
                let entry = Entry::Component {
                    component,
                    target,
                    identity,
                };
                self.entries.insert(at, (path, entry));
                Ok(())
            }
            Ok(at) => match &self.entries[at].1 {
                Entry::Component {
                    component: owner,
                    target: first,
                    ..
                } if !same_content(self.root, first, &target) => Err(Error::ViewConflict {
                    path,
                    components: [*owner, component],
                    files: [first.clone(), target],
                }),
                _ => Ok(()),
            },
        }
    }

    /// Adds `contents` below `path`. A directory with several sources becomes a real directory with the
    /// contents of all sources.
    pub(super) fn join(&mut self, path: &Path, contents: Contents) -> Result<(), Error> {
        for (name, sources) in contents {
            let path = path.join(&name);
            if let [source] = &sources[..] {
                self.add(path, source.clone())?;
            } else if sources.iter().all(|s| self.root.is_dir(&s.path)) {
                let mut inner = Contents::new();
                for source in &sources {
                    list(self.root, source, &mut inner, &|_| true);
                }
                self.join(&path, inner)?;
            } else {
                for source in sources {
                    self.insert(path.clone(), source)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry that this crate generates. It replaces a component's entry at the same path.
    pub(super) fn put(&mut self, path: impl Into<PathBuf>, entry: Entry) {
        let path = path.into();
        match self.position(&path) {
            Ok(at) => self.entries[at].1 = entry,
            Err(at) => self.entries.insert(at, (path, entry)),
        }
    }

    /// Adds a relative link to another path of the view.
    pub(super) fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.put(path, Entry::Link(target.into()));
    }

    pub(super) fn get(&self, path: &Path) -> Option<&Entry> {
        let at = self.position(path).ok()?;
        Some(&self.entries[at].1)
    }

    /// The paths of all entries, sorted.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(|(path, _)| path.as_path())
    }

    fn position(&self, path: &Path) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|(known, _)| known.as_path().cmp(path))
    }

    /// Whether the plan has an entry for `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.get(Path::new(path)).is_some()
    }

    /// Sixteen hexadecimal digits that depend on every path, target and text, and on the size and date of
    /// every file of a component. They do not depend on the version of Rust, because they are part of the
    /// view's path, and other tools store that path.
    pub(super) fn digest(&self) -> String {
        let mut hash = Fnv::default();
        let mut fields = |fields: &[&[u8]]| fields.iter().for_each(|field| hash.field(field));
        fields(&[if self.copy { b"copies" } else { b"links" }]);
        for (path, entry) in &self.entries {
            fields(&[path.as_os_str().as_encoded_bytes()]);
            match entry {
                Entry::Component {
                    target, identity, ..
                } => {
                    let target = target.as_os_str().as_encoded_bytes();
                    fields(&[b"component", target, identity.as_bytes()]);
                }
                Entry::Link(target) => fields(&[b"link", target.as_os_str().as_encoded_bytes()]),
                Entry::Text(text) => fields(&[b"text", text.as_bytes()]),
                Entry::Stub { stub, identity } => fields(&[
                    b"stub",
                    // Another version of this crate may generate another stub.
                    env!("CARGO_PKG_VERSION").as_bytes(),
                    stub.driver.soname.as_bytes(),
                    stub.platform.as_bytes(),
                    identity.as_bytes(),
                ]),
            }
        }
        hash.hex()
    }
}

/// Adds the entries of `directory` to `contents`, except those that are [excluded](is_excluded) or not `wanted`.
pub(super) fn list(
    root: &Root,
    directory: &Source,
    contents: &mut Contents,
    wanted: &dyn Fn(&OsStr) -> bool,
) {
    for name in root.names(&directory.path) {
        if is_excluded(&name) || !wanted(&name) {
            continue;
        }
        let source = Source {
            component: directory.component,
            path: directory.path.join(&name),
        };
        add_source(name, source, contents);
    }
}

/// Adds a source for `name` to `contents`, unless `name` already has a source with the same path.
pub(super) fn add_source(name: OsString, source: Source, contents: &mut Contents) {
    let sources = crate::list::entry(contents, name);
    if !sources.iter().any(|known| known.path == source.path) {
        sources.push(source);
    }
}

/// Whether a file in a wheel is left out of views: a file of Python's, or a second build of a library
/// under another name, such as `libnvrtc.alt.so.12`.
fn is_excluded(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name == "__init__.py" || name == "__pycache__" || name.contains(".alt.so")
    })
}

/// Whether two paths lead to one file, or to two files with the same content.
fn same_content(root: &Root, a: &Path, b: &Path) -> bool {
    if a == b || root.resolve(a) == root.resolve(b) {
        return true;
    }
    let length = |path| {
        root.metadata(path)
            .ok()
            .filter(|m| m.is_file())
            .map(|m| m.len())
    };
    let (Some(first), Some(second)) = (length(a), length(b)) else {
        return false;
    };
    first == second && matches!((root.bytes(a), root.bytes(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use super::*;

    fn source(component: Component, path: PathBuf) -> Source {
        Source { component, path }
    }

    #[test]
    fn equal_files_join_and_different_ones_are_a_conflict() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let root = Root::system();
        let mut plan = ViewPlan::new(&root, false);
        let mut add = |component, file| plan.add("include/cuda.h", source(component, file));
        add(Component::Cudart, file("a", "same")).unwrap();
        add(Component::Nvcc, file("b", "same")).unwrap();
        let error = add(Component::Cupti, file("c", "else"))
            .unwrap_err()
            .to_string();
        for word in ["include/cuda.h", "cudart", "cupti", "/a", "/c"] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn digest_changes_with_targets_and_texts() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("libcudart.so.13");
        std::fs::write(&path, "one").unwrap();
        let root = Root::system();
        let plan = |copy| {
            let mut plan = ViewPlan::new(&root, copy);
            let library = source(Component::Cudart, path.clone());
            plan.add("lib/libcudart.so.13", library).unwrap();
            plan.put("version.json", Entry::Text("13.4".to_owned()));
            plan
        };
        let first = plan(false).digest();
        assert_eq!(first, plan(false).digest());
        assert_ne!(first, plan(true).digest());
        let mut other = plan(false);
        other.put("version.json", Entry::Text("13.5".to_owned()));
        assert_ne!(first, other.digest());
        std::fs::write(&path, "other").unwrap();
        assert_ne!(first, plan(false).digest());
    }

    fn tree(place: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = place.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn joined(place: &Path, copy: bool) -> Result<Vec<String>, Error> {
        let root = Root::system();
        let mut contents = Contents::new();
        for (component, name) in [(Component::Cudart, "a"), (Component::Nvcc, "b")] {
            let directory = source(component, place.join(name));
            list(&root, &directory, &mut contents, &|_| true);
        }
        let mut plan = ViewPlan::new(&root, copy);
        plan.join(Path::new("include"), contents)?;
        let shown = |(path, entry): &(PathBuf, Entry)| match entry {
            Entry::Component { target, .. } => {
                format!(
                    "{} {}",
                    path.display(),
                    target.strip_prefix(place).unwrap().display()
                )
            }
            other => panic!("{other:?}"),
        };
        Ok(plan.entries.iter().map(shown).collect())
    }

    #[test]
    fn shared_directories_are_joined_and_others_linked() {
        let place = tempfile::tempdir().unwrap();
        tree(
            place.path(),
            &[
                ("a/cuda.h", ""),
                ("a/cub/x.cuh", ""),
                ("a/crt/one.h", ""),
                ("b/crt/two.h", ""),
                ("b/crt/deep/y.h", ""),
                ("a/__init__.py", "a"),
                ("b/__init__.py", "b"),
                ("b/__pycache__/x.pyc", ""),
            ],
        );
        assert_eq!(
            joined(place.path(), false).unwrap(),
            [
                "include/crt/deep b/crt/deep",
                "include/crt/one.h a/crt/one.h",
                "include/crt/two.h b/crt/two.h",
                "include/cub a/cub",
                "include/cuda.h a/cuda.h"
            ]
        );
        let every = joined(place.path(), true).unwrap();
        assert!(
            every.contains(&"include/cub/x.cuh a/cub/x.cuh".to_owned()),
            "{every:?}"
        );
    }

    #[test]
    fn a_file_against_a_directory_is_a_conflict() {
        let place = tempfile::tempdir().unwrap();
        tree(place.path(), &[("a/nv", ""), ("b/nv/target", "")]);
        assert!(matches!(
            joined(place.path(), false),
            Err(Error::ViewConflict { .. })
        ));
    }
}

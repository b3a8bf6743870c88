//! The plan of a view: a map from relative paths to entries, made before anything is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::path::{Path, PathBuf};

use super::stub::Stub;
use crate::component::Component;
use crate::error::Error;
use crate::hash::Fnv;
use crate::root::Root;

/// One path of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A file or directory of a component.
    Component {
        /// Its path.
        target: PathBuf,
        /// Changes if it is replaced in place.
        identity: String,
    },
    /// A relative link to another path of the view, valid also after the view was moved.
    Link(PathBuf),
    /// A file written for this view.
    Text(String),
    /// A stub of a driver library, generated when the view is written.
    Stub {
        /// What it is made from.
        stub: Stub,
        /// Changes if its headers change.
        identity: String,
    },
}

/// All paths of a view but its directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Sorted, so that the same components give the same text.
    pub(super) entries: BTreeMap<PathBuf, Entry>,
    /// The component of each [`Entry::Component`], for the message about a conflict.
    owners: Vec<(PathBuf, Component)>,
}

impl Plan {
    /// Adds a file or directory of a component.
    ///
    /// # Errors
    /// [`Error::ViewConflict`] if another component has a different file at this path.
    pub(super) fn link(
        &mut self,
        root: &Root,
        component: Component,
        path: PathBuf,
        target: PathBuf,
    ) -> Result<(), Error> {
        // A relative target would be read from the directory of the link.
        let target = if target.is_absolute() {
            target
        } else {
            std::path::absolute(&target).unwrap_or(target)
        };
        match self.entries.entry(path) {
            Slot::Vacant(slot) => {
                self.owners.push((slot.key().clone(), component));
                let identity = root.identity(&target);
                slot.insert(Entry::Component { target, identity });
                Ok(())
            }
            Slot::Occupied(slot) => match slot.get() {
                Entry::Component { target: first, .. } if !same_content(root, first, &target) => {
                    let mut owners = self.owners.iter();
                    let owner = owners
                        .find(|(path, _)| path == slot.key())
                        .map_or(component, |(_, o)| *o);
                    Err(Error::ViewConflict {
                        path: slot.key().clone(),
                        components: [owner, component],
                        files: [first.clone(), target],
                    })
                }
                _ => Ok(()),
            },
        }
    }

    /// Adds an entry that is no component's. It replaces a component's.
    pub(super) fn put(&mut self, path: impl Into<PathBuf>, entry: Entry) {
        self.entries.insert(path.into(), entry);
    }

    /// Whether the view has `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(Path::new(path))
    }

    /// Sixteen digits that differ if a path, a target, a text, or the size or date of a linked file
    /// differs. They are the same with every compiler of Rust, because other tools remember paths
    /// that contain them.
    pub(super) fn digest(&self, salt: &str) -> String {
        let mut hash = Fnv::default();
        hash.field(salt.as_bytes());
        for (path, entry) in &self.entries {
            hash.field(path.as_os_str().as_encoded_bytes());
            match entry {
                Entry::Component { target, identity } => {
                    hash.field(b"component");
                    hash.field(target.as_os_str().as_encoded_bytes());
                    hash.field(identity.as_bytes());
                }
                Entry::Link(target) => {
                    hash.field(b"link");
                    hash.field(target.as_os_str().as_encoded_bytes());
                }
                Entry::Text(text) => {
                    hash.field(b"text");
                    hash.field(text.as_bytes());
                }
                Entry::Stub { stub, identity } => {
                    hash.field(b"stub");
                    // Another version of this crate may generate another stub.
                    hash.field(env!("CARGO_PKG_VERSION").as_bytes());
                    hash.field(stub.driver.soname().as_bytes());
                    hash.field(stub.platform.as_bytes());
                    hash.field(identity.as_bytes());
                }
            }
        }
        hash.hex()
    }
}

/// Whether two paths are one file, or two files of the same bytes.
pub(super) fn same_content(root: &Root, a: &Path, b: &Path) -> bool {
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

    #[test]
    fn equal_files_join_and_different_ones_are_a_conflict() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let root = Root::system();
        let mut plan = Plan::default();
        let at = || PathBuf::from("include/cuda.h");
        plan.link(&root, Component::Cudart, at(), file("a", "same"))
            .unwrap();
        plan.link(&root, Component::Nvcc, at(), file("b", "same"))
            .unwrap();
        let error = plan
            .link(&root, Component::Cupti, at(), file("c", "else"))
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
        let plan = || {
            let mut plan = Plan::default();
            plan.link(
                &root,
                Component::Cudart,
                PathBuf::from("lib/libcudart.so.13"),
                path.clone(),
            )
            .unwrap();
            plan.put("version.json", Entry::Text("13.4".to_owned()));
            plan
        };
        let first = plan().digest("");
        assert_eq!(first, plan().digest(""));
        assert_ne!(first, plan().digest("copy"));
        let mut other = plan();
        other.put("version.json", Entry::Text("13.5".to_owned()));
        assert_ne!(first, other.digest(""));
        std::fs::write(&path, "other").unwrap();
        assert_ne!(first, plan().digest(""));
    }
}

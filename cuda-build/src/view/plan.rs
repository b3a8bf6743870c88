//! What a view holds: relative path → entry, before anything is written.

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
    /// A file or a whole directory of a component.
    Outside {
        /// Where it is.
        target: PathBuf,
        /// What changes when it is replaced in place.
        identity: String,
    },
    /// Another path of the view: the text of a relative link, which a moved view keeps.
    Inside(&'static str),
    /// [`Entry::Inside`] with a text made up here.
    Alias(String),
    /// A file written for this view.
    Text(String),
    /// A library to link with in the driver's place, made when the view is.
    Stub {
        /// What it is made from.
        stub: Stub,
        /// What changes when that changes.
        identity: String,
    },
}

/// All paths of a view. Directories are not listed: they are the parents of what is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Sorted, so that the same components give the same text.
    pub(super) entries: BTreeMap<PathBuf, Entry>,
    /// Who put each link out of the view there; asked after a conflict alone, so it need not be
    /// sorted.
    owners: Vec<(PathBuf, Component)>,
}

impl Plan {
    /// Adds a file or directory of a component.
    ///
    /// # Errors
    /// [`Error::ViewConflict`] where another component has put a file of other content there.
    pub(super) fn link(
        &mut self,
        root: &Root,
        component: Component,
        path: PathBuf,
        target: PathBuf,
    ) -> Result<(), Error> {
        // A link is read from where it is, not from here.
        let target = if target.is_absolute() {
            target
        } else {
            std::path::absolute(&target).unwrap_or(target)
        };
        match self.entries.entry(path) {
            Slot::Vacant(slot) => {
                self.owners.push((slot.key().clone(), component));
                let identity = root.identity(&target);
                slot.insert(Entry::Outside { target, identity });
                Ok(())
            }
            Slot::Occupied(slot) => match slot.get() {
                Entry::Outside { target: first, .. } if !same_content(root, first, &target) => {
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

    /// Adds what is made here and no component's; it wins over a component's.
    pub(super) fn put(&mut self, path: impl Into<PathBuf>, entry: Entry) {
        self.entries.insert(path.into(), entry);
    }

    /// Whether there is something at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(Path::new(path))
    }

    /// Sixteen digits that differ for plans that differ in a path, a target, a text, or the size
    /// or time of change of a file that is linked. The same on every machine and with every
    /// compiler: it is part of a path that other tools remember.
    pub(super) fn digest(&self, salt: &str) -> String {
        let mut hash = Fnv::default();
        hash.field(salt.as_bytes());
        for (path, entry) in &self.entries {
            hash.field(path.as_os_str().as_encoded_bytes());
            match entry {
                Entry::Outside { target, identity } => {
                    hash.field(b"outside");
                    hash.field(target.as_os_str().as_encoded_bytes());
                    hash.field(identity.as_bytes());
                }
                Entry::Inside(target) => hash.field(target.as_bytes()),
                Entry::Alias(target) => hash.field(target.as_bytes()),
                Entry::Text(text) => {
                    hash.field(b"text");
                    hash.field(text.as_bytes());
                }
                Entry::Stub { stub, identity } => {
                    hash.field(b"stub");
                    // A newer version of this crate may make it otherwise.
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
    fn same_content_is_fine_and_other_content_names_both() {
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
    fn digest_follows_path_target_text_and_replaced_file() {
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

//! A cache of directory listings. The search looks up dozens of files in each directory, and most of them do not
//! exist. A listing replaces a system call for each of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::root::Root;

/// A directory with more names than this is not listed (`/usr/lib/x86_64-linux-gnu` has thousands): listing it
/// takes longer than a system call for each file that is looked up.
const LISTING_LIMIT: usize = 400;

type Names = Rc<[OsString]>;

/// Listed directories and resolved paths. The cache changes only the speed, never an answer.
pub(super) struct Directories<'r> {
    root: &'r Root,
    /// Sorted names. `None` if there are more than [`LISTING_LIMIT`] and [`Directories::names`] has not read them
    /// all, or if the directory cannot be listed.
    listed: RefCell<HashMap<OsString, Option<Names>>>,
    resolved: RefCell<HashMap<OsString, PathBuf>>,
}

impl<'r> Directories<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Self {
            root,
            listed: RefCell::default(),
            resolved: RefCell::default(),
        }
    }

    /// `directory/name`, if that is a regular file.
    pub(super) fn file(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        let first = name.split('/').next().unwrap_or(name);
        if self.lacks(directory, first) {
            return None;
        }
        Some(directory.join(name)).filter(|path| self.root.is_file(path))
    }

    /// Whether a listing shows that this name is absent; `false` if there is no listing.
    pub(super) fn lacks(&self, directory: &Path, name: &str) -> bool {
        let mut listed = self.listed.borrow_mut();
        if !listed.contains_key(directory.as_os_str()) {
            let names = self
                .root
                .names_up_to(directory, LISTING_LIMIT)
                .map(Rc::from);
            listed.insert(directory.as_os_str().to_owned(), names);
        }
        let names = listed.get(directory.as_os_str()).and_then(Option::as_ref);
        names.is_some_and(|names| {
            names
                .binary_search_by(|known| known.as_os_str().cmp(OsStr::new(name)))
                .is_err()
        })
    }

    /// All names in a directory, sorted, however many there are.
    pub(super) fn names(&self, directory: &Path) -> Names {
        let mut listed = self.listed.borrow_mut();
        if let Some(Some(names)) = listed.get(directory.as_os_str()) {
            return Rc::clone(names);
        }
        let names: Names = self.root.names(directory).into();
        listed.insert(directory.as_os_str().to_owned(), Some(Rc::clone(&names)));
        names
    }

    /// The result of [`Root::resolve`], but each parent directory is resolved only once.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        if let Some(known) = self.resolved.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let resolved = match (path.parent(), path.file_name()) {
            // A path without a name is `/`, or ends with `..`.
            (Some(parent), Some(name)) if path.is_absolute() => {
                let path = self.resolve(parent).join(name);
                if self.root.is_link(&path) {
                    self.root.resolve(&path)
                } else {
                    path
                }
            }
            _ => self.root.resolve(path),
        };
        self.resolved
            .borrow_mut()
            .insert(path.as_os_str().to_owned(), resolved.clone());
        resolved
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_of_small_and_large_directories_are_the_same() {
        let place = tempfile::tempdir().unwrap();
        let (root, path) = (Root::system(), place.path());
        fs::create_dir(path.join("cub")).unwrap();
        for name in ["cuda.h", "cub/version.cuh", "target"] {
            fs::write(path.join(name), "").unwrap();
        }
        symlink("cuda.h", path.join("link.h")).unwrap();
        symlink("nowhere", path.join("dangling.h")).unwrap();
        for more in [0, LISTING_LIMIT + 1] {
            for index in 0..more {
                fs::write(path.join(format!("other{index}.h")), "").unwrap();
            }
            let directories = Directories::new(&root);
            for (name, there) in [
                ("cuda.h", true),
                ("cub/version.cuh", true),
                ("link.h", true),
                ("dangling.h", false),
                ("cub", false),
                ("cub/other.cuh", false),
                ("absent.h", false),
                ("absent/version.cuh", false),
            ] {
                let found = directories.file(path, name);
                assert_eq!(found, there.then(|| path.join(name)), "{name} {more}");
            }
            assert_eq!(directories.lacks(path, "absent.h"), more == 0);
            assert_eq!(directories.names(path).len(), 5 + more);
            assert!(directories.lacks(path, "absent.h"));
            assert!(directories.lacks(&path.join("absent"), "cuda.h"));
        }
    }

    #[test]
    fn links_are_resolved_like_the_system_does() {
        let place = tempfile::tempdir().unwrap();
        let (root, path) = (Root::system(), place.path());
        fs::create_dir_all(path.join("cuda-13.4/targets/x/lib")).unwrap();
        symlink("cuda-13.4", path.join("cuda")).unwrap();
        symlink("targets/x/lib", path.join("cuda-13.4/lib64")).unwrap();
        symlink("loop", path.join("loop")).unwrap();
        let directories = Directories::new(&root);
        fs::create_dir(path.join("cuda-13.4/bin")).unwrap();
        for name in [
            "cuda",
            "cuda/lib64",
            "cuda/targets/x/lib",
            "cuda/lib64/..",
            "cuda/./lib64",
            "cuda/bin/..",
        ] {
            let path = path.join(name);
            assert!(path.exists(), "{name}");
            assert_eq!(directories.resolve(&path), root.resolve(&path), "{name}");
        }
        // No end: the path stays as it is.
        assert_eq!(directories.resolve(&path.join("loop")), path.join("loop"));
        assert_eq!(directories.resolve(Path::new("/")), Path::new("/"));
        assert_eq!(
            directories.resolve(Path::new("relative")),
            Path::new("relative")
        );
    }
}

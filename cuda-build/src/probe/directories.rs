//! What is known of the directories of one place, so that the disk is asked for each once: dozens
//! of files are looked for in each, and most of them are not there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::root::Root;

/// A directory with more names (`/usr/lib/x86_64-linux-gnu` has thousands) takes longer to list
/// than the files that are looked for in it take to be asked for.
const MANY: usize = 400;

#[derive(Default)]
pub(super) struct Directories {
    /// Sorted; `None` where asking for each file is the only way, or the cheaper one.
    few: RefCell<BTreeMap<OsString, Option<Names>>>,
    all: RefCell<BTreeMap<OsString, Names>>,
    resolved: RefCell<BTreeMap<OsString, PathBuf>>,
}

type Names = Rc<[OsString]>;

impl Directories {
    /// `directory/name`, where that is a regular file.
    pub(super) fn file(&self, root: &Root, directory: &Path, name: &str) -> Option<PathBuf> {
        let first = name.split('/').next().unwrap_or(name);
        if self.lacks(root, directory, first) {
            return None;
        }
        Some(directory.join(name)).filter(|path| root.is_file(path))
    }

    /// Whether there is certainly no such name in the directory; cheap where it was listed.
    pub(super) fn lacks(&self, root: &Root, directory: &Path, name: &str) -> bool {
        let mut few = self.few.borrow_mut();
        if !few.contains_key(directory.as_os_str()) {
            let names = root.few_names(directory, MANY).map(Rc::from);
            few.insert(directory.as_os_str().to_owned(), names);
        }
        let names = few.get(directory.as_os_str()).and_then(Option::as_ref);
        names.is_some_and(|names| {
            names
                .binary_search_by(|known| known.as_os_str().cmp(OsStr::new(name)))
                .is_err()
        })
    }

    /// All names in a directory, sorted, however many they are.
    pub(super) fn names(&self, root: &Root, directory: &Path) -> Names {
        if let Some(Some(names)) = self.few.borrow().get(directory.as_os_str()) {
            return Rc::clone(names);
        }
        let mut all = self.all.borrow_mut();
        let names = all
            .entry(directory.as_os_str().to_owned())
            .or_insert_with(|| root.names(directory).into());
        Rc::clone(names)
    }

    /// As [`Root::resolve`], each directory above looked at once.
    pub(super) fn resolve(&self, root: &Root, path: &Path) -> PathBuf {
        if let Some(known) = self.resolved.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let resolved = match (path.parent(), path.file_name()) {
            // Without a name it is `/`, or ends in `..`.
            (Some(above), Some(name)) if path.is_absolute() => {
                let path = self.resolve(root, above).join(name);
                if root.is_link(&path) {
                    root.resolve(&path)
                } else {
                    path
                }
            }
            _ => root.resolve(path),
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
        for more in [0, MANY + 1] {
            for index in 0..more {
                fs::write(path.join(format!("other{index}.h")), "").unwrap();
            }
            let directories = Directories::default();
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
                let found = directories.file(&root, path, name);
                assert_eq!(found, there.then(|| path.join(name)), "{name} {more}");
            }
            assert_eq!(directories.names(&root, path).len(), 5 + more);
            assert_eq!(directories.lacks(&root, path, "absent.h"), more == 0);
            assert!(directories.lacks(&root, &path.join("absent"), "cuda.h"));
        }
    }

    #[test]
    fn links_are_resolved_as_the_system_does() {
        let place = tempfile::tempdir().unwrap();
        let (root, path) = (Root::system(), place.path());
        fs::create_dir_all(path.join("cuda-13.4/targets/x/lib")).unwrap();
        symlink("cuda-13.4", path.join("cuda")).unwrap();
        symlink("targets/x/lib", path.join("cuda-13.4/lib64")).unwrap();
        symlink("loop", path.join("loop")).unwrap();
        let directories = Directories::default();
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
            assert_eq!(
                directories.resolve(&root, &path),
                root.resolve(&path),
                "{name}"
            );
        }
        // No end: the path stays as it is.
        assert_eq!(
            directories.resolve(&root, &path.join("loop")),
            path.join("loop")
        );
        assert_eq!(directories.resolve(&root, Path::new("/")), Path::new("/"));
        assert_eq!(
            directories.resolve(&root, Path::new("relative")),
            Path::new("relative")
        );
    }
}

//! Joins directories of several components: a directory that only one of them has becomes a link, a
//! directory of several becomes a real one with the contents of all.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::plan::Plan;
use crate::component::Component;
use crate::error::Error;
use crate::root::Root;

/// A file or directory of a component that is added to a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) component: Component,
    pub(super) directory: PathBuf,
}

/// The options of joining.
#[derive(Clone, Copy)]
pub(super) struct Join<'a> {
    pub(super) root: &'a Root,
    /// Whether a directory may become a link. CCCL has 2000 headers.
    pub(super) whole: bool,
    /// Selects names of the topmost directories.
    pub(super) wanted: &'a dyn Fn(&Source, &OsStr) -> bool,
}

/// Files in wheels that are not part of CUDA: Python's package markers, and second builds of
/// libraries under other names.
fn is_excluded(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    name == "__init__.py" || name == "__pycache__" || name.contains(".alt.so")
}

impl Join<'_> {
    /// Adds the contents of `sources` below `path`. `below` has further sources for directories
    /// below `path`, by name.
    ///
    /// # Errors
    /// [`Error::ViewConflict`].
    pub(super) fn join(
        &self,
        plan: &mut Plan,
        path: &Path,
        sources: &[Source],
        below: &BTreeMap<OsString, Vec<Source>>,
    ) -> Result<(), Error> {
        let mut names: BTreeMap<OsString, Vec<Source>> = below.clone();
        for source in sources {
            for name in self.root.names(&source.directory) {
                if is_excluded(&name) || !(self.wanted)(source, &name) {
                    continue;
                }
                let directory = source.directory.join(&name);
                let offers = names.entry(name).or_default();
                if !offers.iter().any(|offer| offer.directory == directory) {
                    offers.push(Source {
                        component: source.component,
                        directory,
                    });
                }
            }
        }
        for (name, offers) in names {
            let path = path.join(&name);
            let all_directories = || {
                offers
                    .iter()
                    .all(|offer| self.root.is_dir(&offer.directory))
            };
            let one = offers.len() == 1;
            if (one && self.whole) || !all_directories() {
                for offer in offers {
                    plan.link(self.root, offer.component, path.clone(), offer.directory)?;
                }
            } else {
                let inner = Self {
                    wanted: &|_, _| true,
                    ..*self
                };
                inner.join(plan, &path, &offers, &BTreeMap::new())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real directories")]
mod tests {
    use super::*;
    use crate::view::plan::Entry;

    fn tree(place: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = place.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn joined(place: &Path, whole: bool) -> Result<Vec<String>, Error> {
        let root = Root::system();
        let source = |component, name: &str| Source {
            component,
            directory: place.join(name),
        };
        let sources = [source(Component::Cudart, "a"), source(Component::Nvcc, "b")];
        let mut plan = Plan::default();
        let join = Join {
            root: &root,
            whole,
            wanted: &|_, _| true,
        };
        join.join(&mut plan, Path::new("include"), &sources, &BTreeMap::new())?;
        let shown = |(path, entry): (&PathBuf, &Entry)| match entry {
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
            joined(place.path(), true).unwrap(),
            [
                "include/crt/deep b/crt/deep",
                "include/crt/one.h a/crt/one.h",
                "include/crt/two.h b/crt/two.h",
                "include/cub a/cub",
                "include/cuda.h a/cuda.h"
            ]
        );
        let every = joined(place.path(), false).unwrap();
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
            joined(place.path(), true),
            Err(Error::ViewConflict { .. })
        ));
    }
}

//! The sources of a library: which files a pattern names, and what compiles each.

use std::path::{Path, PathBuf};

use crate::error::Error;
use cuda_find_core::list::{Set, matches};
use cuda_find_core::root::Root;

/// A source, as the build script names it.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    /// A pattern with `*` and `**`.
    Glob(String),
}

/// The endings of sources: CUDA, C++, C and objects.
const ENDINGS: [&str; 6] = ["cu", "cpp", "cc", "cxx", "c", "o"];

/// The sources of a library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Each file once, relative to the package.
    pub(crate) files: Vec<PathBuf>,
    /// The directories in which patterns were searched.
    pub(crate) searched: Set<PathBuf>,
}

impl Sources {
    /// Finds the files that the patterns name.
    ///
    /// # Errors
    /// [`Error::Find`] if a pattern names no file, if there is no source, and for an unknown extension.
    pub(crate) fn resolve(
        library: &str,
        named: &[Source],
        excluded: &[String],
        root: &Root,
        package: &Path,
    ) -> Result<Self, Error> {
        let mut sources = Self::default();
        for source in named {
            match source {
                Source::File(path) => sources.push(path)?,
                Source::Glob(pattern) => {
                    let found = matching_files(pattern, excluded, root, package);
                    let (found, searched) = found.map_err(|reason| {
                        Error::usage(format!("library `{library}`: {reason}"), PATTERN_HINT)
                    })?;
                    sources.searched.extend(searched);
                    found.iter().try_for_each(|path| sources.push(path))?;
                }
            }
        }
        if sources.files.is_empty() {
            let reason = format!("library `{library}` has no sources");
            let hint = "name them with `Library::file`, `files` or `glob`";
            return Err(Error::usage(reason, hint));
        }
        Ok(sources)
    }

    fn push(&mut self, path: &Path) -> Result<(), Error> {
        if !ENDINGS.iter().any(|ending| has_ending(path, ending)) {
            let (path, endings) = (path.display(), ENDINGS.join(", ."));
            let reason = format!("{path} is not a source: its name ends in none of .{endings}");
            let hint = "rename it, or leave it out of the library in build.rs";
            return Err(Error::usage(reason, hint));
        }
        if !self.files.iter().any(|file| file == path) {
            self.files.push(path.to_owned());
        }
        Ok(())
    }
}

/// Whether the extension of a file is `ending`.
pub(super) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension == ending)
}

/// How a pattern is corrected.
pub(crate) const PATTERN_HINT: &str = "correct the pattern in build.rs: `*` stands for a part of one name, `**` for \
                                       any number of directories, as in `kernels/**/*.cu`";

/// The files that match a pattern and none of `excluded`, relative to the package, and the directories that were
/// searched.
///
/// # Errors
/// A sentence if there is no such file.
pub fn matching_files(
    pattern: &str,
    excluded: &[String],
    root: &Root,
    package: &Path,
) -> Result<(Vec<PathBuf>, Set<PathBuf>), String> {
    let mut searched = Set::default();
    let mut find = |pattern: &str| {
        let mut walk = PatternWalk {
            root,
            package,
            found: Set::default(),
            searched: &mut searched,
        };
        // The first part of an absolute pattern is `/`.
        let parts = Path::new(pattern).components();
        let parts = parts.filter_map(|part| part.as_os_str().to_str());
        walk.find(Path::new(""), &parts.collect::<Vec<_>>());
        walk.found
    };
    let found = find(pattern);
    let excluded_files: Vec<Set<PathBuf>> = excluded.iter().map(|pattern| find(pattern)).collect();
    let is_excluded = |path: &PathBuf| excluded_files.iter().any(|files| files.contains(path));
    let mut files = Vec::from_iter(found);
    files.retain(|path| !is_excluded(path));
    if files.is_empty() {
        let but = match excluded {
            [] => String::new(),
            excluded => format!(" and not `{}`", excluded.join("` or `")),
        };
        return Err(format!(
            "no file in {} matches `{pattern}`{but}",
            package.display()
        ));
    }
    Ok((files, searched))
}

/// A search for the files that match a pattern.
struct PatternWalk<'a> {
    root: &'a Root,
    package: &'a Path,
    found: Set<PathBuf>,
    searched: &'a mut Set<PathBuf>,
}

impl PatternWalk<'_> {
    /// Searches `place` for the rest of a pattern.
    fn find(&mut self, place: &Path, pattern: &[&str]) {
        let full = self.package.join(place);
        let [part, rest @ ..] = pattern else {
            if self.root.is_file(&full) {
                self.found.insert(place.to_owned());
            }
            return;
        };
        if !part.contains('*') {
            self.find(&place.join(part), rest);
            return;
        }
        let names = self.root.names(&full);
        self.searched.insert(full);
        if *part == "**" {
            self.find(place, rest);
        }
        for name in names.iter().filter_map(|name| name.to_str()) {
            // As in shells, a name that starts with a period has to be written out.
            if name.starts_with('.') && !part.starts_with('.') {
                continue;
            }
            let path = place.join(name);
            if *part == "**" {
                if self.can_be_entered(&path) {
                    self.find(&path, pattern);
                }
            } else if matches(part, name) && (rest.is_empty() || self.can_be_entered(&path)) {
                self.find(&path, rest);
            }
        }
    }

    /// Whether `**` enters a directory: not through a link, which may lead upwards, and not into
    /// Cargo's target directory.
    fn can_be_entered(&self, path: &Path) -> bool {
        let path = self.package.join(path);
        self.root.is_dir(&path)
            && !self.root.is_link(&path)
            && !self.root.is_file(&path.join("CACHEDIR.TAG"))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;

    use super::*;

    fn package(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        directory
    }

    fn found(package: &Path, pattern: &str) -> Result<Vec<String>, Error> {
        let glob = [Source::Glob(pattern.to_owned())];
        let sources = Sources::resolve("x", &glob, &[], &Root::system(), package)?;
        let names = sources.files.iter().map(|path| path.display());
        Ok(names.map(|name| name.to_string()).collect())
    }

    #[test]
    fn a_pattern_names_files_in_order() {
        let package = package(&[
            "src/b.cu",
            "src/a.cu",
            "src/a.cuh",
            "src/deep/er/c.cu",
            "src/.hidden/d.cu",
            "target/CACHEDIR.TAG",
            "target/e.cu",
        ]);
        let path = package.path();
        std::os::unix::fs::symlink(path, path.join("src/loop")).unwrap();
        for (pattern, expected) in [
            ("src/*.cu", &["src/a.cu", "src/b.cu"][..]),
            ("src/**/*.cu", &["src/a.cu", "src/b.cu", "src/deep/er/c.cu"]),
            ("**/*.cu", &["src/a.cu", "src/b.cu", "src/deep/er/c.cu"]),
            ("s*c/d*/*/c.cu", &["src/deep/er/c.cu"]),
            ("src/a.cu", &["src/a.cu"]),
            ("src/deep/../*b*.cu", &["src/deep/../b.cu"]),
        ] {
            assert_eq!(found(path, pattern).unwrap(), expected, "{pattern}");
        }
        let absolute = format!("{}/src/a*u", path.display());
        assert_eq!(found(path, &absolute).unwrap().len(), 1);
        for none in ["src/*.cpp", "absent/*.cu", "src/**", "*.cu"] {
            let error = format!("{:?}", found(path, none).unwrap_err());
            assert!(error.contains(none) && error.contains("hint: "), "{error}");
        }
    }

    #[test]
    fn searched_directories_and_files_are_listed_once() {
        let package = package(&["a/x.cu", "b/y.cu"]);
        let path = package.path();
        let named = [
            Source::Glob("*/*.cu".to_owned()),
            Source::File("a/x.cu".into()),
        ];
        let sources = Sources::resolve("x", &named, &[], &Root::system(), path).unwrap();
        assert_eq!(sources.files.len(), 2);
        let searched: Vec<PathBuf> = sources.searched.into_iter().collect();
        assert_eq!(searched, [path.to_owned(), path.join("a"), path.join("b")]);
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |file: &str| {
            let named = [Source::File(file.into())];
            Sources::resolve("x", &named, &[], &Root::system(), Path::new("/"))
        };
        assert!(format!("{:?}", refused("a.cuh")).contains("is not a source"));
        for file in ["a.cpp", "a.cc", "a.cxx", "a.c", "a.o"] {
            assert_eq!(refused(file).unwrap().files, [Path::new(file)]);
        }
        let empty = Sources::resolve("x", &[], &[], &Root::system(), Path::new("/"));
        assert!(format!("{empty:?}").contains("has no sources"));
    }
}

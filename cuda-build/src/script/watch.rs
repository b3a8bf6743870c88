//! Which paths Cargo watches, so that it runs the script again after a change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::build::Build;
use crate::error::Error;
use cuda_find_core::directive::Directives;
use cuda_find_core::list::Set;
use cuda_find_core::{output, toolkit::Toolkit};

/// The longest path that Linux accepts, in bytes.
const LONGEST_PATH: usize = 4095;

impl Build {
    /// Declares the paths that compilers read, searched, or looked for in vain.
    ///
    /// Cargo checks every file below a watched directory. So a directory with outputs of a build is watched without what
    /// is below it, and directories of the system or the toolkit are not watched. A path that does not exist is watched by
    /// a link to it, unless a directory above it is watched.
    pub(super) fn watch_inputs(
        &self,
        toolkit: &Toolkit,
        inputs: &[PathBuf],
        directives: &mut Directives,
    ) -> Result<(), Error> {
        let mut system = (self.root).default_search_dirs(self.target()?.multiarch());
        system.push(self.root.locate("/usr/local/include"));
        system.extend(toolkit.include_dirs());
        let has_outputs = |directory: &Path| {
            self.out.starts_with(directory)
                || self.root.is_file(&directory.join("target/CACHEDIR.TAG"))
                || self.root.is_file(&directory.join("CACHEDIR.TAG"))
        };
        let is_system = |path: &Path| system.iter().any(|dir| path.starts_with(dir));
        let mut files = Vec::new();
        let mut directories = Set::default();
        let mut directories_with_outputs = Set::default();
        let mut absent = Vec::new();
        for path in inputs.iter().filter(|path| !path.starts_with(&self.out)) {
            if self.root.is_file(path) {
                files.push(path.clone());
            } else if is_system(path) {
            } else if !self.root.is_dir(path) {
                absent.push(path.clone());
            } else if has_outputs(path) {
                directories_with_outputs.insert(self.root.resolve(path));
            } else {
                directories.insert(path.clone());
            }
        }
        absent.retain(|path| !path.ancestors().any(|above| directories.contains(above)));
        if !absent.is_empty() {
            let links = self.out.join("cuda-build.absent");
            output::link_in_old_directory(&links, &absent)?;
            files.push(links);
        }
        files.extend(self.paths_without_children(&directories_with_outputs)?);
        directives.rerun_if_changed(files.into_iter().chain(directories));
        Ok(())
    }

    /// For each directory, a path to it that is so long that the paths of its files are too long. Cargo reads the time of
    /// the directory, which changes with each new or removed file, and ignores the files, because it cannot read them.
    ///
    /// If Cargo ever shortens such a path, it runs the script in every build. A path leads through a link in `OUT_DIR`,
    /// because Cargo shortens paths below the package.
    fn paths_without_children(&self, directories: &Set<PathBuf>) -> Result<Vec<PathBuf>, Error> {
        if !cfg!(target_os = "linux") || directories.is_empty() {
            return Ok(Vec::new());
        }
        let parents: Vec<PathBuf> = directories
            .iter()
            .map(|directory| directory.parent().unwrap_or(directory).to_owned())
            .collect();
        let links = self.out.join("cuda-build.alone");
        output::link_in_old_directory(&links, &parents)?;
        let paths = directories
            .iter()
            .enumerate()
            .filter_map(|(number, directory)| {
                let link = links.join(number.to_string());
                longest_path(&link, directory.file_name()?.to_owned())
            });
        Ok(paths.collect())
    }
}

/// The path `<directory>/./././<name>`, as long as possible. `None` if it is too long without that.
fn longest_path(directory: &Path, name: OsString) -> Option<PathBuf> {
    let mut path = directory.as_os_str().to_owned();
    let filled = LONGEST_PATH.checked_sub(path.len() + 1 + name.len())?;
    path.push("/.".repeat(filled / 2));
    path.push("/".repeat(1 + filled % 2));
    path.push(name);
    Some(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_filled_up() {
        for directory in ["/a", "/ab"] {
            let path = longest_path(Path::new(directory), "name".into()).unwrap();
            assert_eq!(path.as_os_str().len(), LONGEST_PATH);
            assert_eq!(
                path,
                Path::new(directory).join("name"),
                "the same components"
            );
        }
        assert_eq!(
            longest_path(Path::new(&"/a".repeat(3000)), "name".into()),
            None
        );
    }
}

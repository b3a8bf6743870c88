//! A snapshot of the environment that records which variables were read.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that reads the environment"
)]

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variables of a process. `Env` records each name that is read, so that `rerun-if-env-changed` is printed
/// only for variables that the build used.
///
/// ```
/// use cuda_find_core::env::Env;
/// let env = Env::from_pairs([("CUDA_HOME", "/opt/cuda")]);
/// assert_eq!(env.text("CUDA_HOME").as_deref(), Some("/opt/cuda"));
/// assert_eq!(env.text("CUDA_PATH"), None);
/// assert_eq!(env.names_read(), ["CUDA_HOME", "CUDA_PATH"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Sorted by name.
    variables: Vec<(OsString, OsString)>,
    pub(crate) answers: Answers,
    names_read: RefCell<Vec<String>>,
}

/// Where the answers of programs that a search starts are kept.
#[derive(Clone, Debug, Default)]
pub(crate) enum Answers {
    /// In the user's cache directory, which the variables name.
    #[default]
    InUserCache,
    /// In this directory, or nowhere.
    In(Option<PathBuf>),
}

impl Env {
    /// The variables of this process.
    pub fn from_process() -> Self {
        Self::from_pairs(std::env::vars_os())
    }

    /// An environment with only these variables. If a name occurs twice, the last value is used.
    pub fn from_pairs<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let mut env = Self::default();
        for (name, value) in pairs {
            env.set(name.into(), value.into());
        }
        env
    }

    fn set(&mut self, name: OsString, value: OsString) {
        match self.position(&name) {
            Ok(at) => self.variables[at].1 = value,
            Err(at) => self.variables.insert(at, (name, value)),
        }
    }

    /// Where a variable is, or where it would be.
    fn position(&self, name: &OsStr) -> Result<usize, usize> {
        self.variables
            .binary_search_by(|(known, _)| known.as_os_str().cmp(name))
    }

    /// The same environment with one variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.set(name.into(), value.into());
        self
    }

    /// The same environment, with answers of programs kept in `directory` instead of the user's cache directory; with
    /// `None`, they are kept nowhere.
    #[must_use]
    pub fn with_answers_in(mut self, directory: Option<PathBuf>) -> Self {
        self.answers = Answers::In(directory);
        self
    }

    /// The value of `name`. An empty value counts as unset, as in CMake and in a shell's `${X:-default}`.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.get_or_empty(name).filter(|value| !value.is_empty())
    }

    /// [`Env::get`] without recording the name, for variables that Cargo tracks itself (`OUT_DIR`,
    /// `TARGET` …) and for `PATH`, which often changes without affecting the search.
    pub fn peek(&self, name: &str) -> Option<&OsStr> {
        let position = self.position(OsStr::new(name)).ok()?;
        let value = self.variables[position].1.as_os_str();
        (!value.is_empty()).then_some(value)
    }

    /// [`Env::get`], except that an empty value counts as set.
    pub fn get_or_empty(&self, name: &str) -> Option<&OsStr> {
        let mut names = self.names_read.borrow_mut();
        if let Err(at) = names.binary_search_by(|known| known.as_str().cmp(name)) {
            names.insert(at, name.to_owned());
        }
        let position = self.position(OsStr::new(name)).ok()?;
        Some(&self.variables[position].1)
    }

    /// [`Env::get`] as text; a value that is not Unicode counts as unset.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(OsStr::to_str).map(str::to_owned)
    }

    /// [`Env::get`] as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// All variables, for a child process. The names are not recorded.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let variables = self.variables.iter();
        variables.map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The directories of `PATH`, in order.
    pub fn search_path(&self) -> Vec<PathBuf> {
        // Windows calls it `Path`, and ignores case.
        let path = self.peek("PATH").or_else(|| self.peek("Path"));
        path.map_or_else(Vec::new, |path| std::env::split_paths(path).collect())
    }

    /// The names that were read, sorted.
    pub fn names_read(&self) -> Vec<String> {
        self.names_read.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_unset_and_still_recorded() {
        let env = Env::from_pairs([("CUDA_HOME", "")]);
        assert_eq!(env.get("CUDA_HOME"), None);
        assert_eq!(env.names_read(), ["CUDA_HOME"]);
    }

    #[cfg(unix)]
    #[test]
    fn path_is_never_recorded() {
        let env = Env::from_pairs([("PATH", "/a:/b")]);
        assert_eq!(
            env.search_path(),
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
        assert!(env.names_read().is_empty());
    }
}

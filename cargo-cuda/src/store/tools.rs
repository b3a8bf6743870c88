//! Fetches Python packages with programs that build wheels: maturin.

use std::path::PathBuf;

use cuda_find_core::{env::Env, root::Root, trust::Trust};

use super::add::incomplete;
use super::directory::StoreDirectory;
use super::installer::Installer;
use crate::failure::Result;
use crate::output;

/// A program that a Python package contains, with the packages that it needs.
#[derive(Debug)]
pub struct Tool {
    /// The name of the directory in the store, with the version that `wheel` is tested with.
    name: &'static str,
    requirements: &'static [&'static str],
    /// The file that shows that the directory is complete.
    must_contain: &'static str,
}

pub const MATURIN: Tool = Tool {
    name: "maturin-1.16.0",
    requirements: &["maturin==1.16.0"],
    must_contain: "bin/maturin",
};

impl Tool {
    /// The directory of the tool, if it was fetched earlier. It has the layout of site-packages.
    pub fn fetched(&self, env: &Env) -> Option<PathBuf> {
        let directory = StoreDirectory::open(env, "tools").ok()?.path(self.name);
        let root = Root::system();
        let is_usable = Trust::from_env(env).problem(&root, &directory).is_none()
            && root.is_file(&directory.join(self.must_contain));
        is_usable.then_some(directory)
    }

    /// Fetches the tool with uv or pip into a directory of its own beside the toolkits, unless it is already there.
    /// The user's Python environments are not changed.
    pub fn fetch(&self, env: &Env) -> Result<PathBuf> {
        if let Some(directory) = self.fetched(env) {
            return Ok(directory);
        }
        let store = StoreDirectory::open(env, "tools")?;
        let lock = store.lock()?;
        // Another process may have fetched the tool before this one got the lock.
        if let Some(directory) = self.fetched(env) {
            return Ok(directory);
        }
        let installer = Installer::find(env)?;
        let text = format!("{} with {}", self.name, installer.name());
        output::status("Fetching", &text);
        let requirements: Vec<String> = self.requirements.iter().map(|&r| r.to_owned()).collect();
        let packages = installer.resolve(&requirements, true)?;
        let staging = store.part()?;
        installer.install(&packages, &staging, &lock, None, true)?;
        if !Root::system().is_file(&staging.site().join(self.must_contain)) {
            return Err(incomplete(&format!("`{}` is missing", self.must_contain)));
        }
        store.put(&staging, self.name)?;
        Ok(store.path(self.name))
    }
}

//! A launcher: a program that is started in front of a compiler and keeps the objects that it makes, such as sccache.
//! Its messages are shown as those of the compiler.
//!
//! Only calls of nvcc with `-c` go through a launcher: sccache 0.16 fails for some calls with `-fatbin`.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use cuda_find_core::env::Env;
use cuda_find_core::nvcc::locate;
use cuda_find_core::root::Root;

/// Names the launcher; `none` turns every launcher off.
const VARIABLE: &str = "CUDA_BUILD_LAUNCHER";

/// Cargo's variable for a program in front of rustc. The `cc` crate also takes sccache from it.
const WRAPPER: &str = "RUSTC_WRAPPER";

/// A launcher, and the variable that names it.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(super) program: PathBuf,
    /// `CUDA_BUILD_LAUNCHER` or `RUSTC_WRAPPER`.
    variable: &'static str,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.program.display(), self.variable)
    }
}

/// Whether a program in front of rustc is sccache, which can also be in front of nvcc.
#[must_use]
pub fn is_sccache(program: &OsStr) -> bool {
    Path::new(program).file_stem() == Some(OsStr::new("sccache"))
}

impl Launcher {
    /// The launcher that the variables name.
    ///
    /// # Errors
    /// The reason, in words, if there is no such program.
    pub(crate) fn from_env(env: &Env, root: &Root) -> Result<Option<Self>, String> {
        let (variable, name) = match (env.get_or_empty(VARIABLE), env.peek(WRAPPER)) {
            (Some(name), _) if name.is_empty() || name == "none" => return Ok(None),
            (Some(name), _) => (VARIABLE, name),
            (None, Some(wrapper)) if is_sccache(wrapper) => (WRAPPER, wrapper),
            (None, _) => return Ok(None),
        };
        // It compares the code for one capability, so it returns old objects, and a wrong object is not noticed.
        if Path::new(name).file_stem() == Some(OsStr::new("ccache")) {
            return Err("nvcc is started without ccache, which returns old objects".to_owned());
        }
        let name = Path::new(name);
        let program = locate(root, name, &env.search_path()).ok_or_else(|| {
            let name = name.display();
            format!("nvcc is started without the launcher `{name}` of {variable}: no such program")
        })?;
        Ok(Some(Self { program, variable }))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use super::*;

    #[test]
    fn the_variables_that_name_a_launcher() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_str().unwrap();
        for name in ["ccache", "sccache", "other"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let launcher = "PLACE/other (CUDA_BUILD_LAUNCHER)";
        let wrapper = "PLACE/sccache (RUSTC_WRAPPER)";
        for (variable, rustc_wrapper, expected) in [
            (None, None, ""),
            (Some("other"), None, launcher),
            (Some("PLACE/other"), Some("sccache"), launcher),
            (None, Some("sccache"), wrapper),
            (None, Some("PLACE/sccache"), wrapper),
            (None, Some("other"), ""),
            (Some(""), Some("sccache"), ""),
            (Some("none"), Some("sccache"), ""),
            (Some("absent"), None, "no such program"),
            (Some("/absent/other"), None, "no such program"),
        ] {
            let path = Some(("PATH", format!("/nowhere:{place}")));
            let named = [(VARIABLE, variable), (WRAPPER, rustc_wrapper)];
            let named = (named.into_iter())
                .filter_map(|(name, value)| Some((name, value?.replace("PLACE", place))));
            let env = Env::from_pairs(path.into_iter().chain(named));
            let found = match Launcher::from_env(&env, &Root::system()) {
                Ok(launcher) => launcher.map_or_else(String::new, |found| found.to_string()),
                Err(reason) => reason,
            };
            let found = found.replace(place, "PLACE");
            assert!(
                found.ends_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}

//! A set of components that belong together, ready to compile and link with.

mod file;
mod search;

use std::path::{Path, PathBuf};

use crate::cached_answer::CachedAnswer;
use crate::capability::{self, Capability, Plan};
use crate::command::Invocation;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::probe::Found;
use crate::release;
use crate::root::Root;
use crate::select::{Chosen, Note, Selection, capability_conflicts};
use crate::version::ToolkitVersion;

pub use search::{Outcome, Search};

/// The components that a search chose.
///
/// A toolkit can be written to a file and read back. `cargo cuda` searches once and sets `CUDA_BUILD_TOOLKIT` to
/// the path of such a file, so all build scripts of one run use the same toolkit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    version: ToolkitVersion,
    components: Vec<Chosen>,
    notes: Vec<Note>,
    warnings: Vec<String>,
    /// The directories that the machine's compiler or linker searches by default.
    default_search_dirs: Vec<PathBuf>,
}

impl Toolkit {
    fn new(
        selection: Selection,
        warnings: Vec<String>,
        default_search_dirs: Vec<PathBuf>,
    ) -> Result<Self, Error> {
        let version = selection.release.ok_or_else(|| Error::Format {
            what: "toolkit",
            reason: format!(
                "the CUDA {} release is unknown: neither cuda.h, nvcc nor NVRTC was found",
                selection.major
            ),
            hint: "add one of them to the toolkit, or fetch another with `cargo cuda toolkit add`",
        })?;
        Ok(Self {
            version,
            components: selection.chosen,
            notes: selection.notes,
            warnings,
            default_search_dirs,
        })
    }

    /// Whether the machine's compiler or linker searches `directory` by default.
    #[doc(hidden)]
    pub fn is_default_search_dir(&self, directory: &Path) -> bool {
        let mut known = self.default_search_dirs.iter();
        known.any(|known| known == directory)
    }

    /// The CUDA release.
    pub fn version(&self) -> ToolkitVersion {
        self.version
    }

    /// Every component that was chosen, with its origin.
    pub fn components(&self) -> &[Chosen] {
        &self.components
    }

    /// Whether the components come from more than one step of the search.
    #[doc(hidden)]
    pub fn is_combined(&self) -> bool {
        self.notes.iter().any(Note::is_combined)
    }

    /// What to report about the choice.
    #[doc(hidden)]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Warnings that a build has to print, such as variables that name different places.
    #[doc(hidden)]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A component, if it was chosen.
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.components
            .iter()
            .map(|chosen| &chosen.found)
            .find(|found| found.component == component)
    }

    /// Checks that the products among `used` have code for every capability of the plan. New versions of cuDNN, for
    /// example, have no code for old capabilities.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] that names the product and the capabilities.
    #[doc(hidden)]
    pub fn check_plan(&self, plan: &Plan, used: &[Component]) -> Result<(), Error> {
        let chosen: Vec<Chosen> = self
            .components
            .iter()
            .filter(|c| used.contains(&c.found.component))
            .cloned()
            .collect();
        let conflicts = capability_conflicts(&chosen, plan);
        if conflicts.is_empty() {
            Ok(())
        } else {
            Err(Error::Inconsistent { conflicts })
        }
    }

    /// The capabilities that the toolkit's own `ptxas` lists, for [`capability::Declared::plan`]. The output of `ptxas`
    /// is cached.
    ///
    /// `None` if this crate's tables cover the release, in which case `ptxas` is not started. Also `None` if `ptxas` is
    /// missing or lists nothing.
    #[doc(hidden)]
    pub fn capabilities_of_ptxas(&self, root: &Root, env: &Env) -> Option<Vec<Capability>> {
        if self.version <= release::newest() {
            return None;
        }
        let ptxas = self.tool(Component::Nvcc, "ptxas")?;
        let identity = root.fingerprint(ptxas)?;
        let cached = CachedAnswer::new(env, "ptxas", [ptxas.as_os_str()]);
        if let Some((kept, text)) = cached.read(root)
            && kept == identity
        {
            return Some(capability::observed_from_ptxas_help(&text));
        }
        let help = Invocation::new(ptxas).args(["--help"]).query(env).ok()?;
        let help = help.output();
        let observed = capability::observed_from_ptxas_help(&help);
        if observed.is_empty() {
            return None;
        }
        cached.write(&identity, &help);
        Some(observed)
    }

    /// A program of a chosen component.
    pub fn tool(&self, component: Component, name: &str) -> Option<&Path> {
        self.get(component)?.tool(name).map(PathBuf::as_path)
    }

    /// The directories with the headers of the components, each once. Directories that a compiler searches by
    /// default, such as `/usr/include`, are left out: with `-I`, their headers would hide other headers.
    pub fn include_dirs(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in self.components.iter().flat_map(|c| &c.found.include) {
            if !self.is_default_search_dir(directory) && !directories.contains(directory) {
                directories.push(directory.clone());
            }
        }
        directories
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The capabilities of a toolkit newer than the tables are a list that is kept.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "writes a program")]
    fn ptxas_of_a_newer_toolkit_is_queried_once() {
        let directory = tempfile::tempdir().unwrap();
        let (ptxas, log) = (directory.path().join("ptxas"), directory.path().join("log"));
        // Written by another process: a file that this one has open for writing cannot be started.
        let install = |listed: &str| {
            let script = format!(
                "#!/bin/sh\necho x >> '{}'\necho \"{listed}\"\n",
                log.display()
            );
            let mut command = Command::new("sh");
            command.args([
                "-c",
                "printf %s \"$1\" > \"$2.new\" && chmod +x \"$2.new\" && mv \"$2.new\" \"$2\"",
                "sh",
            ]);
            assert!(command.arg(script).arg(&ptxas).status().unwrap().success());
        };
        let toolkit = Toolkit {
            version: ToolkitVersion::new(99, 0),
            components: vec![Chosen {
                found: Found {
                    component: Component::Nvcc,
                    major: 99,
                    version: None,
                    release: None,
                    include: Vec::new(),
                    libraries: Vec::new(),
                    archives: Vec::new(),
                    tools: vec![ptxas.clone()],
                    evidence: String::new(),
                },
                origin: String::new(),
            }],
            notes: Vec::new(),
            warnings: Vec::new(),
            default_search_dirs: Vec::new(),
        };
        let env = Env::from_pairs([("PATH", "/usr/bin:/bin")])
            .with("CUDA_BUILD_CACHE_DIR", directory.path());
        let observed = || {
            let list = toolkit.capabilities_of_ptxas(&Root::system(), &env);
            list.map(|list| list.iter().map(|c| c.sm()).collect::<Vec<_>>())
        };
        install("'sm_90', 'sm_130'");
        for _ in 0..2 {
            assert_eq!(observed().unwrap(), ["sm_90", "sm_130"]);
        }
        let starts = || std::fs::read_to_string(&log).unwrap().lines().count();
        assert_eq!(starts(), 1);
        install("'sm_140'");
        assert_eq!(observed().unwrap(), ["sm_140"]);
        // An answer without capabilities is not kept.
        install("usage");
        assert_eq!((observed(), observed(), starts()), (None, None, 4));
    }
}

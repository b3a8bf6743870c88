//! A set of components that belong together, ready to compile and link with.

mod file;
mod search;

use std::path::{Path, PathBuf};

use crate::capability::{self, Capability, Plan};
use crate::command::Invocation;
use crate::component::Component;
use crate::error::Error;
use crate::probe::Found;
use crate::release;
use crate::select::{Chosen, Note, Selection, capability_conflicts};
use crate::version::ToolkitVersion;

pub use search::{Outcome, Search};

/// What a search chose.
///
/// It can be written to a file and read back, so that `cargo cuda` searches once and every build script under it uses
/// the same answer (`CUDA_BUILD_TOOLKIT=<file>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    version: ToolkitVersion,
    components: Vec<Chosen>,
    notes: Vec<Note>,
    warnings: Vec<String>,
    /// The directories that the machine's compiler and linker search by default.
    default_search_dirs: Vec<PathBuf>,
}

impl Toolkit {
    fn new(
        selection: Selection,
        warnings: Vec<String>,
        default_search_dirs: Vec<PathBuf>,
    ) -> Result<Self, Error> {
        let version = selection.toolkit.ok_or_else(|| Error::Format {
            what: "toolkit",
            reason: format!(
                "nothing shows which CUDA {} release it is: no cuda.h, no nvcc, no NVRTC",
                selection.major
            ),
        })?;
        Ok(Self {
            version,
            components: selection.chosen,
            notes: selection.notes,
            warnings,
            default_search_dirs,
        })
    }

    /// Whether compiler and linker search a directory by default.
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

    /// Whether its components come from more than one step of the search.
    #[doc(hidden)]
    pub fn is_combined(&self) -> bool {
        self.notes.iter().any(Note::is_combined)
    }

    /// What to report about the choice.
    #[doc(hidden)]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What a build has to report: variables that name different places, one sentence each.
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

    /// Checks the plan against the products among `used`: cuDNN has no code for old capabilities.
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

    /// The capabilities that the toolkit's own compiler lists, which is queried only if the toolkit is newer than the
    /// tables. [`capability::Declared::plan`] needs them.
    #[doc(hidden)]
    pub fn observed_capabilities(&self) -> Option<Vec<Capability>> {
        if self.version <= release::newest() {
            return None;
        }
        let ptxas = self.tool(Component::Nvcc, "ptxas")?;
        let help = Invocation::new(ptxas).args(["--help"]).query().ok()?;
        let observed = capability::observed_from_ptxas_help(&help.output());
        (!observed.is_empty()).then_some(observed)
    }

    /// A program of a chosen component.
    pub fn tool(&self, component: Component, name: &str) -> Option<&Path> {
        self.get(component)?.tool(name).map(PathBuf::as_path)
    }

    /// Directories with the headers of chosen components, each once. `/usr/include` is never
    /// among them: a compiler searches it by default, and naming it early hides its own headers.
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

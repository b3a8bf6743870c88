//! A set of components that belong together, ready to compile and link with.

mod file;
mod search;

use std::path::{Path, PathBuf};

use crate::capability::{self, Capability, Plan};
use crate::command::Invocation;
use crate::component::Component;
use crate::error::Error;
use crate::probe::Found;
use crate::select::{Chosen, Selection, capability_conflicts};
use crate::version::ToolkitVersion;

pub use search::{Report, Search};

/// What a search chose.
///
/// It can be written to a file and read back, so that `cargo cuda` searches once and every build
/// script under it uses the same answer (`CUDA_BUILD_TOOLKIT=<file>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    version: ToolkitVersion,
    components: Vec<Chosen>,
    alternative: Option<usize>,
    combined: bool,
    remarks: Vec<String>,
    left_out: Vec<String>,
    warnings: Vec<String>,
    searched_anyway: Vec<PathBuf>,
}

impl Toolkit {
    /// Takes over a selection.
    ///
    /// # Errors
    /// [`Error::Format`] where nothing in it tells the CUDA release.
    pub fn from_selection(selection: Selection) -> Result<Self, Error> {
        let version = selection.toolkit.ok_or_else(|| Error::Format {
            what: "toolkit",
            reason: format!(
                "nothing tells which CUDA {} release it is: no cuda.h, no nvcc, no NVRTC",
                selection.major
            ),
        })?;
        Ok(Self {
            version,
            components: selection.chosen,
            alternative: selection.alternative,
            combined: selection.combined,
            remarks: selection.remarks,
            left_out: selection.left_out,
            warnings: Vec::new(),
            searched_anyway: vec![PathBuf::from("/usr/include")],
        })
    }

    /// The same, on a machine whose compilers search these directories by themselves.
    pub(crate) fn on(mut self, searched_anyway: Vec<PathBuf>) -> Self {
        self.searched_anyway = searched_anyway;
        self
    }

    /// The same, found where variables disagree.
    pub(crate) fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Whether compiler and linker search a directory without being told.
    #[must_use]
    pub fn is_searched_anyway(&self, directory: &Path) -> bool {
        self.searched_anyway.iter().any(|known| known == directory)
    }

    /// The CUDA release.
    #[must_use]
    pub fn version(&self) -> ToolkitVersion {
        self.version
    }

    /// Every component that was chosen, with its origin.
    #[must_use]
    pub fn components(&self) -> &[Chosen] {
        &self.components
    }

    /// Which of the request's alternatives is met.
    #[must_use]
    pub fn alternative(&self) -> Option<usize> {
        self.alternative
    }

    /// Whether its components come from more than one step of the search.
    #[must_use]
    pub fn is_combined(&self) -> bool {
        self.combined
    }

    /// What a reader should know about the choice.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Components that are there and fit nothing, where nobody asked for them: one sentence each,
    /// with the reason.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// What whoever builds with it has to be told: variables that name different places, one sentence
    /// each that names both.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A component, where it was chosen.
    #[must_use]
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.components
            .iter()
            .map(|chosen| &chosen.found)
            .find(|found| found.component == component)
    }

    /// Holds the plan against the products among `used`: cuDNN has no code for old capabilities.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] that names the product and the capabilities.
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

    /// The capabilities that the toolkit's own compiler lists, asked only where it is newer than
    /// the tables: what [`capability::Declared::plan`] wants to know besides the release.
    #[must_use]
    pub fn observed_capabilities(&self) -> Option<Vec<Capability>> {
        if self.version <= capability::newest_known() {
            return None;
        }
        let ptxas = self.tool(Component::Nvcc, "ptxas")?;
        let help = Invocation::new(ptxas).args(["--help"]).query().ok()?;
        let observed = capability::observed_from_ptxas_help(&help.output());
        (!observed.is_empty()).then_some(observed)
    }

    /// A program of a chosen component.
    #[must_use]
    pub fn tool(&self, component: Component, name: &str) -> Option<&Path> {
        self.get(component)?.tool(name).map(PathBuf::as_path)
    }

    /// Directories with the headers of chosen components, each once. `/usr/include` is never
    /// among them: a compiler searches it anyway, and naming it early hides its own headers.
    #[must_use]
    pub fn include_dirs(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in self
            .components
            .iter()
            .flat_map(|chosen| &chosen.found.include)
        {
            if !self.is_searched_anyway(directory) && !directories.contains(directory) {
                directories.push(directory.clone());
            }
        }
        directories
    }
}

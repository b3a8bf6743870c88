//! What a probe reads with: the disk and nvcc.

use std::path::{Path, PathBuf};

use crate::component::{Component, windows};
use crate::error::Error;
use crate::nvcc::NvccAnswer;
use crate::root::Root;
use crate::target::Target;

type Query<'a> = &'a dyn Fn(&Path) -> Result<NvccAnswer, Error>;

/// Reads candidates.
pub(crate) struct Prober<'a> {
    pub(crate) root: &'a Root,
    pub(crate) target: &'a Target,
    /// [`nvcc::query`](crate::nvcc::query) or a substitute; `None` if nvcc must not be started.
    pub(crate) query_nvcc: Option<Query<'a>>,
    /// Whether a root is itself a directory of libraries, and nothing else.
    pub(crate) is_flat: bool,
}

impl Prober<'_> {
    /// `directory/name`, if that is a regular file.
    pub(super) fn file(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        Some(directory.join(name)).filter(|path| self.root.is_file(path))
    }

    /// The library in `directory` that has this name on Linux.
    pub(super) fn library(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        if !self.target.is_windows() {
            return self.file(directory, name);
        }
        // `name` may begin with a directory.
        let path = directory.join(name);
        let names = windows::file_names(path.file_name()?.to_str()?);
        names
            .iter()
            .find_map(|name| self.file(path.parent()?, name))
    }

    /// Whether a component is searched for. The driver's header comes with the runtime. On Windows, no program can be
    /// used, because nothing here sets up Microsoft's compiler for nvcc.
    pub(super) fn searches(&self, component: Component) -> bool {
        let has_programs = !component.facts().tools.is_empty();
        component != Component::Driver && !(has_programs && self.target.is_windows())
    }
}

//! The search as a build script requests it.

use std::path::PathBuf;

use cuda_find_core::component::Component;
use cuda_find_core::error::Error as CoreError;
use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Need, Part, Request, Strength};

use crate::toolkit::{Kind, Toolkit};
use crate::{Error, System};

/// A search for CUDA: what is needed, and where to look.
///
/// ```no_run
/// use cuda_find::{Component, Kind, Search};
/// # fn main() -> Result<(), cuda_find::Error> {
/// let toolkit = Search::new()
///     .need(Component::Cublas)
///     .need_kind("curand", Kind::Headers)
///     .need_optional("cudnn")
///     .release(">=12.2, <14")
///     .find()?;
/// toolkit.print_cargo_directives();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Search {
    system: System,
    places: Vec<PathBuf>,
    runs_nvcc: bool,
    needs: Vec<(Component, Kind, Strength)>,
    request: Request,
    /// What cannot be requested.
    wrong: Option<CoreError>,
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

impl Search {
    /// A search of [`System::current`] that requires nothing: it finds the first toolkit.
    pub fn new() -> Self {
        Self::on(System::current())
    }

    /// The same search of another system.
    pub fn on(system: System) -> Self {
        Self {
            system,
            places: Vec::new(),
            runs_nvcc: true,
            needs: Vec::new(),
            request: Request::default(),
            wrong: None,
        }
    }

    /// Requires a component: `Component::Cublas` or `"cublas"`. That is its shared library, which is linked. For a
    /// component without one, it is the programs (`nvcc`), archives or headers, and nothing is linked. On Windows, it
    /// is the import library, which most of NVIDIA's Python packages lack.
    ///
    /// The driver's libraries (`cuda-driver`, `nvml`) are linked by the stubs that toolkits ship, so the machine that
    /// builds needs no driver. NVIDIA's Python packages have no stubs: then the driver's own library is needed.
    #[must_use]
    pub fn need<C>(self, component: C) -> Self
    where
        C: TryInto<Component>,
        C::Error: ToString,
    {
        self.with(component, None, Strength::Required)
    }

    /// Requires one kind of a component's files. [`Kind::Shared`] and [`Kind::Static`] are linked.
    ///
    /// ```
    /// use cuda_find::{Kind, Search};
    /// // For a crate that opens cuBLAS at run time, and needs its header alone.
    /// let search = Search::new().need_kind("cublas", Kind::Headers);
    /// ```
    #[must_use]
    pub fn need_kind<C>(self, component: C, kind: Kind) -> Self
    where
        C: TryInto<Component>,
        C::Error: ToString,
    {
        self.with(component, Some(kind), Strength::Required)
    }

    /// As [`Search::need`], but the search succeeds without the component.
    #[must_use]
    pub fn need_optional<C>(self, component: C) -> Self
    where
        C: TryInto<Component>,
        C::Error: ToString,
    {
        self.with(component, None, Strength::Optional)
    }

    fn with<C>(mut self, component: C, kind: Option<Kind>, strength: Strength) -> Self
    where
        C: TryInto<Component>,
        C::Error: ToString,
    {
        match component.try_into() {
            Ok(component) => {
                let kind = kind.unwrap_or_else(|| Kind::main(component));
                self.needs.push((component, kind, strength));
                // The driver's library is not part of a toolkit, and its header comes with the runtime.
                let (found, part) = if component.facts().is_driver() {
                    (Component::Cudart, Part::Headers)
                } else {
                    (component, kind.part())
                };
                let need = Need::new(found, part, "needed by this build");
                self.request.needs.push(need.with(strength));
            }
            Err(reason) => self.refuse(reason.to_string(), "correct the name of the component"),
        }
        self
    }

    /// The accepted CUDA releases, as Cargo writes requirements: `>=12.2, <14`.
    #[must_use]
    pub fn release(mut self, requirement: &str) -> Self {
        match requirement.parse() {
            Ok(accepted) => self.request.toolkit = accepted,
            Err(error) => self.refuse(
                format!("`{requirement}` is not a version requirement: {error}"),
                "write for example `>=12.2, <14`",
            ),
        }
        self
    }

    /// Searches this place, and no other but those of further calls: a root, a virtual environment or site-packages.
    /// As for a place that a variable such as `CUDA_HOME` names, it is an error if CUDA is not there.
    #[must_use]
    pub fn place(mut self, path: impl Into<PathBuf>) -> Self {
        self.places.push(path.into());
        self
    }

    /// Starts no process. Versions are then read from files; nvcc's is the release of the toolkit, without its last
    /// number, and an nvcc that is a script for a toolkit elsewhere is not followed.
    #[must_use]
    pub fn without_running_nvcc(mut self) -> Self {
        self.runs_nvcc = false;
        self
    }

    fn refuse(&mut self, reason: String, hint: &str) {
        self.wrong.get_or_insert(CoreError::usage(reason, hint));
    }

    /// Searches. Places after the first step of the search that has everything are not read.
    ///
    /// # Errors
    /// [`Error::kind`] says which: something is missing, does not belong together, or is in a place that a variable
    /// names wrongly. The message lists what was tried.
    pub fn find(self) -> Result<Toolkit, Error> {
        if let Some(wrong) = self.wrong {
            return Err(Error(wrong));
        }
        let target = self.system.target()?;
        let System {
            env, root, cache, ..
        } = self.system;
        let env = env.with_answers_in(cache);
        let context = SearchContext {
            places: self.places,
            runs_nvcc: self.runs_nvcc,
            ..SearchContext::new(&root, &env, &target)
        };
        let toolkit = context.find(&self.request.linked_for(&target))?;
        Toolkit::new(toolkit, &self.needs, &root, &env, &target, self.runs_nvcc)
    }
}

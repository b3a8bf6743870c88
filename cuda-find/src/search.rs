//! The search as a build script requests it.

use std::path::PathBuf;

use cuda_find_core::component::Component;
use cuda_find_core::error::Error as CoreError;
use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Need, Part, Request, Strength};

use crate::toolkit::{Kind, Toolkit};
use crate::{Error, System};

/// The component, or an error that lists the known ones.
pub(crate) fn named(
    component: impl TryInto<Component, Error: ToString>,
) -> Result<Component, CoreError> {
    let hint = "correct the name of the component";
    let component = component.try_into();
    component.map_err(|reason| CoreError::usage(reason.to_string(), hint))
}

/// What was requested, for the directives.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) component: Component,
    pub(crate) kind: Kind,
    pub(crate) strength: Strength,
    /// The library to link, if it is not the main one.
    pub(crate) library: Option<&'static str>,
}

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
    needs: Vec<Wanted>,
    links: bool,
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

    /// As [`Search::new`], but reads this system.
    pub fn on(system: System) -> Self {
        Self {
            system,
            places: Vec::new(),
            runs_nvcc: true,
            needs: Vec::new(),
            links: true,
            request: Request::default(),
            wrong: None,
        }
    }

    /// Requires a component: `Component::Cublas` or `"cublas"`. Its shared library is found and linked. For a component
    /// without shared libraries, programs (`nvcc`), archives or headers are found, and nothing is linked. On Windows,
    /// the import library is linked, which most of NVIDIA's Python packages lack.
    ///
    /// The names are those of [`Component`] in lower case, but for `cuda-driver`, which is [`Component::Driver`]. An
    /// unknown name is an error of [`Search::find`], which lists the known ones.
    ///
    /// The driver's libraries (`cuda-driver`, `nvml`) are linked by the stubs that toolkits ship, so the machine that
    /// builds needs no driver. NVIDIA's Python packages have no stubs: then the driver's own library is needed.
    ///
    /// ```
    /// let search = cuda_find::Search::new().need("cublas").need(cuda_find::Component::Driver);
    /// ```
    #[must_use]
    pub fn need(self, component: impl TryInto<Component, Error: ToString>) -> Self {
        self.with(component, None, Strength::Required, None)
    }

    /// Requires one kind of a component's files. [`Kind::Shared`] and [`Kind::Static`] are linked; of the driver's
    /// libraries, [`Kind::Stub`] is.
    ///
    /// ```
    /// use cuda_find::{Kind, Search};
    /// // For a crate that opens cuBLAS at run time, and needs its header alone.
    /// let search = Search::new().need_kind("cublas", Kind::Headers);
    /// ```
    #[must_use]
    pub fn need_kind(
        self,
        component: impl TryInto<Component, Error: ToString>,
        kind: Kind,
    ) -> Self {
        self.with(component, Some(kind), Strength::Required, None)
    }

    /// As [`Search::need`], but the search succeeds without the component. It is there if [`Toolkit::component`] is
    /// `Ok`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_find::Error> {
    /// let toolkit = cuda_find::Search::new().need("cudart").need_optional("cudnn").find()?;
    /// if let Ok(cudnn) = toolkit.component("cudnn") {
    ///     println!("cuDNN {:?}", cudnn.version());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn need_optional(self, component: impl TryInto<Component, Error: ToString>) -> Self {
        self.with(component, None, Strength::Optional, None)
    }

    /// Requires the component that has this shared library, and links the library: `cublasLt`, `cusolverMg`.
    ///
    /// ```
    /// // libcublas.so and libcublasLt.so
    /// let search = cuda_find::Search::new().need("cublas").need_library("cublasLt");
    /// ```
    #[must_use]
    pub fn need_library(mut self, name: &str) -> Self {
        let Some((component, index)) = Component::of_library(name) else {
            let reason = format!("no CUDA component has a library `lib{name}.so`");
            self.refuse(reason, "correct the name of the library");
            return self;
        };
        let library = component.facts().libraries[index];
        self.with(
            component,
            Some(Kind::Shared),
            Strength::Required,
            Some(library),
        )
    }

    /// No `rustc-link-…` lines: for a helper whose caller links by itself.
    ///
    /// ```
    /// let search = cuda_find::Search::new().need("cudart").without_linking();
    /// ```
    #[must_use]
    pub fn without_linking(mut self) -> Self {
        self.links = false;
        self
    }

    fn with(
        mut self,
        component: impl TryInto<Component, Error: ToString>,
        kind: Option<Kind>,
        strength: Strength,
        library: Option<&'static str>,
    ) -> Self {
        let component = match named(component) {
            Ok(component) => component,
            Err(wrong) => {
                self.wrong.get_or_insert(wrong);
                return self;
            }
        };
        let kind = kind.unwrap_or_else(|| Kind::main(component));
        self.needs.push(Wanted {
            component,
            kind,
            strength,
            library,
        });
        // The driver's library is not part of a toolkit, and its header comes with the runtime.
        let (found, part) = if component.facts().is_driver() {
            (Component::Cudart, Part::Headers)
        } else {
            (component, kind.part())
        };
        let mut need = |component: Component, part: Part, strength: Strength| {
            let need = Need::new(component, part, "needed by this build");
            self.request.needs.push(need.with(strength));
        };
        need(found, part, strength);
        // Headers of CUDA include those of the runtime and the compiler, and archives need culibos.
        if kind == Kind::Headers {
            for component in [Component::Cudart, Component::Crt] {
                need(component, Part::Headers, Strength::Extra);
            }
        } else if kind == Kind::Static {
            need(Component::Culibos, Part::Archive, Strength::Extra);
        }
        self
    }

    /// The accepted CUDA releases (12.4), as Cargo writes requirements: `>=12.2, <14`; `12.2` alone is `>=12.2, <13`. A
    /// second call replaces the first. A text that is no requirement is an error of [`Search::find`].
    ///
    /// ```
    /// let search = cuda_find::Search::new().need("cudart").release(">=12.2, <14");
    /// ```
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

    /// Searches this place, then places that variables such as `CUDA_HOME` name, and no default locations. The place is
    /// a root, a virtual environment or site-packages. If it has no CUDA, the search fails. Products such as cuDNN may
    /// still come from elsewhere.
    ///
    /// ```
    /// let search = cuda_find::Search::new().need("cudart").place("/opt/cuda-13.4");
    /// ```
    #[must_use]
    pub fn place(mut self, path: impl Into<PathBuf>) -> Self {
        self.places.push(path.into());
        self
    }

    /// Starts no process. Versions are then read from files; the version of nvcc is known only if its package shows it.
    /// If nvcc is a script that starts the nvcc of another toolkit, that toolkit is not found.
    ///
    /// ```
    /// let search = cuda_find::Search::new().need("nvcc").without_running_nvcc();
    /// ```
    #[must_use]
    pub fn without_running_nvcc(mut self) -> Self {
        self.runs_nvcc = false;
        self
    }

    fn refuse(&mut self, reason: String, hint: &str) {
        self.wrong.get_or_insert(CoreError::usage(reason, hint));
    }

    /// Searches. It stops at the first place that has everything.
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
        Toolkit::new(toolkit, &self.needs, &context, self.links)
    }
}

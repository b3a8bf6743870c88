//! The search as a build script asks for it.

use std::env::consts::{ARCH, OS};
use std::path::PathBuf;

use cuda_find_core::component::Component;
use cuda_find_core::directive::{Directive, Directives};
use cuda_find_core::env::Env;
use cuda_find_core::error::Error;
use cuda_find_core::link::{self, Cudart};
use cuda_find_core::root::Root;
use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Need, Part, Request, Strength};
use cuda_find_core::sources::lock_file;
use cuda_find_core::target::Target;
use cuda_find_core::toolkit::Toolkit;

/// A search for CUDA, with the variables and the disk of this process.
///
/// In a build script, the platform is that of `TARGET`; otherwise that of this machine.
#[derive(Debug)]
pub struct Search {
    env: Env,
    places: Vec<PathBuf>,
    /// What to link.
    components: Vec<Component>,
    request: Request,
    /// What cannot be requested.
    wrong: Option<Error>,
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

impl Search {
    /// A search that requires nothing: it finds the first toolkit.
    pub fn new() -> Self {
        Self {
            env: Env::from_process(),
            places: Vec::new(),
            components: Vec::new(),
            request: Request::default(),
            wrong: None,
        }
    }

    /// Requires a component, such as `cublas`: its shared library, or what else it consists of. On Windows, its import
    /// library, which most of NVIDIA's Python packages lack.
    #[must_use]
    pub fn need(self, component: &str) -> Self {
        self.with(component, Strength::Required)
    }

    /// Takes a component if it is found.
    #[must_use]
    pub fn need_optional(self, component: &str) -> Self {
        self.with(component, Strength::Optional)
    }

    fn with(mut self, component: &str, strength: Strength) -> Self {
        match component.parse::<Component>() {
            Ok(component) => {
                self.components.push(component);
                // The driver's library comes with the driver, and its header with the runtime.
                let (found, part) = if component.facts().is_driver() {
                    (Component::Cudart, Part::Headers)
                } else {
                    (component, Part::main(component))
                };
                let need = Need::new(found, part, "needed by this build");
                self.request.needs.push(need.with(strength));
            }
            Err(reason) => self.refuse(reason, "correct the name of the component"),
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

    /// Adds a place, which comes before every other: a root, a virtual environment or site-packages.
    #[must_use]
    pub fn place(mut self, path: impl Into<PathBuf>) -> Self {
        self.places.push(path.into());
        self
    }

    fn refuse(&mut self, reason: String, hint: &str) {
        self.wrong.get_or_insert(Error::usage(reason, hint));
    }

    /// Searches. Places after the first step of the search that has everything are not read.
    ///
    /// # Errors
    /// [`Error::NotFound`] lists what was tried. A place that a variable names may be wrong, which is an error of its
    /// own. [`Error::Usage`] for an unknown component, or if Cargo would misread a path.
    pub fn find(self) -> Result<Toolkit, Error> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let (root, env) = (Root::system(), &self.env);
        let triple = |name: &str| {
            env.peek(name)
                .map(|value| value.to_string_lossy().into_owned())
        };
        let here = || format!("{ARCH}-unknown-{OS}");
        let mut target = Target::from_triple(&triple("TARGET").unwrap_or_else(here))?;
        if let Some(host) = triple("HOST") {
            target = target.built_on(&host);
        }
        let context = SearchContext {
            root: &root,
            env,
            target: &target,
            places: self.places,
        };
        let mut toolkit = context.find(&self.request.linked_for(&target))?;
        let mut directives = Directives::default();
        link::directives(
            &toolkit,
            &self.components,
            Cudart::Shared,
            None,
            &mut directives,
        );
        for name in env.names_read() {
            directives.push(Directive::RerunIfEnvChanged(name));
        }
        let lock = lock_file(&root, env).filter(|file| root.exists(file));
        let components = toolkit.components().iter();
        let files = components.flat_map(|found| found.files_to_watch(&root));
        directives.rerun_if_changed(files.chain(lock));
        toolkit.cargo_directives = directives.to_lines()?;
        Ok(toolkit)
    }
}

#[cfg(unix)]
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn root(at: &Path) {
        for (file, text) in [
            ("include/cuda.h", "#define CUDA_VERSION 12040\n"),
            ("include/cuda_runtime.h", ""),
            ("include/cublas_v2.h", ""),
            ("lib64/libcudart.so.12", ""),
            ("lib64/libcublas.so.12", ""),
            ("lib64/libcublasLt.so.12", ""),
        ] {
            let path = at.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_build_script_gets_components_and_lines_for_cargo() {
        let directory = tempfile::tempdir().unwrap();
        root(directory.path());
        let search = || Search {
            env: Env::from_pairs([("CUDA_HOME", directory.path())]),
            ..Search::new()
        };
        let toolkit = search()
            .need("cublas")
            .need_optional("cudnn")
            .release(">=12, <14")
            .find()
            .unwrap();
        let cublas = toolkit.component("cublas").unwrap();
        assert_eq!(cublas.to_string(), "cublas for CUDA 12");
        assert!(
            cublas
                .origin
                .starts_with("environment variable `CUDA_HOME`")
        );
        assert!(toolkit.component("cudnn").is_err());
        let lines = toolkit.cargo_directives().join("\n");
        let library = directory.path().join("lib64");
        for line in [
            format!("rustc-link-search=native={}", library.display()),
            "rustc-link-lib=dylib:+verbatim=libcublas.so.12".to_owned(),
            format!("rerun-if-changed={}/libcublas.so.12", library.display()),
            // Variables that are set, and those that were looked for in vain.
            "rerun-if-env-changed=CUDA_HOME".to_owned(),
            "rerun-if-env-changed=CUDA_BUILD_ROOTS".to_owned(),
        ] {
            assert!(lines.contains(&line), "no {line} in\n{lines}");
        }
        for (search, expected) in [
            (search().need("cublass"), "known: cudart, cuda-driver"),
            (
                search().release("new"),
                "`new` is not a version requirement",
            ),
            (search().need("cudart").release(">=13"), "has CUDA 12.4"),
        ] {
            let error = search.find().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

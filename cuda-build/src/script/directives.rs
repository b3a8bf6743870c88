//! The directives that a build prints for Cargo.

use std::path::{Path, PathBuf};

use super::Build;
use crate::error::Error;
use cuda_find_core::directive::{Directive, Directives};
use cuda_find_core::link::Cudart;
use cuda_find_core::toolkit::{Note, Toolkit};
use cuda_find_core::{capability::Plan, component::Component, link, output, sources};

impl Build {
    /// The components to link: those that the manifest declares, and cudart if a library is compiled.
    pub(super) fn linked(&self, toolkit: &Toolkit) -> Vec<Component> {
        let declared = self.config.for_major(toolkit.version().major).components;
        let mut linked: Vec<Component> = declared.iter().map(|wanted| wanted.component).collect();
        if !self.code.libraries.is_empty() && !linked.contains(&Component::Cudart) {
            linked.push(Component::Cudart);
        }
        linked
    }

    /// The directory of stubs, if a library of the driver is declared. The build links with stubs, because the build
    /// machine may have no driver, or a driver without the names for linking (`libcuda.so`).
    pub(super) fn stubs(&self, toolkit: &Toolkit) -> Result<Option<PathBuf>, Error> {
        let linked = self.linked(toolkit);
        let has_driver = linked.iter().any(|component| component.facts().is_driver());
        // On Windows, the runtime's package has an import library of the driver.
        if has_driver && !self.target()?.is_windows() {
            return self.view().map(|view| Some(view.stubs()));
        }
        Ok(None)
    }

    /// Passes the view to the build scripts of the crate's dependents (`DEP_<links>_…`).
    pub(super) fn report_view(
        &self,
        toolkit: &Toolkit,
        plan: Option<&Plan>,
        directives: &mut Directives,
    ) -> Result<(), Error> {
        if self.env.peek("CARGO_MANIFEST_LINKS").is_none() {
            return Ok(());
        }
        let view = self.view()?;
        let cccl = view.include().join("cccl");
        let cccl = self.root.is_dir(&cccl).then_some(cccl);
        let include = std::env::join_paths(std::iter::once(view.include()).chain(cccl));
        if include.is_err() {
            directives.push(Directive::Warning(format!(
                "`DEP_<links>_INCLUDE` is not set: the path of the view, {}, contains `:`, which separates paths",
                view.root().display()
            )));
        }
        let declared = self.config.for_major(toolkit.version().major).capabilities;
        let declared = declared.map(|items| items.join(", "));
        let capabilities = plan.map(ToString::to_string).or(declared);
        for (key, value) in [
            ("root", Some(view.root().into())),
            ("version", Some(toolkit.version().to_string().into())),
            ("include", include.ok()),
            ("lib", Some(view.lib().into())),
            ("capabilities", capabilities.map(Into::into)),
        ] {
            if let Some(value) = value {
                directives.push(Directive::Metadata { key, value });
            }
        }
        Ok(())
    }

    /// Adds the directives that link the compiled libraries and the components, the `cfg` of each optional component
    /// that was found, and the warnings about the toolkit.
    pub(super) fn link(
        &self,
        toolkit: &Toolkit,
        stubs: Option<&Path>,
        directives: &mut Directives,
    ) {
        for library in &self.code.libraries {
            directives.push(Directive::LinkSearch(self.out.clone()));
            directives.link("static", library.name());
            if library.has_device_link() {
                link::link_device_runtime(toolkit, directives);
            }
        }
        self.declare_optional_components(directives);
        let declared = self.config.for_major(toolkit.version().major).components;
        for wanted in declared.iter().filter(|wanted| wanted.optional) {
            if toolkit.get(wanted.component).is_some() {
                directives.push(Directive::Cfg(cfg_of(wanted.component)));
            }
        }
        let linked = self.linked(toolkit);
        link::directives(toolkit, &linked, self.config.cudart, stubs, directives);
        link::add_nixos_driver_rpath(&self.root, self.config.cdylib, directives);
        for warning in toolkit.warnings() {
            directives.push(Directive::Warning(warning.clone()));
        }
        for note in toolkit.notes() {
            if matches!(note, Note::Combined { .. } | Note::LockNotFetched { .. }) {
                directives.push(Directive::Warning(note.to_string()));
            }
        }
    }

    /// Lets plain `cargo run` and `cargo test` start programs that link shared libraries: Cargo puts the directories
    /// below its target directory in which a script has libraries on the loader path. So links to the libraries of
    /// the toolkit, none of which is a stub, are put into `OUT_DIR`.
    pub(super) fn add_to_loader_path(
        &self,
        toolkit: &Toolkit,
        directives: &mut Directives,
    ) -> Result<(), Error> {
        let linked = self.linked(toolkit);
        let is_shared = |component: Component| {
            let is_static = component == Component::Cudart && self.config.cudart == Cudart::Static;
            !is_static && !component.facts().is_driver()
        };
        let is_elsewhere = |path: &&PathBuf| {
            let directory = path.parent();
            directory.is_some_and(|directory| !toolkit.is_default_search_dir(directory))
        };
        let shared = toolkit
            .components()
            .iter()
            .filter(|it| is_shared(it.component));
        let mut used = shared.clone().filter(|it| linked.contains(&it.component));
        let target = self.target()?;
        let needs_links = used.any(|it| it.libraries.iter().any(|path| is_elsewhere(&path)));
        if needs_links && target.is_native() && !target.is_windows() {
            let libraries = shared.flat_map(|it| &it.libraries).filter(is_elsewhere);
            let directory = self.out.join("cuda-build.libraries");
            output::link_files(&directory, &Vec::from_iter(libraries.cloned()))?;
            directives.push(Directive::LinkSearch(directory));
        }
        Ok(())
    }

    /// Declares the `cfg` of every optional component, also of components for another CUDA major, because the crate's
    /// source names all of them.
    pub(super) fn declare_optional_components(&self, directives: &mut Directives) {
        for component in self.config.optional_components() {
            directives.push(Directive::CheckCfg(cfg_of(component)));
        }
    }

    /// The manifests that the configuration was read from.
    pub(super) fn manifests(&self) -> Vec<PathBuf> {
        let mut manifests = vec![self.package.join("Cargo.toml")];
        manifests.extend(self.config.workspace.clone());
        manifests
    }

    /// Declares the variables that were read.
    pub(super) fn declare_variables(&self, directives: &mut Directives) {
        for name in self.env.names_read() {
            directives.push(Directive::RerunIfEnvChanged(name));
        }
    }

    /// If there is no lock file yet, declares a directory that contains only a link to the lock file's path. The path
    /// itself is not declared, because Cargo runs the script at every call if a declared path does not exist. For
    /// Cargo, the directory has changed as soon as the link is no longer broken.
    pub(super) fn watch_for_lock(&self, directives: &mut Directives) -> Result<(), Error> {
        let lock = sources::lock_file(&self.root, &self.env);
        // `cargo cuda`, which writes it, does not run on Windows.
        let lock = lock.filter(|_| self.target().is_ok_and(|target| !target.is_windows()));
        if let Some(absent) = lock.filter(|file| !self.root.exists(file)) {
            let directory = self.out.join("cuda-build.lock");
            output::link_in_old_directory(&directory, &[absent])?;
            directives.rerun_if_changed([directory]);
        }
        Ok(())
    }

    /// Declares the files and variables on which the choice of the toolkit and its use depend.
    pub(super) fn watch(&self, toolkit: &Toolkit, directives: &mut Directives) {
        let mut watched = self.manifests();
        for found in toolkit.components() {
            watched.extend(found.files_to_watch(&self.root));
        }
        watched.extend(self.env.path("CUDA_BUILD_TOOLKIT"));
        match sources::lock_file(&self.root, &self.env) {
            Some(lock) if self.root.exists(&lock) => watched.push(lock),
            // `cargo cuda fetch` creates the file, so this is not an error.
            Some(lock) if self.env.peek(sources::LOCK_VARIABLE).is_some() => {
                directives.push(Directive::Warning(format!(
                    "no toolkit is locked: `{}` names {}, which does not exist",
                    sources::LOCK_VARIABLE,
                    lock.display()
                )));
            }
            _ => {}
        }
        // Dependents cannot be built without the view. A file of the view is declared, so that this script runs and
        // writes the view again if it was removed.
        watched.extend(self.view.get().map(crate::view::View::watched_file));
        directives.rerun_if_changed(watched);
        self.declare_variables(directives);
    }
}

/// The `cfg` that is set if an optional component was found.
fn cfg_of(component: Component) -> String {
    format!("cuda_have_{}", component.id().replace('-', "_"))
}

//! The compiling part of a build: the host compiler, the view to call nvcc in, and the steps.

use std::collections::BTreeMap;
use std::path::Path;

use super::Build;
use crate::capability::Plan;
use crate::compile::identity::{self, Variables};
use crate::compile::{Compiled, Engine, Module, Places, Runner, Settings};
use crate::component::Component;
use crate::directive::{Directive, Directives};
use crate::error::Error;
use crate::host_compiler::{self, HostCompiler};
use crate::nvcc;
use crate::toolkit::Toolkit;
use crate::view::{View, ViewPlace};

/// The compilers of all files.
struct Compilers {
    /// `None` if nvcc compiles nothing.
    host: Option<HostCompiler>,
    /// `None` if nvcc is called where it is installed.
    view: Option<View>,
}

impl Build {
    fn compilers(&self, toolkit: &Toolkit) -> Result<Compilers, Error> {
        let host = self.host_compiler(toolkit)?;
        let view = if host.is_some() {
            self.compiler_view(toolkit)?
        } else {
            None
        };
        Ok(Compilers { host, view })
    }

    /// A view to call nvcc in, where it would not find cicc by itself: in redist archives, and in
    /// other splits of a directory per component.
    fn compiler_view(&self, toolkit: &Toolkit) -> Result<Option<View>, Error> {
        let (Some(program), Some(cicc)) = (
            toolkit.tool(Component::Nvcc, "nvcc"),
            toolkit.tool(Component::Nvvm, "cicc"),
        ) else {
            return Ok(None);
        };
        let resolve = |path: &Path| self.root.resolve(path);
        let own_root = program.parent().and_then(Path::parent);
        if own_root.is_some_and(|root| cicc.starts_with(root)) {
            return Ok(None);
        }
        let known = nvcc::query(&self.root, &self.env, program)?.programs;
        let place = cicc.parent().map(resolve);
        if known
            .iter()
            .any(|directory| Some(resolve(directory)) == place)
        {
            return Ok(None);
        }
        toolkit
            .view(&ViewPlace::from_env(&self.env, &self.target)?, &self.root)
            .map(Some)
    }

    /// The compiler of host code; `None` if nvcc compiles nothing.
    ///
    /// # Errors
    /// As [`host_compiler::choose`].
    pub fn host_compiler(&self, toolkit: &Toolkit) -> Result<Option<HostCompiler>, Error> {
        let by_nvcc = |module: &Module| module.engine_for(toolkit) == Engine::Nvcc;
        if self.libraries.is_empty() && !self.modules.iter().any(by_nvcc) {
            return Ok(None);
        }
        host_compiler::choose(&self.env, &self.root, toolkit).map(Some)
    }

    /// Compiles everything that is not up to date.
    ///
    /// # Errors
    /// As [`Build::run`].
    #[doc(hidden)]
    pub fn compile(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        directives: &mut Directives,
    ) -> Result<Compiled, Error> {
        self.check_names()?;
        let compilers = self.compilers(toolkit)?;
        let mut runner = Runner::new(&self.out);
        let host_identity = compilers.host.as_ref().map(HostCompiler::identity);
        if let Some(host) = &compilers.host {
            directives.push(Directive::Remark(format!(
                "host compiler {}",
                host.compiler
            )));
            host.warnings
                .iter()
                .for_each(|warning| directives.push(Directive::Warning(warning.clone())));
        }
        if let Some(view) = &compilers.view {
            directives.push(Directive::Remark(format!(
                "nvcc is called in {}",
                view.root().display()
            )));
        }
        let toolkit_identity = identity::of_toolkit(runner.files(), toolkit);
        let working = std::env::current_dir().unwrap_or_default();
        let places = Places {
            package: &self.package,
            out: &self.out,
            working: &working,
        };
        let settings = Settings {
            toolkit: &toolkit_identity,
            nvcc: &Variables::of_nvcc(&self.env),
            nvrtc: &Variables::of_nvrtc(&self.env),
            host: compilers.host.as_ref().zip(host_identity.as_deref()),
            view: compilers.view.as_ref(),
        };
        let mut steps = Vec::new();
        for module in &self.modules {
            steps.extend(module.steps(toolkit, plan, places, settings)?);
        }
        for library in &self.libraries {
            steps.extend(library.steps(toolkit, plan, places, settings)?);
        }
        runner.run(&steps)
    }

    /// Two modules of one name would be one file and one constant.
    fn check_names(&self) -> Result<(), Error> {
        let mut sources = BTreeMap::new();
        for module in &self.modules {
            if let Some(earlier) = sources.insert(module.constant(), module.source()) {
                return Err(Error::DuplicateModule {
                    constant: module.constant(),
                    sources: [earlier.clone(), module.source().clone()],
                });
            }
        }
        Ok(())
    }
}

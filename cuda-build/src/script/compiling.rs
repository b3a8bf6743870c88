//! The compiling part of a build: host compiler, the place to call nvcc in, steps, running them.

use std::path::Path;

use super::Build;
use crate::capability::Plan;
use crate::compile::{Compiled, Engine, Module, NvccSettings, Places, Runner, Step};
use crate::component::Component;
use crate::directive::{Directive, Directives};
use crate::error::Error;
use crate::host_compiler::{self, HostCompiler};
use crate::probe::NvccAnswer;
use crate::toolkit::{Toolkit, ask_nvcc};
use crate::view::{View, ViewPlace};

/// What compiles: settled once for all files.
struct Compilers {
    /// `None` where nvcc compiles nothing.
    host: Option<HostCompiler>,
    /// `None` where nvcc is called where it lies.
    view: Option<View>,
}

impl Build {
    /// The steps that compile everything, in order.
    ///
    /// # Errors
    /// [`Error::Capability`] where a module's format does not fit the plan.
    pub fn steps(&self, toolkit: &Toolkit, plan: &Plan) -> Result<Vec<Step>, Error> {
        self.steps_with(toolkit, plan, &self.compilers(toolkit)?)
    }

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
        let (Some(nvcc), Some(cicc)) = (
            toolkit.tool(Component::Nvcc, "nvcc"),
            toolkit.tool(Component::Nvvm, "cicc"),
        ) else {
            return Ok(None);
        };
        let resolve = |path: &Path| self.root.resolve(path);
        let own_root = nvcc.parent().and_then(Path::parent);
        if own_root.is_some_and(|root| cicc.starts_with(root)) {
            return Ok(None);
        }
        let answer =
            ask_nvcc(&self.root, &self.env, nvcc).and_then(|text| NvccAnswer::parse(&text));
        let known = answer.map(|answer| answer.programs).unwrap_or_default();
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

    /// What compiles host code; `None` where nvcc compiles nothing.
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

    fn steps_with(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        compilers: &Compilers,
    ) -> Result<Vec<Step>, Error> {
        let places = Places {
            package: &self.package,
            out: &self.out,
        };
        // nvcc reads these itself; they change what it makes.
        let variables: Vec<String> = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"]
            .into_iter()
            .filter_map(|name| self.env.text(name).map(|value| format!("{name}={value}")))
            .collect();
        let nvcc = NvccSettings {
            variables: &variables,
            host: compilers.host.as_ref(),
            view: compilers.view.as_ref(),
        };
        let mut steps = Vec::new();
        for module in &self.modules {
            steps.push(module.step(toolkit, plan, places, nvcc)?);
        }
        for library in &self.libraries {
            steps.extend(library.steps(toolkit, plan, places, nvcc)?);
        }
        Ok(steps)
    }

    /// Compiles everything that is not up to date.
    pub(super) fn compile(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        directives: &mut Directives,
    ) -> Result<Compiled, Error> {
        let compilers = self.compilers(toolkit)?;
        if let Some(host) = &compilers.host {
            directives.push(Directive::Remark(host.identity()));
            host.warnings
                .iter()
                .for_each(|warning| directives.push(Directive::Warning(warning.clone())));
        }
        let mut toolkit_dirs = toolkit.include_dirs();
        if let Some(view) = &compilers.view {
            directives.push(Directive::Remark(format!(
                "nvcc is called in {}",
                view.root().display()
            )));
            toolkit_dirs.push(view.root().to_owned());
        }
        let mut runner = Runner::new(&self.root, toolkit_dirs);
        for step in self.steps_with(toolkit, plan, &compilers)? {
            runner.run(&step)?;
        }
        Ok(runner.finish())
    }
}

//! nvcc, as the steps of a build call it.

use std::path::{Path, PathBuf};

use super::identity::{CompilerIdentities, Variables};
use super::step::{Form, Image, ReadFiles, Settings, Step, StepCommand, reading_of_nvcc};
use crate::error::Error;
use crate::host_compiler::{Compiler, Family};
use crate::view::View;
use cuda_find_core::{command::Invocation, component::Component, found::Found};
use cuda_find_core::{select::missing_in_toolkit, toolkit::Toolkit};

/// nvcc with what all its calls share.
pub(super) struct Nvcc<'a> {
    /// With the options of all calls. It runs in the package.
    pub(super) shared: Invocation,
    pub(super) directory: &'a Path,
    pub(super) compilers: &'a CompilerIdentities,
    pub(super) variables: &'a Variables,
    /// What compiles host code.
    pub(super) host: Option<&'a Compiler>,
    /// The directories with the toolkit's headers.
    pub(super) toolkit_includes: Vec<PathBuf>,
    /// `nvcc` with its version.
    pub(super) tool: String,
}

/// `nvcc` with its version.
pub(super) fn shown_nvcc(toolkit: &Toolkit) -> String {
    let version = toolkit.get(Component::Nvcc).map(Found::shown_version);
    format!("nvcc {}", version.unwrap_or_default())
}

impl<'a> Nvcc<'a> {
    /// nvcc for the part with this name.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::NotFound`] if the toolkit has no nvcc.
    pub(super) fn new(part: &str, settings: &Settings<'a>) -> Result<Self, Error> {
        let toolkit = settings.toolkit;
        let nvcc = toolkit
            .tool(Component::Nvcc, "nvcc")
            .ok_or_else(|| missing(Component::Nvcc, part))?;
        let root_of_nvcc = nvcc.parent().and_then(Path::parent);
        let in_view = settings.view.and_then(View::nvcc);
        let mut options = Vec::new();
        if let Some(compiler) = settings.host.and_then(|host| host.option.as_ref()) {
            options.extend(["-ccbin".to_owned(), compiler.display().to_string()]);
        }
        let is_cross = settings.host.is_some_and(|host| host.is_cross);
        let mut toolkit_includes = toolkit.include_dirs();
        for directory in &toolkit_includes {
            // nvcc's profile already names the directories of its root, in the right order, but not always those of
            // another platform.
            let is_below_root =
                !is_cross && root_of_nvcc.is_some_and(|root| directory.starts_with(root));
            if in_view.is_none() && !is_below_root {
                options.extend(["-isystem".to_owned(), directory.display().to_string()]);
            }
        }
        toolkit_includes.extend(settings.view.map(|view| view.root().to_owned()));
        let mut shared = Invocation::new(in_view.unwrap_or_else(|| nvcc.to_owned())).args(options);
        shared.directory = Some(settings.package.to_owned());
        Ok(Self {
            shared,
            directory: settings.package,
            compilers: settings.compilers,
            variables: settings.nvcc,
            host: settings.host.map(|host| &host.compiler),
            toolkit_includes,
            tool: shown_nvcc(toolkit),
        })
    }

    /// A step in which nvcc joins objects into one file: an archive (`-lib`), or an object with linked device code
    /// (`-dlink`). `source` names it in messages.
    pub(super) fn join_objects(
        &self,
        options: Vec<String>,
        objects: Vec<PathBuf>,
        source: PathBuf,
        output: PathBuf,
    ) -> Step {
        let nvcc = self.shared.clone().args(&options).args(["-o"]);
        Step {
            tool: self.tool.clone(),
            command: StepCommand::Program(nvcc.args([&output]).args(&objects)),
            identity: self.compilers.of_nvcc(&options),
            directory: self.directory.to_owned(),
            source,
            options,
            images: Vec::new(),
            form: Form::Object,
            inputs: objects,
            output,
            variables: self.variables.clone(),
            reading: ReadFiles::Inputs,
            limit: None,
        }
    }

    /// The step that compiles a source.
    pub(super) fn step(
        &self,
        source: &Path,
        options: Vec<String>,
        (images, form): (Vec<Image>, Form),
        output: PathBuf,
    ) -> Step {
        Step {
            tool: self.tool.clone(),
            command: StepCommand::Nvcc {
                shared: self.shared.clone(),
                lists_assembled: self.host.is_some_and(|host| host.family == Family::Gcc),
            },
            identity: self
                .compilers
                .of_nvcc(options.iter().chain(&self.variables.options)),
            directory: self.directory.to_owned(),
            source: source.to_owned(),
            reading: reading_of_nvcc(
                &options,
                self.variables,
                self.directory,
                self.toolkit_includes.clone(),
            ),
            options,
            images,
            form,
            inputs: vec![self.directory.join(source)],
            output,
            variables: self.variables.clone(),
            limit: None,
        }
    }
}

pub(super) fn missing(component: Component, for_what: &str) -> Error {
    let why = format!("needed to compile `{for_what}`");
    missing_in_toolkit(component, &why).into()
}

//! Calls of nvcc, as values.

use std::path::{Path, PathBuf};

use super::step::{Compiler, Form, Image, ReadFiles, Settings, Step, reading, step_key};
use super::supported;
use crate::error::Error;
use crate::includes::options;
use crate::view::View;
use cuda_find_core::command::Invocation;
use cuda_find_core::component::Component;
use cuda_find_core::select::missing_in_toolkit;

/// nvcc with the options that all its calls share.
pub(super) struct NvccCall {
    /// `nvcc` with its version.
    pub(super) tool: String,
    pub(super) nvcc: Invocation,
    /// The directories with the toolkit's headers.
    pub(super) toolkit_includes: Vec<PathBuf>,
}

impl NvccCall {
    pub(super) fn new(for_what: &str, settings: &Settings<'_>) -> Result<Self, Error> {
        let toolkit = settings.toolkit;
        let nvcc = toolkit
            .tool(Component::Nvcc, "nvcc")
            .ok_or_else(|| missing(Component::Nvcc, for_what))?;
        let found = toolkit.get(Component::Nvcc);
        let version = found.map(cuda_find_core::found::Found::shown_version);
        let root_of_nvcc = nvcc.parent().and_then(Path::parent);
        let in_view = settings.view.and_then(View::nvcc);
        let mut options = Vec::new();
        if let Some(compiler) = settings.host.and_then(|(host, _)| host.option.as_ref()) {
            options.extend(["-ccbin".to_owned(), compiler.display().to_string()]);
        }
        let is_cross = settings.host.is_some_and(|(host, _)| host.is_cross);
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
        let program = in_view.unwrap_or_else(|| nvcc.to_owned());
        Ok(Self {
            tool: format!("nvcc {}", version.unwrap_or_default()),
            nvcc: Invocation::new(program).args(options),
            toolkit_includes,
        })
    }

    /// Whether nvcc accepts a flag.
    pub(super) fn supports(&self, flag: &str, settings: &Settings<'_>) -> Result<bool, Error> {
        supported::by_nvcc(&self.nvcc, flag, settings)
    }

    /// A step in which nvcc joins objects into one file: an archive (`-lib`), or an object with linked device code
    /// (`-dlink`).
    pub(super) fn join_objects(
        &self,
        options: Vec<String>,
        objects: Vec<PathBuf>,
        (source, output): (PathBuf, PathBuf),
        settings: &Settings<'_>,
    ) -> Step {
        let mut key = vec![env!("CARGO_PKG_VERSION").to_owned(), self.tool.clone()];
        key.push(settings.toolkit_identity.to_owned());
        key.extend(settings.nvcc.key.iter().cloned());
        key.extend(settings.host.map(|(_, identity)| identity.to_owned()));
        key.push(format!("{options:?} {:?}", self.nvcc.arguments));
        for object in &objects {
            key.push(format!("{:?}", object.file_name()));
        }
        let nvcc = self.nvcc.clone().args(options).args(["-o"]);
        Step {
            tool: self.tool.clone(),
            source,
            compiler: Compiler::Program(nvcc.args([&output]).args(&objects)),
            images: Vec::new(),
            form: Form::Object,
            inputs: objects,
            output,
            key,
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
        settings: &Settings<'_>,
    ) -> Step {
        let understood = options.iter().chain(&settings.nvcc.options);
        let reading = reading(
            options::read(understood.map(String::as_str)),
            settings.package,
            &settings.nvcc.directories,
            self.toolkit_includes.clone(),
            None,
        );
        let mut key = step_key(&self.tool, source, settings, &settings.nvcc.key);
        key.extend(settings.host.map(|(_, identity)| identity.to_owned()));
        key.push(format!("{} {form:?}", self.nvcc.program.display()));
        let mut plain = self.nvcc.clone();
        plain.directory = Some(settings.package.to_owned());
        key.extend(
            plain
                .arguments
                .iter()
                .map(|argument| format!("{argument:?}")),
        );
        key.extend(options.iter().cloned());
        let host = settings.host.map(|(host, _)| host.compiler.path.clone());
        Step {
            tool: self.tool.clone(),
            source: source.to_owned(),
            compiler: Compiler::Nvcc {
                plain,
                options,
                host: host.unwrap_or_default(),
            },
            images,
            form,
            inputs: vec![settings.package.join(source)],
            output,
            key,
            reading,
            limit: None,
        }
    }
}

pub(super) fn missing(component: Component, for_what: &str) -> Error {
    let why = format!("needed to compile `{for_what}`");
    missing_in_toolkit(component, &why).into()
}

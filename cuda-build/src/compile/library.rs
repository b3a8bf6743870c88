//! The steps that make a static library: one call of nvcc a file, and the archive.

use std::path::{Path, PathBuf};

use super::module::{NvccSettings, Places, nvcc_call};
use super::step::{common_options, key};
use super::{Action, Library, Step};
use crate::capability::Plan;
use crate::command::Invocation;
use crate::component::Component;
use crate::error::Error;
use crate::toolkit::Toolkit;

impl Library {
    /// The steps, in the order they have to be run.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the toolkit has no nvcc.
    pub(crate) fn steps(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        places: Places<'_>,
        nvcc: NvccSettings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        let mut objects = Vec::new();
        for source in &self.sources {
            let object = places
                .out
                .join(format!("{}-{}.o", self.name, file_name_of(source)));
            let depfile = object.with_extension("o.d");
            let mut call = nvcc_call(toolkit, &self.name, nvcc)?;
            // Without `-objtemp` the object names a temporary file, and with it this process.
            call.options
                .extend(["-c", "-objtemp", "--compiler-options=-fPIC"].map(str::to_owned));
            call.options.extend(plan.nvcc_gencode());
            call.options
                .extend(common_options(&self.common, places.package));
            let key = call.key(&object);
            steps.push(Step {
                tool: call.tool.clone(),
                source: source.clone(),
                action: Action::Program(call.invocation(source, &object, &depfile, places)),
                inputs: vec![places.package.join(source)],
                depfile: Some(depfile),
                output: object.clone(),
                key,
            });
            objects.push(object);
        }
        steps.push(self.archive(toolkit, objects, places, nvcc)?);
        Ok(steps)
    }

    /// nvcc makes archives with the host's own archiver.
    fn archive(
        &self,
        toolkit: &Toolkit,
        objects: Vec<PathBuf>,
        places: Places<'_>,
        settings: NvccSettings<'_>,
    ) -> Result<Step, Error> {
        let call = nvcc_call(toolkit, &self.name, settings)?;
        let nvcc = toolkit
            .tool(Component::Nvcc, "nvcc")
            .unwrap_or(Path::new("nvcc"))
            .to_owned();
        let output = places.out.join(format!("lib{}.a", self.name));
        let mut invocation = Invocation::new(&nvcc).args(["-lib", "-o"]);
        invocation.arguments.push(output.clone().into());
        invocation
            .arguments
            .extend(objects.iter().map(|object| object.clone().into()));
        let arguments = objects.iter().map(|object| object.display().to_string());
        Ok(Step {
            key: key(&call.tool, &[&nvcc], arguments),
            tool: call.tool,
            source: self.sources.first().cloned().unwrap_or_default(),
            action: Action::Program(invocation),
            inputs: objects,
            depfile: None,
            output,
        })
    }
}

/// `src/a/b.cu` → `src-a-b`: files of one name in two directories must not share an object.
fn file_name_of(source: &Path) -> String {
    let text = source.with_extension("").to_string_lossy().into_owned();
    text.replace(['/', '\\'], "-")
        .trim_start_matches(['.', '-'])
        .to_owned()
}

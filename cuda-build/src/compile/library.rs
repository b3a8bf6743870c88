//! The steps that make a static library: one call of nvcc for each file, and the archive.

use std::path::{Path, PathBuf};

use super::module::{NvccCall, Places, Settings};
use super::step::Form;
use super::{Action, Image, Library, ReadFiles, Step};
use crate::capability::Plan;
use crate::command::Invocation;
use crate::component::Component;
use crate::error::Error;
use crate::hash::Fnv;
use crate::toolkit::Toolkit;

impl Library {
    /// The steps, in the order in which they have to run.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the toolkit has no nvcc.
    pub(crate) fn steps(
        &self,
        toolkit: &Toolkit,
        plan: &Plan,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for source in &self.sources {
            let call = NvccCall::new(toolkit, &self.name, settings)?;
            let object = places.out.join(self.object_name(source));
            let code = (Image::of_plan(plan), Form::Object);
            steps.push(call.step(source, &self.common, code, object, places, settings));
        }
        let objects = steps.iter().map(|step| step.output.clone()).collect();
        steps.push(self.archive(toolkit, objects, places, settings)?);
        Ok(steps)
    }

    /// Makes the archive with nvcc, which calls the host's archiver.
    fn archive(
        &self,
        toolkit: &Toolkit,
        objects: Vec<PathBuf>,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Step, Error> {
        let call = NvccCall::new(toolkit, &self.name, settings)?;
        let nvcc = toolkit
            .tool(Component::Nvcc, "nvcc")
            .unwrap_or(Path::new("nvcc"));
        let output = places.out.join(format!("lib{}.a", self.name));
        let mut invocation = Invocation::new(nvcc).args(["-lib", "-o"]);
        invocation.arguments.push(output.clone().into());
        invocation
            .arguments
            .extend(objects.iter().map(|object| object.clone().into()));
        let mut key = vec![call.tool.clone(), settings.toolkit.to_owned()];
        key.extend(
            objects
                .iter()
                .map(|object| format!("{:?}", object.file_name())),
        );
        Ok(Step {
            key,
            tool: call.tool,
            source: self.sources.first().cloned().unwrap_or_default(),
            action: Action::Program(invocation),
            inputs: objects,
            output,
            reading: ReadFiles::Inputs,
        })
    }

    /// `gpu-a-b.1f0c5d3e.o`: readable, and different for `a/b.cu`, `a-b.cu` and `a/b.cpp`.
    fn object_name(&self, source: &Path) -> String {
        let mut digest = Fnv::default();
        digest.field(self.name.as_bytes());
        digest.field(source.as_os_str().as_encoded_bytes());
        let text = source
            .with_extension("")
            .to_string_lossy()
            .replace(['/', '\\'], "-");
        let name = text.trim_start_matches(['.', '-']);
        format!("{}-{name}.{}.o", self.name, &digest.hex()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_its_own_object() {
        let sources = ["a/b.cu", "a-b.cu", "a/b.cpp", "../a/b.cu", "./a/b.cu"];
        let mut names: Vec<String> = sources
            .iter()
            .map(|source| Library::new("x").object_name(Path::new(source)))
            .collect();
        names.push(Library::new("x-a").object_name(Path::new("b.cu")));
        assert!(names[0].starts_with("x-a-b."), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
    }
}

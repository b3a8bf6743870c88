//! The steps that make a static library: one for each file, and the archive.

use std::path::{Path, PathBuf};

use super::module::{NvccCall, Places, Settings};
use super::options::{Profile, host_option};
use super::sources::Language;
use super::step::Form;
use super::{Image, Library, Sources, Step};
use crate::capability::Plan;
use crate::error::Error;
use crate::hash::Fnv;
use crate::link;
use crate::root::Root;
use crate::toolkit::Toolkit;

impl Library {
    /// The files to compile.
    ///
    /// # Errors
    /// As [`Sources::resolve`].
    pub(crate) fn resolve(&self, root: &Root, package: &Path) -> Result<Sources, Error> {
        Sources::resolve(&self.name, &self.sources, root, package)
    }

    /// The steps, in the order in which they have to run.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the toolkit has no nvcc, [`Error::HostCompiler`] if there is no compiler for
    /// a host source.
    pub(crate) fn steps(
        &self,
        sources: &Sources,
        toolkit: &Toolkit,
        plan: &Plan,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let nvcc = NvccCall::new(toolkit, &self.name, settings)?;
        let is_supported = |flag: &str| nvcc.supports(flag, places, settings);
        let mut options = self.host_options(settings);
        if self.has_device_link() {
            options.push("-rdc=true".to_owned());
        }
        let common = (self.options).common(&settings.nvcc.options, options, is_supported)?;
        let mut steps = Vec::new();
        let mut objects = Vec::new();
        for (source, language) in &sources.files {
            if *language == Language::Object {
                objects.push(places.package.join(source));
                continue;
            }
            let object = places.out.join(self.object_name(source));
            objects.push(object.clone());
            if *language != Language::Cuda {
                continue;
            }
            let call = NvccCall::new(toolkit, &self.name, settings)?;
            let code = (Image::of_plan(plan), Form::Object);
            steps.push(call.step(source, &common, code, object, places, settings));
        }
        #[cfg(feature = "host-sources")]
        steps.extend(self.host_steps(sources, toolkit, places, settings)?);
        let first = sources.files.first().map(|(source, _)| source.clone());
        let first = first.unwrap_or_default();
        if self.has_device_link() {
            let call = NvccCall::new(toolkit, &self.name, settings)?;
            let paths = (first.clone(), places.out);
            let link = self.device_link(call, toolkit, plan, objects.clone(), paths, settings);
            objects.push(link.output.clone());
            steps.push(link);
        }
        // nvcc calls the host's archiver.
        let archive = places.out.join(format!("lib{}.a", self.name));
        steps.push(nvcc.join_objects(vec!["-lib".to_owned()], objects, (first, archive), settings));
        Ok(steps)
    }

    /// nvcc's options for host code.
    fn host_options(&self, settings: Settings<'_>) -> Vec<String> {
        let mut options = Vec::new();
        if self.options.debug.unwrap_or(settings.profile.debug) {
            options.push("-g".to_owned());
        }
        let variables = &settings.nvcc.options;
        let is_set =
            self.opt_level.is_none() && self.options.has_flag(&["-O", "--optimize"], variables);
        match self.opt_level_of(settings.profile).as_deref() {
            _ if is_set => {}
            // nvcc's `-O` accepts numbers only.
            Some("s" | "z") => options.push(host_option("-Os")),
            Some(level) => options.push(format!("-O{level}")),
            None => {}
        }
        options.extend(self.host_flags.iter().map(|flag| host_option(flag)));
        options
    }

    pub(super) fn opt_level_of(&self, profile: &Profile) -> Option<String> {
        let own = self.opt_level.map(|level| level.to_string());
        own.or_else(|| profile.opt_level.clone())
    }

    /// Links the device code of all objects.
    fn device_link(
        &self,
        call: NvccCall,
        toolkit: &Toolkit,
        plan: &Plan,
        objects: Vec<PathBuf>,
        (source, out): (PathBuf, &Path),
        settings: Settings<'_>,
    ) -> Step {
        let mut options = plan.nvcc_gencode();
        options.extend(["-dlink", "--compiler-options=-fPIC"].map(str::to_owned));
        let archive = link::device_runtime(toolkit);
        if let Some(directory) = archive.and_then(|archive| archive.parent()) {
            options.push(format!("-L{}", directory.display()));
        }
        let output = out.join(format!("{}.device-link.o", self.name));
        call.join_objects(options, objects, (source, output), settings)
    }

    /// `gpu-a-b.1f0c5d3e.o`: readable, and different for `a/b.cu`, `a-b.cu` and `a/b.cpp`.
    pub(super) fn object_name(&self, source: &Path) -> String {
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

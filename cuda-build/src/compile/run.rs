//! Runs steps, skipping those whose output is what they would make.

use std::path::{Path, PathBuf};

use super::{Action, Format, Image, NvrtcJob, Step, depfile};
use crate::cache::{self, Stamp};
use crate::capability::{Capability, Suffix};
use crate::command::Invocation;
use crate::error::Error;
use crate::fatbin::{self, Fatbin};
use crate::nvrtc::{Nvrtc, Program, includes, shims};
use crate::root::Root;

/// What running steps came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Outputs that were made, and what made each: `NVRTC 13.4.92`.
    pub made: Vec<(PathBuf, String)>,
    /// Outputs that were up to date.
    pub fresh: Vec<PathBuf>,
    /// Everything that was read, the toolkit's own headers left out.
    pub inputs: Vec<PathBuf>,
    /// Warnings of the compilers.
    pub warnings: Vec<String>,
}

/// Runs steps in order.
pub struct Runner<'a> {
    root: &'a Root,
    toolkit_dirs: Vec<PathBuf>,
    nvrtc: Option<(PathBuf, Nvrtc)>,
    compiled: Compiled,
}

impl<'a> Runner<'a> {
    /// Files below `toolkit_dirs` are not watched: the toolkit's identity stands for them.
    #[must_use]
    pub fn new(root: &'a Root, toolkit_dirs: Vec<PathBuf>) -> Self {
        Self {
            root,
            toolkit_dirs,
            nvrtc: None,
            compiled: Compiled::default(),
        }
    }

    /// Runs one step, unless its output is up to date.
    ///
    /// # Errors
    /// [`Error::SourceMissing`], [`Error::Compile`] with the compiler's own messages,
    /// [`Error::Io`]. No partial output is left.
    pub fn run(&mut self, step: &Step) -> Result<(), Error> {
        if let Some(missing) = step.inputs.iter().find(|input| !self.root.is_file(input)) {
            return Err(Error::SourceMissing {
                path: missing.clone(),
            });
        }
        let stamp = Stamp::new(&step.output, &step.key);
        if let Some(inputs) = stamp.fresh_inputs(&step.output) {
            self.compiled.fresh.push(step.output.clone());
            self.compiled.inputs.extend(inputs);
            return Ok(());
        }
        stamp.forget()?;
        let mut inputs = match &step.action {
            Action::Program(invocation) => self.run_program(step, invocation)?,
            Action::Nvrtc(job) => self.run_nvrtc(step, job)?,
        };
        inputs.retain(|input| !self.toolkit_dirs.iter().any(|dir| input.starts_with(dir)));
        // Wherever they lie: an archive is made from objects, and objects lie beside it.
        inputs.extend(step.inputs.iter().cloned());
        inputs.sort();
        inputs.dedup();
        stamp.record(&inputs)?;
        self.compiled
            .made
            .push((step.output.clone(), step.tool.clone()));
        self.compiled.inputs.extend(inputs);
        Ok(())
    }

    /// What it came to.
    #[must_use]
    pub fn finish(self) -> Compiled {
        self.compiled
    }

    fn run_program(&mut self, step: &Step, invocation: &Invocation) -> Result<Vec<PathBuf>, Error> {
        // An archiver adds to what is there, and a compiler that fails may leave half a file.
        cache::remove(&step.output)?;
        let finished = invocation.run()?;
        if !finished.success {
            cache::remove(&step.output)?;
            return Err(Error::Compile {
                tool: step.tool.clone(),
                source_file: step.source.clone(),
                command: invocation.to_string(),
                output: finished.output,
            });
        }
        let warnings = finished
            .output
            .lines()
            .filter(|line| line.contains("warning"));
        self.compiled.warnings.extend(warnings.map(str::to_owned));
        let mut inputs = step.inputs.clone();
        if let Some(path) = &step.depfile {
            let text = self.root.text(path).map_err(|source| Error::Io {
                action: "read",
                path: path.clone(),
                source,
            })?;
            let directory = invocation.directory.as_deref().unwrap_or(Path::new("."));
            inputs.extend(
                depfile::inputs(&text)
                    .iter()
                    .map(|input| without_parents(&directory.join(input))),
            );
            // System headers change with the compiler; what a user edits is watched.
            inputs.retain(|input| !input.starts_with("/usr/"));
        }
        Ok(inputs)
    }

    fn run_nvrtc(&mut self, step: &Step, job: &NvrtcJob) -> Result<Vec<PathBuf>, Error> {
        let source_path = &step.inputs[0];
        let source = self.root.text(source_path).map_err(|source| Error::Io {
            action: "read",
            path: source_path.clone(),
            source,
        })?;
        let root = self.root;
        let scan = includes::scan(
            source_path,
            &job.includes,
            &job.toolkit_includes,
            &mut |path| {
                if root.is_file(path) {
                    root.text(path).ok()
                } else {
                    None
                }
            },
        );
        let mut options = job.options.clone();
        // NVRTC looks beside the name it is given, from the process's own directory.
        options.extend(
            source_path
                .parent()
                .map(|beside| format!("-I{}", beside.display())),
        );
        options.extend(
            job.toolkit_includes
                .iter()
                .map(|dir| format!("-I{}", dir.display())),
        );
        let headers = shims::for_scan(&scan);
        let mut images = Vec::new();
        for image in &job.images {
            let mut options = options.clone();
            options.push(image.option());
            let program = Program {
                source: &source,
                name: &job.name,
                options,
                headers: headers.clone(),
            };
            let output = self
                .nvrtc(&job.library)?
                .compile(&program)
                .map_err(|failure| Error::Compile {
                    tool: step.tool.clone(),
                    source_file: step.source.clone(),
                    command: format!("nvrtcCompileProgram {}", program.options.join(" ")),
                    output: failure.to_string(),
                })?;
            let warnings = output.log.lines().filter(|line| line.contains("warning"));
            self.compiled.warnings.extend(warnings.map(str::to_owned));
            images.push((*image, output.image));
        }
        cache::write(&step.output, &assemble(job.format, images)?)?;
        Ok(scan
            .files
            .into_iter()
            .chain(step.inputs.iter().cloned())
            .collect())
    }

    fn nvrtc(&mut self, library: &Path) -> Result<&Nvrtc, Error> {
        if self.nvrtc.as_ref().is_none_or(|(path, _)| path != library) {
            self.nvrtc = Some((library.to_owned(), Nvrtc::load(library)?));
        }
        // Just put there.
        self.nvrtc
            .as_ref()
            .map(|(_, nvrtc)| nvrtc)
            .ok_or_else(|| Error::Library {
                path: library.to_owned(),
                reason: "not loaded".to_owned(),
            })
    }
}

/// `cu13/bin/../include` is `cu13/include`: nvcc finds its headers from its own place.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn assemble(format: Format, images: Vec<(Image, Vec<u8>)>) -> Result<Vec<u8>, Error> {
    if format != Format::Fatbin {
        return Ok(images
            .into_iter()
            .next()
            .map(|(_, bytes)| bytes)
            .unwrap_or_default());
    }
    let images = images.into_iter().map(|(image, bytes)| match image {
        Image::Real(capability) => fatbin::Image::Cubin {
            sm: capability.number(),
            suffix: letter(capability),
            bytes,
        },
        Image::Ptx(capability) => fatbin::Image::Ptx {
            sm: capability.number(),
            suffix: letter(capability),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        },
    });
    Ok(Fatbin::from_images(images.collect())?.write())
}

fn letter(capability: Capability) -> Option<char> {
    capability.suffix.map(Suffix::letter)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A step that copies its one input.
    fn copy(from: &Path, to: &Path) -> Step {
        Step {
            tool: "cp".to_owned(),
            source: from.to_owned(),
            action: Action::Program(Invocation::new("cp").args([from, to])),
            inputs: vec![from.to_owned()],
            depfile: None,
            output: to.to_owned(),
            key: vec!["cp".to_owned()],
        }
    }

    fn made(compiled: &Compiled) -> Vec<PathBuf> {
        compiled
            .made
            .iter()
            .map(|(output, _)| output.clone())
            .collect()
    }

    #[test]
    fn what_an_earlier_step_made_anew_is_used_anew() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().to_owned();
        let (object, archive) = (out.join("a.o"), out.join("liba.a"));
        let root = Root::system();
        let run = || {
            // Even where that directory counts as the toolkit's.
            let mut runner = Runner::new(&root, vec![out.clone()]);
            runner.run(&copy(&object, &archive)).unwrap();
            runner.finish()
        };
        cache::write(&object, b"1").unwrap();
        assert_eq!(made(&run()), std::slice::from_ref(&archive));
        assert_eq!(run().fresh, std::slice::from_ref(&archive));
        cache::write(&object, b"2").unwrap();
        assert_eq!(made(&run()), std::slice::from_ref(&archive));
        assert_eq!(root.bytes(&archive).unwrap(), b"2");
    }
}

//! Runs steps, except those whose output is up to date.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Action, Image, NvrtcJob, ReadFiles, Step, depfile};
use crate::command::Invocation;
use crate::error::Error;
use crate::fatbin::{self, Fatbin};
use crate::freshness::{Files, Freshness, Reads};
use crate::includes::{self, Scan, Scanner, SearchPath};
use crate::nvrtc::{Nvrtc, Program, shims};
use crate::output;

/// The result of running steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Outputs that were made, and the tool of each: `NVRTC 13.4.92`.
    pub made: Vec<(PathBuf, String)>,
    /// Outputs that were up to date.
    pub fresh: Vec<PathBuf>,
    /// Every file that was read and every directory that was searched.
    pub inputs: BTreeSet<PathBuf>,
    /// Outputs that are made again whenever the build script runs, and the reason.
    pub never_fresh: Vec<(PathBuf, String)>,
    /// Warnings of the compilers.
    pub warnings: Vec<String>,
}

/// Runs steps in order.
pub struct Runner {
    freshness: Freshness,
    scanner: Scanner,
    nvrtc: Option<(PathBuf, Nvrtc)>,
    compiled: Compiled,
}

impl Runner {
    /// A runner for steps whose outputs are in `out`.
    #[must_use]
    pub fn new(out: &Path) -> Self {
        Self {
            freshness: Freshness::load(out),
            scanner: Scanner::default(),
            nvrtc: None,
            compiled: Compiled::default(),
        }
    }

    /// The files that this run has looked at.
    pub(crate) fn files(&mut self) -> &mut Files {
        &mut self.freshness.files
    }

    /// Runs all steps, up to the first that fails.
    ///
    /// # Errors
    /// [`Error::Usage`] if a source file does not exist, [`Error::Compile`] with the compiler's own messages,
    /// [`Error::Io`]. No partial output is left.
    pub fn run(mut self, steps: &[Step]) -> Result<Compiled, Error> {
        let result = steps.iter().try_for_each(|step| self.step(step));
        // Also save after a failure, so that finished steps do not run again.
        let saved = if result.is_ok() {
            self.freshness.finish()
        } else {
            self.freshness.save()
        };
        result.and(saved)?;
        let recorded = self.freshness.recorded(&self.compiled.fresh);
        self.compiled.inputs.extend(recorded);
        Ok(self.compiled)
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        if let Some(missing) = step
            .inputs
            .iter()
            .find(|input| !self.files().is_file(input))
        {
            return Err(Error::Usage {
                reason: format!("source file {} does not exist", missing.display()),
                hint: None,
            });
        }
        let key = Freshness::key(&step.key);
        if self.freshness.is_fresh(&step.output, key) {
            self.compiled.fresh.push(step.output.clone());
            return Ok(());
        }
        let scan = match &step.reading {
            ReadFiles::Inputs => Scan::default(),
            ReadFiles::Headers {
                search, headers, ..
            } => self.scan(step, search, headers),
        };
        let known = step
            .inputs
            .iter()
            .chain(&scan.files)
            .chain(&scan.toolkit_files);
        let started = self.freshness.start(known.map(PathBuf::as_path));
        match &step.action {
            Action::Program(invocation) => self.program(step, invocation)?,
            Action::Nvrtc(job) => self.nvrtc(step, job, &scan)?,
            Action::Join(images) => join(step, images)?,
        }
        self.files().forget(&step.output);
        let reads = self.reads(step, scan)?;
        if let Some(reason) = self.freshness.record(&step.output, key, &started, &reads)? {
            self.compiled
                .never_fresh
                .push((step.output.clone(), reason));
        }
        self.compiled
            .made
            .push((step.output.clone(), step.tool.clone()));
        let Reads {
            sources,
            own,
            system,
            searched,
            ..
        } = reads;
        let read = sources.into_iter().chain(own).chain(system);
        self.compiled.inputs.extend(read.chain(searched));
        Ok(())
    }

    /// Before the compiler runs: finds the files that it may include.
    fn scan(&mut self, step: &Step, search: &SearchPath, headers: &[String]) -> Scan {
        let files = &mut self.freshness.files;
        let mut hidden = Scan::default();
        // NVRTC, unlike nvcc, does not report which toolkit headers it read, so all files that could
        // hide one are recorded.
        if matches!(step.action, Action::Nvrtc(_)) {
            for own in &search.directories {
                let outside = |toolkit: &&PathBuf| !own.starts_with(toolkit);
                for toolkit in search.toolkit.iter().filter(outside) {
                    includes::hidden_by(files, own, toolkit, &mut hidden);
                }
            }
        }
        let sources = step.inputs.iter().chain(&hidden.files).cloned();
        // A header of the user replaces the shim of the same name, so these names are looked up.
        let names = shims::names().filter(|_| matches!(step.action, Action::Nvrtc(_)));
        let mut scan = self.scanner.scan(files, sources, headers, names, search);
        scan.files.append(&mut hidden.files);
        scan.absent.append(&mut hidden.absent);
        scan
    }

    /// After the compiler ran: finds the files and paths that it looked at.
    fn reads(&mut self, step: &Step, scan: Scan) -> Result<Reads, Error> {
        let mut reads = Reads {
            sources: step.inputs.iter().cloned().collect(),
            ..Reads::default()
        };
        let ReadFiles::Headers {
            search,
            headers,
            depfile,
            not_understood,
        } = &step.reading
        else {
            return Ok(reads);
        };
        let mut computed = scan.computed_query.clone();
        let mut scans = vec![scan];
        if let (Some(depfile), Action::Program(invocation)) = (depfile, &step.action) {
            let directory = invocation.directory.as_deref().unwrap_or(Path::new(""));
            for path in self.depfile_inputs(depfile, directory)? {
                let own = is_own(&path, step, directory, search);
                if own {
                    &mut reads.own
                } else {
                    &mut reads.system
                }
                .insert(path);
            }
            // A depfile does not record by which name a file was included, so all possible names
            // are looked up.
            let read = reads.own.iter().chain(&reads.system);
            let names: BTreeSet<String> = read.flat_map(|path| include_names(path)).collect();
            let sources = reads.sources.union(&reads.own).cloned();
            let names = names.iter().map(String::as_str);
            let files = &mut self.freshness.files;
            scans.push(self.scanner.scan(files, sources, headers, names, search));
            computed = scans[1].computed_query.clone().or(computed);
        } else {
            computed = scans[0].computed_include.clone().or(computed);
        }
        for scan in scans {
            reads.own.extend(scan.files);
            reads.system.extend(scan.toolkit_files);
            reads.absent.extend(scan.absent);
            reads.searched.extend(scan.searched);
        }
        reads.own = &reads.own - &reads.sources;
        let of_option = |option: &String| {
            format!("the option `{option}` may make the compiler read other files")
        };
        let of_macro =
            |file: PathBuf| format!("{} takes the name of a header from a macro", file.display());
        reads.incomplete = not_understood
            .first()
            .map(of_option)
            .or(computed.map(of_macro));
        Ok(reads)
    }

    /// The files that a depfile names.
    fn depfile_inputs(&mut self, depfile: &Path, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        self.files().forget(depfile);
        let bytes = self.files().bytes(depfile).ok_or_else(|| Error::Io {
            action: "read",
            path: depfile.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        let listed = depfile::inputs(&bytes);
        Ok(listed
            .iter()
            .map(|path| self.files().normal(&directory.join(path)))
            .collect())
    }

    fn program(&mut self, step: &Step, invocation: &Invocation) -> Result<(), Error> {
        // An archiver adds to an existing archive, and a failing compiler may leave a partial file.
        output::remove(&step.output)?;
        if let ReadFiles::Headers {
            depfile: Some(depfile),
            ..
        } = &step.reading
        {
            output::remove(depfile)?;
        }
        let failed = |output: String| Error::Compile {
            tool: step.tool.clone(),
            source_file: step.source.clone(),
            command: invocation.to_string(),
            output,
        };
        let package = invocation.directory.as_deref();
        let mut paths = package
            .into_iter()
            .chain([step.source.as_path(), &step.output]);
        if let Some(path) = paths.find(|path| has_shell_syntax(path)) {
            return Err(failed(format!(
                "nvcc would run a part of the path {} as a shell command: rename it",
                path.display()
            )));
        }
        let finished = invocation.run()?;
        self.files().forget(&step.output);
        if !finished.success {
            output::remove(&step.output)?;
            return Err(failed(finished.output()));
        }
        if !self.files().is_file(&step.output) {
            let name = step.output.display();
            return Err(failed(format!(
                "{}it reported success, but did not write {name}",
                finished.output()
            )));
        }
        let output = finished.output();
        let warnings = output.lines().filter(|line| line.contains("warning"));
        self.compiled.warnings.extend(warnings.map(str::to_owned));
        Ok(())
    }

    fn nvrtc(&mut self, step: &Step, job: &NvrtcJob, scan: &Scan) -> Result<(), Error> {
        let source = self
            .files()
            .bytes(&step.inputs[0])
            .ok_or_else(|| Error::Io {
                action: "read",
                path: step.inputs[0].clone(),
                source: std::io::ErrorKind::InvalidInput.into(),
            })?;
        let program = Program {
            source: source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&source),
            name: &job.name,
            options: job.options.clone(),
            headers: shims::for_scan(scan),
        };
        let output = self
            .library(&job.library)?
            .compile(&program)
            .map_err(|failure| Error::Compile {
                tool: step.tool.clone(),
                source_file: step.source.clone(),
                command: format!("nvrtcCompileProgram {}", program.options.join(" ")),
                output: failure.to_string(),
            })?;
        let warnings = output.log.lines().filter(|line| line.contains("warning"));
        self.compiled.warnings.extend(warnings.map(str::to_owned));
        output::write(&step.output, &output.image)
    }

    fn library(&mut self, library: &Path) -> Result<&Nvrtc, Error> {
        if self.nvrtc.as_ref().is_none_or(|(path, _)| path != library) {
            self.nvrtc = Some((library.to_owned(), Nvrtc::load(library)?));
        }
        self.nvrtc
            .as_ref()
            .map(|(_, nvrtc)| nvrtc)
            .ok_or_else(|| Error::Library {
                path: library.to_owned(),
                reason: "not loaded".to_owned(),
            })
    }
}

/// Whether a path contains characters that a shell interprets between double quotes. nvcc 13.5 puts
/// the source, the output and its working directory between double quotes in shell commands: for a
/// source in the directory `$(touch x)`, it runs `touch x`.
fn has_shell_syntax(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("$(") || text.contains(['`', '"'])
}

/// Whether a file in a depfile is the user's. The includes of such files are scanned.
fn is_own(path: &Path, step: &Step, package: &Path, search: &SearchPath) -> bool {
    let below = |directories: &[PathBuf]| directories.iter().any(|dir| path.starts_with(dir));
    let beside_source = step.inputs.iter().filter_map(|input| input.parent());
    !below(&search.toolkit)
        && (path.starts_with(package)
            || below(&search.directories)
            || beside_source
                .into_iter()
                .any(|directory| path.starts_with(directory)))
}

/// All names that may include a file: `b.h`, `a/b.h`, `x/a/b.h` for `/x/a/b.h`.
fn include_names(path: &Path) -> Vec<String> {
    let parts: Vec<_> = path
        .components()
        .filter_map(|part| part.as_os_str().to_str())
        .collect();
    let starts = (1..parts.len()).filter(|start| parts[*start] != "..");
    starts.map(|start| parts[start..].join("/")).collect()
}

/// Writes the fat binary of images that earlier steps made.
fn join(step: &Step, images: &[Image]) -> Result<(), Error> {
    let mut contents = Vec::new();
    for (image, path) in images.iter().zip(&step.inputs) {
        let bytes = output::read(path)?;
        contents.push(match image {
            Image::Real(capability) => fatbin::Image::Cubin {
                capability: *capability,
                bytes,
            },
            Image::Ptx(capability) => fatbin::Image::Ptx {
                capability: *capability,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            },
        });
    }
    output::write(&step.output, &Fatbin::from_images(contents)?.write())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// A step that copies its one input.
    fn copy(from: &Path, to: &Path) -> Step {
        Step {
            tool: "cp".to_owned(),
            source: from.to_owned(),
            action: Action::Program(Invocation::new("cp").args([from, to])),
            inputs: vec![from.to_owned()],
            output: to.to_owned(),
            key: vec!["cp".to_owned()],
            reading: ReadFiles::Inputs,
        }
    }

    fn made(step: &Step, out: &Path) -> usize {
        Runner::new(out)
            .run(std::slice::from_ref(step))
            .unwrap()
            .made
            .len()
    }

    #[test]
    fn an_input_made_again_is_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let (object, archive) = (out.join("a.o"), out.join("liba.a"));
        let step = copy(&object, &archive);
        output::write(&object, b"1").unwrap();
        assert_eq!([made(&step, out), made(&step, out)], [1, 0]);
        output::write(&object, b"2").unwrap();
        assert_eq!([made(&step, out), made(&step, out)], [1, 0]);
        assert_eq!(output::read(&archive).unwrap(), b"2");
    }

    #[test]
    fn a_damaged_output_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let (from, to) = (out.join("a"), out.join("b"));
        output::write(&from, b"1").unwrap();
        let step = copy(&from, &to);
        assert_eq!(made(&step, out), 1);
        output::write(&to, b"").unwrap();
        assert_eq!([made(&step, out), made(&step, out)], [1, 0]);
        assert_eq!(output::read(&to).unwrap(), b"1");
    }

    #[test]
    fn a_path_that_a_shell_would_run_is_refused() {
        for name in ["$(touch x)", "`touch x`", "a\"; touch x; \""] {
            let directory = tempfile::tempdir().unwrap();
            let out = directory.path();
            output::write(&out.join("a"), b"1").unwrap();
            let error = Runner::new(out).run(&[copy(&out.join("a"), &out.join(name))]);
            let message = error.unwrap_err().to_string();
            assert!(message.contains("rename it"), "{message}");
        }
    }

    #[test]
    fn a_program_that_writes_nothing_failed() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let from = out.join("a");
        output::write(&from, b"1").unwrap();
        let mut step = copy(&from, &out.join("b"));
        step.action = Action::Program(Invocation::new("true"));
        let error = Runner::new(out).run(&[step]).unwrap_err();
        assert!(error.to_string().contains("reported success"), "{error}");
    }
}

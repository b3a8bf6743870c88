//! Runs steps, except those whose output is up to date.

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::compiled::{Compiled, MadeOutput};
use super::execute::execute;
use super::images::{CompilerRun, ListUse, Made, NvrtcInput, Work};
use super::joining::Joining;
use super::kept::{Kept, KeptOutputs};
use super::launcher::Launching;
use super::reads::Reader;
use super::run_directory::RunDirectory;
use super::workers::Workers;
use super::{Action, Compiler, DeviceCode, Diagnostics, Form, Image, ReadFiles, Step};
use crate::command::Invocation;
use crate::error::Error;
use crate::freshness::{Evidence, Files, Freshness, Reads, RunStart, Stale};
use crate::includes::Scan;
use crate::list::sort_by_key;
use crate::nvrtc::{Nvrtc, shims};
use crate::output;

/// How long to wait for a running step before requesting another token from the jobserver.
const WAIT: Duration = Duration::from_millis(5);

/// Runs steps. Steps run in parallel if Cargo allows it; a step starts after the steps whose outputs it needs.
pub struct Runner {
    out: PathBuf,
    /// Created when the first program is started.
    directory: Option<Arc<RunDirectory>>,
    freshness: Freshness,
    reader: Reader,
    kept: KeptOutputs,
    nvrtc: Option<(PathBuf, Arc<Nvrtc>)>,
    diagnostics: Diagnostics,
    launching: Option<Arc<Launching>>,
    compiled: Compiled,
}

/// A step that is running.
struct Running {
    index: usize,
    /// How many processes it may run at once.
    threads: usize,
    stale: Stale,
    start: RunStart,
    at: Instant,
    scan: Scan,
    kept: Vec<Evidence>,
}

/// What a worker does for a step.
enum Job<'s> {
    Program(&'s Step, &'s Invocation, Arc<RunDirectory>),
    DeviceCode(Work<'s>),
}

impl Job<'_> {
    fn run(self) -> Result<Made, Error> {
        match self {
            Job::DeviceCode(work) => work.make(),
            Job::Program(step, invocation, run) => Ok(Made {
                printed: execute(step, invocation, &step.output, &run)?,
                ..Made::default()
            }),
        }
    }
}

impl Runner {
    /// A runner for steps whose outputs are in `out`.
    #[must_use]
    pub fn new(out: &Path) -> Self {
        Self {
            out: out.to_owned(),
            directory: None,
            freshness: Freshness::load(out),
            reader: Reader::default(),
            kept: KeptOutputs::below(out),
            nvrtc: None,
            diagnostics: Diagnostics::default(),
            launching: None,
            compiled: Compiled::default(),
        }
    }

    /// Sets how messages of compilers are shown.
    pub(crate) fn diagnostics(mut self, diagnostics: Diagnostics) -> Self {
        self.diagnostics = diagnostics;
        self
    }

    /// Keeps outputs in this directory instead, together with other builds.
    pub(crate) fn images(mut self, directory: PathBuf) -> Self {
        self.kept = KeptOutputs::shared(directory);
        self
    }

    /// Sets the launcher in front of nvcc.
    pub(crate) fn launching(mut self, launching: Option<Arc<Launching>>) -> Self {
        self.launching = launching;
        self
    }

    /// The files that this run has looked at.
    pub(crate) fn files(&mut self) -> &mut Files {
        &mut self.freshness.files
    }

    /// Runs all steps. After one has failed, no other is started.
    ///
    /// # Errors
    /// [`Error::Usage`] if a source file does not exist, [`Error::Compile`] with the compiler's own messages,
    /// [`Error::Io`]. No partial output is left.
    pub fn run(
        mut self,
        steps: &[Step],
        workers: &Workers,
        joining: &Joining,
    ) -> Result<Compiled, Error> {
        let mut made = Vec::new();
        if RunDirectory::has_unfinished(&mut self.freshness.files, &self.out) {
            self.run_directory()?;
        }
        let result = self.run_steps(steps, workers, joining, &mut made);
        let directory = self.directory.as_ref();
        let result = result.and(directory.map_or(Ok(()), |directory| directory.finish()));
        sort_by_key(&mut made, |(index, _)| *index);
        self.compiled.made = made.into_iter().map(|(_, made)| made).collect();
        // Also save after a failure, so that finished steps do not run again.
        let saved = if result.is_ok() {
            self.kept.finish(&mut self.freshness)?;
            self.freshness.finish()
        } else {
            self.freshness.save()
        };
        result.and(saved)?;
        let made = self.compiled.made.iter().map(|made| &made.output);
        let outputs: Vec<PathBuf> = self.compiled.fresh.iter().chain(made).cloned().collect();
        self.compiled.inputs = self.freshness.recorded(&outputs);
        Ok(self.compiled)
    }

    fn run_steps(
        &mut self,
        steps: &[Step],
        workers: &Workers,
        joining: &Joining,
        made: &mut Vec<(usize, MadeOutput)>,
    ) -> Result<(), Error> {
        let mut waiting: Vec<usize> = (0..steps.len()).collect();
        let mut ready: Vec<(usize, Stale)> = Vec::new();
        let main = thread::current();
        thread::scope(|scope| {
            let mut running: Vec<(Running, ScopedJoinHandle<'_, _>)> = Vec::new();
            let mut result = Ok(());
            while result.is_ok() || !running.is_empty() {
                let unfinished: Vec<&Path> = (waiting.iter())
                    .chain(ready.iter().map(|(index, _)| index))
                    .chain(running.iter().map(|(step, _)| &step.index))
                    .map(|index| steps[*index].output.as_path())
                    .collect();
                let has_inputs = |index: &usize| {
                    let mut inputs = steps[*index].inputs.iter();
                    !inputs.any(|input| unfinished.contains(&input.as_path()))
                };
                let (now, later): (Vec<_>, Vec<_>) = waiting.iter().partition(|i| has_inputs(i));
                waiting = later;
                let progress = !now.is_empty();
                for index in now {
                    match self.check(&steps[index]) {
                        Ok(Some(stale)) => ready.push((index, stale)),
                        Ok(None) => self.compiled.fresh.push(steps[index].output.clone()),
                        Err(error) => result = Err(error),
                    }
                }
                while result.is_ok()
                    && let Some((index, _)) = ready.first()
                    && let processes = running.iter().map(|(step, _)| step.threads).sum()
                    && let most = steps[*index].most_processes()
                    && let Some(token) = workers.take(processes, ready.len(), most)
                {
                    let (index, stale) = ready.remove(0);
                    match self.start(index, &steps[index], stale, joining, token.threads) {
                        Ok((step, job)) => {
                            let main = main.clone();
                            let worker = scope.spawn(move || {
                                let ran = job.run();
                                drop(token);
                                main.unpark();
                                ran
                            });
                            running.push((step, worker));
                        }
                        Err(error) => result = Err(error),
                    }
                }
                if running.is_empty() {
                    if ready.is_empty() && !progress {
                        break;
                    }
                    continue;
                }
                let Some(place) = running.iter().position(|(_, worker)| worker.is_finished())
                else {
                    thread::park_timeout(WAIT);
                    continue;
                };
                let (step, worker) = running.swap_remove(place);
                let ran = worker
                    .join()
                    .unwrap_or_else(|cause| panic::resume_unwind(cause));
                match ran.and_then(|ran| self.finish(&steps[step.index], &step, ran)) {
                    Ok(output) => made.push((step.index, output)),
                    Err(error) if result.is_ok() => {
                        result = Err(self.diagnostics.in_error(error));
                    }
                    Err(_) => {}
                }
            }
            result
        })
    }

    /// Why a step has to run; `None` if its output is up to date.
    fn check(&mut self, step: &Step) -> Result<Option<Stale>, Error> {
        let mut inputs = step.inputs.iter();
        if let Some(missing) = inputs.find(|input| !self.files().is_file(input)) {
            return Err(Error::Usage {
                reason: format!("source file {} does not exist", missing.display()),
                hint: "create it, or correct its name in build.rs".to_owned(),
            });
        }
        let stale = self.freshness.check(&step.output, step.output_key());
        if stale.is_none() {
            self.kept.used(step);
        }
        Ok(stale)
    }

    fn run_directory(&mut self) -> Result<Arc<RunDirectory>, Error> {
        if let Some(directory) = &self.directory {
            return Ok(Arc::clone(directory));
        }
        let created = RunDirectory::create(&mut self.freshness.files, &self.out)?;
        Ok(Arc::clone(self.directory.insert(Arc::new(created))))
    }

    fn start<'s>(
        &mut self,
        index: usize,
        step: &'s Step,
        stale: Stale,
        joining: &'s Joining,
        threads: usize,
    ) -> Result<(Running, Job<'s>), Error> {
        let scan = self.reader.before(&mut self.freshness.files, step);
        let known = (step.inputs.iter())
            .chain(&scan.files)
            .chain(&scan.toolkit_files);
        let start = self.freshness.start(known.map(PathBuf::as_path));
        let at = Instant::now();
        let mut evidence = Vec::new();
        let run = self.run_directory()?;
        let job = match &step.action {
            Action::Program(invocation) => Job::Program(step, invocation, run),
            Action::DeviceCode(code) => {
                let kept = self.kept.load(&mut self.freshness, step)?;
                evidence.extend(kept.iter().map(|kept| kept.evidence.clone()));
                let files = &mut self.freshness.files;
                let launching = self.launching.as_ref();
                let launching = launching.filter(|_| code.form == Form::Object);
                Job::DeviceCode(Work {
                    step,
                    code,
                    launch: launching.and_then(|l| Launching::of_source(l, files, step, &scan)),
                    list_use: self.list_use(step, code, &scan, &kept),
                    kept,
                    joining,
                    threads,
                    run,
                    nvrtc: self.nvrtc_input(step, code, &scan)?,
                })
            }
        };
        let running = Running {
            index,
            threads,
            stale,
            start,
            at,
            scan,
            kept: evidence,
        };
        Ok((running, job))
    }

    /// Whether the files that were read mention the list of architectures. They are searched only if
    /// something was kept of another list.
    fn list_use(&mut self, step: &Step, code: &DeviceCode, scan: &Scan, kept: &[Kept]) -> ListUse {
        let ReadFiles::Headers { search, .. } = &step.reading else {
            return ListUse::None;
        };
        if matches!(code.compiler, Compiler::Nvrtc(_)) {
            return ListUse::None;
        }
        // An option can give the list another name, and a macro can put the name together. Another
        // capability may read a header whose name is a macro.
        let parts = ["ARCH_L", "LIST__"];
        let mentions = |line: &String| parts.iter().any(|part| line.contains(part));
        if step.key.iter().any(mentions) || scan.unknown_include.is_some() {
            return ListUse::User;
        }
        let mut list_use = ListUse::None;
        let other_list = |kept: &&Kept| kept.images != code.images;
        for kept in kept.iter().filter(other_list) {
            for path in kept.evidence.files() {
                if self.freshness.files.contains(path, &parts) {
                    if !search
                        .toolkit
                        .iter()
                        .any(|toolkit| path.starts_with(toolkit))
                    {
                        return ListUse::User;
                    }
                    list_use = ListUse::Toolkit;
                }
            }
        }
        list_use
    }

    /// Records and keeps what a worker made.
    fn finish(&mut self, step: &Step, running: &Running, made: Made) -> Result<MadeOutput, Error> {
        self.files().forget(&step.output);
        let mut evidence = Vec::new();
        let mut unknown = None;
        let mut runs: Vec<Option<&CompilerRun>> = made.compiled.iter().map(Some).collect();
        if made.compiled.is_empty() && made.used.is_empty() {
            // A program such as the archiver ran, which is no call of a compiler for images.
            runs.push(None);
        }
        for run in runs {
            let depfile = run.and_then(|run| run.depfile.as_deref());
            let files = &mut self.freshness.files;
            let reads = self
                .reader
                .after(files, step, running.scan.clone(), depfile)?;
            if let Some(depfile) = depfile {
                output::remove(depfile)?;
            }
            match self.freshness.observe(&running.start, &reads) {
                Ok(observed) => {
                    if let Some(run) = run.filter(|run| run.keep) {
                        self.kept.write(step, run, &observed)?;
                    }
                    evidence.push(observed);
                }
                Err(reason) => unknown = Some(reason),
            }
            let Reads {
                sources,
                own,
                system,
                searched,
                ..
            } = reads;
            let read = sources.into_iter().chain(own).chain(system);
            self.compiled.inputs.extend(read.chain(searched));
        }
        evidence.extend(made.used.iter().map(|&index| running.kept[index].clone()));
        let evidence = unknown.map_or(Ok(evidence.as_slice()), Err);
        let recorded = self
            .freshness
            .record(&step.output, step.output_key(), evidence)?;
        if let Some(reason) = recorded {
            self.compiled
                .never_fresh
                .push((step.output.clone(), reason));
        }
        self.diagnostics
            .add(&made.printed, &mut self.compiled.warnings);
        let mut reason = running.stale.to_string();
        // What was kept has the same command, except for the list.
        if running.stale == Stale::Command && !made.used.is_empty() {
            reason = "the list of capabilities changed".to_owned();
        }
        if let Some(because) = made.whole_because {
            reason = format!("compiled as a whole, because {because}");
        }
        let compiled = made.compiled.iter();
        Ok(MadeOutput {
            output: step.output.clone(),
            tool: step.tool.clone(),
            reason,
            compiled: compiled.map(|run| Image::names(&run.images)).collect(),
            elapsed: running.at.elapsed(),
        })
    }

    fn nvrtc_input(
        &mut self,
        step: &Step,
        code: &DeviceCode,
        scan: &Scan,
    ) -> Result<Option<NvrtcInput>, Error> {
        let Compiler::Nvrtc(job) = &code.compiler else {
            return Ok(None);
        };
        let source = self.files().bytes(&step.inputs[0]);
        let source = source.ok_or_else(|| Error::Io {
            action: "read",
            path: step.inputs[0].clone(),
            source: std::io::ErrorKind::InvalidInput.into(),
        })?;
        let nvrtc = match &self.nvrtc {
            Some((path, nvrtc)) if *path == job.library => Arc::clone(nvrtc),
            _ => Arc::new(Nvrtc::load(&job.library)?),
        };
        self.nvrtc = Some((job.library.clone(), Arc::clone(&nvrtc)));
        Ok(Some(NvrtcInput {
            nvrtc,
            source,
            headers: shims::for_scan(scan),
        }))
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;

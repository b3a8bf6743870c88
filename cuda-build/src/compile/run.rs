//! Runs steps, except those whose output is up to date.

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::diagnostics;
use super::job::{Job, ListUse, NvrtcInput, Tools};
use super::progress::PlaceInBuild;
use super::reads::Reader;
use super::run_directory::RunDirectory;
use super::step::{Image, ReadFiles, Step, StepCommand};
use super::store::CompilerOutput;
use super::workers::Workers;
use crate::error::Error;
use crate::freshness::{Files, Freshness, InputStates, Reads, StaleReason};
use crate::includes::Scan;
use crate::nvrtc::{Nvrtc, shims};
use cuda_find_core::list::sorted_set;
use cuda_find_core::output;

/// How long to wait for a running step before requesting another token from the jobserver.
const JOBSERVER_INTERVAL: Duration = Duration::from_millis(5);

/// The result of running steps.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// Outputs that were made, in the order of the steps.
    pub made: Vec<MadeOutput>,
    /// Outputs that were up to date.
    pub fresh: Vec<PathBuf>,
    /// Every file that was read and every directory that was searched, sorted.
    pub inputs: Vec<PathBuf>,
    /// Outputs that are made again whenever the build script runs, each with the reason.
    pub never_fresh: Vec<(PathBuf, String)>,
    /// Warnings and other messages of the compilers, each with its source line and caret.
    pub warnings: Vec<String>,
}

/// An output that was made.
#[derive(Clone, Debug)]
pub struct MadeOutput {
    /// The file.
    pub output: PathBuf,
    /// The tool: `NVRTC 13.4.92`.
    pub tool: String,
    /// Why it was made.
    pub reason: String,
    /// The architectures of each call of the compiler: `sm_80 sm_90`. Empty if nothing had to be
    /// compiled.
    pub compiled: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs steps. Steps run in parallel if Cargo allows it; a step starts after the steps whose outputs it needs.
pub(crate) struct Runner {
    out: PathBuf,
    /// Created when the first program is started.
    run_directory: Option<Arc<RunDirectory>>,
    freshness: Freshness,
    reader: Reader,
    nvrtc: Option<Arc<Nvrtc>>,
    compiled: Compiled,
}

/// The error for all files that were rejected, in the order of the steps.
fn all_in_one(mut rejected: Vec<(usize, Error)>) -> Result<(), Error> {
    rejected.sort_by_key(|(index, _)| *index);
    let mut errors = rejected.into_iter().map(|(_, error)| error);
    let Some(mut first) = errors.next() else {
        return Ok(());
    };
    if let Error::Compile { others, .. } = &mut first {
        *others = errors.collect();
    }
    Err(first)
}

/// A thread that runs a step.
struct Worker<'scope, 'a> {
    /// The index of the step.
    index: usize,
    /// How many processes the step may run at once.
    processes: usize,
    thread: ScopedJoinHandle<'scope, (Job<'a>, Result<Vec<CompilerOutput>, Error>)>,
}

impl Runner {
    /// A runner for steps whose outputs are in `out`.
    pub(crate) fn new(out: &Path) -> Self {
        Self {
            out: out.to_owned(),
            run_directory: None,
            freshness: Freshness::load(out),
            reader: Reader::default(),
            nvrtc: None,
            compiled: Compiled::default(),
        }
    }

    /// The files that this build script has looked at.
    pub(crate) fn files(&mut self) -> &mut Files {
        &mut self.freshness.files
    }

    /// Runs all steps. If a compiler rejects a file, the other files are still compiled.
    ///
    /// # Errors
    /// [`Error::Find`] if a source file does not exist, [`Error::Compile`] with the compiler's own messages,
    /// [`cuda_find_core::error::Error::Io`]. No partial output is left.
    pub(crate) fn run(
        mut self,
        steps: &[Step],
        workers: &Workers,
        tools: &Tools,
    ) -> Result<Compiled, Error> {
        let mut made = Vec::new();
        RunDirectory::remove_abandoned(&mut self.freshness.files, &self.out)?;
        let result = self.run_steps(steps, workers, tools, &mut made);
        made.sort_by_key(|(index, _)| *index);
        self.compiled.made = made.into_iter().map(|(_, made)| made).collect();
        // Also save after a failure, so that finished steps do not run again.
        let saved = if result.is_ok() {
            self.freshness.finish()
        } else {
            self.freshness.save()
        };
        result.and(saved)?;
        let made = self.compiled.made.iter().map(|made| &made.output);
        let outputs: Vec<PathBuf> = self.compiled.fresh.iter().chain(made).cloned().collect();
        let recorded = self.freshness.inputs_of(&outputs);
        // `self.compiled.inputs` has the inputs of steps without a record.
        let unrecorded = std::mem::take(&mut self.compiled.inputs).into_iter();
        self.compiled.inputs = sorted_set(unrecorded.chain(recorded));
        Ok(self.compiled)
    }

    fn run_steps(
        &mut self,
        steps: &[Step],
        workers: &Workers,
        tools: &Tools,
        made: &mut Vec<(usize, MadeOutput)>,
    ) -> Result<(), Error> {
        let mut waiting: Vec<usize> = (0..steps.len()).collect();
        let mut ready: Vec<(usize, StaleReason)> = Vec::new();
        let compiles = |(index, _): &&(usize, StaleReason)| !steps[*index].images.is_empty();
        let mut compiled = 0;
        let main = thread::current();
        thread::scope(|scope| {
            let mut running: Vec<Worker<'_, '_>> = Vec::new();
            let mut result = Ok(());
            // Files that a compiler rejected. The other files are still compiled, so that one build shows all errors.
            let mut rejected: Vec<(usize, Error)> = Vec::new();
            loop {
                let unfinished: Vec<&Path> = (waiting.iter())
                    .chain(ready.iter().map(|(index, _)| index))
                    .chain(running.iter().map(|worker| &worker.index))
                    .chain(rejected.iter().map(|(index, _)| index))
                    .map(|index| steps[*index].output.as_path())
                    .collect();
                let has_inputs = |index: &usize| {
                    let mut inputs = steps[*index].inputs.iter();
                    !inputs.any(|input| unfinished.contains(&input.as_path()))
                };
                let (startable, blocked): (Vec<_>, Vec<_>) =
                    waiting.iter().partition(|index| has_inputs(index));
                waiting = blocked;
                let is_stuck = startable.is_empty();
                for index in startable {
                    // After a failure, an input may be missing because its step has failed.
                    if result.is_err() {
                        break;
                    }
                    match self.stale_reason(&steps[index]) {
                        Ok(Some(reason)) => ready.push((index, reason)),
                        Ok(None) => self.compiled.fresh.push(steps[index].output.clone()),
                        Err(error) => result = Err(error),
                    }
                }
                loop {
                    // How many processes a step may run, in view of the limit of its part.
                    let most = |step: &Step| match &step.limit {
                        None => step.most_processes(),
                        Some((part, limit)) => {
                            let of_part = running.iter().filter(|worker| {
                                let other = steps[worker.index].limit.as_ref();
                                other.is_some_and(|(other, _)| other == part)
                            });
                            let busy: usize = of_part.map(|worker| worker.processes).sum();
                            step.most_processes()
                                .min((*limit).max(1).saturating_sub(busy))
                        }
                    };
                    let mut places = 0..ready.len();
                    let next = places.find(|place| most(&steps[ready[*place].0]) > 0);
                    let Some(place) = next.filter(|_| result.is_ok()) else {
                        break;
                    };
                    let most = most(&steps[ready[place].0]);
                    let processes = running.iter().map(|worker| worker.processes).sum();
                    let Some(permit) = workers.take(processes, ready.len(), most) else {
                        break;
                    };
                    let to_compile = compiled + ready.iter().filter(compiles).count();
                    let (index, reason) = ready.remove(place);
                    compiled += usize::from(!steps[index].images.is_empty());
                    let place = PlaceInBuild {
                        number: compiled,
                        of: to_compile,
                        processes: permit.processes,
                    };
                    match self.prepare(&steps[index], reason, tools, place) {
                        Ok(mut job) => {
                            let (main, processes) = (main.clone(), permit.processes);
                            let thread = scope.spawn(move || {
                                let made = job.make();
                                drop(permit);
                                main.unpark();
                                (job, made)
                            });
                            running.push(Worker {
                                index,
                                processes,
                                thread,
                            });
                        }
                        Err(error) => result = Err(error),
                    }
                }
                let ended = (running.iter()).position(|worker| worker.thread.is_finished());
                if let Some(place) = ended {
                    let worker = running.swap_remove(place);
                    let joined = worker.thread.join();
                    let (job, result_of_job) =
                        joined.unwrap_or_else(|cause| panic::resume_unwind(cause));
                    match result_of_job.and_then(|from| self.finish(&job, from)) {
                        Ok(output) => made.push((worker.index, output)),
                        Err(error @ Error::Compile { .. }) => {
                            rejected.push((worker.index, diagnostics::in_error(error)));
                        }
                        Err(error) if result.is_ok() => result = Err(error),
                        Err(_) => {}
                    }
                } else if !running.is_empty() {
                    thread::park_timeout(JOBSERVER_INTERVAL);
                } else if result.is_err() || ready.is_empty() && is_stuck {
                    break all_in_one(rejected).and(result);
                }
            }
        })
    }

    /// Why a step has to run; `None` if its output is up to date.
    fn stale_reason(&mut self, step: &Step) -> Result<Option<StaleReason>, Error> {
        let mut inputs = step.inputs.iter();
        if let Some(missing) = inputs.find(|input| !self.files().is_file(input)) {
            let reason = format!("source file {} does not exist", missing.display());
            let hint = "create it, or correct its name in build.rs";
            return Err(Error::usage(reason, hint));
        }
        Ok(self.freshness.stale_reason(&step.output, step.key()))
    }

    fn create_run_directory(&mut self) -> Result<Arc<RunDirectory>, Error> {
        if let Some(directory) = &self.run_directory {
            return Ok(Arc::clone(directory));
        }
        let created = RunDirectory::create(&self.out)?;
        Ok(Arc::clone(self.run_directory.insert(Arc::new(created))))
    }

    /// Reads everything that a thread needs to run the step.
    fn prepare<'s>(
        &mut self,
        step: &'s Step,
        stale_reason: StaleReason,
        tools: &'s Tools,
        place: PlaceInBuild,
    ) -> Result<Job<'s>, Error> {
        let scan = self.reader.before_run(&mut self.freshness.files, step);
        let scanned_files = (step.inputs.iter())
            .chain(&scan.files)
            .chain(&scan.toolkit_files);
        let run_start = (self.freshness).before_run(scanned_files.map(PathBuf::as_path));
        let started = Instant::now();
        let mut kept = Vec::new();
        if !step.images.is_empty() {
            kept = tools.store.load(&mut self.freshness, step);
        }
        Ok(Job {
            step,
            tools,
            stale_reason,
            list_use: self.list_use(step, &scan, &kept),
            kept,
            nvrtc: self.nvrtc_input(step, &scan)?,
            run_directory: self.create_run_directory()?,
            place,
            whole_because: None,
            scan,
            run_start,
            started,
        })
    }

    /// Which files mention the list of architectures. Files are searched only if an output for another list is kept.
    fn list_use(&mut self, step: &Step, scan: &Scan, kept: &[CompilerOutput]) -> ListUse {
        let ReadFiles::Headers { search, .. } = &step.reading else {
            return ListUse::None;
        };
        if step.uses_nvrtc() {
            return ListUse::None;
        }
        // An option can define another name for the list, and a macro can build the name from two parts. For another
        // capability, nvcc may read another header if the name of the header is a macro.
        let parts = ["ARCH_L", "LIST__"];
        let mentions = |text: &String| parts.iter().any(|part| text.contains(part));
        let mut settings = step.options.iter().chain(&step.variables.settings);
        if settings.any(mentions) || scan.unknown_include.is_some() {
            return ListUse::User;
        }
        let mut list_use = ListUse::None;
        let for_other_list = kept.iter().filter(|kept| kept.images != step.images);
        for path in for_other_list.flat_map(|kept| kept.reads.iter().flat_map(InputStates::files)) {
            if self.freshness.files.contains(path, &parts) {
                let mut toolkit = search.toolkit.iter();
                if !toolkit.any(|directory| path.starts_with(directory)) {
                    return ListUse::User;
                }
                list_use = ListUse::Toolkit;
            }
        }
        list_use
    }

    fn nvrtc_input(&mut self, step: &Step, scan: &Scan) -> Result<Option<NvrtcInput>, Error> {
        let StepCommand::Nvrtc { library, .. } = &step.command else {
            return Ok(None);
        };
        let source = self.files().bytes(&step.inputs[0]);
        let source = source.ok_or_else(|| {
            Error::io("read", &step.inputs[0])(std::io::ErrorKind::InvalidInput.into())
        })?;
        let nvrtc = match &self.nvrtc {
            Some(nvrtc) => Arc::clone(nvrtc),
            None => Arc::new(Nvrtc::load(library)?),
        };
        self.nvrtc = Some(Arc::clone(&nvrtc));
        Ok(Some(NvrtcInput {
            nvrtc,
            source,
            headers: shims::for_scan(scan),
        }))
    }

    /// Records the output of a job, and keeps the new outputs of compilers.
    fn finish(
        &mut self,
        job: &Job<'_>,
        mut from: Vec<CompilerOutput>,
    ) -> Result<MadeOutput, Error> {
        let step = job.step;
        self.files().forget(&step.output);
        let mut inputs = Vec::new();
        let mut never_fresh_because = None;
        let compiled: Vec<String> = (from.iter())
            .filter(|output| output.reads.is_none() && !output.images.is_empty())
            .map(|output| Image::names(&output.images))
            .collect();
        let uses_kept = from.iter().any(|output| output.reads.is_some());
        for output in &mut from {
            if output.reads.is_none() {
                let reads = self.reads_of(job, output)?;
                match self.freshness.after_run(&job.run_start, &reads) {
                    Ok(states) => {
                        output.reads = Some(states);
                        job.tools.store.write(step, output)?;
                    }
                    Err(reason) => {
                        // Nothing is recorded, but Cargo has to run the script again after an edit.
                        let paths = reads.files.into_iter().chain(reads.absent);
                        self.compiled.inputs.extend(paths.chain(reads.searched));
                        never_fresh_because = Some(reason);
                    }
                }
            }
            inputs.extend(output.reads.clone());
            diagnostics::add(&output.printed, &mut self.compiled.warnings);
        }
        let inputs = never_fresh_because.map_or(Ok(inputs.as_slice()), Err);
        if let Some(reason) = self.freshness.record(&step.output, step.key(), inputs) {
            let never_fresh = (step.output.clone(), reason);
            self.compiled.never_fresh.push(never_fresh);
        }
        if compiled.is_empty() && uses_kept {
            job.tools.progress.kept();
        }
        let reason = match &job.whole_because {
            Some(because) => format!("compiled as a whole, because {because}"),
            None if compiled.is_empty() && uses_kept => {
                "an earlier build compiled the same".to_owned()
            }
            // The kept outputs that were used have the same command, except for the list.
            None if job.stale_reason == StaleReason::Command && uses_kept => {
                "the list of capabilities changed".to_owned()
            }
            None => job.stale_reason.to_string(),
        };
        Ok(MadeOutput {
            output: step.output.clone(),
            tool: step.tool.clone(),
            reason,
            compiled,
            elapsed: job.started.elapsed(),
        })
    }

    /// The paths that a compiler or another program looked at for a new output.
    fn reads_of(&mut self, job: &Job<'_>, output: &CompilerOutput) -> Result<Reads, Error> {
        let (files, depfile) = (&mut self.freshness.files, output.depfile.as_deref());
        let mut reads = (self.reader).after_run(files, job.step, job.scan.clone(), depfile)?;
        depfile.map_or(Ok(()), output::remove)?;
        reads.files.extend(output.assembled.iter().cloned());
        Ok(reads)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;

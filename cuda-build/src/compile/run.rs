//! Runs steps, except those whose output is up to date.

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::Diagnostics;
use super::job::{CompilerRun, Job, ListUse, Made, NvrtcInput, Tools};
use super::kept::{Kept, KeptOutputs};
use super::reads::Reader;
use super::run_directory::RunDirectory;
use super::step::{Compiler, Image, ReadFiles, Step};
use super::workers::Workers;
use crate::error::Error;
use crate::freshness::{Files, Freshness, RunStart, Stale};
use crate::includes::Scan;
use crate::list::{sort_by_key, sorted_set};
use crate::nvrtc::{Nvrtc, shims};
use crate::output;

/// How long to wait for a running step before requesting another token from the jobserver.
const WAIT: Duration = Duration::from_millis(5);

/// The result of running steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Outputs that were made, in the order of the steps.
    pub made: Vec<MadeOutput>,
    /// Outputs that were up to date.
    pub fresh: Vec<PathBuf>,
    /// Every file that was read and every directory that was searched, sorted.
    pub inputs: Vec<PathBuf>,
    /// Outputs that are made again whenever the build script runs, and the reason.
    pub never_fresh: Vec<(PathBuf, String)>,
    /// Warnings and other messages of the compilers, each with its source line and caret.
    pub warnings: Vec<String>,
}

/// An output that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    directory: Option<Arc<RunDirectory>>,
    freshness: Freshness,
    reader: Reader,
    pub(crate) kept: KeptOutputs,
    nvrtc: Option<Arc<Nvrtc>>,
    /// How messages of compilers are shown.
    pub(crate) diagnostics: Diagnostics,
    compiled: Compiled,
}

/// The error for all files that were rejected, in the order of the steps.
fn all_in_one(mut rejected: Vec<(usize, Error)>) -> Result<(), Error> {
    sort_by_key(&mut rejected, |(index, _)| *index);
    let mut errors = rejected.into_iter().map(|(_, error)| error);
    let Some(mut first) = errors.next() else {
        return Ok(());
    };
    if let Error::Compile { others, .. } = &mut first {
        others.extend(errors);
    }
    Err(first)
}

/// A job, and what is recorded when it has ended.
struct Running<'a> {
    job: Job<'a>,
    stale: Stale,
    scan: Scan,
    start: RunStart,
    at: Instant,
}

impl Runner {
    /// A runner for steps whose outputs are in `out`.
    pub(crate) fn new(out: &Path) -> Self {
        Self {
            out: out.to_owned(),
            directory: None,
            freshness: Freshness::load(out),
            reader: Reader::default(),
            kept: KeptOutputs::below(out),
            nvrtc: None,
            diagnostics: Diagnostics::default(),
            compiled: Compiled::default(),
        }
    }

    /// The files that this run has looked at.
    pub(crate) fn files(&mut self) -> &mut Files {
        &mut self.freshness.files
    }

    /// Runs all steps. If a compiler rejects a file, the other files are still compiled.
    ///
    /// # Errors
    /// [`Error::Usage`] if a source file does not exist, [`Error::Compile`] with the compiler's own messages,
    /// [`cuda_find::Error::Io`]. No partial output is left.
    pub(crate) fn run(
        mut self,
        steps: &[Step],
        workers: &Workers,
        tools: &Tools,
    ) -> Result<Compiled, Error> {
        let mut made = Vec::new();
        if RunDirectory::has_unfinished(&mut self.freshness.files, &self.out) {
            self.run_directory()?;
        }
        let result = self.run_steps(steps, workers, tools, &mut made);
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
        let recorded = self.freshness.recorded(&outputs);
        // Steps that are never up to date have no record.
        let inputs = std::mem::take(&mut self.compiled.inputs).into_iter();
        self.compiled.inputs = sorted_set(inputs.chain(recorded));
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
        let mut ready: Vec<(usize, Stale)> = Vec::new();
        let main = thread::current();
        thread::scope(|scope| {
            // The index of the step, how many processes it may run, and its thread.
            let mut running: Vec<(usize, usize, ScopedJoinHandle<'_, _>)> = Vec::new();
            let mut result = Ok(());
            // Files that a compiler rejected. The other files are still compiled, so that one build shows all errors.
            let mut rejected: Vec<(usize, Error)> = Vec::new();
            loop {
                let unfinished: Vec<&Path> = (waiting.iter())
                    .chain(ready.iter().map(|(index, _)| index))
                    .chain(running.iter().map(|(index, ..)| index))
                    .chain(rejected.iter().map(|(index, _)| index))
                    .map(|index| steps[*index].output.as_path())
                    .collect();
                let has_inputs = |index: &usize| {
                    let mut inputs = steps[*index].inputs.iter();
                    !inputs.any(|input| unfinished.contains(&input.as_path()))
                };
                let (now, later): (Vec<_>, Vec<_>) = waiting.iter().partition(|i| has_inputs(i));
                waiting = later;
                let is_stuck = now.is_empty();
                for index in now {
                    // After a failure, an input may be missing because its step has failed.
                    if result.is_err() {
                        break;
                    }
                    match self.check(&steps[index]) {
                        Ok(Some(stale)) => ready.push((index, stale)),
                        Ok(None) => self.compiled.fresh.push(steps[index].output.clone()),
                        Err(error) => result = Err(error),
                    }
                }
                loop {
                    // How many processes a step may run, in view of the limit of its part.
                    let most = |step: &Step| match &step.limit {
                        None => step.most_processes(),
                        Some((part, limit)) => {
                            let of_part = running.iter().filter(|(index, ..)| {
                                let other = steps[*index].limit.as_ref();
                                other.is_some_and(|(other, _)| other == part)
                            });
                            let busy: usize = of_part.map(|(_, threads, _)| threads).sum();
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
                    let processes = running.iter().map(|(_, threads, _)| threads).sum();
                    let Some(token) = workers.take(processes, ready.len(), most) else {
                        break;
                    };
                    let (index, stale) = ready.remove(place);
                    match self.start(&steps[index], stale, tools, token.threads) {
                        Ok(step) => {
                            let (main, threads) = (main.clone(), token.threads);
                            let worker = scope.spawn(move || {
                                let made = step.job.make();
                                drop(token);
                                main.unpark();
                                (step, made)
                            });
                            running.push((index, threads, worker));
                        }
                        Err(error) => result = Err(error),
                    }
                }
                let ended = running.iter().position(|(.., worker)| worker.is_finished());
                if let Some(place) = ended {
                    let (index, _, worker) = running.swap_remove(place);
                    let (step, ended) = worker
                        .join()
                        .unwrap_or_else(|cause| panic::resume_unwind(cause));
                    match ended.and_then(|ended| self.finish(&step, ended)) {
                        Ok(output) => made.push((index, output)),
                        Err(error @ Error::Compile { .. }) => {
                            rejected.push((index, self.diagnostics.in_error(error)));
                        }
                        Err(error) if result.is_ok() => result = Err(error),
                        Err(_) => {}
                    }
                } else if !running.is_empty() {
                    thread::park_timeout(WAIT);
                } else if result.is_err() || ready.is_empty() && is_stuck {
                    break all_in_one(rejected).and(result);
                }
            }
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
        step: &'s Step,
        stale: Stale,
        tools: &'s Tools,
        threads: usize,
    ) -> Result<Running<'s>, Error> {
        let scan = self.reader.before(&mut self.freshness.files, step);
        let known = (step.inputs.iter())
            .chain(&scan.files)
            .chain(&scan.toolkit_files);
        let start = self.freshness.start(known.map(PathBuf::as_path));
        let at = Instant::now();
        let mut kept = Vec::new();
        if !step.images.is_empty() {
            kept = self.kept.load(&mut self.freshness, step)?;
        }
        let job = Job {
            step,
            tools,
            list_use: self.list_use(step, &scan, &kept),
            kept,
            threads,
            nvrtc: self.nvrtc_input(step, &scan)?,
            run: self.run_directory()?,
        };
        Ok(Running {
            job,
            stale,
            scan,
            start,
            at,
        })
    }

    /// Whether the files that were read mention the list of architectures. They are searched only if
    /// something was kept of another list.
    fn list_use(&mut self, step: &Step, scan: &Scan, kept: &[Kept]) -> ListUse {
        let ReadFiles::Headers { search, .. } = &step.reading else {
            return ListUse::None;
        };
        if step.uses_nvrtc() {
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
        let other_list = kept.iter().filter(|kept| kept.images != step.images);
        for path in other_list.flat_map(|kept| kept.evidence.files()) {
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
        list_use
    }

    fn nvrtc_input(&mut self, step: &Step, scan: &Scan) -> Result<Option<NvrtcInput>, Error> {
        let Compiler::Nvrtc { library, .. } = &step.compiler else {
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

    /// Records and keeps what a worker made.
    fn finish(&mut self, running: &Running<'_>, made: Made) -> Result<MadeOutput, Error> {
        let (step, kept) = (running.job.step, &running.job.kept);
        self.files().forget(&step.output);
        let mut evidence = Vec::new();
        let mut unknown = None;
        let mut runs: Vec<Option<&CompilerRun>> = made.compiled.iter().map(Some).collect();
        if step.images.is_empty() {
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
                        self.kept.write(step, &run.images, &run.output, &observed)?;
                    }
                    evidence.push(observed);
                }
                Err(reason) => {
                    // Nothing is recorded, but Cargo has to run the script again after an edit.
                    let looked_at = reads.files.into_iter().chain(reads.absent);
                    self.compiled.inputs.extend(looked_at.chain(reads.searched));
                    unknown = Some(reason);
                }
            }
        }
        evidence.extend(made.used.iter().map(|&index| kept[index].evidence.clone()));
        let evidence = unknown.map_or(Ok(evidence.as_slice()), Err);
        let key = step.output_key();
        if let Some(reason) = self.freshness.record(&step.output, key, evidence)? {
            let never_fresh = (step.output.clone(), reason);
            self.compiled.never_fresh.push(never_fresh);
        }
        self.diagnostics
            .add(&made.printed, &mut self.compiled.warnings);
        let reason = match made.whole_because {
            Some(because) => format!("compiled as a whole, because {because}"),
            None if made.compiled.is_empty() && !made.used.is_empty() => {
                "an earlier build compiled the same".to_owned()
            }
            // What was kept has the same command, except for the list.
            None if running.stale == Stale::Command && !made.used.is_empty() => {
                "the list of capabilities changed".to_owned()
            }
            None => running.stale.to_string(),
        };
        let compiled = made.compiled.iter();
        Ok(MadeOutput {
            output: step.output.clone(),
            tool: step.tool.clone(),
            reason,
            compiled: compiled.map(|run| Image::names(&run.images)).collect(),
            elapsed: running.at.elapsed(),
        })
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;

//! How many steps run at once: as many as Cargo allows.
//!
//! Cargo passes a GNU make jobserver to build scripts: a pipe with one byte (a token) for each additional process
//! that may run. A process takes a byte, and puts it back when it ends.
#![allow(
    clippy::disallowed_methods,
    reason = "the jobserver is a pipe that Cargo opened"
)]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_find_core::env::Env;

/// Permission to run steps.
///
/// A build script may always run one process. For each additional process it takes a token from Cargo's jobserver.
/// It never runs more processes than `NUM_JOBS`.
#[derive(Debug)]
pub(crate) struct Workers {
    jobserver: Option<Arc<Jobserver>>,
    limit: usize,
    /// Whether the one process that needs no token is running.
    is_free_slot_taken: Arc<AtomicBool>,
}

/// Both ends of the pipe.
#[derive(Debug)]
struct Jobserver {
    tokens: File,
    returned: File,
}

/// Permission for one step; it ends when the value is dropped.
pub(super) struct Permit {
    /// The bytes from the jobserver's pipe.
    tokens: Vec<u8>,
    jobserver: Option<Arc<Jobserver>>,
    /// [`Workers::is_free_slot_taken`], if the step runs the process that needs no token.
    free_slot: Option<Arc<AtomicBool>>,
    /// How many processes the step may run at once.
    pub(super) processes: usize,
}

impl Workers {
    /// The limits that Cargo passes to this build script. Without a jobserver, other build scripts may run as many
    /// processes as this one, so it runs one process at a time.
    pub(crate) fn of_cargo(env: &Env) -> Self {
        let flags = env.peek("CARGO_MAKEFLAGS").and_then(|flags| flags.to_str());
        let jobserver = flags.and_then(Jobserver::open).map(Arc::new);
        let limit = match jobserver {
            Some(_) => jobs_of_cargo(env),
            None => 1,
        };
        Self {
            jobserver,
            limit,
            is_free_slot_taken: Arc::default(),
        }
    }

    /// Permission to start one of `ready` steps while `running` processes run. If there are more
    /// processors than steps, the step may run several processes, but not more than `max_per_step`.
    pub(super) fn take(&self, running: usize, ready: usize, max_per_step: usize) -> Option<Permit> {
        let free = self.limit.checked_sub(running)?;
        if free == 0 {
            return None;
        }
        let mut permit = Permit {
            tokens: Vec::new(),
            jobserver: self.jobserver.clone(),
            free_slot: None,
            processes: 0,
        };
        let wanted = (free / ready.max(1)).clamp(1, max_per_step.max(1));
        while permit.processes < wanted {
            if !self.is_free_slot_taken.swap(true, Ordering::Relaxed) {
                permit.free_slot = Some(Arc::clone(&self.is_free_slot_taken));
            } else if let Some(jobserver) = &self.jobserver {
                let Some(token) = jobserver.take() else {
                    break;
                };
                permit.tokens.push(token);
            }
            permit.processes += 1;
        }
        (permit.processes > 0).then_some(permit)
    }
}

/// How many processes Cargo allows in the whole build (`--jobs`), at least one.
pub(super) fn jobs_of_cargo(env: &Env) -> usize {
    let jobs = env.peek("NUM_JOBS").and_then(|jobs| jobs.to_str());
    let jobs = jobs.and_then(|jobs| jobs.parse().ok());
    jobs.unwrap_or(1).max(1)
}

impl Jobserver {
    /// The jobserver in a value such as `-j --jobserver-fds=8,9 --jobserver-auth=8,9`, or
    /// `--jobserver-auth=fifo:PATH`.
    fn open(flags: &str) -> Option<Self> {
        let mut words = flags.split_whitespace();
        let auth = words.find_map(|word| word.strip_prefix("--jobserver-auth="))?;
        let (tokens, returned) = match auth.strip_prefix("fifo:") {
            Some(path) => (path.to_owned(), path.to_owned()),
            None => {
                let (tokens, returned) = auth.split_once(',')?;
                let path = |descriptor: &str| format!("/proc/self/fd/{descriptor}");
                (path(tokens), path(returned))
            }
        };
        Some(Self {
            tokens: open_pipe(OpenOptions::new().read(true), &tokens)?,
            returned: open_pipe(OpenOptions::new().write(true), &returned)?,
        })
    }

    /// A token, if one is free now.
    fn take(&self) -> Option<u8> {
        let mut byte = [0];
        let read = (&self.tokens).read(&mut byte).ok()?;
        (read == 1).then_some(byte[0])
    }
}

/// Opens the pipe again instead of using the inherited descriptor: `O_NONBLOCK` would otherwise also apply to the
/// other processes that share it.
#[cfg(target_os = "linux")]
fn open_pipe(options: &mut OpenOptions, path: &str) -> Option<File> {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    const O_NONBLOCK: i32 = 0o4000;
    let file = options.custom_flags(O_NONBLOCK).open(path).ok()?;
    let is_pipe = file.metadata().ok()?.file_type().is_fifo();
    is_pipe.then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn open_pipe(_: &mut OpenOptions, _: &str) -> Option<File> {
    None
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(free_slot) = &self.free_slot {
            free_slot.store(false, Ordering::Relaxed);
        }
        if let Some(jobserver) = &self.jobserver {
            // The write does not wait: every token was taken from this pipe, so the pipe has room for it.
            let _ = (&jobserver.returned).write_all(&self.tokens);
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
pub(super) mod jobserver_for_tests {
    use super::*;

    /// A jobserver as Cargo makes it, for tests: a pipe with a token for each process but one.
    pub(crate) struct TestJobserver {
        directory: tempfile::TempDir,
        pub(crate) pipe: File,
        jobs: usize,
    }

    impl TestJobserver {
        pub(crate) fn new(jobs: usize) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("jobs");
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            let open = OpenOptions::new().read(true).write(true).open(&path);
            let mut pipe = open.unwrap();
            pipe.write_all(&vec![b'+'; jobs - 1]).unwrap();
            Self {
                directory,
                pipe,
                jobs,
            }
        }

        /// The variables that Cargo passes to a build script.
        pub(crate) fn env(&self) -> Env {
            let path = self.directory.path().join("jobs");
            let flags = format!("-j --jobserver-auth=fifo:{}", path.display());
            Env::from_pairs([
                ("CARGO_MAKEFLAGS", flags),
                ("NUM_JOBS", self.jobs.to_string()),
            ])
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::jobserver_for_tests::TestJobserver;
    use super::*;

    #[test]
    fn tokens_are_taken_from_a_pipe_and_put_back() {
        let mut jobserver = TestJobserver::new(3);
        let env = jobserver.env().with("NUM_JOBS", "8");
        let workers = Workers::of_cargo(&env);
        // One process needs no token, and two processes take the tokens in the pipe.
        let first = workers.take(0, 8, 9).unwrap();
        let second = workers.take(1, 8, 9).unwrap();
        let third = workers.take(2, 8, 9).unwrap();
        assert_eq!([first.processes, second.processes, third.processes], [1; 3]);
        assert!(workers.take(3, 8, 9).is_none());
        // The first process has ended, so another process needs no token.
        drop(first);
        let fourth = workers.take(2, 8, 9).unwrap();
        assert!(fourth.tokens.is_empty());
        assert!(workers.take(3, 8, 9).is_none());
        drop(second);
        let fifth = workers.take(2, 1, 9).unwrap();
        assert_eq!(fifth.processes, 1, "the other token is still taken");
        drop((third, fourth, fifth));
        let mut left = [0; 3];
        let read = jobserver.pipe.read(&mut left).unwrap();
        assert_eq!(read, 2, "both are back");
    }

    #[test]
    fn without_a_jobserver_one_process_runs() {
        let closed = "-j --jobserver-fds=987,988 --jobserver-auth=987,988";
        for flags in ["", "-j", closed, "-j --jobserver-auth=fifo:/absent"] {
            let env = Env::from_pairs([("NUM_JOBS", "8"), ("CARGO_MAKEFLAGS", flags)]);
            let workers = Workers::of_cargo(&env);
            let permit = workers.take(0, 8, 8).unwrap();
            assert_eq!(permit.processes, 1, "{flags}");
            assert!(workers.take(1, 8, 8).is_none(), "{flags}");
        }
    }

    #[test]
    fn the_last_files_may_use_several_processes() {
        let jobserver = TestJobserver::new(8);
        let workers = Workers::of_cargo(&jobserver.env());
        let processes = |running, ready, max_per_step| {
            let permit = workers.take(running, ready, max_per_step);
            permit.map(|permit| permit.processes)
        };
        assert_eq!(processes(0, 2, 5), Some(4));
        assert_eq!(processes(4, 1, 5), Some(4));
        assert_eq!(processes(0, 1, 1), Some(1), "a step with one image");
        assert_eq!(processes(8, 1, 5), None);
        let one = Workers::of_cargo(&Env::default()).take(0, 5, 5);
        assert_eq!(one.map(|permit| permit.processes), Some(1));
    }

    #[test]
    fn other_flags_give_no_jobserver() {
        for flags in [
            "",
            "-j",
            "--jobserver-auth=-2,-2",
            "--jobserver-auth=0",
            "--jobserver-auth=fifo:/etc/hosts",
        ] {
            assert!(Jobserver::open(flags).is_none(), "{flags}");
        }
    }
}

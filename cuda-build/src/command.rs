//! Command lines. The text of an [`Invocation`] in messages and the process that it starts come from the same fields,
//! so a message shows the command that was started.
//!
//! A program that only prints information (`nvcc --dryrun`, `ptxas --help`) is started as a
//! [query](Invocation::query). A query has a time limit, because a hanging program would otherwise block a build
//! silently. A compiler run has no time limit. Both keep only a limited amount of output in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that starts programs"
)]

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::env::Env;
use crate::error::Error;

/// How long a query may take. nvcc on a slow network disk needs some seconds.
const QUERY_LIMIT: Duration = Duration::from_secs(30);

/// How long a compiler may take: a century, so in practice there is no limit.
const RUN_LIMIT: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// How much of one output stream is kept in memory.
#[derive(Clone, Copy)]
struct OutputLimits {
    /// Bytes from the beginning.
    head: usize,
    /// Bytes from the end.
    tail: usize,
}

/// Only the beginning of a query's output is needed.
const QUERY_OUTPUT: OutputLimits = OutputLimits {
    head: 16 * 1024 * 1024,
    tail: 0,
};

/// A compiler prints its first error at the beginning and its summary at the end.
const RUN_OUTPUT: OutputLimits = OutputLimits {
    head: 256 * 1024,
    tail: 256 * 1024,
};

/// A program to start. Its `Display` text can be pasted into a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The program: an absolute path, or a name on `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables to set on top of the inherited ones.
    pub variables: Vec<(String, OsString)>,
    /// The working directory; `None` for the working directory of this process.
    pub directory: Option<PathBuf>,
}

/// The result of a program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Whether it exited with zero.
    pub success: bool,
    /// Standard output. If it was too long to keep, a line in brackets replaces the omitted part.
    pub stdout: String,
    /// Standard error, shortened in the same way.
    pub stderr: String,
}

impl Finished {
    /// Standard output, then standard error.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Invocation {
    /// A program without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            ..Self::default()
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// The same program, started by a launcher such as ccache.
    #[must_use]
    pub fn behind(mut self, launcher: impl Into<PathBuf>) -> Self {
        let program = std::mem::replace(&mut self.program, launcher.into());
        self.arguments.insert(0, program.into());
        self
    }

    /// Runs a compiler or another program without a time limit. Standard input is empty. The first and the last
    /// 256 KiB of each output stream are kept.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started.
    pub fn run(&self) -> Result<Finished, Error> {
        self.finish(Command::new(&self.program), RUN_LIMIT, RUN_OUTPUT)
    }

    /// Runs a program that only prints information. It inherits the variables of `env` instead of those of this
    /// process. After 30 seconds it is killed, together with the processes that it started. The first 16 MiB of each
    /// output stream are kept.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started or does not end in time.
    pub fn query(&self, env: &Env) -> Result<Finished, Error> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(env.variables());
        self.finish(command, QUERY_LIMIT, QUERY_OUTPUT)
    }

    fn finish(
        &self,
        mut command: Command,
        limit: Duration,
        keep: OutputLimits,
    ) -> Result<Finished, Error> {
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let failed = |reason: String| Error::Program {
            command: self.to_string(),
            reason,
        };
        let not_run = |error: io::Error| failed(error.to_string());
        let mut child = command.spawn().map_err(not_run)?;
        let finished = complete(&mut child, limit, keep).map_err(not_run)?;
        finished.ok_or_else(|| {
            kill_with_descendants(&mut child);
            let seconds = limit.as_secs_f32();
            failed(format!(
                "it did not end within {seconds} seconds and was killed"
            ))
        })
    }
}

/// Reads both streams to their ends and waits for the program; `None` if the time limit is reached.
fn complete(
    child: &mut Child,
    limit: Duration,
    keep: OutputLimits,
) -> io::Result<Option<Finished>> {
    let end = Instant::now() + limit;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Ok(None);
    };
    let open = Arc::new(AtomicUsize::new(2));
    let stdout = read(Box::new(stdout), keep, &open);
    let stderr = read(Box::new(stderr), keep, &open);
    loop {
        // A program that it started can keep the streams open.
        let remaining = end.saturating_duration_since(Instant::now());
        if open.load(Ordering::Acquire) > 0 {
            thread::park_timeout(remaining);
        } else if let Some(status) = child.try_wait()? {
            return Ok(Some(Finished {
                success: status.success(),
                stdout: stdout.join().unwrap_or_default(),
                stderr: stderr.join().unwrap_or_default(),
            }));
        } else {
            // A program can close its streams and keep running.
            thread::sleep(Duration::from_millis(1));
        }
        if remaining.is_zero() {
            return Ok(None);
        }
    }
}

/// Reads a stream to its end in a new thread, which then subtracts one from `open` and unparks this thread.
fn read(
    mut stream: Box<dyn Read + Send>,
    keep: OutputLimits,
    open: &Arc<AtomicUsize>,
) -> JoinHandle<String> {
    let (open, caller) = (Arc::clone(open), thread::current());
    thread::spawn(move || {
        let mut kept = TruncatedOutput {
            keep,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        };
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            kept.push(&buffer[..count]);
        }
        open.fetch_sub(1, Ordering::Release);
        caller.unpark();
        kept.into_text()
    })
}

/// The beginning and the end of a stream.
struct TruncatedOutput {
    keep: OutputLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: usize,
}

impl TruncatedOutput {
    fn push(&mut self, bytes: &[u8]) {
        let room = self.keep.head - self.head.len();
        let (head, tail) = bytes.split_at(bytes.len().min(room));
        self.head.extend(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(self.keep.tail);
        self.tail.drain(..excess);
        self.omitted += excess;
    }

    fn into_text(mut self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted > 0 {
            text.push_str(&format!("\n[{} bytes of output omitted]\n", self.omitted));
        }
        text.push_str(&String::from_utf8_lossy(self.tail.make_contiguous()));
        text
    }
}

/// Kills a hanging program and all its descendants. If only a script were killed, the programs that it started would
/// keep running.
///
/// The program does not get its own process group, so that Ctrl-C in a terminal still ends it.
fn kill_with_descendants(child: &mut Child) {
    let mut processes = vec![child.id().to_string()];
    let mut next = 0;
    while let Some(process) = processes.get(next) {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        next += 1;
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            processes.extend(children.split_whitespace().map(str::to_owned));
        }
    }
    // A shell is used because the standard library can kill only a direct child.
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", "kill -9 \"$@\"", "sh"]).args(&processes);
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let _ = child.kill();
    let _ = child.wait();
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&quoted(self.program.as_os_str()))?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// The word, quoted for a POSIX shell if necessary.
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;

//! Programs as values, printed and started from the same fields.
//!
//! A program that answers a question (`nvcc --dryrun`, `ptxas --help`) is a [query](Invocation::query):
//! it has a time limit, because a program that hangs would otherwise stop a build without a word.
//! A compiler at work has none. The memory for output is limited for both.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that starts programs"
)]

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::env::Env;
use crate::error::Error;

/// How long a query may take. An nvcc on a slow network disk needs some seconds.
const QUERY_LIMIT: Duration = Duration::from_secs(30);

/// How much of one output stream is kept in memory.
#[derive(Clone, Copy)]
struct Keep {
    /// Bytes from the beginning.
    head: usize,
    /// Bytes up to the end.
    tail: usize,
}

/// An answer is read from its beginning.
const QUERY_OUTPUT: Keep = Keep {
    head: 16 * 1024 * 1024,
    tail: 0,
};

/// A compiler prints its first error at the beginning and its summary at the end.
const RUN_OUTPUT: Keep = Keep {
    head: 256 * 1024,
    tail: 256 * 1024,
};

/// A program to start. `Display` can be pasted into a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, absolute or a name on `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables to set on top of the inherited ones.
    pub variables: Vec<(String, OsString)>,
    /// Its working directory; this process's if unset.
    pub directory: Option<PathBuf>,
}

/// The outcome of a program that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Whether it exited with zero.
    pub success: bool,
    /// Standard output. A line in brackets stands for what was too long to keep.
    pub stdout: String,
    /// Standard error, the same.
    pub stderr: String,
}

impl Finished {
    /// Standard output, then standard error.
    #[must_use]
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Invocation {
    /// A program without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            directory: None,
        }
    }

    /// Adds arguments.
    #[must_use]
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

    /// Runs a compiler or another program that works for as long as it needs, without standard
    /// input. Of each output stream the first and the last 256 KiB are kept.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started.
    pub fn run(&self) -> Result<Finished, Error> {
        self.finish(Command::new(&self.program), None, RUN_OUTPUT)
    }

    /// Runs a program that only answers a question. After 30 seconds it is killed, together with
    /// the processes that it started. Of each output stream the first 16 MiB are kept.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started or does not end in time.
    pub fn query(&self) -> Result<Finished, Error> {
        let command = Command::new(&self.program);
        self.finish(command, Some(QUERY_LIMIT), QUERY_OUTPUT)
    }

    /// As [`Invocation::query`], with the variables of `env` instead of those of this process.
    ///
    /// # Errors
    /// As [`Invocation::query`].
    pub fn query_with(&self, env: &Env) -> Result<Finished, Error> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(env.variables());
        self.finish(command, Some(QUERY_LIMIT), QUERY_OUTPUT)
    }

    fn finish(
        &self,
        mut command: Command,
        limit: Option<Duration>,
        keep: Keep,
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
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        match complete(&mut child, limit, keep) {
            Ok((status, [stdout, stderr])) => Ok(Finished {
                success: status.success(),
                stdout,
                stderr,
            }),
            Err(Incomplete::TimeLimit(limit)) => {
                kill_with_descendants(&mut child);
                Err(failed(format!(
                    "it did not end within {} seconds and was killed",
                    limit.as_secs_f32()
                )))
            }
            Err(Incomplete::Wait(error)) => Err(failed(error.to_string())),
        }
    }
}

/// Why a program has no outcome.
enum Incomplete {
    TimeLimit(Duration),
    Wait(std::io::Error),
}

/// Reads both streams to their ends and waits for the program.
fn complete(
    child: &mut Child,
    limit: Option<Duration>,
    keep: Keep,
) -> Result<(ExitStatus, [String; 2]), Incomplete> {
    let deadline = limit.map(|limit| (Instant::now() + limit, limit));
    let (sender, streams) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        read(stdout, 0, keep, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        read(stderr, 1, keep, sender.clone());
    }
    drop(sender);
    let mut texts = [String::new(), String::new()];
    loop {
        let received = match deadline {
            None => streams.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((end, _)) => streams.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        match (received, deadline) {
            (Ok((stream, text)), _) => texts[stream] = text,
            (Err(RecvTimeoutError::Timeout), Some((_, limit))) => {
                return Err(Incomplete::TimeLimit(limit));
            }
            (Err(_), _) => break,
        }
    }
    // A program can close its streams and go on.
    while let Some((end, limit)) = deadline {
        if child.try_wait().map_err(Incomplete::Wait)?.is_some() {
            break;
        }
        if Instant::now() >= end {
            return Err(Incomplete::TimeLimit(limit));
        }
        thread::sleep(Duration::from_millis(1));
    }
    let status = child.wait().map_err(Incomplete::Wait)?;
    Ok((status, texts))
}

/// Reads a stream in a thread of its own, and sends what is kept of it under its number.
fn read(
    mut stream: impl Read + Send + 'static,
    number: usize,
    keep: Keep,
    sender: mpsc::Sender<(usize, String)>,
) {
    thread::spawn(move || {
        let mut kept = Kept::new(keep);
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            kept.push(&buffer[..count]);
        }
        // After the time limit there is no receiver.
        let _ = sender.send((number, kept.into_text()));
    });
}

/// The beginning and the end of a stream.
struct Kept {
    keep: Keep,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: usize,
}

impl Kept {
    fn new(keep: Keep) -> Self {
        Self {
            keep,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

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

/// Kills a program that hangs, and every process below it: a script's child would go on.
///
/// The program stays in this process's group, so that Ctrl-C in a terminal ends both.
fn kill_with_descendants(child: &mut Child) {
    let mut processes = vec![child.id().to_string()];
    let mut next = 0;
    while let Some(process) = processes.get(next).cloned() {
        next += 1;
        for thread in fs::read_dir(format!("/proc/{process}/task"))
            .into_iter()
            .flatten()
        {
            let children =
                thread.and_then(|thread| fs::read_to_string(thread.path().join("children")));
            processes.extend(
                children
                    .iter()
                    .flat_map(|c| c.split_whitespace())
                    .map(str::to_owned),
            );
        }
    }
    // The standard library can kill a direct child only.
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

/// One word for a POSIX shell.
#[must_use]
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

//! Command lines. The text of an [`Invocation`] in messages and the process that it starts come from the same fields,
//! so a message shows the command that was started.
//!
//! A program that only prints information (`nvcc --dryrun`, `ptxas --help`) is started as a
//! [query](Invocation::query). A query has a time limit, because a hanging program would otherwise block a build
//! silently. A compiler run has no time limit.
#![allow(
    clippy::disallowed_methods,
    reason = "the libraries start programs only in this file"
)]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::env::Env;
use crate::error::Error;

/// How long a query may take. nvcc on a slow network disk needs some seconds.
const QUERY_LIMIT: Duration = Duration::from_secs(30);

/// A program to start. Its `Display` text can be pasted into a shell.
#[derive(Clone, Debug, Default)]
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
    /// Its exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
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

    /// Makes the program report in English, because what it prints is read. `LANGUAGE` is empty, because
    /// the C library obeys it before `LC_ALL`, except in the locale `C` itself.
    #[must_use]
    pub fn in_english(self) -> Self {
        self.variable("LC_ALL", "C.UTF-8").variable("LANGUAGE", "")
    }

    /// Runs a compiler or another program without a time limit. Standard input is empty.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started.
    pub fn run(&self) -> Result<Finished, Error> {
        self.finish(Command::new(&self.program), None)
    }

    /// Runs a program that only prints information. It inherits the variables of `env` instead of those of this
    /// process. After 30 seconds it is killed.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started or does not end in time.
    pub fn query(&self, env: &Env) -> Result<Finished, Error> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(env.variables());
        self.finish(command, Some(QUERY_LIMIT))
    }

    fn finish(&self, mut command: Command, limit: Option<Duration>) -> Result<Finished, Error> {
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
        let streams = [read(child.stdout.take()), read(child.stderr.take())];
        let start = Instant::now();
        // A program can close its streams and keep running, and a program that it started can keep them open.
        while let Some(limit) = limit {
            if streams.iter().all(JoinHandle::is_finished)
                && child.try_wait().map_err(not_run)?.is_some()
            {
                break;
            }
            if start.elapsed() > limit {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = limit.as_secs_f32();
                let reason = format!("it did not end within {seconds} seconds and was killed");
                return Err(failed(reason));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let [stdout, stderr] = streams.map(|stream| stream.join().unwrap_or_default());
        let status = child.wait().map_err(not_run)?;
        Ok(Finished {
            success: status.success(),
            code: status.code(),
            stdout,
            stderr,
        })
    }
}

/// Reads a stream to its end in a new thread.
fn read(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is output too.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(directory) = &self.directory {
            write!(f, "cd {} && ", quoted(directory.as_os_str()))?;
        }
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&quoted(self.program.as_os_str()))?;
        let mut arguments = self.arguments.iter();
        arguments.try_for_each(|argument| write!(f, " {}", quoted(argument)))
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

/// The words of a text, split as a POSIX shell does: `-Da='b c' -O2` has two. A quote that is not closed ends with the
/// text.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (' ' | '\t' | '\n', None) => {
                words.extend(word.take());
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                let escaped = characters.next();
                let is_kept = quote.is_some() && !escaped.is_some_and(|c| "$`\"\\".contains(c));
                let kept = is_kept.then_some(c).into_iter();
                word.get_or_insert_default().extend(kept.chain(escaped));
            }
            _ => word.get_or_insert_default().push(c),
        }
        word.get_or_insert_default();
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests;

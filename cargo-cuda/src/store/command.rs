//! Runs installers, and sorts their failures by what the user can do.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file of the store that starts programs"
)]

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cuda_build::Env;
use cuda_build::command::{Invocation, quoted};

use super::StoreError;
use crate::signals;

/// A program to run and its standard input. `Display` can be pasted into a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub invocation: Invocation,
    /// Lines that the program reads from its standard input.
    pub input: Vec<String>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.input.is_empty() {
            f.write_str("printf '%s\\n'")?;
            for line in &self.input {
                write!(f, " {}", quoted(OsStr::new(line)))?;
            }
            f.write_str(" | ")?;
        }
        self.invocation.fmt(f)
    }
}

/// The result of a program.
#[derive(Debug)]
pub(super) struct Finished {
    pub success: bool,
    pub stdout: String,
    /// Both streams line by line, and the signal that ended the program.
    pub transcript: String,
}

/// Why a program has no result.
#[derive(Debug)]
pub(super) enum NotRun {
    CannotStart(io::Error),
    /// By this signal, which this process received. The program has been ended.
    Interrupted(u8),
}

/// Runs a call with the variables of `env` and of the call, and passes each line of output to
/// `on_line` as it comes. A program that reads no lines gets `stdin`, and nothing without it.
///
/// # Errors
/// The program could not be started, or this process received a signal.
pub(super) fn run(
    call: &Call,
    env: &Env,
    stdin: Option<File>,
    mut on_line: impl FnMut(&str),
) -> Result<Finished, NotRun> {
    let Invocation {
        program,
        arguments,
        variables,
        directory,
    } = &call.invocation;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(env.variables())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(match stdin {
            _ if !call.input.is_empty() => Stdio::piped(),
            Some(file) => file.into(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    let mut child = command.spawn().map_err(NotRun::CannotStart)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read all its input reports the reason itself.
        let _ = stdin.write_all((call.input.join("\n") + "\n").as_bytes());
    }
    let (sender, lines) = mpsc::channel();
    if let Some(stream) = child.stdout.take() {
        forward(stream, true, sender.clone());
    }
    if let Some(stream) = child.stderr.take() {
        forward(stream, false, sender);
    }
    let (mut stdout, mut transcript) = (String::new(), String::new());
    loop {
        if let Some(signal) = signals::received() {
            end(&mut child);
            return Err(NotRun::Interrupted(signal));
        }
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok((from_stdout, line)) => {
                on_line(line.trim_end());
                if from_stdout {
                    stdout.push_str(&line);
                }
                transcript.push_str(&line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(NotRun::CannotStart)?;
    // In a terminal, Ctrl-C ends the program before this process sees the signal.
    if let Some(signal) = signals::received() {
        return Err(NotRun::Interrupted(signal));
    }
    if let Some(signal) = ended_by(status) {
        transcript.push_str(&format!("\nended by signal {signal}\n"));
    }
    Ok(Finished {
        success: status.success(),
        stdout,
        transcript,
    })
}

/// Ends a program and waits for that, so that it writes nothing afterwards.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn forward(
    stream: impl Read + Send + 'static,
    from_stdout: bool,
    to: mpsc::Sender<(bool, String)>,
) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if to.send((from_stdout, text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

#[cfg(unix)]
fn ended_by(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn ended_by(_: ExitStatus) -> Option<i32> {
    None
}

/// Why an installer has no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The index answered, and has nothing that fits.
    NoMatch {
        /// The installer's output.
        message: String,
        /// The index does not know the name.
        unknown_name: bool,
    },
    /// Any other failure.
    Failed(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// What uv, pip and the system print if no space is left.
const FULL: &[&str] = &[
    "No space left on device",
    "os error 28)",
    "Disk quota exceeded",
    "os error 122)",
];

const NOT_WRITABLE: &[&str] = &[
    "Permission denied (os error 13)",
    "[Errno 13]",
    "os error 30)",
    "[Errno 30]",
];

const MISMATCH: &[&str] = &["Hash mismatch for", "DO NOT MATCH THE HASHES"];

/// Lower case. pip ends with "no matching distribution" after it could not connect, so these
/// phrases are searched first.
const UNREACHABLE: &[&str] = &[
    "error sending request",
    "failed to fetch",
    "tcp connect error",
    "dns error",
    "request failed after",
    "network connectivity is disabled",
    "network was disabled",
    "failed to establish a new connection",
    "connection broken by",
    "max retries exceeded",
    "read timed out",
    "connection reset by peer",
    "incompleteread",
    "name resolution",
    "certificate_verify_failed",
    "401 unauthorized",
    "403 forbidden",
    "407 proxy",
    "401 client error",
    "403 client error",
    "502 bad gateway",
    "503 service unavailable",
    "end of file before message length reached",
];

const NO_MATCH: &[&str] = &[
    "No solution found",
    "No matching distribution found",
    "ResolutionImpossible",
];

const UNKNOWN_NAME: &[&str] = &[
    "was not found in the package registry",
    "(from versions: none)",
];

/// Sorts an installer's failure by what the user can do. `place` is the directory that it wrote.
pub(super) fn refusal(call: &Call, transcript: &str, place: &Path) -> Refusal {
    let has = |words: &[&str]| words.iter().any(|word| transcript.contains(word));
    let message = summary(transcript);
    if has(FULL) {
        return Refusal::Failed(StoreError::DiskFull {
            path: place.to_owned(),
            message,
        });
    }
    if has(MISMATCH) {
        return Refusal::Failed(StoreError::HashMismatch { message });
    }
    let cut_off = |line: &str| {
        UNREACHABLE
            .iter()
            .any(|word| line.to_lowercase().contains(word))
    };
    if let Some(line) = transcript.lines().rfind(|line| cut_off(line)) {
        // pip prints the cause in a warning, before the error that follows from it.
        let known = message.lines().any(cut_off);
        let message = if known {
            message
        } else {
            format!("{}\n{message}", line.trim())
        };
        return Refusal::Failed(StoreError::Index {
            call: call.to_string(),
            message,
        });
    }
    if has(NO_MATCH) {
        return Refusal::NoMatch {
            message,
            unknown_name: has(UNKNOWN_NAME),
        };
    }
    if has(NOT_WRITABLE) {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, message);
        return Refusal::Failed(StoreError::NotWritable {
            path: place.to_owned(),
            source,
        });
    }
    Refusal::Failed(StoreError::Installer {
        call: call.to_string(),
        message,
    })
}

/// The output from the first line that is an error, or else its last lines.
fn summary(transcript: &str) -> String {
    const MOST: usize = 12;
    let lines: Vec<&str> = transcript
        .lines()
        .map(str::trim_end)
        // pip's own call stack follows.
        .take_while(|line| *line != "Exception information:")
        .filter(|line| !line.is_empty() && !is_bar(line))
        .collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("error") || line.starts_with("ERROR"))
        .unwrap_or(lines.len().saturating_sub(MOST));
    let words: Vec<&str> = lines[start..].iter().take(MOST).copied().collect();
    if words.is_empty() {
        "no output".to_owned()
    } else {
        words.join("\n")
    }
}

/// pip's progress bar.
fn is_bar(line: &str) -> bool {
    line.trim_start()
        .starts_with(['\u{2501}', '\u{2578}', '\u{257a}', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[&str]) -> Call {
        Call {
            invocation: Invocation::new("/bin/sh")
                .args(["-c", script])
                .variable("OWN", "b c"),
            input: input.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    #[test]
    fn can_be_pasted_into_a_shell() {
        let call = shell("read x; printf '%s' \"$x $OWN it's\"", &["a'1", "2"]);
        let pasted = Command::new("/bin/sh")
            .arg("-c")
            .arg(call.to_string())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(pasted.stdout).unwrap(), "a'1 b c it's");
    }

    #[test]
    fn sees_the_given_environment_and_nothing_else() {
        let env = Env::from_pairs([("GIVEN", "1"), ("OWN", "overridden")]);
        let call = shell(
            "echo \"$GIVEN $OWN ${HOME-unset}\"; echo problem >&2; exit 3",
            &[],
        );
        let mut lines = Vec::new();
        let finished = run(&call, &env, None, |line| {
            lines.push(line.to_owned());
        })
        .unwrap();
        assert!(!finished.success);
        assert_eq!(finished.stdout, "1 b c unset\n");
        lines.sort();
        assert_eq!(lines, ["1 b c unset", "problem"]);
    }

    #[test]
    fn a_signal_is_told() {
        let call = shell("kill -9 $$", &[]);
        let finished = run(&call, &Env::default(), None, |_| {}).unwrap();
        assert!(
            finished.transcript.contains("signal 9"),
            "{}",
            finished.transcript
        );
    }

    fn sorted(transcript: &str) -> Refusal {
        let call = Call {
            invocation: Invocation::new("uv"),
            input: Vec::new(),
        };
        refusal(&call, transcript, Path::new("/store/.13.part"))
    }

    fn code(transcript: &str) -> u8 {
        match sorted(transcript) {
            Refusal::Failed(error) => error.exit_code(),
            Refusal::NoMatch { message, .. } => panic!("no match: {message}"),
        }
    }

    // Recorded from uv 0.13 and pip 23.0; names of machines and users replaced.

    #[test]
    fn index_not_reached() {
        let uv = "error: Request failed after 3 retries in 12.1s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/cuda-toolkit/\n  cause: client error (Connect)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n";
        let pip = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f84ce3f3c10>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/cuda-toolkit/\nERROR: Could not find a version that satisfies the requirement cuda-toolkit (from versions: none)\nERROR: No matching distribution found for cuda-toolkit\n";
        assert_eq!(code(uv), crate::store::exit_code::INDEX);
        assert_eq!(code(pip), crate::store::exit_code::INDEX);
        let Refusal::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    #[test]
    fn no_space() {
        let uv = "Resolved 1 package in 35ms\nwarning: Failed to hardlink files; falling back to full copy.\nerror: Failed to install: nvidia_cuda_runtime.whl (nvidia-cuda-runtime==13.4.92)\n  cause: failed to copy file from /c/a to /s/b: No space left on device (os error 28)\n";
        let pip = "  Downloading nvidia_cuda_runtime.whl (2.5 MB)\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n     ━━━━━━━━━━━━━━━━╸                        1.0/2.5 MB 276.9 MB/s eta 0:00:01\n";
        assert_eq!(code(uv), crate::store::exit_code::DISK_FULL);
        assert_eq!(code(pip), crate::store::exit_code::DISK_FULL);
        let Refusal::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(!error.to_string().contains('━'), "{error}");
    }

    #[test]
    fn other_hash() {
        let uv = "error: Failed to download `nvidia-cuda-runtime==13.4.92`\n  cause: Hash mismatch for `nvidia-cuda-runtime==13.4.92`\n\n         Expected:\n           sha256:06\n";
        let pip = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n    nvidia-cuda-runtime==13.4.92 from file:\n        Expected sha256 06\n             Got        96\n";
        assert_eq!(code(uv), crate::store::exit_code::LOCK);
        assert_eq!(code(pip), crate::store::exit_code::LOCK);
    }

    #[test]
    fn nothing_fits() {
        let absent = "error: No solution found when resolving dependencies\n  cause: Because nvidia-cuda-nope was not found in the package registry and you require nvidia-cuda-nope, we can conclude that your requirements are unsatisfiable.\n";
        let uv = "error: No solution found when resolving dependencies\n  cause: Because only cuda-toolkit[cudart]<=13.4.3 is available and you require cuda-toolkit[cudart]==14.*, we can conclude that your requirements are unsatisfiable.\n";
        let pip = "ERROR: Could not find a version that satisfies the requirement cuda-toolkit[cudart]==12.7.* (from versions: 11.8.0, 12.0.0, 13.4.3)\nERROR: No matching distribution found for cuda-toolkit[cudart]==12.7.*\n";
        for (text, unknown) in [(absent, true), (uv, false), (pip, false)] {
            match sorted(text) {
                Refusal::NoMatch { unknown_name, .. } => {
                    assert_eq!(unknown_name, unknown, "{text}");
                }
                Refusal::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn anything_else_keeps_its_words() {
        let Refusal::Failed(error) = sorted("error: No interpreter found\n\nended by signal 9\n")
        else {
            panic!()
        };
        assert_eq!(error.exit_code(), crate::store::exit_code::INSTALLER);
        assert!(
            error.to_string().contains("No interpreter") && error.to_string().contains("signal 9")
        );
    }
}

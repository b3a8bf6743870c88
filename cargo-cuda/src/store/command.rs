//! Calls of other programs as values, and the one place of the store that runs them.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file of the store that starts programs"
)]

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use cuda_build::Env;
use cuda_build::command::{Invocation, quoted};

/// A call and what the program reads. `Display` can be pasted into a shell.
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

/// What a program left behind.
#[derive(Debug)]
pub(super) struct Finished {
    pub success: bool,
    pub stdout: String,
    /// Both streams as they came, line by line, and the signal that ended it, if one did.
    pub transcript: String,
}

/// Runs a call with exactly the variables of `env` and the call's own, and hands each line of
/// output to `on_line` as it comes.
///
/// # Errors
/// The program could not be started or its output not be read.
pub(super) fn run(call: &Call, env: &Env, mut on_line: impl FnMut(&str)) -> io::Result<Finished> {
    let stdin = if call.input.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    };
    let mut child = Command::new(&call.invocation.program)
        .args(&call.invocation.arguments)
        .env_clear()
        .envs(env.variables())
        .envs(
            call.invocation
                .variables
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input to the end says itself what is wrong.
        let _ = stdin.write_all((call.input.join("\n") + "\n").as_bytes());
    }
    let (sender, lines) = mpsc::channel();
    let readers = [
        child
            .stdout
            .take()
            .map(|stream| forward(stream, true, sender.clone())),
        child
            .stderr
            .take()
            .map(|stream| forward(stream, false, sender)),
    ];
    let (mut stdout, mut transcript) = (String::new(), String::new());
    for (from_stdout, line) in lines {
        on_line(line.trim_end());
        if from_stdout {
            stdout.push_str(&line);
        }
        transcript.push_str(&line);
    }
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    let status = child.wait()?;
    if let Some(signal) = ended_by(status) {
        transcript.push_str(&format!("\nended by signal {signal}\n"));
    }
    Ok(Finished {
        success: status.success(),
        stdout,
        transcript,
    })
}

fn forward(
    stream: impl Read + Send + 'static,
    from_stdout: bool,
    to: mpsc::Sender<(bool, String)>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            if to
                .send((from_stdout, String::from_utf8_lossy(&line).into_owned()))
                .is_err()
            {
                return;
            }
            line.clear();
        }
    })
}

#[cfg(unix)]
fn ended_by(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn ended_by(_: ExitStatus) -> Option<i32> {
    None
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
        let finished = run(&call, &env, |line| lines.push(line.to_owned())).unwrap();
        assert!(!finished.success);
        assert_eq!(finished.stdout, "1 b c unset\n");
        lines.sort();
        assert_eq!(lines, ["1 b c unset", "problem"]);
    }

    #[test]
    fn a_signal_is_told() {
        let finished = run(&shell("kill -9 $$", &[]), &Env::default(), |_| {}).unwrap();
        assert!(
            finished.transcript.contains("signal 9"),
            "{}",
            finished.transcript
        );
    }
}

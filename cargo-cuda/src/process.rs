//! Runs other programs with the standard streams of this process.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate makes commands only here; `Invocation::run` and `query` start theirs themselves"
)]

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_find_core::{command::Invocation, env::Env};
use serde::Deserialize;

use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::{output, progress, signals};

/// Runs a program to its end and returns its exit code: 128 plus the signal's number, as in a shell, if a signal ended
/// it.
pub fn run(call: &Invocation, env: &Env) -> Result<u8> {
    print_call(call);
    let status = progress::shown_while(call, env, |call| wait_for(call, &mut command(call, env)));
    Ok(exit_code_of(status?))
}

/// As [`run`] for cargo, and returns what it writes to standard error, which is shown at once. Cargo writes to a pipe,
/// so variables request the colours and the progress of a terminal.
pub fn run_with_messages(call: &Invocation, env: &Env) -> Result<(u8, String)> {
    print_call(call);
    let call = with_terminal_variables(call, env);
    progress::shown_while(&call, env, |call| {
        let mut command = command(call, env);
        relay_messages(call, &mut command, Stdio::inherit())
    })
}

/// As [`run_with_messages`] for a call of cargo that builds what another call starts. Cargo shows the warnings of a
/// compiler in both calls, so they are shown here only if the build fails.
pub fn run_before_program(call: &Invocation, env: &Env) -> Result<(u8, String)> {
    print_call(call);
    let format = match output::stderr_has_colour() {
        true => "json-diagnostic-rendered-ansi",
        false => "json",
    };
    let call = with_terminal_variables(call, env).args(["--message-format", format]);
    progress::shown_while(&call, env, |call| {
        let Ok((reader, writer)) = io::pipe() else {
            return relay_messages(call, &mut command(call, env), Stdio::null());
        };
        let diagnostics = thread::spawn(move || show_diagnostics(reader));
        let mut command = command(call, env);
        let (code, mut messages) = relay_messages(call, &mut command, writer.into())?;
        // The command holds the other end of the pipe.
        drop(command);
        let diagnostics = diagnostics.join().unwrap_or_default();
        if code != 0 {
            show(&diagnostics.held);
        }
        messages.push_str(&diagnostics.all);
        Ok((code, messages))
    })
}

/// What compilers report, as Cargo prints it in JSON.
#[derive(Default)]
struct Diagnostics {
    all: String,
    /// Warnings that were not shown yet.
    held: String,
}

/// Shows the errors in the lines of a stream, with the warnings before them. Later warnings are held.
fn show_diagnostics(reader: io::PipeReader) -> Diagnostics {
    #[derive(Deserialize)]
    struct Line {
        message: Option<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        level: String,
        rendered: Option<String>,
    }
    let mut diagnostics = Diagnostics::default();
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        let parsed = serde_json::from_str::<Line>(&line).ok();
        let Some(message) = parsed.and_then(|line| line.message) else {
            continue;
        };
        let rendered = message.rendered.unwrap_or_default();
        diagnostics.all.push_str(&rendered);
        diagnostics.held.push_str(&rendered);
        if message.level.starts_with("error") {
            show(&std::mem::take(&mut diagnostics.held));
        }
    }
    diagnostics
}

fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn with_terminal_variables(call: &Invocation, env: &Env) -> Invocation {
    let bar = output::stderr_width().map(|width| {
        let width = ("CARGO_TERM_PROGRESS_WIDTH", width.to_string());
        [width, ("CARGO_TERM_PROGRESS_WHEN", "always".to_owned())]
    });
    let colour = output::stderr_has_colour().then(|| ("CARGO_TERM_COLOR", "always".to_owned()));
    let settings = bar.into_iter().flatten().chain(colour);
    let mut call = call.clone();
    for (name, value) in settings.filter(|(name, _)| env.peek(name).is_none()) {
        call = call.variable(name, value);
    }
    call
}

/// Runs a command to its end, and returns its exit code and what it wrote to standard error, which is shown at once.
fn relay_messages(call: &Invocation, command: &mut Command, stdout: Stdio) -> Result<(u8, String)> {
    command.stdout(stdout);
    let Ok((reader, writer)) = io::pipe() else {
        let status = wait_for(call, command)?;
        return Ok((exit_code_of(status), String::new()));
    };
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || relay(reader, &sender));
    let status = wait_for(call, command.stderr(writer));
    // Otherwise the stream would have no end.
    command.stderr(Stdio::null());
    let status = status?;
    // A program in the background may keep the stream open.
    let end = Instant::now() + Duration::from_secs(1);
    let mut messages = Vec::new();
    let time_left = || end.saturating_duration_since(Instant::now());
    while let Ok(part) = receiver.recv_timeout(time_left()) {
        messages.extend(part);
    }
    let messages = String::from_utf8_lossy(&messages).into_owned();
    Ok((exit_code_of(status), messages))
}

/// Copies a stream to standard error and to `sender` until the stream ends.
fn relay(mut reader: io::PipeReader, sender: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        let _ = io::stderr().write_all(&buffer[..length]);
        let _ = sender.send(buffer[..length].to_vec());
    }
}

/// As [`run`], for commands of cargo that start a program of the user, which is built. The program decides how it reacts
/// to a signal, and inherits no variable for the progress of build scripts.
pub fn run_program(call: &Invocation, env: &Env) -> Result<u8> {
    print_call(call);
    signals::leave_to_program();
    let status = wait_for(call, &mut command(call, env))?;
    signals::program_ended(status.signal());
    Ok(exit_code_of(status))
}

/// Runs a program with the streams of this process, and returns its exit code.
pub fn run_in_place(call: &Invocation, env: &Env) -> Result<u8> {
    let status = wait_for(call, &mut command(call, env))?;
    Ok(exit_code_of(status))
}

/// Starts a command that was made for `call`, and waits for its end.
pub fn wait_for(call: &Invocation, command: &mut Command) -> Result<ExitStatus> {
    let status = signals::start(command).and_then(|mut child| signals::wait(&mut child));
    status.map_err(|error| cannot_start(call, &error))
}

fn exit_code_of(status: ExitStatus) -> u8 {
    let code = status.signal().map(|signal| 128 + signal).or(status.code());
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(exit_code::FAILURE)
}

/// Replaces this process with a program. The program then receives the signals, and its exit code is
/// that of this process. Returns only if the program cannot be started.
pub fn replace(call: &Invocation, env: &Env) -> Result<u8> {
    print_call(call);
    Err(cannot_start(call, &command(call, env).exec()))
}

/// The user's cargo with these first arguments.
pub fn cargo(user_env: &Env, words: &[&str]) -> Invocation {
    let cargo = user_env.peek("CARGO").unwrap_or("cargo".as_ref());
    Invocation::new(cargo).args(words)
}

/// With `--verbose`, prints the command without its variables, which `cargo cuda env` prints.
pub fn print_call(call: &Invocation) {
    if output::is_verbose() {
        let mut call = call.clone();
        call.variables.clear();
        output::status("Running", &format!("`{call}`"));
    }
}

/// The first program of this name on `PATH`. Relative directories are left out, because some programs are started in
/// another directory than this one.
pub fn on_path(env: &Env, name: &str) -> Option<PathBuf> {
    let directories = env.search_path().into_iter();
    let absolute = std::env::join_paths(directories.filter(|directory| directory.is_absolute()));
    which::which_in_global(name, absolute.ok()).ok()?.next()
}

/// The standard output of a query such as `--version`; `None` if the program fails, hangs or cannot
/// be started.
pub fn stdout_of(call: &Invocation, env: &Env) -> Option<String> {
    let finished = call.query(env).ok()?;
    finished.success.then_some(finished.stdout)
}

/// The command for `call`. Its environment is `env` with the variables of `call` on top.
pub fn command(call: &Invocation, env: &Env) -> Command {
    let mut command = Command::new(&call.program);
    command
        .args(&call.arguments)
        .env_clear()
        .envs(env.variables())
        .envs(call.variables.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &call.directory {
        command.current_dir(directory);
    }
    command
}

pub fn cannot_start(call: &Invocation, error: &io::Error) -> Failure {
    let program = call.program.display();
    let text = format!("could not run `{program}`: {error}");
    Failure::missing_program(text)
        .hint("install it, or put its directory on `PATH`; the file must be executable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_in_absolute_directories() {
        let on_path = |path: &str| on_path(&Env::from_pairs([("PATH", path)]), "sh");
        assert_eq!(on_path("../bin:/etc:/bin"), Some("/bin/sh".into()));
        assert_eq!(on_path("../../../../../../../../bin:.::"), None);
    }
}

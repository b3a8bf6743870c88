//! Runs installers: their environment, their output, and signals to this process.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file of the store that starts programs"
)]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{PathBuf, absolute};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cuda_build::internal::command::{Invocation, quoted};
use cuda_build::internal::{Env, Root};

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

/// The absolute directories of `PATH`. A relative one is another one in each repository.
pub(super) fn search_path(env: &Env) -> OsString {
    let directories = env.search_path().into_iter();
    std::env::join_paths(directories.filter(|directory| directory.is_absolute()))
        .unwrap_or_default()
}

/// The options that pip may read from `PIP_<OPTION>`: they name the origin of packages. It would
/// read every other option too, such as `PIP_TARGET`.
const PIP_KEPT: &[&str] = &[
    "CACHE_DIR",
    "CERT",
    "CLIENT_CERT",
    "CONFIG_FILE",
    "CONSTRAINT",
    "DEFAULT_TIMEOUT",
    "EXTRA_INDEX_URL",
    "FIND_LINKS",
    "INDEX_URL",
    "KEYRING_PROVIDER",
    "NO_CACHE_DIR",
    "NO_INDEX",
    "PROXY",
    "RESUME_RETRIES",
    "RETRIES",
    "TIMEOUT",
    "TRUSTED_HOST",
    "UPLOADED_PRIOR_TO",
    "USE_DEPRECATED",
    "USE_FEATURE",
];

/// Variables of uv that name what, how and where to install.
const UV_DROPPED: &[&str] = &[
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_COMPILE_BYTECODE",
    "UV_CUSTOM_COMPILE_COMMAND",
    "UV_LINK_MODE",
    "UV_NO_BINARY",
    "UV_NO_BUILD",
    "UV_NO_VERIFY_HASHES",
    "UV_ONLY_BINARY",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_PROJECT",
    "UV_PYTHON",
    "UV_REQUIRE_HASHES",
    "UV_RESOLUTION",
    "UV_SYSTEM_PYTHON",
    "UV_TORCH_BACKEND",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
];

/// Settings that pip and uv also read from configuration files, which variables override.
const OVERRIDES: &[(&str, &str)] = &[
    ("NO_COLOR", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_DRY_RUN", "0"),
    ("PIP_FORCE_REINSTALL", "0"),
    ("PIP_NO_DEPS", "0"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_PRE", "0"),
    ("PIP_QUIET", "0"),
    ("PIP_REQUIRE_HASHES", "0"),
    ("PIP_REQUIRE_VIRTUALENV", "0"),
    ("PIP_UPGRADE", "0"),
    ("PIP_USER", "0"),
    ("PIP_VERBOSE", "0"),
    ("UV_NO_PROGRESS", "1"),
];

/// Variables that hold one path.
const PATHS: &[&str] = &[
    "CURL_CA_BUNDLE",
    "NETRC",
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SSL_CLIENT_CERT",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_CREDENTIALS_DIR",
    "UV_PYTHON_INSTALL_DIR",
];

/// Variables that hold paths or addresses, separated by blanks or commas.
const LISTS: &[&str] = &[
    "PIP_CONSTRAINT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "UV_CONSTRAINT",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_URL",
];

/// The environment of an installer: without settings of how and where to install, and with
/// absolute paths, because the installer starts in another directory.
pub(super) fn settings(env: &Env) -> Env {
    let kept = env.variables().filter(|(name, _)| {
        let Some(name) = name.to_str() else {
            return true;
        };
        match name.strip_prefix("PIP_") {
            Some(option) => PIP_KEPT
                .iter()
                .any(|kept| option.eq_ignore_ascii_case(kept)),
            None => !UV_DROPPED.contains(&name),
        }
    });
    let overrides = OVERRIDES
        .iter()
        .map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
    Env::from_pairs(kept.chain(overrides).map(|(name, value)| {
        let is_one_of = |names: &[&str]| names.iter().any(|one| name == OsStr::new(one));
        let value = match value.to_str() {
            Some(list) if is_one_of(LISTS) => absolute_items(list).into(),
            _ if is_one_of(PATHS) && !value.is_empty() => {
                absolute(value).map_or_else(|_| value.to_owned(), PathBuf::into_os_string)
            }
            _ => value.to_owned(),
        };
        (name.to_owned(), value)
    }))
}

/// A list whose items that are files or directories here have absolute paths: `wheels
/// name=../index https://…`.
fn absolute_items(list: &str) -> String {
    let item = |item: &str| {
        if item.contains("://") {
            return item.to_owned();
        }
        let end = item.trim_end_matches([' ', '\t', '\n', ',']);
        // uv's indexes may have names.
        let (name, place) = end.split_once('=').unwrap_or(("", end));
        match absolute(place) {
            Ok(path) if !place.is_empty() && Root::system().exists(&path) => {
                let equals = if name.is_empty() { "" } else { "=" };
                format!("{name}{equals}{}{}", path.display(), &item[end.len()..])
            }
            _ => item.to_owned(),
        }
    };
    list.split_inclusive([' ', '\t', '\n', ','])
        .map(item)
        .collect()
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

    fn of(pairs: &[(&str, &str)], name: &str) -> Option<String> {
        let env = settings(&Env::from_pairs(pairs.iter().copied()));
        env.peek(name)
            .map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn where_packages_come_from_is_kept() {
        for (name, value) in [
            ("PIP_INDEX_URL", "https://a:b@index.invalid/simple?a=b"),
            ("PIP_NO_INDEX", "1"),
            ("PIP_PROXY", "http://proxy.invalid"),
            ("PIP_CERT", "/etc/ca.pem"),
            ("UV_DEFAULT_INDEX", "https://index.invalid/simple"),
            ("UV_INDEX_CORP_PASSWORD", "secret"),
            ("UV_EXCLUDE_NEWER", "2026-11-10"),
            ("HTTPS_PROXY", "http://proxy.invalid"),
            ("HOME", "/home/a"),
        ] {
            assert_eq!(of(&[(name, value)], name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn how_and_where_to_install_is_not_kept() {
        for name in [
            "PIP_TARGET",
            "PIP_PREFIX",
            "PIP_ROOT",
            "PIP_LOG",
            "PIP_REPORT",
            "PIP_PLATFORM",
            "PIP_target",
            "UV_LINK_MODE",
            "UV_COMPILE_BYTECODE",
            "UV_PYTHON",
        ] {
            assert_eq!(of(&[(name, "1")], name), None, "{name}");
        }
        for name in [
            "PIP_USER",
            "PIP_DRY_RUN",
            "PIP_VERBOSE",
            "PIP_REQUIRE_HASHES",
        ] {
            assert_eq!(of(&[(name, "1")], name).as_deref(), Some("0"), "{name}");
        }
    }

    #[test]
    fn a_relative_path_keeps_its_meaning() {
        // A directory of this package: tests start in the package.
        let here = absolute("src").unwrap();
        let here = here.to_str().unwrap();
        for (name, given, expected) in [
            (
                "PIP_FIND_LINKS",
                "src https://a.invalid/b",
                format!("{here} https://a.invalid/b"),
            ),
            (
                "UV_FIND_LINKS",
                "https://a.invalid/b,src",
                format!("https://a.invalid/b,{here}"),
            ),
            ("UV_INDEX", "corp=src", format!("corp={here}")),
            ("UV_INDEX_URL", "absent", "absent".to_owned()),
            ("PIP_CERT", "src", here.to_owned()),
            ("UV_CACHE_DIR", "src/cache", format!("{here}/cache")),
        ] {
            assert_eq!(of(&[(name, given)], name), Some(expected), "{name}");
        }
    }

    #[test]
    fn programs_are_searched_in_absolute_directories() {
        let env = Env::from_pairs([("PATH", "bin:/usr/bin:.::/bin")]);
        assert_eq!(search_path(&env), "/usr/bin:/bin");
    }
}

//! Runs uv or pip, as the user has configured them.
//!
//! The user's index, proxy, certificates and credentials apply. Settings in the current directory,
//! and settings of how and where to install, are ignored, because fetched packages go to a store
//! that all projects share. Installers start in a new directory, because in the current directory
//! `python -m pip` would run a `pip.py`, and uv would use a `.venv`. The new directory has an empty
//! `uv.toml`, so that uv does not search parent directories for one.
#![allow(
    clippy::disallowed_methods,
    reason = "the store starts programs only in this module"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

use cuda_build::Version;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Target};
use rustix::io::Errno;
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;

use super::Progress;
use super::answers::{parse_compiled, parse_report, requirements_file};
use super::directory::{StagingDirectory, failed, read, write};
use super::downloads::{Downloads, Line, without_escapes};
use super::package::Package;
use super::refusal::{InstallerError, installer_failed, refusal, unreachable};
use super::settings::{search_path, settings};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;
use crate::signals;

/// The first pip with `--dry-run` and `--report`.
const OLDEST_PIP: &str = "22.2";

/// A program that resolves and fetches Python packages.
#[derive(Debug)]
pub(super) struct Installer {
    kind: Kind,
    /// `uv`, `pip` or `pip3`, or Python with the arguments `-m pip`.
    program: Invocation,
    env: Env,
    /// The directory in which the program starts.
    directory: TempDir,
    /// The platform whose files to fetch, as uv names it; `None` for this machine.
    platform: Option<String>,
}

/// Whether uv may use its cache. uv hard-links files from its cache, so if a stored file is damaged,
/// the file in the cache is damaged too, and the next fetch has to bypass the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    Use,
    Bypass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uv,
    Pip,
}

/// What an installer writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Pipe,
    /// A pseudo-terminal, on which uv and pip draw progress bars. It is wide and high enough for all of them.
    Terminal,
}

impl Output {
    /// The end that this program reads, and the end for the installer. A sandbox may have no pseudo-terminals; the
    /// installer then gets a pipe.
    fn open(self) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        if self == Self::Terminal
            && let Ok((reader, writer)) = Self::open_terminal()
        {
            return Ok((self, reader, writer));
        }
        let (reader, writer) = io::pipe()?;
        Ok((Self::Pipe, reader.into(), writer.into()))
    }

    fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let reader = pty::openpt(flags)?;
        pty::grantpt(&reader)?;
        pty::unlockpt(&reader)?;
        let writer = pty::ioctl_tiocgptpeer(&reader, flags)?;
        let size = Winsize {
            ws_row: 100,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&writer, size)?;
        Ok((reader, writer))
    }
}

/// Passes on each line, which ends with a line feed or a carriage return. Empty lines are left out.
fn read_lines(stream: OwnedFd, mut on_line: impl FnMut(&str)) -> io::Result<()> {
    let mut stream = File::from(stream);
    let (mut buffer, mut line) = ([0; 8192], Vec::new());
    let mut end = |line: &mut Vec<u8>| {
        let text = without_escapes(&String::from_utf8_lossy(line));
        if !text.trim().is_empty() {
            on_line(text.trim_end());
        }
        line.clear();
    };
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A pseudo-terminal ends with this error.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => 0,
            Err(error) => return Err(error),
        };
        for &byte in &buffer[..count] {
            match byte {
                b'\n' | b'\r' => end(&mut line),
                _ => line.push(byte),
            }
        }
        if count == 0 {
            end(&mut line);
            return Ok(());
        }
    }
}

/// Excludes source distributions, because building one runs its code. NVIDIA publishes wheels.
const WHEELS_ONLY: [&str; 2] = ["--only-binary", ":all:"];

/// Overrides pip's configuration files, so that pip installs only into `--target`.
const TARGET_ONLY: [&str; 3] = ["--prefix=", "--root=/", "--log=/dev/null"];

impl Installer {
    /// The first usable program on `PATH` of `uv`, `python3 -m pip`, `python -m pip`, `pip3` and `pip`.
    pub fn find(env: &Env) -> Result<Self, Failure> {
        let path = search_path(env);
        let mut message = "found no program that can fetch CUDA components".to_owned();
        for shown in ["uv", "python3 -m pip", "python -m pip", "pip3", "pip"] {
            let mut words = shown.split(' ');
            let name = words.next().unwrap_or_default();
            let mut found = which::which_in_global(name, Some(&path))
                .into_iter()
                .flatten();
            let Some(program) = found.next() else {
                message.push_str(&format!("\n  tried `{shown}`: not on `PATH`"));
                continue;
            };
            let kind = if name == "uv" { Kind::Uv } else { Kind::Pip };
            let installer = Self::new(kind, Invocation::new(program).args(words), env)?;
            let Some(reason) = installer.unusable() else {
                return Ok(installer);
            };
            let program = installer.program.program.display();
            message.push_str(&format!("\n  tried `{shown}` ({program}): {reason}"));
        }
        Err(Failure::new(exit_code::NO_INSTALLER, message).hint(
            "install uv, or Python's pip 22.2 or newer (`apt install python3-pip`, `dnf install python3-pip`), \
             and make sure that it is on `PATH`",
        ))
    }

    fn new(kind: Kind, program: Invocation, env: &Env) -> Result<Self, Failure> {
        let temporary = absolute(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
        let directory = tempfile::Builder::new()
            .prefix("cargo-cuda-")
            .tempdir_in(&temporary)
            .map_err(failed("create a directory in", &temporary))?;
        write(&directory.path().join("uv.toml"), "")?;
        Ok(Self {
            kind,
            program: Invocation {
                directory: Some(directory.path().to_owned()),
                ..program
            },
            env: settings(env),
            directory,
            platform: None,
        })
    }

    /// Why this program cannot be used; `None` if it can. Every version of uv can be used.
    fn unusable(&self) -> Option<String> {
        if self.kind == Kind::Uv {
            return None;
        }
        let query = self.program.clone().args(["--version"]);
        let finished = match query.query(&self.env) {
            Ok(finished) => finished,
            Err(cuda_build::Error::Program { reason, .. }) => return Some(reason),
            Err(error) => return Some(error.to_string()),
        };
        let output = finished.output();
        let first = printable(output.lines().next().unwrap_or_default());
        if !finished.success {
            return first.rsplit(": ").next().map(str::to_owned);
        }
        let version = first.split_whitespace().nth(1).unwrap_or_default();
        let Ok(version) = version.parse::<Version>() else {
            return Some(format!("prints `{first}` instead of its version"));
        };
        let is_old = OLDEST_PIP.parse().is_ok_and(|oldest| version < oldest);
        is_old.then(|| format!("{version} is older than {OLDEST_PIP}"))
    }

    /// The same program, for the files of another platform.
    pub fn for_target(mut self, target: Option<&Target>) -> Result<Self, Failure> {
        if target.is_some() && self.kind == Kind::Pip {
            let text = "only uv fetches for another platform: pip records the hashes of this machine's files alone";
            return Err(Failure::new(exit_code::NO_INSTALLER, text).hint("install uv"));
        }
        let architecture = target.and_then(|target| target.triple().split('-').next());
        self.platform = architecture.map(|architecture| format!("{architecture}-manylinux_2_28"));
        Ok(self)
    }

    /// The name for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Uv => "uv",
            Kind::Pip => "pip",
        }
    }

    /// Runs a call to its end, and passes each line of output to `on_line` as it arrives, without escape sequences.
    /// Returns whether the call succeeded, and the lines for which `on_line` returned true. The child inherits `lock`.
    fn run(
        &self,
        call: &Invocation,
        lock: Option<&File>,
        output: Output,
        mut on_line: impl FnMut(&str) -> bool,
    ) -> Result<(bool, String), Failure> {
        let mut run = || -> io::Result<_> {
            let (output, stream, writer) = output.open()?;
            let mut command = Command::new(&call.program);
            command
                .args(&call.arguments)
                .env_clear()
                .envs(self.env.variables())
                .envs(call.variables.iter().map(|(name, value)| (name, value)))
                .current_dir(&self.directory)
                .stdin(match lock {
                    Some(lock) => lock.try_clone()?.into(),
                    None => Stdio::null(),
                })
                .stdout(writer.try_clone()?)
                .stderr(writer);
            if output == Output::Terminal {
                command.env("TERM", "xterm").env("UV_NO_PROGRESS", "0");
            }
            let mut child = command.spawn()?;
            // `command` holds copies of the writing end. The stream ends only when all are closed.
            drop(command);
            let mut kept = String::new();
            read_lines(stream, |line| {
                if on_line(line) {
                    kept.push_str(line);
                    kept.push('\n');
                }
            })?;
            Ok((child.wait()?, kept))
        };
        let (status, mut output) = run().map_err(|error| installer_failed(call, error))?;
        // The signal was passed on to the installer too, so the installer's own error is not reported.
        if let Some(signal) = signals::received() {
            let text = "what was fetched so far has been removed";
            return Err(Failure::new(
                exit_code::FAILURE,
                format!("interrupted by signal {signal}; {text}"),
            )
            .hint("run the same command to fetch it again"));
        }
        if let Some(signal) = status.signal() {
            output.push_str(&format!("\nended by signal {signal}\n"));
        }
        Ok((status.success(), output))
    }

    /// The call that resolves requirements and writes the result to the file `answer`. It installs
    /// nothing.
    fn resolve_call(&self, requirements: &[String], answer: &Path) -> Invocation {
        let program = self.program.clone();
        let call = match self.kind {
            Kind::Uv => program
                .args(["pip", "compile", "--generate-hashes", "--no-header"])
                .args(["--no-annotate", "requirements.in", "--output-file"])
                .args([answer])
                .args(self.python()),
            Kind::Pip => program
                // Without `-vv`, pip prints the same message for an unknown name and for an index
                // that it could not reach.
                .args(["install", "--dry-run", "--ignore-installed", "-vv"])
                .args([
                    OsStr::new("--report"),
                    answer.as_os_str(),
                    OsStr::new("--target"),
                ])
                // A dry run writes nothing to the target, but Debian's pip 23.0 refuses to run without
                // `--target`.
                .args([self.directory.path().join("target")])
                .args(TARGET_ONLY)
                .args(requirements),
        };
        call.args(WHEELS_ONLY)
    }

    /// `--system`, unless the user has activated a virtual environment. Without the option, uv would run
    /// the Python of a `.venv` in a parent directory.
    fn python(&self) -> Option<&'static str> {
        self.env.peek("VIRTUAL_ENV").is_none().then_some("--system")
    }

    /// Exact versions with hashes for `requirements`, and for everything they require.
    pub fn resolve(&self, requirements: &[String]) -> Result<Vec<Package>, InstallerError> {
        let place = self.directory.path();
        let answer = tempfile::Builder::new()
            .suffix(".txt")
            .tempfile_in(place)
            .map_err(failed("create a file in", place))?;
        let answer = answer.path();
        write(&place.join("requirements.in"), &requirements.join("\n"))?;
        let call = self.resolve_call(requirements, answer);
        let shown = match self.kind {
            Kind::Uv => format!("{call}, with the requirements {}", requirements.join(" ")),
            Kind::Pip => call.to_string(),
        };
        let (success, output) = self.run(&call, None, Output::Pipe, |_| true)?;
        if !success {
            return Err(refusal(&shown, &output, place));
        }
        let text = read(answer).map_err(failed("read", answer))?;
        let text = text.unwrap_or_default();
        let packages = match self.kind {
            Kind::Uv => parse_compiled(&text),
            Kind::Pip => parse_report(&text),
        };
        packages.map_err(|reason| {
            let reason = format!("its output could not be parsed: {reason}");
            InstallerError::Failed(installer_failed(&shown, reason))
        })
    }

    /// The call that fetches exactly the packages of a requirements file.
    fn install_call(
        &self,
        requirements: &Path,
        part: &StagingDirectory,
        cache: Cache,
    ) -> Invocation {
        let program = self.program.clone();
        let call = match self.kind {
            Kind::Uv => program
                // Symbolic links into uv's cache would dangle after `uv cache clean`.
                .args(["pip", "install", "--link-mode", "hardlink"])
                .args(self.python())
                .args(
                    self.platform
                        .iter()
                        .flat_map(|it| ["--python-platform", it]),
                )
                .args((cache == Cache::Bypass).then_some("--no-cache")),
            Kind::Pip => program.args(["install"]).args(TARGET_ONLY),
        };
        call.args(["--no-deps", "--require-hashes", "--no-compile"])
            .args(WHEELS_ONLY)
            .args([
                OsStr::new("-r"),
                requirements.as_os_str(),
                OsStr::new("--target"),
            ])
            .args([part.site()])
            // pip unpacks into TMPDIR first, and moves the files to the target. Here the move is a rename
            // in one file system, and there is enough space: `/tmp` is often too small for a toolkit.
            .variable("TMPDIR", part.path("tmp"))
            // The requirements are exact versions, so the user's constraints have no use here. They have no
            // hashes, which `--require-hashes` needs.
            .variable("PIP_CONSTRAINT", "")
            .variable("UV_CONSTRAINT", "")
    }

    /// Fetches exactly these packages into a staging directory, and checks their hashes. Returns the bytes that were
    /// downloaded, as far as the installer reports them. The
    /// installer inherits the lock, so that no other process removes the staging directory before
    /// the installer has ended.
    pub fn install(
        &self,
        packages: &[&Package],
        part: &StagingDirectory,
        lock: &File,
        cache: Cache,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let requirements = part.path("requirements.txt");
        write(&requirements, &requirements_file(packages))?;
        let call = self.install_call(&requirements, part, cache);
        let output = match progress.is_on_terminal() {
            true => Output::Terminal,
            false => Output::Pipe,
        };
        let mut downloads = Downloads::new(packages);
        let (success, output) = self.run(&call, Some(lock), output, |line| {
            let line = downloads.read(line);
            match line {
                Line::Begin => progress.download_begins(&downloads),
                Line::Bar => progress.download_continues(&downloads, self.kind == Kind::Uv),
                Line::Other => {}
            }
            line != Line::Bar
        })?;
        part.tidy();
        if success {
            return Ok(downloads.total());
        }
        let call = call.to_string();
        Err(match refusal(&call, &output, &part.site()) {
            InstallerError::Failed(failure) => failure,
            InstallerError::NoMatch { message, .. } => {
                let text = "a package that was resolved is not in the index:";
                unreachable(&call, &format!("{text}\n{message}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory::Store;
    use super::*;

    #[test]
    fn no_call_names_an_index() {
        for kind in [Kind::Uv, Kind::Pip] {
            let installer = Installer::new(kind, Invocation::new("x"), &Env::default()).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let cache = [("CUDA_BUILD_CACHE_DIR", directory.path())];
            let store = Store::open(&Env::from_pairs(cache), "toolkits").unwrap();
            let _lock = store.lock(&Progress::new()).unwrap();
            let part = store.part().unwrap();
            let calls = [
                installer.resolve_call(&["cuda-toolkit==13.*".to_owned()], Path::new("a")),
                installer.install_call(Path::new("r"), &part, Cache::Use),
            ];
            for call in calls {
                let text = call.to_string();
                assert!(!text.contains("index") && !text.contains("://"), "{text}");
            }
        }
    }

    #[test]
    fn nothing_on_path_is_an_error_with_all_that_was_tried() {
        let error = Installer::find(&Env::from_pairs([("PATH", "/nonexistent")])).unwrap_err();
        let text = error.to_string();
        for name in ["`uv`", "`python3 -m pip`", "`pip`"] {
            assert!(text.contains(name), "{text}");
        }
        assert_eq!(error.code, exit_code::NO_INSTALLER);
    }
}

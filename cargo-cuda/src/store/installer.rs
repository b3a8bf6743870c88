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
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

use cuda_build::Version;
use cuda_build::internal::Env;
use cuda_build::internal::command::Invocation;
use serde_json::Value;
use tempfile::TempDir;

use super::Progress;
use super::directory::{StagingDirectory, failed, read, write};
use super::package::{Package, Sha256, normal_name};
use super::refusal::{InstallerError, installer_failed, printable, refusal, unreachable};
use super::settings::{search_path, settings};
use crate::exit_code;
use crate::failure::Failure;
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

    /// The name for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Uv => "uv",
            Kind::Pip => "pip",
        }
    }

    /// Runs a call to its end, and passes each line of output to `on_line` as it arrives. Returns
    /// whether the call succeeded, and the output of both streams. The child inherits `lock`.
    fn run(
        &self,
        call: &Invocation,
        lock: Option<&File>,
        on_line: impl Fn(&str),
    ) -> Result<(bool, String), Failure> {
        let run = || -> io::Result<_> {
            let (stream, writer) = io::pipe()?;
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
            let mut child = command.spawn()?;
            // `command` holds copies of the pipe's writing end. The stream ends only when all are closed.
            drop(command);
            let mut stream = BufReader::new(stream);
            let (mut output, mut line) = (String::new(), Vec::new());
            while stream.read_until(b'\n', &mut line)? > 0 {
                let text = String::from_utf8_lossy(&line);
                on_line(text.trim_end());
                output.push_str(&text);
                line.clear();
            }
            Ok((child.wait()?, output))
        };
        let (status, mut output) = run().map_err(|error| installer_failed(call, error))?;
        // The signal was passed on to the installer too, so the installer's own error is not reported.
        if let Some(signal) = signals::received() {
            let text = "what was fetched so far has been removed";
            return Err(Failure::new(
                exit_code::FAILURE,
                format!("interrupted by signal {signal}; {text}"),
            ));
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
        let (success, output) = self.run(&call, None, |_| {})?;
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

    /// Fetches exactly these packages into a staging directory, and checks their hashes. The
    /// installer inherits the lock, so that no other process removes the staging directory before
    /// the installer has ended.
    pub fn install(
        &self,
        packages: &[&Package],
        part: &StagingDirectory,
        lock: &File,
        cache: Cache,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let requirements = part.path("requirements.txt");
        write(&requirements, &requirements_file(packages))?;
        let call = self.install_call(&requirements, part, cache);
        let (success, output) = self.run(&call, Some(lock), |line| {
            if let Some(what) = line.trim_start().strip_prefix("Downloading ") {
                progress.detail(&printable(what));
            }
        })?;
        part.tidy();
        if success {
            return Ok(());
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

/// The lines of a requirements file that admits exactly these packages.
fn requirements_file(packages: &[&Package]) -> String {
    let mut text = String::new();
    for package in packages {
        text.push_str(&format!("{}=={}", package.name, package.version));
        for hash in &package.hashes {
            text.push_str(&format!(" --hash=sha256:{}", hash.hex()));
        }
        text.push('\n');
    }
    text
}

/// The output of `uv pip compile --generate-hashes`: `name==version \` and lines of
/// `--hash=sha256:…`. Other lines, such as comments and configured indexes, are ignored.
fn parse_compiled(text: &str) -> Result<Vec<Package>, String> {
    let mut packages: Vec<Package> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches('\\').trim_end();
        if let Some(hash) = line.strip_prefix("--hash=sha256:") {
            let hash = Sha256::from_hex(hash).ok_or_else(|| format!("hash `{hash}`"))?;
            let package = packages.last_mut().ok_or("a hash before any package")?;
            package.hashes.push(hash);
        } else if let Some((name, version)) = line.split_once("==")
            && !line.starts_with(['-', '#'])
        {
            let version = version.split(';').next().unwrap_or_default().trim();
            packages.push(Package {
                name: normal_name(name),
                version: version.to_owned(),
                hashes: Vec::new(),
            });
        }
    }
    finish(packages)
}

/// pip's installation report, version 1.
fn parse_report(text: &str) -> Result<Vec<Package>, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = report.get("install").and_then(Value::as_array);
    let mut packages = Vec::new();
    for item in list.ok_or("no `install`")? {
        let field = |path: &str| item.pointer(path).and_then(Value::as_str);
        let name = field("/metadata/name").ok_or("a package without `name`")?;
        let version = field("/metadata/version").ok_or("a package without `version`")?;
        let hash = field("/download_info/archive_info/hashes/sha256")
            .or_else(|| field("/download_info/archive_info/hash")?.strip_prefix("sha256="))
            .and_then(Sha256::from_hex);
        packages.push(Package {
            name: normal_name(name),
            version: version.to_owned(),
            hashes: hash.into_iter().collect(),
        });
    }
    finish(packages)
}

fn finish(mut packages: Vec<Package>) -> Result<Vec<Package>, String> {
    if packages.is_empty() {
        return Err("no packages".to_owned());
    }
    for package in &mut packages {
        let Package {
            name,
            version,
            hashes,
        } = package;
        if hashes.is_empty() {
            return Err(format!("no SHA-256 for {name} {version}"));
        }
        hashes.sort();
        hashes.dedup();
    }
    packages.sort();
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::super::directory::Store;
    use super::*;

    const COMPILED: &str = "\
--index-url https://user:secret@index.invalid/simple
cuda-toolkit==13.4.3 \\
    --hash=sha256:c56be2a9f538653ef5b1aa27787ed046ea08afa10bd55e95335a35fd196ac14e
nvidia-cuda-runtime==13.4.92 \\
    --hash=sha256:9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5 \\
    --hash=sha256:08dca5e4aba480c2fd5b55075c0fa71b84ef9dcf0521f2d58baa14a803a7311c
    # via cuda-toolkit
";

    const REPORT: &str = r#"{"version": "1", "pip_version": "23.0.1", "install": [
        {"download_info": {"url": "https://index.invalid/p/nvidia_cuda_runtime.whl", "archive_info": {"hash": "sha256=9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5"}},
         "requested": true, "metadata": {"name": "nvidia_cuda_runtime", "version": "13.4.92"}},
        {"download_info": {"url": "https://index.invalid/p/cuda_toolkit.whl", "archive_info": {"hashes": {"sha256": "c56be2a9f538653ef5b1aa27787ed046ea08afa10bd55e95335a35fd196ac14e"}}},
         "requested": true, "metadata": {"name": "cuda-toolkit", "version": "13.4.3"}}]}"#;

    #[test]
    fn both_answers_are_equal() {
        let uv = parse_compiled(COMPILED).unwrap();
        let pip = parse_report(REPORT).unwrap();
        assert_eq!(uv.len(), 2);
        for (uv, pip) in uv.iter().zip(&pip) {
            assert!(uv.shares_a_file_with(pip), "{uv:?} {pip:?}");
        }
        assert_eq!(uv[1].hashes.len(), 2);
    }

    #[test]
    fn nothing_of_an_index_is_kept() {
        let packages = parse_compiled(COMPILED).unwrap();
        let file = requirements_file(&packages.iter().collect::<Vec<_>>());
        assert!(
            !file.contains("index") && !file.contains("secret"),
            "{file}"
        );
        assert!(
            file.starts_with("cuda-toolkit==13.4.3 --hash=sha256:c56be2a9"),
            "{file}"
        );
    }

    #[test]
    fn an_answer_without_hashes_is_refused() {
        assert!(parse_compiled("cuda-toolkit==13.4.3\n").is_err());
        assert!(parse_compiled("").is_err());
        assert!(
            parse_report(r#"{"install": [{"metadata": {"name": "a", "version": "1"}}]}"#).is_err()
        );
        assert!(parse_report("pip says no").is_err());
    }

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

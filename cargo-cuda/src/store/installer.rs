//! Runs uv or pip, as the user has configured them.
//!
//! The user's index, proxy, certificates and credentials apply. Settings in the current directory,
//! and settings of how and where to install, are ignored, because fetched packages go to a store
//! that all projects share. Installers start in a new directory, because in the current directory
//! `python -m pip` would run a `pip.py`, and uv would use a `.venv`. The new directory has an empty
//! `uv.toml`, so that uv does not search parent directories for one.
#![allow(clippy::disallowed_methods, reason = "the store starts programs")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf, absolute};
use std::process::{ExitStatus, Stdio};

use cuda_find_core::{command::Invocation, env::Env, root::Root, target::Target};
use serde_json::Value;
use tempfile::TempDir;

use super::directory::{StagingDirectory, failed, remove_file, write};
use super::lock::read;
use super::package::{PinnedPackage, Sha256};
use crate::failure::{Failure, Result};
use crate::output::{self, printable};
use crate::{process, signals};

/// Excludes source distributions, because building one runs its code. NVIDIA publishes wheels.
const WHEELS_ONLY: [&str; 2] = ["--only-binary", ":all:"];

/// Overrides pip's configuration files, so that pip installs only into `--target`.
const TARGET_ONLY: [&str; 3] = ["--prefix=", "--root=/", "--log=/dev/null"];

/// A program that resolves and fetches Python packages.
#[derive(Debug)]
pub(super) struct Installer {
    is_uv: bool,
    /// `uv`, `pip` or `pip3`, or Python with the arguments `-m pip`. It starts in `directory`.
    program: Invocation,
    env: Env,
    directory: TempDir,
}

impl Installer {
    /// The first usable program on `PATH` of `uv`, `python3 -m pip`, `python -m pip`, `pip3` and `pip`.
    pub fn find(env: &Env) -> Result<Self> {
        let mut message = "found no program that can fetch CUDA components".to_owned();
        for shown in ["uv", "python3 -m pip", "python -m pip", "pip3", "pip"] {
            let mut words = shown.split(' ');
            let name = words.next().unwrap_or_default();
            let Some(program) = process::on_path(env, name) else {
                message.push_str(&format!("\n  tried `{shown}`: not on `PATH`"));
                continue;
            };
            let shown_path = program.display().to_string();
            let installer = Self::new(name == "uv", Invocation::new(program).args(words), env)?;
            let Some(reason) = installer.unusable() else {
                return Ok(installer);
            };
            message.push_str(&format!("\n  tried `{shown}` ({shown_path}): {reason}"));
        }
        Err(Failure::no_installer(message).hint(
            "install uv, or Python's pip 22.2 or newer (`apt install python3-pip`, `dnf install python3-pip`), \
             and make sure that it is on `PATH`",
        ))
    }

    fn new(is_uv: bool, mut program: Invocation, env: &Env) -> Result<Self> {
        let temporary = absolute(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
        let directory = TempDir::with_prefix_in("cargo-cuda-", &temporary)
            .map_err(Failure::io("create a directory in", &temporary))?;
        write(&directory.path().join("uv.toml"), "")?;
        program.directory = Some(directory.path().to_owned());
        Ok(Self {
            is_uv,
            program,
            env: settings(env),
            directory,
        })
    }

    /// Why this program cannot be used; `None` if it can. A Python may have no pip.
    fn unusable(&self) -> Option<String> {
        match self.program.clone().args(["--version"]).query(&self.env) {
            Ok(finished) if finished.success => None,
            Ok(finished) => Some(printable(finished.output().trim())),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The name for messages.
    pub fn name(&self) -> &'static str {
        if self.is_uv { "uv" } else { "pip" }
    }

    /// The call that resolves requirements and writes the result to the file `answer`. It installs
    /// nothing.
    fn resolve_call(
        &self,
        requirements: &[String],
        with_dependencies: bool,
        answer: &Path,
    ) -> Invocation {
        let program = self.program.clone();
        let call = match self.is_uv {
            true => program
                .args(["pip", "compile", "--generate-hashes", "--no-header"])
                .args(["--no-annotate", "requirements.in", "--output-file"])
                .args([answer])
                .args(self.python()),
            false => program
                .args(["install", "--dry-run", "--ignore-installed"])
                .args(["--report".as_ref(), answer.as_os_str()])
                // A dry run writes nothing to the target, but Debian's pip 23.0 refuses to run without
                // `--target`.
                .args(["--target".into(), self.directory.path().join("target")])
                .args(TARGET_ONLY)
                .args(requirements),
        };
        call.args((!with_dependencies).then_some("--no-deps"))
            .args(WHEELS_ONLY)
            .variable("NO_COLOR", "1")
    }

    /// `--system`, unless the user has activated a virtual environment. Without the option, uv would run
    /// the Python of a `.venv` in a parent directory.
    fn python(&self) -> Option<&'static str> {
        self.env.peek("VIRTUAL_ENV").is_none().then_some("--system")
    }

    /// Exact versions with hashes for `requirements` and, if `with_dependencies`, for everything they require.
    pub fn resolve(
        &self,
        requirements: &[String],
        with_dependencies: bool,
    ) -> Result<Vec<PinnedPackage>> {
        let place = self.directory.path();
        let answer = place.join("answer");
        remove_file(&answer);
        write(&place.join("requirements.in"), &requirements.join("\n"))?;
        let call = self.resolve_call(requirements, with_dependencies, &answer);
        process::print_call(&call);
        let run = || {
            let (mut reader, writer) = io::pipe()?;
            let mut command = process::command(&call, &self.env);
            command.stdin(Stdio::null()).stdout(writer.try_clone()?);
            let mut child = signals::start(command.stderr(writer))?;
            // The command has the writing ends of the pipe. Reading ends when all of them are closed.
            drop(command);
            let mut printed = Vec::new();
            reader.read_to_end(&mut printed)?;
            Ok((signals::wait(&mut child)?, printed))
        };
        let (status, printed) = run().map_err(|error| process::cannot_start(&call, &error))?;
        check_not_interrupted()?;
        let refused = |reason: &str| {
            let (name, requirements) = (self.name(), requirements.join(" "));
            let hint = "correct what it reports: the network, or the index and proxy that it is configured with";
            Failure::installer(format!("{name} could not resolve {requirements}: {reason}"))
                .hint(hint)
        };
        if !status.success() {
            let printed = printable(String::from_utf8_lossy(&printed).trim());
            let printed = printed.replace('\n', "\n  ");
            return Err(refused(&format!("{status}\n  {printed}")));
        }
        let text = read(&answer).map_err(failed("read", &answer))?;
        let text = text.unwrap_or_default();
        let packages = match self.is_uv {
            true => parse_compiled(&text),
            false => parse_report(&text),
        };
        let packages = packages
            .map_err(|reason| refused(&format!("its answer could not be read: {reason}")))?;
        check_hashes(&packages)?;
        Ok(packages)
    }

    /// The call that fetches exactly the packages of a requirements file. `platform` is an option of uv.
    fn install_call(
        &self,
        requirements: &Path,
        part: &StagingDirectory,
        platform: Option<String>,
        use_cache: bool,
    ) -> Invocation {
        let program = self.program.clone();
        let call = match self.is_uv {
            true => program
                // Symbolic links into uv's cache would dangle after `uv cache clean`.
                .args(["pip", "install", "--link-mode", "hardlink"])
                .args(self.python())
                .args(platform)
                .args((!use_cache).then_some("--no-cache")),
            false => program.args(["install"]).args(TARGET_ONLY),
        };
        call.args(["--no-deps", "--require-hashes", "--no-compile"])
            .args(output::is_quiet().then_some("--quiet"))
            .args(WHEELS_ONLY)
            .args(["-r".as_ref(), requirements.as_os_str()])
            .args(["--target".into(), part.site()])
            // pip unpacks into TMPDIR first, and moves the files to the target. Here the move is a rename
            // in one file system, and there is enough space: `/tmp` is often too small for a toolkit.
            .variable("TMPDIR", part.path("tmp"))
            // The requirements are exact versions, so the user's constraints have no use here. They have no
            // hashes, which `--require-hashes` needs.
            .variable("PIP_CONSTRAINT", "")
            .variable("UV_CONSTRAINT", "")
    }

    /// Fetches exactly these packages into a staging directory, and checks their hashes. `target` is another platform
    /// than this machine. The installer inherits the lock, so that no other process removes the staging directory
    /// before the installer has ended. uv hard-links files from its cache, so if a stored file is damaged, the file
    /// in the cache may be damaged too; then `use_cache` is false.
    pub fn install(
        &self,
        packages: &[PinnedPackage],
        part: &StagingDirectory,
        lock: &File,
        target: Option<&Target>,
        use_cache: bool,
    ) -> Result<()> {
        if target.is_some() && !self.is_uv {
            let text = "only uv fetches for another platform: pip records the hashes of this machine's files alone";
            return Err(Failure::no_installer(text).hint("install uv"));
        }
        let platform = target.map(|target| match target.is_windows() {
            true => target.triple().to_owned(),
            false => format!("{}-manylinux_2_28", target.architecture()),
        });
        let platform = platform.map(|it| format!("--python-platform={it}"));
        let requirements = part.path("requirements.txt");
        write(&requirements, &requirements_file(packages))?;
        let call = self.install_call(&requirements, part, platform, use_cache);
        process::print_call(&call);
        let status = run_visibly(&call, &self.env, lock)?;
        // uv leaves this file in its target directory.
        remove_file(&part.site().join(".lock"));
        if status.success() {
            return Ok(());
        }
        let text = format!("{} failed: {status}\n  command: {call}", self.name());
        Err(Failure::installer(text).hint(
            "correct what it reports above; a file with another hash than the pinned one is pinned by \
             `cargo cuda toolkit add --upgrade`",
        ))
    }
}

/// Runs a program to its end. Its output goes to standard error, because standard output is for reports of this
/// program. The child inherits `lock`.
pub(super) fn run_visibly(call: &Invocation, env: &Env, lock: &File) -> Result<ExitStatus> {
    let mut command = process::command(call, env);
    let cannot_start = |error: io::Error| process::cannot_start(call, &error);
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    command.stdin(lock.try_clone().map_err(cannot_start)?);
    command.stdout(stderr.map_err(cannot_start)?);
    let status = process::wait_for(call, &mut command)?;
    check_not_interrupted().map(|()| status)
}

/// The signal was passed on to the program too, so the program's own error is not reported.
fn check_not_interrupted() -> Result<()> {
    let Some(signal) = signals::received() else {
        return Ok(());
    };
    let text = format!("interrupted by signal {signal}");
    Err(Failure::other(text).hint("run the same command again"))
}

/// The lines of a requirements file that admits exactly these packages.
fn requirements_file(packages: &[PinnedPackage]) -> String {
    let line = |package: &PinnedPackage| {
        let hash = |hash: &Sha256| format!(" --hash=sha256:{}", hash.hex());
        let hashes: String = package.hashes.iter().map(hash).collect();
        format!("{}=={}{hashes}\n", package.name, package.version)
    };
    packages.iter().map(line).collect()
}

/// The output of `uv pip compile --generate-hashes`: `name==version \` and lines of
/// `--hash=sha256:…`. Other lines, such as comments and configured indexes, are ignored.
fn parse_compiled(text: &str) -> Result<Vec<PinnedPackage>, String> {
    let mut packages: Vec<PinnedPackage> = Vec::new();
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
            packages.push(PinnedPackage::new(name, version, Vec::new()));
        }
    }
    finish(packages)
}

/// pip's installation report, version 1.
fn parse_report(text: &str) -> Result<Vec<PinnedPackage>, String> {
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
        packages.push(PinnedPackage::new(name, version, Vec::from_iter(hash)));
    }
    finish(packages)
}

/// Fails if the lock file could not name the file of a package, because the index has MD5 alone, or no hash.
fn check_hashes(packages: &[PinnedPackage]) -> Result<()> {
    let mut without = packages.iter().filter(|package| package.hashes.is_empty());
    let Some(PinnedPackage { name, version, .. }) = without.next() else {
        return Ok(());
    };
    let text = format!(
        "the package index gives no SHA-256 for {name} {version}, which the lock file needs"
    );
    Err(Failure::installer(text).hint(
        "lock with an index that gives SHA-256, commit the lock file, and run `cargo cuda fetch --locked` with this \
         index",
    ))
}

fn finish(mut packages: Vec<PinnedPackage>) -> Result<Vec<PinnedPackage>, String> {
    if packages.is_empty() {
        return Err("no packages".to_owned());
    }
    for package in &mut packages {
        package.hashes.sort();
        package.hashes.dedup();
    }
    packages.sort();
    Ok(packages)
}

/// pip reads every option from a variable `PIP_<OPTION>`. The variables of these options are kept,
/// because they concern the source and the download of packages. All others, such as `PIP_TARGET`, are
/// removed.
const PIP_KEPT: &str = "CACHE_DIR CERT CLIENT_CERT CONFIG_FILE CONSTRAINT DEFAULT_TIMEOUT EXTRA_INDEX_URL \
     FIND_LINKS INDEX_URL KEYRING_PROVIDER NO_CACHE_DIR NO_INDEX PROGRESS_BAR PROXY RESUME_RETRIES RETRIES TIMEOUT \
     TRUSTED_HOST UPLOADED_PRIOR_TO USE_DEPRECATED USE_FEATURE";

/// The variables of uv that are removed, because they change what is installed, how, or where.
const UV_DROPPED: &str = "UV_BREAK_SYSTEM_PACKAGES UV_COMPILE_BYTECODE UV_CUSTOM_COMPILE_COMMAND UV_LINK_MODE \
     UV_NO_BINARY UV_NO_BUILD UV_NO_VERIFY_HASHES UV_ONLY_BINARY UV_OVERRIDE UV_PRERELEASE UV_PROJECT UV_PYTHON \
     UV_REQUIRE_HASHES UV_RESOLUTION UV_SYSTEM_PYTHON UV_TORCH_BACKEND UV_WORKING_DIR UV_WORKING_DIRECTORY";

/// Variables that are set to fixed values. They override the same settings in configuration files.
const OVERRIDES: &str = "PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_DRY_RUN=0 PIP_FORCE_REINSTALL=0 \
     PIP_NO_DEPS=0 PIP_NO_INPUT=1 PIP_PRE=0 PIP_QUIET=0 PIP_REQUIRE_HASHES=0 PIP_REQUIRE_VIRTUALENV=0 \
     PIP_UPGRADE=0 PIP_USER=0 PIP_VERBOSE=0";

/// Variables that contain one path.
const PATHS: &str = "CURL_CA_BUNDLE NETRC PIP_CACHE_DIR PIP_CERT PIP_CLIENT_CERT PIP_CONFIG_FILE PIP_CONSTRAINT \
     PIP_FIND_LINKS REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE SSL_CLIENT_CERT UV_CACHE_DIR UV_CONFIG_FILE \
     UV_CONSTRAINT UV_CREDENTIALS_DIR UV_FIND_LINKS UV_PYTHON_INSTALL_DIR";

/// Whether `name` is one of the `words`.
fn has(words: &str, name: &str) -> bool {
    words.split_whitespace().any(|word| word == name)
}

/// The environment of an installer. Settings of how and where to install are removed. Relative paths
/// are made absolute, because the installer starts in another directory.
fn settings(env: &Env) -> Env {
    let is_kept = |name: &str| match name.strip_prefix("PIP_") {
        Some(option) => has(PIP_KEPT, &option.to_ascii_uppercase()),
        None => !has(UV_DROPPED, name),
    };
    let kept = env
        .variables()
        .filter(|(name, _)| name.to_str().is_none_or(is_kept))
        .map(|(name, value)| (name.to_owned(), absolute_value(name, value)));
    let overrides = OVERRIDES.split_whitespace();
    let overrides = overrides.filter_map(|setting| setting.split_once('='));
    Env::from_pairs(kept.chain(overrides.map(|(name, value)| (name.into(), value.into()))))
}

/// The value of a variable. A path that exists, or that of a directory such as a cache, is made absolute.
fn absolute_value(name: &OsStr, value: &OsStr) -> OsString {
    let name = name.to_str().unwrap_or_default();
    let is_made_absolute = |path: &PathBuf| {
        has(PATHS, name) && (name.ends_with("_DIR") || Root::system().exists(path))
    };
    let path = absolute(value).ok().filter(is_made_absolute);
    path.map_or_else(|| value.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
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
        {"download_info": {"url": "https://index.invalid/p/nvidia_cuda_runtime.whl",
          "archive_info": {"hash": "sha256=9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5"}},
         "requested": true, "metadata": {"name": "nvidia_cuda_runtime", "version": "13.4.92"}},
        {"download_info": {"url": "https://index.invalid/p/cuda_toolkit.whl",
          "archive_info": {"hashes": {"sha256": "c56be2a9f538653ef5b1aa27787ed046ea08afa10bd55e95335a35fd196ac14e"}}},
         "requested": true, "metadata": {"name": "cuda-toolkit", "version": "13.4.3"}}]}"#;

    #[test]
    fn both_answers_are_equal_and_name_no_index() {
        let uv = parse_compiled(COMPILED).unwrap();
        let pip = parse_report(REPORT).unwrap();
        assert_eq!(uv.len(), 2);
        for (uv, pip) in uv.iter().zip(&pip) {
            assert!(uv.shares_a_file_with(pip), "{uv:?} {pip:?}");
        }
        assert_eq!(uv[1].hashes.len(), 2);
        let file = requirements_file(&uv);
        let start = "cuda-toolkit==13.4.3 --hash=sha256:c56be2a9";
        assert!(file.starts_with(start), "{file}");
        assert!(
            !file.contains("index") && !file.contains("secret"),
            "{file}"
        );
    }

    #[test]
    fn an_answer_without_hashes_is_refused() {
        let report = r#"{"install": [{"metadata": {"name": "a", "version": "1"}}]}"#;
        for answer in [parse_compiled("a==1\n"), parse_report(report)] {
            let message = check_hashes(&answer.unwrap()).unwrap_err().message;
            assert!(message.contains("no SHA-256 for a 1"), "{message}");
        }
        assert!(parse_compiled("").is_err());
        assert!(parse_report("pip says no").is_err());
    }

    fn of(pairs: &[(&str, &str)], name: &str) -> Option<String> {
        let env = settings(&Env::from_pairs(pairs.iter().copied()));
        env.peek(name)
            .map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn how_and_where_to_install_is_not_kept() {
        let pip = [
            "PIP_TARGET",
            "PIP_PREFIX",
            "PIP_LOG",
            "PIP_PLATFORM",
            "PIP_target",
        ];
        let uv = ["UV_LINK_MODE", "UV_COMPILE_BYTECODE", "UV_PYTHON"];
        for name in pip.into_iter().chain(uv) {
            assert_eq!(of(&[(name, "1")], name), None, "{name}");
        }
        for name in ["PIP_USER", "PIP_DRY_RUN", "PIP_REQUIRE_HASHES"] {
            assert_eq!(of(&[(name, "1")], name).as_deref(), Some("0"), "{name}");
        }
    }

    #[test]
    fn where_packages_come_from_is_kept() {
        // A directory of this package: tests start in the package.
        let here = absolute("src").unwrap();
        let here = here.to_str().unwrap();
        for (name, given, expected) in [
            (
                "PIP_INDEX_URL",
                "https://a:b@c/d?a=b",
                "https://a:b@c/d?a=b".to_owned(),
            ),
            ("UV_INDEX_CORP_PASSWORD", "secret", "secret".to_owned()),
            ("HTTPS_PROXY", "http://proxy", "http://proxy".to_owned()),
            ("PIP_NO_INDEX", "1", "1".to_owned()),
            // Relative paths are made absolute.
            ("PIP_FIND_LINKS", "src", here.to_owned()),
            ("UV_CACHE_DIR", "src/cache", format!("{here}/cache")),
        ] {
            assert_eq!(of(&[(name, given)], name), Some(expected), "{name}");
        }
    }
}

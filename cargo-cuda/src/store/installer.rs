//! uv or pip, as the user has configured them.
//!
//! Index, proxy, certificates and credentials are the user's. Settings of the current directory
//! do not count, and neither do settings of how and where to install: fetched packages go to a
//! store that all projects share. So installers start in an empty directory, which has no `pip.py`
//! and no `.venv`, with an empty `uv.toml`, at which uv ends its search upwards.

use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};

use cuda_build::Version;
use cuda_build::internal::Env;
use cuda_build::internal::command::Invocation;
use serde_json::Value;
use tempfile::TempDir;

use super::command::{Call, Finished, NotRun, run, search_path, settings};
use super::directory::{Guard, Part, read, write_atomically};
use super::error::{Refusal, printable, refusal};
use super::package::{Package, normal_name};
use super::progress::Progress;
use super::{Sha256, StoreError};
use crate::signals;

/// The first pip with `--dry-run` and `--report`.
const OLDEST_PIP: &str = "22.2";

/// A program that resolves and fetches Python packages.
#[derive(Debug)]
pub(super) struct Installer {
    kind: Kind,
    program: PathBuf,
    /// `-m pip` if the program is Python.
    prefix: &'static [&'static str],
    env: Env,
    /// The directory in which it starts.
    directory: TempDir,
}

/// Whether uv may link files of its cache. What damages such a file damages it in the cache too.
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

impl Installer {
    /// The first usable of `uv`, `python3 -m pip`, `pip3`, `pip` on `PATH`.
    ///
    /// # Errors
    /// [`StoreError::NoInstaller`] with the reason not to use each.
    pub fn find(env: &Env) -> Result<Self, StoreError> {
        let candidates: [(&str, Kind, &'static [&'static str]); 5] = [
            ("uv", Kind::Uv, &[]),
            ("python3", Kind::Pip, &["-m", "pip"]),
            ("python", Kind::Pip, &["-m", "pip"]),
            ("pip3", Kind::Pip, &[]),
            ("pip", Kind::Pip, &[]),
        ];
        let path = search_path(env);
        let mut tried = Vec::new();
        for (name, kind, prefix) in candidates {
            let shown = [&[name], prefix].concat().join(" ");
            let located = which::which_in_global(name, Some(&path)).ok();
            let Some(program) = located.and_then(|mut found| found.next()) else {
                tried.push(format!("`{shown}`: not on `PATH`"));
                continue;
            };
            let installer = Self::new(kind, program, prefix, env)?;
            match installer.unusable()? {
                None => return Ok(installer),
                Some(reason) => {
                    let program = installer.program.display();
                    tried.push(format!("`{shown}` ({program}): {reason}"));
                }
            }
        }
        Err(StoreError::NoInstaller { tried })
    }

    fn new(
        kind: Kind,
        program: PathBuf,
        prefix: &'static [&'static str],
        env: &Env,
    ) -> Result<Self, StoreError> {
        let temporary = absolute(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into());
        let directory = tempfile::Builder::new()
            .prefix("cargo-cuda-")
            .tempdir_in(&temporary)
            .map_err(|error| StoreError::io("create a directory in", &temporary, error))?;
        write_atomically(&directory.path().join("uv.toml"), "")?;
        Ok(Self {
            kind,
            program,
            prefix,
            env: settings(env),
            directory,
        })
    }

    /// The reason that a pip cannot be used. Every uv can.
    fn unusable(&self) -> Result<Option<String>, StoreError> {
        if self.kind == Kind::Uv {
            return Ok(None);
        }
        let query = self.call(&["--version"]).invocation;
        let finished = match query.query(&self.env) {
            Ok(finished) => finished,
            Err(cuda_build::Error::Program { reason, .. }) => return Ok(Some(reason)),
            Err(error) => return Ok(Some(error.to_string())),
        };
        self.check_signals()?;
        let output = finished.output();
        let first = printable(output.lines().next().unwrap_or_default());
        if !finished.success {
            return Ok(first.rsplit(": ").next().map(str::to_owned));
        }
        let version = first.split_whitespace().nth(1).unwrap_or_default();
        let Ok(version) = version.parse::<Version>() else {
            return Ok(Some(format!("prints `{first}` instead of its version")));
        };
        let old = OLDEST_PIP.parse().is_ok_and(|oldest| version < oldest);
        Ok(old.then(|| format!("{version} is older than {OLDEST_PIP}")))
    }

    /// The name for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Uv => "uv",
            Kind::Pip => "pip",
        }
    }

    /// Fails if this process has received a signal.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`].
    pub fn check_signals(&self) -> Result<(), StoreError> {
        match signals::received() {
            Some(signal) => Err(StoreError::Interrupted { signal }),
            None => Ok(()),
        }
    }

    fn call(&self, arguments: &[&str]) -> Call {
        let mut invocation =
            Invocation::new(&self.program).args(self.prefix.iter().chain(arguments));
        invocation.directory = Some(self.directory.path().to_owned());
        Call {
            invocation,
            input: Vec::new(),
        }
    }

    fn run(
        &self,
        call: &Call,
        guard: Option<&Guard>,
        on_line: impl FnMut(&str),
    ) -> Result<Finished, StoreError> {
        let could_not_run = |error| StoreError::Installer {
            call: call.to_string(),
            message: format!("could not be run: {error}"),
        };
        let lock = guard.map(Guard::share).transpose().map_err(could_not_run)?;
        run(call, &self.env, lock, on_line).map_err(|reason| match reason {
            NotRun::CannotStart(error) => could_not_run(error),
            NotRun::Interrupted(signal) => StoreError::Interrupted { signal },
        })
    }

    /// The call that resolves requirements and downloads no package.
    fn resolve_call(&self, requirements: &[String], loudness: &str) -> Call {
        // A source distribution would run its own code; NVIDIA publishes wheels.
        let wheels_only = ["--only-binary", ":all:"];
        match self.kind {
            Kind::Uv => {
                let arguments = ["pip", "compile", "-", "--generate-hashes", "--no-header"];
                let mut call = self.call(&arguments);
                let more = ["--no-annotate"]
                    .iter()
                    .chain(&wheels_only)
                    .chain(self.python());
                call.invocation.arguments.extend(more.map(OsString::from));
                call.input = requirements.to_vec();
                call
            }
            Kind::Pip => {
                let arguments = ["install", "--dry-run", "--ignore-installed", loudness];
                let mut call = self.call(&arguments);
                let arguments = &mut call.invocation.arguments;
                arguments.extend(["--report".into(), self.report().into()]);
                // Nothing is written there, but Debian's pip 23.0 refuses to work without it.
                let target = self.directory.path().join("target");
                arguments.extend(["--target".into(), target.into()]);
                arguments.extend(TARGET_ONLY.iter().chain(&wheels_only).map(OsString::from));
                arguments.extend(requirements.iter().map(OsString::from));
                call
            }
        }
    }

    /// uv would also run the Python of a `.venv` in a directory above.
    fn python(&self) -> &'static [&'static str] {
        match self.env.peek("VIRTUAL_ENV") {
            Some(_) => &[],
            None => &["--system"],
        }
    }

    fn report(&self) -> PathBuf {
        self.directory.path().join("report.json")
    }

    /// Exact versions with hashes for `requirements`, and for everything they require.
    ///
    /// # Errors
    /// [`Refusal::NoMatch`] if the index has nothing that fits.
    pub fn resolve(&self, requirements: &[String]) -> Result<Vec<Package>, Refusal> {
        let place = self.directory.path();
        let call = self.resolve_call(requirements, "--quiet");
        let finished = self.run(&call, None, |_| {})?;
        if !finished.success {
            let refused = refusal(&call, &finished.transcript, place);
            let unknown = matches!(refused, Refusal::NoMatch { unknown_name, .. } if unknown_name);
            if self.kind == Kind::Pip && unknown {
                // With fewer words, pip prints the same for a name that does not exist and for
                // an index that it did not reach.
                let call = self.resolve_call(requirements, "-vv");
                let finished = self.run(&call, None, |_| {})?;
                return Err(refusal(&call, &finished.transcript, place));
            }
            return Err(refused);
        }
        let packages = match self.kind {
            Kind::Uv => parse_compiled(&finished.stdout),
            Kind::Pip => parse_report(&read(&self.report())?.unwrap_or_default()),
        };
        packages.map_err(|reason| {
            Refusal::Failed(StoreError::Installer {
                call: call.to_string(),
                message: format!("its answer was not understood: {reason}"),
            })
        })
    }

    /// The call that fetches exactly the packages of a requirements file.
    fn install_call(&self, requirements: &Path, part: &Part, cache: Cache) -> Call {
        let mut call = self.call(match self.kind {
            // Links into uv's cache would be dead after `uv cache clean`.
            Kind::Uv => &["pip", "install", "--link-mode", "hardlink"],
            Kind::Pip => &["install"],
        });
        let arguments = &mut call.invocation.arguments;
        arguments.extend(["-r".into(), requirements.into()]);
        arguments.extend(["--target".into(), part.site().into()]);
        let common = ["--no-deps", "--require-hashes", "--no-compile"];
        let wheels_only = ["--only-binary", ":all:"];
        let own = match self.kind {
            Kind::Uv => self.python(),
            Kind::Pip => TARGET_ONLY,
        };
        let all = common.iter().chain(&wheels_only).chain(own);
        arguments.extend(all.map(OsString::from));
        if cache == Cache::Bypass && self.kind == Kind::Uv {
            arguments.push("--no-cache".into());
        }
        // pip unpacks here first. From there to the target it is a rename, and `/tmp` is often
        // too small for a toolkit.
        call.invocation = call.invocation.variable("TMPDIR", part.temporary());
        // The versions are decided, and constraints have no hashes.
        for constraint in ["PIP_CONSTRAINT", "UV_CONSTRAINT"] {
            call.invocation = call.invocation.variable(constraint, "");
        }
        call
    }

    /// Fetches exactly these packages into a part, and checks their hashes. The installer shares
    /// the lock, so that no other process removes the part before the installer has ended.
    ///
    /// # Errors
    /// The installer's failure.
    pub fn install(
        &self,
        packages: &[&Package],
        part: &Part,
        guard: &Guard,
        cache: Cache,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let requirements = part.requirements(&requirements_file(packages))?;
        let call = self.install_call(&requirements, part, cache);
        let finished = self.run(&call, Some(guard), |line| {
            if let Some(what) = line.trim_start().strip_prefix("Downloading ") {
                progress.detail(&printable(what));
            }
        })?;
        part.tidy();
        if finished.success {
            return Ok(());
        }
        Err(match refusal(&call, &finished.transcript, &part.site()) {
            Refusal::Failed(error) => error,
            Refusal::NoMatch { message, .. } => StoreError::Index {
                call: call.to_string(),
                message: format!("a package that was resolved is not in the index:\n{message}"),
            },
        })
    }
}

/// Whatever pip's configuration files name, it installs into `--target`.
const TARGET_ONLY: &[&str] = &["--prefix=", "--root=/", "--log=/dev/null"];

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
    for package in &mut packages {
        if package.hashes.is_empty() {
            return Err(format!(
                "no SHA-256 for {} {}",
                package.name, package.version
            ));
        }
        package.hashes.sort();
        package.hashes.dedup();
    }
    packages.sort();
    if packages.is_empty() {
        Err("no packages".to_owned())
    } else {
        Ok(packages)
    }
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
            let installer = Installer::new(kind, "x".into(), &[], &Env::default()).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let cache = [("CUDA_BUILD_CACHE_DIR", directory.path())];
            let store = Store::locate(&Env::from_pairs(cache)).unwrap();
            let part = store.part("13.4.3-a").unwrap();
            let calls = [
                installer.resolve_call(&["cuda-toolkit==13.*".to_owned()], "--quiet"),
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
        assert_eq!(error.exit_code(), crate::store::exit_code::NO_INSTALLER);
    }
}

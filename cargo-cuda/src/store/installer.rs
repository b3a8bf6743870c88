//! uv or pip, as the user has configured them.
//!
//! Index, proxy and credentials are theirs: no option here names an index, and nothing of an
//! answer but names, versions and hashes is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::command::Invocation;
use cuda_build::{Env, Version};
use serde_json::Value;

use super::command::{Call, run};
use super::package::{Package, normal_name};
use super::progress::Progress;
use super::refusal::{Refused, refusal};
use super::{Sha256, StoreError};

/// `--dry-run` and `--report` came with it.
const OLDEST_PIP: &str = "22.2";

/// A program that resolves and fetches Python packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installer {
    kind: Kind,
    program: PathBuf,
    /// `-m pip` where the program is Python.
    prefix: &'static [&'static str],
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
    /// [`StoreError::NoInstaller`] with what came of each.
    pub fn find(env: &Env) -> Result<Self, StoreError> {
        let path = env.peek("PATH").map(OsString::from).unwrap_or_default();
        let locate = |name: &str| which::which_in_global(name, Some(&path)).ok()?.next();
        let mut tried = Vec::new();
        match locate("uv") {
            Some(program) => {
                return Ok(Self {
                    kind: Kind::Uv,
                    program,
                    prefix: &[],
                });
            }
            None => tried.push("`uv`: not on `PATH`".to_owned()),
        }
        let candidates: [(&str, &'static [&'static str]); 4] = [
            ("python3", &["-m", "pip"]),
            ("python", &["-m", "pip"]),
            ("pip3", &[]),
            ("pip", &[]),
        ];
        for (name, prefix) in candidates {
            let shown = [&[name], prefix].concat().join(" ");
            let Some(program) = locate(name) else {
                tried.push(format!("`{shown}`: not on `PATH`"));
                continue;
            };
            let pip = Self {
                kind: Kind::Pip,
                program,
                prefix,
            };
            match pip.version(env) {
                Ok(version)
                    if OLDEST_PIP
                        .parse()
                        .is_ok_and(|oldest: Version| version >= oldest) =>
                {
                    return Ok(pip);
                }
                Ok(version) => {
                    tried.push(format!(
                        "`{shown}` ({}): {version} is older than {OLDEST_PIP}",
                        pip.program.display()
                    ));
                }
                Err(reason) => {
                    tried.push(format!("`{shown}` ({}): {reason}", pip.program.display()));
                }
            }
        }
        Err(StoreError::NoInstaller { tried })
    }

    fn version(&self, env: &Env) -> Result<Version, String> {
        let finished =
            run(&self.call(&["--version"]), env, |_| {}).map_err(|error| error.to_string())?;
        let first = finished.transcript.lines().next().unwrap_or_default();
        if !finished.success {
            return Err(first.rsplit(": ").next().unwrap_or_default().to_owned());
        }
        let version = first.split_whitespace().nth(1).unwrap_or_default();
        version
            .parse()
            .map_err(|_| format!("says `{first}` instead of its version"))
    }

    /// As a message names it.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Uv => "uv",
            Kind::Pip => "pip",
        }
    }

    fn call(&self, arguments: &[&str]) -> Call {
        // Settings that contradict `--target`, ask questions or colour the answer. What is
        // fetched, and from where, is left alone.
        let variables: &[(&'static str, &str)] = match self.kind {
            Kind::Uv => &[("NO_COLOR", "1"), ("UV_NO_PROGRESS", "1")],
            Kind::Pip => &[
                ("NO_COLOR", "1"),
                ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
                ("PIP_NO_INPUT", "1"),
                ("PIP_REQUIRE_VIRTUALENV", "0"),
                ("PIP_USER", "0"),
            ],
        };
        let mut invocation =
            Invocation::new(&self.program).args(self.prefix.iter().chain(arguments));
        for (name, value) in variables {
            invocation = invocation.variable(name, value);
        }
        Call {
            invocation,
            input: Vec::new(),
        }
    }

    /// The call that turns requirements into exact versions with hashes, downloading no package.
    fn resolve_call(&self, requirements: &[String], place: &Path, loudness: &str) -> Call {
        match self.kind {
            Kind::Uv => {
                // Sources of packages (sdists) would run their own code; NVIDIA publishes wheels.
                let mut call = self.call(&[
                    "pip",
                    "compile",
                    "-",
                    "--generate-hashes",
                    "--no-header",
                    "--no-annotate",
                    "--only-binary",
                    ":all:",
                ]);
                call.input = requirements.to_vec();
                call
            }
            Kind::Pip => {
                let mut call = self.call(&[
                    "install",
                    "--dry-run",
                    "--ignore-installed",
                    loudness,
                    "--report",
                    "-",
                    "--only-binary",
                    ":all:",
                ]);
                // Nothing is written, but without it Debian's pip 23.0 refuses to work.
                call.invocation
                    .arguments
                    .extend(["--target".into(), place.join(".dry-run").into()]);
                call.invocation
                    .arguments
                    .extend(requirements.iter().map(OsString::from));
                call
            }
        }
    }

    /// Exact versions with hashes for `requirements`, and everything they require.
    ///
    /// # Errors
    /// [`Refused::NoMatch`] where the index has nothing that fits.
    pub fn resolve(
        &self,
        requirements: &[String],
        env: &Env,
        place: &Path,
    ) -> Result<Vec<Package>, Refused> {
        let call = self.resolve_call(requirements, place, "--quiet");
        let finished = run(&call, env, |_| {}).map_err(|error| could_not_run(&call, &error))?;
        if !finished.success {
            let refused = refusal(&call, &finished.transcript, place);
            return Err(match (self.kind, refused) {
                (
                    Kind::Pip,
                    Refused::NoMatch {
                        unknown_name: true, ..
                    },
                ) => {
                    // pip says the same for a name that is not there and for an index that it
                    // did not reach, unless it is told to say more.
                    let call = self.resolve_call(requirements, place, "-vv");
                    let finished =
                        run(&call, env, |_| {}).map_err(|error| could_not_run(&call, &error))?;
                    refusal(&call, &finished.transcript, place)
                }
                (_, refused) => refused,
            });
        }
        let packages = match self.kind {
            Kind::Uv => read_compiled(&finished.stdout),
            Kind::Pip => read_report(&finished.stdout),
        };
        packages.map_err(|reason| {
            Refused::Failed(StoreError::Installer {
                call: call.to_string(),
                message: format!("its answer was not understood: {reason}"),
            })
        })
    }

    /// The call that fetches exactly the packages of a requirements file into `target`.
    fn install_call(&self, requirements: &Path, target: &Path, temporary: &Path) -> Call {
        let mut call = self.call(match self.kind {
            Kind::Uv => &["pip", "install"],
            Kind::Pip => &["install"],
        });
        call.invocation.arguments.extend([
            "-r".into(),
            requirements.into(),
            "--target".into(),
            target.into(),
        ]);
        call.invocation.arguments.extend(
            [
                "--no-deps",
                "--require-hashes",
                "--no-compile",
                "--only-binary",
                ":all:",
            ]
            .map(OsString::from),
        );
        // pip unpacks here first: on the store's own disk that is a rename away, and `/tmp` is
        // often too small for a toolkit.
        call.invocation
            .variables
            .push(("TMPDIR".to_owned(), temporary.into()));
        call
    }

    /// Fetches the packages of a requirements file into `target`, hashes enforced.
    ///
    /// # Errors
    /// The installer's failure, sorted.
    pub fn install(
        &self,
        requirements: &Path,
        target: &Path,
        temporary: &Path,
        env: &Env,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let call = self.install_call(requirements, target, temporary);
        let finished = run(&call, env, |line| {
            if let Some(what) = line.trim_start().strip_prefix("Downloading ") {
                progress.detail(what);
            }
        })
        .map_err(|error| could_not_run(&call, &error))?;
        if finished.success {
            return Ok(());
        }
        Err(match refusal(&call, &finished.transcript, target) {
            Refused::Failed(error) => error,
            Refused::NoMatch { message, .. } => StoreError::Index {
                call: call.to_string(),
                message: format!("a package that was there is gone:\n{message}"),
            },
        })
    }
}

fn could_not_run(call: &Call, error: &std::io::Error) -> StoreError {
    StoreError::Installer {
        call: call.to_string(),
        message: format!("could not be started: {error}"),
    }
}

/// The lines of a requirements file that admits exactly these packages.
pub(super) fn requirements_file(packages: &[&Package]) -> String {
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

/// `uv pip compile --generate-hashes`: `name==version \` and lines of `--hash=sha256:…`. Other
/// lines (a configured `--emit-index-url`, comments) are passed over.
fn read_compiled(text: &str) -> Result<Vec<Package>, String> {
    let mut packages: Vec<Package> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches('\\').trim_end();
        if let Some(hash) = line.strip_prefix("--hash=sha256:") {
            let hash = Sha256::from_hex(hash).ok_or_else(|| format!("hash `{hash}`"))?;
            packages
                .last_mut()
                .ok_or("a hash before any package")?
                .hashes
                .push(hash);
        } else if let Some((name, version)) = line
            .split_once("==")
            .filter(|_| !line.starts_with(['-', '#']))
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

/// `pip install --dry-run --report -`: the installation report, version 1.
fn read_report(text: &str) -> Result<Vec<Package>, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = report
        .get("install")
        .and_then(Value::as_array)
        .ok_or("no `install`")?;
    let mut packages = Vec::new();
    for item in list {
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
    fn both_answers_say_the_same() {
        let uv = read_compiled(COMPILED).unwrap();
        let pip = read_report(REPORT).unwrap();
        assert_eq!(uv.len(), 2);
        for (uv, pip) in uv.iter().zip(&pip) {
            assert!(uv.shares_a_file_with(pip), "{uv:?} {pip:?}");
        }
        assert_eq!(uv[1].hashes.len(), 2);
    }

    #[test]
    fn nothing_of_an_index_is_kept() {
        let packages = read_compiled(COMPILED).unwrap();
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
        assert!(read_compiled("cuda-toolkit==13.4.3\n").is_err());
        assert!(read_compiled("").is_err());
        assert!(
            read_report(r#"{"install": [{"metadata": {"name": "a", "version": "1"}}]}"#).is_err()
        );
        assert!(read_report("pip says no").is_err());
    }

    #[test]
    fn no_call_names_an_index() {
        for kind in [Kind::Uv, Kind::Pip] {
            let installer = Installer {
                kind,
                program: "x".into(),
                prefix: &[],
            };
            let calls = [
                installer.resolve_call(
                    &["cuda-toolkit==13.*".to_owned()],
                    Path::new("s"),
                    "--quiet",
                ),
                installer.install_call(Path::new("r"), Path::new("t"), Path::new("tmp")),
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

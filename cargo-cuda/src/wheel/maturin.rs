//! The program maturin: how it is found, and the command that builds a wheel.
//!
//! It is called with `--auditwheel warn`, which copies nothing and computes the manylinux tag.
//! `repair`, the default, copies CUDA's libraries and even the driver into the wheel, and leaves an
//! empty file with the final name if it fails. `skip` does not compute the tag. The output directory
//! is empty before.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::Version;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root};

use super::WheelError;

/// The first maturin with `--auditwheel warn`.
pub const MINIMUM: &str = "1.13";

/// How maturin is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maturin {
    /// A program.
    Program(PathBuf),
    /// By `uvx`, which fetches it on first use.
    Uvx(PathBuf),
    /// As a module of a Python in which it is installed.
    Module(PathBuf),
}

/// What to build.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `Cargo.toml` of the crate.
    pub manifest: &'a Path,
    /// An empty directory for the wheel.
    pub out: &'a Path,
    /// Cargo's profile: `release`, `dev` or another.
    pub profile: &'a str,
    /// The user's own arguments for `maturin build` (features, target, interpreter …).
    pub passthrough: &'a [OsString],
    /// Arguments for rustc, for the final crate only: see
    /// [`RunpathPlan::rustc_arguments`](super::runpath::RunpathPlan::rustc_arguments).
    pub rustc_args: &'a [String],
    /// Variables to set.
    pub env: &'a [(String, OsString)],
}

impl Maturin {
    /// Finds maturin: the program on `PATH`, otherwise `uvx`, otherwise a module of `python3`.
    /// `succeeds` runs a command and returns whether it succeeded; it is called for modules only.
    ///
    /// # Errors
    /// [`WheelError::NoMaturin`] with the attempts.
    pub fn find(
        env: &Env,
        root: &Root,
        succeeds: impl Fn(&Invocation) -> bool,
    ) -> Result<Self, WheelError> {
        let directories = env.search_path();
        let on_path = |name: &str| {
            let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
            directories
                .iter()
                .map(|d| d.join(&name))
                .find(|path| root.is_file(path))
        };
        let mut tried = Vec::new();
        if let Some(path) = on_path("maturin") {
            return Ok(Self::Program(path));
        }
        tried.push(format!(
            "`maturin` on `PATH` ({} directories)",
            directories.len()
        ));
        if let Some(path) = on_path("uvx") {
            return Ok(Self::Uvx(path));
        }
        tried.push("`uvx` on `PATH`, to run maturin without installing it".to_owned());
        for name in ["python3", "python"] {
            let Some(path) = on_path(name) else { continue };
            let module = Self::Module(path);
            let version = module.version();
            if succeeds(&version) {
                return Ok(module);
            }
            tried.push(format!("`{version}`: failed"));
        }
        Err(WheelError::NoMaturin { tried })
    }

    /// The command that prints the version.
    #[must_use]
    pub fn version(&self) -> Invocation {
        self.call(&["--version"])
    }

    /// Parses the output of [`Maturin::version`] (`maturin 1.16.0`).
    ///
    /// # Errors
    /// [`WheelError::OldMaturin`] if it is older than [`MINIMUM`], or not a version.
    pub fn check_version(printed: &str) -> Result<Version, WheelError> {
        let old = || WheelError::OldMaturin {
            found: printed.trim().to_owned(),
            minimum: MINIMUM,
        };
        let found: Version = printed
            .split_whitespace()
            .nth(1)
            .and_then(|v| v.parse().ok())
            .ok_or_else(old)?;
        let minimum: Version = MINIMUM.parse().map_err(|_| old())?;
        if found < minimum {
            Err(old())
        } else {
            Ok(found)
        }
    }

    /// The command that builds one wheel.
    #[must_use]
    pub fn build(&self, request: &Request<'_>) -> Invocation {
        let mut invocation = self.call(&[
            "build",
            "--auditwheel",
            "warn",
            "--profile",
            request.profile,
        ]);
        let args = &mut invocation.arguments;
        args.extend([
            "--out".into(),
            request.out.into(),
            "--manifest-path".into(),
            request.manifest.into(),
        ]);
        args.extend(request.passthrough.iter().cloned());
        if !request.rustc_args.is_empty() {
            args.push("--".into());
            args.extend(request.rustc_args.iter().map(OsString::from));
        }
        invocation.variables.extend(request.env.iter().cloned());
        invocation
    }

    /// Cargo's arguments that decide which packages are built: the user's and, unless these name
    /// features, those in `[tool.maturin]` of `pyproject.toml`.
    #[must_use]
    pub fn graph_arguments(
        manifest: &Path,
        passthrough: &[OsString],
        pyproject: &str,
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--manifest-path".into(), manifest.into()];
        arguments.extend(passthrough.iter().cloned());
        // maturin reports a file that cannot be parsed.
        let table: toml::Table = pyproject.parse().unwrap_or_default();
        let Some(own) = table.get("tool").and_then(|tool| tool.get("maturin")) else {
            return arguments;
        };
        let features = own
            .get("features")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten();
        let features: Vec<&str> = features.filter_map(toml::Value::as_str).collect();
        let is_features = |argument: &OsString| {
            argument
                .to_str()
                .is_some_and(|a| a.starts_with("-F") || a.starts_with("--features"))
        };
        if !features.is_empty() && !passthrough.iter().any(is_features) {
            arguments.extend(["--features".into(), features.join(",").into()]);
        }
        for (key, option) in [
            ("all-features", "--all-features"),
            ("no-default-features", "--no-default-features"),
        ] {
            let set = own.get(key).and_then(toml::Value::as_bool) == Some(true);
            if set && !passthrough.iter().any(|argument| argument == option) {
                arguments.push(option.into());
            }
        }
        arguments
    }

    fn call(&self, args: &[&str]) -> Invocation {
        let with = |program: &PathBuf, before: &[&str]| {
            Invocation::new(program).args([before, args].concat())
        };
        match self {
            Self::Program(path) => with(path, &[]),
            Self::Uvx(path) => with(
                path,
                &["--from", &format!("maturin>={MINIMUM},<2"), "maturin"],
            ),
            // Python 3.11 and newer then ignore a `maturin.py` in the current directory.
            Self::Module(python) => {
                with(python, &["-m", "maturin"]).variable("PYTHONSAFEPATH", "1")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(programs: &[&str]) -> (tempfile::TempDir, Env) {
        let directory = tempfile::tempdir().unwrap();
        for program in programs {
            let path = directory
                .path()
                .join(format!("{program}{}", std::env::consts::EXE_SUFFIX));
            std::io::copy(
                &mut std::io::empty(),
                &mut tempfile::NamedTempFile::new_in(directory.path())
                    .map(|f| f.persist(path).unwrap())
                    .unwrap(),
            )
            .unwrap();
        }
        let env = Env::from_pairs([("PATH", directory.path())]);
        (directory, env)
    }

    fn found(programs: &[&str], module: bool) -> Result<&'static str, String> {
        let (_directory, env) = machine(programs);
        match Maturin::find(&env, &Root::system(), |call| {
            module && call.arguments == ["-m", "maturin", "--version"]
        }) {
            Ok(Maturin::Program(_)) => Ok("program"),
            Ok(Maturin::Uvx(_)) => Ok("uvx"),
            Ok(Maturin::Module(_)) => Ok("module"),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    #[test]
    fn program_then_uvx_then_module() {
        assert_eq!(found(&["maturin", "uvx", "python3"], true), Ok("program"));
        assert_eq!(found(&["uvx", "python3"], true), Ok("uvx"));
        assert_eq!(found(&["python3"], true), Ok("module"));
        assert_eq!(found(&["python"], true), Ok("module"));
        let error = found(&["python3"], false).unwrap_err();
        assert!(
            error.contains("python3 -m maturin --version`: failed"),
            "{error}"
        );
        assert!(
            error.contains("hint: install it with `uv tool install maturin`"),
            "{error}"
        );
    }

    #[test]
    fn a_module_of_the_current_directory_does_not_count() {
        let maturin = Maturin::Module("/usr/bin/python3".into());
        let request = Request {
            manifest: Path::new("Cargo.toml"),
            out: Path::new("out"),
            profile: "release",
            passthrough: &[],
            rustc_args: &[],
            env: &[("A".to_owned(), "b".into())],
        };
        for call in [maturin.version(), maturin.build(&request)] {
            let (name, value) = &call.variables[0];
            assert_eq!((name.as_str(), value), ("PYTHONSAFEPATH", &"1".into()));
        }
    }

    #[test]
    fn the_call_is_pasteable() {
        let maturin = Maturin::Program("/opt/my tools/maturin".into());
        let invocation = maturin.build(&Request {
            manifest: Path::new("/p/Cargo.toml"),
            out: Path::new("/tmp/o"),
            profile: "release",
            passthrough: &["--features".into(), "a b".into()],
            rustc_args: &[
                "-C".to_owned(),
                "link-arg=-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib".to_owned(),
            ],
            env: &[("X".to_owned(), "it's".into())],
        });
        assert_eq!(
            invocation.to_string(),
            "X='it'\\''s' '/opt/my tools/maturin' build --auditwheel warn --profile release --out /tmp/o \
             --manifest-path /p/Cargo.toml --features 'a b' -- -C 'link-arg=-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib'"
        );
        let uvx = Maturin::Uvx("uvx".into()).version().to_string();
        assert_eq!(uvx, "uvx --from 'maturin>=1.13,<2' maturin --version");
    }

    #[test]
    fn features_of_pyproject_are_the_default() {
        let arguments = |passed: &str, text: &str| {
            let passed: Vec<OsString> = passed.split_whitespace().map(OsString::from).collect();
            let all = Maturin::graph_arguments(Path::new("/p/Cargo.toml"), &passed, text);
            let all: Vec<String> = all.into_iter().map(|a| a.into_string().unwrap()).collect();
            all.join(" ")
                .replace("--manifest-path /p/Cargo.toml", "")
                .trim()
                .to_owned()
        };
        let project = "[tool.maturin]\nfeatures = ['pyo3/abi3', 'x']\nno-default-features = true\n";
        assert_eq!(
            arguments("", project),
            "--features pyo3/abi3,x --no-default-features"
        );
        assert_eq!(
            arguments("--locked -Fy", project),
            "--locked -Fy --no-default-features"
        );
        assert_eq!(
            arguments("--features y", "[tool.maturin]\nall-features = false"),
            "--features y"
        );
        assert_eq!(arguments("--offline", "[tool"), "--offline");
    }

    #[test]
    fn too_old_is_an_error() {
        assert!(Maturin::check_version("maturin 1.16.0\n").is_ok());
        for printed in ["maturin 1.9.6", "", "sh: maturin: not found"] {
            let error = Maturin::check_version(printed).unwrap_err();
            assert!(error.hints()[0].contains("maturin>="), "{error}");
        }
    }
}

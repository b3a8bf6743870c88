//! Finds maturin, and returns the command that builds a wheel.
//!
//! maturin runs with `--auditwheel warn`, which computes the manylinux tag and copies no libraries. The default,
//! `repair`, copies CUDA's libraries and even the driver into the wheel. If `repair` fails, it leaves an empty file
//! with the wheel's final name. `skip` does not compute the tag.

use std::ffi::OsString;
use std::path::Path;

use cuda_build::Version;
use cuda_build::internal::Env;
use cuda_build::internal::command::Invocation;
use serde::Deserialize;

use crate::exit_code;
use crate::failure::Failure;
use crate::{process, store};

/// The first version of maturin that accepts `--auditwheel warn`.
const MINIMUM: &str = "1.13";

/// The command that starts maturin: the program `maturin`, or `uvx --from … maturin`. Arguments for maturin are added
/// at the end.
#[derive(Clone, Debug)]
pub struct Maturin(Invocation);

/// The inputs of one call of `maturin build`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `Cargo.toml` of the crate.
    pub manifest: &'a Path,
    /// An empty directory, into which maturin writes the wheel.
    pub out: &'a Path,
    /// Cargo's profile: `release`, `dev` or another.
    pub profile: &'a str,
    /// The user's own arguments for `maturin build` (features, target, interpreter …).
    pub passthrough: &'a [OsString],
    /// Arguments that rustc gets only for the final crate, not for its dependencies. They come from
    /// [`SearchPathPlan::rustc_arguments`](super::runpath::SearchPathPlan::rustc_arguments).
    pub rustc_args: &'a [String],
    /// Environment variables to set for maturin.
    pub env: &'a [(String, OsString)],
}

impl Maturin {
    /// Finds maturin: the program on `PATH`, otherwise the maturin that an earlier call has fetched into the store,
    /// otherwise `uvx`, which fetches maturin on first use. With `fetch`, a pinned version of maturin is fetched into
    /// the store instead of using `uvx`. A maturin on `PATH` that is too old is an error.
    pub fn find(env: &Env, fetch: bool) -> Result<Self, Failure> {
        if let Some(program) = process::on_path(env, "maturin") {
            return Self::program(&program, env);
        }
        if fetch {
            return Ok(Self(Invocation::new(store::maturin(env)?)));
        }
        if let Some(program) = store::fetched_maturin(env) {
            return Ok(Self(Invocation::new(program)));
        }
        if let Some(uvx) = process::on_path(env, "uvx") {
            let package = format!("maturin>={MINIMUM},<2");
            return Ok(Self(Invocation::new(uvx).args([
                "--from".to_owned(),
                package,
                "maturin".to_owned(),
            ])));
        }
        Err(Failure::new(
            exit_code::MISSING_PROGRAM,
            "neither `maturin` nor `uvx` is on `PATH` (needed to build the wheel)",
        )
        .hint("let this command fetch maturin with `--fetch`, or install it with `uv tool install maturin`"))
    }

    /// The command for the maturin at `path`. Fails if its version is below `MINIMUM`.
    pub fn program(path: &Path, env: &Env) -> Result<Self, Failure> {
        let printed = process::output(&Invocation::new(path).args(["--version"]), env);
        check_version(&printed.unwrap_or_default())?;
        Ok(Self(Invocation::new(path)))
    }

    /// The command that builds one wheel.
    pub fn build(&self, request: &Request<'_>) -> Invocation {
        let mut invocation = self.0.clone();
        let args = &mut invocation.arguments;
        args.extend(["build", "--auditwheel", "warn", "--profile"].map(OsString::from));
        args.push(request.profile.into());
        args.extend(["--out".into(), request.out.into()]);
        args.extend(["--manifest-path".into(), request.manifest.into()]);
        args.extend(request.passthrough.iter().cloned());
        if !request.rustc_args.is_empty() {
            args.push("--".into());
            args.extend(request.rustc_args.iter().map(OsString::from));
        }
        invocation.variables.extend(request.env.iter().cloned());
        invocation
    }
}

/// Checks what `maturin --version` printed, such as `maturin 1.16.0`.
fn check_version(printed: &str) -> Result<(), Failure> {
    let version = |text: &str| text.parse::<Version>().ok();
    let found = printed.split_whitespace().nth(1).and_then(version);
    if found.is_some_and(|found| version(MINIMUM).is_some_and(|minimum| found >= minimum)) {
        return Ok(());
    }
    Err(Failure::new(
        exit_code::MISSING_PROGRAM,
        format!(
            "{:?} is too old: {MINIMUM} is the first with `--auditwheel warn`",
            printed.trim()
        ),
    )
    .hint(format!(
        "upgrade it with `python3 -m pip install --upgrade 'maturin>={MINIMUM}'`"
    )))
}

/// The feature options that maturin adds to the user's arguments. maturin takes them from `[tool.maturin]` in
/// `pyproject.toml`, but ignores `features` there if the user passes `--features`.
pub fn default_features(passthrough: &[OsString], pyproject: &str) -> Vec<OsString> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Pyproject {
        tool: Tool,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Tool {
        maturin: Table,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "kebab-case")]
    struct Table {
        features: Vec<String>,
        all_features: bool,
        no_default_features: bool,
    }
    // A file that cannot be parsed is ignored here, because maturin reports it.
    let table = toml::from_str::<Pyproject>(pyproject)
        .unwrap_or_default()
        .tool
        .maturin;
    let mut options: Vec<OsString> = Vec::new();
    let is_feature_option = |option: &OsString| {
        let option = option.to_string_lossy();
        option.starts_with("-F") || option.starts_with("--features")
    };
    if !table.features.is_empty() && !passthrough.iter().any(is_feature_option) {
        options.extend(["--features".into(), table.features.join(",").into()]);
    }
    if table.all_features {
        options.push("--all-features".into());
    }
    if table.no_default_features {
        options.push("--no-default-features".into());
    }
    options
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes a program to be found")]
    fn a_program_comes_before_uvx() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("PATH", directory.path())]);
        let find = || Maturin::find(&env, false).map(|maturin| maturin.0.to_string());
        let add = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let error = find().unwrap_err();
        assert_eq!(error.code, exit_code::MISSING_PROGRAM);
        assert!(error.hints[0].contains("--fetch"), "{error}");
        add("uvx", "");
        let uvx = format!(
            "{}/uvx --from 'maturin>=1.13,<2' maturin",
            directory.path().display()
        );
        assert_eq!(find().unwrap(), uvx);
        add("maturin", "echo maturin 1.9.6");
        assert!(find().unwrap_err().message.contains("maturin 1.9.6"));
        add("maturin", "echo maturin 1.16.0");
        let path = directory.path().join("maturin").display().to_string();
        assert_eq!(find().unwrap(), path);
    }

    #[test]
    fn the_call_is_pasteable() {
        let maturin = Maturin(Invocation::new("/opt/my tools/maturin"));
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
    }

    #[test]
    fn features_of_pyproject_are_the_default() {
        let options = |passed: &str, text: &str| {
            let passed: Vec<OsString> = passed.split_whitespace().map(OsString::from).collect();
            let options = default_features(&passed, text);
            options.join(OsStr::new(" ")).into_string().unwrap()
        };
        let project = "[tool.maturin]\nfeatures = ['pyo3/abi3', 'x']\nno-default-features = true\n";
        assert_eq!(
            options("", project),
            "--features pyo3/abi3,x --no-default-features"
        );
        assert_eq!(options("--locked -Fy", project), "--no-default-features");
        assert_eq!(options("", "[tool.maturin]\nall-features = false"), "");
        assert_eq!(options("--offline", "[tool"), "");
    }

    #[test]
    fn too_old_is_an_error() {
        assert!(check_version("maturin 1.16.0\n").is_ok());
        for printed in ["maturin 1.9.6", "", "sh: maturin: not found"] {
            let error = check_version(printed).unwrap_err();
            assert!(error.hints[0].contains("maturin>="), "{error}");
        }
    }
}

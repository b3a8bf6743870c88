//! Finds maturin, and returns the command that builds wheels.
//!
//! maturin runs with `--auditwheel warn`, which computes the manylinux tag and copies no libraries. The default,
//! `repair`, copies CUDA's libraries and even the driver into the wheel. If `repair` fails, it leaves an empty file
//! with the wheel's final name. `skip` does not compute the tag.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use cuda_build::internal::Env;
use cuda_build::internal::command::Invocation;
use pep440_rs::{Version, VersionSpecifiers};

use super::pyproject::Pyproject;
use crate::exit_code;
use crate::failure::Failure;
use crate::process;
use crate::store::tools;

/// The first version of maturin that accepts `--auditwheel warn`.
const MINIMUM: &str = "1.13";

/// The command that starts maturin: the program `maturin`, or `uvx --from … maturin`. Arguments for maturin are added
/// at the end.
#[derive(Clone, Debug)]
pub struct Maturin(Invocation);

/// The user's arguments for `maturin build`.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Options: features, target, interpreters …
    pub options: Vec<OsString>,
    /// Arguments for rustc: those after a second `--`, otherwise those of `pyproject.toml`.
    pub rustc_args: Vec<OsString>,
    /// Cargo's profile in `pyproject.toml`.
    profile: Option<String>,
}

impl Arguments {
    pub fn new(passthrough: &[OsString], pyproject: Option<&Pyproject>) -> Self {
        let mut parts = passthrough.splitn(2, |argument| argument == "--");
        let options = parts.next().unwrap_or_default().to_vec();
        let mut rustc_args = parts.next().unwrap_or_default().to_vec();
        if let Some(file) = pyproject.filter(|_| rustc_args.is_empty()) {
            rustc_args.extend(file.rustc_args().iter().map(OsString::from));
        }
        Self {
            options,
            rustc_args,
            profile: pyproject.and_then(Pyproject::profile).map(str::to_owned),
        }
    }

    /// The profile to pass to maturin if the user gave none to `cargo cuda`: `release`, unless maturin's arguments or
    /// `pyproject.toml` name one. maturin's own default is `dev`.
    pub fn default_profile(&self) -> Option<&'static str> {
        let is_named = self.profile.is_some()
            || self.options.iter().any(|option| {
                option == "-r" || option == "--release" || starts_with(option, "--profile")
            });
        (!is_named).then_some("release")
    }
}

fn starts_with(option: &OsStr, start: &str) -> bool {
    option.as_encoded_bytes().starts_with(start.as_bytes())
}

/// Omits maturin's warning about a build backend with another name than `maturin`.
pub const NO_WARNING: (&str, &str) = ("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1");

/// What maturin builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Wheels with all files.
    Wheel,
    /// A wheel that refers to the source tree, for development.
    Editable,
}

/// The inputs of one call of `maturin build`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `Cargo.toml` of the crate.
    pub manifest: &'a Path,
    /// The directory with the `pyproject.toml` whose `manifest-path` names the crate. maturin then starts there, and
    /// does not get `manifest`.
    pub directory: Option<&'a Path>,
    /// An empty directory, into which maturin writes the wheels.
    pub out: &'a Path,
    pub mode: Mode,
    /// Cargo's profile; `None` for the one in `arguments` or `pyproject.toml`.
    pub profile: Option<&'a str>,
    pub arguments: &'a Arguments,
    /// More arguments that rustc gets only for the final crate, not for its dependencies. They come from
    /// [`SearchPathPlan::rustc_arguments`](super::runpath::SearchPathPlan::rustc_arguments).
    pub rustc_args: &'a [String],
    /// Environment variables to set for maturin.
    pub env: &'a [(String, OsString)],
}

impl Maturin {
    /// Finds maturin: the program on `PATH`, otherwise the maturin that an earlier call has fetched into the store,
    /// otherwise `uvx`, which fetches maturin on first use. With `fetch`, a pinned version of maturin is fetched into
    /// the store instead of using `uvx`. A program whose version is not in `accepted`, the versions that
    /// `pyproject.toml` accepts, is an error.
    pub fn find(
        env: &Env,
        fetch: bool,
        accepted: Option<&VersionSpecifiers>,
    ) -> Result<Self, Failure> {
        if let Some(program) = process::on_path(env, "maturin") {
            return Self::program(&program, env, accepted);
        }
        let fetched = match fetch {
            true => Some(tools::MATURIN.fetch(env)?),
            false => tools::MATURIN.fetched(env),
        };
        if let Some(site) = fetched {
            return Self::program(&site.join("bin/maturin"), env, accepted);
        }
        if let Some(uvx) = process::on_path(env, "uvx") {
            let accepted = accepted.map(|accepted| format!(",{accepted}"));
            let package = format!("maturin>={MINIMUM},<2{}", accepted.unwrap_or_default());
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

    /// The command for the maturin at `path`. Fails if its version is below `MINIMUM` or not in `accepted`.
    pub fn program(
        path: &Path,
        env: &Env,
        accepted: Option<&VersionSpecifiers>,
    ) -> Result<Self, Failure> {
        let printed = process::output(&Invocation::new(path).args(["--version"]), env);
        check_version(&printed.unwrap_or_default(), accepted)
            .map_err(|failure| failure.in_file(&path.display().to_string()))?;
        Ok(Self(Invocation::new(path)))
    }

    /// The command for a hook of PEP 517.
    pub fn hook(&self, name: &str) -> Invocation {
        let call = self.0.clone().args(["pep517", name]);
        call.variable(NO_WARNING.0, NO_WARNING.1)
    }

    /// The command that builds the wheels.
    pub fn build(&self, request: &Request<'_>) -> Invocation {
        let mut invocation = self.0.clone();
        let args = &mut invocation.arguments;
        args.extend(match request.mode {
            Mode::Wheel => vec!["build".into()],
            Mode::Editable => ["pep517", "build-wheel", "--editable"]
                .map(OsString::from)
                .to_vec(),
        });
        args.extend(["--auditwheel", "warn"].map(OsString::from));
        if let Some(profile) = request.profile {
            args.extend(["--profile".into(), profile.into()]);
        }
        args.extend(["--out".into(), request.out.into()]);
        match request.directory {
            Some(directory) => invocation.directory = Some(directory.to_owned()),
            None => args.extend(["--manifest-path".into(), request.manifest.into()]),
        }
        args.extend(request.arguments.options.iter().cloned());
        let own = request.arguments.rustc_args.iter().cloned();
        let rustc_args: Vec<OsString> = own
            .chain(request.rustc_args.iter().map(OsString::from))
            .collect();
        if !rustc_args.is_empty() {
            args.push("--".into());
            args.extend(rustc_args);
        }
        invocation.variables.extend(request.env.iter().cloned());
        invocation
    }
}

/// Checks what `maturin --version` printed, such as `maturin 1.16.0`.
fn check_version(printed: &str, accepted: Option<&VersionSpecifiers>) -> Result<(), Failure> {
    let version = |text: &str| text.parse::<Version>().ok();
    let found = printed.split_whitespace().nth(1).and_then(version);
    let printed = printed.trim();
    let (reason, wanted) = match (found, version(MINIMUM)) {
        (Some(found), Some(minimum)) if found >= minimum => {
            match accepted.filter(|accepted| !accepted.contains(&found)) {
                Some(accepted) => (
                    format!(
                        "{printed:?} is not accepted: `requires` in pyproject.toml has maturin {accepted}"
                    ),
                    format!(">={MINIMUM},{accepted}").replace(' ', ""),
                ),
                None => return Ok(()),
            }
        }
        _ => (
            format!("{printed:?} is too old: {MINIMUM} is the first with `--auditwheel warn`"),
            format!(">={MINIMUM}"),
        ),
    };
    Err(
        Failure::new(exit_code::MISSING_PROGRAM, reason).hint(format!(
            "install another one with `python3 -m pip install 'maturin{wanted}'`, or change the bound in \
         pyproject.toml if no version meets it"
        )),
    )
}

#[cfg(test)]
mod tests {
    use cuda_build::internal::Root;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes a program to be found")]
    fn a_program_comes_before_uvx() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("PATH", directory.path())]);
        let find = || Maturin::find(&env, false, None).map(|maturin| maturin.0.to_string());
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
        let arguments = Arguments::new(&words("--features x -i python3 -- -C debuginfo=0"), None);
        let request = Request {
            manifest: Path::new("/p/Cargo.toml"),
            directory: None,
            out: Path::new("/tmp/o"),
            mode: Mode::Wheel,
            profile: Some("release"),
            arguments: &arguments,
            rustc_args: &[
                "-C".to_owned(),
                "link-arg=-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib".to_owned(),
            ],
            env: &[("X".to_owned(), "it's".into())],
        };
        let invocation = maturin.build(&request);
        assert_eq!(
            invocation.to_string(),
            "X='it'\\''s' '/opt/my tools/maturin' build --auditwheel warn --profile release --out /tmp/o \
             --manifest-path /p/Cargo.toml --features x -i python3 -- -C debuginfo=0 \
             -C 'link-arg=-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib'"
        );
        let from_there = maturin.build(&Request {
            directory: Some(Path::new("/p")),
            ..request
        });
        assert_eq!(from_there.directory.as_deref(), Some(Path::new("/p")));
        assert!(!from_there.to_string().contains("--manifest-path"));
    }

    #[test]
    fn arguments_of_pyproject_stay() {
        let text =
            "[tool.maturin]\nprofile = 'dist'\nrustc-args = ['-C', 'link-arg=-Wl,-z,nodelete']\n";
        let place = tempfile::tempdir().unwrap();
        crate::output::write(&place.path().join("pyproject.toml"), text.as_bytes()).unwrap();
        let file = Pyproject::read(&Root::system(), place.path()).unwrap();
        let arguments = |passed: &str| Arguments::new(&words(passed), Some(&file));
        assert_eq!(
            arguments("--locked").rustc_args,
            words("-C link-arg=-Wl,-z,nodelete")
        );
        assert_eq!(arguments("-- -C x").rustc_args, words("-C x"));
        assert_eq!(arguments("--locked").default_profile(), None);
        for (passed, default) in [
            ("", Some("release")),
            ("--features release", Some("release")),
            ("--release", None),
            ("-r", None),
            ("--profile=dev", None),
        ] {
            let arguments = Arguments::new(&words(passed), None);
            assert_eq!(arguments.default_profile(), default, "{passed}");
        }
    }

    #[test]
    fn maturin_must_be_accepted_by_pyproject() {
        let accepted: VersionSpecifiers = ">=1.9,<1.15".parse().unwrap();
        assert!(check_version("maturin 1.14.1\n", Some(&accepted)).is_ok());
        let error = check_version("maturin 1.16.0\n", Some(&accepted)).unwrap_err();
        assert_eq!(error.code, exit_code::MISSING_PROGRAM);
        let text = error.to_string();
        for words in [
            "\"maturin 1.16.0\" is not accepted: `requires` in pyproject.toml has maturin >=1.9, <1.15",
            "'maturin>=1.13,>=1.9,<1.15'",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn too_old_is_an_error() {
        assert!(check_version("maturin 1.16.0\n", None).is_ok());
        for printed in ["maturin 1.9.6", "", "sh: maturin: not found"] {
            let error = check_version(printed, None).unwrap_err();
            assert!(error.hints[0].contains("maturin>="), "{error}");
        }
    }
}

//! Finds the programs that build wheels: maturin, and auditwheel, which copies third-party libraries into wheels.
//!
//! maturin runs with `--auditwheel warn`, which computes the manylinux tag and copies no libraries. Its default,
//! `repair`, copies CUDA's libraries and even the driver into the wheel. `skip` does not compute the tag.

use std::path::{Path, PathBuf};

use cuda_find_core::{command::Invocation, env::Env};
use pep440_rs::Version;

use crate::failure::{Failure, Result};
use crate::output;
use crate::package::nvidia;
use crate::process;
use crate::store::tools;

/// The first version of maturin that accepts `--auditwheel warn`.
const MATURIN: &str = "1.13";

/// The first version of auditwheel whose `--exclude` accepts a `*`.
const AUDITWHEEL: &str = "6.1";

/// The command that starts maturin: the program on `PATH` if it runs and is new enough, otherwise the pinned one, which
/// an earlier call has fetched into the store, or this one with `fetch`.
pub fn maturin(env: &Env, fetch: bool) -> Result<Invocation> {
    let on_path = process::on_path(env, "maturin");
    let on_path = on_path.map(|program| check_version(Invocation::new(program), MATURIN, env));
    let unusable = match on_path.transpose() {
        Ok(Some(call)) => return Ok(call),
        Ok(None) => None,
        Err(reason) => Some(reason),
    };
    if let Some(site) = pinned(&tools::MATURIN, env, fetch)? {
        return Ok(Invocation::new(site.join("bin/maturin")));
    }
    let reason = unusable.unwrap_or_else(|| "`maturin` is not on `PATH`".to_owned());
    let text = format!("{reason} (needed to build the wheel)");
    Err(Failure::missing_program(text).hint(format!(
        "let this command fetch maturin with `--fetch`, or install it with `python3 -m pip install \
         'maturin>={MATURIN}'`; for a build backend, `requires` in pyproject.toml decides"
    )))
}

/// The command that starts auditwheel, found in the same order. auditwheel calls patchelf, so both must run.
pub fn auditwheel(env: &Env, fetch: bool) -> Result<Option<Invocation>> {
    let patchelf = process::on_path(env, "patchelf").map(Invocation::new);
    let has_patchelf = patchelf.is_some_and(|call| check_version(call, "0.0", env).is_ok());
    let on_path = process::on_path(env, "auditwheel").filter(|_| has_patchelf);
    let on_path = on_path.map(Invocation::new);
    if let Some(Ok(call)) = on_path.map(|call| check_version(call, AUDITWHEEL, env)) {
        return Ok(Some(call));
    }
    let site = pinned(&tools::AUDITWHEEL, env, fetch)?;
    let python = process::on_path(env, "python3");
    Ok(site.zip(python).map(|(site, python)| {
        let mut path = vec![site.join("bin")];
        path.extend(env.search_path());
        let path = std::env::join_paths(path).unwrap_or_default();
        let call = Invocation::new(python).args(["-m", "auditwheel"]);
        call.variable("PYTHONPATH", site).variable("PATH", path)
    }))
}

/// The program of a call, or the reason why it cannot be used: it is older than `minimum`, or it fails, as the script
/// of pyenv or asdf does for a program that no chosen version has.
fn check_version(call: Invocation, minimum: &str, env: &Env) -> Result<Invocation, String> {
    let program = call.program.display();
    let finished = call.clone().args(["--version"]).query(env);
    let finished = finished.map_err(|error| format!("{program} does not run: {error}"))?;
    if !finished.success {
        let printed = finished.output();
        return Err(format!("{program} does not run: {}", printed.trim()));
    }
    let version = finished.stdout.split_whitespace().nth(1);
    let version: Option<Version> = version.and_then(|text| text.parse().ok());
    match version >= minimum.parse().ok() {
        true => Ok(call),
        false => Err(format!(
            "{program} is older than {minimum}: {}",
            finished.stdout.trim()
        )),
    }
}

fn pinned(tool: &tools::Tool, env: &Env, fetch: bool) -> Result<Option<PathBuf>> {
    match fetch {
        true => tool.fetch(env).map(Some),
        false => Ok(tool.fetched(env)),
    }
}

/// Copies the third-party `libraries` into the wheel with auditwheel, and returns the new wheel in `out`, an empty
/// directory. Libraries of NVIDIA's and those in `excluded` are left out.
pub fn graft(
    auditwheel: &Invocation,
    wheel: &Path,
    out: &Path,
    libraries: &str,
    excluded: &[String],
    user: &Env,
) -> Result<PathBuf> {
    let text = format!("{libraries} into the wheel with auditwheel");
    output::status("Copying", &text);
    let mut call = auditwheel.clone().args(["repair", "--wheel-dir"]);
    call = call.args([out]);
    for pattern in nvidia::nvidia_library_patterns().iter().chain(excluded) {
        call = call.args(["--exclude", pattern]);
    }
    let code = process::run(&call.args([wheel]), user)?;
    if let (0, [wheel]) = (code, output::files(out)?.as_slice()) {
        return Ok(wheel.clone());
    }
    let text = format!(
        "auditwheel ended with code {code}, so these libraries are not in the wheel: {libraries}"
    );
    Err(Failure::wheel(text).hint(
        "if auditwheel did not find a library, set `LD_LIBRARY_PATH` to its directory; if users have the library \
         already, for example from another Python package, give `--exclude` with its name",
    ))
}

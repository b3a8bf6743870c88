//! Finds maturin, which builds wheels.
//!
//! It runs with `--auditwheel warn`, which computes the manylinux tag and copies no libraries. Its default,
//! `repair`, copies CUDA's libraries and even the driver into the wheel. `skip` does not compute the tag.

use cuda_find_core::{command::Invocation, env::Env};
use pep440_rs::Version;

use crate::failure::{Failure, Result};
use crate::process;
use crate::store::tools;

/// The first version of maturin that accepts `--auditwheel warn`.
const MATURIN: &str = "1.13";

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
    let pinned = match fetch {
        true => Some(tools::MATURIN.fetch(env)?),
        false => tools::MATURIN.fetched(env),
    };
    if let Some(site) = pinned {
        return Ok(Invocation::new(site.join("bin/maturin")));
    }
    let reason = unusable.unwrap_or_else(|| "`maturin` is not on `PATH`".to_owned());
    let text = format!("{reason} (needed to build the wheel)");
    Err(Failure::missing_program(text).hint(format!(
        "let this command fetch maturin with `--fetch`, or install it with `python3 -m pip install \
         'maturin>={MATURIN}'`; for a build backend, `requires` in pyproject.toml decides"
    )))
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

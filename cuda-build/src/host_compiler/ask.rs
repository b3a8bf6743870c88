//! Asks nvcc and compilers, and chooses by their answers.

use std::path::{Path, PathBuf};

use super::choose::{
    Accepts, absent, from_dry_run, has_option, is_compiler_name, origin_warning, preferred, refused,
};
use super::{Bounds, Compiler, HostCompiler, Macros, bounds};
use crate::command::Invocation;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::release;
use crate::root::Root;
use crate::toolkit::Toolkit;

/// nvcc's own variables for flags.
const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Chooses the host compiler for a toolkit with nvcc.
///
/// # Errors
/// [`Error::HostCompiler`] for one that was named and that the toolkit does not accept, and where
/// none that it accepts is installed; with `-allow-unsupported-compiler` in `NVCC_PREPEND_FLAGS`
/// or `NVCC_APPEND_FLAGS` only where there is none at all.
pub fn choose(env: &Env, root: &Root, toolkit: &Toolkit) -> Result<HostCompiler, Error> {
    let header = toolkit.get(Component::Crt).and_then(|crt| {
        let headers = crt
            .include
            .iter()
            .map(|directory| directory.join("crt/host_config.h"));
        headers
            .into_iter()
            .find_map(|header| root.text(&header).ok())
    });
    let table = release::facts(toolkit.version()).map(|facts| Bounds {
        gcc_max: facts.gcc_max,
        clang_max: facts.clang_max,
    });
    let accepts = Accepts {
        toolkit: toolkit.version(),
        header: header.as_deref(),
        bounds: header.as_deref().and_then(bounds).or(table),
    };
    let flags = |names: &[&str]| {
        let set = FLAGS
            .into_iter()
            .filter_map(|variable| Some((variable, env.text(variable)?)));
        set.into_iter()
            .find(|(_, value)| has_option(value, names))
            .map(|(variable, _)| variable)
    };
    let unchecked = flags(&[
        "-allow-unsupported-compiler",
        "--allow-unsupported-compiler",
    ])
    .is_some();
    let by_flag = flags(&["-ccbin", "--compiler-bindir"]);
    let wished = env.path("NVCC_CCBIN");

    let own = own_choice(env, toolkit);
    let (program, named) = match (&by_flag, &wished) {
        // Nothing but nvcc reads its flags, and what stands there beats the variable.
        (Some(variable), _) => (
            own.clone().unwrap_or_else(|| PathBuf::from("g++")),
            Some(*variable),
        ),
        (None, Some(path)) => (path.clone(), Some("NVCC_CCBIN")),
        (None, None) => (own.clone().unwrap_or_else(|| PathBuf::from("gcc")), None),
    };
    let asked = locate(env, root, &program).and_then(|path| ask(&path));
    let finish = |compiler: Compiler, option: Option<PathBuf>| {
        let warnings = warnings(env, root, &compiler);
        HostCompiler {
            compiler,
            option,
            warnings,
        }
    };
    match asked {
        Some(compiler) if unchecked || accepts.takes(&compiler) => {
            // An nvcc that is older than the variable does not read it.
            let own = own.and_then(|own| locate(env, root, &own));
            let taken =
                by_flag.is_some() || own.as_ref() == Some(&compiler.path) || named.is_none();
            let option = (!taken).then(|| compiler.path.clone());
            Ok(finish(compiler, option))
        }
        Some(compiler) if named.is_some() => {
            Err(refused(&compiler, named, &installed(env, root), accepts))
        }
        None if named.is_some() => Err(absent(
            named.map(|variable| (variable, program.as_path())),
            accepts,
        )),
        asked => {
            let installed = installed(env, root);
            match (preferred(installed.clone(), accepts), asked) {
                (Some(compiler), _) => {
                    let option = Some(compiler.path.clone());
                    Ok(finish(compiler, option))
                }
                (None, Some(compiler)) => Err(refused(&compiler, None, &installed, accepts)),
                (None, None) => Err(absent(None, accepts)),
            }
        }
    }
}

/// What nvcc would start by itself: its profile, its wrapper and its variables decide.
fn own_choice(env: &Env, toolkit: &Toolkit) -> Option<PathBuf> {
    let nvcc = toolkit.tool(Component::Nvcc, "nvcc")?;
    // The file need not exist: a dry run opens nothing.
    let mut dry_run =
        Invocation::new(nvcc).args(["--dryrun", "-c", "-x", "cu", "host-compiler.cu"]);
    for name in ["PATH", "NVCC_CCBIN"].into_iter().chain(FLAGS) {
        if let Some(value) = env.peek(name) {
            dry_run = dry_run.variable(name, value);
        }
    }
    from_dry_run(&dry_run.run().ok()?.output)
}

/// A program as nvcc finds it: a path, a directory that holds it, or a name on `PATH`.
fn locate(env: &Env, root: &Root, program: &Path) -> Option<PathBuf> {
    if root.is_dir(program) {
        let names = ["g++", "gcc", "clang++", "clang"].map(|name| program.join(name));
        return names.into_iter().find(|path| root.is_file(path));
    }
    if program.components().count() > 1 {
        return root.is_file(program).then(|| program.to_owned());
    }
    env.search_path()
        .into_iter()
        .map(|directory| directory.join(program))
        .find(|path| root.is_file(path))
}

fn ask(path: &Path) -> Option<Compiler> {
    let answer = Invocation::new(path)
        .args(["-dM", "-E", "-x", "c++", "/dev/null"])
        .run()
        .ok()?;
    if !answer.success {
        return None;
    }
    Compiler::from_macros(path.to_owned(), Macros::parse(&answer.output))
}

/// Every C++ compiler on `PATH` that has a usual name, each once.
fn installed(env: &Env, root: &Root) -> Vec<Compiler> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut compilers = Vec::new();
    for directory in env.search_path() {
        for name in root.names(&directory) {
            let path = directory.join(&name);
            let real = root.resolve(&path);
            if name.to_str().is_some_and(is_compiler_name)
                && root.is_file(&path)
                && !seen.contains(&real)
            {
                seen.push(real);
                compilers.extend(ask(&path));
            }
        }
    }
    compilers
}

fn warnings(env: &Env, root: &Root, compiler: &Compiler) -> Vec<String> {
    let tools = ["as", "ld"].into_iter().filter_map(|tool| {
        let answer = Invocation::new(&compiler.path)
            .args([format!("-print-prog-name={tool}")])
            .run()
            .ok()?;
        let path = locate(env, root, Path::new(answer.output.trim()))?;
        origin_warning(&root.resolve(&compiler.path), tool, &root.resolve(&path))
    });
    tools.collect()
}

//! What an nvcc reports about itself.
//!
//! `nvcc --dryrun` prints the variables of the `nvcc.profile` beside nvcc, and the command with which nvcc
//! would preprocess a file. From these, the directories, the version and the host compiler are read. The
//! answer is kept in the user's cache directory, so that the same nvcc is not queried again.
//!
//! The dry run fails if there is no host compiler. `nvcc --version` then prints at least the version.

mod answer;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use answer::NvccAnswer;

use crate::cached_answer::CachedAnswer;
use crate::command::Invocation;
use crate::env::Env;
use crate::error::Error;
use crate::hash::Fnv;
use crate::root::Root;

/// The variables that nvcc itself reads: flags, and the host compiler.
pub const VARIABLES: [&str; 3] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"];

/// Queries `nvcc`. If a cached answer is still valid, returns it without starting nvcc.
///
/// # Errors
/// [`Error::Program`] if the program cannot be started or hangs; [`Error::Format`] if its output contains no
/// version of nvcc.
pub fn query(root: &Root, env: &Env, nvcc: &Path) -> Result<NvccAnswer, Error> {
    let [prepend, append, ccbin] = VARIABLES.map(|name| env.peek(name).unwrap_or_default());
    let path = env.peek("PATH").unwrap_or_default();
    let question = [nvcc.as_os_str(), prepend, append, ccbin, path];
    let cached = CachedAnswer::new(env, "nvcc", question);
    if let Some((identity, text)) = cached.read(root)
        && let Some(answer) = NvccAnswer::parse(&text)
        && identity_of(root, env, nvcc, &answer) == Some(identity)
    {
        return Ok(answer);
    }
    let before = root.fingerprint(nvcc);
    let text = dry_run_output(env, nvcc)?;
    let answer = NvccAnswer::parse(&text).ok_or_else(|| Error::Format {
        what: "nvcc",
        reason: format!("{} does not answer as nvcc does", nvcc.display()),
        hint: "remove it from `PATH`, or name the toolkit to use with `CUDA_BUILD_ROOTS`",
    })?;
    if let Some(identity) = identity_of(root, env, nvcc, &answer)
        && before == root.fingerprint(nvcc)
    {
        cached.write(&identity, &text);
    }
    Ok(answer)
}

/// Starts nvcc and returns the output of a dry run. If the dry run fails, as it does without a host compiler,
/// returns the output of `--version`.
fn dry_run_output(env: &Env, nvcc: &Path) -> Result<String, Error> {
    let query = |arguments: &[&str]| Invocation::new(nvcc).args(arguments).query(env);
    let dry_run = query(&["--dryrun", "-E", "-x", "cu", "/dev/null"])?;
    if !dry_run.success {
        return Ok(query(&["--version"])?.output());
    }
    let text = dry_run.output();
    // If the profile does not assign `PATH`, nvcc uses the `PATH` of the process without printing it.
    let path = env.peek("PATH").and_then(OsStr::to_str);
    match path {
        Some(path) if !text.contains("#$ PATH=") => Ok(format!("{text}\n#$ PATH={path}\n")),
        _ => Ok(text),
    }
}

/// A digest of what an answer depends on besides the question in [`query`]: nvcc, the nvcc that a script
/// starts, the profile, the variables that the profile names, and the host compiler. `None` if a change of
/// one of them could not be detected; the answer is then not cached.
fn identity_of(root: &Root, env: &Env, nvcc: &Path, answer: &NvccAnswer) -> Option<String> {
    let program = real_nvcc(root, nvcc, answer)?;
    let profile = program.with_file_name("nvcc.profile");
    let profile = root
        .text(&profile)
        .unwrap_or_else(|error| error.to_string());
    let host_compiler = host_compiler(root, env, nvcc, answer);
    if answer.host_compiler.is_none() {
        // The dry run failed. It is certain to fail again only if there is no gcc and none of nvcc's
        // variables is set.
        let variable_set = VARIABLES.iter().any(|name| env.peek(name).is_some());
        if variable_set || host_compiler.is_some() {
            return None;
        }
    }
    let mut hash = Fnv::default();
    hash.field(root.fingerprint(nvcc)?.as_bytes());
    hash.field(root.fingerprint(&program)?.as_bytes());
    // nvcc looks for headers and libraries in `targets` only if it exists.
    let targets = root.is_dir(&program.with_file_name("../targets"));
    hash.field(&[u8::from(targets)]);
    hash.field(profile.as_bytes());
    for name in profile.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        // Cargo sets another `LD_LIBRARY_PATH` for every build script, and nvcc's answer does not depend on it.
        if name != "LD_LIBRARY_PATH" {
            hash.field(env.peek(name).unwrap_or_default().as_encoded_bytes());
        }
    }
    if let Some(path) = host_compiler {
        hash.field(path.as_os_str().as_encoded_bytes());
        hash.field(root.fingerprint(&path)?.as_bytes());
    }
    Some(hash.hex())
}

/// The path of the host compiler that nvcc starts if no option names one; `None` if the file does not exist.
pub(crate) fn host_compiler(
    root: &Root,
    env: &Env,
    nvcc: &Path,
    answer: &NvccAnswer,
) -> Option<PathBuf> {
    let program = answer.host_compiler.as_deref().unwrap_or(Path::new("gcc"));
    let mut directories = answer.programs.clone();
    if directories.is_empty() {
        // The dry run failed, so nvcc's search path is unknown. On Debian, nvcc starts the link to gcc that is
        // in nvcc's own directory.
        directories.extend(nvcc.parent().map(Path::to_owned));
        directories.extend(env.search_path());
    }
    locate(root, program, &directories)
}

/// The file that nvcc starts for `program`: a path, a directory that contains a compiler, or a name that is
/// looked up in `directories`.
pub(crate) fn locate(root: &Root, program: &Path, directories: &[PathBuf]) -> Option<PathBuf> {
    if program.components().count() > 1 {
        let mut files = vec![program.to_owned()];
        files.extend(["g++", "gcc", "clang++", "clang"].map(|name| program.join(name)));
        return files.into_iter().find(|path| root.is_file(path));
    }
    let mut files = directories.iter().map(|directory| directory.join(program));
    files.find(|path| root.is_file(path))
}

/// The nvcc that printed the answer: `nvcc` itself, or, if `nvcc` is a script, the nvcc that the script always
/// starts. `None` if it is unknown, for example if `nvcc` is a link to ccache.
fn real_nvcc(root: &Root, nvcc: &Path, answer: &NvccAnswer) -> Option<PathBuf> {
    match &answer.directory {
        Some(directory) if nvcc.parent() != Some(directory) => {
            let program = started_by(&root.text(nvcc).ok()?)?;
            (program.parent() == Some(directory)).then_some(program)
        }
        Some(_) => Some(nvcc.to_owned()),
        None => root.elf_machine(nvcc).map(|_| nvcc.to_owned()),
    }
}

/// The nvcc that a script always starts. Debian's `/usr/bin/nvcc` is
/// `exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"`, in Debian 13 after an
/// `export PATH="<directory>:$PATH"`. `None` for any other script, because it may start another program the
/// next time.
pub(crate) fn started_by(script: &str) -> Option<PathBuf> {
    let is_plain =
        |path: &str| path.starts_with('/') && !path.contains([' ', '$', '`', '"', '\\', ';', '&']);
    let mut lines = script.lines().map(str::trim);
    lines
        .next()
        .filter(|line| line.replace(' ', "") == "#!/bin/sh")?;
    let mut commands: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let program = commands
        .pop()?
        .strip_prefix("exec ")?
        .strip_suffix(" \"$@\"")?
        .trim();
    let adds_to_path = |command: &&str| {
        let directory = command
            .strip_prefix("export PATH=\"")
            .and_then(|rest| rest.strip_suffix(":$PATH\""));
        directory.is_some_and(is_plain)
    };
    let is_nvcc = is_plain(program) && program.ends_with("/nvcc");
    (is_nvcc && commands.iter().all(adds_to_path)).then(|| PathBuf::from(program))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

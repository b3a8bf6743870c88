//! What an nvcc reports about itself.
//!
//! `nvcc --dryrun` prints the variables of the `nvcc.profile` beside nvcc, and the command with which nvcc
//! would preprocess a file. From these, the directories, the version and the host compiler are read. The layout of a
//! toolkit cannot be derived from nvcc's path, because each package's `nvcc.profile` is different: conda's sets `TOP`
//! to a directory in `targets/`, Debian's sets neither `TOP` nor `INCLUDES`, and nixpkgs' contains store paths.
//!
//! The answer is kept in the user's cache directory, so that the same nvcc is not queried again. The dry run fails if
//! there is no host compiler. `nvcc --version` then prints at least the version.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::cache::CachedAnswer;
use crate::command::{Invocation, split_words};
use crate::env::Env;
use crate::error::Error;
use crate::hash::Hasher;
use crate::root::Root;
use crate::version::Version;

/// The variables that nvcc itself reads: flags, and the host compiler.
const VARIABLES: [&str; 3] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"];

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
    let known = cached.read(root).and_then(|(identity, text)| {
        let answer = NvccAnswer::parse(&text)?;
        (identity_of(root, env, nvcc, &answer)? == identity).then_some(answer)
    });
    if let Some(answer) = known {
        return Ok(answer);
    }
    let before = root.fingerprint(nvcc);
    let text = dry_run_output(env, nvcc)?;
    let answer = NvccAnswer::parse(&text).ok_or_else(|| Error::Format {
        what: "nvcc",
        reason: format!("{} does not answer as nvcc does", nvcc.display()),
        hint: "remove it from `PATH`, or name the toolkit to use with `CUDA_BUILD_ROOTS`",
    })?;
    let identity = identity_of(root, env, nvcc, &answer);
    if let Some(identity) = identity.filter(|_| before == root.fingerprint(nvcc)) {
        cached.write(&identity, &text);
    }
    Ok(answer)
}

/// Starts nvcc and returns the output of a dry run. If the dry run fails, as it does without a host compiler,
/// returns the output of `--version`.
fn dry_run_output(env: &Env, nvcc: &Path) -> Result<String, Error> {
    let query = |arguments: &[&str]| {
        Invocation::new(nvcc)
            .args(arguments)
            .in_english()
            .query(env)
    };
    let dry_run = query(&["--dryrun", "-E", "-x", "cu", "/dev/null"])?;
    if !dry_run.success {
        return Ok(query(&["--version"])?.output());
    }
    let text = dry_run.output();
    // If the profile does not assign `PATH`, nvcc uses the `PATH` of the process without printing it.
    match env.peek("PATH").and_then(OsStr::to_str) {
        Some(path) if !text.contains("#$ PATH=") => Ok(format!("{text}\n#$ PATH={path}\n")),
        _ => Ok(text),
    }
}

/// A digest of what an answer depends on besides the question in [`query`]: nvcc, the nvcc that a script
/// starts, the profile, the variables that the profile names, and the host compiler. `None` if a change of
/// one of them could not be detected; the answer is then not cached.
fn identity_of(root: &Root, env: &Env, nvcc: &Path, answer: &NvccAnswer) -> Option<String> {
    let program = real_nvcc(root, nvcc, answer)?;
    let profile = root.text(&program.with_file_name("nvcc.profile"));
    let profile = profile.unwrap_or_else(|error| error.to_string());
    let host_compiler = host_compiler(root, env, nvcc, answer);
    if answer.host_compiler.is_none() {
        // The dry run failed. It is certain to fail again only if there is no gcc and none of nvcc's
        // variables is set.
        let variable_set = VARIABLES.iter().any(|name| env.peek(name).is_some());
        if variable_set || host_compiler.is_some() {
            return None;
        }
    }
    let mut hash = Hasher::default();
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
    Some(hash.digest().to_string())
}

/// The path of the host compiler that nvcc starts if no option names one; `None` if the file does not exist.
pub fn host_compiler(root: &Root, env: &Env, nvcc: &Path, answer: &NvccAnswer) -> Option<PathBuf> {
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
pub fn locate(root: &Root, program: &Path, directories: &[PathBuf]) -> Option<PathBuf> {
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
pub fn started_by(script: &str) -> Option<PathBuf> {
    let is_plain =
        |path: &str| path.starts_with('/') && !path.contains([' ', '$', '`', '"', '\\', ';', '&']);
    let mut commands: Vec<&str> = script.lines().map(str::trim).collect();
    let is_shell = commands.first()?.replace(' ', "") == "#!/bin/sh";
    commands.retain(|line| !line.is_empty() && !line.starts_with('#'));
    let program = between(commands.pop()?, "exec ", " \"$@\"")?.trim();
    let adds_to_path =
        |line: &&str| between(line, "export PATH=\"", ":$PATH\"").is_some_and(is_plain);
    let is_nvcc = is_plain(program) && program.ends_with("/nvcc");
    (is_shell && is_nvcc && commands.iter().all(adds_to_path)).then(|| PathBuf::from(program))
}

fn between<'t>(line: &'t str, start: &str, end: &str) -> Option<&'t str> {
    line.strip_prefix(start)?.strip_suffix(end)
}

/// What one nvcc printed. The values are not verified: a directory may not exist.
#[derive(Debug, PartialEq)]
pub struct NvccAnswer {
    /// The version of nvcc, such as `12.4.131`.
    pub version: Version,
    /// `_HERE_`: the directory of the nvcc that ran, with links not resolved.
    pub directory: Option<PathBuf>,
    /// `TOP`: the root that the profile names, often with a `..` in the path. Debian's profile names no root.
    pub top: Option<PathBuf>,
    /// The include directories: after `-I` in `INCLUDES`, then after `-isystem` in `SYSTEM_INCLUDES`.
    pub includes: Vec<PathBuf>,
    /// The library directories: after `-L` in `LIBRARIES`, without directories called `stubs`.
    pub libraries: Vec<PathBuf>,
    /// The directories that nvcc searches for programs: `CICC_PATH`, then `PATH`.
    pub programs: Vec<PathBuf>,
    /// The host compiler as nvcc starts it: `gcc`, `/usr/bin/g++-12`. `None` if the dry run failed.
    pub host_compiler: Option<PathBuf>,
    /// The path of the queried nvcc, if the user named it. Builds then run exactly this file.
    pub named: Option<PathBuf>,
}

impl NvccAnswer {
    /// Reads the output of `nvcc --dryrun` or `nvcc --version`; `None` if it has no version.
    ///
    /// ```
    /// use cuda_find_core::nvcc::NvccAnswer;
    /// let printed = "#$ TOP=/opt/cuda/bin/..\nCuda compilation tools, release 12.4, V12.4.131";
    /// let answer = NvccAnswer::parse(printed).unwrap();
    /// assert_eq!(answer.version.to_string(), "12.4.131");
    /// assert!(answer.top.is_some());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let version = macro_version(text).or_else(|| printed_version(text))?;
        let mut answer = Self {
            version,
            directory: None,
            top: None,
            includes: Vec::new(),
            libraries: Vec::new(),
            programs: Vec::new(),
            host_compiler: None,
            named: None,
        };
        let (mut system_includes, mut cicc) = (Vec::new(), None);
        for line in text.lines().filter_map(|line| line.strip_prefix("#$ ")) {
            if line.contains(" -E -x c++ ") {
                // `gcc -E …`, `"/usr/bin"/g++-12 -E …`
                answer.host_compiler = split_words(line).first().map(PathBuf::from);
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            // A variable that is assigned twice is printed twice, each time with its whole value.
            match name {
                "_HERE_" => answer.directory = absolute(value.trim()),
                "TOP" => answer.top = absolute(value.trim()),
                "INCLUDES" => answer.includes = flagged(value, "-I"),
                "SYSTEM_INCLUDES" => system_includes = flagged(value, "-isystem"),
                "LIBRARIES" => answer.libraries = flagged(value, "-L"),
                "CICC_PATH" => cicc = absolute(value.trim()),
                "PATH" => answer.programs = value.split(':').filter_map(absolute).collect(),
                _ => {}
            }
        }
        answer.libraries.retain(|path| !path.ends_with("stubs"));
        answer.includes.append(&mut system_includes);
        answer.programs.splice(0..0, cicc);
        Some(answer)
    }
}

/// `path`, if it is absolute. nvcc prints paths that begin with the directory in its `argv[0]`, and this crate
/// starts it by an absolute path.
fn absolute(path: &str) -> Option<PathBuf> {
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The version in the macros that the first command of a dry run defines:
/// `-D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=4 -D__CUDACC_VER_BUILD__=131`.
fn macro_version(text: &str) -> Option<Version> {
    let number = |name: &str| {
        let (_, after) = text.split_once(&format!("-D__CUDACC_VER_{name}__="))?;
        after.split(|c: char| !c.is_ascii_digit()).next()
    };
    let [major, minor, build] = ["MAJOR", "MINOR", "BUILD"].map(number);
    format!("{}.{}.{}", major?, minor?, build?).parse().ok()
}

/// The version that `nvcc --version` prints: `13.4.92` in `release 13.4, V13.4.92`.
fn printed_version(text: &str) -> Option<Version> {
    let (_, release) = text.split_once("release ")?;
    let (_, version) = release.split_once(", V")?;
    version.split_whitespace().next()?.parse().ok()
}

/// The absolute paths after `flag`. A path is joined to the flag (`"-I/a b"`, `-L/a`) or is the next word
/// (`"-isystem" "/a"`).
fn flagged(value: &str, flag: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut words = split_words(value).into_iter();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix(flag) else {
            continue;
        };
        let next = if rest.is_empty() { words.next() } else { None };
        paths.extend(absolute(next.as_deref().unwrap_or(rest)));
    }
    paths
}

#[cfg(test)]
mod answer_tests {
    use super::*;

    fn paths(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().filter_map(|path| path.to_str()).collect()
    }

    /// Debian 13's nvcc 12.4, as it was run in its own places.
    const DEBIAN: &str = "#$ _SPACE_= \n#$ _HERE_=/usr/lib/nvidia-cuda-toolkit/bin\n\
        #$ NVVMIR_LIBRARY_DIR=/usr/lib/nvidia-cuda-toolkit/libdevice\n\
        #$ PATH=/usr/lib/nvidia-cuda-toolkit/bin:/usr/bin:/bin\n\
        #$ LIBRARIES=  -L/usr/lib/x86_64-linux-gnu/stubs -L/usr/lib/x86_64-linux-gnu\n\
        #$ gcc -D__CUDA_ARCH__=520 -E -x c++ -D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=4 \
        -D__CUDACC_VER_BUILD__=131 -m64 \"/dev/null\" \n";

    #[test]
    fn debian_has_no_top_and_no_includes() {
        let answer = NvccAnswer::parse(DEBIAN).unwrap();
        assert_eq!(answer.version.to_string(), "12.4.131");
        assert_eq!(
            answer.directory,
            Some("/usr/lib/nvidia-cuda-toolkit/bin".into())
        );
        assert_eq!(answer.host_compiler, Some("gcc".into()));
        assert_eq!(answer.top, None);
        assert!(answer.includes.is_empty());
        assert_eq!(paths(&answer.libraries), ["/usr/lib/x86_64-linux-gnu"]);
        assert_eq!(
            paths(&answer.programs)[0],
            "/usr/lib/nvidia-cuda-toolkit/bin"
        );
    }

    #[test]
    fn quotes_hold_spaces_and_stubs_are_left_out() {
        let text = "#$ TOP=/my cuda/bin/..\n#$ CICC_PATH=/my cuda/bin/../nvvm/bin\n#$ PATH=/my cuda/bin:/usr/bin\n\
            #$ INCLUDES=\"-I/my cuda/bin/../include\"  \n\
            #$ SYSTEM_INCLUDES=\"-isystem\" \"/my cuda/bin/../include/cccl\"  \n\
            #$ LIBRARIES=  \"-L/my cuda/bin/../lib/stubs\" \"-L/my cuda/bin/../lib\"\n\
            release 13.4, V13.4.92\n";
        let answer = NvccAnswer::parse(text).unwrap();
        assert_eq!(
            paths(&answer.includes),
            ["/my cuda/bin/../include", "/my cuda/bin/../include/cccl"]
        );
        assert_eq!(paths(&answer.libraries), ["/my cuda/bin/../lib"]);
        assert_eq!(
            paths(&answer.programs),
            ["/my cuda/bin/../nvvm/bin", "/my cuda/bin", "/usr/bin"]
        );
    }

    #[test]
    fn the_host_compiler_may_have_a_quoted_directory() {
        for (command, program) in [
            (
                "\"/usr/bin\"/g++-12 -D__CUDA_ARCH__=750 -E -x c++  \"k.cu\"",
                "/usr/bin/g++-12",
            ),
            (
                "\"/opt/my gcc/bin\"/g++ -E -x c++ -m64",
                "/opt/my gcc/bin/g++",
            ),
        ] {
            let text = format!("#$ _SPACE_= \n#$ {command}\nrelease 12.4, V12.4.131\n");
            let answer = NvccAnswer::parse(&text).unwrap();
            assert_eq!(answer.host_compiler, Some(program.into()));
        }
    }

    #[test]
    fn the_last_of_two_assignments_counts() {
        let text = "#$ INCLUDES=-I/a\n#$ INCLUDES=-I/b -I/a\n#$ PATH=/a\n#$ PATH=/b:/a\nrelease 12.4, V12.4.131\n";
        let answer = NvccAnswer::parse(text).unwrap();
        assert_eq!(paths(&answer.includes), ["/b", "/a"]);
        assert_eq!(paths(&answer.programs), ["/b", "/a"]);
    }

    #[test]
    fn other_output_is_no_answer() {
        for text in [
            "",
            "sh: not found",
            "#$",
            "#$ ",
            "#$ =",
            "#$ TOP",
            "release , V",
            "-D__CUDACC_VER_MAJOR__=",
            "release 1\u{fffd}, V\"",
        ] {
            assert_eq!(NvccAnswer::parse(text), None, "{text:?}");
        }
        let answer =
            NvccAnswer::parse("release 12.4, V12.4.1\n#$ LIBRARIES=\"-L\" \"\n#$ INCLUDES=-I")
                .unwrap();
        assert!(answer.includes.is_empty() && answer.libraries.is_empty());
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;

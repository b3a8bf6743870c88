//! What an output depends on besides the user's files: variables and the toolkit itself.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::freshness::Files;
use crate::host_compiler::HostCompiler;
use cuda_find_core::cache::CachedAnswer;
use cuda_find_core::hash::Digest;
use cuda_find_core::{
    component::Component,
    env::Env,
    hash::{Hasher, of_large_file},
    root::Root,
    toolkit::Toolkit,
};

/// Variables with directories that gcc searches before the system's (from gcc's documentation).
const HEADER_VARIABLES: [&str; 3] = ["CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"];

/// Variables with options that nvcc adds to those of the command line.
const NVCC_OPTIONS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Variables with options that `nvcc.profile` adds to those of the programs that nvcc starts.
const PROFILE_OPTIONS: [&str; 7] = [
    "INCLUDES",
    "SYSTEM_INCLUDES",
    "USR_INCLUDE",
    "CUDAFE_FLAGS",
    "NVVM_FLAGS",
    "OCG_FLAGS",
    "PTXAS_FLAGS",
];

/// Other variables that nvcc 13.5 and the programs that it starts (cudafe++, cicc, ptxas, gcc 12) read,
/// found by recording every call of `getenv`. Variables for temporary directories and the terminal are omitted.
/// So is `PATH`, because the host compiler that is found through it is part of the key.
const NVCC_VARIABLES: &str = "BINUTILS_ROOT CICC_PATH COMPILER_PATH EDG_BASE GCC_COMPARE_DEBUG \
     GCC_EXEC_PREFIX GCC_ROOT LIBRARIES LLVMC_FLAGS LLVM_OVERRIDE_PRODUCER NVCC_CCBIN NVLINK_FLAGS \
     NVVMIR_LIBRARY_DIR NVVM_IR_VER_CHK SOURCE_DATE_EPOCH TOP _SPACE_";

/// Variables that NVRTC 13.5 reads, found in the same way.
const NVRTC_VARIABLES: &str = "EDG_BASE NVRTC_DISABLE_PCH NVVM_IR_VER_CHK SOURCE_DATE_EPOCH";

/// The variables of one compiler, and the directories and options in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// `NAME=value` for each that is set.
    pub(crate) settings: Vec<String>,
    /// Directories that are searched for headers.
    pub(crate) directories: Vec<PathBuf>,
    /// Options that the compiler adds to those of the command line.
    pub(crate) options: Vec<String>,
    /// Options that `nvcc.profile` adds.
    pub(crate) profile_options: Vec<String>,
}

impl Variables {
    pub(crate) fn of_nvcc(env: &Env) -> Self {
        let words = |names: &[&str]| -> Vec<String> {
            let values = names.iter().filter_map(|name| env.get(name));
            let values: Vec<_> = values.map(OsStr::to_string_lossy).collect();
            let words = values.iter().flat_map(|value| value.split_whitespace());
            words.map(str::to_owned).collect()
        };
        let directories = HEADER_VARIABLES.iter().filter_map(|name| env.get(name));
        let with_content = HEADER_VARIABLES.iter().chain(&NVCC_OPTIONS);
        let names = with_content.chain(&PROFILE_OPTIONS).copied();
        Self {
            directories: directories.flat_map(std::env::split_paths).collect(),
            options: words(&NVCC_OPTIONS),
            profile_options: words(&PROFILE_OPTIONS),
            settings: settings(env, names.chain(NVCC_VARIABLES.split(' '))),
        }
    }

    pub(crate) fn of_nvrtc(env: &Env) -> Self {
        Self {
            settings: settings(env, NVRTC_VARIABLES.split(' ')),
            ..Self::default()
        }
    }
}

fn settings(env: &Env, names: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    // `{:?}` gives different text for different values that are not valid UTF-8.
    let set = |name: &'static str| env.get(name).map(|value| format!("{name}={value:?}"));
    names.into_iter().filter_map(set).collect()
}

/// What identifies the compilers of a build: digests of their files' contents. So a toolkit that was fetched again, or
/// together with one more component, is the same compiler.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompilerIdentities {
    /// nvcc and the host compiler.
    pub(crate) nvcc: String,
    pub(crate) nvrtc: String,
    /// The features of this machine's processor, for which `-march=native` compiles.
    processor: String,
}

impl CompilerIdentities {
    /// Reads the compilers' files, unless the digests are cached, as they are while path, size and time of each file
    /// are the same. The files of NVRTC, to which thousands of headers belong, count only if a module uses it.
    pub(crate) fn read(
        (env, root): (&Env, &Root),
        files: &mut Files,
        toolkit: &Toolkit,
        host: Option<&HostCompiler>,
        uses_nvrtc: bool,
    ) -> Self {
        let files_of_nvcc = nvcc_files(files, toolkit);
        let files_of_nvrtc = uses_nvrtc.then(|| nvrtc_files(files, toolkit));
        let mut digest = |compiler: &str, question: Option<&str>, paths: Vec<CompilerFile>| {
            let by_time = match question {
                Some(question) => question.to_owned(),
                None => of_times(files, &paths),
            };
            let cached = CachedAnswer::new(env, "contents", [compiler, &by_time].map(OsStr::new));
            let known = cached.read(root).map(|(digest, _)| digest);
            known.unwrap_or_else(|| {
                let digest = of_contents(files, &paths);
                cached.write(&digest, "");
                digest
            })
        };
        let nvcc = digest("nvcc", None, files_of_nvcc);
        let nvrtc = files_of_nvrtc.map(|files| digest("nvrtc", None, files));
        let host = host.map(|host| {
            let programs = host.compiler.files.iter().cloned();
            let programs = programs.map(CompilerFile::program).collect();
            digest("host", Some(&host.compiler.fingerprint), programs)
        });
        let processor = root.text(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let mut lines = processor.lines();
        let features = lines.find(|line| line.starts_with("flags") || line.starts_with("Features"));
        Self {
            nvcc: format!("{nvcc} {}", host.unwrap_or_default()),
            nvrtc: format!(
                "{} {}",
                nvrtc.unwrap_or_default(),
                crate::nvrtc::shims::identity()
            ),
            processor: features.unwrap_or_default().to_owned(),
        }
    }

    /// What identifies nvcc and the host compiler for a source with these options.
    pub(super) fn of_nvcc<'o>(&self, options: impl IntoIterator<Item = &'o String>) -> String {
        if options.into_iter().any(|option| option.contains("=native")) {
            format!("{} {}", self.nvcc, self.processor)
        } else {
            self.nvcc.clone()
        }
    }
}

/// A file that decides what a compiler makes.
#[derive(Clone, Debug)]
struct CompilerFile {
    path: PathBuf,
    /// Its name in the digest: that of a program or a library, or the path of a header below its include directory.
    name: PathBuf,
}

impl CompilerFile {
    fn program(path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().into();
        Self { path, name }
    }
}

/// A digest of path, size and time of files. It changes if a package is replaced in place.
fn of_times(files: &mut Files, compiler_files: &[CompilerFile]) -> String {
    let mut digest = Hasher::default();
    for file in compiler_files {
        digest.field(file.path.as_os_str().as_encoded_bytes());
        if let Some((length, time)) = files.length_and_time(&file.path) {
            digest.field(&length.to_le_bytes());
            digest.field(&time.to_le_bytes());
        }
    }
    digest.digest().to_string()
}

/// A digest of the names and contents of files. By content, not path or time, so that machines can share outputs.
fn of_contents(files: &mut Files, compiler_files: &[CompilerFile]) -> String {
    let mut digest = Hasher::default();
    for file in compiler_files {
        digest.field(file.name.as_os_str().as_encoded_bytes());
        let length = files.length_and_time(&file.path).map(|(length, _)| length);
        let of_file = length
            .and_then(|length| of_large_file(&file.path, length))
            .or_else(|| files.digest(&file.path));
        digest.field(of_file.as_ref().map_or(&[], Digest::bytes));
    }
    digest.digest().to_string()
}

/// nvcc, the programs that it starts, its configuration and its library of device functions. Headers are not among
/// them, because nvcc lists those that it read.
fn nvcc_files(files: &mut Files, toolkit: &Toolkit) -> Vec<CompilerFile> {
    let mut paths = binaries(toolkit, &[Component::Nvcc, Component::Nvvm, Component::Crt]);
    if let Some(nvcc) = toolkit.tool(Component::Nvcc, "nvcc") {
        // nvcc reads its configuration from the directory of its program.
        paths.push(nvcc.with_file_name("nvcc.profile"));
    }
    // `nvvm/libdevice/libdevice.10.bc` beside `nvvm/bin/cicc`
    let cicc = toolkit.tool(Component::Nvvm, "cicc");
    let libdevice = cicc.and_then(|cicc| Some(cicc.parent()?.parent()?.join("libdevice")));
    paths.extend(names_with(files, libdevice.as_deref(), "libdevice"));
    paths.into_iter().map(CompilerFile::program).collect()
}

/// NVRTC with its built-in functions, and the toolkit's headers, of which NVRTC does not list those that it read.
fn nvrtc_files(files: &mut Files, toolkit: &Toolkit) -> Vec<CompilerFile> {
    let mut paths = binaries(toolkit, &[Component::Nvrtc]);
    let directory = paths
        .first()
        .and_then(|library| library.parent())
        .map(Path::to_owned);
    paths.extend(names_with(files, directory.as_deref(), "libnvrtc-builtins"));
    let mut compiler_files: Vec<CompilerFile> =
        paths.into_iter().map(CompilerFile::program).collect();
    // Where a product is installed there, headers of other packages are in the same directory.
    let local = Path::new("/usr/local/include");
    for directory in toolkit.include_dirs().iter().filter(|it| *it != local) {
        let mut above = Vec::new();
        add_headers(
            files,
            &mut compiler_files,
            directory,
            Path::new(""),
            &mut above,
        );
    }
    compiler_files
}

fn binaries(toolkit: &Toolkit, components: &[Component]) -> Vec<PathBuf> {
    let found = components.iter().filter_map(|name| toolkit.get(*name));
    let files = found.flat_map(|found| found.tools.iter().chain(&found.libraries));
    files.cloned().collect()
}

/// The files in a directory whose names start with `start`.
fn names_with(files: &mut Files, directory: Option<&Path>, start: &str) -> Vec<PathBuf> {
    let Some(directory) = directory else {
        return Vec::new();
    };
    let names = files.names(directory);
    let wanted = |name: &&OsString| name.as_encoded_bytes().starts_with(start.as_bytes());
    let names = names.iter().filter(wanted);
    names.map(|name| directory.join(name)).collect()
}

/// Adds the headers below a directory of an include directory. `above` are the directories above it, without links: a
/// link that leads upwards is not followed.
fn add_headers(
    files: &mut Files,
    compiler_files: &mut Vec<CompilerFile>,
    include: &Path,
    below: &Path,
    above: &mut Vec<PathBuf>,
) {
    let directory = include.join(below);
    let resolved = Root::system().resolve(&directory);
    if above.contains(&resolved) {
        return;
    }
    above.push(resolved);
    for entry in files.names(&directory).iter() {
        let name = below.join(entry);
        let path = include.join(&name);
        if files.is_file(&path) {
            compiler_files.push(CompilerFile { path, name });
        } else {
            add_headers(files, compiler_files, include, &name, above);
        }
    }
    above.pop();
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn headers_count_at_every_depth() {
        let directory = tempfile::tempdir().unwrap();
        let include = directory.path();
        let write = |name: &str, text: &str| {
            let path = include.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let digest = || {
            let (mut files, mut headers) = (Files::default(), Vec::new());
            let mut above = Vec::new();
            add_headers(&mut files, &mut headers, include, Path::new(""), &mut above);
            of_contents(&mut files, &headers)
        };
        write("cuda.h", "");
        write("cccl/cub/block/detail/x.cuh", "1");
        std::os::unix::fs::symlink("..", include.join("cccl/upwards")).unwrap();
        let first = digest();
        assert_eq!(digest(), first);
        write("cccl/cub/block/detail/x.cuh", "2");
        let edited = digest();
        assert!(edited != first);
        fs::rename(
            include.join("cccl/cub/block/detail/x.cuh"),
            include.join("cccl/cub/block/x.cuh"),
        )
        .unwrap();
        assert!(digest() != edited);
    }
}

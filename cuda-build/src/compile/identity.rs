//! What an output depends on besides the user's files: variables and the toolkit itself.

use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::env::Env;
use crate::freshness::Files;
use crate::hash::Fnv;
use crate::host_compiler::HostCompiler;
use crate::toolkit::Toolkit;

/// Variables with directories that gcc searches before the system's (from gcc's documentation).
const HEADER_VARIABLES: [&str; 3] = ["CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"];

/// Variables with options that nvcc adds to those of the command line.
const NVCC_OPTIONS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Variables that nvcc 13.5 and the programs that it starts (cudafe++, cicc, ptxas, gcc 12) read,
/// found by recording every call of `getenv`. Variables for temporary directories and the terminal are omitted.
/// So is `PATH`, because the host compiler that is found through it is part of the key.
const NVCC_VARIABLES: [&str; 24] = [
    "BINUTILS_ROOT",
    "CICC_PATH",
    "COMPILER_PATH",
    "CUDAFE_FLAGS",
    "EDG_BASE",
    "GCC_COMPARE_DEBUG",
    "GCC_EXEC_PREFIX",
    "GCC_ROOT",
    "INCLUDES",
    "LIBRARIES",
    "LLVMC_FLAGS",
    "LLVM_OVERRIDE_PRODUCER",
    "NVCC_CCBIN",
    "NVLINK_FLAGS",
    "NVVMIR_LIBRARY_DIR",
    "NVVM_FLAGS",
    "NVVM_IR_VER_CHK",
    "OCG_FLAGS",
    "PTXAS_FLAGS",
    "SOURCE_DATE_EPOCH",
    "SYSTEM_INCLUDES",
    "TOP",
    "USR_INCLUDE",
    "_SPACE_",
];

/// Variables that NVRTC 13.5 reads, found in the same way.
const NVRTC_VARIABLES: [&str; 4] = [
    "EDG_BASE",
    "NVRTC_DISABLE_PCH",
    "NVVM_IR_VER_CHK",
    "SOURCE_DATE_EPOCH",
];

/// The variables of one compiler, and the directories and options in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// `NAME=value` for each that is set.
    pub(crate) key: Vec<String>,
    /// Directories that are searched for headers.
    pub(crate) directories: Vec<PathBuf>,
    /// Options that the compiler adds to those of the command line.
    pub(crate) options: Vec<String>,
}

impl Variables {
    pub(crate) fn of_nvcc(env: &Env) -> Self {
        let mut variables = Self::default();
        for name in HEADER_VARIABLES {
            if let Some(list) = env.get(name) {
                variables.directories.extend(std::env::split_paths(list));
            }
        }
        for name in NVCC_OPTIONS {
            let text = env
                .get(name)
                .map(|value| value.to_string_lossy().into_owned());
            variables.options.extend(
                text.unwrap_or_default()
                    .split_whitespace()
                    .map(str::to_owned),
            );
        }
        for name in HEADER_VARIABLES
            .into_iter()
            .chain(NVCC_OPTIONS)
            .chain(NVCC_VARIABLES)
        {
            variables.key.extend(setting(env, name));
        }
        variables
    }

    pub(crate) fn of_nvrtc(env: &Env) -> Self {
        let key = NVRTC_VARIABLES
            .into_iter()
            .filter_map(|name| setting(env, name));
        Self {
            key: key.collect(),
            ..Self::default()
        }
    }
}

fn setting(env: &Env, name: &str) -> Option<String> {
    // `{:?}` gives different text for different values that are not valid UTF-8.
    env.get(name).map(|value| format!("{name}={value:?}"))
}

/// Declares the variables that the `cc` crate reads for host sources to Cargo, which [`Env::get`] does for each.
/// [`Variables::of_nvcc`] declares [`HEADER_VARIABLES`] and [`NVCC_VARIABLES`].
#[cfg(feature = "host-sources")]
pub(crate) fn declare_host_variables(env: &Env, triple: &str) {
    for name in ["CC", "CXX", "CFLAGS", "CXXFLAGS"] {
        for name in names_for_target(name, env, triple) {
            env.get(&name);
        }
    }
    for name in [
        "CRATE_CC_NO_DEFAULTS",
        "CROSS_COMPILE",
        "CC_SHELL_ESCAPED_FLAGS",
    ] {
        env.get(name);
    }
}

/// The library that `CXXSTDLIB` names, as the `cc` crate reads it: its kind and name. `None` if the
/// variable is set and empty.
pub(crate) fn cxx_runtime(env: &Env, triple: &str) -> Option<(&'static str, String)> {
    let names = names_for_target("CXXSTDLIB", env, triple);
    let mut values = names.iter().filter_map(|name| env.get_or_empty(name));
    let Some(value) = values.next() else {
        return Some(("dylib", "stdc++".to_owned()));
    };
    let value = value.to_string_lossy();
    let (kind, name) = match value.split_once('=') {
        Some(("static", name)) => ("static", name),
        Some(("static:-bundle", name)) => ("static:-bundle", name),
        Some((_, name)) => ("dylib", name),
        None => ("dylib", value.as_ref()),
    };
    (!name.is_empty()).then(|| (kind, name.to_owned()))
}

/// The variables from which the `cc` crate reads a setting. The first that is set counts:
/// `CXX_<triple>`, the same with underscores, `HOST_CXX` or `TARGET_CXX`, `CXX`.
pub(crate) fn names_for_target(name: &str, env: &Env, triple: &str) -> [String; 4] {
    // Only build scripts have `HOST`.
    let is_native = || triple.split('-').next() == Some(std::env::consts::ARCH);
    let is_host = env
        .peek("HOST")
        .map_or_else(is_native, |host| host == triple);
    let kind = if is_host { "HOST" } else { "TARGET" };
    [
        format!("{name}_{triple}"),
        format!("{name}_{}", triple.replace(['-', '.'], "_")),
        format!("{kind}_{name}"),
        name.to_owned(),
    ]
}

/// How files are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// By size and time, which is quick.
    Time,
    /// By content, because times differ between machines.
    Content,
}

/// A digest of the content of the compilers' files, for outputs that several machines share.
pub(crate) fn of_contents(
    files: &mut Files,
    toolkit: &Toolkit,
    host: Option<&HostCompiler>,
) -> String {
    let mut digest = Fnv::default();
    digest.field(of_toolkit(files, toolkit, By::Content).as_bytes());
    for path in host.into_iter().flat_map(|host| &host.compiler.files) {
        add_file(files, &mut digest, path, By::Content);
    }
    digest.hex()
}

/// A digest of the toolkit's programs, libraries and headers for device code. It changes if a
/// package is replaced in place.
pub(crate) fn of_toolkit(files: &mut Files, toolkit: &Toolkit, by: By) -> String {
    let mut digest = Fnv::default();
    let compilers = [
        Component::Nvcc,
        Component::Nvvm,
        Component::Crt,
        Component::Nvrtc,
    ];
    for found in compilers
        .into_iter()
        .filter_map(|component| toolkit.get(component))
    {
        digest.field(found.shown_version().as_bytes());
        for path in found.tools.iter().chain(&found.libraries) {
            add_file(files, &mut digest, path, by);
            // nvcc reads its configuration from its own directory.
            if path.file_name().is_some_and(|name| name == "nvcc") {
                add_file(files, &mut digest, &path.with_file_name("nvcc.profile"), by);
            }
        }
    }
    if let Some(nvrtc) = toolkit
        .get(Component::Nvrtc)
        .and_then(|found| found.libraries.first())
    {
        add_siblings(files, &mut digest, nvrtc, "libnvrtc-builtins", by);
    }
    // `nvvm/libdevice/libdevice.10.bc` beside `nvvm/bin/cicc`
    if let Some(nvvm) = toolkit
        .tool(Component::Nvvm, "cicc")
        .and_then(|cicc| cicc.parent()?.parent())
    {
        add_siblings(
            files,
            &mut digest,
            &nvvm.join("libdevice/x"),
            "libdevice",
            by,
        );
    }
    for directory in toolkit.include_dirs() {
        add_directory(files, &mut digest, &directory, HEADER_DEPTH, by);
    }
    digest.hex()
}

/// How many levels of subdirectories of an include directory are in the digest: `cub/version.cuh` is, deeper headers
/// are not. A package update that replaces deeper headers also replaces headers at these levels.
const HEADER_DEPTH: u32 = 1;

fn add_file(files: &mut Files, digest: &mut Fnv, path: &Path, by: By) {
    digest.field(path.as_os_str().as_encoded_bytes());
    if by == By::Content {
        digest.field(&files.digest(path).unwrap_or_default().to_le_bytes());
    } else if let Some((length, time)) = files.length_and_time(path) {
        digest.field(&length.to_le_bytes());
        digest.field(&time.to_le_bytes());
    }
}

fn add_siblings(files: &mut Files, digest: &mut Fnv, path: &Path, start: &str, by: By) {
    let Some(directory) = path.parent() else {
        return;
    };
    for name in files.names(directory).iter() {
        if name.as_encoded_bytes().starts_with(start.as_bytes()) {
            add_file(files, digest, &directory.join(name), by);
        }
    }
}

fn add_directory(files: &mut Files, digest: &mut Fnv, directory: &Path, depth: u32, by: By) {
    for name in files.names(directory).iter() {
        let path = directory.join(name);
        add_file(files, digest, &path, by);
        if depth > 0 && !files.is_file(&path) {
            add_directory(files, digest, &path, depth - 1, by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_of_cxx_is_chosen_as_by_cc() {
        let triple = "x86_64-unknown-linux-gnu";
        let runtime = |pairs: &[(&str, &str)]| {
            let env = Env::from_pairs(pairs.iter().copied());
            let runtime = cxx_runtime(&env, triple);
            let first = "CXXSTDLIB_x86_64-unknown-linux-gnu".to_owned();
            assert!(env.names_read().contains(&first));
            runtime.map(|(kind, name)| format!("{kind}={name}"))
        };
        assert_eq!(runtime(&[]).as_deref(), Some("dylib=stdc++"));
        assert_eq!(
            runtime(&[("CXXSTDLIB", "c++")]).as_deref(),
            Some("dylib=c++")
        );
        assert_eq!(runtime(&[("CXXSTDLIB", "")]), None);
        let both = [
            ("CXXSTDLIB", "c++"),
            ("CXXSTDLIB_x86_64_unknown_linux_gnu", "static=stdc++"),
        ];
        assert_eq!(runtime(&both).as_deref(), Some("static=stdc++"));
    }
}

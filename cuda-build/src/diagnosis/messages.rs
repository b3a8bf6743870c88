//! What tools print if something is missing or does not fit.

/// What the name in a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A header that was not found.
    Header,
    /// The same, by a compiler for the host that nvcc has perhaps not started.
    HostHeader,
    /// A library that was not found, as in `-l<name>`.
    Library,
    /// A target of CMake's package `CUDAToolkit`, without `CUDA::`.
    CmakeTarget,
    /// A library that the loader did not find, by its file name.
    Loaded,
    /// A package of CMake.
    Package,
    /// What `nvcc -dlink` defines for relocatable device code.
    DeviceLink,
    /// A function without a definition.
    Function,
    /// An architecture that a compiler does not know.
    Architecture,
    /// A function that two headers declare differently.
    Declaration,
    /// nvcc accepts no host compiler. There is no name.
    HostCompiler,
    /// A program `nvcc` that was not found. There is no name.
    Nvcc,
    /// A CUDA release that cudarc does not know.
    CudarcRelease,
    /// A library that a crate opens by name, as cudarc does: `nvrtc`.
    Opened,
    /// A type of C++20 that gcc's headers use.
    Char8,
    /// A crate that rustc did not find.
    Crate,
}

/// Each message of a tool: what it names, the text before the name, and the text after it. Spaces also stand for line
/// breaks, which compilers and CMake put anywhere.
#[rustfmt::skip]
const MESSAGES: &[(Kind, &str, &str)] = &[
    // gcc; clang, also in libclang; nvcc and NVRTC
    (Kind::HostHeader, "fatal error: ", ": No such file or directory"),
    (Kind::HostHeader, "fatal error: '", "' file not found"),
    (Kind::Header, "open source file \"", "\""),
    // bfd and gold; lld; mold; rustc
    (Kind::Library, "cannot find -l", ""),
    (Kind::Library, "unable to find library -l", ""),
    (Kind::Library, "library not found: ", ""),
    (Kind::Library, "could not find native static library `", "`"),
    (Kind::Loaded, "error while loading shared libraries: ", ": cannot open shared object file"),
    // CMake before 3.24, and later
    (Kind::CmakeTarget, "links to target \"CUDA::", "\" but the target was not"),
    (Kind::CmakeTarget, "links to: CUDA::", " but the target was not"),
    (Kind::Package, "Could NOT find ", " (missing: "),
    (Kind::Package, "provided by \"", "\" with any of the following names"),
    // bfd and gold; lld; mold; the loader
    (Kind::DeviceLink, "undefined reference to `__cudaRegisterLinkedBinary_", "'"),
    (Kind::DeviceLink, "undefined reference to '__cudaRegisterLinkedBinary_", "'"),
    (Kind::DeviceLink, "undefined symbol: __cudaRegisterLinkedBinary_", ""),
    (Kind::DeviceLink, "undefined reference to `__fatbinwrap_", "'"),
    (Kind::DeviceLink, "undefined reference to '__fatbinwrap_", "'"),
    (Kind::DeviceLink, "undefined symbol: __fatbinwrap_", ""),
    (Kind::Function, "undefined reference to `", "'"),
    (Kind::Function, "undefined reference to '", "'"),
    (Kind::Function, "undefined symbol: ", ""),
    (Kind::Architecture, "Unsupported gpu architecture '", "'"),
    (Kind::Architecture, "Value '", "' is not defined for option 'gpu-name'"),
    (Kind::Architecture, "Value '", "' is not defined for option 'gpu-architecture'"),
    (Kind::Architecture, "unsupported CUDA gpu architecture: ", ""),
    (Kind::Declaration, "exception specification is incompatible with that of previous function \"", "\""),
    (Kind::HostCompiler, "#error -- unsupported GNU version", ""),
    (Kind::HostCompiler, "#error -- unsupported clang version", ""),
    (Kind::HostCompiler, "Failed to preprocess host compiler properties", ""),
    (Kind::Nvcc, "Could not find nvcc", ""),
    (Kind::Nvcc, "Failed to find nvcc", ""),
    (Kind::Nvcc, "No CMAKE_CUDA_COMPILER could be found", ""),
    (Kind::Nvcc, "nvcc: not found", ""),
    (Kind::Nvcc, "nvcc: command not found", ""),
    (Kind::CudarcRelease, "Unsupported cuda toolkit version: `", "`"),
    (Kind::Opened, "Unable to dynamically load the \"", "\" shared library"),
    (Kind::Char8, "identifier \"char8_t\" is undefined", ""),
    (Kind::Crate, "error[E0463]: can't find crate for `", "`"),
];

/// What the messages name, in the order of the table. `text` has one space for all spaces and line breaks in a row.
pub(super) fn read(text: &str) -> Vec<(Kind, &str)> {
    let mut facts = Vec::new();
    for &(kind, before, after) in MESSAGES {
        for (start, _) in text.match_indices(before) {
            let rest = &text[start + before.len()..];
            let name = match after {
                "" => rest.split(|c: char| !is_part_of_name(c)).next(),
                _ => rest.split_once(after).map(|(name, _)| name),
            };
            let source = text[..start].trim_end().rsplit(' ').next();
            let is_device_code = |it: &str| it.contains(".cu:") || it.contains(".cuh:");
            let kind = match kind {
                Kind::HostHeader if source.is_some_and(is_device_code) => Kind::Header,
                kind => kind,
            };
            let name = name.filter(|name| !name.contains(' '));
            facts.extend(name.map(|name| (kind, name)));
        }
    }
    // Build scripts in their own words.
    for (end, _) in text.match_indices(" not found") {
        let words = text[..end].trim_end_matches(" was");
        let name = words.rsplit(' ').next().filter(|it| it.ends_with(".h"));
        facts.extend(name.map(|name| (Kind::Header, name)));
    }
    facts
}

/// Whether a line reports that something with one of these names, in lower case, was not found. Build scripts use words
/// of their own for it.
pub(super) fn lacks(messages: &str, names: &[&str]) -> bool {
    const WORDS: [&str; 7] = [
        "notfound",
        "not found",
        "no such file",
        "failed to run",
        "failed to execute",
        "failed to find",
        "could not find",
    ];
    let mut lines = messages.lines().map(str::to_lowercase);
    lines.any(|line| {
        let is_named = |name: &&str| {
            let mut places = line.match_indices(*name);
            places.any(|(start, _)| {
                let is_end = |c: Option<char>| c.is_none_or(|c| !is_part_of_name(c));
                // A full stop may end the sentence.
                let after = line[start + name.len()..].trim_start_matches('.');
                is_end(line[..start].chars().next_back()) && is_end(after.chars().next())
            })
        };
        names.iter().any(is_named) && WORDS.iter().any(|word| line.contains(word))
    })
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_+-.".contains(c)
}

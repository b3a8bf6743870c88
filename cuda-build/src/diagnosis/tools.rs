//! What a machine lacks besides CUDA to build crates with CUDA in them.

use cuda_find_core::{env::Env, root::Root};

/// A program or library that a build script or a tool has looked for.
struct Tool {
    /// What is printed if it is not found.
    texts: &'static [&'static str],
    /// The program, which is certainly missing only if it is not on `PATH`.
    program: Option<&'static str>,
    /// What it is, and the packages that have it.
    remedy: &'static str,
}

/// The texts are those of the crates bindgen 0.72, cmake 0.1.58, cc 1.11, pkg-config 0.3, of CMake 3.25 and 4.1, and of
/// rustc 1.95. The names of packages are Debian's and Ubuntu's, then Fedora's.
const TOOLS: &[Tool] = &[
    Tool {
        texts: &[
            "couldn't find any valid shared libraries matching: ['libclang",
            "couldn't find any of ['libclang",
        ],
        program: None,
        remedy: "libclang, with which bindgen reads headers, is not installed: install the package `libclang-dev` \
                 (Fedora: `clang-devel`); or run `pip install libclang`, and set `LIBCLANG_PATH` to the directory of its \
                 libclang.so and `BINDGEN_EXTRA_CLANG_ARGS=-I$(gcc -print-file-name=include)`",
    },
    Tool {
        texts: &[
            "'stddef.h' file not found",
            "'stdarg.h' file not found",
            "'stdbool.h' file not found",
            "'float.h' file not found",
        ],
        program: None,
        remedy: "this libclang has no headers of its own, as the Python package: set \
                 `BINDGEN_EXTRA_CLANG_ARGS=-I$(gcc -print-file-name=include)`, or install the package `clang`",
    },
    Tool {
        texts: &[
            "is `cmake` not installed?",
            "cmake: command not found",
            "cmake: not found",
        ],
        program: Some("cmake"),
        remedy: "CMake is not installed: install the package `cmake`, or run `pip install cmake`",
    },
    Tool {
        texts: &["unable to find a build program corresponding to \"Ninja\""],
        program: Some("ninja"),
        remedy: "Ninja is not installed: install the package `ninja-build`, or run `pip install ninja`",
    },
    Tool {
        texts: &["unable to find a build program corresponding to \"Unix Makefiles\""],
        program: Some("make"),
        remedy: "make is not installed: install the package `make`",
    },
    Tool {
        texts: &[
            "The pkg-config command could not be found",
            "pkg-config: command not found",
        ],
        program: Some("pkg-config"),
        remedy: "pkg-config is not installed: install the package `pkg-config` (Fedora: `pkgconf-pkg-config`)",
    },
    Tool {
        texts: &["linker `cc` not found"],
        program: Some("cc"),
        remedy: "there is no C compiler, with which Rust links: install the package `build-essential` (Fedora: `gcc-c++`)",
    },
    Tool {
        texts: &[
            "failed to find tool \"c++\"",
            "No CMAKE_CXX_COMPILER could be found",
        ],
        program: Some("c++"),
        remedy: "there is no C++ compiler: install the package `g++` (Fedora: `gcc-c++`)",
    },
];

/// The hint for the first tool that the messages report as missing, if this machine does not have it.
pub(super) fn missing(text: &str, env: &Env, root: &Root) -> Option<String> {
    let is_on_path = |program: &&str| {
        let mut directories = env.search_path().into_iter();
        directories.any(|directory| root.is_executable(&directory.join(program)))
    };
    let is_missing = |tool: &&Tool| {
        tool.texts.iter().any(|it| text.contains(it)) && !tool.program.iter().any(is_on_path)
    };
    let tool = TOOLS.iter().find(is_missing)?;
    Some(tool.remedy.to_owned())
}

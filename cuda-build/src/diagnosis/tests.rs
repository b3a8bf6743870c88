//! What depends on the release of the toolkit, or on one word. `tests/diagnosis` has the messages of real tools.

use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Need, Part, Request};

use super::*;

/// The hint of a build with a toolkit of this release, which has the runtime and nvcc.
fn hint(release: &str, messages: &str) -> Option<String> {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let (env, root) = (Env::default(), Root::system());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("toolkit.toml");
    let (major, _) = release.split_once('.').unwrap();
    let component = |name: &str| {
        format!(
            "\n[[component]]\nname = \"{name}\"\nmajor = {major}\ntoolkit = \"{release}\"\ninclude = [\"/\"]\n\
             libraries = [\"/dev/null\"]\narchives = []\ntools = [\"/dev/null\"]\nevidence = \"\"\n"
        )
    };
    let components = component("cudart") + &component("nvcc");
    let text = format!("format_version = 1\nversion = \"{release}\"\n{components}");
    cuda_find_core::output::write(&file, text.as_bytes()).unwrap();
    let search_env = Env::from_pairs([("CUDA_BUILD_TOOLKIT", &file)]);
    let request = Request {
        needs: vec![Need::new(Component::Nvcc, Part::Tools, "")],
        take_everything: true,
        ..Request::default()
    };
    let toolkit = SearchContext::new(&root, &search_env, &target).find(&request);
    let failed = FailedBuild {
        messages,
        toolkit: &toolkit.unwrap(),
        target: &target,
        env: &env,
        root: &root,
        origin: Origin::Cargo(CargoBuild {
            fetching_command: None,
            include: PathBuf::from("/view/include"),
            declares_capabilities: true,
            has_driver: false,
            macros: vec!["kernel-macros".to_owned()],
            cudarc: None,
            exports: &|_, name| name == "cudaOld_Ctx",
            added: &|_, name| (name == "cudaNew").then_some(ToolkitVersion::new(13, 5)),
        }),
    };
    failed.diagnose().hint
}

#[test]
fn the_release_decides_about_the_c_library() {
    let message = |function: &str| {
        format!(
            "mathcalls.h(206): error: exception specification is incompatible with that of previous function \
             \"{function}\" (declared at line 629 of math_functions.h)"
        )
    };
    for (release, function, expected) in [
        ("12.9", "cospi", "use CUDA 13.0 or newer"),
        ("13.0", "cospi", ""),
        (
            "13.1",
            "rsqrt",
            "glibc 2.42 and newer do not fit CUDA 13.1: use CUDA 13.2 or newer",
        ),
        ("13.2", "rsqrt", ""),
        ("12.9", "mine", ""),
    ] {
        let hint = hint(release, &message(function)).unwrap_or_default();
        let is_right = hint.is_empty() == expected.is_empty() && hint.contains(expected);
        assert!(is_right, "{release} {function}: {hint}");
    }
    let both = message("cospi") + "\n" + &message("rsqrt");
    let hint = hint("12.9", &both).unwrap();
    assert!(hint.contains("use CUDA 13.2 or newer"), "{hint}");
}

#[test]
fn a_function_that_the_toolkit_lacks_has_a_release() {
    let undefined = |name: &str| format!("rust-lld: error: undefined symbol: {name}\n");
    for (name, expected) in [
        (
            "cudaGetDeviceProperties_v2",
            "CUDA 13.0 has removed `cudaGetDeviceProperties_v2`",
        ),
        ("cudaNew", "CUDA 13.5 has added `cudaNew`"),
        ("cudaOld", "CUDA 13.4 has `cudaOld_Ctx` instead"),
        ("cudaMine", ""),
        ("cuInit", "`cuInit` is in libcuda: link it with `-lcuda`"),
    ] {
        let hint = hint("13.4", &undefined(name)).unwrap_or_default();
        let is_right = hint.is_empty() == expected.is_empty() && hint.contains(expected);
        assert!(is_right, "{name}: {hint}");
    }
}

#[test]
fn build_scripts_have_words_of_their_own() {
    let missing = |messages: &str| hint("13.4", messages).unwrap_or_default();
    assert!(missing("nccl.h not found — install NCCL, or set NCCL_HOME\n").contains("has no nccl"));
    assert!(missing("cudnn.h was not found; set CUDNN_INCLUDE_DIR\n").contains("has no cudnn"));
    assert_eq!(missing("ssl.h not found: install OpenSSL\n"), "");
    let query = "Failed to run nvidia-smi. Is the driver installed?: No such file or directory\n";
    assert!(missing(query).starts_with("the build script asks for the GPU"));
}

#[test]
fn a_library_that_is_opened_by_name_may_be_missing() {
    let opened = |name: &str| {
        let message =
            format!("panicked: Unable to dynamically load the \"{name}\" shared library - tried …");
        hint("13.4", &message).unwrap_or_default()
    };
    assert!(opened("nvrtc").contains("this CUDA 13.4 has no nvrtc"));
    assert!(opened("cuda").starts_with("the build uses the GPU through NVIDIA's driver"));
    assert_eq!(opened("torch"), "");
    // The toolkit of these tests has it.
    assert_eq!(opened("cudart"), "");
}

#[test]
fn a_macro_that_cannot_be_loaded_is_named() {
    let lacks = |name: &str| {
        hint(
            "13.4",
            &format!("error[E0463]: can't find crate for `{name}`\n"),
        )
    };
    assert!(
        lacks("kernel_macros")
            .unwrap()
            .contains("is a procedural macro")
    );
    assert_eq!(lacks("core"), None);
}

#[test]
fn headers_of_a_newer_gcc_are_recognised() {
    let of_gcc = |gcc: u32, release: &str| {
        let text = format!(
            "/usr/include/c++/{gcc}.1.1/type_traits(393): error: identifier \"char8_t\" is\n  undefined\n"
        );
        hint(release, &text).unwrap_or_default()
    };
    let expected = "nvcc of CUDA 13.0 cannot read the headers of gcc 16: install gcc 15 or older";
    assert!(
        of_gcc(16, "13.0").starts_with(expected),
        "{}",
        of_gcc(16, "13.0")
    );
    assert_eq!(of_gcc(15, "13.0"), "");
    // A source of its own that needs C++20.
    assert_eq!(
        hint(
            "13.0",
            "k.cu(1): error: identifier \"char8_t\" is undefined\n"
        ),
        None
    );
}

#[test]
fn what_a_bare_machine_lacks_is_named_with_its_package() {
    for (message, expected) in [
        (
            "Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so']",
            "libclang-dev",
        ),
        (
            "wrapper.h:1:10: fatal error: 'stddef.h' file not found",
            "BINDGEN_EXTRA_CLANG_ARGS",
        ),
        (
            "failed to execute command: No such file or directory (os error 2)\nis `cmake` not installed?",
            "`cmake`",
        ),
        (
            "CMake Error: CMake was unable to find a build program corresponding to \"Ninja\".  CMAKE_MAKE",
            "ninja-build",
        ),
        ("The pkg-config command could not be found.", "`pkg-config`"),
        ("error: linker `cc` not found", "build-essential"),
        (
            "error occurred in cc-rs: failed to find tool \"c++\": No such file",
            "`g++`",
        ),
        ("fatal error: 'mine.h' file not found", ""),
        (
            "Unable to find libclang: \"the `libclang` shared library at C:\\\\x could not be opened\"",
            "",
        ),
        ("error: cmake failed with status 1", ""),
    ] {
        let hint = hint("13.4", message).unwrap_or_default();
        let is_right = hint.is_empty() == expected.is_empty() && hint.contains(expected);
        assert!(is_right, "{message}: {hint}");
    }
}

#[test]
fn functions_belong_to_the_longest_name() {
    for (function, expected) in [
        ("cudaMalloc", Some(Component::Cudart)),
        ("__cudaRegisterFatBinary", Some(Component::Cudart)),
        ("cuInit", Some(Component::Driver)),
        ("cublasCreate_v2", Some(Component::Cublas)),
        ("cuFileOpen", Some(Component::Cufile)),
        ("cusparseLtInit", Some(Component::Cusparselt)),
        ("ncclGroupEnd", Some(Component::Nccl)),
        ("nvrtcVersion", Some(Component::Nvrtc)),
        ("customInit", None),
        ("cudaish_helper", None),
        ("curl_easy_init", None),
    ] {
        let found = component_of_function(function).map(|(component, _)| component);
        assert_eq!(found, expected, "{function}");
    }
}

#[test]
fn what_is_missing_is_a_word_of_the_line() {
    for (line, expected) in [
        (
            "Failed to execute `nvcc`: Os { code: 2, kind: NotFound }",
            true,
        ),
        ("sh: 1: nvcc: not found", true),
        ("/usr/bin/nvcc: No such file or directory", true),
        ("my_nvcc_wrapper: not found", false),
        ("nvcc fatal : Unknown option '-foo'", false),
        ("nvcc works\ncmake: not found", false),
    ] {
        assert_eq!(lacks(line, &["nvcc"]), expected, "{line}");
    }
}

use super::*;
use crate::host_compiler::{Compiler, Family};
use crate::version::ToolkitVersion;

/// A compiler of a family and a major version, and whether it is refused.
fn judged(text: &str) -> Judged {
    let words: Vec<&str> = text.split(' ').collect();
    let family = match words[0] {
        "gcc" => Family::Gcc,
        _ => Family::Clang,
    };
    Judged {
        compiler: Compiler {
            path: PathBuf::from(format!("/usr/bin/{family}-{}", words[1])),
            family,
            version: format!("{}.1.0", words[1]),
            major: words[1].parse().unwrap(),
            fingerprint: String::new(),
            files: Vec::new(),
        },
        refusal: words.get(2).map(|_| "it is unsupported!".to_owned()),
        architecture: None,
    }
}

fn native() -> Target {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    Target::from_triple(&triple).unwrap()
}

fn compilers(list: &[&str]) -> Vec<Judged> {
    list.iter().map(|text| judged(text)).collect()
}

#[test]
fn the_newest_accepted_gcc_then_clang() {
    let chosen = |list: &[&str]| preferred(&compilers(list)).map(|j| j.compiler.to_string());
    assert_eq!(
        chosen(&["gcc 9", "gcc 13", "gcc 12", "gcc 15 refused"]).as_deref(),
        Some("gcc 13.1.0 (/usr/bin/gcc-13)")
    );
    assert_eq!(
        chosen(&["clang 17", "gcc 9"]).as_deref(),
        Some("gcc 9.1.0 (/usr/bin/gcc-9)")
    );
    assert_eq!(
        chosen(&["clang 18 refused", "clang 16", "gcc 14 refused"]).as_deref(),
        Some("clang 16.1.0 (/usr/bin/clang-16)")
    );
    assert_eq!(chosen(&["clang 18 refused", "gcc 14 refused"]), None);
}

#[test]
fn a_refusal_names_bounds_and_ways_out() {
    let (root, env) = (Root::system(), Env::default());
    let native = native();
    let choice = |toolkit: &str| {
        let toolkit: ToolkitVersion = toolkit.parse().unwrap();
        Judge {
            root: &root,
            env: &env,
            toolkit,
            target: &native,
            include: None,
            unchecked: false,
        }
    };
    let installed = compilers(&["gcc 14 refused", "gcc 12"]);
    let error = choice("12.4").refused(&installed[0], Some("NVCC_CCBIN"), &installed);
    assert_eq!(
        format!("{error:?}"),
        "host compiler gcc 14.1.0 (/usr/bin/gcc-14), which `NVCC_CCBIN` names, is not accepted by CUDA 12.4: it is \
         unsupported! (CUDA 12.4 supports gcc up to 13 and clang up to 17)\n  also installed: gcc 12.1.0 \
         (/usr/bin/gcc-12)\nhint: set `NVCC_CCBIN=/usr/bin/gcc-12`; or unset `NVCC_CCBIN`: the newest installed \
         compiler that CUDA 12.4 accepts is then used\nhint: to use it without NVIDIA's support, set `NVCC_APPEND_FLAGS=-allow-unsupported-compiler`"
    );
    let in_flags = choice("12.4").refused(&installed[0], Some("NVCC_APPEND_FLAGS"), &installed);
    assert_eq!(
        in_flags.hints()[0],
        "write `-ccbin /usr/bin/gcc-12` in `NVCC_APPEND_FLAGS`; or remove `-ccbin` from `NVCC_APPEND_FLAGS`: the \
         newest installed compiler that CUDA 12.4 accepts is then used"
    );
    let absent = choice("12.4").absent(Some(("NVCC_PREPEND_FLAGS", Path::new("g++-99"))));
    assert!(
        absent.hints()[0].ends_with("write `-ccbin <its path>` in `NVCC_PREPEND_FLAGS`"),
        "{absent:?}"
    );
    let alone = choice("12.4").refused(&installed[0], None, &installed[..1]);
    assert!(alone.hints()[0].contains("install g++-13"), "{alone:?}");
    let unknown = choice("99.0").refused(&installed[0], None, &installed[..1]);
    assert!(
        unknown
            .to_string()
            .contains("does not know which compilers CUDA 99.0"),
        "{unknown:?}"
    );
    let none = choice("12.4").absent(None).to_string();
    assert!(
        none.contains("none on `PATH`") && none.contains("gcc up to 13"),
        "{none}"
    );
}

#[test]
fn flags_are_read_in_both_spellings() {
    let names = &["-ccbin", "--compiler-bindir"];
    let value = |flags: &str| option_value(flags, names);
    assert_eq!(value("-O2 -ccbin g++-12 -g").as_deref(), Some("g++-12"));
    assert_eq!(
        value("--compiler-bindir=/usr/bin/g++").as_deref(),
        Some("/usr/bin/g++")
    );
    assert_eq!(value("-ccbin").as_deref(), Some(""));
    assert_eq!(value("-ccbinx -DX=-ccbin"), None);
}

#[test]
fn names_of_compilers() {
    for name in ["g++", "g++-12", "clang++", "clang++-18"] {
        assert!(is_compiler_name(name), "{name}");
    }
    for name in [
        "gcc",
        "c++",
        "g++-12.real",
        "x86_64-linux-gnu-g++",
        "clang++-",
        "clang-format",
    ] {
        assert!(!is_compiler_name(name), "{name}");
    }
}

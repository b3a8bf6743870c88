use super::*;
use crate::host_compiler::{Compiler, Family};

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
            glibc: None,
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
    let (root, env, target) = (Root::system(), Env::default(), native());
    let judge = |unchecked| Judge {
        root: &root,
        env: &env,
        toolkit: "12.4".parse().unwrap(),
        target: &target,
        include: None,
        unchecked,
    };
    let preferred = |unchecked, list: &[&str]| {
        let installed = compilers(list);
        let preferred = judge(unchecked).preferred(&installed);
        preferred.map(|judged| judged.compiler.to_string())
    };
    let chosen = |list: &[&str]| preferred(false, list);
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
    let refused = ["clang 18 refused", "gcc 14 refused"];
    assert_eq!(chosen(&refused), None);
    let unchecked = preferred(true, &refused);
    assert_eq!(unchecked.as_deref(), Some("gcc 14.1.0 (/usr/bin/gcc-14)"));
}

#[test]
fn a_refusal_names_bounds_and_ways_out() {
    let (root, env, target) = (Root::system(), Env::default(), native());
    let judge = |toolkit: &str| Judge {
        root: &root,
        env: &env,
        toolkit: toolkit.parse().unwrap(),
        target: &target,
        include: None,
        unchecked: false,
    };
    let installed = compilers(&["gcc 14 refused", "gcc 12"]);
    let error = judge("12.4").refused(&installed[0], Some("NVCC_CCBIN"), &installed);
    assert_eq!(
        format!("{error:?}"),
        "host compiler gcc 14.1.0 (/usr/bin/gcc-14), which `NVCC_CCBIN` names, is not accepted by CUDA 12.4: it is \
         unsupported! (CUDA 12.4 supports gcc up to 13 and clang up to 17)\nhint: name /usr/bin/gcc-12 in \
         `NVCC_CCBIN`, or no compiler: the newest installed one that CUDA 12.4 accepts is then used\nhint: to use it \
         without NVIDIA's support, set \
         `NVCC_APPEND_FLAGS=-allow-unsupported-compiler`"
    );
    let refused = |toolkit| judge(toolkit).refused(&installed[0], None, &installed[..1]);
    let absent = judge("12.4").absent(Some(("NVCC_PREPEND_FLAGS", Path::new("g++-99"))));
    for (error, text) in [
        (absent, "name it in `NVCC_PREPEND_FLAGS`"),
        (
            refused("12.4"),
            "hint: install g++-13, and if it is not on `PATH`, name it in `NVCC_CCBIN`",
        ),
        (refused("99.0"), "does not know which compilers CUDA 99.0"),
        (
            judge("12.4").absent(None),
            "none on `PATH` (CUDA 12.4 supports gcc up to 13",
        ),
    ] {
        let error = format!("{error:?}");
        assert!(error.contains(text), "{text}: {error}");
    }
    let is_compiler_name = |name| judge("12.4").is_compiler_name(name);
    assert!(
        ["g++", "g++-12", "clang++", "clang++-18"]
            .into_iter()
            .all(is_compiler_name)
    );
    let others = [
        "gcc",
        "g++-12.real",
        "x86_64-linux-gnu-g++",
        "clang++-",
        "clang-format",
    ];
    assert!(!others.into_iter().any(is_compiler_name));
}

#[test]
fn flags_are_read_in_both_spellings() {
    for (flags, expected) in [
        ("-O2 -ccbin g++-12 -g", Some("g++-12")),
        ("--compiler-bindir=/usr/bin/g++", Some("/usr/bin/g++")),
        ("-ccbin", Some("")),
        ("-ccbinx -DX=-ccbin", None),
    ] {
        let env = Env::from_pairs([("NVCC_APPEND_FLAGS", flags)]);
        let value = flag(&env, "-ccbin", "--compiler-bindir").map(|(_, value)| value);
        assert_eq!(value.as_deref(), expected);
    }
}

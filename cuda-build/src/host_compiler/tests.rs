use super::*;
use crate::host_compiler::Macros;

fn compiler(text: &str) -> Compiler {
    let (family, version) = text.split_once(' ').unwrap();
    let (path, macros) = match family {
        "gcc" => (
            format!("/usr/bin/g++-{version}"),
            format!("#define __GNUC__ {version}\n"),
        ),
        _ => (
            format!("/usr/bin/clang++-{version}"),
            format!("#define __GNUC__ 4\n#define __clang__ 1\n#define __clang_major__ {version}\n"),
        ),
    };
    Compiler::from_macros(PathBuf::from(path), Macros::parse(&macros)).unwrap()
}

fn compilers(list: &[&str]) -> Vec<Compiler> {
    list.iter().map(|text| compiler(text)).collect()
}

const HEADER: &str = "#if __GNUC__ > 13\n#error gcc\n#endif\n#if defined(__clang__) && __clang_major__ >= 18\n#error clang\n#endif\n";

fn accepts(header: Option<&str>) -> Accepts<'_> {
    let bounds = Some(Bounds {
        gcc_max: 13,
        clang_max: 17,
    });
    Accepts {
        toolkit: "12.4".parse().unwrap(),
        header,
        bounds,
    }
}

#[test]
fn the_newest_gcc_that_is_accepted_then_clang() {
    for header in [Some(HEADER), None, Some("#if 1 +\n")] {
        let chosen =
            |list: &[&str]| preferred(compilers(list), accepts(header)).map(|c| c.to_string());
        assert_eq!(
            chosen(&["gcc 9", "gcc 13", "gcc 12", "gcc 15"]).as_deref(),
            Some("gcc 13.0.0 (/usr/bin/g++-13)")
        );
        assert_eq!(
            chosen(&["clang 17", "gcc 9"]).as_deref(),
            Some("gcc 9.0.0 (/usr/bin/g++-9)")
        );
        assert_eq!(
            chosen(&["clang 18", "clang 16", "gcc 14"]).as_deref(),
            Some("clang 16.0.0 (/usr/bin/clang++-16)")
        );
        assert_eq!(chosen(&["clang 18", "gcc 14"]), None);
    }
}

#[test]
fn a_refusal_names_bound_compiler_and_ways_out() {
    let installed = compilers(&["gcc 14", "gcc 12"]);
    let error = refused(
        &compiler("gcc 14"),
        Some("NVCC_CCBIN"),
        &installed,
        accepts(Some(HEADER)),
    );
    assert_eq!(
        format!("{error:?}"),
        "host compiler gcc 14.0.0 (/usr/bin/g++-14), which `NVCC_CCBIN` names, is not accepted by CUDA 12.4, whose \
         headers take gcc up to 13 and clang up to 17\n  also installed: gcc 12.0.0 (/usr/bin/g++-12)\n\
         hint: set `NVCC_CCBIN=/usr/bin/g++-12`, or unset it to have one chosen\n\
         hint: to try it all the same, set `NVCC_APPEND_FLAGS=-allow-unsupported-compiler`"
    );
    let alone = refused(
        &compiler("gcc 14"),
        None,
        &compilers(&["gcc 14"]),
        accepts(None),
    );
    assert!(alone.hints()[0].contains("install g++-13"), "{alone:?}");
    let none = absent(None, accepts(None)).to_string();
    assert!(
        none.contains("none on `PATH`") && none.contains("gcc up to 13"),
        "{none}"
    );
}

#[test]
fn reads_the_first_host_step_of_a_dry_run() {
    for (line, expected) in [
        (
            "#$ gcc -D__CUDA_ARCH_LIST__=750 -E -x c++ -D__CUDACC__ \"k.cu\"",
            "gcc",
        ),
        (
            "#$ \"/usr/bin\"/g++-12 -D__CUDA_ARCH__=750 -E -x c++  \"k.cu\"",
            "/usr/bin/g++-12",
        ),
        (
            "#$ \"/opt/my gcc/bin\"/g++ -E -x c++ -m64",
            "/opt/my gcc/bin/g++",
        ),
    ] {
        let text = format!(
            "#$ _SPACE_= \n#$ TOP=/a\n#$ cudafe++ --c++17 \"a.ii\"\n{line}\n#$ gcc -c -x c++ -m64\n"
        );
        assert_eq!(from_dry_run(&text), Some(PathBuf::from(expected)));
    }
    assert_eq!(
        from_dry_run("nvcc fatal   : Failed to preprocess host compiler properties.\n"),
        None
    );
}

#[test]
fn flags_are_read_in_both_spellings() {
    let names = &["-ccbin", "--compiler-bindir"];
    assert!(has_option("-O2 -ccbin g++-12", names));
    assert!(has_option("--compiler-bindir=/usr/bin/g++", names));
    assert!(!has_option("-ccbinx -DX=-ccbin", names));
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

#[test]
fn tools_of_another_origin() {
    let warns = |compiler: &str, tool: &str| {
        origin_warning(Path::new(compiler), "as", Path::new(tool)).is_some()
    };
    assert!(!warns("/usr/bin/g++-12", "/usr/bin/as"));
    assert!(!warns("/usr/bin/g++-12", "/bin/as"));
    assert!(!warns(
        "/opt/conda/bin/g++",
        "/opt/conda/x86_64-conda-linux-gnu/bin/as"
    ));
    assert!(!warns(
        "/nix/store/a-gcc/bin/g++",
        "/nix/store/b-binutils/bin/as"
    ));
    assert!(warns("/opt/conda/bin/g++", "/usr/bin/as"));
    assert!(warns("/usr/local/bin/g++", "/usr/bin/as"));
    assert!(warns("/usr/bin/g++", "/opt/conda/bin/as"));
}

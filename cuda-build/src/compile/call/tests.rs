//! Calls as build scripts write them.

use cuda_find_core::capability::Declared;

use super::*;

fn parse_with(line: &str, env: &Env) -> Call {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Call::parse(&words, env, &Root::system())
}

fn parse(line: &str) -> Call {
    parse_with(line, &Env::default())
}

fn declared(list: &str) -> Plan {
    Declared::parse([list]).unwrap().named_capabilities()
}

/// What becomes of a call, if `CUDA_COMPUTE_CAP` is `single` and every package has the list: its words, or the
/// reason why it stays.
fn for_list(call: &Call, single: u32, list: &str) -> String {
    for_package(call, single, list, list)
}

/// The same for a package with a list of its own.
fn for_package(call: &Call, single: u32, of_build: &str, list: &str) -> String {
    let list_of_build = declared(of_build);
    let advertised = Advertised {
        single,
        list: list_of_build,
    };
    match call.for_list(&advertised, &declared(list)) {
        ForList::Changed(call) => call.words().join(" "),
        ForList::WithoutSuffix(capability, call) => {
            format!("{capability}? {}", call.words().join(" "))
        }
        ForList::Stays(reason) => reason.unwrap_or_default(),
        ForList::Refused(reason) => format!("refused: {reason}"),
    }
}

const LIST: &str = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 \
                    -gencode=arch=compute_90,code=compute_90";

#[test]
fn one_capability_becomes_the_list() {
    for spelling in [
        "-arch=sm_80 ",
        "-arch sm_80 ",
        "--gpu-architecture=sm_80 ",
        "-gencode arch=compute_80,code=sm_80 ",
        "-gencode=code=sm_80,arch=compute_80 ",
        "-gencode=arch=compute_80,code=[sm_80,compute_80] ",
        "-arch=compute_80 -code=sm_80 ",
        "-arch=sm_80 -gencode=arch=compute_80,code=sm_80 ",
        "-arch=native ",
        "",
    ] {
        for call in [
            "-c k.cu -o k.o",
            "-dc k.cu",
            "-c --device-c k.cu -o k.o",
            "-dlink a.o b.o -o c.o",
            "k.cu -o program -lcudart",
            "-x cu -c k.cpp --keep-dir /tmp/sccache --dryrun --keep",
            "-E k.cu",
            "-Xcudafe --display_error_number -c k.cu",
            "-Xfatbin=-compress-all -t4 -src-in-ptx -c k.cu",
            "--an-option-of-the-future -c k.cu",
        ] {
            let changed = for_list(&parse(&format!("{spelling}{call}")), 80, "8.0, 9.0+PTX");
            assert_eq!(changed, format!("{LIST} {call}"), "{spelling}");
        }
        // PTX for 8.0 is what the other spellings request.
        let ptx = for_list(&parse(&format!("--ptx {spelling}k.cu")), 80, "8.0, 9.0+PTX");
        let expected = match spelling {
            "-arch=native " => "--ptx -arch=compute_80 k.cu",
            "" => "-arch=compute_80 --ptx k.cu",
            _ => "",
        };
        assert_eq!(ptx, expected, "{spelling}");
    }
    assert_eq!(for_list(&parse("-arch=sm_80 -c k.cu"), 80, "8.0"), "");
    let without_ptx = parse("-gencode=arch=compute_80,code=sm_80 -c k.cu");
    assert!(for_list(&without_ptx, 80, "8.0+PTX").contains("code=compute_80 -c"));
}

#[test]
fn a_suffix_is_left_to_the_code() {
    let suffix = parse("-gencode=arch=compute_90a,code=sm_90a -c k.cu");
    let list = "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_120,code=sm_120";
    assert_eq!(
        for_list(&suffix, 90, "9.0, 12.0"),
        format!("9.0a? {list} -c k.cu")
    );
    let ptx = parse("-arch=sm_90a -ptx k.cu");
    assert_eq!(
        for_list(&ptx, 90, "9.0, 12.0"),
        "9.0a? -arch=compute_90 -ptx k.cu"
    );
    let plain = "-gencode=arch=compute_90,code=sm_90 -c k.cu";
    assert_eq!(for_list(&suffix, 90, "9.0"), format!("9.0a? {plain}"));
    assert_eq!(for_list(&suffix, 90, "9.0a"), "");
    let unchecked = "the list has PTX that no machine code of the list checks";
    assert_eq!(for_list(&suffix, 90, "8.0, 90-virtual"), unchecked);
    let plain = parse("-arch=sm_90 -c k.cu");
    assert_eq!(
        for_list(&plain, 90, "9.0a"),
        "-gencode=arch=compute_90a,code=sm_90a -c k.cu"
    );
}

#[test]
fn other_calls_stay_as_they_are() {
    for (call, reason) in [
        ("-arch=sm_90 -c k.cu", "its build script requests these"),
        (
            "-arch=compute_80 -c k.cu",
            "its build script requests these",
        ),
        ("-arch=compute_80 -ptx k.cu", ""),
        ("-arch=all -c k.cu", ""),
        ("--version", ""),
        ("-arch=sm_80 -c k.cpp", ""),
        (
            "-arch=sm_80 -x cu -c -",
            "a source that is not a file can be read only once",
        ),
        (
            "-arch=sm_80 -x cu -c /dev/stdin",
            "a source that is not a file can be read only once",
        ),
        (
            "-arch=sm_80 -x cu -c /proc/self/fd/3",
            "a source that is not a file can be read only once",
        ),
        ("-arch=sm_80 -dc -rdc=false k.cu", ""),
        (
            "-arch=sm_80 -cubin k.cu",
            "a cubin has code for one capability",
        ),
        ("-arch=sm_80 -c -ptx k.cu", "it makes several files"),
        (
            "-arch=sm_80 -dc -dlto k.cu",
            "`-dlto` is for one capability",
        ),
        ("-arch=sm_80 -optix-ir k.cu", ""),
        (
            "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -c k.cu",
            "",
        ),
        (
            "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_86,code=sm_86 -c k.cu",
            "its build script requests these",
        ),
        (
            "-gencode=arch=compute_75,code=sm_80 -c k.cu",
            "its build script requests other code",
        ),
        // nvcc refuses it.
        (
            "-gencode arch=compute_80,code=sm_80,compute_80 -c k.cu",
            "its build script requests other code",
        ),
    ] {
        assert_eq!(for_list(&parse(call), 80, "8.0, 9.0"), reason, "{call}");
    }
    let env = Env::from_pairs([("NVCC_APPEND_FLAGS", "-arch=sm_75")]);
    let reason = for_list(&parse_with("-c k.cu", &env), 80, "8.0, 9.0");
    assert!(reason.contains("`NVCC_APPEND_FLAGS` chooses"), "{reason}");
    let env = Env::from_pairs([("NVCC_PREPEND_FLAGS", "-Xfatbin=-compress-all")]);
    let changed = for_list(&parse_with("-c k.cu", &env), 80, "8.0, 9.0+PTX");
    assert_eq!(changed, format!("{LIST} -c k.cu"));
}

#[test]
fn the_advertised_list_is_that_of_the_build() {
    // As CMake writes `CUDAARCHS`.
    let call = |rest: &str| {
        let codes = "--generate-code=arch=compute_80,code=[sm_80] --generate-code=arch=compute_90,code=[sm_90]";
        parse(&format!("{codes} {rest} -x cu k.cu -o k.o"))
    };
    let of_package = |rest: &str, list: &str| for_package(&call(rest), 80, "8.0, 9.0", list);
    assert_eq!(of_package("-c", "8.0, 9.0"), "");
    let [sm_80, sm_120] = [80, 120].map(|it| format!("-gencode=arch=compute_{it},code=sm_{it}"));
    let own = format!("{sm_80} -c -x cu k.cu -o k.o");
    assert_eq!(of_package("-c", "8.0"), own);
    let own = format!("{sm_80} {sm_120} -c -x cu k.cu -o k.o");
    assert_eq!(of_package("-c", "8.0, 12.0"), own);
    for product in ["-ptx", "-optix-ir"] {
        let lowest = format!("-arch=compute_80 {product} -x cu k.cu -o k.o");
        assert_eq!(of_package(product, "8.0, 9.0"), lowest);
        assert_eq!(of_package(product, "8.0"), lowest);
    }
    let refused =
        "refused: k.cu is to be compiled for 8.0, 9.0, and a cubin has code for one capability";
    assert_eq!(of_package("-cubin", "8.0, 9.0"), refused);
    let own = format!("{sm_80} -cubin -x cu k.cu -o k.o");
    for list in ["8.0", "8.0+PTX", "8.0, 90-virtual"] {
        assert_eq!(of_package("-cubin", list), own, "{list}");
    }
    assert!(of_package("-cubin", "90-virtual").starts_with("refused: "));
    let fatbin = of_package("-fatbin", "8.0, 9.0");
    assert_eq!(fatbin, "");
    // Whether the code needs the suffix is not known here.
    let codes = "--generate-code=arch=compute_90a,code=[sm_90a] --generate-code=arch=compute_120,code=[sm_120]";
    let suffix = parse(&format!("{codes} -ptx k.cu"));
    assert_eq!(
        for_package(&suffix, 90, "9.0a, 12.0", "9.0a, 12.0"),
        "9.0a? -arch=compute_90 -ptx k.cu"
    );
    // A list that the project itself has chosen is not the build's.
    let other = for_package(&call("-ptx"), 80, "8.0, 12.0", "8.0, 12.0");
    assert_eq!(other, "its build script requests these");
}

#[test]
fn a_note_names_what_an_output_lacks() {
    let note = |line: &str, list: &str| parse(line).note(&declared(list), None, "why");
    let expected = "k.cu is compiled for 8.0, and not for 9.0, 12.0: why";
    let cubin = note("-gencode=arch=compute_80,code=sm_80 k.cu", "8.0, 9.0, 12.0");
    assert_eq!(cubin.as_deref(), Some(expected));
    assert_eq!(note("-arch=sm_90a -c k.cu", "9.0"), None);
    assert_eq!(note("-arch=compute_80 -ptx k.cu", "8.0, 9.0"), None);
    assert_eq!(note("-arch=sm_80 -optix-ir k.cu", "8.0, 9.0"), None);
    let ptx = note(
        "-gencode=arch=compute_90,code=[sm_90] -ptx k.cu",
        "8.0, 9.0",
    );
    let expected = "k.cu is compiled for compute_90, and not for 8.0: why";
    assert_eq!(ptx.as_deref(), Some(expected));
    // nvcc refuses it.
    let nothing = note("-arch=compute_80 -cubin k.cu", "8.0, 9.0");
    let expected = "k.cu is compiled, and not for 8.0, 9.0: why";
    assert_eq!(nothing.as_deref(), Some(expected));
    assert_eq!(note("-arch=sm_80 -cubin k.cu", "8.0+PTX"), None);
    let without_ptx =
        "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -c k.cu";
    let lacks = note(without_ptx, "8.0, 9.0+PTX").unwrap();
    assert!(lacks.contains("not for compute_90: why"), "{lacks}");
    assert!(note("-arch=sm_100a -c k.cu", "10.0f").is_some());
    assert_eq!(note("-arch=sm_100 -cubin k.cu", "10.0f"), None);
    assert!(note("-arch=compute_90 -ptx k.cu", "8.0, 9.0").is_some());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "prepares a real file")]
fn files_with_options_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let nested = format!("-arch=sm_80 -DA=x\n-optf {}", path("b"));
    std::fs::write(path("a"), nested).unwrap();
    std::fs::write(path("b"), "-c k.cu -o\nk.o").unwrap();
    let call = parse(&format!("--options-file={} -lineinfo", path("a")));
    let words = "-arch=sm_80 -DA=x -c k.cu -o k.o -lineinfo";
    assert_eq!(call.words().join(" "), words);
    std::fs::write(path("cmake"), "-I\"/a b\" -isystem \"/c\"").unwrap();
    let call = parse(&format!("-optf {} -c k.cu", path("cmake")));
    assert_eq!(call.words(), ["-I/a b", "-isystem", "/c", "-c", "k.cu"]);
    std::fs::write(path("quoted"), r#"-DA=\"x\""#).unwrap();
    for name in [path("quoted"), "/absent".to_owned()] {
        let (line, default) = (format!("-optf {name} -c k.cu"), Some(Capability::new(7, 5)));
        let call = parse(&line);
        assert_eq!(call.words().join(" "), line);
        let compile = call.keepable(Path::new("/"), &Root::system(), default);
        assert!(compile.is_none(), "{line}");
        assert!(for_list(&call, 75, "8.0").starts_with("a file with options"));
    }
}

#[test]
fn one_source_into_one_file_is_kept() {
    let default = Some(Capability::new(7, 5));
    let compile = |line: &str| parse(line).keepable(Path::new("/tmp"), &Root::system(), default);
    for (call, output, options, images) in [
        ("-arch=sm_80 -c a/k.cu", "/tmp/k.o", "", "sm_80 compute_80"),
        (
            "-dc k.cu -O3 -o /usr/k.obj",
            "/usr/k.obj",
            "-O3 -rdc=true",
            "sm_75 compute_75",
        ),
        (
            "-c --device-c k.cu",
            "/tmp/k.o",
            "-rdc=true",
            "sm_75 compute_75",
        ),
        (
            "--ptx -arch sm_80 k.cu -odir /usr -Ia",
            "/usr/k.ptx",
            "-Ia",
            "compute_80",
        ),
        ("-arch=sm_80 -cubin k.cu", "/tmp/k.cubin", "", "sm_80"),
        ("-x cu -c k.cpp -o k", "/tmp/k", "-x cu", "sm_75 compute_75"),
        (
            "-forward-unknown-to-host-compiler -Wall -c k.cu",
            "/tmp/k.o",
            "-forward-unknown-to-host-compiler -Wall",
            "sm_75 compute_75",
        ),
    ] {
        let compile = compile(call).unwrap_or_else(|| panic!("{call}"));
        assert_eq!(compile.output, Path::new(output), "{call}");
        assert_eq!(compile.options.join(" "), options);
        assert_eq!(Image::names(&compile.images), images);
    }
    for call in [
        "-c a.cu b.cu",
        "-c k.cpp",
        "k.cu",
        "-E -c k.cu",
        "-dryrun -c k.cu",
        "-keep -c k.cu",
        "-arch=native -c k.cu",
        "-arch=all -c k.cu",
        "-arch=sm_90a -c k.cu",
        "-arch=sm_80 -x cu -c -",
        "-arch=sm_80 -x cu -c /dev/stdin",
        "-Wall -c k.cu",
        "-c k.cu -MF k.d",
        "-Xcompiler=--coverage -c k.cu",
        "-Xcompiler=-fPIC,-fstack-usage -c k.cu",
        "-Xcompiler -gsplit-dwarf -c k.cu",
        "-Xcompiler=-fopt-info-all=k.txt -c k.cu",
        "-Xptxas --options-file=k.txt -c k.cu",
        "-Xcudafe --preinclude=k.h -c k.cu",
        "-DHAS=__has_include -c k.cu",
        "-lib a.o",
        // nvcc refuses these, or does something else.
        "-arch=compute_80 -cubin k.cu",
        "-gencode=arch=compute_80,code=compute_80 -cubin k.cu",
        "-gencode=arch=compute_80,code=[sm_80,compute_80] -cubin k.cu",
        "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -ptx k.cu",
        "-gencode arch=compute_80,code=sm_80,compute_80 -c k.cu",
        "-dc -rdc=false k.cu",
        "-dw -rdc=true k.cu",
        "-c k.cu -o -",
        "-c k.cu -o absent/k.o",
        "-c k.cu -MD -MF absent/k.d",
        "-c k.cu -o /dev/null",
        "-c k.cu -MD -MF /dev/null",
        "-c k.cu -MD -MF /proc/self/exe",
        // A shell reads these words again.
        "-c k.cu -D VAL=$FOO",
        "-c k.cu --define-macro=VAL=`x`",
        "-c k.cu -I\"quoted\"",
        "-Xcompiler -DHAS=__has_include -c k.cu",
    ] {
        assert!(compile(call).is_none(), "{call}");
    }
    let depfile = |line: &str| compile(line).unwrap().depfile.unwrap();
    let named = depfile("-c k.cu -o ./k.o -MD -MF ../usr/k.d -MT target");
    assert_eq!(
        named,
        (PathBuf::from("/tmp/../usr/k.d"), "target".to_owned())
    );
    let usual = depfile("-c k.cu -o ./k.o -MD");
    assert_eq!(usual, (PathBuf::from("/tmp/./k.d"), "./k.o".to_owned()));
    for (variable, value, is_kept) in [
        ("NVCC_APPEND_FLAGS", "-Xcompiler=--coverage", false),
        ("NVCC_APPEND_FLAGS", "-keep", false),
        ("NVCC_PREPEND_FLAGS", "-E", false),
        ("NVCC_PREPEND_FLAGS", "-lto", false),
        ("NVCC_APPEND_FLAGS", "-DVAL=$FOO", false),
        ("NVCC_APPEND_FLAGS", "-I\"a\"", false),
        ("DEPENDENCIES_OUTPUT", "k.d", false),
        (
            "NVCC_APPEND_FLAGS",
            "-ccbin g++ -lineinfo -Xcompiler=-fPIC -L/opt -lm",
            true,
        ),
    ] {
        let call = parse_with("-c k.cu", &Env::from_pairs([(variable, value)]));
        assert_eq!(
            call.keepable(Path::new("/"), &Root::system(), default)
                .is_some(),
            is_kept,
            "{value}"
        );
    }
}

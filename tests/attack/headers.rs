//! Headers: edited, shadowed, added, reached through links, named in every way that a compiler
//! accepts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::package::{Compiler, Edits, Package, holds, kernel};

/// One way to name a header: the module's source, its options, the files of the package with the
/// header last, and what to write into the header.
struct Named {
    module: &'static str,
    source: &'static str,
    options: &'static str,
    files: &'static [(&'static str, &'static str)],
    edited: &'static str,
}

const fn named(
    module: &'static str,
    source: &'static str,
    options: &'static str,
    files: &'static [(&'static str, &'static str)],
) -> Named {
    Named {
        module,
        source,
        options,
        files,
        edited: "#define V 2\n",
    }
}

const ONE: &str = "#define V 1\n";

const SPELLINGS: [Named; 10] = [
    named(
        "absolute",
        "#include \"PACKAGE/elsewhere/absolute.cuh\"\n",
        "",
        &[("elsewhere/absolute.cuh", ONE)],
    ),
    named(
        "option_i",
        "#include <i.cuh>\n",
        ".flag(\"-Ioption_i\")",
        &[("option_i/i.cuh", ONE)],
    ),
    named(
        "option_path",
        "#include \"path.cuh\"\n",
        ".flag(\"--include-path=option_path\")",
        &[("option_path/path.cuh", ONE)],
    ),
    named(
        "pre_include",
        "",
        ".flag(\"--pre-include=pre/pre.cuh\")",
        &[("pre/pre.cuh", ONE)],
    ),
    named(
        "macro_name",
        "#define HEADER \"by_macro.cuh\"\n#include HEADER\n",
        "",
        &[("kernels/by_macro.cuh", ONE)],
    ),
    named(
        "defined_name",
        "#include HEADER\n",
        ".define(\"HEADER\", \"\\\"by_define.cuh\\\"\")",
        &[("kernels/by_define.cuh", ONE)],
    ),
    named(
        "next",
        "#include <nx.cuh>\n",
        ".include(\"next_a\").include(\"next_b\")",
        &[
            ("next_a/nx.cuh", "#include_next <nx.cuh>\n"),
            ("next_b/nx.cuh", ONE),
        ],
    ),
    named(
        "digraph",
        "%:include \"digraph.cuh\"\n",
        "",
        &[("kernels/digraph.cuh", ONE)],
    ),
    named(
        "spliced",
        "#inc\\\nlude /* why not */ \"spliced.cuh\"\n",
        "",
        &[("kernels/spliced.cuh", ONE)],
    ),
    named(
        "nested",
        "#include \"deep/er/first.cuh\"\n",
        "",
        &[
            ("kernels/deep/er/first.cuh", "#include \"../second.cuh\"\n"),
            ("kernels/deep/second.cuh", ONE),
        ],
    ),
];

/// Headers that only the source's directory has, for another file or by `<…>`: nvcc does not find
/// them, and NVRTC must not either, or the two engines would differ.
const REFUSED: [Named; 2] = [
    named(
        "beside_source",
        "#include \"sub/s.cuh\"\n",
        "",
        &[
            ("kernels/sub/s.cuh", "#include \"beside_source.cuh\"\n"),
            ("kernels/beside_source.cuh", ONE),
        ],
    ),
    named(
        "angled_beside",
        "#include <angled_beside.cuh>\n",
        "",
        &[("kernels/angled_beside.cuh", ONE)],
    ),
];

fn every_spelling(compiler: Compiler) {
    let Some(package) = Package::new("spelling", compiler) else {
        return;
    };
    for case in &SPELLINGS {
        let directory = package.path.display().to_string();
        let include = case.source.replace("PACKAGE", &directory);
        let source = format!("{include}{}", kernel("V"));
        package.write(&format!("kernels/{}.cu", case.module), source);
        for (file, text) in case.files {
            package.write(file, text);
        }
    }
    let modules: Vec<(&str, &str)> = SPELLINGS.iter().map(|c| (c.module, c.options)).collect();
    package.write_modules(compiler, &modules);
    let mut edits = Edits::of(&package);
    for case in &SPELLINGS {
        let (file, _) = case.files.last().unwrap();
        edits.changes(case.module, |package| package.write(file, case.edited));
    }
    edits.finish();
}

#[test]
fn nvrtc_12_headers_are_noticed_in_every_spelling() {
    every_spelling(Compiler::Nvrtc12);
}

#[test]
fn nvrtc_13_headers_are_noticed_in_every_spelling() {
    every_spelling(Compiler::Nvrtc13);
}

#[test]
fn nvcc_headers_are_noticed_in_every_spelling() {
    every_spelling(Compiler::Nvcc13);
}

#[test]
fn every_engine_refuses_what_nvcc_does_not_find() {
    for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13, Compiler::Nvcc13] {
        for case in &REFUSED {
            let Some(package) = Package::new(&format!("refused-{}", case.module), compiler) else {
                return;
            };
            package.write("kernels/m.cu", format!("{}{}", case.source, kernel("V")));
            for (file, text) in case.files {
                package.write(file, text);
            }
            package.write_modules(compiler, &[("m", "")]);
            let message = package.build().unwrap_err();
            let named = message.contains("cannot open") || message.contains("could not open");
            assert!(named || message.contains("No such file"), "{message}");
        }
    }
}

/// `linked/../x.cuh` and `x.cuh` are two files if `linked` is a link to another directory.
fn a_parent_behind_a_link(compiler: Compiler) {
    let Some(package) = Package::new("behind-link", compiler) else {
        return;
    };
    package.write("kernels/x.cuh", "#define A 1\n");
    package.write("real/deep/y.cuh", "");
    package.write("real/x.cuh", "#define B 1\n");
    package.write("real/common.cuh", "#define C 1\n");
    package.write("real/deep/z.cuh", "#include \"../common.cuh\"\n");
    // A decoy: where the path leads if the link is not followed.
    package.write("kernels/common.cuh", "#define C 7\n");
    symlink(
        package.path.join("real/deep"),
        package.path.join("kernels/linked"),
    )
    .unwrap();
    let source = "#include \"x.cuh\"\n#include \"linked/../x.cuh\"\n#include \"linked/z.cuh\"\n";
    package.write(
        "kernels/m.cu",
        format!("{source}{}", kernel("A + 10 * B + 100 * C")),
    );
    package.write_modules(compiler, &[("m", "")]);
    let mut edits = Edits::of(&package);
    edits.changes("the file behind the link", |p| {
        p.write("real/x.cuh", "#define B 2\n");
    });
    edits.changes("the other file", |p| {
        p.write("kernels/x.cuh", "#define A 2\n");
    });
    edits.changes("named by a header behind the link", |p| {
        p.write("real/common.cuh", "#define C 2\n");
    });
    edits.changes("the link", |p| {
        p.write("other/deep/z.cuh", "#define C 5\n");
        p.write("other/x.cuh", "#define B 5\n");
        fs::remove_file(p.path.join("kernels/linked")).unwrap();
        symlink(p.path.join("other/deep"), p.path.join("kernels/linked")).unwrap();
    });
    edits.finish();
}

#[test]
fn nvrtc_a_parent_behind_a_link_is_another_file() {
    a_parent_behind_a_link(Compiler::Nvrtc13);
}

#[test]
fn nvcc_a_parent_behind_a_link_is_another_file() {
    a_parent_behind_a_link(Compiler::Nvcc13);
}

fn new_and_deleted_files(compiler: Compiler) {
    let Some(package) = Package::new("shadow", compiler) else {
        return;
    };
    let source = "#include <v.cuh>\n#include \"w.cuh\"\n#if __has_include(\"opt.cuh\")\n\
                  #define X 1\n#else\n#define X 2\n#endif\n\
                  #if __has_include(<far/opt.cuh>)\n#define Y 1\n#else\n#define Y 2\n#endif\n";
    let source = format!("{source}{}", kernel("V + 10 * W + 100 * X + 1000 * Y"));
    package.write("kernels/m.cu", source);
    package.write("inc1/unrelated.cuh", "");
    package.write("inc2/v.cuh", "#define V 1\n");
    package.write("inc2/w.cuh", "#define W 1\n");
    package.write_modules(compiler, &[("m", ".include(\"inc1\").include(\"inc2\")")]);
    let delete = |file: &'static str| {
        move |package: &Package| fs::remove_file(package.path.join(file)).unwrap()
    };
    let mut edits = Edits::of(&package);
    edits.changes("shadowed", |p| p.write("inc1/v.cuh", "#define V 2\n"));
    edits.changes("shadowed beside the source", |p| {
        p.write("kernels/w.cuh", "#define W 2\n");
    });
    edits.changes("a file that is asked for", |p| p.write("inc1/opt.cuh", ""));
    edits.changes("in a new directory", |p| p.write("inc2/far/opt.cuh", ""));
    edits.changes("the shadow deleted", delete("inc1/v.cuh"));
    edits.changes("beside the source deleted", delete("kernels/w.cuh"));
    edits.changes("deleted again", delete("inc1/opt.cuh"));
    edits.changes("the directory deleted", |p| {
        fs::remove_dir_all(p.path.join("inc2/far")).unwrap();
    });
    edits.finish();
}

#[test]
fn nvrtc_12_new_files_shadow_headers() {
    new_and_deleted_files(Compiler::Nvrtc12);
}

#[test]
fn nvrtc_13_new_files_shadow_headers() {
    new_and_deleted_files(Compiler::Nvrtc13);
}

#[test]
fn nvcc_new_files_shadow_headers() {
    new_and_deleted_files(Compiler::Nvcc13);
}

/// The package lies below `/usr`, as in the usual images of build machines.
fn below_usr(compiler: Compiler) {
    if std::env::var_os("CUDA_BUILD_TEST_NO_MOUNT").is_some() {
        eprintln!("left out: a package below /usr (CUDA_BUILD_TEST_NO_MOUNT is set)");
        return;
    }
    let Some(mut package) = Package::new("below-usr", compiler) else {
        return;
    };
    package.mounted_at = Some(PathBuf::from("/usr/src"));
    package.write("kernels/v.cuh", ONE);
    package.write("../outside/w.cuh", "#define W 1\n");
    let source = format!(
        "#include \"v.cuh\"\n#include <w.cuh>\n{}",
        kernel("V + 10 * W")
    );
    package.write("kernels/m.cu", source);
    package.write_modules(compiler, &[("m", ".include(\"/usr/src/outside\")")]);
    let mut edits = Edits::of(&package);
    edits.changes("a header", |p| p.write("kernels/v.cuh", "#define V 7\n"));
    edits.changes("a header of another directory", |p| {
        p.write("../outside/w.cuh", "#define W 7\n");
    });
    edits.finish();
}

#[test]
fn nvrtc_headers_below_usr_are_noticed() {
    below_usr(Compiler::Nvrtc13);
}

#[test]
fn nvcc_headers_below_usr_are_noticed() {
    below_usr(Compiler::Nvcc13);
}

/// `include` and `-I` alike: the package's header, never one that stands in for a system header.
#[test]
fn nvrtc_takes_the_packages_own_system_headers() {
    for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13] {
        let Some(package) = Package::new("own-system-header", compiler) else {
            return;
        };
        let source = |header: &str| {
            format!("#include <{header}>\nextern \"C\" __device__ const char mark[] = MARK;\n")
        };
        let cases = [
            ("by_method", "float.h", ".include(\"own_by_method\")"),
            ("by_option", "math.h", ".flag(\"-Iown_by_option\")"),
            (
                "by_long_option",
                "string.h",
                ".flag(\"--include-path=own_by_long_option\")",
            ),
        ];
        for (module, header, _) in cases {
            package.write(&format!("kernels/{module}.cu"), source(header));
            let text = format!("#define MARK \"the package's {header}\"\n");
            package.write(&format!("own_{module}/{header}"), text);
        }
        package.write_modules(
            compiler,
            &cases.map(|(module, _, options)| (module, options)),
        );
        let outputs = package.build().unwrap();
        for (module, header, _) in cases {
            let text = format!("the package's {header}");
            assert!(
                holds(&outputs[&format!("{module}.fatbin")], &text),
                "{text}"
            );
        }
    }
}

/// NVRTC reads names from the process's directory without any option.
#[test]
fn nvrtc_headers_of_the_current_directory_are_noticed() {
    let Some(package) = Package::new("current-directory", Compiler::Nvrtc13) else {
        return;
    };
    package.write("in_package.cuh", "");
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(Compiler::Nvrtc13, &[("m", "")]);
    package.build().unwrap();
    for source in [
        "#include \"in_package.cuh\"\n",
        "#include <in_package.cuh>\n",
    ] {
        // Found or not found: a fresh build decides.
        package.write("kernels/m.cu", format!("{source}{}", kernel("V")));
        for value in 1..4 {
            package.write("in_package.cuh", format!("#define V {value}\n"));
            package.compare().unwrap();
        }
    }
}

//! Headers: edited, shadowed, added, reached through links, named in every way that a compiler
//! accepts. Each build is compared with one from nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::package::{Compiler, Edits, Package, holds, kernel, succeeded};

/// One way to name a header.
struct Spelling {
    module: &'static str,
    /// The first lines of the source.
    source: &'static str,
    /// Methods of the module.
    options: &'static str,
    /// The file that the compiler reads.
    header: &'static str,
}

const fn spelling(
    module: &'static str,
    source: &'static str,
    options: &'static str,
    header: &'static str,
) -> Spelling {
    Spelling {
        module,
        source,
        options,
        header,
    }
}

const ONE: &str = "#define V 1\n";
const TWO: &str = "#define V 2\n";

#[rustfmt::skip]
const SPELLINGS: [Spelling; 10] = [
    spelling("absolute", "#include \"PACKAGE/elsewhere/absolute.cuh\"\n", "", "elsewhere/absolute.cuh"),
    spelling("option_i", "#include <i.cuh>\n", ".flag(\"-Ioption_i\")", "option_i/i.cuh"),
    spelling("option_path", "#include \"path.cuh\"\n", ".flag(\"--include-path=option_path\")", "option_path/path.cuh"),
    spelling("pre_include", "", ".flag(\"--pre-include=pre/pre.cuh\")", "pre/pre.cuh"),
    spelling("macro_name", "#define HEADER \"by_macro.cuh\"\n#include HEADER\n", "", "kernels/by_macro.cuh"),
    spelling("defined_name", "#include HEADER\n", ".define(\"HEADER\", \"\\\"by_define.cuh\\\"\")", "kernels/by_define.cuh"),
    spelling("next", "#include <nx.cuh>\n", ".include(\"next_a\").include(\"next_b\")", "next_b/nx.cuh"),
    spelling("digraph", "%:include \"digraph.cuh\"\n", "", "kernels/digraph.cuh"),
    spelling("spliced", "#inc\\\nlude /* why not */ \"spliced.cuh\"\n", "", "kernels/spliced.cuh"),
    spelling("nested", "#include \"deep/er/first.cuh\"\n", "", "kernels/deep/second.cuh"),
];

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: every spelling of an include, with every compiler"]
    fn headers_are_noticed_in_every_spelling() {
        for compiler in [Compiler::Nvrtc13, Compiler::Nvcc13] {
            let package = Package::new("spelling", compiler);
            package.write("next_a/nx.cuh", "#include_next <nx.cuh>\n");
            package.write("kernels/deep/er/first.cuh", "#include \"../second.cuh\"\n");
            for case in &SPELLINGS {
                let include = case
                    .source
                    .replace("PACKAGE", package.path.to_str().unwrap());
                let source = format!("{include}{}", kernel("V"));
                package.write(&format!("kernels/{}.cu", case.module), source);
                package.write(case.header, ONE);
            }
            let modules = SPELLINGS.each_ref().map(|case| (case.module, case.options));
            package.write_modules(compiler, &modules);
            let mut edits = Edits::of(&package);
            for case in &SPELLINGS {
                edits.changes(case.module, |package| package.write(case.header, TWO));
            }
            edits.finish();
        }
    }

    /// Headers that only the source's directory has, for another file or by `<…>`: nvcc does not find
    /// them, and NVRTC must not either, or the two engines would differ.
    #[test]
    fn every_engine_refuses_what_nvcc_does_not_find() {
        for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13, Compiler::Nvcc13] {
            let package = Package::new("refused", compiler);
            package.write("kernels/sub/s.cuh", "#include \"beside_source.cuh\"\n");
            package.write("kernels/beside_source.cuh", ONE);
            for include in ["\"sub/s.cuh\"", "<beside_source.cuh>"] {
                package.write(
                    "kernels/m.cu",
                    format!("#include {include}\n{}", kernel("V")),
                );
                package.write_modules(compiler, &[("m", "")]);
                let message = package.build().unwrap_err();
                let words = ["cannot open", "could not open", "No such file"];
                assert!(words.iter().any(|word| message.contains(word)), "{message}");
            }
        }
    }

    /// `linked/../x.cuh` and `x.cuh` are two files if `linked` is a link to another directory.
    #[test]
    fn a_parent_behind_a_link_is_another_file() {
        for compiler in [Compiler::Nvrtc13, Compiler::Nvcc13] {
            let package = Package::new("behind-link", compiler);
            package.write("kernels/x.cuh", "#define A 1\n");
            package.write("real/deep/y.cuh", "");
            package.write("real/x.cuh", "#define B 1\n");
            package.write("real/common.cuh", "#define C 1\n");
            package.write("real/deep/z.cuh", "#include \"../common.cuh\"\n");
            // A decoy: where the path leads if the link is not followed.
            package.write("kernels/common.cuh", "#define C 7\n");
            let link = package.path.join("kernels/linked");
            symlink(package.path.join("real/deep"), &link).unwrap();
            let source =
                "#include \"x.cuh\"\n#include \"linked/../x.cuh\"\n#include \"linked/z.cuh\"\n";
            let source = format!("{source}{}", kernel("A + 10 * B + 100 * C"));
            package.write("kernels/m.cu", source);
            package.write_modules(compiler, &[("m", "")]);
            let mut edits = Edits::of(&package);
            for (edit, file, text) in [
                ("the file behind the link", "real/x.cuh", "#define B 2\n"),
                ("the other file", "kernels/x.cuh", "#define A 2\n"),
                (
                    "named by a header behind the link",
                    "real/common.cuh",
                    "#define C 2\n",
                ),
            ] {
                edits.changes(edit, |package| package.write(file, text));
            }
            edits.changes("the link", |package| {
                package.write("other/deep/z.cuh", "#define C 5\n");
                package.write("other/x.cuh", "#define B 5\n");
                fs::remove_file(&link).unwrap();
                symlink(package.path.join("other/deep"), &link).unwrap();
            });
            edits.finish();
        }
    }

    fn new_and_deleted_files(compiler: Compiler) {
        let package = Package::new("shadow", compiler);
        let source = "#include <v.cuh>\n#include \"w.cuh\"\n#include \"../far/u.cuh\"\n\
                      #if __has_include(\"opt.cuh\")\n#define X 1\n#else\n#define X 2\n#endif\n\
                      #if __has_include(<far/opt.cuh>)\n#define Y 1\n#else\n#define Y 2\n#endif\n";
        let source = format!("{source}{}", kernel("U + V + 10 * W + 100 * X + 1000 * Y"));
        package.write("kernels/m.cu", source);
        package.write("inc1/unrelated.cuh", "");
        package.write("inc2/v.cuh", ONE);
        package.write("inc2/w.cuh", "#define W 1\n");
        package.write("inc3/inc4/unrelated.cuh", "");
        package.write("inc3/far/u.cuh", "#define U 1\n");
        // Cargo must not watch a directory with Cargo's own files.
        package.write("target/CACHEDIR.TAG", "");
        let directories = ["absent/deep", ".", "inc1", "inc2", "inc3/inc4"];
        let options = directories.map(|directory| format!(".include({directory:?})"));
        package.write_modules(compiler, &[("m", &options.concat())]);
        let delete = |path: &'static str| {
            move |package: &Package| match package.path.join(path) {
                directory if directory.is_dir() => fs::remove_dir_all(directory).unwrap(),
                file => fs::remove_file(file).unwrap(),
            }
        };
        let write = |path: &'static str, text: &'static str| {
            move |package: &Package| package.write(path, text)
        };
        let mut edits = Edits::of(&package);
        let searched = write("absent/deep/v.cuh", "#define V 3\n");
        edits.changes("a searched directory appears", searched);
        edits.changes("that directory disappears", delete("absent"));
        edits.changes("an old directory is moved to its place", |package| {
            package.write("old/deep/v.cuh", "#define V 4\n");
            let mut touch = Command::new("touch");
            touch.args(["-d", "2001-01-01", "old", "old/deep", "old/deep/v.cuh"]);
            assert!(touch.current_dir(&package.path).status().unwrap().success());
            fs::rename(package.path.join("old"), package.path.join("absent")).unwrap();
        });
        edits.changes("that directory disappears again", delete("absent"));
        let beside = write("far/u.cuh", "#define U 2\n");
        edits.changes("beside a directory that is searched", beside);
        edits.changes("in the package", write("v.cuh", "#define V 5\n"));
        edits.changes("no longer in the package", delete("v.cuh"));
        edits.changes("shadowed", write("inc1/v.cuh", TWO));
        let beside = write("kernels/w.cuh", "#define W 2\n");
        edits.changes("shadowed beside the source", beside);
        edits.changes("a file that a query names", write("inc1/opt.cuh", ""));
        edits.changes("in a new directory", write("inc2/far/opt.cuh", ""));
        for path in ["inc1/v.cuh", "kernels/w.cuh", "inc1/opt.cuh", "inc2/far"] {
            edits.changes(path, delete(path));
        }
        edits.finish();
        // What was looked for in vain is declared, and Cargo runs the script only if it appears.
        let mut cargo = package.command("cargo".as_ref());
        let output = cargo.args(["build", "-v", "--offline"]).output().unwrap();
        let stderr = succeeded(output).unwrap().stderr;
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(stderr.contains("Fresh shadow"), "{stderr}");
    }

    #[test]
    fn nvrtc_new_files_shadow_headers() {
        new_and_deleted_files(Compiler::Nvrtc13);
    }

    #[test]
    fn nvcc_new_files_shadow_headers() {
        new_and_deleted_files(Compiler::Nvcc13);
    }

    /// Cargo has to run the script after an edit of a file that such a step reads.
    #[test]
    fn a_step_that_is_never_up_to_date_is_noticed() {
        let package = Package::new("unknown-option", Compiler::Nvcc13);
        package.write(
            "kernels/m.cu",
            format!("#include \"v.cuh\"\n{}", kernel("V")),
        );
        package.write("kernels/v.cuh", ONE);
        package.write("options.txt", "-DD=1");
        let option = ".flag(\"--options-file=options.txt\")";
        package.write_modules(Compiler::Nvcc13, &[("m", option)]);
        let mut edits = Edits::of(&package);
        edits.changes("a header", |package| package.write("kernels/v.cuh", TWO));
        edits.changes("the source", |package| {
            package.write("kernels/m.cu", kernel("3"));
        });
        edits.finish();
    }

    /// `include` and `-I` alike: the package's header, never one that stands in for a system header.
    #[test]
    fn nvrtc_takes_the_packages_own_system_headers() {
        let package = Package::new("own-system-header", Compiler::Nvrtc13);
        let cases = [
            ("by_method", "float.h", ".include(\"own_by_method\")"),
            ("by_option", "math.h", ".flag(\"-Iown_by_option\")"),
        ];
        for (module, header, _) in cases {
            let source = "extern \"C\" __device__ const char mark[] = MARK;\n";
            let source = format!("#include <{header}>\n{source}");
            package.write(&format!("kernels/{module}.cu"), source);
            let text = format!("#define MARK \"the package's {header}\"\n");
            package.write(&format!("own_{module}/{header}"), text);
        }
        let modules = cases.map(|(module, _, options)| (module, options));
        package.write_modules(Compiler::Nvrtc13, &modules);
        let outputs = package.build().unwrap();
        for (module, header, _) in cases {
            let text = format!("the package's {header}");
            assert!(
                holds(&outputs[&format!("{module}.fatbin")], &text),
                "{text}"
            );
        }
    }

    /// NVRTC reads names from the process's directory without any option.
    #[test]
    fn nvrtc_headers_of_the_current_directory_are_noticed() {
        let package = Package::new("current-directory", Compiler::Nvrtc13);
        package.write("in_package.cuh", "");
        package.write("kernels/m.cu", kernel("1"));
        package.write_modules(Compiler::Nvrtc13, &[("m", "")]);
        package.build().unwrap();
        for name in ["\"in_package.cuh\"", "<in_package.cuh>"] {
            // Found or not found: a fresh build decides.
            package.write("kernels/m.cu", format!("#include {name}\n{}", kernel("V")));
            for value in 1..3 {
                package.write("in_package.cuh", format!("#define V {value}\n"));
                package.compare().unwrap();
            }
        }
    }
}

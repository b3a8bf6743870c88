//! Which source and header an output is made from, and what it contains of their paths.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::package::{Compiler, Edits, Package, holds, kernel, script_outputs, succeeded};

fn copied_with_its_outputs(compiler: Compiler) {
    let package = Package::new("copied", compiler);
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    package.build().unwrap();
    // A checkout with what was built in it, as layers of images and caches of build machines have
    // them; the first one stays.
    let (first, second) = (package.place.join("first"), package.place.join("second"));
    fs::create_dir_all(first.join("out")).unwrap();
    let copy = |from: &Path, to: &Path| {
        succeeded(
            Command::new("cp")
                .arg("-a")
                .args([from, to])
                .output()
                .unwrap(),
        )
        .unwrap();
    };
    copy(&package.path, &first.join("app"));
    let build = |place: &Path| {
        let mut script = package.script_in(&place.join("app"), &place.join("out"));
        let printed = succeeded(script.output().unwrap()).unwrap().stdout;
        (
            script_outputs(&place.join("out")),
            String::from_utf8(printed).unwrap(),
        )
    };
    let (one, _) = build(&first);
    copy(&first, &second);
    fs::write(second.join("app/kernels/m.cu"), kernel("2")).unwrap();
    let (two, printed) = build(&second);
    assert!(
        one != two,
        "the copy's source is not the one that was compiled"
    );
    let first = format!("{}/", first.display());
    assert!(
        !printed.contains(&first),
        "the copy depends on the original:\n{printed}"
    );
}

fn another_source_for_one_output(compiler: Compiler) {
    let package = Package::new("other-source", compiler);
    package.write("kernels/v1/m.cu", kernel("1"));
    package.write("kernels/v2/m.cu", kernel("2"));
    package.write("kernels/other.cu", kernel("3"));
    let engine = compiler.engine();
    let module = |path: &str| {
        format!(".module(Module::new({path:?}).named(\"m\").engine(Engine::{engine}))")
    };
    package.write_script(&module("kernels/v1/m.cu"));
    package.write_program(&["m"], &[]);
    let mut edits = Edits::of(&package);
    edits.changes("moved", |p| p.write_script(&module("kernels/v2/m.cu")));
    edits.changes("named", |p| p.write_script(&module("kernels/other.cu")));
    edits.changes("and back", |p| p.write_script(&module("kernels/v1/m.cu")));
    edits.finish();
}

/// Two checkouts give the same bytes, which do not hold the directory they were made in.
fn no_paths(compiler: Compiler) {
    let package = Package::new("no-paths", compiler);
    package.write(
        "inc/in_directory.cuh",
        "__device__ const char *in_directory() { return __FILE__; }\n",
    );
    package.write(
        "kernels/beside.cuh",
        "__device__ const char *beside() { return __FILE__; }\n",
    );
    let source = "#include <in_directory.cuh>\n#include \"beside.cuh\"\n\
                  extern \"C\" __global__ void k(const char **x) { x[0] = in_directory(); x[1] = beside(); x[2] = __FILE__; }\n";
    package.write("kernels/m.cu", source);
    package.write_modules(compiler, &[("m", ".include(\"inc\")")]);
    let outputs = package.build().unwrap();
    assert!(
        holds(&outputs["m.fatbin"], "in_directory.cuh"),
        "the file's name is not in the code"
    );
    let place = package.place.display().to_string();
    assert!(
        !holds(&outputs["m.fatbin"], place),
        "the directory is in the code"
    );
    let other = package.place.join("a longer name/app");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args([&package.path, &other])
        .output();
    succeeded(copied.unwrap()).unwrap();
    let out = package.place.join("other-out");
    fs::create_dir(&out).unwrap();
    succeeded(package.script_in(&other, &out).output().unwrap()).unwrap();
    assert!(
        script_outputs(&out) == outputs,
        "other bytes in another directory"
    );
}

fn bytes_of_a_source() {
    for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13] {
        let package = Package::new("bytes", compiler);
        let mut source = b"\xef\xbb\xbf#include \"v.cuh\"\n".to_vec();
        source.extend_from_slice(kernel("V").as_bytes());
        package.write("kernels/marked.cu", source);
        package.write("kernels/v.cuh", "#define V 1\n");
        let latin = b"extern \"C\" __device__ const char mark[] = \"caf\xe9 au lait\";\n";
        package.write("kernels/latin.cu", kernel("1"));
        package.write_modules(compiler, &[("marked", ""), ("latin", "")]);
        package
            .build()
            .unwrap_or_else(|error| panic!("a byte order mark: {error}"));
        package.write("kernels/latin.cu", latin);
        // Refused or kept, never replaced.
        match package.build() {
            Ok(outputs) => assert!(holds(&outputs["latin.fatbin"], b"caf\xe9 au lait")),
            Err(message) => assert!(message.contains("latin.cu"), "{message}"),
        }
    }
}

mod online {
    use super::*;

    #[test]
    fn a_copied_checkout_compiles_its_own_sources() {
        copied_with_its_outputs(Compiler::Nvrtc13);
    }

    #[test]
    fn nvrtc_compiles_the_source_that_the_script_names() {
        another_source_for_one_output(Compiler::Nvrtc13);
        bytes_of_a_source();
    }

    #[test]
    fn outputs_do_not_hold_the_packages_path() {
        no_paths(Compiler::Nvrtc13);
        no_paths(Compiler::Nvcc13);
    }

    #[test]
    #[ignore = "minutes: nvcc with other sources and edited headers"]
    fn nvcc_compiles_the_source_that_the_script_names() {
        copied_with_its_outputs(Compiler::Nvcc13);
        another_source_for_one_output(Compiler::Nvcc13);
    }
}

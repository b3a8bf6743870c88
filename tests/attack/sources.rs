//! Which source an output is made from.

use std::fs;
use std::process::Command;

use crate::package::{Compiler, Edits, Package, holds, kernel, script_outputs, succeeded};

fn copied_with_its_outputs(compiler: Compiler) {
    let Some(package) = Package::new("copied", compiler) else {
        return;
    };
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    package.build().unwrap();
    // A checkout with what was built in it, as layers of images and caches of build machines have
    // them; the first one stays.
    let (first, second) = (package.place.join("first"), package.place.join("second"));
    fs::create_dir_all(first.join("out")).unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
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
    let build = |place: &std::path::Path| {
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

#[test]
fn nvrtc_a_copied_checkout_compiles_its_own_sources() {
    copied_with_its_outputs(Compiler::Nvrtc13);
}

#[test]
fn nvcc_a_copied_checkout_compiles_its_own_sources() {
    copied_with_its_outputs(Compiler::Nvcc13);
}

fn two_checkouts_of_one_target_directory(compiler: Compiler) {
    let Some(mut package) = Package::new("worktrees", compiler) else {
        return;
    };
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    let one = package.build().unwrap();
    let first = package.path.clone();
    package.path = package.place.join("second");
    fs::create_dir(&package.path).unwrap();
    for file in ["Cargo.toml", "Cargo.lock", "build.rs", "src/main.rs"] {
        package.write(file, fs::read(first.join(file)).unwrap());
    }
    package.write("kernels/m.cu", kernel("2"));
    let two = package.compare().unwrap().unwrap();
    assert!(
        one != two,
        "the second checkout's source is not the one that was compiled"
    );
    package.path = first;
    assert!(package.compare().unwrap().unwrap() == one);
}

#[test]
fn nvrtc_two_checkouts_share_a_target_directory() {
    two_checkouts_of_one_target_directory(Compiler::Nvrtc13);
}

#[test]
fn nvcc_two_checkouts_share_a_target_directory() {
    two_checkouts_of_one_target_directory(Compiler::Nvcc13);
}

fn another_source_for_one_output(compiler: Compiler) {
    let Some(package) = Package::new("other-source", compiler) else {
        return;
    };
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

#[test]
fn nvrtc_another_source_for_one_output_is_compiled() {
    another_source_for_one_output(Compiler::Nvrtc13);
}

#[test]
fn nvcc_another_source_for_one_output_is_compiled() {
    another_source_for_one_output(Compiler::Nvcc13);
}

#[test]
fn sources_of_similar_names_do_not_share_an_object() {
    let Some(package) = Package::new("similar-names", Compiler::Nvcc13) else {
        return;
    };
    let libraries: [(&str, &[&str]); 3] = [
        (
            "x",
            &[
                "kernels/a/b.cu",
                "kernels/a-b.cu",
                "d.cu",
                "../d.cu",
                "y-a.cu",
            ],
        ),
        ("x-y", &["a.cu"]),
        ("x-", &["y/a.cu"]),
    ];
    let (mut calls, mut functions, mut number) = (String::new(), Vec::new(), 0);
    for (library, sources) in libraries {
        calls += &format!(".library(Library::new({library:?})");
        for source in sources {
            number += 1;
            calls += &format!(".file({source:?})");
            functions.push(format!("value_{number}"));
            let text = format!("extern \"C\" int value_{number}() {{ return {number}; }}\n");
            package.write(source, text);
        }
        calls += ")";
    }
    package.write_script(&calls);
    let names: Vec<&str> = functions.iter().map(String::as_str).collect();
    package.write_program(&[], &names);
    let outputs = package.build().unwrap();
    for (index, function) in functions.iter().enumerate() {
        assert_eq!(
            outputs[function],
            (index + 1).to_string().as_bytes(),
            "{function}"
        );
    }
}

#[test]
fn two_modules_of_one_name_are_refused() {
    let Some(package) = Package::new("one-name", Compiler::Nvrtc13) else {
        return;
    };
    let sources = ["kernels/v1/m.cu", "kernels/v2/m.cu"];
    sources
        .iter()
        .for_each(|source| package.write(source, kernel("1")));
    package.write_script(&format!(
        ".module({:?}).module({:?})",
        sources[0], sources[1]
    ));
    package.write_program(&["m"], &[]);
    let message = package.build().unwrap_err();
    for source in sources {
        assert!(message.contains(source), "{source} is not named: {message}");
    }
    assert!(!message.contains("E0428"), "rustc reports it: {message}");
}

#[test]
fn nvrtc_compiles_the_bytes_of_a_source() {
    for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13] {
        let Some(package) = Package::new("bytes", compiler) else {
            return;
        };
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

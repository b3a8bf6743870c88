//! Programs that `cargo cuda run` and `test` start find the libraries that build scripts have made,
//! as under plain cargo.

use crate::project::Project;
use crate::support::Finished;

/// A library that lies in a directory below `OUT_DIR`, and a stub that must not be loaded.
const SCRIPT: &str = r#"
use std::{env, fs, path::PathBuf, process::Command};

fn shared(directory: &PathBuf, name: &str, source: &str) {
    fs::create_dir_all(directory).unwrap();
    let file = directory.join("source.c");
    fs::write(&file, source).unwrap();
    let library = directory.join(format!("lib{name}.so.3"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", &format!("-Wl,-soname,lib{name}.so.3"), "-o"]).arg(&library).arg(&file);
    assert!(gcc.status().unwrap().success());
    let _ = std::os::unix::fs::symlink(&library, directory.join(format!("lib{name}.so")));
}

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let a = env::var("CARGO_FEATURE_A").is_ok();
    shared(&out.join("made/lib"), "answer", if a { "int answer(void) { return 43; }" } else { "int answer(void) { return 42; }" });
    fs::create_dir_all(out.join("stubs")).unwrap();
    println!("cargo::rustc-link-search=native={}", out.join("made/lib").display());
    println!("cargo::rustc-link-search=native={}", out.join("stubs").display());
    println!("cargo::rustc-link-lib=dylib=answer");
}
"#;

const MAIN: &str = r#"
unsafe extern "C" {
    fn answer() -> i32;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{} {arguments:?} {}", unsafe { answer() }, std::env::var("CUDA_HOME").is_ok());
    println!("{}", std::env::var("LD_LIBRARY_PATH").unwrap());
    std::process::exit(7);
}

#[test]
fn from_a_test() {
    assert_eq!(unsafe { answer() }, 42);
}
"#;

#[test]
fn libraries_that_a_build_script_made_are_on_the_loader_path() {
    let Some(project) = Project::new("made-library", &[13], "", SCRIPT, MAIN) else {
        return;
    };
    let run = project.run(&[
        "run",
        "--capabilities",
        "8.0",
        "--",
        "a b",
        "--capabilities",
    ]);
    assert_eq!(run.code, 7, "the program's own exit code: {run:?}");
    let (first, path) = run.stdout.split_once('\n').unwrap();
    assert_eq!(first, "42 [\"a b\", \"--capabilities\"] true", "{run:?}");
    let directories: Vec<_> = std::env::split_paths(path.trim_end()).collect();
    let made = |directory: &std::path::PathBuf| directory.ends_with("out/made/lib");
    assert!(directories.iter().any(made), "{run:?}");
    project.run(&["test", "--capabilities", "8.0"]).succeeded();
}

const MANIFEST: &str = r#"[package]
name = "made"
version = "0.1.0"
edition = "2024"

[features]
a = []

[workspace]
"#;

/// A crate with nothing to compile below it, whose library is another one with the feature `a`.
fn with_feature(name: &str) -> Option<Project> {
    let project = Project::bare(name, &[13])?;
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", MAIN);
    Some(project)
}

/// The answer that a program that was run printed.
fn answer(run: &Finished) -> &str {
    assert_eq!(run.code, 7, "{run:?}");
    run.stdout.split(' ').next().unwrap()
}

#[test]
fn a_program_gets_the_libraries_that_it_was_linked_with() {
    let Some(project) = with_feature("features") else {
        return;
    };
    for (arguments, expected) in [
        (&["run"][..], "42"),
        (&["run", "--features", "a"], "43"),
        (&["run"], "42"),
    ] {
        let run = project.run(arguments);
        assert_eq!(answer(&run), expected, "{run:?}");
    }
}

#[test]
fn profile_and_triple_are_those_that_cargo_has() {
    let Some(project) = with_feature("profiles") else {
        return;
    };
    // Cargo's short options in one, and the program's own that looks like one of cargo's.
    let release = project.run(&["run", "-qr", "x", "--profile=dev"]);
    assert_eq!(answer(&release), "42", "{release:?}");
    assert!(
        release.stdout.contains("/release/build/made-"),
        "{release:?}"
    );
    let debug = project.run(&["run", "x", "--release"]);
    assert!(debug.stdout.contains("/debug/build/made-"), "{debug:?}");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let configured = project.run(&["run", "--config", &format!("build.target='{triple}'")]);
    assert_eq!(answer(&configured), "42", "{configured:?}");
    assert!(
        configured
            .stdout
            .contains(&format!("/{triple}/debug/build/made-")),
        "{configured:?}"
    );
    let mut named = project.command(&["test", "-q"]);
    Finished::of(named.env("CARGO_BUILD_TARGET", &triple).output().unwrap()).succeeded();
}

#[test]
fn a_directory_may_have_braces_in_its_name() {
    let Some(project) = Project::bare_at("braces", "a {project}", &[13]) else {
        return;
    };
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", MAIN);
    let run = project.run(&["run", "-q", "x", "--target-dir", "y"]);
    assert_eq!(answer(&run), "42", "{run:?}");
    let first = "42 [\"x\", \"--target-dir\", \"y\"]";
    assert!(run.stdout.starts_with(first), "{run:?}");
}

/// rustc itself reads static libraries, and Cargo takes flags from one place and ignores the
/// others.
#[test]
fn static_libraries_are_found_beside_flags_of_the_user() {
    let Some(project) = Project::bare_at("static-flags", "plain", &[13]) else {
        return;
    };
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let manifest = MANIFEST.replace(
        "[features]\na = []",
        "[dependencies]\nsys = { path = \"sys\" }",
    );
    project.write("Cargo.toml", &manifest);
    project.write(
        "src/main.rs",
        "fn main() { assert!(cfg!(own)); unsafe { sys::cudaRuntimeGetVersion(&mut 0); } }",
    );
    let manifest = "[package]\nname = \"sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    project.write("sys/Cargo.toml", manifest);
    project.write(
        "sys/src/lib.rs",
        "#[link(name = \"cudart_static\", kind = \"static\")]\n#[link(name = \"rt\")]\n#[link(name = \"dl\")]\n\
         unsafe extern \"C\" { pub fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n",
    );
    for configuration in [
        "[build]\nrustflags = '--cfg=own'\n".to_owned(),
        format!("[target.{triple}]\nrustflags = ['--cfg=own']\n"),
    ] {
        project.write(".cargo/config.toml", &configuration);
        project.run(&["run"]).succeeded();
    }
    project.write(".cargo/config.toml", "");
    let mut run = project.command(&["run"]);
    Finished::of(run.env("RUSTFLAGS", "--cfg own").output().unwrap()).succeeded();

    // A wrapper of the user's own stays the only one.
    project.write("wrapper", "#!/bin/sh\necho >> wrapped\nexec \"$@\"\n");
    let wrapper = project.path.join("wrapper");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&wrapper, mode).unwrap();
    let mut build = project.command(&["build"]);
    let build = Finished::of(build.env("RUSTC_WRAPPER", &wrapper).output().unwrap());
    build.failed(
        101,
        &["could not find native static library `cudart_static`"],
    );
    assert!(project.path.join("wrapped").exists());
}

#[test]
fn a_program_that_needs_the_driver_is_named() {
    let has_driver = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib/wsl/lib",
    ];
    let mut has_driver = has_driver.iter().map(std::path::Path::new);
    if has_driver.any(|directory| directory.join("libcuda.so.1").exists()) {
        return crate::support::left_out("libcuda.so.1");
    }
    let Some(project) = Project::bare("no-driver", &[13]) else {
        return;
    };
    project.write("Cargo.toml", MANIFEST);
    let script = "fn main() { println!(\"cargo::rustc-link-lib=dylib=cuda\"); }\n";
    project.write("build.rs", script);
    let program = "unsafe extern \"C\" { fn cuInit(flags: u32) -> u32; }\n\
                   fn main() { unsafe { cuInit(0) }; }\n#[test]\nfn test() { main() }\n";
    project.write("src/main.rs", program);
    let reason =
        "`made` links the library of NVIDIA's driver, libcuda.so.1, and this machine has no driver";
    for (command, code) in [("run", 127), ("test", 127)] {
        let run = project.run(&[command]);
        run.ended_with(code, &[reason, "hint: to run tests that need no GPU"]);
    }
    // Another failure has no such note, although the old program is still there.
    project.write("build.rs", "fn main() {}\n");
    for (program, code) in [
        ("fn main() { std::process::exit(3) }\n", 3),
        ("fn main() { panic!() }\n", 101),
        ("fn main() { not Rust }\n", 101),
    ] {
        project.write("src/main.rs", program);
        let run = project.run(&["run"]);
        assert_eq!(run.code, code, "{run:?}");
        assert!(!run.stderr.contains("libcuda"), "{run:?}");
    }
}

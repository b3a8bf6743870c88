//! What `cargo cuda run` and `test` start finds the libraries that build scripts have made, as
//! under plain cargo, also where the build has a directory of its own.

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
    // It reads CUDA_HOME, so its build is one of its own.
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
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
    assert!(directories[0].ends_with("out/made/lib"), "{run:?}");
    // Before 1.91 Cargo itself puts whatever a script names below its target directory there.
    let by_cargo = run.stderr.contains("what is built goes to");
    assert!(
        by_cargo
            || directories
                .iter()
                .all(|directory| !directory.ends_with("stubs")),
        "{run:?}"
    );
    project.run(&["test", "--capabilities", "8.0"]).succeeded();

    // Who has a program between cargo and what it runs keeps it.
    let key = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER",
        std::env::consts::ARCH.to_uppercase()
    );
    let mut own = project.command(&["run", "--capabilities", "8.0"]);
    let own = Finished::of(own.env(key, "echo").output().unwrap());
    own.succeeded();
    assert!(own.stdout.contains("debug/made-library"), "{own:?}");
}

const MANIFEST: &str = r#"[package]
name = "made"
version = "0.1.0"
edition = "2024"

[features]
a = []

[workspace]
"#;

/// A crate with nothing to compile below it, built apart, whose library is another one with the
/// feature `a`.
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
    let again = project.run(&["run"]);
    assert!(
        !again.stderr.contains("note: the build script"),
        "one run before the program: {again:?}"
    );

    // Linked again after both: which of them is its own is not to be seen any more.
    project.write("src/main.rs", &MAIN.replace("exit(7)", "exit(8)"));
    let unclear = project.run(&["run"]);
    assert_eq!(unclear.code, 8, "{unclear:?}");
    // A cargo that can't be told another build directory knows.
    let knows = unclear.stderr.contains("note: what is built goes to");
    assert!(
        knows
            || unclear
                .stderr
                .contains("the build script of made has run for 2 variants"),
        "{unclear:?}"
    );
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
fn a_runner_of_the_users_stays() {
    let Some(project) = with_feature("configured") else {
        return;
    };
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // A runner of the command line's.
    let runner = format!("target.{triple}.runner='echo'");
    for arguments in [
        ["run", "--config", &runner],
        ["run", "--config", "own.toml"],
    ] {
        project.write(
            "own.toml",
            &format!("[target.{triple}]\nrunner = ['echo']\n"),
        );
        let run = project.run(&arguments);
        run.succeeded();
        assert!(run.stdout.contains("debug/made"), "{run:?}");
    }
}

/// Cargo takes them for a template, and refuses.
#[test]
fn a_directory_may_have_braces_in_its_name() {
    let Some(project) = Project::bare_at("braces", "a {project}", &[13]) else {
        return;
    };
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", MAIN);
    let run = project.run(&[
        "run",
        "-q",
        "--target-dir",
        "elsewhere",
        "x",
        "--target-dir",
        "y",
    ]);
    assert_eq!(answer(&run), "42", "{run:?}");
    assert!(
        run.stdout
            .starts_with("42 [\"x\", \"--target-dir\", \"y\"]"),
        "{run:?}"
    );
    assert!(
        run.stderr.contains("note: what is built goes to "),
        "{run:?}"
    );
    // A shell's cargo is not told what it would refuse.
    let env = project.run(&["env"]);
    env.succeeded();
    assert!(!env.stdout.contains("CARGO_BUILD_BUILD_DIR"), "{env:?}");
}

/// Cargo joins lists of flags with lists alone, and takes one string for another.
#[test]
fn flags_that_are_a_string_stay_and_get_ours() {
    let with_blank = Project::bare("flags", &[13]);
    let (Some(with_blank), Some(plain)) =
        (with_blank, Project::bare_at("flags-plain", "plain", &[13]))
    else {
        return;
    };
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    for (place, includes) in [(&with_blank, false), (&plain, false), (&plain, true)] {
        place.write("Cargo.toml", &MANIFEST.replace("a = []", ""));
        place.write(
            "build.rs",
            "fn main() { println!(\"cargo::rerun-if-env-changed=CUDA_HOME\"); }",
        );
        place.write("src/main.rs", "fn main() { assert!(cfg!(own)); }");
        for (name, table) in [
            ("target", format!("target.{triple}")),
            ("build", "build".to_owned()),
        ] {
            let text = format!("[{table}]\nrustflags = '--cfg=own --cfg=in_{name}_{includes}'\n");
            place.write(".cargo/included.toml", &text);
            let includes = if includes {
                "include = ['included.toml']\n"
            } else {
                &text
            };
            place.write(".cargo/config.toml", includes);
            let run = place.run(&["run", "-v"]);
            run.succeeded();
            let is_plain = std::ptr::eq(place, &plain);
            assert_eq!(run.stderr.contains(" -Lnative="), is_plain, "{run:?}");
            assert_eq!(
                run.stderr
                    .contains("is a string, in which no path with blanks"),
                !is_plain,
                "{run:?}"
            );
        }
    }
    // In a shell as well.
    let key = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        triple.to_uppercase().replace('-', "_")
    );
    let mut env = plain.command(&["env"]);
    let env = Finished::of(env.env(&key, "--cfg=mine").output().unwrap());
    env.succeeded();
    assert!(
        env.stdout.contains(&format!("{key}='--cfg=mine -Lnative=")),
        "{env:?}"
    );
}

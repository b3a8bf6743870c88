//! Programs that `cargo cuda run` and `test` start: their arguments, and the libraries that they find.

use crate::project::Project;
use crate::support::Finished;

/// A library that lies in a directory below `OUT_DIR`.
const SCRIPT: &str = r#"
use std::{env, fs, path::PathBuf, process::Command};

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let answer = if env::var("CARGO_FEATURE_A").is_ok() { 43 } else { 42 };
    let directory = out.join("made/lib");
    fs::create_dir_all(&directory).unwrap();
    let source = directory.join("source.c");
    fs::write(&source, format!("int answer(void) {{ return {answer}; }}")).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-Wl,-soname,libanswer.so.3", "-o"]).arg(directory.join("libanswer.so.3")).arg(source);
    assert!(gcc.status().unwrap().success());
    let _ = std::os::unix::fs::symlink("libanswer.so.3", directory.join("libanswer.so"));
    println!("cargo::rustc-link-search=native={}", directory.display());
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

const MANIFEST: &str = r#"[package]
name = "made"
version = "0.1.0"
edition = "2024"

[features]
a = []

[workspace]
"#;

mod online {
    use super::*;

    #[test]
    fn a_program_gets_its_arguments_and_the_libraries_of_build_scripts() {
        let project = Project::bare("features", &[13]);
        project.write("Cargo.toml", MANIFEST);
        project.write("build.rs", SCRIPT);
        project.write("src/main.rs", MAIN);
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let configured = format!("build.target='{triple}'");
        let of_target = format!("/{triple}/debug/");
        for (arguments, expected, directory) in [
            (
                &["run", "--cuda", "13", "--", "a b", "--cuda"][..],
                "42 [\"a b\", \"--cuda\"] true",
                "/debug/",
            ),
            (&["run", "--features", "a"], "43 [] true", "/debug/"),
            // Cargo's short options in one, and the program's own that looks like one of cargo's.
            (
                &["run", "-qr", "x", "--profile=dev"],
                "42 [\"x\", \"--profile=dev\"] true",
                "/release/",
            ),
            (&["run", "--config", &configured], "42 [] true", &of_target),
        ] {
            let run = project.run(arguments);
            assert_eq!(run.code, 7, "the program's own exit code: {run:?}");
            let (first, path) = run.stdout.split_once('\n').unwrap();
            assert_eq!(first, expected, "{run:?}");
            let mut directories = std::env::split_paths(path.trim_end());
            let made = directories.find(|path| path.ends_with("made/lib"));
            let made = made.unwrap().into_os_string().into_string().unwrap();
            assert!(made.contains(directory), "{made}");
        }
        let mut named = project.command(&["test", "-q"]);
        Finished::of(named.env("CARGO_BUILD_TARGET", &triple).output().unwrap()).succeeded();
    }

    /// rustc itself reads static libraries, and Cargo takes flags from one place and ignores the others.
    #[test]
    fn static_libraries_are_found_beside_flags_of_the_user() {
        let project = Project::bare_at("static-flags", "plain", &[13]);
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let dependency = "[dependencies]\nsys = { path = \"sys\" }";
        let manifest = MANIFEST.replace("[features]\na = []", dependency);
        project.write("Cargo.toml", &manifest);
        let main =
            "fn main() { assert!(cfg!(own)); unsafe { sys::cudaRuntimeGetVersion(&mut 0); } }";
        project.write("src/main.rs", main);
        let manifest = "[package]\nname = \"sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        project.write("sys/Cargo.toml", manifest);
        let links = "#[link(name = \"cudart_static\", kind = \"static\")]\n\
                     #[link(name = \"rt\")]\n#[link(name = \"dl\")]\n\
                     unsafe extern \"C\" { pub fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n";
        project.write("sys/src/lib.rs", links);
        for configuration in [
            "[build]\nrustflags = '--cfg=own'\n".to_owned(),
            format!("[target.{triple}]\nrustflags = ['--cfg=own']\n"),
        ] {
            project.write(".cargo/config.toml", &configuration);
            project.run(&["run"]).succeeded();
        }
        project.write(".cargo/config.toml", "");
        project.write("wrapper", "#!/bin/sh\necho >> wrapped\nexec \"$@\"\n");
        let wrapper = project.path.join("wrapper");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&wrapper, mode).unwrap();
        let mut run = project.command(&["run"]);
        run.env("RUSTFLAGS", "--cfg own")
            .env("RUSTC_WRAPPER", &wrapper);
        Finished::of(run.output().unwrap()).succeeded();
        assert!(project.path.join("wrapped").exists());
    }
}

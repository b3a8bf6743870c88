//! Shells that were given the variables, once and again, and plain cargo in them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::components::site_packages;
use crate::project::{Project, store};
use crate::support::Finished;

/// This program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-cuda");

/// A program of its own that the build is apart for, because its script speaks of CUDA_HOME.
const MANIFEST: &str =
    "[package]\nname = \"shells\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const SCRIPT: &str = "fn main() { println!(\"cargo::rerun-if-env-changed=CUDA_HOME\"); }\n";

fn project(name: &str, main: &str) -> Option<Project> {
    let project = Project::bare_at(name, "plain", &[12, 13])?;
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", main);
    Some(project)
}

/// The variables that a shell has after a script, those aside that each shell changes by itself.
fn after(
    shell: &str,
    script: &str,
    project: &Project,
    own: &[(&str, &Path)],
) -> BTreeMap<String, String> {
    let mut command = Command::new(shell);
    command.args(["-c", &format!("{script}\nenv -0")]);
    project.prepare(&mut command);
    command
        .env_remove("PKG_CONFIG_PATH")
        .env_remove("LIBRARY_PATH")
        .env_remove("CUDA_BUILD_VIEWS");
    let output = Finished::of(command.envs(own.iter().copied()).output().unwrap());
    output.succeeded();
    let variables = output
        .stdout
        .split('\0')
        .filter_map(|line| line.split_once('='));
    let ours = variables.filter(|(name, _)| !["_", "SHLVL", "PWD", "OLDPWD"].contains(name));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn a_shell_that_is_given_variables_again_has_nothing_of_the_first() {
    let Some(project) = project("again", "fn main() {}\n") else {
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let (workspace, nowhere) = (project.path.display(), outside.path().display());
    let root = site_packages(13).unwrap().join("nvidia/cu13");
    let mut own: Vec<(&str, &Path)> = vec![
        ("CARGO_BUILD_RUSTFLAGS", Path::new("--cfg mine")),
        ("PKG_CONFIG_PATH", Path::new("/own/pkgconfig")),
        ("LD_LIBRARY_PATH", Path::new("/own/lib")),
    ];
    for shell in ["bash", "sh", "fish"] {
        if shell == "fish" && Command::new(shell).arg("--version").output().is_err() {
            let _ = writeln!(std::io::stderr(), "left out: fish is not there");
            continue;
        }
        let env = |place: &dyn std::fmt::Display, arguments: &str| match shell {
            "fish" => {
                format!("cd '{place}'; '{PROGRAM}' cuda env --shell fish {arguments} | source\n")
            }
            _ => format!("cd '{place}'; eval \"$('{PROGRAM}' cuda env {arguments})\"\n"),
        };
        let plain = env(&nowhere, "");
        let same = |script: &str, single: &str, own: &[(&str, &Path)]| {
            let single = after(shell, single, &project, own);
            assert!(
                single["CUDA_BUILD_ENVIRONMENT"].contains("CUDA_HOME"),
                "{single:?}"
            );
            assert_eq!(
                after(shell, script, &project, own),
                single,
                "{shell}: {script}"
            );
        };
        same(
            &(plain.clone() + &env(&nowhere, "--major 12") + &plain),
            &plain,
            &own,
        );
        same(
            &(plain.clone() + &env(&nowhere, "--major 12")),
            &env(&nowhere, "--major 12"),
            &own,
        );
        same(
            &(env(&nowhere, "--capabilities 8.0") + &plain),
            &plain,
            &own,
        );
        same(
            &(env(&workspace, "--capabilities 9.0") + &plain),
            &plain,
            &own,
        );
        same(
            &(plain.clone() + &env(&workspace, "")),
            &env(&workspace, ""),
            &own,
        );
        own.push(("CUDA_ROOT", &root));
        same(&(env(&workspace, "") + &plain), &plain, &own);
        own.pop();
    }
    // What the first call sets for this is really there, and the second takes it away.
    let capabilities = format!(
        "cd '{nowhere}'; eval \"$('{PROGRAM}' cuda env --capabilities 8.0)\"\n'{PROGRAM}' cuda env"
    );
    let output = Finished::of(bash(&project, &capabilities).output().unwrap());
    output.succeeded();
    for name in ["CUDA_BUILD_CAPABILITIES", "CUDAARCHS", "CUDA_COMPUTE_CAP"] {
        assert!(
            output
                .stdout
                .lines()
                .any(|line| line == format!("unset {name}")),
            "{output:?}"
        );
    }
    // What was set since is the user's.
    let since = capabilities.replace(")\"\n", ")\"\nexport CUDA_BUILD_CAPABILITIES=9.0\n");
    let output = Finished::of(bash(&project, &since).output().unwrap());
    assert!(
        output.stdout.contains("export CUDAARCHS='90-real'"),
        "{output:?}"
    );
    assert!(
        !output.stdout.contains("unset CUDA_BUILD_CAPABILITIES"),
        "{output:?}"
    );
    let json = Finished::of(
        bash(&project, &format!("{capabilities} --shell json"))
            .output()
            .unwrap(),
    )
    .json();
    let variables = json["variables"].as_array().unwrap();
    let gone = variables
        .iter()
        .find(|variable| variable["name"] == "CUDAARCHS")
        .unwrap();
    assert!(gone["value"].is_null(), "{gone}");
}

fn bash(project: &Project, script: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]);
    project.prepare(&mut bash);
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "PKG_CONFIG_PATH",
    ] {
        bash.env_remove(name);
    }
    bash
}

#[test]
fn flags_of_the_users_stay_in_a_shell() {
    let main = "fn main() { println!(\"{} {}\", cfg!(mine), cfg!(later)); }\n";
    let Some(project) = project("shell-flags", main) else {
        return;
    };
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        triple.to_uppercase().replace('-', "_")
    );
    let eval = format!("eval \"$('{PROGRAM}' cuda env)\"");
    // With plain cargo, and with ours under it: the search directory is there, and the flags are.
    for (name, value) in [
        ("CARGO_BUILD_RUSTFLAGS", "--cfg mine"),
        (&target, "--cfg mine"),
        ("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}mine"),
        ("RUSTFLAGS", "--cfg mine"),
    ] {
        let script = format!(
            "{eval}; touch src/main.rs; cargo run -v && touch src/main.rs && '{PROGRAM}' cuda run -v"
        );
        let run = Finished::of(bash(&project, &script).env(name, value).output().unwrap());
        run.succeeded();
        assert_eq!(run.stdout, "true false\ntrue false\n", "{name}: {run:?}");
        let compiled = run
            .stderr
            .lines()
            .filter(|line| line.contains("--crate-name shells "));
        let searched: Vec<usize> = compiled
            .map(|line| {
                line.split_whitespace()
                    .filter(|w| w.contains("-Lnative="))
                    .count()
            })
            .collect();
        assert_eq!(searched, [1, 1], "{name}: {run:?}");
    }
    let script =
        format!("export RUSTFLAGS='--cfg mine'; {eval}; RUSTFLAGS='--cfg later' cargo run -q");
    let run = Finished::of(bash(&project, &script).output().unwrap());
    assert_eq!(run.stdout, "false true\n", "{run:?}");

    // Another project, whose own configuration has flags: as a list, and as a text.
    let other = project.path.with_file_name("other");
    for (flags, place) in [
        ("['--cfg=mine']", "plain"),
        ("'--cfg=mine'", "plain"),
        ("['--cfg=mine']", "/"),
    ] {
        for (file, text) in [
            ("Cargo.toml", MANIFEST),
            ("src/main.rs", main),
            (
                ".cargo/config.toml",
                &format!("[build]\nrustflags = {flags}\n"),
            ),
        ] {
            let file = other.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let script = format!(
            "cd ..; cd {place}; {eval}; cd '{}'; cargo run -q",
            other.display()
        );
        let run = Finished::of(bash(&project, &script).output().unwrap());
        assert_eq!(run.stdout, "true false\n", "{flags}, {place}: {run:?}");
    }
}

/// A library that lies below `OUT_DIR`.
const MAKES_A_LIBRARY: &str = r#"
use std::{env, fs, path::PathBuf, process::Command};
fn main() {
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap()).join("made");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("a.c"), "int answer(void) { return 42; }").unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o"]).arg(out.join("libanswer.so")).arg(out.join("a.c"));
    assert!(gcc.status().unwrap().success());
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=dylib=answer");
}
"#;
const ANSWERS: &str = "unsafe extern \"C\" { fn answer() -> i32; }
fn main() { println!(\"{}\", unsafe { answer() }); }
#[test]
fn answers() { assert_eq!(unsafe { answer() }, 42); }
";

#[test]
fn plain_cargo_in_a_shell_finds_libraries_that_build_scripts_made() {
    let Some(project) = Project::bare("shell-made", &[13]) else {
        return;
    };
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", MAKES_A_LIBRARY);
    project.write("src/main.rs", ANSWERS);
    let script = format!("eval \"$('{PROGRAM}' cuda env)\"; cargo run -q && cargo test -q >&2");
    let run = Finished::of(bash(&project, &script).output().unwrap());
    run.succeeded();
    assert_eq!(run.stdout, "42\n", "{run:?}");
    let exec = project.run(&["exec", "--", "cargo", "run", "-q"]);
    assert_eq!(exec.stdout, "42\n", "{exec:?}");

    // Cargo splits the variable at blanks.
    let elsewhere = project.path.with_file_name("a b");
    fs::create_dir(&elsewhere).unwrap();
    let copy = elsewhere.join("cargo-cuda");
    fs::copy(PROGRAM, &copy).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let with = |directories: &[PathBuf], script: &str| {
        let path = directories
            .iter()
            .cloned()
            .chain(std::env::split_paths(&path));
        let mut bash = bash(&project, script);
        Finished::of(
            bash.env("PATH", std::env::join_paths(path).unwrap())
                .output()
                .unwrap(),
        )
    };
    let run = with(
        std::slice::from_ref(&elsewhere),
        "eval \"$(cargo-cuda cuda env)\"; cargo run -q",
    );
    assert_eq!(run.stdout, "42\n", "{run:?}");
    let env = with(&[], &format!("'{}' cuda env", copy.display()));
    env.succeeded();
    assert!(!env.stdout.contains("_RUNNER="), "{env:?}");
    assert!(
        env.stderr
            .contains("note: the path of `cargo cuda` has spaces"),
        "{env:?}"
    );
}

#[test]
fn variables_count_outside_a_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let cache = outside.path().join("cache");
    let Some(()) = store(&cache, &[12, 13]) else {
        return;
    };
    let project = Project {
        path: outside.path().to_owned(),
        cache,
        target: outside.path().join("target"),
    };
    let run = |arguments: &[&str], name: &str, value: &str| {
        let mut command = project.command(arguments);
        Finished::of(
            command
                .env(name, value)
                .env_remove("CUDA_BUILD_VIEWS")
                .output()
                .unwrap(),
        )
    };
    let twelve = run(&["env"], "CUDA_BUILD_MAJOR", "12");
    assert!(
        twelve.stdout.contains("ORT_CUDA_VERSION='12'"),
        "{twelve:?}"
    );
    let view = run(&["view"], "CUDA_BUILD_MAJOR", "12");
    assert!(view.stdout.contains("/views/12.9-"), "{view:?}");
    assert!(
        run(&["doctor"], "CUDA_BUILD_MAJOR", "12")
            .stdout
            .contains("A build will work with CUDA 12.9")
    );
    // Cargo's word for this machine: CMake's search is closed as without it.
    let closed = run(
        &["exec", "--", "printenv", "CMAKE_TOOLCHAIN_FILE"],
        "CARGO_BUILD_TARGET",
        "host-tuple",
    );
    assert!(closed.stdout.contains("/views/13.4-"), "{closed:?}");
    let exec = run(
        &["exec", "--", "printenv", "CUDAARCHS"],
        "CUDA_BUILD_CAPABILITIES",
        "8.0,9.0",
    );
    assert_eq!(exec.stdout, "80-real;90-real\n", "{exec:?}");
    let doctor = run(&["doctor"], "CUDA_BUILD_CAPABILITIES", "8.0");
    assert!(
        doctor
            .stdout
            .contains("CUDA_BUILD_CAPABILITIES: capabilities 8.0"),
        "{doctor:?}"
    );

    for command in ["env", "view", "doctor"] {
        run(&[command], "CUDA_BUILD_MAJOR", "x").failed(13, &["`x` is no CUDA major"]);
    }
    run(&["env"], "CUDA_BUILD_CAPABILITIES", "1.0").failed(12, &["1.0"]);
    assert_eq!(run(&["doctor"], "CUDA_BUILD_CAPABILITIES", "1.0").code, 12);
}

#[test]
fn what_cargos_configuration_sets_is_the_users() {
    let main = "fn main() { println!(\"{}\", env!(\"CAPABILITY\")); }\n";
    let Some(project) = project("configured-env", main) else {
        return;
    };
    let tell = "println!(\"cargo::rustc-env=CAPABILITY={}\", std::env::var(\"CUDA_COMPUTE_CAP\").unwrap());";
    project.write(
        "build.rs",
        &SCRIPT.replace("println!", &format!("{tell} println!")),
    );
    project.write(".cargo/config.toml", "[env]\nCUDA_COMPUTE_CAP = '86'\n");
    let run = project.run(&["run", "--capabilities", "8.0"]);
    assert_eq!(run.stdout, "86\n", "{run:?}");
    assert!(
        run.stderr
            .contains("note: CUDA_COMPUTE_CAP stays as you set it, 86, and is not 80"),
        "{run:?}"
    );
    let run = project.run(&[
        "run",
        "--capabilities",
        "8.0",
        "--config",
        "env.CUDA_COMPUTE_CAP='87'",
    ]);
    assert_eq!(run.stdout, "87\n", "{run:?}");
    let exec = project.run(&[
        "exec",
        "--capabilities",
        "8.0",
        "--",
        "printenv",
        "CUDA_COMPUTE_CAP",
    ]);
    assert_eq!(exec.stdout, "86\n", "other programs too: {exec:?}");

    // What steers nvcc and is none of ours is there as well.
    project.write(
        ".cargo/config.toml",
        "[env]\nNVCC_CCBIN = '/usr/bin/g++'\nOTHER = 'x'\n",
    );
    let exec = project.run(&["exec", "--", "printenv", "NVCC_CCBIN"]);
    assert_eq!(exec.stdout, "/usr/bin/g++\n", "{exec:?}");
    assert_eq!(
        project.run(&["exec", "--", "printenv", "OTHER"]).code,
        1,
        "Cargo alone gives that"
    );

    // The search reads it as well.
    std::os::unix::fs::symlink(site_packages(12).unwrap(), project.path.join("own")).unwrap();
    project.write(
        ".cargo/config.toml",
        "[env]\nCUDA_HOME = { value = 'own', relative = true }\n",
    );
    let own = project.path.join("own");
    let env = project.run(&["env"]);
    env.succeeded();
    assert!(env.stdout.contains("ORT_CUDA_VERSION='12'"), "{env:?}");
    assert!(
        env.stdout
            .contains(&format!("export CUDA_HOME='{}'", own.display())),
        "{env:?}"
    );
    project.write(
        ".cargo/config.toml",
        "[env]\nCUDA_HOME = { value = 'nothing', relative = true }\n",
    );
    project
        .run(&["env"])
        .failed(13, &["`CUDA_HOME`", "plain/nothing"]);
}

/// What `--major` asked for stays a wish of whoever is in that shell.
#[test]
fn a_major_is_meant_for_what_is_run_below() {
    let Some(project) = project("below", "fn main() {}\n") else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_cargo-cuda");
    let below = |arguments: &[&str]| {
        project.run(&[&["exec", "--major", "12", "--", program, "cuda"], arguments].concat())
    };
    let view = below(&["view"]);
    assert!(view.stdout.contains("/views/12.9-"), "{view:?}");
    let exec = below(&["exec", "--", "printenv", "ORT_CUDA_VERSION"]);
    assert_eq!(exec.stdout, "12\n", "{exec:?}");
    let other = below(&[
        "exec",
        "--major",
        "13",
        "--",
        "printenv",
        "ORT_CUDA_VERSION",
        "CUDA_BUILD_MAJOR",
    ]);
    assert_eq!(other.stdout, "13\n13\n", "{other:?}");
}

#[test]
fn views_stay_where_the_user_wants_them() {
    let Some(project) = project("own-views", "fn main() {}\n") else {
        return;
    };
    let views = project.path.with_file_name("views");
    let run = |arguments: &[&str]| {
        let run = Finished::of(
            project
                .command(arguments)
                .env("CUDA_BUILD_VIEWS", &views)
                .output()
                .unwrap(),
        );
        run.succeeded();
        run.stdout
    };
    let env = run(&["env"]);
    assert!(
        env.contains(&format!("export CUDA_HOME='{}/13.4-", views.display())),
        "{env}"
    );
    assert!(!env.contains("export CUDA_BUILD_VIEWS"), "{env}");
    assert!(Path::new(run(&["view"]).trim_end()).starts_with(&views));
    assert_eq!(
        run(&["exec", "--", "printenv", "CUDA_BUILD_VIEWS"]).trim_end(),
        views.to_str().unwrap()
    );
    run(&["build", "-q"]);
    assert!(!project.target.join("cuda/views").exists());
}

#[test]
fn pkg_config_finds_the_view_before_anything_else() {
    let Some(project) = project("pkg-config", "fn main() {}\n") else {
        return;
    };
    let foreign = "Name: cudart\nDescription: another\nVersion: 9.9\nLibs: -L/foreign -lcudart\n";
    project.write("foreign/cudart.pc", foreign);
    project.write("foreign/mine.pc", &foreign.replace("cudart", "mine"));
    let run = |program: &[&str]| {
        let mut command = project.command(&[&["exec", "--"], program].concat());
        let run = command
            .env("PKG_CONFIG_PATH", project.path.join("foreign"))
            .output()
            .unwrap();
        let run = Finished::of(run);
        run.succeeded();
        run.stdout
    };
    let path = run(&["printenv", "PKG_CONFIG_PATH"]);
    let first = std::env::split_paths(path.trim_end()).next().unwrap();
    assert!(
        first.join("cudart.pc").is_file() && path.trim_end().ends_with("plain/foreign"),
        "{path}"
    );
    if Command::new("pkg-config")
        .arg("--version")
        .output()
        .is_err()
    {
        let _ = writeln!(std::io::stderr(), "left out: pkg-config is not there");
        return;
    }
    assert!(run(&["pkg-config", "--modversion", "cudart"]).starts_with("13.4"));
    assert_eq!(run(&["pkg-config", "--modversion", "mine"]), "9.9\n");
}

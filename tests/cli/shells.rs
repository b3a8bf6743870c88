//! Shells that were given the variables, once and again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::components::site_packages;
use crate::project::{Project, store};
use crate::support::Finished;

/// This program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-cuda");

/// A program whose script reads CUDA_HOME.
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
            &(plain.clone() + &env(&nowhere, "--cuda 12") + &plain),
            &plain,
            &own,
        );
        same(
            &(plain.clone() + &env(&nowhere, "--cuda 12")),
            &env(&nowhere, "--cuda 12"),
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
        bash(&project, &format!("{capabilities} --json"))
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

/// A shell would run whatever a name contains besides.
#[test]
fn a_name_with_commands_in_it_is_never_printed() {
    let Some(project) = project("names", "fn main() {}\n") else {
        return;
    };
    let configuration = "[env]\n\"CUDA_X; touch pwned; #\" = 'v'\n\"CUDA_Y\\ntouch pwned\" = 'v'\n\
                         CUDA_GOOD = 'v'\n";
    project.write(".cargo/config.toml", configuration);
    let eval = format!("eval \"$('{PROGRAM}' cuda env)\"");
    let run = Finished::of(
        bash(&project, &format!("{eval}; printenv CUDA_GOOD"))
            .output()
            .unwrap(),
    );
    run.succeeded();
    assert_eq!(run.stdout, "v\n");
    assert!(!project.path.join("pwned").exists(), "{run:?}");
    assert_eq!(run.stderr.matches("is left out").count(), 2, "{run:?}");
    // In `unset` neither: what an earlier call has recorded may be anything.
    let record = r#"[["CUDA_Z; touch pwned; #", "v"]]"#;
    let mut env = project.command(&["env"]);
    env.env("CUDA_BUILD_ENVIRONMENT", record)
        .env("CUDA_Z; touch pwned; #", "v");
    let env = Finished::of(env.output().unwrap());
    env.succeeded();
    let code = env.stdout.lines().filter(|line| !line.starts_with('#'));
    let words = ["export ", "unset "];
    for line in code {
        let name = words
            .iter()
            .find_map(|word| line.strip_prefix(word))
            .unwrap();
        assert!(!name.starts_with("CUDA_Z"), "{env:?}");
    }
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
    let twelve = run(&["env"], "CUDA_BUILD_RELEASE", "12");
    assert!(
        twelve.stdout.contains("ORT_CUDA_VERSION='12'"),
        "{twelve:?}"
    );
    let view = run(&["view"], "CUDA_BUILD_RELEASE", "12");
    assert!(view.stdout.contains("/views/12.9-"), "{view:?}");
    assert!(
        run(&["doctor"], "CUDA_BUILD_RELEASE", "12")
            .stdout
            .contains(" CUDA 12.9 ")
    );
    // Cargo's word for this machine: CMake's search is closed as without it.
    let closed = run(
        &["exec", "--", "printenv", "CMAKE_TOOLCHAIN_FILE"],
        "CARGO_BUILD_TARGET",
        "host-tuple",
    );
    assert!(closed.stdout.contains("/cargo-cuda/13.4-"), "{closed:?}");
    let exec = run(
        &["exec", "--", "printenv", "CUDAARCHS"],
        "CUDA_BUILD_CAPABILITIES",
        "8.0,9.0",
    );
    assert_eq!(exec.stdout, "80-real;90-real\n", "{exec:?}");
    let doctor = run(&["doctor", "-v"], "CUDA_BUILD_CAPABILITIES", "8.0");
    assert!(
        doctor
            .stdout
            .contains("CUDA_BUILD_CAPABILITIES: capabilities 8.0"),
        "{doctor:?}"
    );

    for command in ["env", "view", "doctor"] {
        run(&[command], "CUDA_BUILD_RELEASE", "x").failed(13, &["`x` is not a CUDA release"]);
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
    let run = project.run(&["-v", "run", "--capabilities", "8.0"]);
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
        project.run(&[&["exec", "--cuda", "12", "--", program, "cuda"], arguments].concat())
    };
    let view = below(&["view"]);
    assert!(view.stdout.contains("/views/12.9-"), "{view:?}");
    let exec = below(&["exec", "--", "printenv", "ORT_CUDA_VERSION"]);
    assert_eq!(exec.stdout, "12\n", "{exec:?}");
    let other = below(&[
        "exec",
        "--cuda",
        "13",
        "--",
        "printenv",
        "ORT_CUDA_VERSION",
        "CUDA_BUILD_RELEASE",
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
    let home = run(&["exec", "--", "printenv", "CUDA_HOME"]);
    let view = fs::read_link(home.trim_end()).unwrap();
    assert!(view.starts_with(&views), "{}", view.display());
    assert!(!run(&["env"]).contains("export CUDA_BUILD_VIEWS"));
    assert!(Path::new(run(&["view"]).trim_end()).starts_with(&views));
    let named = run(&["exec", "--", "printenv", "CUDA_BUILD_VIEWS"]);
    assert_eq!(named.trim_end(), views.to_str().unwrap());
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

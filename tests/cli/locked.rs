//! `cuda-toolkits.lock` decides which toolkit every command uses; `--locked`, `cargo cuda fetch`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components;
use crate::project::{Project, checkout};
use crate::support::{EXCLUDE_NEWER, Finished, online};
use crate::tools;

const LOCK: &str = "cuda-toolkits.lock";

/// The lock file of the tests, with these releases only.
fn lock(releases: &[&str]) -> String {
    let all = fs::read_to_string(checkout().join("tests/support").join(LOCK)).unwrap();
    let (head, _) = all.split_once("[[toolkit]]\n").unwrap();
    let entries = all.split("[[toolkit]]\n").skip(1);
    let is_wanted = |entry: &&str| {
        let mut releases = releases.iter();
        releases.any(|release| entry.starts_with(&format!("request = \"{release}\"\n")))
    };
    let kept: Vec<String> = entries
        .filter(is_wanted)
        .map(|entry| format!("[[toolkit]]\n{entry}"))
        .collect();
    assert_eq!(kept.len(), releases.len());
    head.to_owned() + &kept.concat()
}

/// Notes the release that a build script uses.
const SCRIPT: &str = r#"
fn main() -> Result<(), cuda_build::Error> {
    let build = cuda_build::Build::new()?;
    let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    std::fs::write(directory + "/used", build.toolkit()?.version().to_string()).unwrap();
    build.run()?;
    Ok(())
}
"#;

const DECLARED: &str = "[package.metadata.cuda]\ncomponents = [\"cudart\"]\ncudart = \"shared\"\n\
                        capabilities = [\"8.0\"]\n";

fn manifest(name: &str, more: &str) -> String {
    let origin = match name {
        "registered" => "version = \"0.1\"".to_owned(),
        _ => format!("path = {:?}", checkout().join("cuda-build")),
    };
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{more}\n\
         [build-dependencies]\ncuda-build = {{ {origin}, default-features = false }}\n{DECLARED}"
    )
}

/// A Python module that depends on two crates with build scripts: one by its path, with a lock file
/// of its own, and one from a registry.
fn with_dependencies(project: &Project) -> [PathBuf; 3] {
    let main = "[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n[dependencies]\n\
                by-path = { path = \"../by-path\" }\n\
                registered = { version = \"0.1\", registry = \"private\" }\n\
                pyo3 = { version = \"0.30\", default-features = false, features = [\"abi3-py39\"] }\n";
    // A package of a registry cannot name a path.
    let cuda_build = checkout().join("cuda-build");
    let patch = format!("[patch.crates-io]\ncuda-build = {{ path = {cuda_build:?} }}\n");
    project.write("Cargo.toml", &(manifest("locked", main) + &patch));
    project.write(
        "pyproject.toml",
        "[build-system]\nrequires = [\"maturin>=1.9,<2\"]\nbuild-backend = \"maturin\"\n\
         [project]\nname = \"locked\"\nversion = \"0.1.0\"\n",
    );
    let other = project.path.with_file_name("by-path");
    let registered = project.path.join("vendor/registered");
    for (name, directory, more) in [
        ("locked", &project.path, None),
        ("by-path", &other, Some("[workspace]\n")),
        ("registered", &registered, Some("")),
    ] {
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("src/lib.rs"), "").unwrap();
        fs::write(directory.join("build.rs"), SCRIPT).unwrap();
        if let Some(more) = more {
            fs::write(directory.join("Cargo.toml"), manifest(name, more)).unwrap();
        }
    }
    fs::write(other.join(LOCK), lock(&["13.4"])).unwrap();
    let checksum = "{\"files\":{},\"package\":null}";
    fs::write(registered.join(".cargo-checksum.json"), checksum).unwrap();
    let registry = "\"sparse+https://private.invalid/index/\"";
    project.write(
        ".cargo/config.toml",
        &format!(
            "[registries.private]\nindex = {registry}\n\
             [source.private]\nregistry = {registry}\nreplace-with = \"vendored\"\n\
             [source.vendored]\ndirectory = \"vendor\"\n"
        ),
    );
    [project.path.clone(), other, registered]
}

/// An active virtual environment with the wheels of CUDA 12.0.
fn venv(project: &Project) -> PathBuf {
    let venv = project.path.with_file_name("venv");
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--without-pip"]).arg(&venv);
    Finished::of(make.output().unwrap()).succeeded();
    let mut pythons = fs::read_dir(venv.join("lib")).unwrap();
    let packages = pythons
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages");
    fs::remove_dir(&packages).unwrap();
    std::os::unix::fs::symlink(components::fetch("12.0"), packages).unwrap();
    venv
}

fn with_tools(command: &mut Command) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools::directory().to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap());
}

#[test]
fn every_command_uses_the_locked_toolkit() {
    let Some(project) = Project::bare_at("locked", "plain", &[12, 13]) else {
        return;
    };
    let packages = with_dependencies(&project);
    let venv = venv(&project);
    let run = |mut command: Command| {
        project.prepare(&mut command);
        with_tools(&mut command);
        let finished = Finished::of(command.env("VIRTUAL_ENV", &venv).output().unwrap());
        finished.succeeded();
        finished
    };
    let used = |package: &PathBuf| fs::read_to_string(package.join("used")).unwrap();
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments);
        command
    };
    let release = || {
        let doctor = run(project.command(&["doctor", "--json"])).json();
        doctor["toolkit"]["version"].as_str().unwrap().to_owned()
    };
    project.write(LOCK, &lock(&["12.9"]));
    assert_eq!(release(), "12.9");
    for command in [
        cargo(&["build", "-q"]),
        project.command(&["build", "-q", "--locked"]),
        project.command(&["wheel", "--cuda", "12", "--locked"]),
    ] {
        let text = format!("{command:?}");
        let run = run(command);
        assert!(!run.stderr.contains("not been fetched"), "{run:?}");
        assert_eq!(packages.each_ref().map(used), ["12.9"; 3], "{text}");
        let _ = packages
            .each_ref()
            .map(|package| fs::remove_file(package.join("used")).unwrap());
    }
    // Without the lock file, the active environment comes first for crates that use cuda-build, and
    // nvcc for others.
    fs::remove_file(project.path.join(LOCK)).unwrap();
    run(cargo(&["build", "-q"]));
    assert_eq!(packages.each_ref().map(used), ["12.0"; 3]);
    assert_eq!(release(), "13.4");
    // Cargo runs the scripts again when the file is there, and not before.
    let ran = || {
        packages
            .each_ref()
            .map(|p| fs::remove_file(p.join("used")).is_ok())
    };
    assert_eq!(ran(), [true; 3]);
    run(cargo(&["build", "-q"]));
    assert_eq!(ran(), [false; 3]);
    project.write(LOCK, &lock(&["12.9"]));
    run(cargo(&["build", "-q"]));
    assert_eq!(packages.each_ref().map(used), ["12.9"; 3]);
}

#[test]
fn a_locked_toolkit_that_was_not_fetched() {
    let Some(project) = Project::bare_at("lock-not-fetched", "plain", &[13]) else {
        return;
    };
    project.write(
        "Cargo.toml",
        "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [lib]\ncrate-type = [\"cdylib\"]\n[package.metadata.cuda]\nmajors = [12]\ncapabilities = [\"8.0\"]\n",
    );
    project.write("src/lib.rs", "");
    project.write(LOCK, &lock(&["12.9"]));
    let words = ["plain/cuda-toolkits.lock locks CUDA 12.9.2.0, which has not been fetched"];
    let hint = "hint: run `cargo cuda fetch`";
    // CUDA 13 is there; the lock says 12.9.
    for arguments in [&["build", "-q"][..], &["env"], &["view"]] {
        let run = project.run(arguments);
        run.succeeded();
        assert!(run.stderr.contains("warning: "), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(words[0]), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("run `cargo cuda fetch`"), "{run:?}");
    }
    let doctor = project.run(&["doctor", "-v"]);
    assert!(doctor.stdout.contains(words[0]), "{doctor:?}");
    for arguments in [
        &["build", "-q", "--locked"][..],
        &["check", "--frozen"],
        &["wheel", "--cuda", "12"],
        &["wheel", "--cuda", "12", "--locked"],
    ] {
        let mut command = project.command(arguments);
        with_tools(&mut command);
        let run = Finished::of(command.output().unwrap());
        run.failed(exit_code::LOCK, &[words[0], hint]);
    }
    // A named root comes before the lock, and a lock for other releases does not count.
    let view = PathBuf::from(project.run(&["view"]).stdout.trim_end());
    let mut build = project.command(&["build", "-q", "--locked"]);
    Finished::of(build.env("CUDA_HOME", &view).output().unwrap()).succeeded();
    project
        .run(&["build", "-q", "--locked", "--cuda", "13"])
        .succeeded();
}

/// Of the package `plain`.
const CARGO_LOCK: &str = "version = 4\n\n[[package]]\nname = \"plain\"\nversion = \"0.1.0\"\n";

/// `cargo cuda …` with uv, in a package with an empty store of its own.
pub struct Fetching(pub Project);

impl Fetching {
    pub fn new(name: &str, declared: &str) -> Option<Self> {
        if !online() {
            return None;
        }
        let fetching = Self(Project::bare_at(name, "plain", &[])?);
        fetching.declare(declared);
        fetching.0.write("src/lib.rs", "");
        fetching.0.write("Cargo.lock", CARGO_LOCK);
        Some(fetching)
    }

    fn declare(&self, declared: &str) {
        self.0.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                 [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n{declared}\n"
            ),
        );
    }

    pub fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().unwrap())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        with_tools(&mut command);
        command.env("UV_EXCLUDE_NEWER", EXCLUDE_NEWER);
        command
    }

    /// The names of the stored toolkits.
    fn stored(&self) -> Vec<String> {
        let report = self.run(&["toolkit", "list", "--json"]).json();
        let toolkits = report["toolkits"].as_array().unwrap().iter();
        let name = |toolkit: &serde_json::Value| toolkit["name"].as_str().unwrap().to_owned();
        toolkits.map(name).collect()
    }

    pub fn lock(&self) -> String {
        fs::read_to_string(self.0.path.join(LOCK)).unwrap()
    }
}

#[test]
fn fetch_gets_what_is_declared_and_pins_it() {
    let Some(fetching) = Fetching::new("fetch", "majors = [12]\ncomponents = [\"cudart\"]") else {
        return;
    };
    let locked = ["fetch", "--locked"];
    let lock = fetching.0.path.join(LOCK);
    let changes = [lock.to_str().unwrap(), "would have to change"];
    fetching.run(&locked).failed(
        exit_code::LOCK,
        &[&changes[..], &["does not pin CUDA 12"]].concat(),
    );
    assert!(fetching.stored().is_empty() && !lock.exists());

    let first = fetching.run(&["fetch"]);
    first.succeeded();
    assert!(first.stdout.starts_with("added CUDA 12.9"), "{first:?}");
    let [stored] = &fetching.stored()[..] else {
        panic!("{:?}", fetching.stored());
    };
    let pinned = fetching.lock();
    assert!(pinned.contains("request = \"12\"\n"), "{pinned}");
    // Everything is there and pinned.
    let again = fetching.run(&locked);
    again.succeeded();
    assert!(again.stdout.contains("is already fetched"), "{again:?}");
    assert_eq!(
        (fetching.stored(), fetching.lock()),
        (vec![stored.clone()], pinned.clone())
    );

    // A component that the lock file does not pin.
    fetching.declare("majors = [12]\ncomponents = [\"cudart\", \"nvtx\"]");
    fetching.run(&locked).failed(
        exit_code::LOCK,
        &[&changes[..], &["does not pin `nvtx`"]].concat(),
    );
    assert_eq!(fetching.lock(), pinned);
    fetching.run(&["fetch"]).succeeded();
    let grown = fetching.lock();
    assert!(grown.contains("\"nvidia-nvtx-cu12\"") && !pinned.contains("nvtx"));
    let kept = pinned.lines().filter(|line| line.starts_with("version"));
    kept.for_each(|line| assert!(grown.contains(line), "{line}: {grown}"));
    fetching.run(&locked).succeeded();
}

#[test]
fn fetch_reads_one_package_and_changes_no_lock_file() {
    let Some(project) = Project::bare_at("fetch-package", "plain", &[12]) else {
        return;
    };
    project.write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"3\"\n",
    );
    for (name, major) in [("a", "12"), ("b", "13")] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [package.metadata.cuda]\nmajors = [{major}]\n"
        );
        project.write(&format!("{name}/Cargo.toml"), &manifest);
        project.write(&format!("{name}/src/lib.rs"), "");
    }
    project.write(LOCK, &lock(&["12.9"]));
    let package = |name: &str| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
    let both = ["version = 4\n".to_owned(), package("a"), package("b")].concat();
    project.write("Cargo.lock", &both);
    let run = project.run(&["fetch", "--locked", "-p", "a"]);
    run.succeeded();
    assert_eq!(
        run.stdout.matches("is already fetched").count(),
        1,
        "{run:?}"
    );
    let run = project.run(&["fetch", "--locked"]);
    run.failed(exit_code::LOCK, &["does not pin CUDA 13"]);

    let stale = both.replace("0.1.0", "0.0.9");
    project.write("Cargo.lock", &stale);
    let run = project.run(&["fetch", "--locked", "-p", "a"]);
    run.failed(exit_code::FAILURE, &["Cargo.lock", "--locked was passed"]);
    let now = fs::read_to_string(project.path.join("Cargo.lock")).unwrap();
    assert_eq!(now, stale);
}

#[test]
fn fetch_gets_the_locked_toolkit() {
    let Some(fetching) = Fetching::new("fetch-locked", "") else {
        return;
    };
    let lock = lock(&["12.9", "12.0"]);
    fetching.0.write(LOCK, &lock);
    let run = fetching.run(&["fetch", "--locked"]);
    run.succeeded();
    assert!(run.stdout.starts_with("added CUDA 12.9.2.0 ("), "{run:?}");
    assert_eq!(
        fetching.stored().len(),
        1,
        "of one major, the newest is used"
    );
    let used = |run: &Finished| run.stderr.contains("CUDA 12.9)");
    let build = fetching.run(&["build"]);
    assert!(build.code == 0 && used(&build), "{build:?}");

    // `--fetch` gets it as well, though another toolkit is found.
    let found = components::site_packages(13).unwrap();
    let link = fetching
        .0
        .cache
        .join("toolkits")
        .join(found.file_name().unwrap());
    std::os::unix::fs::symlink(&found, link).unwrap();
    fetching.run(&["toolkit", "remove", "12.9"]).succeeded();
    let build = fetching.run(&["build", "--fetch", "--locked"]);
    assert!(build.code == 0 && used(&build), "{build:?}");
    assert_eq!(fetching.lock(), lock);
}

//! `cargo cuda new` and `cargo cuda init`, and the packages that they make.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::exit_code;
use serde_json::Value;
use tempfile::TempDir;

use crate::build::cuobjdump;
use crate::project::{Project, WITH_CUBLAS, checkout};
use crate::support::Finished;
use crate::tools::{self, tool};
use crate::wheel_template::{files, venv};
use crate::wheels::wheels;

/// `cargo cuda …` in a directory, with the repository in place of the address of cuda-build.
fn cargo_cuda(directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command.arg("cuda").args(arguments).current_dir(directory);
    if !arguments.contains(&"--vscode") {
        command.arg("--cuda-build-path").arg(checkout());
    }
    Finished::of(command.output().unwrap())
}

fn text(directory: &Path, file: &str) -> String {
    let path = directory.join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn new_makes_a_package_as_cargo_does() {
    let place = tempfile::tempdir().unwrap();
    let run = cargo_cuda(place.path(), &["new", "my-app"]);
    run.succeeded();
    assert_eq!(
        run.stdout,
        "next commands:\n  cd my-app\n  cargo cuda run --fetch\n"
    );
    assert!(
        run.stderr
            .contains("Creating binary (application) `my-app` package"),
        "{run:?}"
    );
    let package = place.path().join("my-app");
    assert!(package.join(".git").is_dir());
    for file in [".gitignore", "build.rs", "kernels/saxpy.cu", "src/main.rs"] {
        assert!(package.join(file).is_file(), "{file}");
    }
    let manifest = text(&package, "Cargo.toml");
    assert!(manifest.contains("name = \"my-app\""), "{manifest}");
    assert!(manifest.contains("[package.metadata.cuda]"), "{manifest}");
    for foreign in ["license", "publish", "rust-version", "[workspace]", "../.."] {
        assert!(!manifest.contains(foreign), "{manifest}");
    }

    cargo_cuda(place.path(), &["new", "my-app"]).failed(101, &["destination", "already exists"]);
    cargo_cuda(place.path(), &["new", "1app"]).failed(101, &["invalid character"]);
    cargo_cuda(
        place.path(),
        &[
            "new",
            "x",
            "--template",
            "python",
            "--name",
            "own-ext",
            "--vcs",
            "none",
        ],
    )
    .succeeded();
    let package = place.path().join("x");
    assert!(!package.join(".git").exists());
    assert!(package.join("python/own_ext/__init__.py").is_file());
    let project = text(&package, "pyproject.toml");
    assert!(project.contains("\nname = \"own-ext\"\n"), "{project}");
    assert!(
        project.contains("module-name = \"own_ext._native\""),
        "{project}"
    );
}

#[test]
fn new_in_a_workspace_makes_a_member() {
    let place = tempfile::tempdir().unwrap();
    let root =
        "[workspace]\nresolver = \"3\"\nmembers = []\n\n[workspace.package]\nedition = \"2024\"\n";
    fs::write(place.path().join("Cargo.toml"), root).unwrap();
    cargo_cuda(
        place.path(),
        &["new", "member", "--template", "module-cudarc"],
    )
    .succeeded();
    assert!(text(place.path(), "Cargo.toml").contains("members = [\"member\"]"));
    let manifest = text(place.path(), "member/Cargo.toml");
    assert!(manifest.contains("edition.workspace = true"), "{manifest}");
    assert!(manifest.contains("cudarc = {"), "{manifest}");
}

#[test]
fn the_origin_of_cuda_build() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command
        .args(["cuda", "new", "app"])
        .current_dir(place.path());
    let run = Finished::of(command.output().unwrap());
    match env!("CARGO_PKG_REPOSITORY") {
        "" => {
            run.failed(
                exit_code::USAGE,
                &["no address of a git repository", "--cuda-build-path"],
            );
            assert!(!place.path().join("app").exists());
        }
        url => {
            let expected = format!("cuda-build = {{ git = \"{url}\" }}");
            assert!(text(place.path(), "app/Cargo.toml").contains(&expected));
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command
        .args(["cuda", "new", "b", "--cuda-build-path", "."])
        .current_dir(place.path());
    let run = Finished::of(command.output().unwrap());
    run.failed(exit_code::USAGE, &["has no crate `cuda-build`"]);
}

#[test]
fn init_adds_to_a_package_and_overwrites_nothing() {
    let place = tempfile::tempdir().unwrap();
    let package = place.path();
    cargo_cuda(package, &["init"])
        .failed(exit_code::CONFIGURATION, &["Cargo.toml", "cargo cuda new"]);
    let manifest = "[package]\nname = \"own\" # ours\nversion = \"1.0.0\"\nedition = \"2024\"\n";
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(package.join("src")).unwrap();
    fs::write(package.join("src/lib.rs"), "// ours\n").unwrap();
    fs::write(package.join("build.rs"), "fn main() {}\n").unwrap();

    let run = cargo_cuda(package, &["init"]);
    run.succeeded();
    for expected in [
        "not overwritten: build.rs; the template has\n",
        "    use cuda_build::{Build, Library};\n",
        "wrote kernels/saxpy.cu\n",
        "added to Cargo.toml: build-dependencies\n",
        "a package with sources that use this: cargo cuda new --template library example\n",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {}", run.stdout);
    }
    assert_eq!(text(package, "build.rs"), "fn main() {}\n");
    let changed = text(package, "Cargo.toml");
    assert!(
        changed.starts_with(manifest) && changed.contains("cuda-build = { path = "),
        "{changed}"
    );
    assert_eq!(files(&package.join("src")), [package.join("src/lib.rs")]);

    let again = cargo_cuda(package, &["init"]);
    assert!(
        again.stdout.contains("unchanged: kernels/saxpy.cu\n"),
        "{again:?}"
    );
    assert!(
        !again.stdout.contains("added") && !again.stdout.contains("Cargo.toml"),
        "{again:?}"
    );
    assert_eq!(text(package, "Cargo.toml"), changed);

    fs::write(package.join("Cargo.toml"), "[workspace]\nmembers = []\n").unwrap();
    cargo_cuda(package, &["init"]).failed(exit_code::CONFIGURATION, &["no `[package]`", "member"]);
}

#[test]
fn names_that_python_cannot_import_are_refused() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [&["lambda"][..], &["cuda"], &["x", "--name", "def"]] {
        let arguments = [&["new", "--template", "python"], arguments].concat();
        let run = cargo_cuda(place.path(), &arguments);
        run.failed(exit_code::USAGE, &["the Python package cannot be named"]);
    }
    assert!(files(place.path()).is_empty());
    let run = cargo_cuda(place.path(), &["new", "my dir", "--name", "cuda"]);
    run.succeeded();
    assert!(run.stdout.contains("\n  cd 'my dir'\n"), "{run:?}");
}

#[test]
fn init_leaves_targets_and_build_scripts_of_the_package() {
    let place = tempfile::tempdir().unwrap();
    cargo_cuda(place.path(), &["new", "own", "--vcs", "none"]).succeeded();
    let package = place.path().join("own");
    let manifest = text(&package, "Cargo.toml");
    let manifest = manifest.replace("[package]\n", "[package]\nbuild = \"x.rs\"\n");
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::rename(package.join("build.rs"), package.join("x.rs")).unwrap();
    let run = cargo_cuda(&package, &["init", "--template", "python"]);
    run.succeeded();
    for expected in [
        "not written: build.rs, because Cargo.toml has `build = \"x.rs\"`; the template has\n",
        "not added to Cargo.toml: lib.crate-type = [\"cdylib\"]",
    ] {
        assert!(run.stdout.contains(expected), "{run:?}");
    }
    assert!(!package.join("build.rs").exists());
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--no-deps", "--format-version=1"]);
    let metadata = Finished::of(metadata.current_dir(&package).output().unwrap());
    metadata.succeeded();
    assert!(!metadata.stdout.contains("cdylib"), "{metadata:?}");
}

/// The command line of a setting for rust-analyzer.
fn setting(package: &Path, name: &str) -> Vec<String> {
    let settings: Value = serde_json::from_str(&text(package, ".vscode/settings.json")).unwrap();
    let command = settings[format!("rust-analyzer.{name}")]
        .as_array()
        .unwrap();
    command
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn settings_for_rust_analyzer_are_written_once() {
    let place = tempfile::tempdir().unwrap();
    cargo_cuda(place.path(), &["init", "--vscode"]).succeeded();
    assert_eq!(
        setting(place.path(), "check.overrideCommand")[..3],
        ["cargo", "cuda", "check"]
    );
    fs::write(place.path().join(".vscode/settings.json"), "{}").unwrap();
    let run = cargo_cuda(place.path(), &["init", "--vscode"]);
    assert!(
        run.stdout
            .contains("not overwritten: .vscode/settings.json"),
        "{run:?}"
    );
    assert!(run.stdout.contains("check.overrideCommand"), "{run:?}");
    assert_eq!(text(place.path(), ".vscode/settings.json"), "{}");
}

/// A package outside of the checkout.
fn made(template: &str, name: &str) -> Option<(TempDir, Project)> {
    let place = tempfile::tempdir().unwrap();
    let project = Project::from_template(place.path(), template, name, &[13])?;
    Some((place, project))
}

/// A command with the tools on `PATH`.
fn with_tools(mut command: Command) -> Command {
    let path = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(tools::directory().to_owned()).chain(std::env::split_paths(&path));
    command
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("CMAKE_GENERATOR", "Ninja");
    command
}

const CLIPPY: [&str; 5] = ["clippy", "--all-targets", "--", "-D", "warnings"];

#[track_caller]
fn run(project: &Project, arguments: &[&str]) -> Finished {
    let run = Finished::of(with_tools(project.command(arguments)).output().unwrap());
    run.succeeded();
    run
}

#[test]
#[ignore = "minutes"]
fn programs_of_templates_build_and_their_tests_pass() {
    for (template, tests) in [
        ("library", &["test"][..]),
        ("module-cudarc", &["test"]),
        ("cmake", &["test"]),
        // It links the driver, so that its tests start only where one is installed.
        ("module-cust", &["test", "--no-run"]),
    ] {
        let name = format!("my-{template}");
        let Some((_place, project)) = made(template, &name) else {
            return;
        };
        run(&project, &CLIPPY);
        run(&project, &["build"]);
        assert!(project.program(&name).is_file());
        let tested = run(&project, tests);
        if template != "module-cust" {
            works_without_cuda(&project);
        }
        let passed = tested.stdout.contains("test result: ok. 1 passed");
        assert!(passed || template == "module-cust", "{tested:?}");
    }
}

fn works_without_cuda(project: &Project) {
    for arguments in [&CLIPPY[..], &["test"]] {
        let mut cargo = Command::new("cargo");
        project.prepare(cargo.args(arguments));
        let finished = cargo.env("CUDA_BUILD_SKIP", "1").output();
        Finished::of(finished.unwrap()).succeeded();
    }
}

#[test]
#[ignore = "minutes"]
fn the_cmake_template_compiles_for_the_declared_capabilities() {
    let Some((place, project)) = made("cmake", "with-cmake") else {
        return;
    };
    // `cargo cuda` would also set `CUDAARCHS`, which CMake reads.
    let build = |variables: &[(&str, &str)]| {
        let mut cargo = with_tools(Command::new("cargo"));
        cargo.args(["build", "--quiet"]);
        project.prepare(&mut cargo);
        cargo.envs(variables.iter().copied());
        Finished::of(cargo.output().unwrap()).succeeded();
        cuobjdump(&project.program("with-cmake"))
    };
    let expected = [
        "sm_100.cubin",
        "sm_120.cubin",
        "sm_120.ptx",
        "sm_80.cubin",
        "sm_90.cubin",
    ];
    assert_eq!(build(&[]), expected);
    // Another path of nvcc, on which CMake deletes its cache.
    let views = place.path().join("views");
    let other = [
        ("CUDA_BUILD_VIEWS", views.to_str().unwrap()),
        ("CUDA_BUILD_CAPABILITIES", "8.0"),
    ];
    assert_eq!(build(&other), ["sm_80.cubin"]);
    assert_eq!(build(&[]), expected);
}

#[test]
#[ignore = "minutes"]
fn the_python_template_makes_a_wheel_that_imports() {
    let Some((place, project)) = made("python", "my-ext") else {
        return;
    };
    run(&project, &CLIPPY);
    run(&project, &["wheel", "--cuda", "13"]);
    let wheels = files(&project.path.join("dist"));
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    let venv = venv(place.path(), "venv", &[&wheels[0]]);
    let mut install = Command::new(tool("uv"));
    install
        .args(["pip", "install", "--quiet", "pytest", "--python"])
        .arg(&venv);
    Finished::of(install.output().unwrap()).succeeded();
    let mut tests = Command::new(venv.join("bin/python"));
    tests
        .args(["-m", "pytest", "--quiet", "tests"])
        .current_dir(&project.path);
    let tests = Finished::of(tests.output().unwrap());
    tests.succeeded();
    let expected = match Path::new("/dev/nvidiactl").exists() {
        true => "3 passed",
        false => "2 passed, 1 skipped",
    };
    assert!(tests.stdout.contains(expected), "{tests:?}");
}

#[test]
#[ignore = "minutes"]
fn the_sys_template_passes_the_toolkit_to_its_dependents() {
    let Some((place, project)) = made("sys", "thing-sys") else {
        return;
    };
    let with_cublas = |project: &Project, arguments: &[&str]| {
        let mut command = project.command(arguments);
        command.env("CUDA_BUILD_ROOTS", wheels(&WITH_CUBLAS).unwrap());
        Finished::of(command.output().unwrap())
    };
    with_cublas(&project, &CLIPPY).succeeded();
    let tested = with_cublas(&project, &["test"]);
    assert!(
        tested.stdout.contains("cublas_reports_its_version ... ok"),
        "{tested:?}"
    );

    let dependent = Project {
        path: place.path().join("dependent"),
        ..project
    };
    dependent.write(
        "Cargo.toml",
        "[package]\nname = \"dependent\"\nedition = \"2024\"\n[dependencies]\n\
         thing-sys = { path = \"../thing-sys\" }\n",
    );
    dependent.write(
        "build.rs",
        "fn main() {\n    let paths = std::env::var_os(\"DEP_THING_SYS_INCLUDE\").unwrap();\n    \
         assert!(std::env::split_paths(&paths).any(|path| path.join(\"cublas_v2.h\").is_file()));\n}\n",
    );
    dependent.write("src/lib.rs", "");
    with_cublas(&dependent, &["check"]).succeeded();
}

#[test]
#[ignore = "minutes"]
fn rust_analyzer_gets_the_output_of_build_scripts() {
    let Some((_place, project)) = made("library", "edited") else {
        return;
    };
    cargo_cuda(&project.path, &["init", "--vscode"]).succeeded();
    for (name, expected) in [
        ("check.overrideCommand", "compiler-artifact"),
        (
            "cargo.buildScripts.overrideCommand",
            "build-script-executed",
        ),
    ] {
        let command = setting(&project.path, name);
        let arguments: Vec<&str> = command[2..].iter().map(String::as_str).collect();
        let output = run(&project, &arguments).stdout;
        let messages = output
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let reasons: Vec<String> = messages
            .map(|message| message["reason"].to_string())
            .collect();
        assert!(reasons.contains(&format!("\"{expected}\"")), "{reasons:?}");
    }
}

//! The wheels beside packages that pin CUDA's: PyTorch, vLLM and CuPy.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::components::offline;
use crate::project::{place, store};
use crate::support::{EXCLUDE_NEWER, Finished, python};
use crate::tools::tool;
use crate::wheel_template::{self, clone, files, wheel};

/// The packages that uv chooses, with their versions. `wheels` has wheels that are not in the index.
fn with_uv(requirements: &[&str], wheels: &Path) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("requirements.in");
    fs::write(&input, requirements.join("\n")).unwrap();
    let mut command = Command::new(tool("uv"));
    command
        .args(["pip", "compile", "--quiet", "--no-header", "--no-annotate"])
        .args(["--python-version", "3.12"])
        .args(["--python-platform", "x86_64-manylinux_2_34"])
        .args(["--exclude-newer", EXCLUDE_NEWER])
        .arg("--find-links")
        .arg(wheels)
        .arg(&input);
    let run = Finished::of(command.output().unwrap());
    assert_eq!(run.code, 0, "{requirements:?}: {run:?}");
    let pins = run.stdout.lines().filter_map(|line| line.split_once("=="));
    pins.map(|(name, version)| (name.to_owned(), version.trim().to_owned()))
        .collect()
}

/// The same with pip. If the index serves no metadata beside the wheels, `fast-deps` reads it from the end of each wheel
/// instead of downloading gigabytes.
fn with_pip(requirements: &[&str], wheels: &Path) -> BTreeMap<String, String> {
    let mut command = Command::new(tool("uv"));
    command
        .args(["tool", "run", "--quiet", "--python"])
        .arg(python())
        .args(["pip@26.3", "install", "--quiet", "--use-feature=fast-deps"])
        .args(["--dry-run", "--ignore-installed", "--only-binary", ":all:"])
        .args(["--uploaded-prior-to", EXCLUDE_NEWER])
        .args(["--report", "-", "--find-links"])
        .arg(wheels)
        .args(requirements);
    let run = Finished::of(command.output().unwrap());
    assert_eq!(run.code, 0, "{requirements:?}: {run:?}");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let installed = report["install"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_lowercase();
    installed
        .map(|package| &package["metadata"])
        .map(|metadata| (text(&metadata["name"]), text(&metadata["version"])))
        .collect()
}

/// The versions of a package alone, and of one that is named before the wheel. uv decides in the order of the
/// requirements: after any package that accepts the newest CUDA, it may take an older vLLM.
fn alone_and_beside(
    resolve: impl Fn(&[&str], &Path) -> BTreeMap<String, String>,
    wheel: &Path,
    package: &str,
) -> [String; 2] {
    let file_name = wheel.file_name().unwrap().to_str().unwrap();
    let distribution = file_name.split('-').next().unwrap().replace('_', "-");
    let directory = wheel.parent().unwrap();
    let alone = resolve(&[package], directory);
    let beside = resolve(&[package, &distribution], directory);
    assert!(beside.contains_key(&distribution), "{beside:?}");
    let name = package.split("==").next().unwrap();
    [alone, beside].map(|versions| versions[name].clone())
}

#[track_caller]
fn assert_unchanged(
    resolve: impl Fn(&[&str], &Path) -> BTreeMap<String, String>,
    wheel: &Path,
    package: &str,
) {
    let [alone, beside] = alone_and_beside(resolve, wheel, package);
    assert_eq!(alone, beside, "{package}");
}

/// Releases that pin exact versions of CUDA's packages, of CUDA 12.8, 13.0 and 13.2.
pub fn resolves_beside_pytorch_and_cupy(cu12: &Path, cu13: &Path) {
    for (wheel, package) in [
        (cu12, "torch==2.8.0"),
        (cu12, "torch==2.10.0"),
        (cu12, "cupy-cuda12x"),
        (cu13, "torch==2.11.0"),
        (cu13, "torch==2.15.0"),
        (cu13, "torch"),
        (cu13, "cupy-cuda13x"),
    ] {
        assert_unchanged(with_uv, wheel, package);
    }
}

/// Installs the lowest versions that the wheel accepts, and prints the version of the CUDA runtime that the module loads.
pub fn runs_with_the_lowest_versions(place: &Path, wheel: &Path) -> String {
    let venv = place.join("lowest");
    let _ = fs::remove_dir_all(&venv);
    let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
    run(Command::new(tool("uv"))
        .args(["venv", "--quiet"])
        .arg(&venv));
    run(Command::new(tool("uv"))
        .args([
            "pip",
            "install",
            "--quiet",
            "--resolution",
            "lowest",
            "--python",
        ])
        .arg(&venv)
        .arg(wheel));
    let run = wheel_template::python(&venv, "import saxpy; print(saxpy.cuda_runtime_version())");
    assert_eq!(run.code, 0, "{}", run.stdout);
    let environment = fs::canonicalize(&venv).unwrap();
    let loaded = |line: &&str| line.contains("calling init") && line.contains("/libcudart.so");
    let loaded = run.stderr.lines().find(loaded).unwrap();
    let loaded = fs::canonicalize(loaded.rsplit(' ').next().unwrap()).unwrap();
    assert!(loaded.starts_with(environment), "{}", loaded.display());
    run.stdout.trim().to_owned()
}

#[test]
#[ignore = "minutes"]
fn wheels_resolve_beside_published_releases() {
    if offline() {
        return;
    }
    let cache = place("wheel-resolution").join("cache");
    store(&cache, &[12, 13]).unwrap();
    let project = clone("wheel-resolution-clone");
    let run = wheel(&project, &cache, &["--cuda", "12,13"])
        .output()
        .unwrap();
    assert_eq!(Finished::of(run).code, 0);
    let wheels: Vec<PathBuf> = files(&project.join("dist"));
    let [cu12, cu13] = &wheels[..] else {
        panic!("{wheels:?}")
    };
    for (wheel, package) in [
        (cu12, "torch==2.8.0"),
        (cu12, "torch==2.9.1"),
        (cu12, "torch==2.10.0"),
        (cu12, "cupy-cuda12x"),
        (cu13, "torch==2.11.0"),
        (cu13, "torch==2.14.0"),
        (cu13, "torch==2.15.0"),
        (cu13, "torch"),
        (cu13, "vllm==0.32.0"),
        (cu13, "vllm"),
        (cu13, "cupy-cuda13x"),
    ] {
        assert_unchanged(with_uv, wheel, package);
        assert_unchanged(with_pip, wheel, package);
    }
    // A wheel that requires the release of its build changes PyTorch.
    let manifest = project.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let raised = r#"components = [{ name = "cudart", version = ">=13.4" }]"#;
    let changed = text.replace(r#"components = ["cudart"]"#, raised);
    assert_ne!(text, changed);
    fs::write(&manifest, changed).unwrap();
    let run = wheel(&project, &cache, &["--cuda", "13", "--out", "raised"])
        .output()
        .unwrap();
    assert_eq!(Finished::of(run).code, 0);
    let [raised] = &files(&project.join("raised"))[..] else {
        panic!("one wheel is expected");
    };
    for resolve in [with_uv, with_pip] {
        let [alone, beside] = alone_and_beside(resolve, raised, "torch");
        assert_ne!(alone, beside);
    }
}

//! Places that variables name: which of them counts, and what is wrong with those that don't.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use cuda_build::{Build, Component, Engine, Module};
use cuda_find_core::{
    env::Env,
    root::Root,
    search::{Outcome, SearchContext},
    select::{Need, Part, Request},
    target::Target,
};

pub(super) fn report(root: &Root, env: &[(String, String)], component: Component) -> Outcome {
    let env = Env::from_pairs(env.to_vec());
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let search = SearchContext::new(root, &env, &target);
    let parts = [Part::Headers, Part::Shared, Part::Tools];
    let has = |part: &Part| match part {
        Part::Tools => component == Component::Nvcc,
        Part::Headers => component == Component::Cudart,
        _ => ![Component::Nvcc, Component::Cudart].contains(&component),
    };
    let needs = parts
        .into_iter()
        .filter(has)
        .map(|part| Need::new(component, part, "for this test"));
    search.report(&[Request {
        needs: needs.collect(),
        ..Request::default()
    }])
}

/// Variables on a disk that has nothing in its usual places.
pub(super) fn search(root: &Path, env: &[(&str, &str)], component: Component) -> Outcome {
    let with = |value: &str| value.replace("@ROOT@", root.to_str().unwrap());
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), with(value)))
        .collect();
    report(&Root::below(root), &env, component)
}

pub(super) fn summaries(report: &Outcome) -> String {
    report
        .attempts
        .iter()
        .map(|attempt| format!("{}: {}\n", attempt.candidate, attempt.summary()))
        .collect()
}

/// The error of a search, with its hints.
#[track_caller]
pub(super) fn refused(report: &Outcome) -> String {
    let error = report.toolkit.as_ref().unwrap_err();
    assert!(
        matches!(error, cuda_find_core::error::Error::InvalidSource { .. }),
        "{error:?}"
    );
    format!("{error:?}")
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(super) fn script(path: &Path, content: &str) {
    write(path, content);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A root with the runtime of 12.4.
fn runtime(root: &Path) {
    write(&root.join("include/cuda.h"), "#define CUDA_VERSION 12040\n");
    write(&root.join("include/cuda_runtime.h"), "");
    write(&root.join("lib64/libcudart.so.12"), "");
}

/// A package as a build script sees it.
pub(super) fn package(directory: &Path, env: &[(&str, &Path)]) -> Build {
    let package = directory.join("package");
    write(
        &package.join("Cargo.toml"),
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[package.metadata.cuda]\ncapabilities = [\"8.0\"]\n",
    );
    write(
        &package.join("k.cu"),
        "extern \"C\" __global__ void k(float *x) { x[0] = 1; }\n",
    );
    let out = directory.join("out");
    fs::create_dir_all(&out).unwrap();
    let mut all = Env::from_pairs([("TARGET", "x86_64-unknown-linux-gnu")])
        .with("CARGO_MANIFEST_DIR", &package)
        .with("OUT_DIR", &out)
        .with("PATH", "/usr/bin:/bin")
        .with("CUDA_BUILD_CAPABILITIES", "8.0")
        .with("CUDA_BUILD_CACHE_DIR", directory.join("cache"));
    for (name, value) in env {
        all = all.with(name, *value);
    }
    Build::from_env(all, Root::below(directory)).unwrap()
}

#[test]
fn every_place_of_a_list_holds_something() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for name in ["good", "same"] {
        runtime(&root.join(name));
    }
    write(&root.join("products/lib/libcudnn.so.9"), "");
    write(&root.join("curand/lib/libcurand.so.10"), "");
    write(
        &root.join("archives/cuda_cudart-linux-x86_64-12.4.127-archive/lib/libcudart.so.12"),
        "",
    );
    write(
        &root.join("archives/cuda_gdb-linux-x86_64-12.4.127-archive/bin/cuda-gdb"),
        "",
    );
    write(&root.join("home/bin/other"), "");
    fs::create_dir(root.join("empty")).unwrap();
    for variable in ["CUDA_BUILD_ROOTS", "CUDAToolkit_ROOT"] {
        for other in ["same", "products", "curand", "archives"] {
            let list = format!("@ROOT@/good:@ROOT@/{other}");
            let report = search(root, &[(variable, &list)], Component::Cudart);
            assert!(report.toolkit.is_ok(), "{list}: {}", summaries(&report));
            assert_eq!(report.attempts.len(), 1, "{}", summaries(&report));
        }
        for (wrong, reason) in [
            ("typo", "/typo): does not exist"),
            ("empty", "/empty): no CUDA component was found in it"),
            ("home", "/home): no CUDA component was found in it"),
            ("home/bin/other", "/home/bin/other): not a directory"),
        ] {
            for list in [
                format!("@ROOT@/good:@ROOT@/{wrong}"),
                format!("@ROOT@/{wrong};@ROOT@/good"),
            ] {
                let report = search(root, &[(variable, &list)], Component::Cudart);
                let text = refused(&report);
                assert!(
                    text.contains(reason) && text.contains(variable),
                    "{list}: {text}"
                );
                // doctor shows what the others hold.
                let shown = summaries(&report);
                assert!(
                    shown.contains(reason) && shown.contains("cudart"),
                    "{list}: {shown}"
                );
            }
        }
    }
}

#[test]
fn environments_and_links_that_lead_nowhere_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    runtime(&root.join("usr/local/cuda-12.4"));
    symlink("cuda-13.4", root.join("usr/local/cuda")).unwrap();
    symlink("cuda-12.9", root.join("usr/local/cuda-12")).unwrap();
    let nothing = "@ROOT@/nothing";
    let env = [
        ("VIRTUAL_ENV", nothing),
        ("CONDA_PREFIX", "@ROOT@/nothing/conda"),
        ("SPACK_ENV", "@ROOT@/nothing/spack"),
        ("NVHPC_ROOT", "@ROOT@/nothing/hpc"),
    ];
    let report = search(root, &env, Component::Cudart);
    let text = summaries(&report);
    for place in [
        "`VIRTUAL_ENV` (@ROOT@/nothing): does not exist",
        "(`CONDA_PREFIX`) (@ROOT@/nothing/conda): does not exist",
        "Spack (@ROOT@/nothing/spack/.spack-env/view): does not exist",
        "(`NVHPC_ROOT`) (@ROOT@/nothing/hpc): does not exist",
        "default location (@ROOT@/usr/local/cuda): a link to something that does not exist",
        "default location (@ROOT@/usr/local/cuda-12): a link to something that does not exist",
    ] {
        let place = place.replace("@ROOT@", root.to_str().unwrap());
        assert!(text.contains(&place), "no {place} in\n{text}");
    }
    // None of them was named as the place of a toolkit.
    assert_eq!(report.toolkit.unwrap().version().to_string(), "12.4");
}

#[test]
fn links_in_a_circle_and_fifos_end_the_search() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let cuda = root.join("usr/local/cuda-12.4");
    runtime(&cuda);
    symlink("cuda", root.join("usr/local/cuda")).unwrap();
    symlink(".", cuda.join("targets")).unwrap();
    symlink("../lib64", cuda.join("lib64/lib64")).unwrap();
    symlink("libnvrtc.so.12", cuda.join("lib64/libnvrtc.so.12")).unwrap();
    let home = [("CUDA_HOME", "@ROOT@/usr/local/cuda")];
    assert!(search(root, &home, Component::Cudart).toolkit.is_err());
    let report = search(root, &[], Component::Cudart);
    assert_eq!(report.toolkit.unwrap().version().to_string(), "12.4");

    write(&cuda.join("bin/other"), "");
    fs::remove_file(cuda.join("include/cuda.h")).unwrap();
    let fifos = ["version.json", "include/cuda.h", "bin/nvcc"];
    let made = Command::new("mkfifo")
        .args(fifos)
        .current_dir(&cuda)
        .status();
    assert!(made.unwrap().success());
    let text = summaries(&search(root, &[], Component::Cudart));
    assert!(text.contains("cudart for CUDA 12"), "{text}");
}

#[test]
fn what_cannot_be_read_or_started_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    runtime(&root.join("cuda"));
    let nvcc = root.join("cuda/bin/nvcc");
    // No `#!` line and no program: starting it fails.
    script(&nvcc, "\u{7f}ELFgarbage");
    let home = [("CUDA_HOME", "@ROOT@/cuda")];
    let attempt = || {
        let report = search(root, &home, Component::Cudart);
        assert!(
            report
                .toolkit
                .as_ref()
                .unwrap()
                .get(Component::Nvcc)
                .is_none()
        );
        summaries(&report)
    };
    let text = attempt();
    assert!(text.contains("/dev/null`: Exec format error"), "{text}");
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(attempt().contains("not executable"), "{}", attempt());
    let lost = "format_version = 1\nversion = \"12.4\"\n[[component]]\nname = \"cudart\"\nmajor = 12\n\
                version = \"12.4.1\"\ntoolkit = \"12.4\"\ninclude = []\nlibraries = [\"/gone/libcudart.so.12\"]\n\
                archives = []\ntools = []\nevidence = \"\"\norigin = \"\"\n";
    write(&root.join("toolkit.toml"), lost);
    let toolkit = [("CUDA_BUILD_TOOLKIT", "@ROOT@/toolkit.toml")];
    let text = refused(&search(root, &toolkit, Component::Cudart));
    assert!(
        text.contains("it lists a file of `cudart` that does not exist (/gone/"),
        "{text}"
    );
}

/// For root, every directory is open, so the program then runs as another user.
#[test]
fn a_directory_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (root, closed) = (directory.path(), directory.path().join("cuda"));
    runtime(&closed);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(&closed, 0o000).unwrap();
    let program = root.join("cargo-cuda");
    fs::copy(env!("CARGO_BIN_EXE_cargo-cuda"), &program).unwrap();
    let mut doctor = Command::new(&program);
    doctor
        .arg("doctor")
        .env_clear()
        .env("CUDA_HOME", &closed)
        .current_dir("/");
    if fs::read_dir(&closed).is_ok() {
        mode(root, 0o755).unwrap();
        doctor.uid(65534).gid(65534);
    }
    let text = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    mode(&closed, 0o755).unwrap();
    assert!(text.contains("cannot be read: Permission denied"), "{text}");
}

/// What pyenv writes for each program, and asdf.
#[test]
fn a_python_that_is_a_script_is_no_place() {
    for shim in [
        "#!/usr/bin/env bash\nset -e\n\nprogram=\"${0##*/}\"\n\nexport PYENV_ROOT=\"/home/a/.pyenv\"\n\
         exec \"/home/a/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n",
        "#!/usr/bin/env bash\n# asdf-plugin: python 3.12.4\nexec /opt/asdf/bin/asdf exec \"python3\" \"$@\"\n",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        script(&root.join("home/.pyenv/shims/python3"), shim);
        let env = [
            ("PATH", "@ROOT@/home/.pyenv/shims"),
            ("HOME", "@ROOT@/home"),
        ];
        let report = search(root, &env, Component::Cudart);
        assert!(report.attempts.is_empty(), "{}", summaries(&report));
        // The packages of the prefix that it lies in count as ever: a wrapper of Nix's.
        fs::create_dir_all(root.join("home/.pyenv/lib/python3.12/site-packages/nvidia")).unwrap();
        let text = summaries(&search(root, &env, Component::Cudart));
        assert!(text.contains("python3.12/site-packages"), "{text}");
    }
    let directory = tempfile::tempdir().unwrap();
    write(&directory.path().join("bin/python3"), "\u{7f}ELF");
    let report = search(
        directory.path(),
        &[("PATH", "@ROOT@/bin")],
        Component::Cudart,
    );
    assert!(report.attempts.is_empty(), "{}", summaries(&report));
}

/// Which directory they are relative to is another one for build scripts than for `cargo cuda`. The
/// tests run in a directory that has a `src`.
#[test]
fn relative_paths_are_refused_alike_wherever_they_lead() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    runtime(&root.join("good"));
    assert!(Path::new("src").is_dir());
    for (variable, value, named) in [
        ("CUDA_HOME", "src", "(src): is a relative path"),
        (
            "CUDA_PATH",
            "absent/cuda",
            "(absent/cuda): is a relative path",
        ),
        (
            "CUDA_BUILD_ROOTS",
            "@ROOT@/good:src",
            "(src): is a relative path",
        ),
        (
            "CUDAToolkit_ROOT",
            "./src;@ROOT@/good",
            "(./src): is a relative path",
        ),
        (
            "CUDA_BUILD_TOOLKIT",
            "Cargo.toml",
            "(Cargo.toml): is a relative path",
        ),
    ] {
        let text = refused(&search(root, &[(variable, value)], Component::Cudart));
        assert!(
            text.contains(named) && text.contains(variable),
            "{variable}={value}: {text}"
        );
        assert!(text.contains("to an absolute path, or unset it"), "{text}");
    }
    // What names no toolkit is not looked into.
    let env = [("VIRTUAL_ENV", "src"), ("CONDA_PREFIX", "src")];
    let text = summaries(&search(root, &env, Component::Cudart));
    assert_eq!(
        text.matches("(src): is a relative path").count(),
        2,
        "{text}"
    );
}

mod online {
    use super::*;
    use crate::components::site_packages;

    #[test]
    fn the_variable_that_is_read_first_decides_and_a_build_says_that_they_disagree() {
        let (cuda12, cuda13) = (site_packages(12), site_packages(13));
        for (home, path, expected) in [(&cuda12, &cuda13, 12), (&cuda13, &cuda12, 13)] {
            let directory = tempfile::tempdir().unwrap();
            let build = package(
                directory.path(),
                &[("CUDA_HOME", home), ("CUDA_PATH", path)],
            )
            .module("k.cu");
            let toolkit = build.toolkit().unwrap();
            assert_eq!(toolkit.version().major, expected);
            let lines = build.directives(toolkit).to_lines().unwrap();
            let warnings: Vec<&String> = lines
                .iter()
                .filter(|line| line.starts_with("cargo::warning="))
                .collect();
            assert_eq!(warnings.len(), 1, "{lines:?}");
            let (home, path) = (home.display(), path.display());
            for named in [
                format!("`CUDA_HOME` ({home})"),
                format!("`CUDA_PATH` ({path})"),
            ] {
                assert!(warnings[0].contains(&named), "{warnings:?}");
            }
        }
        // The wheels of CUDA 12 have no nvcc: what the first variable lacks comes from the second.
        let directory = tempfile::tempdir().unwrap();
        let build = package(
            directory.path(),
            &[("CUDA_HOME", &cuda12), ("CUDA_PATH", &cuda13)],
        )
        .module(Module::new("k.cu").engine(Engine::Nvcc));
        let toolkit = build.toolkit().unwrap();
        assert_eq!(
            (
                toolkit.version().to_string().as_str(),
                toolkit.warnings().len()
            ),
            ("13.4", 1)
        );
        // One place by two names is no disagreement.
        let link = directory.path().join("link");
        symlink(&cuda13, &link).unwrap();
        let build = package(
            directory.path(),
            &[("CUDA_HOME", &cuda13), ("CUDA_PATH", &link)],
        )
        .module("k.cu");
        assert!(build.toolkit().unwrap().warnings().is_empty());
        // Doctor says it, unless the variables are not read.
        let both = [
            ("CUDA_HOME", cuda12.to_str().unwrap()),
            ("CUDA_PATH", cuda13.to_str().unwrap()),
        ];
        assert_eq!(
            search(directory.path(), &both, Component::Nvrtc)
                .remarks
                .len(),
            1
        );
        // A list that names it, and more.
        let list = format!("{};{}", cuda13.display(), cuda12.display());
        let listed = [both[0], ("CUDAToolkit_ROOT", list.as_str())];
        assert!(
            search(directory.path(), &listed, Component::Nvrtc)
                .remarks
                .is_empty()
        );
        let stored = [both[0], both[1], ("CUDA_BUILD_SOURCES", "stored")];
        assert!(
            search(directory.path(), &stored, Component::Nvrtc)
                .remarks
                .is_empty()
        );
    }
}

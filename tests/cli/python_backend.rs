//! The build backend of the template: its hooks, as pip, uv and `python -m build` call them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::components::offline;
use crate::project::{checkout, copy, place, store};
use crate::support::{Finished, python};
use crate::tools;

/// The template with its dependency `cuda-build` inside, as a crate from a registry: without the workspace.
pub struct Package {
    pub path: PathBuf,
    /// The directory of this test.
    pub place: PathBuf,
}

impl Package {
    /// `None` where tests of real components are left out.
    pub fn new(name: &str) -> Option<Self> {
        if offline() {
            return None;
        }
        let place = place(name);
        store(&place.join("cache"), &[12, 13])?;
        let path = place.join("saxpy");
        copy(&checkout().join("templates/python"), &path);
        // It locks other components than the tests have.
        fs::remove_file(path.join("cuda-toolkits.lock")).unwrap();
        let target = place.join("package");
        let mut package = Command::new(env!("CARGO"));
        package
            .args([
                "package",
                "--quiet",
                "--no-verify",
                "--allow-dirty",
                "-p",
                "cuda-build",
            ])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(checkout());
        Finished::of(package.output().unwrap()).succeeded();
        let version = env!("CARGO_PKG_VERSION");
        let mut unpack = Command::new("tar");
        unpack
            .arg("xzf")
            .arg(target.join(format!("package/cuda-build-{version}.crate")))
            .current_dir(&path);
        Finished::of(unpack.output().unwrap()).succeeded();
        let unpacked = path.join("cuda-build");
        fs::rename(path.join(format!("cuda-build-{version}")), &unpacked).unwrap();
        // Cargo writes this file, and refuses to package it again.
        fs::remove_file(unpacked.join("Cargo.toml.orig")).unwrap();
        let package = Self { path, place };
        package.edit("Cargo.toml", "../../cuda-build", "cuda-build");
        Some(package)
    }

    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.path.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no `{from}`");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// A program in the package's directory, with `cargo cuda` and maturin on `PATH`.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let own = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"))
            .parent()
            .unwrap();
        let mut command = command(program, &self.path, &[own, tools::directory()]);
        command
            .env("CUDA_BUILD_CACHE_DIR", self.place.join("cache"))
            .env("CARGO_TARGET_DIR", self.place.join("target"));
        command
    }

    /// Calls a hook, which prints the name of its result.
    fn hook(&self, call: &str) -> Finished {
        let code = format!("import cuda_backend as b; print('made', b.{call})");
        let mut command = self.command(python());
        Finished::of(command.args(["-c", &code]).output().unwrap())
    }

    fn metadata(&self, settings: &str) -> String {
        let out = self.place.join("metadata");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).unwrap();
        let call = format!("prepare_metadata_for_build_wheel({out:?}, {settings})");
        let run = self.hook(&call);
        run.succeeded();
        let name = "saxpy-0.1.0.dist-info";
        assert!(run.stdout.ends_with(&format!("made {name}\n")), "{run:?}");
        fs::read_to_string(out.join(name).join("METADATA")).unwrap()
    }
}

/// A program with more directories in front of `PATH`, and without variables that name another toolkit.
pub fn command(
    program: impl AsRef<std::ffi::OsStr>,
    directory: &Path,
    places: &[&Path],
) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = places.iter().map(|place| (*place).to_owned());
    let paths = own.chain(std::env::split_paths(&path));
    command
        .current_dir(directory)
        .env("PATH", std::env::join_paths(paths).unwrap());
    for (name, _) in std::env::vars_os() {
        let name = name.into_string().unwrap_or_default();
        let foreign = [
            "CARGO_",
            "CUDA_",
            "NVCC",
            "VIRTUAL_ENV",
            "CONDA_",
            "LD_LIBRARY",
        ];
        if foreign.iter().any(|start| name.starts_with(start)) && name != "CARGO_HOME" {
            command.env_remove(name);
        }
    }
    command
}

fn requirements(metadata: &str) -> Vec<&str> {
    let lines = metadata.lines();
    lines
        .filter_map(|line| line.strip_prefix("Requires-Dist: "))
        .collect()
}

#[test]
fn metadata_names_nvidias_packages_without_a_build() {
    let Some(package) = Package::new("backend-metadata") else {
        return;
    };
    for (settings, start, end) in [
        ("{'cuda': '12'}", "nvidia-cuda-runtime-cu12>=12.", ",<13"),
        ("{'cuda': '13'}", "cuda-toolkit[cudart]>=13.", ",<14"),
        ("None", "cuda-toolkit[cudart]>=13.", ",<14"),
    ] {
        let metadata = package.metadata(settings);
        assert!(metadata.contains("\nName: saxpy\n"), "{metadata}");
        let [one] = requirements(&metadata)[..] else {
            panic!("{metadata}");
        };
        assert!(
            one.starts_with(start) && one.ends_with(end),
            "{settings}: {one}"
        );
    }
    // Nothing was compiled, so there is no target directory of a build.
    assert!(!package.place.join("target/cargo-cuda").exists());

    package.edit("Cargo.toml", "majors = [12, 13]", "majors = [12]");
    let metadata = package.metadata("{}");
    assert!(requirements(&metadata)[0].starts_with("nvidia-cuda-runtime-cu12"));
    let run = package.hook("build_wheel('/nowhere', {'cuda': '13'})");
    run.failed(
        cargo_cuda::exit_code::CONFIGURATION,
        &[
            "the package is not for CUDA 13",
            "lists 12",
            "-C cuda=<release>",
        ],
    );
}

#[test]
fn a_backend_that_cannot_build_reports_why() {
    let Some(package) = Package::new("backend-errors") else {
        return;
    };
    let prepare = "prepare_metadata_for_build_editable('.', {'cuad': '12'})";
    package.hook(prepare).failed(
        cargo_cuda::exit_code::USAGE,
        &[
            "unknown config setting `cuad`",
            "hint: the settings are `cuda`",
        ],
    );
    package.edit(
        "pyproject.toml",
        "dynamic = [\"dependencies\"]",
        "dependencies = [\"numpy\"]",
    );
    package.hook("build_editable('.')").failed(
        cargo_cuda::exit_code::CONFIGURATION,
        &[
            "`dependencies` in pyproject.toml is not dynamic",
            "dynamic = [\"dependencies\"]",
        ],
    );

    let code = "import cuda_backend; cuda_backend.build_wheel('.')";
    let mut alone = Command::new(python());
    alone
        .args(["-c", code])
        .env("PATH", "/nowhere")
        .current_dir(&package.path);
    Finished::of(alone.output().unwrap()).failed(
        1,
        &[
            "`cargo cuda` is not on `PATH`",
            "hint: install it with `cargo install --locked --git ",
        ],
    );
}

/// A package in a workspace, with a dependency beside it: maturin puts `pyproject.toml` at the root of the sdist.
#[test]
fn an_sdist_has_the_backend_and_dynamic_requirements() {
    if offline() {
        return;
    }
    let place = place("backend-sdist");
    let write = |path: &str, text: &str| {
        let path = place.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n",
    );
    let manifest = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n{rest}")
    };
    write("crates/core/Cargo.toml", &manifest("core-part", ""));
    write("crates/core/src/lib.rs", "");
    let rest =
        "[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\ncore-part = { path = \"../core\" }\n";
    write("crates/py/Cargo.toml", &manifest("pkg", rest));
    write("crates/py/src/lib.rs", "");
    let backend = fs::read_to_string(checkout().join("templates/python/cuda_backend.py"));
    write("crates/py/cuda_backend.py", &backend.unwrap());
    let pyproject = |include: &str| {
        let text = format!(
            "[build-system]\nrequires = [\"maturin>=1.13,<2\"]\nbuild-backend = \"cuda_backend\"\nbackend-path = [\".\"]\n\
             [project]\nname = \"pkg\"\nversion = \"1.0.0\"\ndynamic = [\"dependencies\"]\n[tool.maturin]\n{include}\n"
        );
        write("crates/py/pyproject.toml", &text);
    };
    let own = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"))
        .parent()
        .unwrap();
    let sdist = || {
        let code = "import cuda_backend as b; print('made', b.build_sdist('dist'))";
        let mut command = command(
            python(),
            &place.join("crates/py"),
            &[own, tools::directory()],
        );
        fs::create_dir_all(place.join("crates/py/dist")).unwrap();
        Finished::of(command.args(["-c", code]).output().unwrap())
    };
    pyproject("");
    sdist().failed(
        cargo_cuda::exit_code::WHEEL,
        &[
            "does not contain the build backend `cuda_backend.py`",
            "include = [{ path = \"cuda_backend.py\", format = \"sdist\" }]",
        ],
    );
    pyproject("include = [{ path = \"cuda_backend.py\", format = \"sdist\" }]");
    let run = sdist();
    run.succeeded();
    assert!(run.stdout.ends_with("made pkg-1.0.0.tar.gz\n"), "{run:?}");
    let mut unpack = Command::new("tar");
    unpack
        .args(["xzf", "crates/py/dist/pkg-1.0.0.tar.gz"])
        .current_dir(&place);
    Finished::of(unpack.output().unwrap()).succeeded();
    let root = place.join("pkg-1.0.0");
    for file in [
        "pyproject.toml",
        "cuda_backend.py",
        "crates/core/Cargo.toml",
        "crates/py/src/lib.rs",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let info = fs::read_to_string(root.join("PKG-INFO")).unwrap();
    assert!(info.contains("\nDynamic: Requires-Dist\n"), "{info}");
}

#[test]
fn develop_needs_an_environment_and_the_backend() {
    let Some(package) = Package::new("backend-develop") else {
        return;
    };
    let develop = || {
        let mut command = package.command(env!("CARGO_BIN_EXE_cargo-cuda"));
        command.args(["cuda", "develop"]);
        command
    };
    Finished::of(develop().output().unwrap()).failed(
        cargo_cuda::exit_code::CONFIGURATION,
        &[
            "no Python environment is active",
            "hint: run `python3 -m venv .venv",
        ],
    );
    let mut venv = package.command(python());
    venv.args(["-m", "venv", "--without-pip", ".venv"]);
    Finished::of(venv.output().unwrap()).succeeded();
    package.edit("pyproject.toml", "backend-path", "# backend-path");
    let run = develop()
        .env("VIRTUAL_ENV", package.path.join(".venv"))
        .output();
    Finished::of(run.unwrap()).failed(
        cargo_cuda::exit_code::CONFIGURATION,
        &[
            "names no build backend in the source tree",
            "copy `cuda_backend.py`",
        ],
    );
}

#[test]
fn installers_fetch_no_toolkit() {
    let Some(package) = Package::new("backend-no-fetch") else {
        return;
    };
    let cache = package.place.join("empty");
    let code = "import cuda_backend as b; b.prepare_metadata_for_build_wheel('.', {'cuda': '13'})";
    let mut hook = package.command(python());
    hook.args(["-c", code])
        .env("CUDA_BUILD_CACHE_DIR", &cache)
        .env("CUDA_BUILD_FETCH", "1")
        .env("UV_INDEX_URL", "http://127.0.0.1:9/simple")
        .env("UV_HTTP_RETRIES", "0");
    let run = Finished::of(hook.output().unwrap());
    run.failed(cargo_cuda::exit_code::NOT_FOUND, &["`cudart` not found"]);
    assert!(!cache.join("toolkits").exists(), "{run:?}");
}

//! The build backend of the template: its hooks, as pip, uv and `python -m build` call them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    pub fn new(name: &str) -> Self {
        let place = place(name);
        store(&place.join("cache"), &[12, 13]);
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
                "cuda-find-core",
                "-p",
                "cuda-build",
            ])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(checkout());
        Finished::of(package.output().unwrap()).succeeded();
        for (name, version) in [
            ("cuda-find-core", "0.0.1"),
            ("cuda-build", env!("CARGO_PKG_VERSION")),
        ] {
            let mut unpack = Command::new("tar");
            unpack
                .arg("xzf")
                .arg(target.join(format!("package/{name}-{version}.crate")))
                .current_dir(&path);
            Finished::of(unpack.output().unwrap()).succeeded();
            let unpacked = path.join(name);
            fs::rename(path.join(format!("{name}-{version}")), &unpacked).unwrap();
            // Cargo writes this file, and refuses to package it again.
            fs::remove_file(unpacked.join("Cargo.toml.orig")).unwrap();
        }
        let package = Self { path, place };
        package.edit("Cargo.toml", "../../cuda-build", "cuda-build");
        let dependency = "[dependencies.cuda-find-core]\n";
        let path = format!("{dependency}path = \"../cuda-find-core\"\n");
        package.edit("cuda-build/Cargo.toml", dependency, &path);
        package
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

mod online {
    use cargo_cuda::exit_code;

    use super::*;
    use crate::wheel_projects::online::{program, pyproject};

    fn requirements(metadata: &str) -> Vec<&str> {
        let lines = metadata.lines();
        lines
            .filter_map(|line| line.strip_prefix("Requires-Dist: "))
            .collect()
    }

    #[test]
    fn hooks_answer_without_a_build() {
        let package = Package::new("backend-hooks");
        for (settings, expected) in [
            ("{'cuda': '12'}", "nvidia-cuda-runtime-cu12>=12.0,<13"),
            ("{'cuda': '13'}", "cuda-toolkit[cudart]>=13.0,<14"),
            ("None", "cuda-toolkit[cudart]>=13.0,<14"),
        ] {
            let metadata = package.metadata(settings);
            assert!(metadata.contains("\nName: saxpy\n"), "{metadata}");
            assert_eq!(requirements(&metadata), [expected], "{settings}");
        }
        // cudarc loads cuBLAS by name, so no native module needs it.
        let features = "\"nvrtc\", \"dynamic-loading\"";
        let with_cublas = features.replace(',', ", \"cublas\",");
        package.edit("Cargo.toml", features, &with_cublas);
        let metadata = package.metadata("{'cuda': '13'}");
        let expected = "cuda-toolkit[cudart,nvrtc,cublas]>=13.0,<14";
        assert_eq!(requirements(&metadata), [expected]);
        package.edit("Cargo.toml", &with_cublas, features);
        // Nothing was compiled, so there is no target directory of a build.
        assert!(!package.place.join("target/cargo-cuda").exists());

        package.edit("Cargo.toml", "majors = [12, 13]", "majors = [12]");
        let metadata = package.metadata("{}");
        assert!(requirements(&metadata)[0].starts_with("nvidia-cuda-runtime-cu12"));
        let run = package.hook("build_wheel('/nowhere', {'cuda': '13'})");
        let words = [
            "the package is not for CUDA 13",
            "lists 12",
            "-C cuda=<release>",
        ];
        run.failed(exit_code::CONFIGURATION, &words);

        // Installers fetch no toolkit.
        let cache = package.place.join("empty");
        let code = "import cuda_backend as b; b.prepare_metadata_for_build_wheel('.')";
        let mut hook = package.command(python());
        hook.args(["-c", code])
            .env("CUDA_BUILD_CACHE_DIR", &cache)
            .env("CUDA_BUILD_FETCH", "1")
            .env("UV_INDEX_URL", "http://127.0.0.1:9/simple");
        let run = Finished::of(hook.output().unwrap());
        run.failed(exit_code::NOT_FOUND, &["`cudart` not found"]);
        assert!(!cache.join("toolkits").exists(), "{run:?}");

        let mut alone = Command::new(python());
        alone
            .args(["-c", "import cuda_backend; cuda_backend.build_wheel('.')"])
            .env("PATH", "/nowhere")
            .current_dir(&package.path);
        let words = [
            "`cargo cuda` is not on `PATH`",
            "hint: install it with `cargo install",
        ];
        Finished::of(alone.output().unwrap()).failed(1, &words);
    }

    #[test]
    fn pip_builds_a_wheel_that_requires_what_is_declared() {
        let place = place("backend-build");
        store(&place.join("cache"), &[13]);
        let project = place.join("project");
        program(&project, "backend-build", "[workspace]\n");
        pyproject(&project, "backend-build", "");
        let edit = |file: &str, from: &str, to: &str| {
            let text = fs::read_to_string(project.join(file)).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(project.join(file), text.replace(from, to)).unwrap();
        };
        let backend = "build-backend = \"cuda_backend\"\nbackend-path = [\".\"]";
        edit("pyproject.toml", "build-backend = \"maturin\"", backend);
        let name = "name = \"backend-build\"\n";
        edit(
            "pyproject.toml",
            name,
            &format!("{name}dynamic = [\"dependencies\"]\n"),
        );
        let source = checkout().join("templates/python/cuda_backend.py");
        fs::copy(source, project.join("cuda_backend.py")).unwrap();
        let pip = || {
            let program = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"));
            let places = [program.parent().unwrap(), tools::directory()];
            let mut command = command(python(), &project, &places);
            command
                .args([
                    "-m",
                    "pip",
                    "wheel",
                    ".",
                    "--no-deps",
                    "--no-build-isolation",
                ])
                .args(["--disable-pip-version-check", "--wheel-dir", "out"])
                .env("CUDA_BUILD_CACHE_DIR", place.join("cache"));
            Finished::of(command.output().unwrap())
        };
        let run = pip();
        assert_eq!(run.code, 0, "{run:?}");
        let wheels = crate::wheel_template::files(&project.join("out"));
        let wheel = cargo_cuda::package::archive::WheelArchive::open(&wheels[0]).unwrap();
        let metadata = wheel
            .text(&format!("{}/METADATA", wheel.dist_info))
            .unwrap();
        assert!(metadata.contains("Name: backend-build\n"), "{metadata}");
        assert_eq!(requirements(&metadata), ["cuda-toolkit[cudart]>=13.0,<14"]);

        // A module that needs an undeclared component is an error, because pip has read the requirements before.
        edit(
            "Cargo.toml",
            "components = [\"cudart\"]",
            "components = [\"nvrtc\"]",
        );
        let run = pip();
        assert_ne!(run.code, 0, "{run:?}");
        for text in [
            "needs cuda-toolkit[cudart,nvrtc]>=13.0,<14, which does not follow",
            "hint: add \"cudart\"",
        ] {
            assert!((run.stdout.clone() + &run.stderr).contains(text), "{run:?}");
        }
    }

    /// A package in a workspace, with a dependency beside it: maturin puts `pyproject.toml` at the root of the sdist.
    #[test]
    fn an_sdist_has_the_backend_and_dynamic_requirements() {
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
            format!(
                "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n{rest}"
            )
        };
        write("crates/core/Cargo.toml", &manifest("core-part", ""));
        write("crates/core/src/lib.rs", "");
        let rest = "[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\ncore-part = { path = \"../core\" }\n";
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
            exit_code::WHEEL,
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
}

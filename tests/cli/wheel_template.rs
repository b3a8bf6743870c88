//! `cargo cuda wheel` of the template: two wheels, installed from the package index's
//! dependencies, imported without a driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::{checkout, copy};
use crate::support::{Finished, python as system_python};
use crate::tools;

/// A clone of the repository: the template and the library, where they lie in it. What was compiled stays between
/// runs, so that dependencies compile once.
pub fn clone(name: &str) -> PathBuf {
    let clone = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    // An earlier run may have copied files that are gone since.
    let _ = fs::remove_dir_all(clone.join("cuda-build"));
    let _ = fs::remove_dir_all(clone.join("cuda-find-core"));
    for part in [
        "cuda-find",
        "cuda-find-core",
        "cuda-build",
        "templates/python",
    ] {
        copy(&checkout().join(part), &clone.join(part));
    }
    // cuda-build inherits from the workspace; a clone has one.
    for part in ["Cargo.toml", "cargo-cuda/Cargo.toml"] {
        fs::create_dir_all(clone.join(part).parent().unwrap()).unwrap();
        fs::copy(checkout().join(part), clone.join(part)).unwrap();
    }
    let project = clone.join("templates/python");
    // It locks other components than the tests have.
    fs::remove_file(project.join("cuda-toolkits.lock")).unwrap();
    project
}

/// `cargo cuda wheel` with maturin on `PATH` and a store that holds 12 and 13.
pub fn wheel(project: &Path, cache: &Path, arguments: &[&str]) -> Command {
    let mut command = clean(Command::new(env!("CARGO_BIN_EXE_cargo-cuda")), cache);
    command
        .args(["cuda", "wheel"])
        .args(arguments)
        .current_dir(project)
        // What the compiler makes of the Rust code matters to no test.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    command
}

/// A command with maturin on `PATH`, this store, and no variables that name another toolkit.
pub fn clean(mut command: Command, cache: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools::directory().to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    command.env("CUDA_BUILD_CACHE_DIR", cache);
    for name in [
        "CARGO_TARGET_DIR",
        "CUDA_HOME",
        "CUDA_PATH",
        "NVCC",
        "VIRTUAL_ENV",
        "LD_LIBRARY_PATH",
    ] {
        command.env_remove(name);
    }
    command
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The versions that CUDA's packages have when the wheels are installed, whatever is newest in the
/// index.
pub fn constraints(place: &Path) -> PathBuf {
    let path = place.join("constraints.txt");
    let text = "cuda-toolkit==13.4.3\nnvidia-cuda-runtime-cu12==12.9.79\nnvidia-cuda-nvrtc-cu12==12.9.86\n";
    fs::write(&path, text).unwrap();
    path
}

/// An environment in which pip has installed these wheels.
pub fn venv(parent: &Path, name: &str, wheels: &[&PathBuf]) -> PathBuf {
    let venv = parent.join(name);
    let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
    run(Command::new(system_python())
        .args(["-m", "venv"])
        .arg(&venv));
    if !wheels.is_empty() {
        run(Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(wheels)
            .args(["--constraint".into(), constraints(parent)]));
    }
    venv
}

pub fn python(venv: &Path, code: &str) -> Finished {
    let mut command = Command::new(venv.join("bin/python"));
    command
        .args(["-c", code])
        .env("LD_DEBUG", "libs")
        .env_remove("LD_LIBRARY_PATH")
        .current_dir(venv);
    Finished::of(command.output().unwrap())
}

/// The file that a module has loaded, from the loader's messages.
#[track_caller]
pub fn loaded(run: &Finished, soname: &str) -> PathBuf {
    let mut lines = run.stderr.lines();
    let line = lines.find(|line| line.contains("calling init") && line.contains(soname));
    fs::canonicalize(line.unwrap().rsplit(' ').next().unwrap()).unwrap()
}

/// The first reason why an import fails is the one that a user sees.
#[test]
fn a_failed_import_names_the_library() {
    let place = tempfile::tempdir().unwrap();
    let package = place.path().join("saxpy");
    fs::create_dir(&package).unwrap();
    let init = checkout().join("templates/python/python/saxpy/__init__.py");
    fs::copy(init, package.join("__init__.py")).unwrap();
    let reason = "libcudart.so.13: cannot open shared object file";
    let native = format!("raise ImportError('{reason}')\n");
    fs::write(package.join("_native.py"), native).unwrap();
    let mut import = Command::new(system_python());
    import.args(["-I", "-c"]).arg(format!(
        "import sys; sys.path.insert(0, {:?}); import saxpy",
        place.path()
    ));
    let run = Finished::of(import.output().unwrap());
    assert_ne!(run.code, 0);
    let last = run.stderr.lines().last().unwrap_or_default();
    assert!(last.contains(reason), "{run:?}");
}

/// The real maturin requires cffi for a project that declares such bindings, and the template's backend passes it on.
#[test]
fn the_backend_requires_what_maturin_requires() {
    let place = tempfile::tempdir().unwrap();
    let template = checkout().join("templates/python");
    let project = fs::read_to_string(template.join("pyproject.toml")).unwrap();
    let bindings = "[tool.maturin]\nbindings = \"cffi\"";
    for (project, expected) in [
        (project.replace("[tool.maturin]", bindings), "['cffi']\n"),
        (project, "[]\n"),
    ] {
        fs::write(place.path().join("pyproject.toml"), project).unwrap();
        let mut hook = Command::new(tools::tool("maturin").with_file_name("python"));
        hook.env("PYTHONPATH", &template).current_dir(place.path());
        hook.args([
            "-c",
            "import cuda_backend as b; print(b.get_requires_for_build_editable())",
        ]);
        let run = Finished::of(hook.output().unwrap());
        run.succeeded();
        assert_eq!(run.stdout, expected, "{run:?}");
    }
}

mod online {
    use cargo_cuda::exit_code;
    use cargo_cuda::package::archive::WheelArchive;

    use super::*;
    use crate::project::{place, store};

    /// Imports the wheel's package and checks everything that it can say without a driver.
    fn check(venv: &Path, major: u32, version: &str, directory: &str) {
        let code = "import saxpy as m\n\
             print(m.cuda_runtime_version(), m.capabilities())\n\
             try:\n    print(m.axpy(2.0, [1.0, 2.0], [3.0, 4.0]))\n\
             except RuntimeError as error:\n    print('RuntimeError:', error)\n\
             try:\n    m.axpy(2.0, [1.0], [])\n\
             except ValueError as error:\n    print('ValueError:', error)\n";
        let run = python(venv, code);
        assert_eq!(run.code, 0, "{}", run.stdout);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(lines[0], format!("{version} 8.0, 9.0, 10.0, 12.0+PTX"));
        if !Path::new("/dev/nvidiactl").exists() {
            let expected = "RuntimeError: no CUDA driver is installed on this machine";
            assert_eq!(lines[1], expected);
        }
        assert_eq!(lines[2], "ValueError: x has 1 elements, y has 0");
        let soname = format!("libcudart.so.{major}");
        let loaded = loaded(&run, &soname);
        assert!(
            loaded.starts_with(fs::canonicalize(venv).unwrap()),
            "{loaded:?}"
        );
        assert!(
            loaded.ends_with(Path::new(directory).join(soname)),
            "{loaded:?}"
        );
    }

    #[test]
    #[ignore = "needs g++-aarch64-linux-gnu and Rust's target, and fetches 500 MB"]
    fn a_wheel_for_aarch64() {
        let work = place("wheel-aarch64");
        let project = clone("wheel-aarch64-clone");
        let arguments = [
            "--fetch",
            "--cuda",
            "13",
            "--target",
            "aarch64-unknown-linux-gnu",
        ];
        let mut wheel = wheel(&project, &work.join("cache"), &arguments);
        let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
        wheel.args(["--out".as_ref(), work.as_os_str()]);
        wheel.env(linker, "aarch64-linux-gnu-gcc");
        Finished::of(wheel.output().unwrap()).succeeded();
        let mut names = files(&work).into_iter();
        let wheel = names
            .find(|path| path.extension().is_some_and(|end| end == "whl"))
            .unwrap();
        let name = wheel.to_str().unwrap();
        assert!(
            name.contains("manylinux") && name.ends_with("_aarch64.whl"),
            "{name}"
        );
        let content = WheelArchive::open(&wheel).unwrap();
        let (_, facts) = content.modules().next().unwrap();
        assert_eq!(facts.rpath, ["$ORIGIN/../nvidia/cu13/lib"]);
        let mut audit = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        let audited = Finished::of(audit.args(["cuda", "audit", name]).output().unwrap());
        audited.succeeded();
        assert!(
            audited.stdout.contains("errors: 0, warnings: 0"),
            "{audited:?}"
        );
    }

    #[test]
    fn one_command_makes_two_wheels_that_import() {
        let work = place("wheel-template");
        let cache = work.join("cache");
        store(&cache, &[12, 13]);
        let project = clone("wheel-clone");
        let _ = fs::remove_dir_all(project.join("dist"));
        let run = wheel(&project, &cache, &["--cuda", "12,13"]).output();
        let run = Finished::of(run.unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(!run.stderr.contains("warning[W"), "{run:?}");
        for (count, line) in [
            (2, "  device code: "),
            (1, "  requires nvidia-cuda-runtime-cu12>=12.0,<13\n"),
            (1, "  requires cuda-toolkit[cudart]>=13.0,<14\n"),
        ] {
            assert_eq!(run.stdout.matches(line).count(), count, "{run:?}");
        }
        let note = "maturin's warning about these external libraries is expected";
        assert!(run.stderr.contains(note), "{run:?}");
        let wheels = files(&project.join("dist"));
        assert_eq!(wheels.len(), 2, "{wheels:?}");
        for (wheel, major, version, directory) in [
            (&wheels[0], 12, "12090", "nvidia/cuda_runtime/lib"),
            (&wheels[1], 13, "13040", "nvidia/cu13/lib"),
        ] {
            let content = WheelArchive::open(wheel).unwrap();
            let info = format!("saxpy_cu{major}-0.1.0.dist-info");
            let names: Vec<&str> = content.entries.keys().map(String::as_str).collect();
            let expected = [
                "saxpy/__init__.py",
                "saxpy/_native.abi3.so",
                &format!("{info}/METADATA"),
                &format!("{info}/WHEEL"),
                &format!("{info}/sboms/saxpy.cyclonedx.json"),
            ];
            assert_eq!(names, expected, "nothing of NVIDIA's is in it");
            let (_, facts) = content.modules().next().unwrap();
            assert_eq!(facts.rpath, [format!("$ORIGIN/../{directory}")]);
            assert!(facts.runpath.is_empty());
            let needed = facts.needed.iter().filter(|name| name.starts_with("libcu"));
            assert_eq!(Vec::from_iter(needed), [&format!("libcudart.so.{major}")]);
            let metadata = content.text(&format!("{info}/METADATA")).unwrap();
            for line in [
                format!("Name: saxpy-cu{major}"),
                "Requires-Python: >=3.9".to_owned(),
                format!("Classifier: Environment :: GPU :: NVIDIA CUDA :: {major}"),
            ] {
                assert!(metadata.lines().any(|l| l == line), "{line}: {metadata}");
            }
            assert_eq!(metadata.matches("Requires-Dist: ").count(), 1, "{metadata}");
            let venv = venv(&work, &format!("only-{major}"), &[wheel]);
            check(&venv, major, version, directory);
        }

        // What does not compile leaves nothing.
        let kernel = project.join("kernels/axpy.cu");
        let text = fs::read_to_string(&kernel).unwrap();
        fs::write(&kernel, text.replace("a * x[i]", "a * z[i]")).unwrap();
        let run = wheel(&project, &cache, &["--cuda", "12", "--out", "broken"]).output();
        let words = [
            "kernels/axpy.cu(6): error",
            "\"z\" is undefined",
            "maturin ended with code",
            "command:",
        ];
        Finished::of(run.unwrap()).failed(exit_code::WHEEL, &words);
        assert!(!project.join("broken").exists());
        let builds = files(&project.join("target/cargo-cuda"));
        let directories = builds.iter().filter(|build| build.is_dir());
        for left in directories.flat_map(|build| files(build)) {
            let name = left.file_name().unwrap().to_str().unwrap();
            assert!(!name.starts_with(".cargo-cuda-"), "{name}");
        }
    }
}

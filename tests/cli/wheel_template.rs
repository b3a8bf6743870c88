//! `cargo cuda wheel` of the template: two wheels, installed from the package index's
//! dependencies, imported without a driver.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cargo_cuda::wheel::archive::Wheel;
use cuda_build::internal::fatbin;

use crate::components::{offline, site_packages};
use crate::project::{Project, checkout, copy, place, store};
use crate::support::Finished;
use crate::tools::{self, tool};
use crate::wheel_publish;
use crate::wheel_resolution;

/// A clone of the repository: the template and the library, where they lie in it. TruncatedOutput between
/// runs with what was compiled, so that dependencies compile once.
pub fn clone(name: &str) -> PathBuf {
    let clone = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    // An earlier run may have copied files that are gone since.
    let _ = fs::remove_dir_all(clone.join("cuda-build"));
    for part in ["cuda-build", "templates/python"] {
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
        .current_dir(project);
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

/// The tests here share a target directory, and look at what is left in it.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
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

pub fn venv(parent: &Path, name: &str, wheels: &[&PathBuf]) -> PathBuf {
    let venv = parent.join(name);
    let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
    run(Command::new(tool("uv"))
        .args(["venv", "--quiet"])
        .arg(&venv));
    run(Command::new(tool("uv"))
        .args(["pip", "install", "--quiet", "--python"])
        .arg(&venv)
        .args(wheels)
        .args(["--constraint".into(), constraints(parent)]));
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

/// Imports the wheel's package and checks everything that it can say without a driver.
fn check(venv: &Path, major: u32, version: &str) {
    let code = "import saxpy as m\n\
         print(m.cuda_runtime_version(), m.capabilities())\n\
         print(m._native.__file__)\n\
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
        assert_eq!(lines[2], expected);
    } else if !lines[2].starts_with("RuntimeError: ") {
        assert_eq!(lines[2], "[5.0, 8.0]");
    }
    assert_eq!(lines[3], "ValueError: x has 1 elements, y has 0");

    let soname = format!("libcudart.so.{major}");
    let loaded = run
        .stderr
        .lines()
        .find(|l| l.contains("calling init") && l.contains(&soname))
        .unwrap();
    let loaded = fs::canonicalize(loaded.rsplit(' ').next().unwrap()).unwrap();
    let directory = if major == 12 {
        "nvidia/cuda_runtime/lib"
    } else {
        "nvidia/cu13/lib"
    };
    assert!(
        loaded.starts_with(fs::canonicalize(venv).unwrap()),
        "{}",
        loaded.display()
    );
    assert!(
        loaded.ends_with(Path::new(directory).join(soname)),
        "{}",
        loaded.display()
    );

    let native = fs::read(lines[1]).unwrap();
    let is_magic = |bytes: &[u8]| bytes == fatbin::MAGIC_BYTES;
    let start = native.windows(4).position(is_magic).unwrap();
    let device_code = venv.join("device_code");
    fs::write(&device_code, &native[start..]).unwrap();
    let cuobjdump = site_packages(13).unwrap().join("nvidia/cu13/bin/cuobjdump");
    let list = Command::new(cuobjdump)
        .args(["--list-elf", "--list-ptx"])
        .arg(device_code)
        .output();
    let list = Finished::of(list.unwrap());
    let files: Vec<&str> = list
        .stdout
        .lines()
        .filter(|line| line.contains(" file "))
        .collect();
    assert_eq!(files.len(), 5, "{list:?}");
    for expected in [
        "sm_80.cubin",
        "sm_90.cubin",
        "sm_100.cubin",
        "sm_120.cubin",
        "sm_120.ptx",
    ] {
        assert!(
            files.iter().any(|line| line.ends_with(expected)),
            "{files:?}"
        );
    }
}

#[test]
fn one_command_makes_two_wheels_of_the_template() {
    if offline() {
        return;
    }
    let _alone = alone();
    let work = place("wheel-template");
    let cache = work.join("cache");
    store(&cache, &[12, 13]).unwrap();
    let clones = [clone("wheel-clone"), clone("wheel-clone-2/another place")];
    let reports = RefCell::new(Vec::new());
    let built = clones.each_ref().map(|project| {
        let _ = fs::remove_dir_all(project.join("dist"));
        // Where, when and by whom a wheel is built does not change it.
        let mut command = clean(Command::new("sh"), &cache);
        let is_first = *project == clones[0];
        let umask = if is_first { "022" } else { "077" };
        let script = format!("umask {umask} && exec \"$0\" cuda wheel --cuda 12,13 --metapackage");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_cargo-cuda")]);
        if !is_first {
            command.env("LC_ALL", "C.UTF-8").env("TZ", "Asia/Tokyo");
            command.env("SOURCE_DATE_EPOCH", "1700000000");
        }
        let run = Finished::of(command.current_dir(project).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(!run.stderr.contains("warning[W"), "{run:?}");
        let largest = "  saxpy/_native.abi3.so: ";
        assert_eq!(run.stdout.matches(largest).count(), 2, "{run:?}");
        reports.borrow_mut().push(run.stdout.clone());
        assert!(
            run.stdout
                .contains("requires nvidia-cuda-runtime-cu12>=12.0,<13"),
            "{run:?}"
        );
        assert!(
            run.stdout
                .contains("requires cuda-toolkit[cudart]>=13.0,<14"),
            "{run:?}"
        );
        assert!(run.stdout.contains("requires glibc 2."), "{run:?}");
        assert!(
            run.stderr
                .contains("maturin's warning about external libraries is expected"),
            "{run:?}"
        );
        let wheels = files(&project.join("dist"));
        assert_eq!(wheels.len(), 3, "{wheels:?}");
        wheels
    });
    for (first, second) in built[0].iter().zip(&built[1]) {
        assert_eq!(first.file_name(), second.file_name());
        assert!(
            fs::read(first).unwrap() == fs::read(second).unwrap(),
            "{} differs",
            first.display()
        );
    }

    let [_, cu12, cu13] = &built[0][..] else {
        unreachable!()
    };
    for (major, wheel, rpath) in [
        (12, cu12, "$ORIGIN/../nvidia/cuda_runtime/lib"),
        (13, cu13, "$ORIGIN/../nvidia/cu13/lib"),
    ] {
        let content = Wheel::open(wheel).unwrap();
        let info = format!("saxpy_cu{major}-0.1.0.dist-info");
        let mut expected = [
            "saxpy/__init__.py".to_owned(),
            "saxpy/_native.abi3.so".to_owned(),
            format!("{info}/METADATA"),
            format!("{info}/WHEEL"),
            format!("{info}/sboms/saxpy.cyclonedx.json"),
        ];
        expected.sort();
        let mut names: Vec<&String> = content.entries.keys().collect();
        names.sort();
        assert_eq!(
            names,
            expected.iter().collect::<Vec<_>>(),
            "nothing of NVIDIA's is in it"
        );
        let facts = content.entries["saxpy/_native.abi3.so"]
            .elf
            .as_ref()
            .unwrap();
        assert_eq!(
            (&facts.rpath, facts.runpath.len()),
            (&vec![rpath.to_owned()], 0)
        );
        let needed: Vec<&String> = facts
            .needed
            .iter()
            .filter(|n| n.starts_with("libcu"))
            .collect();
        assert_eq!(needed, [&format!("libcudart.so.{major}")]);
        let metadata = content.text(&format!("{info}/METADATA")).unwrap();
        for line in [
            format!("Name: saxpy-cu{major}"),
            "Requires-Python: >=3.9".to_owned(),
            format!("Classifier: Environment :: GPU :: NVIDIA CUDA :: {major}"),
        ] {
            assert!(
                metadata.lines().any(|l| l == line),
                "`{line}` is missing: {metadata}"
            );
        }
        assert_eq!(metadata.matches("Requires-Dist: ").count(), 1, "{metadata}");
    }

    check(&venv(&work, "only-12", &[cu12]), 12, "12090");
    check(&venv(&work, "only-13", &[cu13]), 13, "13040");
    wheel_publish::publish_and_install(&reports.borrow()[0], &clones[0], &work);
    for (wheel, version) in [(cu12, "12000"), (cu13, "13000")] {
        let found = wheel_resolution::runs_with_the_lowest_versions(&work, wheel);
        assert_eq!(found, version);
    }
    wheel_resolution::resolves_beside_pytorch_and_cupy(cu12, cu13);
    // Replaces the wheels of this clone.
    wheel_publish::run_workflow(&clones[0], &cache, 13);
}

#[test]
fn a_wheel_that_does_not_compile_leaves_nothing() {
    if offline() {
        return;
    }
    let _alone = alone();
    let work = place("wheel-broken");
    let cache = work.join("cache");
    store(&cache, &[12]).unwrap();
    let project = clone("wheel-broken-clone");
    let kernel = project.join("kernels/axpy.cu");
    let text = fs::read_to_string(&kernel)
        .unwrap()
        .replace("a * x[i]", "a * z[i]");
    fs::write(&kernel, text).unwrap();
    let dist = project.join("dist");
    let _ = fs::remove_dir_all(&dist);
    // Dependencies are compiled once for both tests.
    let target = project.join("../../../wheel-clone/templates/python/target");
    let mut command = wheel(&project, &cache, &["--cuda", "12"]);
    let run = Finished::of(command.env("CARGO_TARGET_DIR", &target).output().unwrap());
    run.failed(
        cargo_cuda::exit_code::WHEEL,
        &[
            "kernels/axpy.cu(6): error",
            "\"z\" is undefined",
            "maturin ended with code",
            "command:",
        ],
    );
    assert!(!dist.exists(), "{:?}", files(&dist));
    let builds = files(&target.join("cargo-cuda"));
    let directories = builds.iter().filter(|build| build.is_dir());
    let left: Vec<PathBuf> = directories.flat_map(|build| files(build)).collect();
    assert!(!left.is_empty(), "{builds:?}");
    assert!(
        !left.iter().any(|p| p
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(".cargo-cuda-")),
        "{left:?}"
    );
}

#[test]
fn a_distribution_name_that_leads_elsewhere() {
    let Some(project) = Project::template("python", &[13]) else {
        return;
    };
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    for name in ["/elsewhere/x", "../../up", "a b", "x\\ny", ""] {
        let table = format!("\n[package.metadata.cuda.wheel]\nname = \"{name}\"\n");
        project.write("Cargo.toml", &format!("{manifest}{table}"));
        let mut wheel = wheel(&project.path, &project.cache, &["--cuda", "13"]);
        let run = Finished::of(wheel.output().unwrap());
        run.failed(
            cargo_cuda::exit_code::WHEEL,
            &[
                "`name` in `[package.metadata.cuda.wheel]`: ",
                "is not a valid name",
                "hint: use ASCII letters",
            ],
        );
        assert!(!project.path.join("dist").exists());
    }
}

//! `cargo cuda wheel` of a module above crates that look for CUDA by themselves, as published.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_cuda::wheel::archive::Wheel;
use cargo_cuda::wheel::elf::ElfFacts;

use crate::components::offline;
use crate::project::{place, store};
use crate::support::Finished;
use crate::wheel_template::{files, python, venv, wheel};

const MANIFEST: &str = r#"[package]
name = "unchanged-module"
version = "0.1.0"
edition = "2024"

[lib]
name = "rtc"
crate-type = ["cdylib"]

[dependencies]
pyo3 = { version = "=0.30.1", features = ["abi3-py39"] }

[dependencies.cudarc]
version = "=0.19.10"
optional = true
default-features = false
features = ["std", "nvrtc", "cuda-version-from-build-system", "dynamic-linking"]

[features]
rtc = ["dep:cudarc"]
driver = ["cudarc/driver"]

[package.metadata.cuda]
majors = [12, 13]
capabilities = ["8.0"]

[workspace]
"#;

/// What switches cudarc on is said here alone.
const PYPROJECT: &str = r#"[build-system]
requires = ["maturin>=1.13,<2"]
build-backend = "maturin"
[project]
name = "rtc"
version = "0.1.0"
requires-python = ">=3.9"
[tool.maturin]
module-name = "acme.gpu.rtc"
features = ["pyo3/extension-module", "rtc"]
"#;

const LIB: &str = r#"
#[pyo3::pymodule]
mod rtc {
    use pyo3::prelude::*;
    #[pyfunction]
    fn version() -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        unsafe { cudarc::nvrtc::sys::nvrtcVersion(&mut major, &mut minor) }.result().unwrap();
        (major, minor)
    }
    #[cfg(feature = "driver")]
    #[pyfunction]
    fn driver_version() -> i32 {
        let mut version = 0;
        unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut version) }.result().unwrap();
        version
    }
}
"#;

fn project(root: &Path) -> PathBuf {
    fs::create_dir_all(root.join("src")).unwrap();
    fs::create_dir_all(root.join("acme/gpu")).unwrap();
    for (file, text) in [
        ("Cargo.toml", MANIFEST),
        ("pyproject.toml", PYPROJECT),
        ("src/lib.rs", LIB),
        // `acme` is a namespace package.
        ("acme/gpu/__init__.py", "from .rtc import version\n"),
    ] {
        fs::write(root.join(file), text).unwrap();
    }
    root.to_owned()
}

fn module(wheel: &Path) -> (String, ElfFacts, String) {
    let content = Wheel::open(wheel).unwrap();
    let (path, facts) = content.modules().next().unwrap();
    let metadata = content.text(&format!("{}/METADATA", content.dist_info));
    (path.to_owned(), facts.clone(), metadata.unwrap())
}

fn cudas(facts: &ElfFacts) -> Vec<&str> {
    let names = facts.needed.iter().map(String::as_str);
    names
        .filter(|name| name.starts_with("libcu") || name.starts_with("libnv"))
        .collect()
}

#[test]
fn a_module_above_published_crates_requires_what_it_needs() {
    if offline() {
        return;
    }
    let work = place("wheel-unchanged");
    let cache = work.join("cache");
    store(&cache, &[12, 13]).unwrap();
    let build = |project: &Path, arguments: &[&str]| {
        let all = [&["-v", "--profile", "dev"], arguments].concat();
        let mut command = wheel(project, &cache, &all);
        // One that nothing here reads: it stays, and makes another environment.
        command.env("CUDAARCHS", project.file_name().unwrap());
        let run = Finished::of(command.output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(
            run.stderr.contains("note: CUDAARCHS stays as you set it"),
            "{run:?}"
        );
        run
    };
    let first = project(&work.join("first"));
    let run = build(&first, &["--cuda", "12,13"]);
    assert!(
        run.stderr
            .contains("note: the module needs nvrtc, which `components` does not list"),
        "{run:?}"
    );
    let wheels = files(&first.join("dist"));
    for (index, major, rpath, requirement) in [
        (
            0,
            12,
            "$ORIGIN/../../nvidia/cuda_nvrtc/lib",
            "nvidia-cuda-nvrtc-cu12>=12.0,<13",
        ),
        (
            1,
            13,
            "$ORIGIN/../../nvidia/cu13/lib",
            "cuda-toolkit[nvrtc]>=13.0,<14",
        ),
    ] {
        let (path, facts, metadata) = module(&wheels[index]);
        assert_eq!(path, "acme/gpu/rtc.abi3.so");
        assert_eq!(cudas(&facts), [format!("libnvrtc.so.{major}")]);
        assert_eq!(
            (facts.rpath.as_slice(), facts.runpath.len()),
            (&[rpath.to_owned()][..], 0)
        );
        let requires: Vec<&str> = metadata
            .lines()
            .filter_map(|line| line.strip_prefix("Requires-Dist: "))
            .collect();
        assert_eq!(requires, [requirement]);

        let venv = venv(&work, &format!("venv-{major}"), &[&wheels[index]]);
        let run = python(&venv, "import acme.gpu as m; print(*m.version())");
        assert_eq!(
            run.stdout,
            if major == 12 { "12 9\n" } else { "13 4\n" },
            "{}",
            run.code
        );
        let loaded = run
            .stderr
            .lines()
            .find(|l| l.contains("calling init") && l.contains("/libnvrtc.so"));
        let loaded = fs::canonicalize(loaded.unwrap().rsplit(' ').next().unwrap()).unwrap();
        assert!(
            loaded.starts_with(fs::canonicalize(&venv).unwrap()),
            "{}",
            loaded.display()
        );
    }

    let second = project(&work.join("second place/here"));
    build(&second, &["--cuda", "13"]);
    let same = fs::read(&wheels[1]).unwrap() == fs::read(&files(&second.join("dist"))[0]).unwrap();
    assert!(same, "two checkouts give different wheels");

    // Declared, it is there from the start. A declared library that the module does not link is required as well,
    // because code may open it by name. The driver is the machine's own: nothing in the wheel
    // stands in for it, and no package is required for it.
    let declared = MANIFEST.replace(
        "capabilities",
        "components = [\"nvrtc\", \"cudart\", { name = \"cudnn\", optional = true }]\ncudart = \"shared\"\ncapabilities",
    );
    fs::write(first.join("Cargo.toml"), declared).unwrap();
    let run = build(
        &first,
        &[
            "--cuda",
            "13",
            "--",
            "--features",
            "pyo3/extension-module,rtc,driver",
        ],
    );
    assert!(!run.stderr.contains("linking again"), "{run:?}");
    let driver = "needs libcuda.so.1 of NVIDIA's driver";
    assert!(run.stdout.contains(driver), "{run:?}");
    let (_, facts, metadata) = module(&wheels[1]);
    let mut needed = cudas(&facts);
    needed.sort_unstable();
    assert_eq!(needed, ["libcuda.so.1", "libnvrtc.so.13"]);
    // cuDNN is not in the toolkit of this build. Users can install it.
    let directories = ["cu13", "cudnn"].map(|name| format!("$ORIGIN/../../nvidia/{name}/lib"));
    assert_eq!(facts.rpath, directories);
    for expected in [
        "Requires-Dist: cuda-toolkit[cudart,nvrtc]>=13.0,<14\n",
        "Requires-Dist: nvidia-cudnn-cu13>=",
        "Provides-Extra: cudnn\n",
    ] {
        assert!(metadata.contains(expected), "{metadata}");
    }
    let venv = venv(&work, "venv-driver", &[&wheels[1]]);
    let run = python(
        &venv,
        "import acme.gpu.rtc as m; print(m.version(), m.driver_version())",
    );
    if run.code == 0 {
        let stub = run
            .stderr
            .lines()
            .find(|l| l.contains("calling init") && l.contains("/stubs/"));
        assert_eq!(stub, None);
    } else {
        let missing = "ImportError: libcuda.so.1: cannot open shared object file";
        assert!(run.stderr.contains(missing), "{}", run.stdout);
    }
}

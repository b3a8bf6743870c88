//! `cargo cuda wheel` of projects in the shapes that maturin's users write. Most crates are programs, because a program
//! needs no other crate and compiles in a second.

pub mod online {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use cargo_cuda::exit_code;
    use cargo_cuda::package::archive::WheelArchive;
    use cargo_cuda::package::elf::ElfFacts;

    use crate::project::{Project, place, store};
    use crate::support::Finished;
    use crate::tools;
    use crate::wheel_template::{files, loaded, python, venv, wheel};

    const MAIN: &str = r#"
unsafe extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }
fn main() {
    let mut version = 0;
    assert_eq!(unsafe { cudaRuntimeGetVersion(&mut version) }, 0);
    println!("{version} {}", std::env::args().skip(1).collect::<Vec<_>>().join(" "));
}
"#;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A crate with a program that links the CUDA runtime.
    pub fn program(directory: &Path, name: &str, workspace: &str) {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [package.metadata.cuda]\nmajors = [13]\ncomponents = [\"cudart\"]\ncudart = \"shared\"\n\
         capabilities = [\"8.0\"]\n{workspace}"
        );
        write(&directory.join("Cargo.toml"), &manifest);
        let script = "fn main() { println!(\"cargo:rustc-link-lib=dylib=cudart\") }\n";
        write(&directory.join("build.rs"), script);
        write(&directory.join("src/main.rs"), MAIN);
    }

    const WORKSPACE: &str = "[workspace]\n";

    /// A `pyproject.toml` for a program; `more` is for `[tool.maturin]`.
    pub fn pyproject(directory: &Path, name: &str, more: &str) {
        let text = format!(
            "[build-system]\nrequires = [\"maturin>=1.13,<2\"]\nbuild-backend = \"maturin\"\n\
         [project]\nname = \"{name}\"\nversion = \"2.0.0\"\nrequires-python = \">=3.9\"\n\
         [tool.maturin]\nbindings = \"bin\"\n{more}"
        );
        write(&directory.join("pyproject.toml"), &text);
    }

    /// A directory for projects, and a store with CUDA 13.
    fn work(name: &str) -> (PathBuf, PathBuf) {
        let work = place(name);
        let cache = work.join("cache");
        store(&cache, &[13]);
        (work, cache)
    }

    /// Runs `cargo cuda wheel` in `directory`, and returns the wheels in its `dist`.
    #[track_caller]
    fn built(directory: &Path, cache: &Path, arguments: &[&str]) -> Vec<PathBuf> {
        let dist = directory.join("dist");
        let _ = fs::remove_dir_all(&dist);
        let run = Finished::of(wheel(directory, cache, arguments).output().unwrap());
        run.succeeded();
        files(&dist)
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        let names = paths.iter().map(|path| path.file_name().unwrap());
        names.map(|name| name.to_str().unwrap()).collect()
    }

    #[track_caller]
    fn facts(wheel: &WheelArchive, path: &str) -> ElfFacts {
        let entry = wheel.entries.get(path);
        let entry = entry.unwrap_or_else(|| panic!("{:?}", wheel.entries.keys()));
        entry.elf.clone().unwrap()
    }

    #[test]
    fn a_program_finds_cuda_in_site_packages() {
        let (work, cache) = work("wheel-program");
        let project = work.join("project");
        program(&project, "cuda-version", WORKSPACE);
        let python = "python-source = \"python\"\nmodule-name = \"cuda_version\"\n";
        pyproject(&project, "cuda-version", python);
        // A library beside the program, deeper than the program, which also needs CUDA.
        let package = project.join("python/cuda_version/deep");
        write(&package.with_file_name("__init__.py"), "");
        write(&package.join("extra.c"), "int extra(void) { return 0; }\n");
        let library = |up: &str| {
            let cudart = cudart_directory(&cache);
            let run = Command::new("gcc")
                .args([
                    "-shared",
                    "-Wl,--no-as-needed",
                    "-Wl,--disable-new-dtags",
                    "-o",
                ])
                .arg(package.join("libextra.so"))
                .arg(package.join("extra.c"))
                .arg(cudart.join("libcudart.so.13"))
                .arg(format!("-Wl,-rpath,$ORIGIN/{up}/nvidia/cu13/lib"))
                .output();
            Finished::of(run.unwrap()).succeeded();
        };
        library("..");
        let run = wheel(&project, &cache, &["--", "--profile", "dev"]).output();
        Finished::of(run.unwrap()).ended_with(
            exit_code::AUDIT,
            &[
                "error[W06]: cuda_version/deep/libextra.so: needs `libcudart.so.13`",
                "does not lead to `nvidia/cu13/lib`",
            ],
        );
        library("../..");
        let wheels = built(&project, &cache, &["--", "--profile", "dev"]);
        let content = WheelArchive::open(&wheels[0]).unwrap();
        let moved = facts(&content, "cuda_version_cu13.scripts/cuda-version");
        assert_eq!(moved.rpath, ["$ORIGIN/../nvidia/cu13/lib"]);
        let script = "cuda_version_cu13-2.0.0.data/scripts/cuda-version";
        assert!(content.entries[script].executable);
        assert!(content.text(script).unwrap().starts_with("#!python\n"));

        let venv = venv(&work, "venv", &[&wheels[0]]);
        let mut command = Command::new(venv.join("bin/cuda-version"));
        let run = Finished::of(
            command
                .args(["a b", "--c"])
                .env_remove("LD_LIBRARY_PATH")
                .output()
                .unwrap(),
        );
        run.succeeded();
        assert_eq!(run.stdout, "13040 a b --c\n");
    }

    /// The directory with the runtime of CUDA 13 in a store.
    fn cudart_directory(cache: &Path) -> PathBuf {
        let stored = files(&cache.join("toolkits"));
        let stored = stored.iter().map(|stored| stored.join("nvidia/cu13/lib"));
        stored.into_iter().find(|path| path.is_dir()).unwrap()
    }

    #[test]
    fn a_major_without_nvcc_fails_first() {
        let script = "fn main() -> Result<(), cuda_build::Error> {\n    cuda_build::Build::new()?\n        \
                  .library(cuda_build::Library::new(\"k\").file(\"k.cu\"))\n        .run()\n}\n";
        let cuda = "majors = [13, 12]\ncapabilities = [\"8.0\"]\n";
        let project = Project::at(
            "wheel-without-nvcc",
            "wheel-without-nvcc-12",
            &[12, 13],
            cuda,
            &script.replace(".run()", ".run().map(drop)"),
            "fn main() {}\n",
        );
        project.write(
            "k.cu",
            "__global__ void k() {}\nvoid launch() { k<<<1, 1>>>(); }\n",
        );
        pyproject(&project.path, "without-nvcc", "");
        let mut command = wheel(&project.path, &project.cache, &["--", "--profile", "dev"]);
        command.env("CARGO_TARGET_DIR", &project.target);
        let run = Finished::of(command.output().unwrap());
        run.failed(exit_code::WHEEL, &["CUDA component `nvcc` not found"]);
        assert!(!run.stderr.contains("0.1.0 for CUDA 13"), "{run:?}");
        assert!(!run.stderr.contains("unset or correct"), "{run:?}");
        let hint = "hint: use NVRTC for modules, build for CUDA 13";
        assert!(run.stderr.contains(hint), "{run:?}");
        let longest = run.stderr.lines().map(str::len).max();
        assert!(longest < Some(1500), "{run:?}");
    }

    #[test]
    #[ignore = "minutes: the crate is chosen as cargo does"]
    fn the_crate_of_the_current_directory_is_built() {
        let (work, cache) = work("wheel-crates");
        write(
            &work.join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"first\", \"second\"]\n",
        );
        for name in ["first", "second"] {
            program(&work.join(name), name, "");
            pyproject(&work.join(name), name, "");
        }
        let dev = ["--out", "dist", "--", "--profile", "dev"];
        let run = wheel(&work, &cache, &dev).output();
        Finished::of(run.unwrap()).failed(
            exit_code::CONFIGURATION,
            &[
                "several packages in the workspace build a Python package: first, second",
                "hint: name one with `--package`",
            ],
        );
        let of_directory = built(&work.join("second"), &cache, &dev);
        assert!(names(&of_directory)[0].starts_with("second_cu13-2.0.0-"));
        let of_source = work.join("second/src");
        assert!(names(&built(&of_source, &cache, &dev))[0].starts_with("second_cu13-"));
        let named = [&["-p", "first"], &dev[..]].concat();
        assert!(names(&built(&work.join("second"), &cache, &named))[0].starts_with("first_cu13-"));
    }

    #[test]
    fn a_lone_program_needs_no_pyproject() {
        let (work, cache) = work("wheel-lone-program");
        program(&work, "lone", WORKSPACE);
        let wheels = built(&work, &cache, &["--", "--profile", "dev"]);
        assert!(names(&wheels)[0].starts_with("lone_cu13-0.1.0-py3-none-manylinux"));
    }

    #[test]
    fn auditwheel_is_skipped_if_pyproject_says_so() {
        let (work, cache) = work("wheel-skip-auditwheel");
        program(&work, "skipping", WORKSPACE);
        pyproject(&work, "skipping", "auditwheel = \"skip\"\n");
        let run = wheel(&work, &cache, &["--", "--profile", "dev"]).output();
        let run = Finished::of(run.unwrap());
        run.succeeded();
        for line in ["-linux_x86_64.whl (", "has no manylinux tag"] {
            assert!(run.stdout.contains(line), "{run:?}");
        }
        for line in ["to publish", "is expected"] {
            assert!(!format!("{run:?}").contains(line), "{run:?}");
        }
        for option in [
            "--auditwheel=check",
            "--skip-auditwheel",
            "-mCargo.toml",
            "--out",
        ] {
            let run = wheel(&work, &cache, &["--", option, "x"]).output();
            let text = format!("the arguments for maturin contain `{option}`");
            Finished::of(run.unwrap())
                .failed(exit_code::USAGE, &[&text, "`auditwheel = \"skip\"`"]);
        }
    }

    #[test]
    #[ignore = "minutes: pyproject.toml in a directory above the crate"]
    fn a_pyproject_above_the_crate_is_used() {
        let (work, cache) = work("wheel-above");
        let project = work.join("project");
        let inner = project.join("crates/py");
        program(&inner, "inner", WORKSPACE);
        let manifest = "manifest-path = \"crates/py/Cargo.toml\"\n";
        pyproject(&project, "outer", manifest);
        let dev = ["--", "--profile", "dev"];
        let is_outer = |directory: &Path, arguments: &[&str]| {
            let wheels = built(directory, &cache, arguments);
            let found = names(&wheels);
            let [name] = found[..] else {
                panic!("{found:?}");
            };
            assert!(name.starts_with("outer_cu13-2.0.0-"), "{name}");
            let content = WheelArchive::open(&wheels[0]).unwrap();
            let metadata = content.text("outer_cu13-2.0.0.dist-info/METADATA").unwrap();
            assert!(metadata.contains("Requires-Python: >=3.9"), "{metadata}");
        };
        is_outer(&project, &dev);
        is_outer(
            &project,
            &[&["--manifest-path", "crates/py/Cargo.toml"], &dev[..]].concat(),
        );
        is_outer(&inner, &dev);

        // With `--sdist`, maturin makes a source distribution, which has the same shape.
        let found = built(&project, &cache, &[&dev[..], &["--sdist"]].concat());
        let [sdist, wheel] = names(&found)[..] else {
            panic!("{found:?}");
        };
        assert_eq!(sdist, "outer-2.0.0.tar.gz");
        assert!(wheel.starts_with("outer_cu13-2.0.0-"), "{wheel}");
        let mut run = Command::new("tar");
        run.arg("xf").arg(&found[0]).current_dir(&work);
        Finished::of(run.output().unwrap()).succeeded();
        is_outer(&work.join("outer-2.0.0"), &dev);
    }

    #[test]
    #[ignore = "minutes: auditwheel copies third-party libraries"]
    fn third_party_libraries_are_reported_and_auditwheel_copies_them() {
        let (work, cache) = work("wheel-foreign");
        program(&work, "foreign", WORKSPACE);
        pyproject(&work, "foreign", "");
        let other = work.join("other");
        write(&other.join("other.c"), "int other(void) { return 7; }\n");
        let library = Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libother.so.1", "-o"])
            .arg(other.join("libother.so.1"))
            .arg(other.join("other.c"))
            .output();
        Finished::of(library.unwrap()).succeeded();
        symlink("libother.so.1", other.join("libother.so")).unwrap();
        let script = format!(
            "fn main() {{\n    println!(\"cargo:rustc-link-lib=dylib=cudart\");\n    \
         println!(\"cargo:rustc-link-lib=dylib=other\");\n    \
         println!(\"cargo:rustc-link-search=native={}\");\n}}\n",
            other.display()
        );
        write(&work.join("build.rs"), &script);
        let main = MAIN
            .replace("-> i32; }", "-> i32; fn other() -> i32; }")
            .replace(
                "{version} {}\", ",
                "{version} {} {}\", unsafe { other() }, ",
            );
        write(&work.join("src/main.rs"), &main);

        let run = |more: &[&str]| {
            let _ = fs::remove_dir_all(work.join("dist"));
            let mut command = wheel(&work, &cache, &[more, &["--", "--profile", "dev"]].concat());
            command.env("LD_LIBRARY_PATH", &other);
            let run = Finished::of(command.output().unwrap());
            run.succeeded();
            assert!(
                !run.stderr
                    .contains("warning about external libraries is expected")
            );
            (files(&work.join("dist")).remove(0), run)
        };
        let tags = |wheel: &Path| {
            let content = WheelArchive::open(wheel).unwrap();
            let text = content.text("foreign_cu13-2.0.0.dist-info/WHEEL").unwrap();
            let tags = text.lines().filter_map(|line| line.strip_prefix("Tag: "));
            tags.map(str::to_owned).collect::<Vec<_>>()
        };
        let (excluded, output) = run(&["--exclude", "libother*"]);
        assert!(tags(&excluded)[0].contains("manylinux_2_"), "{output:?}");
        let report = &output.stdout;
        assert!(report.contains("expects libother.so.1"), "{report}");
        assert!(!report.contains("auditwheel"), "{report}");

        let (reported, output) = run(&[]);
        assert_eq!(
            reported.file_name().unwrap(),
            "foreign_cu13-2.0.0-py3-none-linux_x86_64.whl"
        );
        assert_eq!(tags(&reported), ["py3-none-linux_x86_64"]);
        for text in [
            "  expects libother.so.1 on the system\n",
            "  has no manylinux tag, so package indexes refuse it",
        ] {
            assert!(output.stdout.contains(text), "{output:?}");
        }
        // The command of the hint.
        let start = "  hint: to copy the libraries into it: ";
        let command = output.stdout.lines().find_map(|it| it.strip_prefix(start));
        let command = command.unwrap();
        assert!(
            command.starts_with("auditwheel repair --exclude libcudart.so.13 "),
            "{command}"
        );
        let mut repair = Command::new("sh");
        repair.args(["-c", command]).current_dir(&work);
        repair.env("LD_LIBRARY_PATH", &other);
        let path = std::env::var("PATH").unwrap();
        repair.env("PATH", format!("{}:{path}", tools::directory().display()));
        Finished::of(repair.output().unwrap()).succeeded();
        let grafted = files(&work.join("wheelhouse")).remove(0);
        let name = grafted.file_name().unwrap().to_str().unwrap();
        assert!(name.contains("-manylinux_2_"), "{name}");
        let mut audit = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        let audit = audit.args(["cuda", "audit"]).arg(&grafted).output();
        Finished::of(audit.unwrap()).succeeded();
        let content = WheelArchive::open(&grafted).unwrap();
        let libraries: Vec<&String> = content
            .entries
            .keys()
            .filter(|path| path.starts_with("foreign_cu13.libs/"))
            .collect();
        assert_eq!(libraries.len(), 1, "nothing of NVIDIA's: {libraries:?}");
        let program = content
            .entries
            .keys()
            .find(|path| path.ends_with(".scripts/foreign"));
        let program = facts(&content, program.unwrap());
        assert_eq!(
            program.rpath,
            ["$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../foreign_cu13.libs"]
        );
        let venv = venv(&work, "venv", &[&grafted]);
        let run = Command::new(venv.join("bin/foreign"))
            .env_remove("LD_LIBRARY_PATH")
            .output();
        let run = Finished::of(run.unwrap());
        assert_eq!(run.stdout, "13040 7 \n", "{run:?}");
    }

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

    /// Only this file enables the features of cudarc.
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
# It differs in each build.
[tool.maturin.sbom]
rust = false
"#;

    /// A panic in generated code names the file.
    const BUILD: &str = r#"
fn main() {
    let file = std::path::Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("generated.rs");
    let code = "pub fn check(n: i32) { assert!(std::hint::black_box(n) == 0, \"not zero\") }\n";
    std::fs::write(file, code).unwrap();
}
"#;

    const LIB: &str = r#"
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
#[pyo3::pymodule]
mod rtc {
    use pyo3::prelude::*;
    #[pyfunction]
    fn version() -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        super::generated::check(major);
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

    fn module_project(root: &Path) -> PathBuf {
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join("acme/gpu")).unwrap();
        for (file, text) in [
            ("Cargo.toml", MANIFEST),
            ("pyproject.toml", PYPROJECT),
            ("build.rs", BUILD),
            ("src/lib.rs", LIB),
            // `acme` is a namespace package.
            ("acme/gpu/__init__.py", "from .rtc import version\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        root.to_owned()
    }

    fn module(wheel: &Path) -> (String, ElfFacts, String) {
        let content = WheelArchive::open(wheel).unwrap();
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
    #[ignore = "minutes: cudarc as published, in wheels of two majors"]
    fn a_module_above_published_crates_requires_what_it_needs() {
        let work = place("wheel-unchanged");
        let cache = work.join("cache");
        store(&cache, &[12, 13]);
        let build = |project: &Path, arguments: &[&str]| {
            let dev = &["--", "--profile", "dev"][usize::from(arguments.contains(&"--"))..];
            let all = [&["-v"], arguments, dev].concat();
            let mut command = wheel(project, &cache, &all);
            let run = Finished::of(command.output().unwrap());
            assert_eq!(run.code, 0, "{run:?}");
            run
        };
        let first = module_project(&work.join("first"));
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
            let version = if major == 12 { "12 9\n" } else { "13 4\n" };
            assert_eq!(run.stdout, version, "{}", run.code);
            let loaded = loaded(&run, "/libnvrtc.so");
            let is_inside = loaded.starts_with(fs::canonicalize(&venv).unwrap());
            assert!(is_inside, "{}", loaded.display());
        }

        let second = module_project(&work.join("second place/here"));
        build(&second, &["--cuda", "13"]);
        let [one, other] =
            [&wheels[1], &files(&second.join("dist"))[0]].map(|p| fs::read(p).unwrap());
        assert!(one == other, "two checkouts give different wheels");

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
        let driver = "needs `libcuda.so.1`, so an import fails without a GPU driver";
        assert!(run.stderr.contains(driver), "{run:?}");
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
    }
}

//! Programs, modules and libraries of others in the wheels of `cargo cuda wheel`: search path, place and tags.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;
use cargo_cuda::wheel::archive::Wheel;
use cargo_cuda::wheel::elf::ElfFacts;

use crate::project::Project;
use crate::support::Finished;
use crate::tools::{self, tool};
use crate::wheel_projects::{MAIN, WORKSPACE, built, program, pyproject, work, write};
use crate::wheel_template::{files, python, venv, wheel};

#[track_caller]
fn facts(wheel: &Wheel, path: &str) -> ElfFacts {
    let entry = wheel.entries.get(path);
    let entry = entry.unwrap_or_else(|| panic!("{:?}", wheel.entries.keys()));
    entry.elf.clone().unwrap()
}

#[test]
fn a_program_finds_cuda_in_site_packages() {
    let Some((work, cache)) = work("wheel-program") else {
        return;
    };
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
            .args(["-shared", "-o"])
            .arg(package.join("libextra.so"))
            .arg(package.join("extra.c"))
            .arg(cudart.join("libcudart.so.13"))
            .args(["-Wl,--no-as-needed", "-Wl,--disable-new-dtags"])
            .arg(format!("-Wl,-rpath,$ORIGIN/{up}/nvidia/cu13/lib"))
            .output();
        Finished::of(run.unwrap()).succeeded();
    };
    library("..");
    let run = wheel(&project, &cache, &["--profile", "dev"]).output();
    Finished::of(run.unwrap()).ended_with(
        exit_code::WHEEL,
        &[
            "cuda_version/deep/libextra.so has an unexpected search path",
            "expected DT_RPATH: $ORIGIN/../../nvidia/cu13/lib",
            "patchelf --force-rpath --set-rpath '$ORIGIN/../../nvidia/cu13/lib' libextra.so",
        ],
    );
    library("../..");
    let wheels = built(&project, &cache, &["--profile", "dev"]);
    let content = Wheel::open(&wheels[0]).unwrap();
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

const CFFI: &str = r#"
extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }
#[no_mangle]
pub extern "C" fn runtime_version() -> i32 {
    let mut version = 0;
    assert_eq!(unsafe { cudaRuntimeGetVersion(&mut version) }, 0);
    version
}
"#;

#[test]
fn a_module_deeper_than_its_name_is_linked_again() {
    let Some((work, cache)) = work("wheel-cffi") else {
        return;
    };
    program(
        &work,
        "acme-gpu",
        "[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n",
    );
    let manifest = work.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"2024\"", "\"2021\"")).unwrap();
    fs::remove_file(work.join("src/main.rs")).unwrap();
    write(&work.join("src/lib.rs"), CFFI);
    write(&work.join("acme/__init__.py"), "");
    pyproject(&work, "acme-gpu", "module-name = \"acme.gpu\"\n");
    let text = fs::read_to_string(work.join("pyproject.toml")).unwrap();
    let text = text.replace("\"bin\"", "\"cffi\"");
    let text = text.replace("[tool.", "dependencies = [\"cffi==2.1.1\"]\n[tool.");
    write(&work.join("pyproject.toml"), &text);
    let run = wheel(&work, &cache, &["--profile", "dev"]).output();
    let run = Finished::of(run.unwrap());
    run.succeeded();
    let note = "note: the module is 2 directories below site-packages, not 1; linking again";
    assert!(run.stderr.contains(note), "{run:?}");
    let wheels = files(&work.join("dist"));
    let content = Wheel::open(&wheels[0]).unwrap();
    let facts = facts(&content, "acme/gpu/libgpu.so");
    assert_eq!(facts.rpath, ["$ORIGIN/../../nvidia/cu13/lib"]);
    let venv = venv(&work, "venv", &[&wheels[0]]);
    let run = python(
        &venv,
        "from acme.gpu import lib; print(lib.runtime_version())",
    );
    assert_eq!(run.stdout, "13040\n", "{run:?}");
}

#[test]
fn libraries_of_others_are_copied_or_reported() {
    let Some((work, cache)) = work("wheel-foreign") else {
        return;
    };
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

    // A `PATH` without auditwheel.
    let bin = work.join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(tool("maturin"), bin.join("maturin")).unwrap();
    let cargo = PathBuf::from(env!("CARGO"));
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        bin.display(),
        cargo.parent().unwrap().display()
    );
    let run = |more: &[&str], path: Option<&str>| {
        let _ = fs::remove_dir_all(work.join("dist"));
        let mut command = wheel(&work, &cache, &[&["--profile", "dev"], more].concat());
        command.env("LD_LIBRARY_PATH", &other);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let run = Finished::of(command.output().unwrap());
        run.succeeded();
        assert!(
            !run.stderr
                .contains("warning about external libraries is expected")
        );
        (files(&work.join("dist")).remove(0), run)
    };
    let tags = |wheel: &Path| {
        let content = Wheel::open(wheel).unwrap();
        let text = content.text("foreign_cu13-2.0.0.dist-info/WHEEL").unwrap();
        let tags = text.lines().filter_map(|line| line.strip_prefix("Tag: "));
        tags.map(str::to_owned).collect::<Vec<_>>()
    };
    let (reported, output) = run(&[], Some(&path));
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
    // The user has the library.
    let (excluded, output) = run(&["--exclude", "libother*"], Some(&path));
    assert!(tags(&excluded)[0].contains("manylinux_2_"), "{output:?}");
    assert!(
        output.stdout.contains("expects libother.so.1"),
        "{output:?}"
    );

    let (grafted, output) = run(&["--rpath", "runpath"], None);
    assert!(
        output
            .stderr
            .contains("note: the search path is an RPATH, which"),
        "{output:?}"
    );
    let first = fs::read(&grafted).unwrap();
    let (grafted, _) = run(&["--rpath", "runpath"], None);
    assert!(fs::read(&grafted).unwrap() == first, "two builds differ");
    let name = grafted.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-manylinux_2_"), "{name}");
    assert!(!output.stdout.contains("expects "), "{output:?}");
    let content = Wheel::open(&grafted).unwrap();
    let libraries: Vec<&String> = content
        .entries
        .keys()
        .filter(|path| path.starts_with("foreign.libs/"))
        .collect();
    assert_eq!(libraries.len(), 1, "nothing of NVIDIA's: {libraries:?}");
    let program = content
        .entries
        .keys()
        .find(|path| path.ends_with(".scripts/foreign"));
    let program = facts(&content, program.unwrap());
    assert_eq!(
        program.rpath,
        ["$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../foreign.libs"]
    );
    let venv = venv(&work, "venv", &[&grafted]);
    let run = Command::new(venv.join("bin/foreign"))
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let run = Finished::of(run.unwrap());
    assert_eq!(run.stdout, "13040 7 \n", "{run:?}");
    assert!(tools::directory().join("auditwheel").is_file());
}

#[test]
fn a_major_without_nvcc_fails_first() {
    let script = "fn main() -> Result<(), cuda_build::Error> {\n    cuda_build::Build::new()?\n        \
                  .library(cuda_build::Library::new(\"k\").file(\"k.cu\"))\n        .run()\n}\n";
    let cuda = "majors = [13, 12]\ncapabilities = [\"8.0\"]\n";
    let Some(project) = Project::at(
        "wheel-without-nvcc",
        "wheel-without-nvcc-12",
        &[12, 13],
        cuda,
        &script.replace(".run()", ".run().map(drop)"),
        "fn main() {}\n",
    ) else {
        return;
    };
    project.write(
        "k.cu",
        "__global__ void k() {}\nvoid launch() { k<<<1, 1>>>(); }\n",
    );
    pyproject(&project.path, "without-nvcc", "");
    let mut command = wheel(&project.path, &project.cache, &["--profile", "dev"]);
    command.env("CARGO_TARGET_DIR", &project.target);
    let run = Finished::of(command.output().unwrap());
    run.failed(exit_code::WHEEL, &["CUDA component `nvcc` not found"]);
    assert!(!run.stderr.contains("0.1.0 for CUDA 13"), "{run:?}");
    assert!(!run.stderr.contains("unset or correct"), "{run:?}");
    let last = run.stderr.lines().last().unwrap();
    let expected = "hint: if the build script of wheel-without-nvcc needs nvcc: no wheel of CUDA 12 has nvcc: use NVRTC for modules";
    assert!(last.starts_with(expected), "{run:?}");
    let longest = run.stderr.lines().map(str::len).max();
    assert!(longest < Some(1500), "{run:?}");
}

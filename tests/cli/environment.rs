//! Crates and projects that nobody changed, in the environment that `cargo cuda` gives them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use cargo_cuda::shell::Shell;

use crate::components::site_packages;
use crate::project::Project;
use crate::support::{Finished, Sandbox, Tool};
use crate::tools::tool;

/// Crates as they are published, and a program that calls a function of each library.
const MANIFEST: &str = r#"[package]
name = "unchanged"
version = "0.1.0"
edition = "2024"

[dependencies]
cust = "=0.3.2"
[dependencies.cudarc]
version = "=0.19.10"
default-features = false
features = ["std", "driver", "runtime", "nvrtc", "cuda-version-from-build-system", "dynamic-linking"]

[workspace]
"#;

const MAIN: &str = r#"
use cudarc::{driver, nvrtc, runtime};
fn main() {
    let (mut version, mut major, mut minor) = (0, 0, 0);
    unsafe {
        println!("{:?}", driver::sys::cuDriverGetVersion(&mut version));
        println!("{:?}", runtime::sys::cudaRuntimeGetVersion(&mut version));
        println!("{:?}", nvrtc::sys::nvrtcVersion(&mut major, &mut minor));
    }
    println!("{:?}", cust::CudaApiVersion::get());
}
"#;

/// A program that links none of them and tells how it was started.
const LOADER: &str = r#"fn main() { println!("{}", std::env::var("LD_LIBRARY_PATH").unwrap()); }
"#;

fn unchanged(name: &str) -> Option<Project> {
    let project = Project::bare(name, &[12, 13])?;
    project.write("Cargo.toml", MANIFEST);
    project.write("src/main.rs", MAIN);
    project.write("src/bin/loader.rs", LOADER);
    Some(project)
}

/// `NEEDED` without the C library's, and whether there is a search path.
pub(super) fn dynamic(program: &Path) -> (Vec<String>, bool) {
    let output = Finished::of(
        Command::new("readelf")
            .arg("-d")
            .arg(program)
            .output()
            .unwrap(),
    );
    output.succeeded();
    let name = |line: &str| line.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
    let needed = output
        .stdout
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(name);
    let mut needed: Vec<String> = needed
        .filter(|n| n.contains("cu") || n.contains("nv"))
        .collect();
    needed.sort();
    (
        needed,
        output.stdout.contains("RPATH") || output.stdout.contains("RUNPATH"),
    )
}

/// How many packages Cargo compiled or found out of date.
fn compiled(build: &Finished) -> usize {
    build.succeeded();
    let marks = ["Compiling ", "Dirty "];
    build
        .stderr
        .lines()
        .filter(|line| marks.iter().any(|mark| line.trim_start().starts_with(mark)))
        .count()
}

#[test]
fn published_crates_build_with_each_major_and_no_stub_is_ever_loaded() {
    let Some(project) = unchanged("unchanged") else {
        return;
    };
    let program = |major: &str| {
        let mut builds = fs::read_dir(project.target.join("cargo-cuda"))
            .unwrap()
            .map(Result::unwrap);
        let of_major = builds.find(|entry| entry.file_name().to_str().unwrap().starts_with(major));
        of_major.unwrap().path().join("debug/unchanged")
    };
    let thirteen = ["libcuda.so.1", "libcudart.so.13", "libnvrtc.so.13"]
        .map(str::to_owned)
        .to_vec();
    let twelve = ["libcuda.so.1", "libcudart.so.12", "libnvrtc.so.12"]
        .map(str::to_owned)
        .to_vec();
    project.run(&["build"]).succeeded();
    assert_eq!(dynamic(&program("13")), (thirteen.clone(), false));
    // Python's packages of CUDA 12 hold no nvcc that could tell cudarc the version.
    project.run(&["build", "--cuda", "12"]).succeeded();
    assert_eq!(dynamic(&program("12")), (twelve.clone(), false));
    for (major, needed) in [("13", thirteen.clone()), ("12", twelve), ("13", thirteen)] {
        let again = project.run(&["build", "-v", "--cuda", major]);
        assert_eq!(compiled(&again), 0, "{major}: {again:?}");
        assert_eq!(
            dynamic(&program(major)),
            (needed, false),
            "the final file is the major's"
        );
    }
    assert_eq!(
        compiled(&project.run(&["build", "-v"])),
        0,
        "named or found, the same major"
    );

    let run = project.run(&["run", "--bin", "loader"]);
    run.succeeded();
    let directories: Vec<_> = std::env::split_paths(run.stdout.trim_end()).collect();
    assert!(
        directories
            .iter()
            .any(|d| d.join("libcudart.so.13").exists()),
        "{run:?}"
    );
    for directory in directories {
        assert!(
            !directory.join("libcuda.so.1").exists() && !directory.join("libcuda.so").exists(),
            "{run:?}"
        );
    }
}

#[test]
fn a_shell_and_plain_cargo_find_the_same() {
    let Some(project) = unchanged("shell") else {
        return;
    };
    let script = format!(
        "set -eu; eval \"$('{}' cuda env)\"; printf '%s\\n' \"$CUDA_HOME\" \"$(command -v nvcc)\"; cargo build -q",
        env!("CARGO_BIN_EXE_cargo-cuda")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]);
    project.prepare(&mut bash);
    let output = Finished::of(bash.output().unwrap());
    output.succeeded();
    let mut builds = fs::read_dir(project.target.join("cargo-cuda"))
        .unwrap()
        .map(Result::unwrap);
    let build = builds.find(|entry| entry.path().is_dir()).unwrap();
    let root = build.path().join(".cuda/view");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            root.to_str().unwrap(),
            root.join("bin/nvcc").to_str().unwrap()
        ]
    );
    assert!(project.target.join("debug/unchanged").is_file());

    // Another `cargo cuda` under that one takes nothing of it for the user's own.
    let nested = project.run(&[
        "exec",
        "--",
        env!("CARGO_BIN_EXE_cargo-cuda"),
        "cuda",
        "env",
        "--cuda",
        "12",
    ]);
    nested.succeeded();
    assert!(
        nested.stdout.contains("export ORT_CUDA_VERSION='12'"),
        "{nested:?}"
    );
    let other = format!("CUDA_HOME='{}", root.display());
    assert!(
        !nested.stdout.contains(&other) && !nested.stderr.contains("stays as you set it"),
        "{nested:?}"
    );
    // A shell goes to other workspaces: nothing of Cargo's own is set in it.
    assert!(!nested.stdout.contains("export CARGO"), "{nested:?}");
    assert!(!nested.stdout.contains("RUSTFLAGS"), "{nested:?}");

    let json = project.run(&["env", "--json"]).json();
    let value = |name: &str| {
        let variables = json["variables"].as_array().unwrap();
        variables
            .iter()
            .find(|v| v["name"] == name)
            .map(|v| v["value"].as_str().unwrap().to_owned())
    };
    assert_eq!(value("CUDA_PATH").as_deref(), root.to_str());
    assert_eq!(value("CUDARC_CUDA_VERSION").as_deref(), Some("13040"));
    assert_eq!(value("NVCC_APPEND_FLAGS"), None);
    assert!(value("LIBRARY_PATH").unwrap().ends_with("/lib/stubs"));
    assert!(!value("LD_LIBRARY_PATH").unwrap().contains("stubs"));
    let text = project.run(&["env", "--shell", "fish"]).stdout;
    assert!(text.contains("\nset -gx CUDA_HOME '"), "{text}");
    let status = project.run(&["exec", "--", "sh", "-c", "test -x \"$NVCC\" && exit 7"]);
    assert_eq!(status.code, 7, "{status:?}");
}

#[test]
fn values_survive_a_shell() {
    let values = [
        "",
        "/a b",
        "it's",
        "say \"x\" $HOME `id` $(id)",
        r"back\slash\",
        r"\'",
        "line\nbreak\n",
        "*?[a] {b,c} ~ # ; & | < > !",
        "\u{2018}ü\u{2019}\t",
    ];
    for (value, program) in values
        .into_iter()
        .flat_map(|value| [(value, "bash"), (value, "sh")])
    {
        let line = Shell::Bash.line("X", Some(value.as_ref()));
        // As `eval "$(cargo cuda env)"` has it.
        let script = r#"eval "$(printf '%s\n' "$LINES_OF_ENV")"; printenv X"#;
        let mut shell = Command::new(program);
        shell
            .args(["-c", script])
            .env("LINES_OF_ENV", format!("# it's $X\n{line}"));
        let output = Finished::of(shell.env_remove("X").output().unwrap());
        output.succeeded();
        assert_eq!(output.stdout, format!("{value}\n"), "{program}: {line}");
    }
}

#[test]
fn bytes_that_are_no_text_survive_a_shell() {
    let value = OsStr::from_bytes(b"/it's:/x\xe9\xff/bin\xc3");
    let line = Shell::Bash.line("X", Some(value));
    for (program, locale) in [("bash", "C"), ("bash", "C.UTF-8"), ("sh", "C.UTF-8")] {
        let mut shell = Command::new(program);
        shell
            .args(["-c", r#"eval "$LINE"; printenv X"#])
            .env("LINE", &line)
            .env("LC_ALL", locale);
        let output = shell.env_remove("X").output().unwrap();
        assert_eq!(
            output.stdout,
            [value.as_bytes(), b"\n"].concat(),
            "{program}, {locale}: {line}"
        );
    }

    // The whole way, by a list of directories that a user may have.
    let Some(project) = unchanged("bytes") else {
        return;
    };
    let mut bash = Command::new("bash");
    let script = format!(
        "eval \"$('{}' cuda env)\"; printenv PATH",
        env!("CARGO_BIN_EXE_cargo-cuda")
    );
    bash.args(["-c", &script]);
    project.prepare(&mut bash);
    let mut path = std::env::var_os("PATH").unwrap();
    path.push(OsStr::from_bytes(b":/x\xe9/bin"));
    let output = bash.env("PATH", &path).output().unwrap();
    assert!(output.stdout.ends_with(b":/x\xe9/bin\n"), "{output:?}");
    let mut printed = project.command(&["env", "--json"]);
    let printed = Finished::of(printed.env("PATH", &path).output().unwrap());
    printed.succeeded();
    assert!(
        printed.stderr.contains("warning: PATH is left out: "),
        "{printed:?}"
    );
    assert!(
        printed.stdout.contains("CUDA_HOME") && !printed.stdout.contains("/x\u{fffd}"),
        "{printed:?}"
    );
}

#[test]
fn what_the_user_has_set_stays_and_is_named() {
    let Some(project) = unchanged("kept") else {
        return;
    };
    let real = site_packages(13).unwrap().join("nvidia/cu13");
    let mut command = project.command(&["env", "--capabilities", "8.0,9.0"]);
    command
        .env("CUDA_HOME", &real)
        .env("CUDA_COMPUTE_CAP", "75")
        .env("LIBRARY_PATH", "/own");
    let printed = Finished::of(command.output().unwrap());
    printed.succeeded();
    for name in ["CUDA_HOME", "CUDA_COMPUTE_CAP"] {
        assert!(
            !printed.stdout.contains(&format!("export {name}=")),
            "{printed:?}"
        );
        assert!(
            printed
                .stderr
                .contains(&format!("note: {name} stays as you set it, ")),
            "{printed:?}"
        );
    }
    assert!(printed.stdout.contains("export CUDA_PATH='"), "{printed:?}");
    assert!(
        printed
            .stdout
            .contains("export CUDAARCHS='80-real;90-real'"),
        "{printed:?}"
    );
    assert!(
        printed
            .stdout
            .contains("export TORCH_CUDA_ARCH_LIST='8.0;9.0'"),
        "{printed:?}"
    );
    let library_path = printed
        .stdout
        .lines()
        .find(|line| line.starts_with("export LIBRARY_PATH="))
        .unwrap();
    let order: Vec<&str> = library_path.trim_end_matches('\'').rsplit(':').collect();
    assert!(
        order[0].ends_with("/lib/stubs") && order.contains(&"/own"),
        "{library_path}"
    );
}

#[test]
fn outside_of_a_workspace_no_cargo_is_started() {
    let Some(packages) = site_packages(13) else {
        return;
    };
    let sandbox = Sandbox::new(Tool::Nothing);
    sandbox.shim("cargo", "", Path::new("/bin/false"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command
        .args(["cuda", "view", "--components", "cudart"])
        .current_dir(sandbox.path("work"));
    command
        .env("PATH", sandbox.path("bin"))
        .env("CUDA_BUILD_CACHE_DIR", sandbox.path("cache"));
    command
        .env("CUDA_BUILD_ROOTS", packages)
        .env_remove("CUDA_BUILD_VIEWS")
        .env_remove("CARGO");
    let run = Finished::of(command.output().unwrap());
    run.succeeded();
    assert!(
        Path::new(run.stdout.trim_end())
            .join("lib/libcudart.so")
            .exists(),
        "{run:?}"
    );
    assert_eq!(sandbox.calls(), 0);
}

/// What CMake finds, each target with its file.
const TARGETS: &str = "cmake_minimum_required(VERSION 3.24)
project(t LANGUAGES CXX)
find_package(CUDAToolkit REQUIRED)
get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS targets)
  foreach(property IMPORTED_LOCATION IMPORTED_IMPLIB)
    get_target_property(file ${target} ${property})
    if(file)
      message(STATUS \"found ${target} ${file}\")
    endif()
  endforeach()
endforeach()
";

#[test]
fn cmake_finds_the_view_and_nothing_beside_it() {
    let Some(project) = Project::bare("cmake", &[13]) else {
        return;
    };
    let foreign = project.path.join("foreign");
    project.write("foreign/libcufft.so", "");
    project.write("foreign/libcufft.so.11", "");
    project.write("CMakeLists.txt", TARGETS);
    project.write(
        "Cargo.toml",
        "[package]\nname = \"c\"\nversion = \"0.1.0\"\n[workspace]\n",
    );
    project.write("src/lib.rs", "");
    let view = project.run(&["view"]);
    view.succeeded();
    let view = view.stdout.trim_end().to_owned();
    let configure = |name: &str, arguments: &[&str]| {
        let mut cmake = Command::new(tool("cmake"));
        cmake
            .args(["-S", ".", "-B", name, "-G", "Ninja"])
            .args(arguments);
        cmake.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tool("ninja").display()));
        project.prepare(&mut cmake);
        cmake.env("CMAKE_LIBRARY_PATH", &foreign);
        let output = Finished::of(cmake.output().unwrap());
        output.succeeded();
        let found: Vec<String> = output
            .stdout
            .lines()
            .filter_map(|line| line.split("found CUDA::").nth(1).map(str::to_owned))
            .collect();
        assert!(
            found.iter().any(|line| line.starts_with("cudart ")),
            "{output:?}"
        );
        found
    };
    let outside = |found: &[String]| {
        found
            .iter()
            .filter(|line| !line.contains(&view))
            .cloned()
            .collect::<Vec<_>>()
    };
    // This is what the entries are for.
    let open = configure("open", &[&format!("-DCUDAToolkit_ROOT={view}")]);
    assert_eq!(
        outside(&open),
        [format!("cufft {}/libcufft.so", foreign.display())]
    );

    let closed = configure(
        "closed",
        &["-C", &format!("{view}/cmake/initial-cache.cmake")],
    );
    assert_eq!(outside(&closed), [""; 0]);
    assert_eq!(
        closed.len() + 1,
        open.len(),
        "nothing of the view's is lost: {open:?} {closed:?}"
    );
}

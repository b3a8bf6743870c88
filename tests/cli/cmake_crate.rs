//! Crates that run CMake in their build scripts and know nothing of views: their search ends in
//! the view under `cargo cuda build`, and what they choose themselves stays.

use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::project::Project;
use crate::support::Finished;
use crate::tools::{directory, tool};

const MANIFEST: &str = r#"[package]
name = "@NAME@"
version = "0.1.0"
edition = "2024"
links = "blas_wrapper"

[build-dependencies]
cmake = "=0.1.58"

[workspace]
"#;

const SCRIPT: &str = r#"
fn main() {
    // An accelerated build wants CUDA.
    let built = cmake::Config::new("native")@MORE@.build();
    println!("cargo::rustc-link-search=native={}", built.join("lib").display());
    println!("cargo::rustc-link-lib=static=wrapper");
}
"#;

const LIB: &str = r#"pub const FOUND: &str = include_str!(concat!(env!("OUT_DIR"), "/found"));
"#;

const MAIN: &str = r#"
unsafe extern "C" {
    fn wrapper() -> i32;
}
fn main() {
    print!("{}{}", @CRATE@::FOUND, unsafe { wrapper() });
}
"#;

/// It links what it finds, as projects with optional parts do.
const LISTS: &str = r#"cmake_minimum_required(VERSION 3.24)
project(native LANGUAGES C CXX)
find_package(CUDAToolkit REQUIRED)
add_library(wrapper STATIC wrapper.c)
target_link_libraries(wrapper PUBLIC CUDA::cudart)
install(TARGETS wrapper ARCHIVE DESTINATION lib)
get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
file(WRITE ${CMAKE_INSTALL_PREFIX}/found "cross ${CMAKE_CROSSCOMPILING}\nown ${OWN_TOOLCHAIN}\ncompilers ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}\n")
foreach(target IN LISTS targets)
  foreach(property IMPORTED_LOCATION IMPORTED_IMPLIB)
    get_target_property(file ${target} ${property})
    if(file AND target MATCHES "^CUDA::")
      file(APPEND ${CMAKE_INSTALL_PREFIX}/found "${target} ${file}\n")
    endif()
  endforeach()
endforeach()
"#;

struct Crate(Project);

impl Crate {
    fn new(name: &str, more: &str) -> Option<Self> {
        let project = Project::bare(name, &[13])?;
        project.write("Cargo.toml", &MANIFEST.replace("@NAME@", name));
        project.write("build.rs", &SCRIPT.replace("@MORE@", more));
        project.write("src/lib.rs", LIB);
        project.write(
            "src/main.rs",
            &MAIN.replace("@CRATE@", &name.replace('-', "_")),
        );
        project.write("native/CMakeLists.txt", LISTS);
        project.write("native/wrapper.c", "int wrapper(void) { return 42; }\n");
        project.write("native/own.cmake", "set(OWN_TOOLCHAIN yes)\n");
        for file in [
            "foreign/libcufft.so",
            "prefix/lib/libcufft.so",
            "prefix/lib/libcurand_static.a",
        ] {
            project.write(file, "");
        }
        Some(Self(project))
    }

    /// Puts CMake on `PATH` and another toolkit's libraries where CMake looks.
    fn prepare(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap();
        let path = [directory().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path).unwrap());
        command
            .env("CMAKE_GENERATOR", "Ninja")
            .env("CMAKE_PREFIX_PATH", self.0.path.join("prefix"));
        command.env("CMAKE_LIBRARY_PATH", self.0.path.join("foreign"));
        for name in ["CC", "CXX", "CMAKE_TOOLCHAIN_FILE"] {
            command.env_remove(name);
        }
    }

    /// `cargo cuda run` with a build directory that nothing is in: CMake keeps what it chose once.
    fn run(&self, variables: &[(&str, &str)]) -> Finished {
        let _ = fs::remove_dir_all(self.0.target.join("cargo-cuda"));
        let mut command = self.0.command(&["run"]);
        self.prepare(&mut command);
        command.envs(variables.iter().copied());
        let run = Finished::of(command.output().unwrap());
        run.succeeded();
        assert!(run.stdout.ends_with("42"), "{run:?}");
        run
    }

    fn views(&self) -> PathBuf {
        self.0.target.join("cargo-cuda")
    }
}

/// Values of lines that begin so.
fn values(run: &Finished, start: &str) -> Vec<String> {
    run.stdout
        .lines()
        .filter_map(|line| line.strip_prefix(start))
        .map(str::to_owned)
        .collect()
}

#[test]
fn an_unchanged_crate_finds_the_view_and_nothing_beside_it() {
    let Some(sys) = Crate::new("closed-sys", "") else {
        return;
    };
    let closed = sys.run(&[]);
    let found = values(&closed, "CUDA::");
    assert!(
        found.iter().any(|line| line.starts_with("cudart ")),
        "{closed:?}"
    );
    for line in &found {
        assert!(
            line.contains(sys.views().to_str().unwrap()),
            "outside the view: {line}"
        );
    }
    assert_eq!(values(&closed, "cross "), ["FALSE"]);
    // This is what the file is for. It is the user's to leave it out: an empty one says nothing.
    let nothing = sys.0.path.join("nothing.cmake");
    fs::write(&nothing, "").unwrap();
    let open = sys.run(&[("CMAKE_TOOLCHAIN_FILE", nothing.to_str().unwrap())]);
    assert!(
        open.stderr
            .contains("note: CMAKE_TOOLCHAIN_FILE stays as you set it, "),
        "{open:?}"
    );
    let foreign: Vec<String> = values(&open, "CUDA::cu")
        .into_iter()
        .filter(|l| !l.contains("/.cuda/view/"))
        .collect();
    assert_eq!(foreign.len(), 2, "cuFFT and the static cuRAND: {open:?}");

    // Compilers are those that the crate gets without it.
    let mut plain = Command::new("cargo");
    plain.args(["run", "--quiet", "--target-dir", "plain"]);
    sys.0.prepare(&mut plain);
    sys.prepare(&mut plain);
    let root = sys.views().join("latest/.cuda/view");
    plain
        .env("CUDAToolkit_ROOT", &root)
        .env("CUDACXX", root.join("bin/nvcc"))
        .env_remove("CARGO_TARGET_DIR");
    plain
        .env("LIBRARY_PATH", root.join("lib"))
        .env("LD_LIBRARY_PATH", root.join("lib"));
    let plain = Finished::of(plain.output().unwrap());
    plain.succeeded();
    assert_eq!(values(&plain, "compilers "), values(&closed, "compilers "));
    let chosen = sys.run(&[("CC", "gcc"), ("CXX", "g++")]);
    assert!(
        values(&chosen, "compilers ")[0].ends_with("/g++"),
        "{chosen:?}"
    );
    assert!(values(&chosen, "CUDA::cufft").is_empty(), "{chosen:?}");
    // One that only the crate knows how to pass on is heeded; then the search is open.
    let named = sys.run(&[(&format!("CC_{ARCH}-unknown-linux-gnu"), "gcc")]);
    assert!(
        values(&named, "compilers ")[0].contains("/gcc "),
        "{named:?}"
    );
    assert!(!values(&named, "CUDA::cufft").is_empty(), "{named:?}");
}

#[test]
fn a_crate_with_a_toolchain_file_of_its_own_keeps_it() {
    let more = r#".define("CMAKE_TOOLCHAIN_FILE", std::env::current_dir().unwrap().join("native/own.cmake"))"#;
    let Some(sys) = Crate::new("own-sys", more) else {
        return;
    };
    let run = sys.run(&[]);
    assert_eq!(values(&run, "own "), ["yes"]);
    assert!(
        values(&run, "CUDA::cudart ")[0].contains(sys.views().to_str().unwrap()),
        "{run:?}"
    );
}

#[test]
fn a_crate_that_names_another_root_gets_no_entries_of_the_view() {
    let Some(other) = crate::components::site_packages(13) else {
        return;
    };
    let place = crate::project::place("another-root");
    let mut view = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    view.args(["cuda", "view", "--output"])
        .arg(place.join("other"))
        .current_dir(&place);
    view.env("CUDA_BUILD_ROOTS", &other)
        .env("CUDA_BUILD_CACHE_DIR", place.join("cache"));
    Finished::of(view.output().unwrap()).succeeded();
    let more = format!(
        r##".define("CUDAToolkit_ROOT", r#"{0}"#).define("CMAKE_CUDA_COMPILER", r#"{0}/bin/nvcc"#)"##,
        place.join("other").display()
    );
    let Some(sys) = Crate::new("other-sys", &more) else {
        return;
    };
    let run = sys.run(&[]);
    for line in values(&run, "CUDA::") {
        assert!(
            !line.contains(sys.views().to_str().unwrap()),
            "two toolkits in one: {line}\n{run:?}"
        );
    }
    assert!(
        values(&run, "CUDA::cudart ")[0].starts_with(place.join("other").to_str().unwrap()),
        "{run:?}"
    );
}

#[test]
fn what_a_toolchain_file_would_take_away_stays() {
    let Some(sys) = Crate::new("chosen-sys", "") else {
        return;
    };
    let set = |pairs: &[(&str, &str)]| {
        let mut command = sys.0.command(&["env"]);
        sys.prepare(&mut command);
        let run = Finished::of(command.envs(pairs.iter().copied()).output().unwrap());
        run.succeeded();
        (
            run.stdout.contains("export CMAKE_TOOLCHAIN_FILE="),
            run.stderr,
        )
    };
    assert!(set(&[]).0 && set(&[("CC", "gcc")]).0);
    let (hyphens, underscores) = (
        format!("CC_{ARCH}-unknown-linux-gnu"),
        format!("CXX_{ARCH}_unknown_linux_gnu"),
    );
    for (name, value) in [
        (hyphens.as_str(), "gcc"),
        (&underscores, "g++"),
        ("HOST_CC", "gcc"),
        ("CC", "ccache gcc"),
        ("VCPKG_ROOT", "/none"),
    ] {
        let (is_set, notes) = set(&[(name, value)]);
        assert!(
            !is_set && notes.contains(&format!("because {name} is set")),
            "{name}: {notes}"
        );
    }
    // Where there would be no such file anyway, or the user has one, nothing takes its place.
    let (no_file, own) = (
        format!("{ARCH}-unknown-linux-gnuasan"),
        ("CMAKE_TOOLCHAIN_FILE", "own.cmake"),
    );
    for other in [("CARGO_BUILD_TARGET", no_file.as_str()), own] {
        assert!(!set(&[other]).0);
        let (is_set, notes) = set(&[other, ("VCPKG_ROOT", "/none")]);
        assert!(
            !is_set && !notes.contains("VCPKG_ROOT"),
            "{other:?}: {notes}"
        );
    }
    sys.0.write(
        ".cargo/config.toml",
        "[env]\nCMAKE_TOOLCHAIN_FILE = \"own.cmake\"\n",
    );
    let mut command = sys.0.command(&["env"]);
    sys.prepare(&mut command);
    let env = Finished::of(command.output().unwrap());
    let own = "export CMAKE_TOOLCHAIN_FILE='own.cmake'";
    assert!(env.stdout.contains(own), "{env:?}");
}

#[test]
fn plain_cmake_in_the_environment_is_closed_too() {
    let Some(sys) = Crate::new("plain-cmake", "") else {
        return;
    };
    let mut exec = sys.0.command(&["exec", "--"]);
    exec.arg(tool("cmake")).args([
        "-S",
        "native",
        "-B",
        "build",
        "-DCMAKE_INSTALL_PREFIX=installed",
    ]);
    sys.prepare(&mut exec);
    Finished::of(exec.output().unwrap()).succeeded();
    let cache = fs::read_to_string(sys.0.path.join("build/CMakeCache.txt")).unwrap();
    assert!(
        cache.contains("/cmake/toolchain.cmake\n") && !cache.contains("libcufft"),
        "{cache}"
    );
}

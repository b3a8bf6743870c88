//! Crates that run CMake in their build scripts and know nothing of views: their search ends in
//! the view under `cargo cuda build`, and what they choose themselves stays.

use std::env::consts::ARCH;
use std::fs;
use std::process::Command;

use crate::project::Project;
use crate::support::{Finished, with_tools};

const MANIFEST: &str = r#"[package]
name = "closed-sys"
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
    let built = cmake::Config::new("native").build();
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
    print!("{}{}", closed_sys::FOUND, unsafe { wrapper() });
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
file(WRITE ${CMAKE_INSTALL_PREFIX}/found "cross ${CMAKE_CROSSCOMPILING}\ncompilers ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}\n")
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
    fn new(name: &str) -> Self {
        let project = Project::bare(name, &[13]);
        project.write("Cargo.toml", MANIFEST);
        project.write("build.rs", SCRIPT);
        project.write("src/lib.rs", LIB);
        project.write("src/main.rs", MAIN);
        project.write("native/CMakeLists.txt", LISTS);
        project.write("native/wrapper.c", "int wrapper(void) { return 42; }\n");
        for file in [
            "foreign/libcufft.so",
            "prefix/lib/libcufft.so",
            "prefix/lib/libcurand_static.a",
        ] {
            project.write(file, "");
        }
        Self(project)
    }

    /// Puts CMake on `PATH` and another toolkit's libraries where CMake looks.
    fn prepare(&self, command: &mut Command) {
        command
            .env("PATH", with_tools())
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
}

/// Values of lines that begin so.
fn values(run: &Finished, start: &str) -> Vec<String> {
    let lines = run.stdout.lines();
    let values = lines.filter_map(|line| line.strip_prefix(start));
    values.map(str::to_owned).collect()
}

mod online {
    use super::*;

    #[test]
    fn an_unchanged_crate_finds_the_view_and_nothing_beside_it() {
        let sys = Crate::new("closed-sys");
        let closed = sys.run(&[]);
        let found = values(&closed, "CUDA::");
        assert!(found.iter().any(|line| line.starts_with("cudart ")));
        let views = sys.0.target.join("cargo-cuda");
        for line in &found {
            assert!(line.contains(views.to_str().unwrap()), "{line}");
        }
        assert_eq!(values(&closed, "cross "), ["FALSE"]);
        // A toolchain file of the user replaces ours, and the search is open.
        let nothing = sys.0.path.join("nothing.cmake");
        fs::write(&nothing, "").unwrap();
        let open = sys.run(&[("CMAKE_TOOLCHAIN_FILE", nothing.to_str().unwrap())]);
        open.ended_with(0, &["note: CMAKE_TOOLCHAIN_FILE stays as you set it, "]);
        let foreign = values(&open, "CUDA::cu");
        let foreign = foreign.iter().filter(|line| !line.contains("/.cuda/view/"));
        assert_eq!(foreign.count(), 2, "cuFFT and the static cuRAND: {open:?}");

        let chosen = sys.run(&[("CC", "gcc"), ("CXX", "g++")]);
        let compilers = values(&chosen, "compilers ");
        assert!(compilers[0].ends_with("/g++"), "{chosen:?}");
        assert!(values(&chosen, "CUDA::cufft").is_empty(), "{chosen:?}");
        // One that only the crate knows how to pass on is heeded; then the search is open.
        let named = sys.run(&[(&format!("CC_{ARCH}-unknown-linux-gnu"), "gcc")]);
        assert!(!values(&named, "CUDA::cufft").is_empty(), "{named:?}");
    }

    #[test]
    fn what_a_toolchain_file_would_take_away_stays() {
        let sys = Crate::new("chosen-sys");
        let env = |variable: Option<(&str, &str)>| {
            let mut command = sys.0.command(&["env"]);
            sys.prepare(&mut command);
            let env = Finished::of(command.envs(variable).output().unwrap());
            env.succeeded();
            env
        };
        let export = "export CMAKE_TOOLCHAIN_FILE=";
        for variable in [None, Some(("CC", "gcc"))] {
            assert!(env(variable).stdout.contains(export));
        }
        let hyphens = format!("CC_{ARCH}-unknown-linux-gnu");
        let underscores = format!("CXX_{ARCH}_unknown_linux_gnu");
        for (name, value) in [
            (&*hyphens, "gcc"),
            (&underscores, "g++"),
            ("CC", "ccache gcc"),
            ("VCPKG_ROOT", "/none"),
        ] {
            let env = env(Some((name, value)));
            assert!(!env.stdout.contains(export), "{name}");
            env.ended_with(0, &[&format!("because {name} is set")]);
        }
        let own = "[env]\nCMAKE_TOOLCHAIN_FILE = \"own.cmake\"\n";
        sys.0.write(".cargo/config.toml", own);
        let set = format!("{export}'own.cmake'");
        assert!(env(None).stdout.contains(&set));
    }
}

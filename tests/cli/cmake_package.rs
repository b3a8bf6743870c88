//! The CMake package of scattered components: what real CMake makes of it, without any view.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::{Project, WITH_CUBLAS};
use crate::support::Finished;
use crate::tools::tool;
use crate::wheels::wheels;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
int main(void) {
  int count = 0, version = 0;
  cublasHandle_t handle = NULL;
  cudaRuntimeGetVersion(&version);
  printf("runtime %d: %d, ", version, (int)cudaGetDeviceCount(&count));
  printf("cuBLAS %d\n", (int)cublasCreate(&handle));
  return 0;
}
"#;

/// `@NAMES@` is the namespace.
const LISTS: &str = "cmake_minimum_required(VERSION 3.24)
project(scattered LANGUAGES C)
find_package(CUDAComponents 12.4 CONFIG REQUIRED COMPONENTS cudart cublas OPTIONAL_COMPONENTS cufft)
message(STATUS \"version ${CUDAComponents_VERSION}, cufft ${CUDAComponents_cufft_FOUND}\")
message(STATUS \"run ${CUDAComponents_LIBRARY_DIRS}\")
add_executable(shared program.c)
target_link_libraries(shared PRIVATE @NAMES@::cudart @NAMES@::cublas)
add_executable(mixed program.c)
target_link_libraries(mixed PRIVATE @NAMES@::cudart_static @NAMES@::cublas)
";

/// A directory with wheels' package, and projects beside it.
struct Place {
    project: Project,
    wheels: PathBuf,
    package: PathBuf,
}

impl Place {
    fn new(name: &str) -> Option<Self> {
        let wheels = wheels(&WITH_CUBLAS)?;
        let project = Project::bare(name, &[])?;
        let package = project.path.join("a package");
        Some(Self {
            project,
            wheels,
            package,
        })
    }

    fn make(&self, arguments: &[&str]) -> Finished {
        let mut command = self.project.command(&["view", "--cmake-package"]);
        command
            .arg(&self.package)
            .args(arguments)
            .env("CUDA_BUILD_ROOTS", &self.wheels);
        Finished::of(command.output().unwrap())
    }

    /// CMake in a fresh directory.
    fn configure(&self, name: &str, lists: &str) -> Finished {
        self.project.write(&format!("{name}/CMakeLists.txt"), lists);
        self.project.write(&format!("{name}/program.c"), PROGRAM);
        let mut cmake = Command::new(tool("cmake"));
        cmake.args(["-G", "Ninja", "-S", name, "-B", &format!("{name}/build")]);
        cmake.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tool("ninja").display()));
        cmake.arg(format!("-DCUDAComponents_DIR={}", self.package.display()));
        self.project.prepare(&mut cmake);
        Finished::of(cmake.output().unwrap())
    }

    fn build(&self, name: &str) -> PathBuf {
        let build = self.project.path.join(name).join("build");
        Finished::of(
            Command::new(tool("cmake"))
                .arg("--build")
                .arg(&build)
                .output()
                .unwrap(),
        )
        .succeeded();
        build
    }
}

fn dynamic(program: &Path, tag: &str) -> Vec<String> {
    let output = Finished::of(
        Command::new("readelf")
            .arg("-dW")
            .arg(program)
            .output()
            .unwrap(),
    );
    output.succeeded();
    let lines = output
        .stdout
        .lines()
        .filter(|line| line.contains(&format!("({tag})")));
    lines
        .map(|line| line.split(['[', ']']).nth(1).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_program_links_components_where_they_are() {
    let Some(place) = Place::new("scattered") else {
        return;
    };
    let made = place.make(&[]);
    made.succeeded();
    assert_eq!(made.stdout.trim_end(), place.package.to_str().unwrap());
    assert!(
        !place.project.target.join("cuda/views").exists(),
        "no view is needed"
    );
    for namespace in ["CUDA", "CUDAComponents"] {
        let configured = place.configure(namespace, &LISTS.replace("@NAMES@", namespace));
        configured.succeeded();
        assert!(
            configured.stdout.contains("version 12.9, cufft FALSE"),
            "{configured:?}"
        );
        let build = place.build(namespace);
        let program = build.join("shared");
        let needed = dynamic(&program, "NEEDED");
        for library in ["libcudart.so.12", "libcublas.so.12"] {
            assert!(needed.iter().any(|name| name == library), "{needed:?}");
        }
        let nvidia = place.wheels.join("nvidia");
        let directories = [nvidia.join("cuda_runtime/lib"), nvidia.join("cublas/lib")];
        let runpath = dynamic(&program, "RUNPATH").concat();
        let mut runpath: Vec<PathBuf> = std::env::split_paths(&runpath).collect();
        runpath.sort();
        assert_eq!(runpath, [directories[1].clone(), directories[0].clone()]);
        for directory in &directories {
            assert!(
                configured.stdout.contains(directory.to_str().unwrap()),
                "{configured:?}"
            );
        }
        // Without a driver 35; what counts is that both libraries answer.
        let run = Finished::of(Command::new(&program).output().unwrap());
        run.succeeded();
        assert!(
            run.stdout.starts_with("runtime 12090: ") && run.stdout.contains("cuBLAS "),
            "{run:?}"
        );
        let needed = dynamic(&build.join("mixed"), "NEEDED");
        assert!(
            !needed.iter().any(|name| name.starts_with("libcudart")),
            "{needed:?}"
        );
        Finished::of(Command::new(build.join("mixed")).output().unwrap()).succeeded();
    }
}

#[test]
fn a_view_has_the_package_and_the_environment_names_it() {
    let Some(place) = Place::new("in-view") else {
        return;
    };
    place
        .project
        .write("CMakeLists.txt", &LISTS.replace("@NAMES@", "CUDA"));
    place.project.write("program.c", PROGRAM);
    let mut exec = place.project.command(&["exec", "--"]);
    exec.arg(tool("cmake"))
        .args(["-G", "Ninja", "-S", ".", "-B", "build"]);
    exec.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tool("ninja").display()));
    let run = Finished::of(
        exec.env("CUDA_BUILD_ROOTS", &place.wheels)
            .output()
            .unwrap(),
    );
    run.succeeded();
    let directory = place.wheels.join("nvidia/cublas/lib");
    assert!(run.stdout.contains(directory.to_str().unwrap()), "{run:?}");
    let copy = place.project.path.join("copy");
    let mut view = place
        .project
        .command(&["view", "--copy", "--components", "cudart", "--output"]);
    Finished::of(
        view.arg(&copy)
            .env("CUDA_BUILD_ROOTS", &place.wheels)
            .output()
            .unwrap(),
    )
    .succeeded();
    assert!(
        !copy.join("lib/cmake/CUDAComponents").exists(),
        "its paths are this machine's"
    );
}

#[test]
fn what_is_absent_is_told() {
    let Some(place) = Place::new("absent") else {
        return;
    };
    place.make(&[]).succeeded();
    let project = |find: &str| {
        format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(absent LANGUAGES C)\nfind_package(CUDAComponents {find})\n\
                 message(STATUS \"there: ${{CUDAComponents_FOUND}}\")\n"
        )
    };
    // CMake breaks long lines.
    let told = |run: &Finished| run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let absent = place.configure("cufft", &project("CONFIG REQUIRED COMPONENTS cudart cufft"));
    assert_ne!(absent.code, 0, "{absent:?}");
    for words in [
        "CUDA 12.9 that was found has no component `cufft`",
        "it has cudart,",
        "--components cufft`",
    ] {
        assert!(told(&absent).contains(words), "{words}: {absent:?}");
    }
    for (name, find, there) in [
        ("quiet", "QUIET COMPONENTS cufft", "0"),
        ("same", "12.9 EXACT", "1"),
        ("older", "12.0", "1"),
        ("newer", "12.10 QUIET", "0"),
        ("major", "11 QUIET", "0"),
        ("range", "12...<14", "1"),
        ("below", "11...<12.9 QUIET", "0"),
        ("all", "", "1"),
    ] {
        let run = place.configure(name, &project(find));
        run.succeeded();
        let found = run.stdout.contains(&format!("there: {there}"))
            || (there == "1" && run.stdout.contains("there: TRUE"))
            || (there == "0" && run.stdout.contains("there: FALSE"));
        assert!(found, "{find}: {run:?}");
    }
    // A wheel that was removed after the package was made.
    let config = place.package.join("CUDAComponentsConfig.cmake");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("libcublas.so.12", "libgone.so.12")).unwrap();
    let gone = place.configure("gone", &project("CONFIG REQUIRED COMPONENTS cublas"));
    assert!(
        gone.code != 0 && told(&gone).contains("libgone.so.12 is not there any more"),
        "{gone:?}"
    );
    place
        .configure("other", &project("CONFIG REQUIRED COMPONENTS cudart"))
        .succeeded();
}

/// CMake's own module in one project with the package, before it and after it.
#[test]
fn the_names_of_cmakes_module_are_left_alone_where_it_was_first() {
    let Some(place) = Place::new("beside") else {
        return;
    };
    place
        .make(&["--components", "cudart", "--json"])
        .succeeded();
    let Some(toolkit) = crate::components::site_packages(13) else {
        return;
    };
    let mut view = place.project.command(&["view"]);
    let view = Finished::of(view.env("CUDA_BUILD_ROOTS", &toolkit).output().unwrap());
    view.succeeded();
    let module = format!(
        "set(CUDAToolkit_ROOT \"{}\")\nfind_package(CUDAToolkit REQUIRED)\n",
        view.stdout.trim_end()
    );
    let package = "find_package(CUDAComponents REQUIRED COMPONENTS cudart)\n";
    let head = "cmake_minimum_required(VERSION 3.24)\nproject(beside LANGUAGES C)\n";
    let tail = "foreach(target CUDA::cudart CUDAComponents::cudart)\n  get_target_property(file ${target} IMPORTED_LOCATION)\n  \
                message(STATUS \"${target} ${file}\")\nendforeach()\n";
    for (name, order, cudart) in [
        ("module first", format!("{module}{package}"), "libcudart.so"),
        (
            "package first",
            format!("{package}{module}"),
            "libcudart.so.12",
        ),
    ] {
        let run = place.configure(name, &format!("{head}{order}{tail}"));
        run.succeeded();
        let line = |target: &str| {
            let line = run
                .stdout
                .lines()
                .find(|line| line.contains(&format!(" {target} ")));
            line.unwrap_or_else(|| panic!("{run:?}")).to_owned()
        };
        assert!(
            line("CUDA::cudart").ends_with(&format!("/{cudart}")),
            "{run:?}"
        );
        assert!(
            line("CUDAComponents::cudart").ends_with("/cuda_runtime/lib/libcudart.so.12"),
            "{run:?}"
        );
    }
}

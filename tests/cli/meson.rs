//! Meson in the environment that `cargo cuda exec` gives: what its `dependency('cuda')` finds, and
//! that a library of another toolkit is not among it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::project::{Project, WITH_CUBLAS};
use crate::support::Finished;
use crate::tools::{directory, tool};
use crate::wheels::wheels;

const MIXED: &str = "project('mixed', 'cpp', 'cuda')
cuda = dependency('cuda', version: '>=13', modules: ['nvrtc'])
message('version', cuda.version())
executable('saxpy', 'saxpy.cu', dependencies: cuda, cuda_args: '-arch=sm_80')
shared = dependency('cuda', modules: ['cudart', 'nvrtc', 'cuda'])
executable('query', 'query.cpp', dependencies: shared)
foreign = dependency('cuda', modules: ['cufft'], required: false)
message('foreign', foreign.found())
";

/// Without C++ Meson asks nvcc for the release, and for libraries with what nvcc calls.
const DEVICE: &str = "project('device', 'cuda')
cuda = dependency('cuda', version: '13.4', modules: ['nvrtc'], static: false)
message('version', cuda.version())
executable('saxpy', 'saxpy.cu', dependencies: cuda, cuda_args: '-arch=sm_80')
foreign = dependency('cuda', modules: ['cufft'], required: false)
message('foreign', foreign.found())
";

const SAXPY: &str = r#"
#include <cstdio>
__global__ void saxpy(unsigned n, float a, const float *x, float *y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
int main() {
  float *x = nullptr, *y = nullptr;
  cudaMalloc(&x, 1024);
  cudaMalloc(&y, 1024);
  saxpy<<<1, 256>>>(256, 2.0f, x, y);
  std::printf("launched: %d\n", static_cast<int>(cudaGetLastError()));
}
"#;

const QUERY: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
#include <nvrtc.h>
int main() {
  int count = 0, major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  std::printf("%d, NVRTC %d.%d\n", static_cast<int>(cudaGetDeviceCount(&count)), major, minor);
}
"#;

/// No nvcc: Meson reads the release from the runtime's header.
const HOST: &str = "project('host', 'cpp')
cuda = dependency('cuda', version: '12.9', modules: ['cudart', 'cublas'], static: false)
executable('host', 'host.cpp', dependencies: cuda)
foreign = dependency('cuda', modules: ['cufft'], required: false)
message('foreign', foreign.found())
";

const BLAS: &str = r#"
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_runtime.h>
int main() {
  int count = 0;
  cublasHandle_t handle = nullptr;
  std::printf("runtime %d, ", static_cast<int>(cudaGetDeviceCount(&count)));
  std::printf("cuBLAS %d\n", static_cast<int>(cublasCreate(&handle)));
}
"#;

/// The names under `NEEDED` that are CUDA's.
fn needed(program: &Path) -> Vec<String> {
    let output = Finished::of(
        Command::new("readelf")
            .arg("-d")
            .arg(program)
            .output()
            .unwrap(),
    );
    output.succeeded();
    assert!(
        !output.stdout.contains("RUNPATH") && !output.stdout.contains("RPATH"),
        "{output:?}"
    );
    let lines = output
        .stdout
        .lines()
        .filter(|line| line.contains("(NEEDED)"));
    let names = lines.map(|line| line.split(['[', ']']).nth(1).unwrap_or_default().to_owned());
    let mut names: Vec<String> = names
        .filter(|n| n.contains("cu") || n.contains("nv"))
        .collect();
    names.sort();
    names
}

/// `cargo cuda exec -- <program>`, with a directory of another toolkit's libraries wherever a
/// search could come past it. It must succeed.
#[track_caller]
fn exec(project: &Project, roots: Option<&Path>, program: &Path, arguments: &[&str]) -> Finished {
    let mut command = project.command(&["exec", "--"]);
    command.arg(program).args(arguments);
    let foreign = project.path.join("foreign");
    let path = std::env::var_os("PATH").unwrap();
    let path = [directory().to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path).unwrap());
    for name in [
        "LIBRARY_PATH",
        "CMAKE_LIBRARY_PATH",
        "CMAKE_PREFIX_PATH",
        "PKG_CONFIG_PATH",
    ] {
        command.env(name, &foreign);
    }
    if let Some(roots) = roots {
        command.env("CUDA_BUILD_ROOTS", roots);
    }
    let run = Finished::of(command.output().unwrap());
    run.succeeded();
    run
}

#[test]
fn meson_finds_the_view_and_nothing_beside_it() {
    // nvcc takes no dollar sign in its own path, and what Meson hands it for the linker no blank.
    let Some(project) = Project::bare_at("meson", "project", &[13]) else {
        return;
    };
    project.write(
        "Cargo.toml",
        "[package]\nname = \"m\"\nversion = \"0.1.0\"\n[workspace]\n",
    );
    project.write("src/lib.rs", "");
    for name in [
        "libcufft.so",
        "libcufft.so.11",
        "libcufft.a",
        "libcufft_static.a",
        "libnvrtc.so",
    ] {
        project.write(&format!("foreign/{name}"), "");
    }
    project.write(
        "foreign/cuda.pc",
        "Name: cuda\nDescription: another\nVersion: 99.0\nLibs: -lcufft\n",
    );
    let view = exec(&project, None, Path::new("printenv"), &["CUDA_HOME"]);
    let view = view.stdout.trim_end().to_owned();
    for (name, lists, runtime) in [
        ("mixed", MIXED, None),
        ("device", DEVICE, Some("libcudart.so.13")),
    ] {
        project.write(&format!("{name}/meson.build"), lists);
        project.write(&format!("{name}/saxpy.cu"), SAXPY);
        project.write(&format!("{name}/query.cpp"), QUERY);
        let build = format!("build-{name}");
        let setup = exec(&project, None, &tool("meson"), &["setup", name, &build]);
        assert!(setup.stdout.contains("Message: version 13.4"), "{setup:?}");
        assert!(setup.stdout.contains("Message: foreign false"), "{setup:?}");
        let log =
            fs::read_to_string(project.path.join(&build).join("meson-logs/meson-log.txt")).unwrap();
        let chosen: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with("Link args for CUDA module"))
            .collect();
        assert!(chosen.len() >= 2, "{log}");
        for line in chosen {
            assert!(
                line.contains(&format!("['{view}/")),
                "outside the view: {line}"
            );
        }
        // nvcc is written down by its name alone: it has to be on `PATH` here too.
        let compile = exec(
            &project,
            None,
            &tool("meson"),
            &["compile", "-v", "-C", &build],
        );
        assert!(!compile.stdout.contains("foreign"), "{compile:?}");
        let program = project.path.join(&build).join("saxpy");
        let expected: Vec<&str> = runtime.into_iter().collect();
        assert_eq!(needed(&program), expected, "{name}");
        let run = exec(&project, None, &program, &[]);
        assert!(run.stdout.contains("launched: "), "{run:?}");
    }
    let query = project.path.join("build-mixed/query");
    assert_eq!(needed(&query), ["libcudart.so.13", "libnvrtc.so.13"]);
    assert!(
        exec(&project, None, &query, &[])
            .stdout
            .contains("NVRTC 13.4")
    );
}

#[test]
fn meson_finds_cublas_in_a_view_of_scattered_wheels() {
    let Some(packages) = wheels(&WITH_CUBLAS) else {
        return;
    };
    let Some(project) = Project::bare_at("meson-wheels", "project", &[]) else {
        return;
    };
    project.write("foreign/libcufft.so", "");
    project.write("foreign/libcublas.so", "");
    project.write("host/meson.build", HOST);
    project.write("host/host.cpp", BLAS);
    let roots = Some(packages.as_path());
    let setup = exec(&project, roots, &tool("meson"), &["setup", "host", "build"]);
    assert!(
        setup
            .stdout
            .contains("cudart, cublas) for cpp found: YES 12.9"),
        "{setup:?}"
    );
    assert!(setup.stdout.contains("Message: foreign false"), "{setup:?}");
    exec(&project, roots, &tool("meson"), &["compile", "-C", "build"]);
    let program = project.path.join("build/host");
    assert_eq!(needed(&program), ["libcublas.so.12", "libcudart.so.12"]);
    let run = exec(&project, roots, &program, &[]);
    assert!(
        run.stdout.starts_with("runtime ") && run.stdout.contains("cuBLAS "),
        "{run:?}"
    );
}

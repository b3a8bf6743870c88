//! What is built on the machine with the GPU, by the toolkit that it has. These want nvcc, a host
//! compiler and CMake there.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Gpu, cargo_cuda, pack, program, run};

const HOST: &str = r#"
#include <stdio.h>
extern int saxpy(unsigned n, float a, const float *x, float *y);
extern const char *saxpy_error(int status);
int main(void) {
  float x[4] = {0, 1, 2, 3}, y[4] = {1, 1, 1, 1};
  int status = saxpy(4, 2, x, y);
  printf("%s: %g %g %g %g\n", saxpy_error(status), y[0], y[1], y[2], y[3]);
  return status != 0;
}
"#;

/// The architectures that `cuobjdump` finds machine code for, and PTX.
fn code_in(file: &Path) -> (Vec<String>, usize) {
    let list = |option: &str| {
        run(Command::new("cuobjdump").arg(option).arg(file))
            .ok()
            .stdout
    };
    let elf = list("--list-elf");
    let mut architectures: Vec<String> = elf
        .lines()
        .filter_map(|line| {
            line.strip_suffix(".cubin")?
                .rsplit('.')
                .next()
                .map(str::to_owned)
        })
        .collect();
    architectures.sort();
    architectures.dedup();
    (
        architectures,
        list("--list-ptx")
            .lines()
            .filter(|line| line.starts_with("PTX file"))
            .count(),
    )
}

#[test]
#[ignore = "needs a GPU and a toolkit with nvcc"]
fn a_build_script_compiles_for_the_gpu_that_is_there() {
    let gpu = Gpu::of_this_machine();
    let place = tempfile::tempdir().unwrap();
    let source = pack().join("source");
    let mut script = program("source/build-script");
    script
        .current_dir(&source)
        .env("CARGO_MANIFEST_DIR", &source)
        .env("OUT_DIR", place.path());
    for (name, value) in [
        ("TARGET", "x86_64-unknown-linux-gnu"),
        ("HOST", "x86_64-unknown-linux-gnu"),
        ("PROFILE", "debug"),
        ("OPT_LEVEL", "0"),
        ("DEBUG", "false"),
        ("CARGO_PKG_NAME", "native-app"),
        ("CUDA_BUILD_CAPABILITIES", "native"),
    ] {
        script.env(name, value);
    }
    let ran = run(script.env("CUDA_BUILD_CACHE_DIR", place.path().join("cache"))).ok();
    let library = place.path().join("libsaxpy.a");
    let architecture = format!("sm_{}", gpu.number());
    assert_eq!(code_in(&library), (vec![architecture], 0));
    // What the script asks rustc for is what a C program needs.
    fs::write(place.path().join("main.c"), HOST).unwrap();
    let mut link = Command::new("cc");
    link.current_dir(place.path())
        .args(["main.c", "-o", "program"]);
    for line in ran.stdout.lines() {
        if let Some(directory) = line.strip_prefix("cargo::rustc-link-search=native=") {
            link.arg(format!("-L{directory}"));
        } else if let Some(library) = line.strip_prefix("cargo::rustc-link-lib=") {
            link.arg(format!("-l{}", library.rsplit(['=', ':']).next().unwrap()));
        }
    }
    run(&mut link).ok();
    let ran = run(&mut Command::new(place.path().join("program"))).ok();
    assert_eq!(ran.stdout, "no error: 1 3 5 7\n");
}

#[test]
#[ignore = "needs a GPU and a toolkit with nvcc"]
fn cmake_compiles_for_the_gpu_that_is_there() {
    let gpu = Gpu::of_this_machine();
    let place = tempfile::tempdir().unwrap();
    let build = place.path().join("build");
    let exec = ["exec", "--capabilities", "native", "--", "cmake"];
    let configured = run(cargo_cuda(&place, &exec)
        .arg("-S")
        .arg(pack().join("cmake"))
        .arg("-B")
        .arg(&build))
    .ok();
    assert_eq!(
        configured.after("-- architectures "),
        format!("{}-real", gpu.number())
    );
    // The view's, not what CMake would have found by itself.
    assert!(
        configured.after("-- cudart ").contains("/.cuda/view/"),
        "{configured:?}"
    );
    run(cargo_cuda(&place, &exec).arg("--build").arg(&build)).ok();
    let saxpy = build.join("saxpy");
    assert_eq!(code_in(&saxpy).0, [format!("sm_{}", gpu.number())]);
    assert_eq!(
        run(&mut Command::new(saxpy)).ok().stdout,
        "no error: 1999\n"
    );
}

#[test]
#[ignore = "needs a GPU, cuBLAS and cuRAND of CUDA 13, and tests/gpu/pack --slow"]
fn an_unchanged_crate_multiplies_matrices() {
    let place = tempfile::tempdir().unwrap();
    // The loader's path is that of what is found here.
    let mut exec = cargo_cuda(&place, &["exec", "--cuda", "13", "--"]);
    let ran = run(exec.arg(pack().join("candle-matmul"))).ok();
    assert_eq!(
        ran.after("largest difference between GPU and processor: "),
        "0"
    );
}

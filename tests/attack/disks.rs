//! Disks that are full or read-only: a build is right or fails, and nothing half-written is used later.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::package::{Compiler, Package, difference, kernel, script_outputs, succeeded};

fn package(name: &str, compiler: Compiler) -> Option<Package> {
    let package = Package::new(name, compiler)?;
    for module in ["a", "b", "c"] {
        package.write(&format!("kernels/{module}.cu"), kernel("1"));
    }
    package.write_modules(compiler, &[("a", ""), ("b", ""), ("c", "")]);
    package.build().unwrap();
    Some(package)
}

fn mounts() -> bool {
    let left_out = std::env::var_os("CUDA_BUILD_TEST_NO_MOUNT").is_some();
    if left_out {
        eprintln!("left out: tests with full and read-only disks");
    }
    !left_out
}

/// Runs a shell script with mounts of its own. `$@` is the build script.
fn mounted(package: &Package, out: &Path, images: &Path, shell: &str) -> Output {
    fs::create_dir_all(out).unwrap();
    let script = package.script(out);
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "--map-root-user", "sh", "-c", shell, "sh"]);
    outer.arg(script.get_program()).current_dir(&package.path);
    for (name, value) in script.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
        .env("IMAGES", images)
        .env("TO", package.place.join("copied"));
    let output = outer.output().unwrap();
    let message = "can't mount here; CUDA_BUILD_TEST_NO_MOUNT=1 leaves this out";
    assert_ne!(output.status.code(), Some(99), "{message}: {output:?}");
    output
}

fn full(compiler: Compiler, sizes: &[u32], shared: bool) {
    let name = if shared { "full-images" } else { "full" };
    let Some(mut package) = package(name, compiler).filter(|_| mounts()) else {
        return;
    };
    let (out, images) = (package.place.join("out"), package.place.join("images"));
    fs::create_dir_all(&images).unwrap();
    // What is full: the directory of images, or all that the build writes.
    let place = if shared { "$IMAGES" } else { "$OUT_DIR" };
    let mut failed = 0;
    for size in sizes {
        package.set("CUDA_BUILD_CAPABILITIES", "8.0,9.0");
        let fresh = package.build_afresh().unwrap();
        let shell = format!(
            "mount -t tmpfs -o size={size}k tmpfs {place} || exit 99\n{}\
             rm -rf \"$TO\"; mkdir \"$TO\"\n\
             CUDA_BUILD_CAPABILITIES=8.0 \"$@\" >&2; echo first $?\n\
             \"$@\" >&2; code=$?; echo second $code; if [ $code = 0 ]; then cp $OUT_DIR/*.fatbin \"$TO\"; fi\n\
             mount -o remount,size=100m {place} || exit 99\n\
             \"$@\" >&2 || exit 98\n\
             mkdir \"$TO/after\"; cp $OUT_DIR/*.fatbin \"$TO/after\"",
            if shared {
                "export CUDA_BUILD_IMAGES=$IMAGES\n"
            } else {
                ""
            }
        );
        let _ = fs::remove_dir_all(&out);
        let output = mounted(&package, &out, &images, &shell);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let codes = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = format!("{size} KiB: {codes}{text}");
        succeeded(output).unwrap_or_else(|error| panic!("{size} KiB: {error}"));
        if codes.contains("first 1") || codes.contains("second 1") {
            failed += 1;
            // Ours, and that of nvcc's programs.
            let messages = ["No space left on device", "Could not write file"];
            assert!(
                messages.iter().any(|message| text.contains(message)),
                "{report}"
            );
        }
        let copied = package.place.join("copied");
        if codes.contains("second 0") {
            assert_eq!(
                difference(&script_outputs(&copied), &fresh),
                None,
                "{report}"
            );
        }
        let after = script_outputs(&copied.join("after"));
        assert_eq!(difference(&after, &fresh), None, "{report}");
    }
    eprintln!("{failed} of {} builds had too little space", sizes.len());
    assert!(failed > 0, "no disk was too small");
}

#[test]
fn nvrtc_on_a_full_disk() {
    full(
        Compiler::Nvrtc13,
        &[4, 8, 12, 20, 28, 36, 52, 68, 84, 100, 132, 164],
        false,
    );
}

#[test]
fn nvrtc_with_images_on_a_full_disk() {
    full(Compiler::Nvrtc13, &[4, 8, 12, 16, 24, 32, 48, 64], true);
}

#[test]
fn nvcc_on_a_full_disk() {
    full(Compiler::Nvcc13, &[8, 32, 120, 200], false);
}

/// Everything is there already, then something is missing.
fn read_only(compiler: Compiler) {
    let Some(mut package) = package("read-only", compiler).filter(|_| mounts()) else {
        return;
    };
    let (out, images) = (package.place.join("out"), package.place.join("images"));
    let run = |package: &Package, read_only: &str| {
        let shell = format!(
            "for place in {read_only}; do mount --bind $place $place && \
             mount -o remount,bind,ro $place || exit 99; done\n\
             export CUDA_BUILD_IMAGES=$IMAGES\n\"$@\""
        );
        mounted(package, &out, &images, &shell)
    };
    let is_refused = |output: Output| {
        let error = succeeded(output).unwrap_err();
        assert!(error.contains("Read-only file system"), "{error}");
    };
    fs::create_dir_all(&images).unwrap();
    package.set("CUDA_BUILD_CAPABILITIES", "8.0,9.0");
    succeeded(run(&package, "")).unwrap();
    package.set("CUDA_BUILD_CAPABILITIES", "9.0");
    is_refused(run(&package, "$OUT_DIR"));
    // Nothing has to be kept.
    succeeded(run(&package, "$IMAGES")).unwrap();
    let fresh = package.build_afresh().unwrap();
    assert_eq!(difference(&script_outputs(&out), &fresh), None);
    // The source changed, so it is compiled, and the new output cannot be written to the read-only directory.
    package.write("kernels/a.cu", kernel("2"));
    is_refused(run(&package, "$IMAGES"));
    succeeded(run(&package, "")).unwrap();
    let fresh = package.build_afresh().unwrap();
    assert_eq!(difference(&script_outputs(&out), &fresh), None);
}

#[test]
fn nvrtc_in_read_only_directories() {
    read_only(Compiler::Nvrtc13);
}

#[test]
fn nvcc_in_read_only_directories() {
    read_only(Compiler::Nvcc13);
}

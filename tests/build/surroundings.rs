//! What lies outside the package: the workspace, variables, the toolkit, other packages.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{Compiler, Edits, Package, kernel, place, script_outputs, succeeded};

fn capabilities_of_the_workspace(compiler: Compiler) {
    let package = Package::new("workspace", compiler);
    let workspace = |capabilities: &str| {
        let text = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [\"app\"]\n[profile.dev]\ndebug = false\nincremental = false\n\
             [workspace.metadata.cuda]\ncapabilities = {capabilities}\n"
        );
        fs::write(package.place.join("Cargo.toml"), text).unwrap();
    };
    package.write_member_manifest("");
    fs::rename(
        package.path.join("Cargo.lock"),
        package.place.join("Cargo.lock"),
    )
    .unwrap();
    workspace("[\"8.0\"]");
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    let mut edits = Edits::of(&package);
    edits.changes("others", |_| workspace("[\"9.0\", \"12.0+PTX\"]"));
    edits.changes("fewer", |_| workspace("[\"9.0\"]"));
    edits.finish();
}

#[test]
fn nvrtc_capabilities_of_the_workspace_are_noticed() {
    capabilities_of_the_workspace(Compiler::Nvrtc13);
}

/// Links to everything in a toolkit, but for CCCL's headers, which are copied.
fn toolkit_with_own_cccl(place: &Path, real: &Path) -> PathBuf {
    let root = place.join("toolkit");
    let link_all = |from: &Path, to: &Path, without: &str| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            if entry.file_name() != without {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    link_all(real, &root, "include");
    // nvcc finds its profile beside the path that it is called by.
    fs::remove_file(root.join("bin")).unwrap();
    link_all(&real.join("bin"), &root.join("bin"), "");
    link_all(&real.join("include"), &root.join("include"), "cccl");
    copy(&real.join("include/cccl"), &root.join("include/cccl"));
    root
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-rL").args([from, to]).output();
    succeeded(copied.unwrap()).unwrap();
}

/// As pip does it: the old files go, the new ones are written.
fn a_component_replaced_in_place(compiler: Compiler) {
    let root = compiler.root();
    let name = format!("replaced-{}", compiler.id());
    let beside = place(&format!("{name}-toolkit"));
    let toolkit = toolkit_with_own_cccl(&beside, &root.join("nvidia/cu13"));
    let package = Package::with_root(&name, &toolkit);
    let source = format!("#include <cub/version.cuh>\n{}", kernel("CUB_VERSION"));
    package.write("kernels/m.cu", source);
    package.write_modules(compiler, &[("m", "")]);
    let mut edits = Edits::of(&package);
    edits.changes("another CCCL", |_| {
        let (cccl, new) = (toolkit.join("include/cccl"), beside.join("new"));
        copy(&cccl, &new);
        // They have to agree.
        for (header, name) in [
            ("cuda/std/__cccl/version.h", "#define CCCL_VERSION "),
            ("cub/version.cuh", "#define CUB_VERSION "),
        ] {
            let header = new.join(header);
            let text = fs::read_to_string(&header).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let version = line
                .and_then(|line| line.split_whitespace().next())
                .unwrap();
            let next = (version.parse::<u32>().unwrap() + 1).to_string();
            fs::write(&header, text.replace(version, &next)).unwrap();
        }
        fs::remove_dir_all(&cccl).unwrap();
        fs::rename(new, cccl).unwrap();
    });
    edits.finish();
}

#[test]
fn nvrtc_headers_of_a_component_replaced_in_place_are_noticed() {
    a_component_replaced_in_place(Compiler::Nvrtc13);
}

#[test]
fn nvcc_headers_of_a_component_replaced_in_place_are_noticed() {
    a_component_replaced_in_place(Compiler::Nvcc13);
}

#[test]
#[ignore = "minutes: every variable of the host compiler"]
fn variables_of_the_host_compiler_are_noticed() {
    let compiler = Compiler::Nvcc13;
    let mut package = Package::new("variables", compiler);
    package.write("path1/cp.cuh", "#define V 1\n");
    package.write("path2/cp.cuh", "#define V 2\n");
    let odd = package.path.join(OsStr::from_bytes(b"path\xff3"));
    fs::create_dir_all(&odd).unwrap();
    fs::write(odd.join("cp.cuh"), "#define V 3\n").unwrap();
    package.write(
        "kernels/m.cu",
        format!("#include <cp.cuh>\n{}", kernel("V")),
    );
    package.write_modules(compiler, &[("m", "")]);
    let (one, two) = (package.path.join("path1"), package.path.join("path2"));
    let mut wrong = Vec::new();
    for name in ["CPATH", "CPLUS_INCLUDE_PATH"] {
        for value in [&one, &two, &one, &odd, &two] {
            package.set(name, value);
            if let Err(error) = package.compare() {
                wrong.push(format!("{name}={}: {error}", value.display()));
            }
        }
        package.variables.pop();
    }
    package.set("CPATH", &one);
    package.build().unwrap();
    package.write("path1/cp.cuh", "#define V 4\n");
    wrong.extend(
        package
            .compare()
            .err()
            .map(|error| format!("the header: {error}")),
    );
    package.set("NVCC_APPEND_FLAGS", OsStr::from_bytes(b"-DX=\"\xff\""));
    wrong.extend(
        package
            .compare()
            .err()
            .map(|error| format!("flags: {error}")),
    );
    assert!(wrong.is_empty(), "wrong after:\n{}", wrong.join("\n"));
}

/// A lock file that does not exist yet is declared, too. This one is an error, so a build that fails has read it.
#[test]
fn a_lock_file_is_noticed_as_soon_as_it_is_there() {
    let mut package = Package::new("lock", Compiler::Nvrtc13);
    package.set("CUDA_BUILD_LOCK", package.path.join("cuda-toolkits.lock"));
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(Compiler::Nvrtc13, &[("m", "")]);
    package.build().unwrap();
    package.write("cuda-toolkits.lock", "<<<<<<< HEAD\n");
    let message = package.build().unwrap_err();
    assert!(message.contains("cuda-toolkits.lock"), "{message}");
    fs::remove_file(package.path.join("cuda-toolkits.lock")).unwrap();
    package.build().unwrap();
}

/// Cargo does not count the packages of a vendor directory as members of the workspace above it.
#[test]
fn vendored_packages_do_not_take_the_workspaces_settings() {
    let compiler = Compiler::Nvrtc13;
    let package = Package::new("vendored", compiler);
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    let expected = package.build().unwrap();
    let user = package.place.join("user");
    let vendored = user.join("vendor/dep");
    fs::create_dir_all(&vendored).unwrap();
    copy(&package.path.join("kernels"), &vendored.join("kernels"));
    // As `cargo vendor` writes it: without `[workspace]`, and with its checksums.
    let manifest = fs::read_to_string(package.path.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("[workspace]\n", "");
    fs::write(vendored.join("Cargo.toml"), manifest).unwrap();
    fs::write(
        vendored.join(".cargo-checksum.json"),
        "{\"files\":{},\"package\":null}",
    )
    .unwrap();
    for settings in ["toolkit = \">=99\"", "capabilities = [\"9.0\"]"] {
        let text = format!(
            "[package]\nname = \"user\"\nversion = \"0.1.0\"\n[workspace]\n[workspace.metadata.cuda]\n{settings}\n"
        );
        fs::write(user.join("Cargo.toml"), text).unwrap();
        let out = package.place.join("vendored-out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        succeeded(package.script_in(&vendored, &out).output().unwrap()).unwrap();
        assert!(script_outputs(&out) == expected, "{settings}");
    }
}

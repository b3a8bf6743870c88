//! Tools that are missing, replaced, or other than expected while images are joined.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::images::Package;
use crate::support::succeeds;

const KERNEL: &str = "\
static __device__ int counter = 3;
template <class T> __global__ void scale(T *p) { *p = *p * T(counter); }
extern \"C\" void run(float *p, int *q) { scale<<<1, 1>>>(p); scale<<<1, 1>>>(q); }
";

fn write_script(path: &Path, text: &str) {
    let _ = fs::remove_file(path);
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The machine's own compiler, which names the `objcopy` in the returned file.
fn compiler_with_objcopy(package: &mut Package) -> PathBuf {
    let bin = package.out("bin");
    fs::create_dir(&bin).unwrap();
    let (compiler, objcopy) = (bin.join("g++"), bin.join("objcopy"));
    let named = objcopy.display();
    write_script(
        &compiler,
        &format!(
            "[ \"$1\" = -print-prog-name=objcopy ] && echo {named} || exec /usr/bin/g++ \"$@\""
        ),
    );
    package.variables.push(("NVCC_CCBIN", compiler));
    objcopy
}

#[test]
fn objects_are_joined_with_a_good_objcopy_alone() {
    let Some(mut package) = Package::new(KERNEL, None) else {
        return;
    };
    let objcopy = compiler_with_objcopy(&mut package);
    let mut fresh = BTreeMap::new();
    package.build("first", "8.0");
    let for_another_machine = "echo 'Unable to recognise the format' >&2; exit 1";
    let changes_nothing = "exec objcopy \"$3\" \"$4\"";
    let adds_a_section = "objcopy \"$@\" && objcopy --add-section .more=/bin/sh \"$4\"";
    let good = "exec objcopy \"$@\"";
    // A good one is replaced, so a check that succeeded does not count any more.
    let all = [
        ("missing", "", "no `objcopy`"),
        ("format", for_another_machine, "Unable to recognise"),
        ("nothing", changes_nothing, "changed the device code"),
        ("good", good, ""),
        ("section", adds_a_section, "of the joined object differs"),
    ];
    for (name, script, expected) in all {
        if !script.is_empty() {
            write_script(&objcopy, script);
        }
        let mut copy = Command::new("cp");
        succeeds(
            copy.arg("-r")
                .args([package.out("first"), package.out(name)]),
        );
        let (calls, reason) = package.build(name, "8.0,9.0");
        let whole = calls == ["sm_80 sm_90"];
        assert_eq!(whole, !expected.is_empty(), "{name}: {calls:?}, {reason}");
        assert!(reason.contains(expected), "{name}: {reason}");
        package.check(name, "8.0,9.0", &mut fresh);
    }
}

struct Ptxas {
    path: PathBuf,
    real: String,
}

/// A package with links to a toolkit, in which `ptxas` can be replaced.
fn package_with_own_ptxas() -> Option<(Package, Ptxas)> {
    if std::env::var_os("CUDA_BUILD_TEST_CUDA").is_some() {
        eprintln!("left out: only the fetched toolkit has this layout");
        return None;
    }
    let mut package = Package::new(KERNEL, None)?;
    let real = package.components.join("nvidia/cu13");
    let root = package.out("toolkit");
    fs::create_dir_all(root.join("bin")).unwrap();
    let link = |directory: &Path, to: &Path| {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_name() != "bin" {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    link(&real, &root);
    link(&real.join("bin"), &root.join("bin"));
    package.components = root;
    let path = package.components.join("bin/ptxas");
    let real = fs::canonicalize(&path).unwrap().display().to_string();
    Some((package, Ptxas { path, real }))
}

/// As an upgrade replaces a toolkit: at the same path, with the same version of nvcc.
#[test]
fn images_of_a_replaced_toolkit_are_not_used() {
    for shared in [false, true] {
        let Some((mut package, ptxas)) = package_with_own_ptxas() else {
            return;
        };
        package.images = shared.then(|| package.out("images"));
        let mut outputs = Vec::new();
        for option in ["", "-O0"] {
            write_script(&ptxas.path, &format!("exec {} \"$@\" {option}", ptxas.real));
            let (calls, reason) = package.build("out", "8.0");
            assert_eq!(calls, ["sm_80"], "{option}: {reason}");
            let (calls, reason) = package.build("out", "8.0,9.0");
            assert_eq!(calls, ["sm_90"], "{option}: {reason}");
            let images = package.images.take();
            let mut fresh = BTreeMap::new();
            let name = format!("for-ptxas{option}");
            package.build(&name, "8.0,9.0");
            fresh.insert("8.0,9.0".to_owned(), package.output(&name));
            package.check("out", "8.0,9.0", &mut fresh);
            package.images = images;
            outputs.push(package.output("out"));
        }
        assert_ne!(outputs[0], outputs[1]);
    }
}

/// Jobs for one capability each also check for the build that joins their outputs.
#[test]
fn a_build_from_shared_images_checks_nothing() {
    let Some((mut package, ptxas)) = package_with_own_ptxas() else {
        return;
    };
    let log = package.out("log");
    let logs = format!("echo called >> {}", log.display());
    write_script(&ptxas.path, &format!("{logs}\nexec {} \"$@\"", ptxas.real));
    let calls = || fs::read_to_string(&log).unwrap().lines().count();
    package.images = Some(package.out("images"));
    for job in ["8.0", "9.0"] {
        package.build(&format!("job-{job}"), job);
    }
    // The last build is on another machine.
    fs::remove_dir_all(package.out("cache")).unwrap();
    let before = calls();
    let (compiled, reason) = package.build("last", "8.0,9.0");
    assert_eq!((compiled, calls()), (Vec::new(), before), "{reason}");
    package.images = None;
    package.check("last", "8.0,9.0", &mut BTreeMap::new());
}

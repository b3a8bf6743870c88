//! The store of toolkits, lock files, and the cache directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::Snapshot;
use super::machine::Machine;

const HASH: &str = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

/// A lock file that pins CUDA 13.4.3.
pub(super) fn lock() -> String {
    format!(
        "format_version = 1\n{}",
        toolkit("13.4.3", "nvidia-cuda-runtime", "13.4.92")
    )
}

fn toolkit(version: &str, package: &str, package_version: &str) -> String {
    format!(
        "[[toolkit]]\nrequest = \"13\"\nversion = \"{version}\"\n[[toolkit.packages]]\nname = \"{package}\"\n\
         version = \"{package_version}\"\nhashes = [\"{HASH}\"]\n"
    )
}

/// Puts a fetched toolkit into the store.
pub(super) fn store(machine: &Machine, name: &str, version: &str) {
    let manifest = format!(
        "format_version = 1\nplatform = \"x86_64-linux\"\nbytes = 1\ncomponents = [\"cudart\"]\nversion = \"{version}\"\n\
         [[packages]]\nname = \"nvidia-cuda-runtime\"\nversion = \"13.4.92\"\nhashes = [\"{HASH}\"]\n"
    );
    machine.write(
        &format!("/here/cache/toolkits/{name}/toolkit.toml"),
        manifest,
    );
}

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("The cache directory and the store");
    let machine = Machine::new();
    machine.fails(snapshot, "CUDA_BUILD_CACHE_DIR= HOME= toolkit list");
    machine.fails(snapshot, "CUDA_BUILD_CACHE_DIR=cache toolkit list");
    machine.fails(snapshot, "CUDA_BUILD_CACHE_DIR= HOME=home toolkit list");
    machine.fails(snapshot, "toolkit remove 13");
    store(&machine, "13.4.3-0123456789abcdef", "13.4.3");
    store(&machine, "13.4.3-fedcba9876543210", "13.4.3");
    machine.fails(snapshot, "toolkit remove 12");
    machine.fails(snapshot, "toolkit remove 13");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(machine.path("cache/toolkits"), open).unwrap();
    machine.fails_as(
        snapshot,
        "every user can write in the store",
        "toolkit list",
    );

    snapshot.area("The lock file");
    let machine = Machine::new();
    machine.write(
        "Cargo.toml",
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[workspace]\n",
    );
    machine.write("src/lib.rs", "");
    let good = lock();
    machine.fails_as(snapshot, "no lock file", "toolkit add 13 --locked");
    for (what, text) in [
        ("a conflict of a merge", "<<<<<<< HEAD\n".to_owned()),
        ("a newer format", good.replacen('1', "2", 1)),
        (
            "no CUDA release requested",
            good.replace("\"13\"", "\"new\""),
        ),
        ("another request", good.replace("\"13\"", "\"12\"")),
        ("no CUDA release", good.replace("\"13.4.3\"", "\"new\"")),
        (
            "no package of CUDA",
            good.replace("nvidia-cuda-runtime", "six"),
        ),
        (
            "a version that is none",
            good.replace("\"13.4.92\"", "\"a b\""),
        ),
        (
            "a package of another release",
            good.replace("13.4.92", "13.5.37"),
        ),
        ("no hash", good.replace(&format!("\"{HASH}\""), "")),
        ("a hash that is none", good.replace(HASH, "md5-abc")),
        (
            "a package twice",
            format!(
                "{good}{}",
                good.split_once("\n[[toolkit.packages]]")
                    .map(|(_, p)| format!("[[toolkit.packages]]{p}"))
                    .unwrap()
            ),
        ),
    ] {
        machine.write("cuda-toolkits.lock", text);
        machine.fails_as(snapshot, what, "toolkit add 13 --only cudart");
    }
    machine.write("cuda-toolkits.lock", &good);
    machine.fails(snapshot, "toolkit add 12 --locked");
    machine.fails(snapshot, "toolkit add 13 --only cublas --locked");
    machine.fails_as(
        snapshot,
        "the toolkit of the lock file was not fetched",
        "build --locked",
    );
}

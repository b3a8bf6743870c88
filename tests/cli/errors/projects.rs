//! Commands in packages and workspaces: builds, views, new packages, environments.

use super::Snapshot;
use super::library::TOOLKIT;
use super::machine::Machine;
use super::store::lock;

/// A manifest with a table for CUDA.
fn manifest(name: &str, lib: &str, cuda: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{lib}\n[package.metadata.cuda]\n{cuda}\n"
    )
}

pub(super) const CDYLIB: &str = "[lib]\ncrate-type = [\"cdylib\"]\n";

/// A package of this manifest.
pub(super) fn package(lib: &str, cuda: &str) -> Machine {
    let machine = Machine::new();
    machine.write("Cargo.toml", manifest("p", lib, cuda) + "\n[workspace]\n");
    machine.write("src/lib.rs", "");
    machine
}

/// A toolkit of empty files below `/here/cuda`.
pub(super) fn toolkit(machine: &Machine) {
    for (file, text) in TOOLKIT {
        machine.write(&format!("/here/cuda/{file}"), text);
    }
}

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Packages and workspaces");
    let machine = Machine::new();
    machine.fails(snapshot, "build");
    machine.fails(snapshot, "fetch");
    machine.fails(snapshot, "PATH=/nowhere build");
    machine.write("Cargo.toml", "[package]\n");
    std::fs::remove_file(machine.path("bin/cargo")).unwrap();
    machine.program("cargo", "echo 'error: of cargo' >&2; exit 101");
    machine.fails_as(snapshot, "cargo fails", "build");
    let machine = package("", "toolkit = \"<10\"");
    machine.fails(snapshot, "build");
    machine.fails(snapshot, "build --fetch");
    machine.fails(snapshot, "wheel --package q");
    machine.fails(snapshot, "build --target wasm32-unknown-unknown");
    machine.write(
        ".cargo/config.toml",
        "[build]\ntarget = \"x86_64-pc-windows-msvc\"\n",
    );
    machine.fails_as(snapshot, "`[build] target` in .cargo/config.toml", "build");
    let machine = package("", "");
    machine.fails(snapshot, "matrix");
    machine.fails(snapshot, "build");
    machine.fails(snapshot, "CUDA_HOME=/here/nowhere build");
    machine.fails(snapshot, "CUDA_HOME=cuda build");
    toolkit(&machine);
    machine.fails(snapshot, "CUDA_HOME=/here/cuda build --capabilities 7.0");
    machine.fails(snapshot, "CUDA_HOME=/here/cuda build --cuda 12");
    machine.fails(snapshot, "CUDA_HOME=/here/cuda view --components cufft");
    machine.write("full/thesis.tex", "");
    machine.fails(snapshot, "CUDA_HOME=/here/cuda view --output full");
    machine.fails(snapshot, "CUDA_HOME=/here/cuda exec no-such-program");
    let machine = package("", "");
    toolkit(&machine);
    machine.write("target/cargo-cuda/latest", "");
    machine.fails_as(
        snapshot,
        "target/cargo-cuda/latest is a file",
        "CUDA_HOME=/here/cuda build",
    );
    std::fs::remove_dir_all(machine.path("project/target")).unwrap();
    machine.write("target/cargo-cuda", "");
    machine.fails_as(
        snapshot,
        "target/cargo-cuda is a file",
        "CUDA_HOME=/here/cuda build",
    );
    let machine = package("", "");
    machine.write("cuda-toolkits.lock", lock());
    machine.fails(snapshot, "build --locked");
    new(snapshot);
    develop(snapshot);
}

fn new(snapshot: &mut Snapshot) {
    snapshot.area("New packages");
    let machine = Machine::new();
    machine.fails(snapshot, "new p --template opencl");
    machine.fails(snapshot, "new p --cuda-build-path nowhere");
    machine.fails(snapshot, "PATH=/nowhere new p");
    machine.fails(snapshot, "new lambda --template python");
    machine.fails(snapshot, "init");
    machine.write("Cargo.toml", "[workspace]\n");
    machine.fails_as(snapshot, "a workspace without a package", "init");
    machine.write("Cargo.toml", "[package\n");
    machine.fails_as(snapshot, "a manifest that is not TOML", "init");
}

fn develop(snapshot: &mut Snapshot) {
    snapshot.area("Python environments and build backends");
    let machine = package(CDYLIB, "capabilities = [\"8.0\"]\nmajors = [13]");
    machine.fails(snapshot, "develop");
    machine.fails(snapshot, "VIRTUAL_ENV=/here/nowhere develop");
    machine.script("/here/venv/bin/python", "exit 1");
    machine.fails(snapshot, "VIRTUAL_ENV=/here/venv develop");
    let pyproject = "[build-system]\nrequires = [\"maturin\"]\nbuild-backend = \"cuda_backend\"\nbackend-path = [\".\"]\n\
                     [project]\nname = \"p\"\ndynamic = [\"version\"]\n";
    machine.write("pyproject.toml", pyproject);
    machine.write("cuda_backend.py", "");
    toolkit(&machine);
    machine.write("out/file", "");
    let develop = "CUDA_HOME=/here/cuda VIRTUAL_ENV=/here/venv develop";
    machine.fails_as(snapshot, "the environment's Python fails", develop);
    machine.script(
        "/here/venv/bin/python",
        "case \"$*\" in *pip*) exit 1;; esac; echo /here/site",
    );
    machine.fails_as(snapshot, "no pip, and no uv", develop);
    machine.fails(snapshot, &format!("DOCS_RS=1 {develop}"));
    let hook = |settings: &str| {
        format!(
            "pep517 build-wheel out --python /here/venv/bin/python --config-settings '{settings}'"
        )
    };
    for settings in [
        "{",
        "{\"colour\": \"red\"}",
        "{\"cuda\": [\"13\"]}",
        "{\"cuda\": \"new\"}",
        "{\"build-args\": 1}",
    ] {
        machine.fails(snapshot, &hook(settings));
    }
    machine.fails_as(
        snapshot,
        "requirements that are not dynamic",
        &format!("CUDA_HOME=/here/cuda {}", hook("{}")),
    );
    machine.write(
        "pyproject.toml",
        pyproject.replace("\"version\"", "\"version\", \"dependencies\""),
    );
    machine.program("maturin", "case \"$1\" in --version) echo maturin 1.16.0;; *) echo 'error: of maturin' >&2; exit 1;; esac");
    machine.fails_as(
        snapshot,
        "another major than the manifest declares",
        &format!("CUDA_HOME=/here/cuda {}", hook("{\"cuda\": \"12\"}")),
    );
    machine.fails(
        snapshot,
        "pep517 build-sdist nowhere --python /here/venv/bin/python",
    );
    let sdist = "CUDA_HOME=/here/cuda pep517 build-sdist out --python /here/venv/bin/python";
    machine.fails_as(snapshot, "maturin fails", sdist);
    machine.program(
        "maturin",
        "case \"$1\" in --version) echo maturin 1.16.0;; esac",
    );
    machine.fails_as(snapshot, "maturin writes nothing", sdist);
    machine.fails_as(
        snapshot,
        "maturin writes nothing",
        "CUDA_HOME=/here/cuda pep517 prepare-metadata out --python /here/venv/bin/python",
    );
    let write = "case \"$1\" in --version) echo maturin 1.16.0;; *) while [ $# -gt 1 ]; do [ $1 = --sdist-directory ] && d=$2; shift; done;";
    machine.program("maturin", &format!("{write} echo x > $d/p.tar.gz;; esac"));
    machine.fails_as(snapshot, "a source distribution that is no archive", sdist);
    machine.write("p-1.0/a", "");
    machine.program(
        "maturin",
        &format!("{write} /bin/tar -cf - p-1.0 | /bin/gzip > $d/p.tar.gz;; esac"),
    );
    machine.fails_as(
        snapshot,
        "a source distribution without the build backend",
        sdist,
    );
}

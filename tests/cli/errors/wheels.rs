//! Wheels: what to build, maturin, and wheels of other builders.

use std::process::Command;

use cargo_cuda::wheel::dependencies;
use cargo_cuda::wheel::record::{Hasher, line, own_line};

use cuda_build::Component;

use super::Snapshot;
use super::audit::{replace, zip};
use super::machine::Machine;
use super::projects::{CDYLIB, package, toolkit};
use crate::audit::fixture::library;

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Wheels of this package");
    package("", "").fails(snapshot, "wheel --cuda 13");
    package(CDYLIB, "").fails(snapshot, "wheel");
    let machine = package(CDYLIB, "majors = [13]\nwheel.rpath = \"both\"");
    machine.fails(snapshot, "wheel");
    machine.fails(snapshot, "wheel --cuda 13.0,13.4");
    machine.fails(snapshot, "wheel --cuda 14");
    machine.fails(snapshot, "DOCS_RS=1 wheel");
    let machine = package(CDYLIB, "majors = [13]");
    machine.fails(snapshot, "wheel");
    toolkit(&machine);
    machine.program("maturin", "echo maturin 1.0.0");
    machine.fails_as(snapshot, "an old maturin", "CUDA_HOME=/here/cuda wheel");
    machine.program(
        "maturin",
        "case \"$1\" in --version) echo maturin 1.16.0;; *) exit 1;; esac",
    );
    machine.fails_as(snapshot, "no capabilities", "CUDA_HOME=/here/cuda wheel");
    machine.fails_as(
        snapshot,
        "maturin fails",
        "CUDA_HOME=/here/cuda wheel --capabilities 8.0",
    );
    machine.program(
        "maturin",
        "case \"$1\" in --version) echo maturin 1.16.0;; esac",
    );
    machine.fails_as(
        snapshot,
        "maturin writes nothing",
        "CUDA_HOME=/here/cuda wheel --capabilities 8.0",
    );
    machine.write(
        "pyproject.toml",
        "[build-system]\nrequires = [\"maturin<1.15\"]\nbuild-backend = \"maturin\"\n",
    );
    machine.fails_as(
        snapshot,
        "pyproject.toml has maturin<1.15",
        "CUDA_HOME=/here/cuda wheel",
    );
    let machine = Machine::new();
    machine.write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"3\"\n",
    );
    for name in ["a", "b"] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{CDYLIB}"
        );
        machine.write(&format!("{name}/Cargo.toml"), manifest);
        machine.write(&format!("{name}/src/lib.rs"), "");
    }
    machine.fails_as(snapshot, "a workspace with two packages", "wheel --cuda 13");
    snapshot.area("Wheels of other builders");
    let other = Other::new();
    other.cases(snapshot);
    other.built_here(snapshot);
}

/// A wheel that another program built.
struct Other {
    machine: Machine,
    module: Vec<u8>,
}

const NAME: &str = "p-1.0-cp39-abi3-linux_x86_64.whl";
const METADATA: &str = "p-1.0.dist-info/METADATA";
const SEARCH_PATH: &str = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib";
const RECORD: &str = "p-1.0.dist-info/RECORD";

impl Other {
    fn new() -> Self {
        let machine = Machine::new();
        machine.write("libcudart.so.13", library("libcudart.so.13"));
        let module = module(&machine, "libcudart.so.13", &[SEARCH_PATH]);
        Self { machine, module }
    }

    /// The files of a wheel that can be rewritten, with METADATA and requirements.
    fn files(&self, requires: &str) -> Vec<(String, Vec<u8>)> {
        vec![
            ("p/p.abi3.so".to_owned(), self.module.clone()),
            (
                METADATA.to_owned(),
                format!("Metadata-Version: 2.1\nName: p\nVersion: 1.0\n{requires}").into(),
            ),
            (
                "p-1.0.dist-info/WHEEL".to_owned(),
                b"Wheel-Version: 1.0\nTag: cp39-abi3-linux_x86_64\n".to_vec(),
            ),
        ]
    }

    /// Writes the wheel with a RECORD.
    fn write(&self, files: &[(String, Vec<u8>)], edit: impl Fn(String) -> String) {
        let mut record = String::new();
        for (path, content) in files {
            let mut hasher = Hasher::default();
            hasher.update(content);
            record.push_str(&line(path, &hasher.finish()));
        }
        record.push_str(&own_line(RECORD));
        let record = edit(record);
        let mut all: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_slice()))
            .collect();
        all.push((RECORD, record.as_bytes()));
        zip(&self.machine, NAME, &all);
    }

    fn fails(&self, snapshot: &mut Snapshot, what: &str) {
        self.machine.fails_as(
            snapshot,
            what,
            &format!("wheel --cuda 13 --from-wheel {NAME}"),
        );
    }

    /// A package whose maturin copies a wheel that is there already.
    fn built_here(&self, snapshot: &mut Snapshot) {
        let machine = package(CDYLIB, "majors = [13]\ncapabilities = [\"8.0\"]");
        toolkit(&machine);
        let mut files = self.files("");
        self.machine.write("libfoo.so.1", library("libfoo.so.1"));
        files[0].1 = module(&self.machine, "libfoo.so.1", &[]);
        self.write(&files, |record| record);
        let wheel = std::fs::read(self.machine.path("project").join(NAME)).unwrap();
        machine.write(NAME, wheel);
        let copy = "case \"$1\" in --version) echo maturin 1.16.0; exit;; esac\n\
                    while [ $# -gt 1 ]; do [ $1 = --out ] && out=$2; shift; done\n";
        machine.program("maturin", &format!("{copy}/bin/cp {NAME} \"$out\""));
        let failure = dependencies::no_package(Component::Sanitizer, 13);
        snapshot.add(
            "a declared component without a Python package",
            &failure.to_string(),
        );
        let pyproject = "[build-system]\nrequires = [\"maturin\"]\nbuild-backend = \"cuda_backend\"\nbackend-path = [\".\"]\n\
                         [project]\nname = \"p\"\ndynamic = [\"version\", \"dependencies\"]\n";
        let with_backend = package(CDYLIB, "majors = [13]\ncapabilities = [\"8.0\"]");
        toolkit(&with_backend);
        with_backend.write("pyproject.toml", pyproject);
        with_backend.write("cuda_backend.py", "");
        with_backend.write("out/file", "");
        with_backend.write(
            NAME,
            std::fs::read(machine.path("project").join(NAME)).unwrap(),
        );
        let twice = format!("{copy}/bin/cp {NAME} \"$out/a.whl\"; /bin/cp {NAME} \"$out/b.whl\"");
        with_backend.program("maturin", &twice);
        with_backend.fails_as(
            snapshot,
            "maturin writes two wheels",
            "CUDA_HOME=/here/cuda pep517 build-wheel out --python /nowhere",
        );
        machine.program("patchelf", "");
        machine.program("auditwheel", "echo 'error: of auditwheel' >&2; exit 1");
        machine.fails_as(snapshot, "auditwheel fails", "CUDA_HOME=/here/cuda wheel");
    }

    fn cases(&self, snapshot: &mut Snapshot) {
        let same = |record: String| record;
        let good = self.files("");
        self.write(&good, same);
        self.machine
            .fails(snapshot, &format!("wheel --cuda 12 --from-wheel {NAME}"));
        self.machine.fails(
            snapshot,
            &format!("wheel --cuda 13 --rpath both --from-wheel {NAME}"),
        );
        let mut without_path = good.clone();
        without_path[0].1 = module(&self.machine, "libcudart.so.13", &[]);
        self.write(&without_path, same);
        self.fails(snapshot, "no search path");
        self.write(&good, same);
        let unnamed = std::fs::read(self.machine.path("project").join(NAME)).unwrap();
        self.machine.write("p.whl", unnamed);
        self.machine
            .fails(snapshot, "wheel --cuda 13 --from-wheel p.whl");
        for (what, requires) in [
            ("a requirement that is none", "Requires-Dist: [x]\n"),
            ("a requirement without `]`", "Requires-Dist: x[y\n"),
            ("a requirement with other text", "Requires-Dist: x new\n"),
            (
                "a requirement of CUDA 12",
                "Requires-Dist: nvidia-cuda-runtime-cu12\n",
            ),
            (
                "a requirement without an upper bound",
                "Requires-Dist: nvidia-cuda-runtime\n",
            ),
            ("two names", "Name: q\n"),
        ] {
            self.write(&self.files(requires), same);
            self.fails(snapshot, what);
        }
        type Edit = fn(String) -> String;
        let edits: [(&str, Edit); 5] = [
            ("RECORD without a size", |record| record + "p.py\n"),
            ("RECORD with a file twice", |record| {
                record.clone() + &record
            }),
            ("RECORD with another file", |record| {
                record + "q.py,sha256=abc,1\n"
            }),
            ("RECORD with another hash", |record| {
                record.replacen("sha256=", "md5=", 1)
            }),
            ("RECORD without a file", |record| {
                record.split_once('\n').unwrap().1.to_owned()
            }),
        ];
        for (what, edit) in edits {
            self.write(&good, edit);
            self.fails(snapshot, what);
        }
        self.write(&good, |record| record.replacen("sha256=", "sha256=A", 1));
        self.fails(snapshot, "a file that is not the one in RECORD");
        let metadata = |text: &str| {
            let mut files = self.files("");
            files[1].1 = text.into();
            files
        };
        for (what, text) in [
            ("METADATA without a name", "Version: 1.0\n"),
            ("a name that is none", "Name: -p-\nVersion: 1.0\n"),
            ("a name with a major", "Name: p-cu13\nVersion: 1.0\n"),
            ("a version that is none", "Name: p\nVersion: new\n"),
            ("another version", "Name: p\nVersion: 2.0\n"),
        ] {
            self.write(&metadata(text), same);
            self.fails(snapshot, what);
        }
        let mut without_wheel = good.clone();
        without_wheel.remove(2);
        self.write(&without_wheel, same);
        self.fails(snapshot, "no file WHEEL");
        let mut signed = good.clone();
        signed.push(("p-1.0.dist-info/RECORD.jws".to_owned(), Vec::new()));
        self.write(&signed, same);
        self.fails(snapshot, "a signed wheel");
        self.write(&good[1..], same);
        self.fails(snapshot, "no native module");
        let mut bundled = good.clone();
        bundled.push((
            "p.libs/libcudart.so.13".to_owned(),
            library("libcudart.so.13"),
        ));
        self.write(&bundled, same);
        self.fails(snapshot, "a copy of the CUDA runtime");
        let mut damaged = good.clone();
        damaged.push(("p/q.so".to_owned(), b"\x7fELF, but no library".to_vec()));
        self.write(&damaged, same);
        self.fails(snapshot, "a damaged library");
        let mut other = good.clone();
        self.machine
            .write("libcublas.so.99", library("libcublas.so.99"));
        other[0].1 = module(&self.machine, "libcublas.so.99", &[SEARCH_PATH]);
        self.write(&other, same);
        self.fails(snapshot, "a library of an unknown CUDA");
        let mut executable = good.clone();
        executable[0].1 = module(
            &self.machine,
            "libcudart.so.13",
            &[SEARCH_PATH, "-Wl,-z,execstack"],
        );
        self.write(&executable, same);
        self.fails(snapshot, "an executable stack");
        self.write(&good, same);
        self.machine.fails(
            snapshot,
            &format!("wheel --cuda 13 --max-size '1 kB' --from-wheel {NAME}"),
        );
        let mut outside = good.clone();
        outside[0].0 = "p-1.0.data/data/p.so".to_owned();
        self.write(&outside, same);
        self.fails(snapshot, "a module outside site-packages");
        self.write(&good, same);
        replace(
            &self.machine,
            NAME,
            b"Metadata-Version",
            b"metadata-Version",
        );
        self.fails(snapshot, "a changed file");
        self.machine.write("dir/file", "");
        self.machine
            .fails(snapshot, "wheel --cuda 13 --from-wheel dir");
    }
}

/// Links a module with a library of the machine's working directory, with more options for the linker.
fn module(machine: &Machine, library: &str, options: &[&str]) -> Vec<u8> {
    let work = machine.path("project");
    let output = work.join("module.so");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-shared",
        "-nostdlib",
        "-x",
        "c",
        "/dev/null",
        "-x",
        "none",
        "-o",
    ])
    .arg(&output)
    .args(["-Wl,--no-as-needed,--disable-new-dtags"])
    .args(options)
    .arg(work.join(library));
    assert!(gcc.status().unwrap().success());
    std::fs::read(output).unwrap()
}

//! A good wheel, built from a real library of NVIDIA, and ways to change one thing of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use cargo_cuda::wheel::record::{Hasher, line, own_line};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::components::site_packages;
use crate::support::Finished;

/// The images of the good wheel: a newer GPU than all of these has PTX.
pub const GOOD: &[&str] = &["80", "90", "100", "120", "120 PTX"];

/// The search path of the good module.
pub const RPATH: &str = "$ORIGIN/../nvidia/cu13/lib";

/// How a module is linked.
pub struct Module {
    pub code: String,
    pub images: Vec<&'static str>,
    pub section: &'static str,
    /// Whether the code is also in the section of relocatable code.
    pub relocatable: bool,
    pub rpath: Vec<String>,
    pub options: Vec<String>,
}

impl Module {
    pub fn good() -> Self {
        Self {
            code: "extern int cudaRuntimeGetVersion(int *);\n\
                   int saxpy(void) { int v = 0; return cudaRuntimeGetVersion(&v) + v; }\n"
                .to_owned(),
            images: GOOD.to_vec(),
            section: ".nv_fatbin",
            relocatable: false,
            rpath: vec![RPATH.to_owned()],
            options: vec![
                format!("-L{}", cudart().display()),
                "-l:libcudart.so.13".to_owned(),
            ],
        }
    }

    pub fn link(&self) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let (source, output) = (place.path().join("m.c"), place.path().join("m.so"));
        let image = place.path().join("image");
        fs::write(&image, container(&self.images)).unwrap();
        let mut code = self.code.clone();
        let relocatable = self.relocatable.then_some("__nv_relfatbin");
        for section in [self.section].into_iter().chain(relocatable) {
            code.push_str(&format!(
                "__asm__(\".section {section},\\\"a\\\"\\n.incbin \\\"{}\\\"\\n.previous\");\n",
                image.display()
            ));
        }
        fs::write(&source, code).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-Wl,--disable-new-dtags", "-o"]);
        gcc.arg(&output).arg(&source).args(&self.options);
        gcc.args(self.rpath.iter().map(|entry| format!("-Wl,-rpath,{entry}")));
        run(&mut gcc);
        fs::read(output).unwrap()
    }
}

/// A library with this SONAME, which stands for a copy of it.
pub fn library(soname: &str) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("lib.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
        .arg(&output);
    run(gcc.arg(format!("-Wl,-soname,{soname}")));
    fs::read(output).unwrap()
}

/// Where the CUDA runtime of the tests is.
pub fn cudart() -> PathBuf {
    site_packages(13).unwrap().join("nvidia/cu13/lib")
}

pub fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A container with some of the images that nvcc compiled.
pub fn container(images: &[&str]) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    for image in images {
        body.extend(&all_images()[*image]);
    }
    let mut bytes = all_images()["header"].clone();
    bytes[8..16].copy_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The images of one call of nvcc, with the container's header.
fn all_images() -> &'static BTreeMap<String, Vec<u8>> {
    static IMAGES: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let (source, output) = (place.path().join("k.cu"), place.path().join("k.fatbin"));
        let kernel =
            "extern \"C\" __global__ void scale(float *v, float f) { v[threadIdx.x] *= f; }\n";
        fs::write(&source, kernel).unwrap();
        let root = site_packages(13).unwrap().join("nvidia/cu13");
        let mut nvcc = Command::new(root.join("bin/nvcc"));
        nvcc.args(["-fatbin", "-o"]).arg(&output).arg(&source);
        for real in ["80", "90", "90a", "100", "120"] {
            nvcc.args(["-gencode", &format!("arch=compute_{real},code=sm_{real}")]);
        }
        for code in [
            "arch=compute_120,code=compute_120",
            "arch=compute_90,code=lto_90",
        ] {
            nvcc.args(["-gencode", code]);
        }
        run(&mut nvcc);
        let bytes = fs::read(output).unwrap();
        let number = |at: usize, len: usize| {
            let mut number = [0; 8];
            number[..len].copy_from_slice(&bytes[at..at + len]);
            u64::from_le_bytes(number) as usize
        };
        let mut images = BTreeMap::from([("header".to_owned(), bytes[..16].to_vec())]);
        let mut at = 16;
        while at < bytes.len() {
            let len = number(at + 4, 4) + number(at + 8, 8);
            let suffix = if number(at + 40, 8) & 0x10_0000 != 0 {
                "a"
            } else {
                ""
            };
            let kind = match number(at, 2) {
                1 => " PTX",
                2 => "",
                8 => " LTO",
                other => panic!("an image of kind {other}"),
            };
            let name = format!("{}{suffix}{kind}", number(at + 28, 4));
            images.insert(name, bytes[at..at + len].to_vec());
            at += len;
        }
        images
    })
}

/// The files of a wheel.
#[derive(Clone)]
pub struct Wheel {
    pub name: String,
    pub tag: String,
    pub requires: Vec<String>,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that are changed after RECORD was written.
    pub changed: BTreeMap<String, Vec<u8>>,
}

impl Wheel {
    pub fn good() -> Self {
        static MODULE: OnceLock<Vec<u8>> = OnceLock::new();
        Self::with_module(MODULE.get_or_init(|| Module::good().link()).clone())
    }

    pub fn with_module(module: Vec<u8>) -> Self {
        Self {
            name: "saxpy_cu13".to_owned(),
            tag: "cp39-abi3-manylinux_2_17_x86_64".to_owned(),
            requires: vec!["cuda-toolkit[cudart]>=13.0,<14".to_owned()],
            files: BTreeMap::from([
                (
                    "saxpy/__init__.py".to_owned(),
                    b"from .saxpy import *\n".to_vec(),
                ),
                ("saxpy/saxpy.abi3.so".to_owned(), module),
            ]),
            changed: BTreeMap::new(),
        }
    }

    pub fn file_name(&self) -> String {
        format!("{}-0.1.0-{}.whl", self.name, self.tag)
    }

    pub fn write(&self, directory: &Path) -> PathBuf {
        let path = directory.join(self.file_name());
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        for (name, content) in self.all_files() {
            let content = self.changed.get(&name).unwrap_or(&content);
            zip.start_file(name, options).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    /// The files with metadata and RECORD.
    pub fn all_files(&self) -> BTreeMap<String, Vec<u8>> {
        let dist_info = format!("{}-0.1.0.dist-info", self.name);
        let mut files = self.files.clone();
        let mut metadata = format!(
            "Metadata-Version: 2.4\nName: {}\nVersion: 0.1.0\nLicense-Expression: MIT\nLicense-File: LICENSE\n",
            self.name.replace('_', "-")
        );
        for requirement in &self.requires {
            metadata.push_str(&format!("Requires-Dist: {requirement}\n"));
        }
        let wheel = format!(
            "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {}\n",
            self.tag
        );
        for (name, text) in [
            ("METADATA", metadata),
            ("WHEEL", wheel),
            ("licenses/LICENSE", "MIT\n".to_owned()),
        ] {
            files.insert(format!("{dist_info}/{name}"), text.into_bytes());
        }
        let mut record = String::new();
        for (path, content) in &files {
            let mut hasher = Hasher::default();
            hasher.update(content);
            record.push_str(&line(path, &hasher.finish()));
        }
        let own = format!("{dist_info}/RECORD");
        record.push_str(&own_line(&own));
        files.insert(own, record.into_bytes());
        files
    }
}

/// Runs `cargo cuda audit`.
pub fn audit(arguments: &[&str], paths: &[&Path]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command.args(["cuda", "audit"]).args(arguments).args(paths);
    Finished::of(command.output().unwrap())
}

/// The JSON report of one artifact, whatever the exit code.
#[track_caller]
pub fn report(finished: &Finished) -> Value {
    let report: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    assert_eq!(report["format_version"], 1);
    report["artifacts"][0].clone()
}

/// The codes of the findings, each once.
pub fn codes(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let mut codes: Vec<String> = findings
        .map(|finding| finding["code"].as_str().unwrap().to_owned())
        .collect();
    codes.dedup();
    codes
}

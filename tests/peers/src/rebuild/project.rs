//! Twelve `.cu` files that a program prints something from, so that a stale object shows.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ways::Way;

pub const FILES: usize = 12;

/// What changes before a build.
#[derive(Clone, Copy, Debug)]
pub enum Situation {
    /// A header that all files include.
    Header,
    /// One file.
    OneFile,
}

pub struct Project {
    directory: PathBuf,
    all: u32,
    third: u32,
}

impl Project {
    pub fn write(directory: &Path, way: &Way) -> io::Result<Self> {
        fs::create_dir_all(directory.join("src"))?;
        fs::create_dir_all(directory.join("kernels"))?;
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-build");
        let manifest = format!(
            "[package]\nname = \"twelve\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
             [build-dependencies]\n{}\n\n[package.metadata.cuda]\ncapabilities = [\"8.0\"]\n",
            way.dependency
                .replace("CUDA_BUILD", &format!("{:?}", own.canonicalize()?))
        );
        fs::write(directory.join("Cargo.toml"), manifest)?;
        fs::write(directory.join("src/lib.rs"), library(way))?;
        // Cargo links what a build script names into the library, and so into its users.
        let main = "fn main() {\n    twelve::values().iter().for_each(|value| println!(\"{value}\"));\n}\n";
        fs::write(directory.join("src/main.rs"), main)?;
        fs::write(
            directory.join("build.rs"),
            way.script.replacen("{\n", PREPARE, 1),
        )?;
        for (name, text) in way.files {
            fs::write(directory.join(name), text)?;
        }
        let project = Self {
            directory: directory.to_owned(),
            all: 1000,
            third: 200,
        };
        project.write_header()?;
        for index in 0..FILES {
            project.write_kernel(index)?;
        }
        Ok(project)
    }

    pub fn change(&mut self, situation: Situation) -> io::Result<()> {
        match situation {
            Situation::Header => {
                self.all += 1000;
                self.write_header()
            }
            Situation::OneFile => {
                self.third += 1;
                self.write_kernel(3)
            }
        }
    }

    /// What the program prints when every object is up to date.
    pub fn expected(&self) -> String {
        (0..FILES).fold(String::new(), |mut text, index| {
            let _ = writeln!(text, "{}", self.all + self.value(index));
            text
        })
    }

    fn value(&self, index: usize) -> u32 {
        match index {
            3 => self.third,
            _ => u32::try_from(index).unwrap_or_default(),
        }
    }

    fn write_header(&self) -> io::Result<()> {
        let text = format!("#pragma once\n#define ALL {}\n", self.all);
        fs::write(self.directory.join("kernels/all.cuh"), text)
    }

    fn write_kernel(&self, index: usize) -> io::Result<()> {
        let value = self.value(index);
        let text = format!(
            "#include \"all.cuh\"\n\n\
             __global__ void fill_{index:02}(float *out, int n) {{\n    \
                 int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
                 if (i < n) out[i] = out[i] * 2.0f + (ALL + {value});\n}}\n\n\
             extern \"C\" void launch_{index:02}(float *out, int n) {{ fill_{index:02}<<<(n + 255) / 256, 256>>>(out, n); }}\n\n\
             extern \"C\" int value_{index:02}() {{ return ALL + {value}; }}\n"
        );
        fs::write(self.directory.join(format!("kernels/k{index:02}.cu")), text)
    }
}

/// The start of each build script, with which it can be compiled and run without building anything.
const PREPARE: &str = r#"{
    if std::env::var_os("PEERS_PREPARE").is_some() {
        println!("cargo:rerun-if-env-changed=PEERS_PREPARE");
        std::process::exit(0);
    }
"#;

fn library(way: &Way) -> String {
    if !way.compiles() {
        return format!("pub fn values() -> [i32; {FILES}] {{\n    [0; {FILES}]\n}}\n");
    }
    let mut text = String::from("extern \"C\" {\n");
    for index in 0..FILES {
        let _ = writeln!(text, "    fn value_{index:02}() -> i32;");
    }
    let _ = writeln!(
        text,
        "}}\n\npub fn values() -> [i32; {FILES}] {{\n    unsafe {{\n        ["
    );
    for index in 0..FILES {
        let _ = writeln!(text, "            value_{index:02}(),");
    }
    text.push_str("        ]\n    }\n}\n");
    text
}

/// The version of a package in a lock file.
pub fn locked_version(lock: &str, package: &str) -> Option<String> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")))?;
    let value = entry
        .lines()
        .find_map(|line| line.strip_prefix("version = "))?;
    Some(value.trim_matches('"').to_owned())
}

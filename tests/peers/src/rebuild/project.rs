//! Twelve `.cu` files that a program prints something from, so that a stale object shows.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ways::Way;

pub const FILES: usize = 12;

/// What happens before a build.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    First,
    Nothing,
    /// A header that two files include.
    Header,
    /// One file.
    Source,
    /// One file, in a way that changes nothing but its lines' numbers.
    Comment,
}

pub struct Project {
    directory: PathBuf,
    pair: u32,
    third: u32,
    comment: &'static str,
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
        fs::write(directory.join("src/lib.rs"), library())?;
        // Cargo links what a build script names into the library, and so into its users.
        let main = "fn main() {\n    twelve::values().iter().for_each(|value| println!(\"{value}\"));\n}\n";
        fs::write(directory.join("src/main.rs"), main)?;
        for (name, text) in way.files {
            fs::write(directory.join(name), text)?;
        }
        let project = Self {
            directory: directory.to_owned(),
            pair: 100,
            third: 200,
            comment: "",
        };
        fs::write(
            directory.join("kernels/all.cuh"),
            "#pragma once\n#define ALL 1000\n",
        )?;
        project.write_header()?;
        for index in 0..FILES {
            project.write_kernel(index)?;
        }
        Ok(project)
    }

    pub fn change(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::First | Change::Nothing => Ok(()),
            Change::Header => {
                self.pair += 1;
                self.write_header()
            }
            Change::Source => {
                self.third += 1;
                self.write_kernel(3)
            }
            Change::Comment => {
                self.comment = "// A line of comment.\n";
                self.write_kernel(3)
            }
        }
    }

    /// What the program prints when every object is up to date.
    pub fn expected(&self) -> String {
        let value = |index| match index {
            0 | 1 => 1000 + self.pair,
            3 => 1000 + self.third,
            _ => 1000 + u32::try_from(index).unwrap_or_default(),
        };
        (0..FILES).fold(String::new(), |mut text, index| {
            let _ = writeln!(text, "{}", value(index));
            text
        })
    }

    fn write_header(&self) -> io::Result<()> {
        let text = format!("#pragma once\n#define PAIR {}\n", self.pair);
        fs::write(self.directory.join("kernels/pair.cuh"), text)
    }

    fn write_kernel(&self, index: usize) -> io::Result<()> {
        let (include, value) = match index {
            0 | 1 => ("#include \"pair.cuh\"\n", "PAIR".to_owned()),
            3 => ("", self.third.to_string()),
            _ => ("", index.to_string()),
        };
        let comment = if index == 3 { self.comment } else { "" };
        let text = format!(
            "{comment}#include \"all.cuh\"\n{include}\n\
             __global__ void fill_{index:02}(float *out, int n) {{\n    \
                 int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
                 if (i < n) out[i] = out[i] * 2.0f + (ALL + {value});\n}}\n\n\
             extern \"C\" void launch_{index:02}(float *out, int n) {{ fill_{index:02}<<<(n + 255) / 256, 256>>>(out, n); }}\n\n\
             extern \"C\" int value_{index:02}() {{ return ALL + {value}; }}\n"
        );
        fs::write(self.directory.join(format!("kernels/k{index:02}.cu")), text)
    }
}

fn library() -> String {
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

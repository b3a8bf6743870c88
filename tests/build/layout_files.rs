//! Real listings of CUDA layouts, made into real directories.
//!
//! A listing (`tests/layouts/<name>.txt`) has a line a file. Words are separated by spaces; after
//! `in <directory>`, paths are below that directory. `@ROOT@` is the top of the made directory.
//!
//! ```text
//! env CUDA_HOME=@ROOT@/opt/cuda         a variable of the search
//! target aarch64-unknown-linux-gnu jetson
//! host aarch64-unknown-linux-gnu        the machine that builds; without this line, x86_64 with Linux
//! library                               the crate has host and device code, which needs nvcc
//! components cudart cublas              what the crate declares
//! orders CUDA_BUILD_ROOTS               every order of this list must give the same
//! file include/cuda.h | #define …       a text file with this line, or more with `\n` between; empty without `|`
//! elf lib/libcudart.so.13 libcudart.so.13 [aarch64]     a small ELF library with this SONAME
//! archive lib/libculibos.a [aarch64]   a static archive with a small ELF file
//! tool bin/ptxas                        an executable that does nothing
//! nvcc bin/nvcc pip-13.4                an executable that answers as `answers/pip-13.4.txt`
//! script usr/bin/nvcc | exec …          a shell script of this one line
//! link lib64 -> lib
//! dir bin
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A listing that lies on the disk.
pub struct Layout {
    /// Removed with it.
    _directory: TempDir,
    pub root: PathBuf,
    pub env: Vec<(String, String)>,
    pub triple: String,
    pub host: String,
    pub jetson: bool,
    pub components: Vec<String>,
    pub library: bool,
    pub orders: Option<String>,
}

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/layouts")
}

impl Layout {
    pub fn load(name: &str) -> Self {
        let path = directory().join(format!("{name}.txt"));
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // macOS and some CI machines have a temporary directory behind a link.
        let root = directory.path().canonicalize().unwrap();
        let mut layout = Self {
            root,
            _directory: directory,
            env: Vec::new(),
            triple: "x86_64-unknown-linux-gnu".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            jetson: false,
            components: Vec::new(),
            library: false,
            orders: None,
        };
        let mut scripts = Scripts::default();
        let mut base = PathBuf::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            layout.line(kind, rest, &mut base, &mut scripts);
        }
        scripts.install();
        layout
    }

    fn line(&mut self, kind: &str, rest: &str, base: &mut PathBuf, scripts: &mut Scripts) {
        let (rest, content) = match rest.split_once(" | ") {
            Some((rest, content)) => (
                rest,
                Some(content.replace("@ROOT@", self.root.to_str().unwrap())),
            ),
            None => (rest, None),
        };
        let mut words = rest.split(' ');
        let first = words.next().unwrap_or_default();
        let place = self.root.join(&base).join(first);
        match kind {
            "in" => *base = PathBuf::from(rest),
            "env" => {
                let (name, value) = rest.split_once('=').unwrap();
                self.env.push((
                    name.to_owned(),
                    value.replace("@ROOT@", self.root.to_str().unwrap()),
                ));
            }
            "target" => {
                self.triple = first.to_owned();
                self.jetson = words.next() == Some("jetson");
            }
            "host" => first.clone_into(&mut self.host),
            "components" => self.components = rest.split(' ').map(str::to_owned).collect(),
            "library" => self.library = true,
            "orders" => self.orders = Some(first.to_owned()),
            "dir" => fs::create_dir_all(place).unwrap(),
            "file" => {
                let text = content.map(|line| format!("{}\n", line.replace("\\n", "\n")));
                write(&place, text.unwrap_or_default().as_bytes());
            }
            "elf" => write(
                &place,
                &elf(
                    words.next().unwrap_or(first),
                    words.next() == Some("aarch64"),
                ),
            ),
            "archive" => {
                let object = elf(first, words.next() == Some("aarch64"));
                // The header has 48 bytes for the name and other fields, 10 for the size and 2 at the end.
                let head = format!("!<arch>\n{:48}{:<10}`\n", "object.o/", object.len());
                write(&place, &[head.as_bytes(), &object].concat());
            }
            "tool" => scripts.add(place, "exit 0"),
            "script" => scripts.add(place, &content.unwrap()),
            "nvcc" => scripts.nvcc(&self.root, place, words.next().unwrap()),
            "link" => {
                assert_eq!(words.next(), Some("->"), "{rest}");
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                let target = words
                    .next()
                    .unwrap()
                    .replace("@ROOT@", self.root.to_str().unwrap());
                symlink(target, place).unwrap();
            }
            _ => panic!("a listing has no `{kind}`: {kind} {rest}"),
        }
    }

    /// A text with the made directory's own path taken out.
    pub fn portable(&self, text: &str) -> String {
        text.replace(self.root.to_str().unwrap(), "@ROOT@")
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Executables are put in place by another process: a program that this one has had open for
/// writing can't be started while some other test's child still holds it ("text file busy").
#[derive(Default)]
struct Scripts {
    waiting: Vec<(PathBuf, PathBuf)>,
    answers: BTreeSet<String>,
}

impl Scripts {
    fn add(&mut self, path: PathBuf, body: &str) {
        let draft = PathBuf::from(format!("{}.draft", path.display()));
        write(&draft, format!("#!/bin/sh\n{body}\n").as_bytes());
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        self.waiting.push((draft, path));
    }

    /// The recorded answer, with the directory of argument zero where the real nvcc put it.
    fn nvcc(&mut self, root: &Path, path: PathBuf, name: &str) {
        let answers = root.join(".answers");
        if self.answers.insert(name.to_owned()) {
            let recorded = directory().join("answers").join(format!("{name}.txt"));
            let text = fs::read_to_string(&recorded)
                .unwrap()
                .replace("@ROOT@", root.to_str().unwrap());
            let (version, dry_run) = text
                .split_once("--- version\n")
                .and_then(|(_, rest)| rest.split_once("--- dryrun\n"))
                .unwrap();
            write(&answers.join(format!("{name}.version")), version.as_bytes());
            write(&answers.join(format!("{name}.dryrun")), dry_run.as_bytes());
        }
        let answer = answers.join(name);
        let body = format!(
            "case \"$1\" in --version) what=version;; *) what=dryrun;; esac\n\
             PATH=\"$PATH:/usr/bin:/bin\" exec sed \"s,@HERE@,${{0%/*}},g\" \"{}.$what\"",
            answer.display()
        );
        self.add(path, &body);
    }

    fn install(self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "while [ $# -gt 0 ]; do cp -p \"$1\" \"$2\" && rm \"$1\" || exit 1; shift 2; done",
            "sh",
        ]);
        for (draft, path) in self.waiting {
            command.arg(draft).arg(path);
        }
        assert!(command.status().unwrap().success());
    }
}

/// The smallest shared library that tools read: a header, what to load, a dynamic section with a
/// SONAME.
fn elf(soname: &str, aarch64: bool) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    let strings = [b"\0", soname.as_bytes(), b"\0"].concat();
    let dynamic_at = (HEADERS + strings.len() as u64).next_multiple_of(8);
    // DT_SONAME, DT_STRTAB, DT_STRSZ, DT_NULL.
    let entries: [(u64, u64); 4] = [(14, 1), (5, HEADERS), (10, strings.len() as u64), (0, 0)];
    let size = dynamic_at + 64;
    let machine: u16 = if aarch64 { 183 } else { 62 };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3u16, machine].iter().flat_map(|v| v.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].iter().flat_map(|v| v.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    file.extend(
        [64u16, 56, 2, 64, 0, 0]
            .iter()
            .flat_map(|v| v.to_le_bytes()),
    );
    for (kind, offset, length, align) in [(1u32, 0, size, 4096), (2, dynamic_at, 64, 8)] {
        file.extend([kind, 4].iter().flat_map(|v: &u32| v.to_le_bytes()));
        file.extend(
            [offset, offset, offset, length, length, align]
                .iter()
                .flat_map(|v: &u64| v.to_le_bytes()),
        );
    }
    file.extend(strings);
    file.resize(usize::try_from(dynamic_at).unwrap(), 0);
    file.extend(
        entries
            .iter()
            .flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()])
            .flatten(),
    );
    file
}

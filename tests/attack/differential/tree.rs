//! The source tree that is edited: three sources, headers in several directories and behind
//! links, and what the build script does with them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{Compiler, Package};

/// Directories that headers may lie in.
pub const DIRECTORIES: [&str; 7] = [
    "kernels",
    "kernels/sub",
    "inc1",
    "inc2",
    "inc3",
    "real/deep",
    "other/deep",
];

/// Where each header lies at first.
const HEADERS: [(&str, &str); 13] = [
    (".", "h0"),
    ("kernels", "h0"),
    ("inc3", "h0"),
    ("inc3", "h4"),
    ("inc1", "h1"),
    ("inc2", "h2"),
    ("inc2", "h3"),
    ("kernels/sub", "h4"),
    ("inc3", "h5"),
    ("real/deep", "h6"),
    ("other/deep", "h6"),
    ("real", "h7"),
    ("other", "h7"),
];

/// Sources and what they read. `HEADER` is defined by the script, so that the includes of `b` cannot
/// be known from its text; `c` has a header that NVRTC lacks, and one of the toolkit.
const SOURCES: [(&str, &str); 3] = [
    (
        "kernels/a.cu",
        "#include \"h0.cuh\"\n#include <h1.cuh>\n#include \"h2.cuh\"\n\
         #if __has_include(\"o0.cuh\")\n#include \"o0.cuh\"\n#endif\n",
    ),
    (
        "kernels/b.cu",
        "#include <h1.cuh>\n#include \"h3.cuh\"\n#include HEADER\n\
         #if __has_include(<o1.cuh>)\n#include <o1.cuh>\n#endif\n",
    ),
    (
        "kernels/sub/c.cu",
        "#include \"h4.cuh\"\n#include \"../h0.cuh\"\n#include \"via/h6.cuh\"\n\
         #include <float.h>\n#include <math_constants.h>\n\
         #if __has_include(<via/o2.cuh>)\n#include <via/o2.cuh>\n#endif\n",
    ),
];

/// The build script: reads what to compile from `plan.txt`, which is compiled in for Cargo.
const SCRIPT: &str = r#"
    let plan = std::env::var_os("ATTACK_PLAN").map(|path| std::fs::read_to_string(path).unwrap());
    let plan = plan.unwrap_or_else(|| include_str!("plan.txt").to_owned());
    let mut build = Build::new()?;
    for entry in plan.split_terminator("\n\n") {
        let mut lines = entry.lines().map(|line| line.split_once(' ').unwrap());
        let (kind, name) = lines.next().unwrap();
        if kind == "library" {
            let mut library = Library::new(name);
            for (key, value) in lines {
                library = match key {
                    "file" => library.file(value),
                    "include" => library.include(value),
                    "define" => { let (name, value) = value.split_once('=').unwrap(); library.define(name, value) }
                    _ => library.flag(value),
                };
            }
            build = build.library(library);
        } else {
            let (_, source) = lines.next().unwrap();
            let engine = if kind == "nvcc" { Engine::Nvcc } else { Engine::Nvrtc };
            let mut module = Module::new(source).named(name).engine(engine);
            for (key, value) in lines {
                module = match key {
                    "include" => module.include(value),
                    "define" => { let (name, value) = value.split_once('=').unwrap(); module.define(name, value) }
                    _ => module.flag(value),
                };
            }
            build = build.module(module);
        }
    }
    if true { return build.run().map(drop); }
"#;

/// The tree, and everything of it that is not on the disk.
#[derive(Debug)]
pub struct Tree {
    pub package: Package,
    pub compiler: Compiler,
    /// Where the three sources lie.
    pub sources: [PathBuf; 3],
    pub includes: Vec<&'static str>,
    pub defines: BTreeMap<&'static str, String>,
    pub options: Vec<&'static str>,
    /// The files of the library in another order.
    pub reversed: bool,
    /// The module is compiled by NVRTC, although nvcc is there.
    pub by_nvrtc: bool,
    pub package_capabilities: Option<&'static str>,
    pub workspace_capabilities: &'static str,
}

impl Tree {
    pub fn new(name: &str, compiler: Compiler) -> Option<Self> {
        let root = compiler.root()?;
        let mut tree = Self {
            package: Package::with_root(name, &root),
            compiler,
            sources: SOURCES.map(|(path, _)| PathBuf::from(path)),
            includes: vec!["inc1", "inc2", "inc3"],
            defines: BTreeMap::from([("HEADER", "\"h5.cuh\"".to_owned()), ("D", "100".to_owned())]),
            options: Vec::new(),
            reversed: false,
            by_nvrtc: false,
            package_capabilities: None,
            workspace_capabilities: "[\"8.0\"]",
        };
        let package = &tree.package;
        fs::rename(
            package.path.join("Cargo.lock"),
            package.place.join("Cargo.lock"),
        )
        .unwrap();
        fs::create_dir_all(package.place.join("cpath")).unwrap();
        package.write_script_with(SCRIPT, "");
        match compiler {
            // The archive is compared as it is: an edit may leave a function undefined or define it twice.
            Compiler::Nvcc13 => package.write_program(&["a"], &[]),
            _ => package.write_program(&["a", "b", "c"], &[]),
        }
        tree.write_manifests();
        tree.repair();
        Some(tree)
    }

    /// A header's text; all of one name have the same size.
    pub fn header(name: &str, value: usize) -> String {
        let includes = match name {
            "h3" => "#if __has_include(\"o0.cuh\")\n#define O3 1\n#else\n#define O3 2\n#endif\n",
            // Instead of another's: `O4` for `float.h`, `O5` for `math_constants.h`.
            "float" => return format!("#define O4 {value}\n"),
            "math_constants" => return format!("#define O5 {value}\n"),
            // Behind a link: relative to where the link leads.
            "h6" => "#include \"../h7.cuh\"\n",
            _ => "",
        };
        let macro_name = name.to_uppercase();
        format!("{includes}#undef {macro_name}\n#define {macro_name} {value}\n")
    }

    fn source(index: usize, variant: usize) -> String {
        let includes = SOURCES[index].1;
        let mut stores = format!("x[20] = {variant}; x[21] = D;\n");
        for name in [
            "H0", "H1", "H2", "H3", "H4", "H5", "H6", "H7", "O0", "O1", "O2", "O3", "O4", "O5",
            "D0", "D1",
        ] {
            let first = match name.as_bytes()[0] {
                b'O' => 10,
                b'D' => 22,
                _ => 0,
            };
            let index = name.as_bytes()[1] - b'0' + first;
            stores += &format!("#ifdef {name}\nx[{index}] = {name};\n#endif\n");
        }
        format!(
            "{includes}extern \"C\" __global__ void k{index}(int *x) {{\n{stores}}}\n\
             #ifdef HOST\nextern \"C\" int value_{}() {{ k{index}<<<1, 1>>>(nullptr); return {variant}; }}\n#endif\n",
            ["a", "b", "c"][index]
        )
    }

    /// Writes one source.
    pub fn write_source(&self, index: usize, variant: usize) {
        let path = self.package.path.join(&self.sources[index]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, Self::source(index, variant)).unwrap();
    }

    /// Puts everything back that a build needs, and leaves what is there.
    pub fn repair(&mut self) {
        self.sources = SOURCES.map(|(path, _)| PathBuf::from(path));
        self.defines.insert("HEADER", "\"h5.cuh\"".to_owned());
        self.write_plan();
        for directory in DIRECTORIES {
            fs::create_dir_all(self.package.path.join(directory)).unwrap();
        }
        for path in self.headers() {
            // Renamed, or a link to what another link has changed since.
            let name = path.file_stem().unwrap().to_str().unwrap().to_uppercase();
            let text = fs::read_to_string(self.package.path.join(&path)).unwrap();
            let behind_link = path.parent().is_some_and(|parent| parent.ends_with("deep"));
            let own = name.starts_with('H') || name.starts_with('O');
            let renamed = own && !text.contains(&format!("#define {name} "));
            if renamed || (name == "H6") != behind_link {
                fs::remove_file(self.package.path.join(&path)).unwrap();
            }
        }
        for (number, (directory, name)) in HEADERS.iter().enumerate() {
            let path = self
                .package
                .path
                .join(directory)
                .join(format!("{name}.cuh"));
            if !path.exists() {
                let _ = fs::remove_file(&path);
                fs::write(path, Self::header(name, 100 + number)).unwrap();
            }
        }
        for index in 0..3 {
            if !self.package.path.join(&self.sources[index]).exists() {
                self.write_source(index, 100);
            }
        }
        let link = self.package.path.join("inc1/via");
        if fs::symlink_metadata(&link).is_err() {
            symlink("../hop", link).unwrap();
        }
        let hop = self.package.path.join("hop");
        if fs::symlink_metadata(&hop).is_err() {
            symlink("real/deep", hop).unwrap();
        }
    }

    /// `plan.txt`.
    pub fn write_plan(&self) {
        let mut settings = String::new();
        for include in &self.includes {
            settings += &format!("include {include}\n");
        }
        for (name, value) in &self.defines {
            settings += &format!("define {name}={value}\n");
        }
        for option in &self.options {
            settings += &format!("option {option}\n");
        }
        let source = |index: usize| self.sources[index].display();
        let (first, second) = if self.reversed { (2, 1) } else { (1, 2) };
        let engine = if self.by_nvrtc { "nvrtc" } else { "nvcc" };
        let plan = if self.compiler == Compiler::Nvcc13 {
            format!(
                "{engine} a\nsource {}\n{settings}\nlibrary l\nfile {}\nfile {}\ndefine HOST=1\n{settings}\n",
                source(0),
                source(first),
                source(second)
            )
        } else {
            ["a", "b", "c"]
                .iter()
                .enumerate()
                .map(|(index, name)| {
                    format!("nvrtc {name}\nsource {}\n{settings}\n", source(index))
                })
                .collect()
        };
        self.package.write("plan.txt", plan);
    }

    /// Both `Cargo.toml`.
    pub fn write_manifests(&self) {
        let capabilities = self
            .package_capabilities
            .map_or(String::new(), |capabilities| {
                format!("[package.metadata.cuda]\ncapabilities = {capabilities}\n")
            });
        self.package.write_member_manifest(&capabilities);
        let workspace = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [\"app\"]\n\
             [profile.dev]\ndebug = false\nincremental = false\n\
             [workspace.metadata.cuda]\ncapabilities = {}\n",
            self.workspace_capabilities
        );
        fs::write(self.package.place.join("Cargo.toml"), workspace).unwrap();
    }

    /// All headers that are there, as paths below the package. Links are not among them.
    pub fn headers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for directory in DIRECTORIES.iter().chain(&["real", "other"]) {
            let entries = fs::read_dir(self.package.path.join(directory))
                .into_iter()
                .flatten();
            for entry in entries.map(Result::unwrap) {
                let is_header = entry
                    .path()
                    .extension()
                    .is_some_and(|e| e == "cuh" || e == "h");
                if is_header && entry.path().is_file() {
                    found.push(Path::new(directory).join(entry.file_name()));
                }
            }
        }
        found.sort();
        found
    }

    /// The script with the plan as it is now.
    pub fn script(&self, out: &Path) -> Command {
        let mut script = self.package.script(out);
        script.env("ATTACK_PLAN", self.package.path.join("plan.txt"));
        script
    }
}

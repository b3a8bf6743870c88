//! Random edits of a small source tree. After each, an incremental build and a fresh one have to
//! give the same bytes, or both have to fail.
//!
//! Two ways: through Cargo, which decides whether the script runs, and by the script alone, which
//! decides what is compiled. What Cargo cannot see is left out of the first: a file written in
//! place whose date is then set back, and an output damaged in the target directory.
//!
//! `CUDA_BUILD_EDITS=300 CUDA_BUILD_EDITS_SEED=7 cargo test -p cargo-cuda --test build -- --ignored random_edits`
//! runs longer; the same seed makes the same edits.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::package::{Compiler, Outputs, Package, difference, script_outputs, succeeded};

/// Numbers that are the same for the same seed (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }

    /// Three digits, so that texts with other values have the same size.
    fn value(&mut self) -> usize {
        100 + self.below(900)
    }
}

/// Who has to notice an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Cargo, by dates of files and directories, and then the script.
    Cargo,
    /// The script, which runs in any case.
    Script,
}

/// Directories that headers may lie in. `inc0` and `absent/deep` are searched, and do not exist at first.
const DIRECTORIES: [&str; 9] = [
    "inc0",
    "absent/deep",
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
    let plan = std::env::var_os("EDITS_PLAN").map(|path| std::fs::read_to_string(path).unwrap());
    let plan = plan.unwrap_or_else(|| include_str!("plan.txt").to_owned());
    let mut build = Build::new()?;
    macro_rules! with_options {
        ($part:ident, $lines:expr) => {
            for (key, value) in $lines {
                $part = match key {
                    "include" => $part.include(value),
                    "define" => { let (name, value) = value.split_once('=').unwrap(); $part.define(name, value) }
                    "capabilities" => $part.capabilities([value]),
                    "object" => continue,
                    _ => $part.flag(value),
                };
            }
        };
    }
    for entry in plan.split_terminator("\n\n") {
        let mut lines = entry.lines().map(|line| line.split_once(' ').unwrap());
        let (kind, name) = lines.next().unwrap();
        let (how, source) = lines.next().unwrap();
        if kind == "library" {
            let mut library = Library::new(name);
            library = match how {
                "glob" => library.glob(source).exclude("kernels/**/a.cu"),
                _ => library.files(source.split(' ')),
            };
            let objects = entry.lines().filter_map(|line| line.strip_prefix("object "));
            library = objects.fold(library, Library::file);
            with_options!(library, lines);
            build = build.library(library);
        } else {
            let engine = if kind == "nvcc" { Engine::Nvcc } else { Engine::Nvrtc };
            let mut module = Module::new(source).named(name).engine(engine);
            with_options!(module, lines);
            build = build.module(module);
        }
    }
    if true { return build.run().map(drop); }
"#;

/// The tree, and everything of it that is not on the disk.
#[derive(Debug)]
struct Tree {
    package: Package,
    compiler: Compiler,
    /// Where the three sources lie.
    sources: [PathBuf; 3],
    includes: Vec<&'static str>,
    defines: BTreeMap<&'static str, String>,
    options: Vec<&'static str>,
    /// The module is compiled by NVRTC, although nvcc is there.
    by_nvrtc: bool,
    capabilities: &'static str,
    /// What the library, or the last module, is written for.
    of_part: &'static str,
    /// The library names its sources by a pattern.
    by_pattern: bool,
    /// The directory of a prebuilt object in the library; both objects have one name.
    object: Option<&'static str>,
    /// The directory of the script's outputs; all share one output store.
    out: &'static str,
}

impl Tree {
    fn new(name: &str, compiler: Compiler) -> Self {
        let mut tree = Self {
            package: Package::with_root(name, &compiler.root()),
            compiler,
            sources: SOURCES.map(|(path, _)| PathBuf::from(path)),
            includes: vec!["inc0", "absent/deep", "inc1", "inc2", "inc3"],
            defines: BTreeMap::from([("HEADER", "\"h5.cuh\"".to_owned()), ("D", "100".to_owned())]),
            options: Vec::new(),
            by_nvrtc: false,
            capabilities: "[\"8.0\"]",
            of_part: ">=8.0",
            by_pattern: false,
            object: None,
            out: "incremental",
        };
        fs::create_dir_all(tree.package.place.join("cpath")).unwrap();
        // Cargo must not watch a directory with Cargo's own files.
        tree.package.write("target/CACHEDIR.TAG", "");
        tree.package.write_script_with(SCRIPT, "");
        match compiler {
            // The archive is compared as it is: an edit may leave a function undefined or define it twice.
            Compiler::Nvcc13 => tree.package.write_program(&["a"], &[]),
            _ => tree.package.write_program(&["a", "b", "c"], &[]),
        }
        for name in ["one", "two"] {
            tree.package.write(
                "prebuilt.c",
                format!("const char *prebuilt = \"{name}\";\n"),
            );
            let object = tree.at(format!("prebuilt/{name}/t.o"));
            fs::create_dir_all(object.parent().unwrap()).unwrap();
            let mut compile = std::process::Command::new("gcc");
            compile
                .arg("-c")
                .arg(tree.at("prebuilt.c"))
                .arg("-o")
                .arg(object);
            assert!(compile.status().unwrap().success());
        }
        tree.write_manifest();
        tree.repair();
        tree
    }

    /// A header's text; all of one name have the same size.
    fn header(path: &Path, value: usize) -> String {
        let name = path.file_stem().unwrap().to_str().unwrap();
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

    fn write_source(&self, index: usize, variant: usize) {
        let mut stores = format!("x[30] = {variant}; x[31] = D;\n");
        let macros = "H0 H1 H2 H3 H4 H5 H6 H7 O0 O1 O2 O3 O4 O5 D0 D1".split(' ');
        for (index, name) in macros.enumerate() {
            stores += &format!("#ifdef {name}\nx[{index}] = {name};\n#endif\n");
        }
        let includes = SOURCES[index].1;
        let text = format!(
            "{includes}extern \"C\" __global__ void k{index}(int *x) {{\n{stores}}}\n\
             #ifdef HOST\nextern \"C\" int v{index}() {{ k{index}<<<1, 1>>>(nullptr); return {variant}; }}\n#endif\n"
        );
        self.package
            .write(self.sources[index].to_str().unwrap(), text);
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.package.path.join(path)
    }

    /// Restores the files that a build needs, and deletes nothing.
    fn repair(&mut self) {
        self.sources = SOURCES.map(|(path, _)| PathBuf::from(path));
        self.defines.insert("HEADER", "\"h5.cuh\"".to_owned());
        self.of_part = ">=8.0";
        self.write_plan();
        for path in self.headers() {
            // Renamed, or a link to what another link has changed since.
            let name = path.file_stem().unwrap().to_str().unwrap().to_uppercase();
            let text = fs::read_to_string(self.at(&path)).unwrap();
            let behind_link = path.parent().is_some_and(|parent| parent.ends_with("deep"));
            let is_numbered = name.starts_with('H') || name.starts_with('O');
            let renamed = is_numbered && !text.contains(&format!("#define {name} "));
            if renamed || (name == "H6") != behind_link {
                fs::remove_file(self.at(&path)).unwrap();
            }
        }
        for (number, (directory, name)) in HEADERS.iter().enumerate() {
            let path = Path::new(directory).join(format!("{name}.cuh"));
            if !self.at(&path).exists() {
                let _ = fs::remove_file(self.at(&path));
                self.write_header(&path, 100 + number);
            }
        }
        for index in 0..3 {
            if !self.at(&self.sources[index]).exists() {
                self.write_source(index, 100);
            }
        }
        for (link, to) in [("inc1/via", "../hop"), ("hop", "real/deep")] {
            if fs::symlink_metadata(self.at(link)).is_err() {
                symlink(to, self.at(link)).unwrap();
            }
        }
    }

    fn write_header(&self, path: &Path, value: usize) {
        self.package
            .write(path.to_str().unwrap(), Self::header(path, value));
    }

    fn write_plan(&self) {
        let mut settings = String::new();
        let includes = self
            .includes
            .iter()
            .map(|include| format!("include {include}\n"));
        let defines = self
            .defines
            .iter()
            .map(|(name, value)| format!("define {name}={value}\n"));
        let options = self
            .options
            .iter()
            .map(|option| format!("option {option}\n"));
        settings.extend(includes.chain(defines).chain(options));
        let [a, b, c] = self.sources.each_ref().map(|path| path.display());
        let engine = if self.by_nvrtc { "nvrtc" } else { "nvcc" };
        let object = self
            .object
            .map(|name| format!("object prebuilt/{name}/t.o\n"));
        let of_part = format!("capabilities {}\n{settings}", self.of_part);
        let of_library = format!("{of_part}{}", object.unwrap_or_default());
        let plan = match self.compiler {
            Compiler::Nvcc13 => {
                let sources = match self.by_pattern {
                    true => "glob kernels/**/*.cu".to_owned(),
                    false => format!("files {b} {c}"),
                };
                format!(
                    "{engine} a\nsource {a}\n{settings}\nlibrary l\n{sources}\ndefine HOST=1\n{of_library}\n"
                )
            }
            _ => [("a", a, &settings), ("b", b, &settings), ("c", c, &of_part)]
                .into_iter()
                .map(|(name, path, settings)| format!("nvrtc {name}\nsource {path}\n{settings}\n"))
                .collect(),
        };
        self.package.write("plan.txt", plan);
    }

    fn write_manifest(&self) {
        let capabilities = self.capabilities;
        let table = "[package.metadata.cuda]\ncapabilities";
        self.package
            .write_manifest(&format!("{table} = {capabilities}\n[workspace]\n"));
    }

    /// All headers that are there, as paths below the package. Links are not among them.
    fn headers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for directory in DIRECTORIES.iter().chain(&["real", "other"]) {
            let entries = fs::read_dir(self.at(directory)).into_iter().flatten();
            for path in entries.map(|entry| entry.unwrap().path()) {
                let is_header = path.extension().is_some_and(|e| e == "cuh" || e == "h");
                if is_header && path.is_file() {
                    found.push(Path::new(directory).join(path.file_name().unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    /// Makes one edit, and returns what it was.
    fn edit(&mut self, random: &mut Random, reach: Reach) -> String {
        loop {
            if let Some(edit) = self.try_edit(random, reach) {
                return edit;
            }
        }
    }

    /// `None` if there is nothing to edit in this way.
    fn try_edit(&mut self, random: &mut Random, reach: Reach) -> Option<String> {
        let kind = random.below(36);
        let headers = self.headers();
        let path = random.pick(&headers).clone();
        let shown = path.display();
        let directory = Path::new(random.pick(&DIRECTORIES));
        let value = random.value();
        let move_to = |to: &Path| {
            fs::create_dir_all(self.at(to).parent().unwrap()).unwrap();
            fs::rename(self.at(&path), self.at(to)).unwrap();
            Some(format!("moved {shown} to {}", to.display()))
        };
        match kind {
            0 => Some("nothing".to_owned()),
            1..=3 => {
                self.write_header(&path, value);
                Some(format!("changed {shown}"))
            }
            4 => {
                let index = random.below(3);
                self.write_source(index, value);
                Some(format!("changed {}", self.sources[index].display()))
            }
            5 | 6 => {
                // Cargo sees an older file by the date of the directory, which is one that is searched.
                let is_searched = !path.starts_with("real") && !path.starts_with("other");
                let new = self.package.place.join("new.cuh");
                fs::write(&new, Self::header(&path, value)).unwrap();
                if is_searched && random.below(2) == 0 {
                    let old = Duration::from_secs(1_000_000_000);
                    set_date(&new, SystemTime::UNIX_EPOCH + old);
                }
                fs::rename(new, self.at(&path)).unwrap();
                Some(format!("replaced {shown}"))
            }
            7 if reach == Reach::Script => {
                let before = fs::metadata(self.at(&path)).unwrap().modified().unwrap();
                self.write_header(&path, value);
                set_date(&self.at(&path), before);
                Some(format!("changed {shown} and set its date back"))
            }
            8 => move_to(&directory.join(path.file_name()?)),
            9 => move_to(&path.with_file_name(format!("h{}.cuh", random.below(8)))),
            10 => {
                fs::remove_file(self.at(&path)).unwrap();
                Some(format!("deleted {shown}"))
            }
            11..=13 => {
                let new = directory.join(path.file_name()?);
                let is_new = !self.at(&new).exists();
                is_new.then(|| self.write_header(&new, value));
                is_new.then(|| format!("added {}", new.display()))
            }
            14 => {
                // The link itself, or one that it leads through: that one lies where Cargo does not look.
                let (link, targets) = match reach == Reach::Script && random.below(2) == 0 {
                    true => ("hop", ["real/deep", "other/deep"]),
                    false => ("inc1/via", ["../real/deep", "../other/deep"]),
                };
                let old = fs::read_link(self.at(link)).unwrap_or_default();
                let to = targets[usize::from(old == Path::new(targets[0]))];
                fs::create_dir_all(self.at("inc1")).unwrap();
                let _ = fs::remove_file(self.at(link));
                symlink(to, self.at(link)).unwrap();
                Some(format!("{link} leads to {to}"))
            }
            15 => {
                let path = Path::new("inc1/via").join(random.pick(&["h6.cuh", "../h7.cuh"]));
                let exists = self.at(&path).exists();
                exists.then(|| self.write_header(&path, value));
                exists.then(|| format!("changed {}", path.display()))
            }
            // A file that `__has_include` names appears or disappears.
            16 | 17 => {
                let names = ["o0.cuh", "o1.cuh", "o2.cuh", "float.h", "math_constants.h"];
                let path = directory.join(random.pick(&names));
                match self.at(&path).exists() {
                    true => fs::remove_file(self.at(&path)).unwrap(),
                    false => self.write_header(&path, value),
                }
                Some(format!("added or deleted {}", path.display()))
            }
            18 => {
                let (name, value) = match random.below(3) {
                    0 => ("HEADER", format!("\"h{}.cuh\"", random.below(3))),
                    1 => ("HEADER", "\"h5.cuh\"".to_owned()),
                    _ => ("D", value.to_string()),
                };
                self.defines.insert(name, value);
                self.write_plan();
                Some(format!("defines are {:?}", self.defines))
            }
            19 => {
                let options = [
                    &[][..],
                    &["-Iinc3"],
                    &["--include-path=inc2", "--use_fast_math"],
                ];
                self.options = random.pick(&options).to_vec();
                let (one, other) = (random.below(5), random.below(5));
                self.includes.swap(one, other);
                self.write_plan();
                Some(format!("{:?} {:?}", self.includes, self.options))
            }
            20..=22 => {
                // Each is one capability more or less than another.
                let lists = [
                    "[\"8.0\"]",
                    "[\"9.0\"]",
                    "[\"8.0\", \"9.0\"]",
                    "[\"8.0\", \"9.0+PTX\"]",
                    "[\"8.0\", \"8.6\", \"9.0\"]",
                    "[\"8.6\", \"9.0-virtual\"]",
                ];
                self.capabilities = *random.pick(&lists);
                self.write_manifest();
                Some(format!("the capabilities are {}", self.capabilities))
            }
            23 if self.compiler == Compiler::Nvcc13 => {
                let names = ["NVCC_APPEND_FLAGS", "CPATH", "CPLUS_INCLUDE_PATH"];
                let name = *random.pick(&names);
                let is_set = self.package.variables.iter().any(|(set, _)| set == name);
                let cpath = self.package.place.join("cpath");
                let header = random.pick(&["o0.cuh", "o1.cuh", "h5.cuh", "h0.cuh"]);
                fs::write(cpath.join(header), Self::header(Path::new(header), value)).unwrap();
                self.package.variables.retain(|(set, _)| set != name);
                match name {
                    _ if is_set => {}
                    "NVCC_APPEND_FLAGS" => self.package.set(name, format!("-DD0={value}")),
                    _ => self.package.set(name, cpath),
                }
                Some(format!(
                    "{name} is set or not set, and {header} in `cpath` changed"
                ))
            }
            24 => {
                let index = random.below(3);
                let to = Path::new(random.pick(&["kernels", "kernels/sub", "kernels/moved"]));
                let to = to.join(self.sources[index].file_name()?);
                self.sources[index].clone_from(&to);
                if !self.at(&to).exists() {
                    self.write_source(index, value);
                }
                self.write_plan();
                Some(format!("the source is {}", to.display()))
            }
            25 => {
                // Whole directories appear, disappear and change places.
                let pairs = [
                    ("inc1", "inc2"),
                    ("inc0", "inc3"),
                    ("absent", "gone"),
                    ("real", "other"),
                ];
                let (one, other) = *random.pick(&pairs);
                let between = self.package.place.join("between");
                let moves = [
                    (self.at(one), between.clone()),
                    (self.at(other), self.at(one)),
                    (between, self.at(other)),
                ];
                for (from, to) in moves {
                    // One of them may not exist.
                    let _ = fs::rename(from, to);
                }
                Some(format!("swapped the directories {one} and {other}"))
            }
            26 => {
                let target = Path::new("kernels").join(format!("target{}.txt", random.below(3)));
                fs::write(self.at(&target), Self::header(&path, value)).unwrap();
                fs::remove_file(self.at(&path)).unwrap();
                symlink(self.at(&target), self.at(&path)).unwrap();
                Some(format!("{shown} is a link to {}", target.display()))
            }
            27 if reach == Reach::Script => {
                // A file of the output directory, whatever it is, is cut.
                let entries = fs::read_dir(self.package.place.join(self.out)).unwrap();
                let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
                files.retain(|path| path.is_file());
                files.sort();
                let path = files.get(random.below(files.len().max(1)))?;
                let length = fs::metadata(path).unwrap().len();
                let file = File::options().write(true).open(path).unwrap();
                file.set_len(length / 2).unwrap();
                Some(format!("cut {}", path.display()))
            }
            28 if self.compiler == Compiler::Nvcc13 => {
                self.by_nvrtc = !self.by_nvrtc;
                self.write_plan();
                Some(format!("NVRTC for the module is {}", self.by_nvrtc))
            }
            29 if self.compiler != Compiler::Nvcc13 => {
                let compiler = *random.pick(&[Compiler::Nvrtc12, Compiler::Nvrtc13]);
                self.package.set("CUDA_BUILD_ROOTS", compiler.root());
                Some(format!("the toolkit is {}", compiler.id()))
            }
            30 => {
                self.of_part = *random.pick(&[">=8.0", ">=8.6", "8.0", "9.0"]);
                self.write_plan();
                Some(format!("a part is for {}", self.of_part))
            }
            31 if self.compiler == Compiler::Nvcc13 => {
                self.by_pattern = !self.by_pattern;
                self.write_plan();
                Some(format!("a pattern for the library is {}", self.by_pattern))
            }
            32 if reach == Reach::Script => {
                self.out = *random.pick(&["incremental", "second"]);
                Some(format!("the outputs are in {}", self.out))
            }
            33 if self.compiler == Compiler::Nvcc13 => {
                self.object = *random.pick(&[None, Some("one"), Some("two")]);
                self.write_plan();
                Some(format!("the prebuilt object is {:?}", self.object))
            }
            34 if self.compiler == Compiler::Nvcc13 => {
                // An option moves between the script and a variable.
                let variables = &mut self.package.variables;
                let before = variables.len();
                variables.retain(|(set, _)| set != "NVCC_APPEND_FLAGS");
                let in_variable = variables.len() < before;
                self.options.retain(|option| *option != "-DD0=1");
                match in_variable {
                    true => self.options.push("-DD0=1"),
                    false => self.package.set("NVCC_APPEND_FLAGS", "-DD0=1"),
                }
                self.write_plan();
                Some(format!("-DD0=1 is in the variable: {}", !in_variable))
            }
            35 => {
                // Two branches alternate at one path, with one output store.
                let branch = *random.pick(&[111, 222]);
                (0..3).for_each(|index| self.write_source(index, branch));
                Some(format!("the branch is {branch}"))
            }
            _ => None,
        }
    }

    /// Builds in a directory by the script alone. The directories share an output store, but for the fresh one.
    fn run_script(&self, directory: &str) -> Result<Outputs, String> {
        let out = self.package.place.join(directory);
        let images = self.package.place.join(match directory {
            "fresh" => "fresh/images",
            _ => "images",
        });
        fs::create_dir_all(&out).unwrap();
        let mut script = self.package.script(&out);
        script.env("EDITS_PLAN", self.at("plan.txt"));
        script.env("CUDA_BUILD_IMAGES", images);
        succeeded(script.output().unwrap()).map(|_| script_outputs(&out))
    }

    /// What the builds after one edit came to. `None` if both failed.
    fn compare(&self, reach: Reach) -> Result<Option<Outputs>, String> {
        if reach == Reach::Cargo {
            return self.package.compare();
        }
        let _ = fs::remove_dir_all(self.package.place.join("fresh"));
        match (self.run_script(self.out), self.run_script("fresh")) {
            (Err(_), Err(_)) => Ok(None),
            (Ok(_), Err(error)) => Err(format!("only the fresh build fails: {error}")),
            (Err(error), Ok(_)) => Err(format!("only the incremental build fails: {error}")),
            (Ok(made), Ok(expected)) => match difference(&made, &expected) {
                Some(difference) => Err(difference),
                None => Ok(Some(expected)),
            },
        }
    }
}

fn set_date(path: &Path, date: SystemTime) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(date).unwrap();
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// Makes edits, and compares after each. A difference ends the test; the tree is left as it is.
fn check(compiler: Compiler, reach: Reach, edits: u64, seed: u64) {
    let name = format!(
        "edits-{}-{}",
        format!("{reach:?}").to_lowercase(),
        compiler.id()
    );
    let mut tree = Tree::new(&name, compiler);
    // Through Cargo, because the script has to be compiled.
    tree.package
        .build()
        .unwrap_or_else(|error| panic!("the first build fails: {error}"));
    let mut random = Random::new(seed);
    let (mut failing, mut changed) = (0, 0);
    let mut last = tree.compare(reach).unwrap();
    for step in 1..=edits {
        let mut edit = if last.is_none() && random.below(4) > 0 {
            tree.repair();
            "repaired".to_owned()
        } else {
            tree.edit(&mut random, reach)
        };
        while random.below(5) == 0 {
            edit = format!("{edit}; {}", tree.edit(&mut random, reach));
        }
        let outputs = tree.compare(reach).unwrap_or_else(|error| {
            let place = tree.package.place.display();
            panic!("{name}, seed {seed}, step {step}, {edit}: {error}\n  tree: {place}")
        });
        failing += u64::from(outputs.is_none());
        changed += u64::from(outputs != last);
        last = outputs;
    }
    assert!(
        changed * 4 >= edits,
        "most edits change nothing: {changed} of {edits}"
    );
    assert!(
        failing * 2 <= edits,
        "most edits leave what does not compile: {failing} of {edits}"
    );
}

mod online {
    use super::*;

    #[test]
    fn a_few_random_edits() {
        check(Compiler::Nvrtc13, Reach::Script, 12, 1);
        check(Compiler::Nvrtc13, Reach::Cargo, 4, 2);
    }

    #[test]
    #[ignore = "minutes: random edits give what a build from nothing gives"]
    fn random_edits_with_every_compiler() {
        let (edits, seed) = (
            number("CUDA_BUILD_EDITS", 40),
            number("CUDA_BUILD_EDITS_SEED", 1),
        );
        for compiler in [Compiler::Nvrtc12, Compiler::Nvrtc13, Compiler::Nvcc13] {
            check(compiler, Reach::Script, 2 * edits, seed);
            check(compiler, Reach::Cargo, edits, seed);
        }
    }
}

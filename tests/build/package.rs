//! A small package whose build script compiles device code, built by Cargo and, for comparison,
//! by its script alone into an empty directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{archive, components};

/// The compilers that the tests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    Nvrtc12,
    Nvrtc13,
    Nvcc13,
}

impl Compiler {
    /// What `CUDA_BUILD_ROOTS` names. `None` if tests of real components are left out.
    pub fn root(self) -> PathBuf {
        components::site_packages(if self == Self::Nvrtc12 { 12 } else { 13 })
    }

    /// The variant of `cuda_build::Engine`.
    pub fn engine(self) -> &'static str {
        if self == Self::Nvcc13 {
            "Nvcc"
        } else {
            "Nvrtc"
        }
    }

    /// A part of package names.
    pub fn id(self) -> &'static str {
        match self {
            Self::Nvrtc12 => "nvrtc12",
            Self::Nvrtc13 => "nvrtc13",
            Self::Nvcc13 => "nvcc13",
        }
    }
}

/// Variables of the machine that would change what is found or compiled.
const FOREIGN: [&str; 22] = [
    "CUDA_BUILD_TOOLKIT",
    "CUDA_BUILD_SOURCES",
    "CUDA_BUILD_SKIP",
    "DOCS_RS",
    "CUDA_BUILD_RELEASE",
    "CUDA_BUILD_LOCK",
    "CUDA_BUILD_CAPABILITIES",
    "CUDA_BUILD_CUDART",
    "NVCC",
    "CUDACXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDAToolkit_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];

/// What a build made, by file name: modules as the program holds them, and static libraries.
pub type Outputs = BTreeMap<String, Vec<u8>>;

/// The package; all of them share a target directory, so that cuda-build is compiled once.
#[derive(Debug)]
pub struct Package {
    /// Emptied for this test; holds the package and what belongs to it.
    pub place: PathBuf,
    /// The package's directory.
    pub path: PathBuf,
    /// Where Cargo builds.
    pub target: PathBuf,
    /// Variables of its builds.
    pub variables: Vec<(OsString, OsString)>,
    name: String,
}

/// A directory for one test, emptied.
pub fn place(name: &str) -> PathBuf {
    let place = below_target(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    place
}

fn below_target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("attack")
        .join(name)
}

/// The checkout.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// `k(int *x) { *x = <value>; }`
pub fn kernel(value: &str) -> String {
    format!("extern \"C\" __global__ void k(int *x) {{ *x = {value}; }}\n")
}

impl Package {
    /// A package without sources, in `<place>/app`. `None` if tests of real components are left
    /// out.
    pub fn new(name: &str, compiler: Compiler) -> Self {
        let name = format!("{name}-{}", compiler.id());
        Self::with_root(&name, &compiler.root())
    }

    /// The same with the toolkit at `root`.
    pub fn with_root(name: &str, root: &Path) -> Self {
        let place = place(name);
        let package = Self {
            path: place.join("app"),
            target: below_target("target"),
            variables: vec![
                ("CUDA_BUILD_ROOTS".into(), root.into()),
                ("CUDA_BUILD_CACHE_DIR".into(), place.join("cache").into()),
            ],
            name: name.to_owned(),
            place,
        };
        package.write_manifest("[package.metadata.cuda]\ncapabilities = [\"8.0\"]\n[workspace]\n");
        package.write("src/main.rs", "");
        package
    }

    /// `Cargo.toml` of a workspace of its own, with these lines at its end.
    pub fn write_manifest(&self, end: &str) {
        let profile = "[profile.dev]\ndebug = false\nincremental = false\n";
        self.write_member_manifest(&format!("{profile}{end}"));
        // The templates' versions, so that Cargo does not query the registry.
        let lock = checkout().join("templates/library/Cargo.lock");
        fs::copy(lock, self.path.join("Cargo.lock")).unwrap();
    }

    /// `Cargo.toml` of a member of a workspace.
    pub fn write_member_manifest(&self, end: &str) {
        let library = checkout().join("cuda-build");
        let text = format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [build-dependencies]\ncuda-build = {{ path = {library:?} }}\n{end}",
            self.name
        );
        self.write("Cargo.toml", text);
    }

    /// Writes a file of the package, in place if it exists.
    pub fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// `build.rs`: `calls` are methods of `cuda_build::Build`.
    pub fn write_script(&self, calls: &str) {
        self.write_script_with("", calls);
    }

    /// The same with statements before.
    pub fn write_script_with(&self, statements: &str, calls: &str) {
        self.write(
            "build.rs",
            format!(
                "#![allow(unused_imports)]\nuse cuda_build::{{Build, Engine, Library, Module}};\n\
                 fn main() -> Result<(), cuda_build::Error> {{\n\
                 println!(\"cargo::rustc-env=SCRIPT={{}}\", std::env::current_exe().unwrap().display());\n\
                 {statements}\nBuild::new()?{calls}.run()?;\nOk(())\n}}\n"
            ),
        );
    }

    /// `src/main.rs`: writes these modules, and what these functions of libraries return, into a
    /// directory.
    pub fn write_program(&self, modules: &[&str], functions: &[&str]) {
        let mut text = String::from(
            "#[allow(dead_code)]\nmod cuda {\n    include!(concat!(env!(\"OUT_DIR\"), \"/cuda_build.rs\"));\n}\n\
             unsafe extern \"C\" {\n",
        );
        for function in functions {
            text += &format!("    fn {function}() -> i32;\n");
        }
        text += "}\nfn main() {\n    let to = std::path::PathBuf::from(std::env::args().nth(1).unwrap());\n    \
                 let write = |name: &str, bytes: &[u8]| std::fs::write(to.join(name), bytes).unwrap();\n    \
                 write(\"SCRIPT\", env!(\"SCRIPT\").as_bytes());\n    \
                 write(\"OUT_DIR\", env!(\"OUT_DIR\").as_bytes());\n";
        for module in modules {
            let constant = module.to_uppercase();
            text += &format!("    write(\"{module}.fatbin\", cuda::modules::{constant});\n");
        }
        for function in functions {
            text += &format!(
                "    write(\"{function}\", unsafe {{ {function}() }}.to_string().as_bytes());\n"
            );
        }
        text += "}\n";
        self.write("src/main.rs", text);
    }

    /// A script and a program for modules `kernels/<name>.cu`, with methods of `Module`.
    pub fn write_modules(&self, compiler: Compiler, modules: &[(&str, &str)]) {
        let engine = compiler.engine();
        let calls: String = modules
            .iter()
            .map(|(name, options)| {
                format!("\n.module(Module::new(\"kernels/{name}.cu\").engine(Engine::{engine}){options})")
            })
            .collect();
        self.write_script(&calls);
        let names: Vec<&str> = modules.iter().map(|(name, _)| *name).collect();
        self.write_program(&names, &[]);
    }

    /// Sets a variable of the builds.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.variables.retain(|(set, _)| set != name);
        let value = value.as_ref().to_owned();
        self.variables.push((name.into(), value));
    }

    /// A program with this package's directory and variables.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path);
        // Cargo sets these for the tests themselves.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG") || text.starts_with("CARGO_MANIFEST") {
                command.env_remove(&name);
            }
        }
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.env("CARGO_TARGET_DIR", &self.target);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// `cargo run`, and what the program holds.
    pub fn build(&self) -> Result<Outputs, String> {
        let (to, part) = (self.place.join("outputs"), self.place.join("outputs.part"));
        let _ = fs::remove_dir_all(&part);
        fs::create_dir_all(&part).unwrap();
        let mut cargo = self.command("cargo".as_ref());
        cargo.args(["run", "--quiet", "--offline", "--"]).arg(&part);
        succeeded(cargo.output().unwrap())?;
        // What the last build that succeeded printed is kept.
        let _ = fs::remove_dir_all(&to);
        fs::rename(&part, &to).unwrap();
        let mut outputs = files(&to);
        outputs.remove("SCRIPT");
        outputs.remove("OUT_DIR");
        outputs.extend(archives(&self.out()));
        Ok(outputs)
    }

    fn printed(&self, name: &str) -> PathBuf {
        PathBuf::from(fs::read_to_string(self.place.join("outputs").join(name)).unwrap())
    }

    /// The build script's directory in the last build that succeeded.
    pub fn out(&self) -> PathBuf {
        self.printed("OUT_DIR")
    }

    /// The build script as Cargo would run it, with another output directory. There has to be a
    /// build that succeeded.
    pub fn script(&self, out: &Path) -> Command {
        self.script_in(&self.path, out)
    }

    /// The same for a package in another directory.
    pub fn script_in(&self, package: &Path, out: &Path) -> Command {
        let mut script = self.command(self.printed("SCRIPT").as_os_str());
        script
            .current_dir(package)
            .env("CARGO_MANIFEST_DIR", package)
            .env("OUT_DIR", out)
            .env("TARGET", "x86_64-unknown-linux-gnu")
            .env("HOST", "x86_64-unknown-linux-gnu")
            .env("PROFILE", "debug")
            .env("OPT_LEVEL", "0")
            .env("DEBUG", "false")
            .env("NUM_JOBS", "2")
            .env("CARGO", "cargo")
            .env("RUSTC", "rustc");
        script
    }

    /// Empties the output directory, and makes Cargo run the script.
    pub fn forget(&self) {
        let _ = fs::remove_dir_all(self.out());
        fs::create_dir(self.out()).unwrap();
        let script = self.path.join("build.rs");
        fs::write(&script, fs::read(&script).unwrap()).unwrap();
    }

    /// What the script makes in an empty output directory, with an empty output store.
    pub fn build_afresh(&self) -> Result<Outputs, String> {
        let out = self.place.join("fresh");
        let images = self.place.join("fresh-images");
        for directory in [&out, &images] {
            let _ = fs::remove_dir_all(directory);
            fs::create_dir_all(directory).unwrap();
        }
        let mut script = self.script(&out);
        succeeded(script.env("CUDA_BUILD_IMAGES", &images).output().unwrap())?;
        Ok(script_outputs(&out))
    }

    /// Builds, and compares with a fresh build: both have to fail, or give the same bytes.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self) -> Result<Option<Outputs>, String> {
        let incremental = self.build();
        let fresh = self.build_afresh();
        let (Ok(made), Ok(expected)) = (&incremental, &fresh) else {
            return match (incremental, fresh) {
                (Err(_), Err(_)) => Ok(None),
                (Ok(_), Err(error)) => Err(format!("only the fresh build fails: {error}")),
                (Err(error), _) => Err(format!("only the incremental build fails: {error}")),
                _ => unreachable!("one of them failed"),
            };
        };
        let Some(found) = difference(made, expected) else {
            return Ok(incremental.ok());
        };
        // Whose fault it is: Cargo did not run the script, or the script kept the output.
        let forced = succeeded(self.script(&self.out()).output().unwrap())
            .map(|_| difference(&script_outputs(&self.out()), expected));
        let blame = match forced {
            Ok(None) => "Cargo did not run the script",
            Ok(Some(_)) => "the script keeps the output, too",
            Err(_) => "the script fails when run again",
        };
        Err(format!("{found} ({blame})"))
    }
}

/// Modules and static libraries in an output directory.
pub fn script_outputs(out: &Path) -> Outputs {
    let mut outputs = files(out);
    outputs.retain(|name, _| compiled(name));
    outputs
}

fn compiled(name: &str) -> bool {
    name.ends_with(".fatbin") || name.ends_with(".a")
}

fn archives(out: &Path) -> Outputs {
    let mut outputs = files(out);
    outputs.retain(|name, _| name.ends_with(".a"));
    outputs
}

fn files(directory: &Path) -> Outputs {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// The files that differ, with hashes of both versions. What only the program has (values of
/// functions) is not compared.
pub fn difference(made: &Outputs, expected: &Outputs) -> Option<String> {
    let hash = |bytes: Option<&Vec<u8>>| {
        bytes.map_or("absent".to_owned(), |bytes| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            format!("{:016x} of {} bytes", hasher.finish(), bytes.len())
        })
    };
    let different: Vec<String> = expected
        .iter()
        .filter(|(name, bytes)| !archive::same(name, made.get(*name), bytes))
        .map(|(name, bytes)| {
            format!(
                "{name}: incremental {}, fresh {}",
                hash(made.get(name)),
                hash(Some(bytes))
            )
        })
        .collect();
    (!different.is_empty()).then(|| different.join("; "))
}

/// Whether a file holds this text.
pub fn holds(bytes: &[u8], text: impl AsRef<[u8]>) -> bool {
    let text = text.as_ref();
    bytes.windows(text.len()).any(|window| window == text)
}

/// # Errors
/// What a command printed, if it failed.
pub fn succeeded(output: Output) -> Result<Output, String> {
    if output.status.success() {
        return Ok(output);
    }
    Err(format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Edits, one after another, each with what it is called and whether it changes the outputs.
#[derive(Debug)]
pub struct Edits<'a> {
    package: &'a Package,
    last: Outputs,
    wrong: Vec<String>,
}

impl<'a> Edits<'a> {
    /// Makes the first build.
    #[track_caller]
    pub fn of(package: &'a Package) -> Self {
        match package.build() {
            Ok(mut last) => {
                last.retain(|name, _| compiled(name));
                Self {
                    package,
                    last,
                    wrong: Vec::new(),
                }
            }
            Err(error) => panic!("the first build fails: {error}"),
        }
    }

    /// After `edit` the next build has other outputs than the last, and the same as a fresh one.
    pub fn changes(&mut self, name: &str, edit: impl FnOnce(&Package)) {
        edit(self.package);
        let compared = self.package.compare();
        // The state before the next edit is what a right build would have given.
        let fresh = script_outputs(&self.package.place.join("fresh"));
        match compared {
            Err(difference) => {
                self.wrong.push(format!("{name}: {difference}"));
                // So that the next edit is judged by itself.
                self.package.forget();
                let _ = self.package.build();
            }
            Ok(None) => self.wrong.push(format!("{name}: nothing builds any more")),
            Ok(Some(_)) if fresh == self.last => {
                self.wrong.push(format!("{name}: the edit changes nothing"));
            }
            Ok(Some(_)) => {}
        }
        self.last = fresh;
    }

    /// All edits were right.
    #[track_caller]
    pub fn finish(self) {
        let wrong = self.wrong.join("\n");
        assert!(wrong.is_empty(), "wrong after:\n{wrong}");
    }
}

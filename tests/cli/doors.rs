//! Every way to a wheel, for projects of several shapes: the wheels have the same in them, and what they install starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::package::archive::WheelArchive;

use crate::project::{checkout, place, store};
use crate::support::{Finished, python};
use crate::tools;
use crate::wheel_template::{clean, files, venv};

const METADATA: &str = "[package.metadata.cuda]\nmajors = [13]\ncomponents = [\"cudart\"]\ncudart = \"shared\"\n\
                        capabilities = [\"8.0\"]\n";
const LINKED: &str = "fn main() { println!(\"cargo:rustc-link-lib=dylib=cudart\"); }\n";
const PROGRAM: &str = r#"
unsafe extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }
fn main() {
    let mut version = 0;
    assert_eq!(unsafe { cudaRuntimeGetVersion(&mut version) }, 0);
    let name = std::env::args().next().unwrap();
    println!("{version} {}", name.rsplit('/').next().unwrap());
}
"#;
const MODULE: &str = r#"
unsafe extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; EXTERN }
#[pyo3::pymodule]
mod _native {
    #[pyo3::pyfunction]
    fn version() -> i32 {
        let mut version = 0;
        assert_eq!(unsafe { super::cudaRuntimeGetVersion(&mut version) }, 0);
        version CALL
    }
}
"#;

/// A project, and what starts it in an environment: a line of Python, or the program if there is none.
struct Shape {
    name: &'static str,
    /// The directory with pyproject.toml.
    directory: PathBuf,
    import: Option<&'static str>,
    /// A library that the module needs beside CUDA's.
    foreign: Option<PathBuf>,
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn pyproject(directory: &Path, name: &str, maturin: &str) {
    let text = format!(
        "[build-system]\nrequires = [\"maturin>=1.13,<2\"]\nbuild-backend = \"cuda_backend\"\nbackend-path = [\".\"]\n\
         [project]\nname = \"{name}\"\nversion = \"2.0.0\"\nrequires-python = \">=3.9\"\ndynamic = [\"dependencies\"]\n\
         classifiers = [\"Environment :: GPU :: NVIDIA CUDA :: 12\"]\n\
         [tool.maturin]\n{maturin}include = [{{ path = \"cuda_backend.py\", format = \"sdist\" }}]\n"
    );
    write(&directory.join("pyproject.toml"), &text);
    let backend = checkout().join("templates/python/cuda_backend.py");
    fs::copy(backend, directory.join("cuda_backend.py")).unwrap();
}

/// A program; a module alone, with the stable ABI; a module in a member of a workspace, with a `src` layout, for one
/// Python, which needs a library that is not NVIDIA's.
fn shapes(work: &Path) -> [Shape; 3] {
    let crate_of = |directory: &Path, name: &str, more: &str| {
        let package =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        write(
            &directory.join("Cargo.toml"),
            &format!("{package}{METADATA}{more}"),
        );
        write(&directory.join("build.rs"), LINKED);
    };
    let module = "[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\npyo3 = { version = \"=0.30.1\"FEATURES }\n";
    let code =
        |external: &str, call: &str| MODULE.replace("EXTERN", external).replace("CALL", call);

    let program = work.join("program");
    crate_of(&program, "gtool", "[workspace]\n");
    write(&program.join("src/main.rs"), PROGRAM);
    pyproject(&program, "gtool", "bindings = \"bin\"\n");

    let alone = work.join("module");
    let stable = module.replace("FEATURES", ", features = [\"abi3-py39\"]");
    crate_of(&alone, "gmod", &format!("{stable}[workspace]\n"));
    write(&alone.join("src/lib.rs"), &code("", ""));
    pyproject(&alone, "gmod", "module-name = \"_native\"\n");

    let member = work.join("workspace/crates/mixed");
    write(
        &work.join("workspace/Cargo.toml"),
        "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n",
    );
    crate_of(&member, "gmixed", &module.replace("FEATURES", ""));
    let other = work.join("other");
    write(&other.join("other.c"), "int other(void) { return 7; }\n");
    let library = Command::new("gcc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libother.so.1", "-o"])
        .args([other.join("libother.so.1"), other.join("other.c")])
        .output();
    Finished::of(library.unwrap()).succeeded();
    symlink("libother.so.1", other.join("libother.so")).unwrap();
    let script = format!(
        "fn main() {{ println!(\"cargo:rustc-link-lib=dylib=cudart\\ncargo:rustc-link-lib=dylib=other\"); \
         println!(\"cargo:rustc-link-search=native={}\"); }}\n",
        other.display()
    );
    write(&member.join("build.rs"), &script);
    write(
        &member.join("lib.rs"),
        &code("fn other() -> i32;", "+ 0 * unsafe { super::other() }"),
    );
    let manifest = fs::read_to_string(member.join("Cargo.toml")).unwrap();
    write(
        &member.join("Cargo.toml"),
        &manifest.replace("[lib]\n", "[lib]\npath = \"lib.rs\"\n"),
    );
    write(
        &member.join("src/gmixed/__init__.py"),
        "from ._native import version\n",
    );
    pyproject(
        &member,
        "gmixed",
        "module-name = \"gmixed._native\"\npython-source = \"src\"\n",
    );

    let shape = |name, directory, import, foreign| Shape {
        name,
        directory,
        import,
        foreign,
    };
    [
        shape("gtool", program, None, None),
        shape("gmod", alone, Some("import _native as m"), None),
        shape("gmixed", member, Some("import gmixed as m"), Some(other)),
    ]
}

/// What is in a wheel, without what differs by intention: the name with the major, and hashes.
fn contents(wheel: &Path) -> (BTreeSet<String>, BTreeMap<String, Vec<String>>, Vec<String>) {
    let wheel = WheelArchive::open(wheel).unwrap();
    let common = |text: &str| text.replace("_cu13", "").replace("-cu13", "");
    let paths = wheel.entries.keys();
    let modules = wheel.modules().map(|(path, elf)| {
        let facts = elf.rpath.iter().chain(&elf.needed);
        (common(path), facts.cloned().collect())
    });
    let metadata = wheel
        .text(&format!("{}/METADATA", wheel.dist_info))
        .unwrap();
    let facts = wheel.text(&format!("{}/WHEEL", wheel.dist_info)).unwrap();
    let lines = metadata.lines().chain(facts.lines());
    let lines = lines.filter(|line| !line.starts_with("Tag:") && !line.starts_with("Name:"));
    (
        paths.map(|path| common(path)).collect(),
        modules.collect(),
        lines.map(str::to_owned).collect(),
    )
}

struct Door<'a> {
    shape: &'a Shape,
    work: &'a Path,
    cache: PathBuf,
}

impl Door<'_> {
    /// A program in the project's directory.
    fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) {
        let own = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"))
            .parent()
            .unwrap();
        let mut command = clean(Command::new(program), &self.cache);
        let path = std::env::split_paths(
            command
                .get_envs()
                .find(|it| it.0 == "PATH")
                .unwrap()
                .1
                .unwrap(),
        )
        .collect::<Vec<_>>();
        let path = std::env::join_paths([own.to_owned()].into_iter().chain(path)).unwrap();
        command
            .args(arguments)
            .current_dir(&self.shape.directory)
            .env("PATH", path);
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        command.env("CARGO_TARGET_DIR", self.work.join("target"));
        command.envs(
            self.shape
                .foreign
                .as_ref()
                .map(|directory| ("LD_LIBRARY_PATH", directory)),
        );
        Finished::of(command.output().unwrap()).succeeded();
    }

    /// Starts what is installed, and compares the runtime's version and the name of the program.
    fn check(&self, name: &str, venv: &Path) {
        let mut command = match self.shape.import {
            Some(import) => {
                let mut command = Command::new(venv.join("bin/python"));
                command.args(["-c", &format!("{import}; print(m.version(), 'gtool')")]);
                command
            }
            None => Command::new(venv.join("bin/gtool")),
        };
        command.env_remove("LD_LIBRARY_PATH").current_dir("/");
        let foreign = self.shape.foreign.as_ref();
        command.envs(foreign.map(|directory| ("LD_LIBRARY_PATH", directory)));
        let run = Finished::of(command.output().unwrap());
        assert_eq!(
            (run.code, &*run.stdout),
            (0, "13040 gtool\n"),
            "{name} of {}: {run:?}",
            self.shape.name
        );
    }
}

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: seven ways to a wheel for three projects"]
    fn every_door_gives_the_same_wheel() {
        let work = place("doors");
        let cache = work.join("cache");
        store(&cache, &[13]);
        for shape in shapes(&work) {
            let door = Door {
                shape: &shape,
                work: &work,
                cache: cache.clone(),
            };
            let out = |name: &str| work.join(shape.name).join(name);
            let at = |name: &str| out(name).to_str().unwrap().to_owned();
            let wheel_in = |name: &str| {
                let mut found = files(&out(name));
                found.retain(|path| path.extension().is_some_and(|it| it == "whl"));
                found.remove(0)
            };
            let cargo_cuda = env!("CARGO_BIN_EXE_cargo-cuda");
            let interpreter = ["--", "-i", python().to_str().unwrap()];
            let wheel = ["cuda", "wheel", "--fetch", "--cuda", "13", "--out"];
            door.run(
                cargo_cuda,
                &[&wheel[..], &[&at("wheel")], &interpreter].concat(),
            );
            door.run(
                cargo_cuda,
                &[&wheel[..], &[&at("sdist")], &interpreter, &["--sdist"]].concat(),
            );
            door.run(
                tools::tool("uv"),
                &[
                    "build",
                    "--quiet",
                    "--wheel",
                    "--python",
                    interpreter[2],
                    "--out-dir",
                    &at("uv"),
                ],
            );
            let plain = at("plain");
            let maturin = [
                "build",
                "--quiet",
                "--release",
                "--auditwheel",
                "warn",
                "--out",
                &plain,
            ];
            let maturin = [&["maturin"], &maturin[..], &interpreter[1..]].concat();
            let search = "link-arg=-Wl,--disable-new-dtags,-rpath,$ORIGIN/../nvidia/cu13/lib";
            let exec = ["cuda", "exec", "--quiet", "--cuda", "13", "--"];
            let linked = ["--", "-C", search];
            door.run(cargo_cuda, &[&exec[..], &maturin, &linked].concat());
            let plain = wheel_in("plain");
            let from = [
                "cuda",
                "wheel",
                "--cuda",
                "13",
                "--from-wheel",
                plain.to_str().unwrap(),
            ];
            door.run(cargo_cuda, &[&from[..], &["--out", &at("from")]].concat());
            let mut sdists = files(&out("sdist"));
            sdists.retain(|path| path.extension().is_some_and(|it| it == "gz"));
            let sdist = sdists[0].to_str().unwrap();
            let expected = contents(&wheel_in("wheel"));
            assert!(
                expected.2.contains(&"Root-Is-Purelib: true".to_owned()),
                "{expected:?}"
            );
            let nvidia = "Environment :: GPU :: NVIDIA CUDA ::";
            let classifiers = expected
                .2
                .iter()
                .filter(|line| line.contains(nvidia))
                .collect::<Vec<_>>();
            assert_eq!(classifiers, [&format!("Classifier: {nvidia} 13")]);

            for name in ["wheel", "uv", "from"] {
                assert_eq!(
                    contents(&wheel_in(name)),
                    expected,
                    "{name} of {}",
                    shape.name
                );
                let installed = venv(&out(name), "venv", &[&wheel_in(name)]);
                door.check(name, &installed);
            }
            let constraints = work.join(shape.name).join("wheel/constraints.txt");
            for (name, arguments) in [
                ("pip", &["install", "--no-build-isolation", "."][..]),
                ("editable", &["install", "--no-build-isolation", "-e", "."]),
                ("from-sdist", &["install", "--no-build-isolation", sdist]),
            ] {
                let installed = venv(&work.join(shape.name), name, &[]);
                let constraint = [
                    "--quiet",
                    "--constraint",
                    constraints.to_str().unwrap(),
                    "-C",
                    "cuda=13",
                ];
                door.run(
                    installed.join("bin/pip"),
                    &[arguments, &constraint[..]].concat(),
                );
                door.check(name, &installed);
            }
        }
    }
}

//! `cargo cuda wheel` of projects in the shapes that maturin's users write. The crates are programs, because a program
//! needs no other crate and compiles in a second.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;
use cargo_cuda::wheel::archive::Wheel;

use crate::components::offline;
use crate::project::{place, store};
use crate::support::Finished;
use crate::tools::tool;
use crate::wheel_template::{files, wheel};

pub const MAIN: &str = r#"
unsafe extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }
fn main() {
    let mut version = 0;
    assert_eq!(unsafe { cudaRuntimeGetVersion(&mut version) }, 0);
    println!("{version} {}", std::env::args().skip(1).collect::<Vec<_>>().join(" "));
}
"#;

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A crate with a program that links the CUDA runtime.
pub fn program(directory: &Path, name: &str, workspace: &str) {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [package.metadata.cuda]\nmajors = [13]\ncomponents = [\"cudart\"]\ncudart = \"shared\"\n\
         capabilities = [\"8.0\"]\n{workspace}"
    );
    write(&directory.join("Cargo.toml"), &manifest);
    let script = "fn main() { println!(\"cargo:rustc-link-lib=dylib=cudart\") }\n";
    write(&directory.join("build.rs"), script);
    write(&directory.join("src/main.rs"), MAIN);
}

pub const WORKSPACE: &str = "[workspace]\n";

/// A `pyproject.toml` for a program; `more` is for `[tool.maturin]`.
pub fn pyproject(directory: &Path, name: &str, more: &str) {
    let text = format!(
        "[build-system]\nrequires = [\"maturin>=1.13,<2\"]\nbuild-backend = \"maturin\"\n\
         [project]\nname = \"{name}\"\nversion = \"2.0.0\"\nrequires-python = \">=3.9\"\n\
         [tool.maturin]\nbindings = \"bin\"\n{more}"
    );
    write(&directory.join("pyproject.toml"), &text);
}

/// A directory for projects, and a store with CUDA 13; `None` where tests of real components are left out.
pub fn work(name: &str) -> Option<(PathBuf, PathBuf)> {
    if offline() {
        return None;
    }
    let work = place(name);
    let cache = work.join("cache");
    store(&cache, &[13]).unwrap();
    Some((work, cache))
}

/// Runs `cargo cuda wheel` in `directory`, and returns the wheels in its `dist`.
#[track_caller]
pub fn built(directory: &Path, cache: &Path, arguments: &[&str]) -> Vec<PathBuf> {
    let dist = directory.join("dist");
    let _ = fs::remove_dir_all(&dist);
    let run = Finished::of(wheel(directory, cache, arguments).output().unwrap());
    run.succeeded();
    files(&dist)
}

fn names(paths: &[PathBuf]) -> Vec<&str> {
    let names = paths.iter().map(|path| path.file_name().unwrap());
    names.map(|name| name.to_str().unwrap()).collect()
}

#[test]
fn the_crate_of_the_current_directory_is_built() {
    let Some((work, cache)) = work("wheel-crates") else {
        return;
    };
    write(
        &work.join("Cargo.toml"),
        "[workspace]\nresolver = \"3\"\nmembers = [\"first\", \"second\"]\n",
    );
    for name in ["first", "second"] {
        program(&work.join(name), name, "");
        pyproject(&work.join(name), name, "");
    }
    let dev = ["--profile", "dev", "--out", "dist"];
    let run = wheel(&work, &cache, &dev).output();
    Finished::of(run.unwrap()).failed(
        exit_code::CONFIGURATION,
        &[
            "several packages in the workspace build a Python package: first, second",
            "hint: name one with `--package`",
        ],
    );
    let of_directory = built(&work.join("second"), &cache, &dev);
    assert!(names(&of_directory)[0].starts_with("second_cu13-2.0.0-"));
    let of_source = work.join("second/src");
    assert!(names(&built(&of_source, &cache, &dev))[0].starts_with("second_cu13-"));
    let named = [&["-p", "first"], &dev[..]].concat();
    assert!(names(&built(&work.join("second"), &cache, &named))[0].starts_with("first_cu13-"));
}

#[test]
fn a_pyproject_above_the_crate_is_used() {
    let Some((work, cache)) = work("wheel-above") else {
        return;
    };
    let project = work.join("project");
    let inner = project.join("crates/py");
    program(&inner, "inner", WORKSPACE);
    let manifest = "manifest-path = \"crates/py/Cargo.toml\"\n";
    pyproject(&project, "outer", manifest);
    let dev = ["--profile", "dev"];
    let is_outer = |directory: &Path, arguments: &[&str]| {
        let wheels = built(directory, &cache, arguments);
        let found = names(&wheels);
        let [name] = found[..] else {
            panic!("{found:?}");
        };
        assert!(name.starts_with("outer_cu13-2.0.0-"), "{name}");
        let content = Wheel::open(&wheels[0]).unwrap();
        let metadata = content.text("outer_cu13-2.0.0.dist-info/METADATA").unwrap();
        assert!(metadata.contains("Requires-Python: >=3.9"), "{metadata}");
    };
    is_outer(&project, &dev);
    is_outer(
        &project,
        &[&dev[..], &["--manifest-path", "crates/py/Cargo.toml"]].concat(),
    );
    is_outer(&inner, &dev);

    // With `--sdist`, maturin makes a source distribution, which has the same shape.
    let found = built(&project, &cache, &[&dev[..], &["--", "--sdist"]].concat());
    let [sdist, wheel] = names(&found)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(sdist, "outer-2.0.0.tar.gz");
    assert!(wheel.starts_with("outer_cu13-2.0.0-"), "{wheel}");
    let mut run = Command::new("tar");
    run.arg("xf").arg(&found[0]).current_dir(&work);
    Finished::of(run.output().unwrap()).succeeded();
    is_outer(&work.join("outer-2.0.0"), &dev);
}

#[test]
fn keys_of_pyproject_are_respected() {
    let Some((work, cache)) = work("wheel-keys") else {
        return;
    };
    let profile = "[profile.dist]\ninherits = \"dev\"\n[workspace]\n";
    program(&work, "keys", profile);
    pyproject(
        &work,
        "keys",
        "profile = \"dist\"\nrustc-args = [\"-C\", \"link-arg=-Wl,-z,nodelete\"]\nstrip = true\n",
    );
    let built_with = |arguments: &[&str]| {
        let run = Finished::of(wheel(&work, &cache, arguments).output().unwrap());
        run.succeeded();
        let wheels = files(&work.join("dist"));
        let content = Wheel::open(&wheels[0]).unwrap();
        let program = content.bytes("keys_cu13.scripts/keys").unwrap();
        let path = work.join("program");
        fs::write(&path, program).unwrap();
        let readelf = Command::new("readelf")
            .args(["--dynamic", "--section-headers"])
            .arg(&path)
            .output();
        (run, Finished::of(readelf.unwrap()).stdout)
    };
    let (run, program) = built_with(&[]);
    assert!(run.stderr.contains("Finished `dist` profile"), "{run:?}");
    assert!(program.contains("NODELETE"), "{program}");
    assert!(program.contains("$ORIGIN/../nvidia/cu13/lib"), "{program}");
    assert!(!program.contains(".symtab"), "{program}");
    let own = [
        "--profile",
        "dev",
        "--",
        "--",
        "-C",
        "link-arg=-Wl,-z,initfirst",
    ];
    let (run, program) = built_with(&own);
    assert!(run.stderr.contains("Finished `dev` profile"), "{run:?}");
    assert!(
        program.contains("INITFIRST") && !program.contains("NODELETE"),
        "{program}"
    );

    let text = fs::read_to_string(work.join("pyproject.toml")).unwrap();
    let text = text.replace("maturin>=1.13,<2", "maturin>=1.9,<1.14");
    fs::write(work.join("pyproject.toml"), text).unwrap();
    Finished::of(wheel(&work, &cache, &[]).output().unwrap()).failed(
        exit_code::MISSING_PROGRAM,
        &["is not accepted: `requires` in pyproject.toml has maturin >=1.9, <1.14"],
    );
}

/// maturin, which also makes a wheel for a second interpreter: a copy of the first wheel.
const SECOND_WHEEL: &str = "#!/bin/sh
\"MATURIN\" \"$@\" || exit
while [ $# -gt 0 ]; do
    if [ \"$1\" = --out ]; then out=$2; fi
    shift
done
[ -z \"$out\" ] && exit
for wheel in \"$out\"/*.whl; do cp \"$wheel\" \"$(echo \"$wheel\" | sed s/py3-none/cp312-cp312/)\"; done
";

#[test]
fn each_interpreter_gets_its_wheel() {
    let Some((work, cache)) = work("wheel-interpreters") else {
        return;
    };
    program(&work, "several", WORKSPACE);
    pyproject(&work, "several", "");
    let shim = work.join("bin/maturin");
    let real = tool("maturin");
    write(
        &shim,
        &SECOND_WHEEL.replace("MATURIN", real.to_str().unwrap()),
    );
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    // The copy does not have the tags of its name.
    let options = ["--profile", "dev", "--cuda", "13,13", "--allow", "W18"];
    let mut command = wheel(&work, &cache, &options);
    let path = std::env::var_os("PATH").unwrap();
    let paths = std::iter::once(work.join("bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    let run = Finished::of(command.output().unwrap());
    run.succeeded();
    let wheels = files(&work.join("dist"));
    let found = names(&wheels);
    assert!(found[0].contains("-cp312-cp312-"), "{found:?}");
    assert!(
        found[1].contains("-py3-none-") && found.len() == 2,
        "{found:?}"
    );
    let publish = run.stdout.lines().last().unwrap();
    for name in found {
        assert!(publish.contains(name), "{publish}");
    }
    // The same release twice is one build.
    assert_eq!(run.stderr.matches("Building several").count(), 1, "{run:?}");
    let both = wheel(&work, &cache, &["--cuda", "13.4,13"]).output();
    Finished::of(both.unwrap()).failed(
        exit_code::USAGE,
        &[
            "wheels for CUDA 13.4 and 13 are requested",
            "hint: give one",
        ],
    );
}

#[test]
fn a_metapackage_beside_a_source_distribution_is_refused() {
    let work = place("wheel-metapackage-sdist");
    let run = wheel(&work, &work, &["--metapackage", "--", "--sdist"]).output();
    Finished::of(run.unwrap()).failed(
        exit_code::USAGE,
        &["`--metapackage` and `--sdist` both write a distribution"],
    );
}

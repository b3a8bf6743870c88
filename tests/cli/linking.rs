//! Crates that link CUDA's libraries: what their build scripts pass to dependents, and programs
//! that load a library or the driver.

use std::fs;
use std::process::Command;

use crate::environment::dynamic;
use crate::project::Project;
use crate::support::Finished;

/// A `-sys` crate: what it tells, what it bakes in.
const SYS: &str = r#"
fn main() -> Result<(), cuda_build::Error> {
    let build = cuda_build::Build::new()?.root_variable("BAKED_ROOT");
    let view = build.view()?;
    let defines = view.cmake_defines(None);
    let value = |name: &str| defines.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()).unwrap();
    assert_eq!(value("CUDAToolkit_ROOT:PATH"), view.root().to_str().unwrap());
    assert_eq!(value("CUDA_cufft_LIBRARY:FILEPATH"), "");
    assert!(value("CUDA_cudart_LIBRARY:FILEPATH").ends_with("/lib/libcudart.so"));
    build.run().map(|_| ())
}
"#;

const DEPENDENT: &str = r#"
fn main() {
    for key in ["ROOT", "VERSION", "INCLUDE", "LIB", "CAPABILITIES"] {
        println!("cargo::rustc-env={key}={}", std::env::var(format!("DEP_THING_{key}")).unwrap());
    }
}
"#;

#[test]
fn a_sys_crate_tells_its_dependents_what_it_was_built_with() {
    let Some(project) = Project::new(
        "dependent",
        &[13],
        "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"12.0+PTX\"]",
        DEPENDENT,
        "fn main() {\n    println!(\"{}|{}|{}\", env!(\"VERSION\"), env!(\"CAPABILITIES\"), thing_sys::root() == env!(\"ROOT\"));\n    \
         let header = std::env::split_paths(env!(\"INCLUDE\")).any(|path| path.join(\"cuda.h\").is_file());\n    \
         let library = std::path::Path::new(env!(\"LIB\")).join(\"libcudart.so\").exists();\n    \
         println!(\"{header} {library}\");\n}\n",
    ) else {
        return;
    };
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let dependency = manifest
        .lines()
        .find(|line| line.starts_with("cuda-build"))
        .unwrap();
    let view_only = dependency.replace(" }", ", default-features = false, features = [\"view\"] }");
    project.write(
        "thing-sys/Cargo.toml",
        &format!(
            "[package]\nname = \"thing-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"thing\"\n\
             [build-dependencies]\n{view_only}\n\
             [package.metadata.cuda]\ncomponents = [\"cudart\"]\ncapabilities = [\"8.0\", \"12.0+PTX\"]\n"
        ),
    );
    project.write("thing-sys/build.rs", SYS);
    project.write(
        "thing-sys/src/lib.rs",
        "pub fn root() -> &'static str { env!(\"BAKED_ROOT\") }\n",
    );
    let dependent = manifest.replace(dependency, "").replace(
        "[build-dependencies]",
        "[dependencies]\nthing-sys = { path = \"thing-sys\" }\n",
    );
    project.write(
        "Cargo.toml",
        &dependent.replace("[workspace]", "[workspace]\nmembers = [\"thing-sys\"]"),
    );
    let run = project.run(&["run"]);
    run.succeeded();
    assert_eq!(run.stdout, "13.4|8.0, 12.0+PTX|true\ntrue true\n");
}

const CALLS_THE_RUNTIME: &str = r#"
unsafe extern "C" {
    fn cudaRuntimeGetVersion(version: *mut i32) -> i32;
}

fn main() {
    let mut version = 0;
    let status = unsafe { cudaRuntimeGetVersion(&mut version) };
    println!("status {status}, version {version}");
}
"#;

#[test]
fn a_crate_that_only_links_needs_no_features() {
    let declared = "components = [\"cudart\"]";
    let script =
        "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
    let Some(project) = Project::new("links", &[13], declared, script, CALLS_THE_RUNTIME) else {
        return;
    };
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace(
        "version = \"0.1\" }",
        "version = \"0.1\", default-features = false }",
    );
    assert!(manifest.contains("default-features"), "{manifest}");
    project.write("Cargo.toml", &manifest);
    let run = project.run(&["run"]);
    run.succeeded();
    assert_eq!(run.stdout, "status 0, version 13040\n");

    project.write(
        "Cargo.toml",
        &manifest.replace("\"cudart\"]", "\"cuda-driver\"]"),
    );
    let run = project.run(&["build"]);
    assert_ne!(run.code, 0);
    let hint = "add `features = [\"view\"]` to the dependency `cuda-build`";
    assert!(run.stderr.contains(hint), "{run:?}");
}

const CALLS_THE_DRIVER: &str = r#"
unsafe extern "C" {
    fn cuDriverGetVersion(version: *mut i32) -> i32;
}

fn main() {
    let mut version = 0;
    let status = unsafe { cuDriverGetVersion(&mut version) };
    println!("status {status}, version {version}");
}
"#;

#[test]
fn a_declared_driver_is_linked_with_a_stub_and_loaded_from_its_own_place() {
    let declared = "components = [\"cuda-driver\"]";
    let script =
        "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
    let Some(project) = Project::new("driver", &[13], declared, script, CALLS_THE_DRIVER) else {
        return;
    };
    let fake = project.path.join("fake");
    fs::create_dir(&fake).unwrap();
    let source = project.path.join("fake.c");
    fs::write(
        &source,
        "int cuDriverGetVersion(int *version) { *version = 777; return 0; }\n",
    )
    .unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]);
    gcc.arg(fake.join("libcuda.so.1")).arg(&source);
    Finished::of(gcc.output().unwrap()).succeeded();

    let check = || {
        let program = project.program("driver");
        assert_eq!(dynamic(&program), (vec!["libcuda.so.1".to_owned()], false));
        let run = Finished::of(
            Command::new(&program)
                .env("LD_LIBRARY_PATH", &fake)
                .output()
                .unwrap(),
        );
        run.succeeded();
        assert_eq!(run.stdout, "status 0, version 777\n");
        fs::remove_file(program).unwrap();
    };
    project.run(&["build"]).succeeded();
    check();
    // A machine without a driver has none to load, and never the stub in its stead.
    let run = project.run(&["run"]);
    assert!(
        run.code == 0
            || run
                .stderr
                .contains("libcuda.so.1: cannot open shared object"),
        "{run:?}"
    );
    assert!(
        !run.stdout.contains("status 34"),
        "the stub was loaded: {run:?}"
    );
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet"]);
    project.prepare(&mut cargo);
    Finished::of(cargo.output().unwrap()).succeeded();
    check();
}

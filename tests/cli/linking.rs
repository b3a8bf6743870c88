//! Crates that link CUDA's libraries: what their build scripts pass to dependents, and programs
//! that load a library or the driver.

use std::fs;
use std::process::Command;

use crate::environment::dynamic;
use crate::project::Project;
use crate::support::Finished;

mod online {
    use super::*;

    /// A `-sys` crate: what it tells, what it bakes in.
    const SYS: &str = r#"
fn main() -> Result<(), cuda_build::Error> {
    let build = cuda_build::Build::new()?;
    let view = build.view()?;
    assert!(view.root().is_dir());
    println!("cargo::rustc-env=BAKED_ROOT={}", view.root().display());
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

    const MAIN: &str = r#"
fn main() {
    println!("{}|{}|{}", env!("VERSION"), env!("CAPABILITIES"), thing_sys::root() == env!("ROOT"));
    let header = std::env::split_paths(env!("INCLUDE")).any(|path| path.join("cuda.h").is_file());
    let library = std::path::Path::new(env!("LIB")).join("libcudart.so").exists();
    println!("{header} {library}");
}
"#;

    #[test]
    fn plain_cargo_runs_a_program_with_a_shared_library() {
        let declared = "components = [\"cudart\"]\ncudart = \"shared\"";
        let script = "fn main() -> Result<(), cuda_build::Error> {\n    cuda_build::Build::new()?.run().map(drop)\n}\n";
        let main = "unsafe extern \"C\" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n\
                    fn main() {\n    let mut version = 0;\n    \
                    unsafe { cudaRuntimeGetVersion(&mut version) };\n    println!(\"{version}\");\n}\n";
        let project = Project::new("plain-run", &[13], declared, script, main);
        let mut run = Command::new(env!("CARGO"));
        project.prepare(run.args(["run", "-q"]));
        let run = Finished::of(run.output().unwrap());
        run.succeeded();
        assert_eq!(run.stdout, "13040\n", "{run:?}");
    }

    #[test]
    fn a_sys_crate_tells_its_dependents_what_it_was_built_with() {
        let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"12.0+PTX\"]";
        let project = Project::new("dependent", &[13], declared, DEPENDENT, MAIN);
        let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        let mut lines = manifest.lines();
        let build = lines.find(|line| line.starts_with("cuda-build")).unwrap();
        let package = "name = \"thing-sys\"\nlinks = \"thing\"";
        let sys = manifest
            .replace("name = \"dependent\"", package)
            .replace("[workspace]", "");
        project.write("thing-sys/Cargo.toml", &sys);
        project.write("thing-sys/build.rs", SYS);
        let root = "pub fn root() -> &'static str { env!(\"BAKED_ROOT\") }\n";
        project.write("thing-sys/src/lib.rs", root);
        let dependent = manifest.replace(build, "").replace(
            "[build-dependencies]",
            "[dependencies]\nthing-sys = { path = \"thing-sys\" }",
        );
        project.write("Cargo.toml", &dependent);
        let run = project.run(&["run"]);
        run.succeeded();
        assert_eq!(run.stdout, "13.4|8.0, 12.0+PTX|true\ntrue true\n");
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
        let script = "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
        let project = Project::new("driver", &[13], declared, script, CALLS_THE_DRIVER);
        let fake = project.path.join("fake");
        fs::create_dir(&fake).unwrap();
        let source = project.path.join("fake.c");
        let function = "int cuDriverGetVersion(int *version) { *version = 777; return 0; }\n";
        fs::write(&source, function).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]);
        gcc.arg(fake.join("libcuda.so.1")).arg(&source);
        Finished::of(gcc.output().unwrap()).succeeded();

        project.run(&["build"]).succeeded();
        let program = project.program("driver");
        assert_eq!(dynamic(&program), (vec!["libcuda.so.1".to_owned()], false));
        let mut loaded = Command::new(&program);
        let run = Finished::of(loaded.env("LD_LIBRARY_PATH", &fake).output().unwrap());
        run.succeeded();
        assert_eq!(run.stdout, "status 0, version 777\n");
        // On a machine without a driver, the stub is not loaded in its place.
        let run = project.run(&["run"]);
        let not_loaded = "libcuda.so.1: cannot open shared object";
        assert!(run.code == 0 || run.stderr.contains(not_loaded), "{run:?}");
        assert!(!run.stdout.contains("status 34"), "{run:?}");
    }
}

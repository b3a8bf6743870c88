//! Wrong input on users' machines: a clear message, a documented exit code, nothing half done.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cargo_cuda::exit_code;

use crate::project::Project;
use crate::support::Finished;

const BUILD: &str = r#"
use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .module(Module::new("kernels/scale.cu").engine(Engine::Nvrtc))
        .module(Module::new("kernels/größe.cu").engine(Engine::Nvcc))
        .library(Library::new("host").file("kernels/host code.cu"))
        .run()
        .map(drop)
}
"#;

const KERNEL: &str =
    "#include \"factor.cuh\"\nextern \"C\" __global__ void scale(float *p) { *p *= FACTOR; }\n";

mod online {
    use super::*;

    #[test]
    fn spaces_and_other_letters_in_every_path() {
        let main = "unsafe extern \"C\" { fn three() -> i32; }\nfn main() { println!(\"{}\", unsafe { three() }) }\n";
        let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"9.0+PTX\"]";
        let directory = "größe и 测 a";
        let project = Project::at("other-letters", directory, &[13], declared, BUILD, main);
        project.write("kernels/scale.cu", KERNEL);
        project.write("kernels/factor.cuh", "#define FACTOR 2.0f\n");
        project.write(
            "kernels/größe.cu",
            &KERNEL.replace("factor", "größen faktor"),
        );
        project.write("kernels/größen faktor.cuh", "#define FACTOR 3.0f\n");
        let host = "#include \"größen faktor.cuh\"\n__global__ void k(float *p) { *p = FACTOR; }\n\
                    extern \"C\" int three() { return int(FACTOR); }\n";
        project.write("kernels/host code.cu", host);
        let run = project.run(&["run"]);
        assert_eq!(run.stdout, "3\n", "{run:?}");
        let out = project.out("other-letters", "libhost.a");
        for file in ["libhost.a", "größe.fatbin", "scale.fatbin"] {
            assert!(out.join(file).is_file(), "{file}");
        }
        // Its headers are declared to Cargo under their true names.
        project.write("kernels/größen faktor.cuh", "#define FACTOR 4.0f\n");
        let run = project.run(&["run"]);
        assert_eq!(run.stdout, "4\n", "{run:?}");
        let again = project.run(&["run", "-v"]);
        assert!(again.stderr.contains("Fresh other-letters"), "{again:?}");
    }

    #[test]
    fn a_wheel_needs_maturin() {
        let project = Project::template("python", &[12, 13]).alone(&[12, 13]);
        let bin = project.path.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let cargo = Path::new(env!("CARGO"));
        for program in [cargo, &cargo.with_file_name("rustc")] {
            let link = bin.join(program.file_name().unwrap());
            std::os::unix::fs::symlink(program, link).unwrap();
        }
        let run = || {
            let mut wheel = project.command(&["wheel", "--cuda", "13"]);
            Finished::of(wheel.env("PATH", &bin).output().unwrap())
        };
        let fails = |words: &[&str]| run().failed(exit_code::MISSING_PROGRAM, words);
        fails(&["`maturin` is not on `PATH`", "`--fetch`"]);
        // As pyenv has it for a program that the chosen version of Python lacks.
        let script = |text: &str| {
            let path = bin.join("maturin");
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("echo 'pyenv: maturin: command not found' >&2; exit 127");
        fails(&[
            "/maturin does not run: pyenv: maturin: command not found",
            "`--fetch`",
        ]);
        script("echo maturin 1.8.0");
        fails(&[
            "/maturin is older than 1.13: maturin 1.8.0",
            "`requires` in pyproject.toml",
        ]);

        // What maturin would build is not the package of another builder.
        let pyproject = fs::read_to_string(project.path.join("pyproject.toml")).unwrap();
        let other = pyproject.replace("\"cuda_backend\"", "\"setuptools.build_meta\"");
        project.write("pyproject.toml", &other);
        script("echo maturin 1.16.0");
        let words = [
            "is `setuptools.build_meta`",
            "`cargo cuda wheel --from-wheel <wheel>",
        ];
        run().failed(exit_code::CONFIGURATION, &words);
        assert!(!project.path.join("dist").exists());
    }
}

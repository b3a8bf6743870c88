//! Wrong input on users' machines: a clear message, a documented exit code, nothing half done.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components::site_packages;
use crate::project::Project;
use crate::support::Finished;

const BUILD: &str = r#"
use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let engine = if std::path::Path::new("by-nvcc").exists() { Engine::Nvcc } else { Engine::Nvrtc };
    let mut build = Build::new()?.module(Module::new("kernels/scale.cu").engine(engine));
    if std::path::Path::new("kernels/host code.cu").exists() {
        build = build
            .module(Module::new("kernels/größe.cu").engine(Engine::Nvcc))
            .library(Library::new("host").file("kernels/host code.cu"));
    }
    build.run()?;
    Ok(())
}
"#;

const KERNEL: &str =
    "#include \"factor.cuh\"\nextern \"C\" __global__ void scale(float *p) { *p *= FACTOR; }\n";
const FACTOR: &str = "#define FACTOR 2.0f\n";
const CAPABILITIES: &str = "capabilities = [\"8.0\", \"9.0+PTX\"]";

fn project(name: &str) -> Project {
    let main = "fn main() {}\n";
    filled(Project::new(name, &[13], CAPABILITIES, BUILD, main))
}

fn filled(project: Project) -> Project {
    project.write("kernels/scale.cu", KERNEL);
    project.write("kernels/factor.cuh", FACTOR);
    project
}

fn output(command: &mut Command) -> Finished {
    Finished::of(command.output().unwrap())
}

mod online {
    use super::*;

    #[test]
    fn declarations_that_contradict_the_toolkit_are_refused() {
        let project = project("cannot-do");
        let capability = exit_code::CAPABILITY;
        let removed = [
            "capability 7.0 was removed in CUDA 13.0",
            "hint: remove 7.0",
        ];
        let unknown = ["`8.0x` is not a compute capability", "hint: write"];
        let unsupported = ["CUDA `3` is not supported", "--help"];
        for (option, value, code, words) in [
            ("--capabilities", "7.0", capability, removed),
            ("--capabilities", "8.0x", capability, unknown),
            ("--cuda", "3", exit_code::USAGE, unsupported),
        ] {
            project.run(&["build", option, value]).failed(code, &words);
        }
        let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        let build = |cuda: &str, arguments: &[&str]| {
            project.write("Cargo.toml", &manifest.replace(CAPABILITIES, cuda));
            project.run(&[&["build"], arguments].concat())
        };
        build("capabilities = [\"7.0\"]", &[]).failed(capability, &removed[..1]);
        for (list, reason) in [
            ("capabilities = []", "the list of capabilities is empty"),
            ("", "no compute capability is declared"),
        ] {
            let run = build(list, &[]);
            run.failed(capability, &[reason]);
            assert!(!run.stderr.contains("Compiling"), "{run:?}");
        }
        let twelve = "toolkit = \">=12, <13\"\ncapabilities = [\"8.0\"]";
        let excluded = [
            "`toolkit = \">=12, <13\"`",
            "no release of CUDA 13 meets it",
        ];
        build(twelve, &["--cuda", "13"]).failed(exit_code::NOT_FOUND, &excluded);
        let absent = ["has CUDA 13.4", "`cargo cuda toolkit add 12`"];
        build(twelve, &[]).failed(exit_code::NOT_FOUND, &absent);
    }

    #[test]
    fn an_error_in_the_code_is_reported_with_file_and_line() {
        let project = project("syntax-error");
        project.run(&["build"]).succeeded();
        let kernel = KERNEL.replace("\n", "\n\n").replace("FACTOR", "FACTR");
        project.write("kernels/scale.cu", &kernel);
        for engine in ["NVRTC", "nvcc"] {
            if engine == "nvcc" {
                project.write("by-nvcc", "");
                project.write("build.rs", &format!("{BUILD}// again\n"));
            }
            let failed = format!("{engine} 13.4.92 could not compile kernels/scale.cu");
            let words = [
                &failed,
                "kernels/scale.cu(3): error",
                "\"FACTR\" is undefined",
            ];
            project.run(&["build"]).failed(101, &words);
        }
        project.write("kernels/scale.cu", KERNEL);
        let broken = format!("{FACTOR}__device__ int broken( {{ return 1; }}\n");
        project.write("kernels/factor.cuh", &broken);
        project
            .run(&["build"])
            .failed(101, &["kernels/factor.cuh(2): error"]);
        fs::remove_file(project.path.join("kernels/factor.cuh")).unwrap();
        project.run(&["build"]).failed(101, &["factor.cuh"]);
        filled(project).run(&["build"]).succeeded();
    }

    #[test]
    fn spaces_and_other_letters_in_every_path() {
        let main = "unsafe extern \"C\" { fn three() -> i32; }\nfn main() { println!(\"{}\", unsafe { three() }) }\n";
        let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"9.0+PTX\"]";
        let directory = "größe и 测 a";
        let project = filled(Project::at(
            "other-letters",
            directory,
            &[13],
            declared,
            BUILD,
            main,
        ));
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
        let out = project.out("other-letters");
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
        let mut wheel = project.command(&["wheel", "--cuda", "13"]);
        let words = ["neither `maturin` nor `uvx` is on `PATH`", "`--fetch`"];
        output(wheel.env("PATH", &bin)).failed(exit_code::MISSING_PROGRAM, &words);
        assert!(!project.path.join("dist").exists());
    }

    #[test]
    fn a_variable_without_a_usable_toolkit_is_an_error() {
        let project = project("named-nowhere");
        let at = |name: &str| project.path.join(name);
        fs::create_dir(at("empty")).unwrap();
        let real = site_packages(13).join("nvidia/cu13");
        let headers = ["include/cuda_runtime_api.h", "include/cuda_runtime.h"];
        for file in headers.into_iter().chain(["lib/libcudart.so.13"]) {
            project.write(&format!("partial/{file}"), "");
            fs::copy(real.join(file), at("partial").join(file)).unwrap();
        }
        let component = "name = \"nvrtc\"\nmajor = 13\nversion = \"13.4.92\"\ntoolkit = \"13.4\"\ninclude = []\n\
                         libraries = [\"/gone/lib/libnvrtc.so.13\"]\narchives = []\ntools = []\nevidence = \"\"\norigin = \"\"\n";
        let toolkit =
            format!("format_version = 1\nversion = \"13.4\"\n\n[[component]]\n{component}");
        project.write("gone.toml", &toolkit);
        let (unusable, missing) = (exit_code::CONFIGURATION, exit_code::NOT_FOUND);
        let lists = "it lists a file of `nvrtc` that does not exist (/gone/lib/libnvrtc.so.13)";
        let (roots, toolkit) = ("CUDA_BUILD_ROOTS", "CUDA_BUILD_TOOLKIT");
        for (variable, path, code, reason) in [
            (roots, "nowhere", unusable, "does not exist"),
            (roots, "empty", unusable, "contains no CUDA component"),
            (
                "CUDA_HOME",
                "partial",
                missing,
                "component `nvrtc` not found",
            ),
            (toolkit, "nowhere", unusable, "does not exist"),
            (toolkit, "gone.toml", unusable, lists),
        ] {
            for command in ["build", "view", "doctor"] {
                let run = output(project.command(&[command]).env(variable, at(path)));
                assert_eq!(
                    run.code,
                    i32::from(code),
                    "{variable}={path} {command}: {run:?}"
                );
                let text = format!("{}{}", run.stdout, run.stderr);
                assert!(text.contains(reason) && text.contains(variable), "{text}");
            }
        }
    }
}

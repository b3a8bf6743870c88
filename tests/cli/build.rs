//! `cargo cuda build|check|run|test` of crates with device code.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::exit_code;
use serde_json::Value;

use crate::components::site_packages;
use crate::project::{Project, target};
use crate::support::Finished;

/// Writes down for how many images it has called NVRTC, and what it made.
const REPORTING: &str = r#"
use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let built = Build::new()?
        .library(Library::new("kernels").file("src/first.cu").file("src/second.cu").file("src/third.cu"))
        .module(Module::new("src/with_header.cu").engine(Engine::Nvrtc))
        .module(Module::new("src/alone.cu").engine(Engine::Nvrtc))
        .module(Module::new("src/by_nvcc.cu").engine(Engine::Nvcc))
        .run()?;
    let by_nvrtc = built.compiled.made.iter().filter(|made| made.tool.starts_with("NVRTC"));
    let mut text = format!("nvrtc {}\n", by_nvrtc.map(|made| made.compiled.len()).sum::<usize>());
    for made in &built.compiled.made {
        text += &format!("made {}\n", made.output.file_name().unwrap().to_str().unwrap());
    }
    std::fs::write("report", text).unwrap();
    Ok(())
}
"#;

fn reporting(name: &str) -> Project {
    let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
    let main = "unsafe extern \"C\" { fn third() -> i32; }\n\
                fn main() { println!(\"{}\", unsafe { third() }) }\n";
    let project = Project::new(name, &[13], declared, REPORTING, main);
    project.write("src/shared.cuh", "#define SHARED 1\n");
    let kernel = |name: &str, header: &str, value: &str| {
        format!("{header}__global__ void {name}_kernel(int *p) {{ *p = {value}; }}\n")
    };
    let header = "#include \"shared.cuh\"\n";
    project.write("src/first.cu", &kernel("first", header, "SHARED"));
    project.write("src/second.cu", &kernel("second", header, "SHARED"));
    let host = "extern \"C\" int third() { return 3; }\n";
    project.write("src/third.cu", &(kernel("third", "", "3") + host));
    project.write(
        "src/with_header.cu",
        &kernel("with_header", header, "SHARED"),
    );
    project.write("src/alone.cu", &kernel("alone", "", "5"));
    project.write("src/by_nvcc.cu", &kernel("by_nvcc", header, "SHARED"));
    project
}

/// The report of the build script's last run: NVRTC's compilations, what was made.
fn report(project: &Project) -> (u64, Vec<String>) {
    let text = fs::read_to_string(project.path.join("report")).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("nvrtc "));
    let made = text
        .lines()
        .filter_map(|line| line.strip_prefix("made ").map(str::to_owned))
        .collect();
    (count.unwrap().parse().unwrap(), made)
}

/// What code a file holds, each kind once: `sm_80.cubin`, `sm_120.ptx`.
pub fn cuobjdump(file: &Path) -> Vec<String> {
    let program = site_packages(13).join("nvidia/cu13/bin/cuobjdump");
    let mut list = Command::new(program);
    list.args(["--list-elf", "--list-ptx"]).arg(file);
    let text = Finished::of(list.output().unwrap());
    text.succeeded();
    let files = text.stdout.lines().filter(|line| line.contains(" file "));
    let kind = |line: &str| {
        let mut parts = line.rsplitn(3, '.');
        let extension = parts.next().unwrap();
        format!("{}.{extension}", parts.next().unwrap())
    };
    let mut names: Vec<String> = files.map(kind).collect();
    names.sort();
    names.dedup();
    names
}

/// A crate that calls the shared runtime, which no loader finds by itself.
fn shared_runtime(name: &str) -> Project {
    let declared = "components = [\"cudart\"]\ncudart = \"shared\"";
    let build = "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(|_| ()) }\n";
    let main = r#"
unsafe extern "C" { fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }
fn version() -> i32 {
    let mut version = 0;
    assert_eq!(unsafe { cudaRuntimeGetVersion(&mut version) }, 0);
    version
}
fn main() {
    println!("{} {}", version(), std::env::args().skip(1).collect::<Vec<_>>().join("|"));
    std::process::exit(if std::env::args().nth(1).as_deref() == Some("--fail") { 7 } else { 0 });
}
#[test]
fn it_answers() {
    assert_eq!(version() / 1000, 13);
}
"#;
    Project::new(name, &[12, 13], declared, build, main)
}

mod online {
    use super::*;

    #[test]
    fn the_native_app_runs_and_holds_what_is_declared() {
        let project = Project::template("library", &[12, 13]);
        let run = project.run(&["run"]);
        let built = "built with CUDA 13.4 for 8.0, 9.0, 10.0, 12.0+PTX";
        assert!(run.stdout.contains(built), "{run:?}");
        match run.code {
            0 => assert!(run.stdout.contains("2 * 999 + 1 = 1999"), "{run:?}"),
            _ => run.ended_with(1, &["error: no CUDA driver is installed on this machine"]),
        }
        let program = project.program("native-app");
        let expected = "sm_100.cubin sm_120.cubin sm_120.ptx sm_80.cubin sm_90.cubin";
        assert_eq!(cuobjdump(&program).join(" "), expected);
        let library = fs::read(&program).unwrap();
        let needs_cudart = library.windows(12).any(|bytes| bytes == b"libcudart.so");
        assert!(!needs_cudart, "cudart is linked statically");

        // Without `cargo cuda`, and with a variable that everybody knows.
        let mut cargo = Command::new("cargo");
        project.prepare(cargo.args(["build", "--quiet"]));
        cargo
            .env("CUDA_HOME", site_packages(13).join("nvidia/cu13"))
            .env("CUDA_BUILD_CACHE_DIR", target().join("empty-cache"));
        Finished::of(cargo.output().unwrap()).succeeded();
        let program = target().join("debug/native-app");
        assert_eq!(cuobjdump(&program).join(" "), expected);
    }

    #[test]
    fn a_source_that_reads_the_list_is_named_when_it_is_compiled_again() {
        let script = "fn main() -> Result<(), cuda_build::Error> {\n\
            let listed = cuda_build::Library::new(\"listed\").files([\"src/listed.cu\", \"src/plain.cu\"]);\n\
            cuda_build::Build::new()?.library(listed).run().map(|_| ())\n}\n";
        let list = "capabilities = [\"8.0\", \"9.0\"]";
        let project = Project::new("listed", &[13], list, script, "fn main() {}\n").alone(&[13]);
        let listed = "const int LIST[] = {__CUDA_ARCH_LIST__};\n__global__ void listed() {}\n\
                      int first() { return LIST[0]; }\n";
        project.write("src/listed.cu", listed);
        project.write("src/plain.cu", "__global__ void plain() {}\n");
        project.run(&["build"]).succeeded();
        let run = project.run(&["build", "--capabilities", "8.0"]);
        run.succeeded();
        let lines = run
            .stderr
            .lines()
            .filter(|line| line.contains("Compiling src/"));
        let [line] = lines.collect::<Vec<_>>()[..] else {
            panic!("{run:?}")
        };
        let reason = "src/listed.cu for 8.0 (listed 1 of 2; compiled as a whole, because its text depends on";
        assert!(line.contains(reason), "{line}");
    }

    #[test]
    fn nothing_is_compiled_without_need() {
        let project = reporting("reporting").alone(&[13]);
        let build = |arguments: &[&str]| {
            let run = project.run(&[&["build"], arguments].concat());
            run.succeeded();
            let lines = run.stderr.lines().map(str::trim_start);
            let files = lines.filter_map(|line| line.strip_prefix("Compiling src/"));
            files.map(str::to_owned).collect::<Vec<String>>()
        };
        for (arguments, images, declared) in [
            (
                &[][..],
                8,
                "sm_120.cubin sm_120.ptx sm_80.cubin sm_90.cubin",
            ),
            // A list without a capability of the first one concerns every file.
            (
                &["--capabilities", "8.6,8.9+PTX"],
                6,
                "sm_86.cubin sm_89.cubin sm_89.ptx",
            ),
        ] {
            let lines = build(arguments);
            assert_eq!(lines.len(), 6, "{lines:?}");
            assert!(
                lines.iter().all(|line| line.contains(" of 6)")),
                "{lines:?}"
            );
            assert_eq!(report(&project).0, images);
            for file in ["with_header.fatbin", "by_nvcc.fatbin", "libkernels.a"] {
                let code = cuobjdump(&project.made("reporting", file));
                assert_eq!(code.join(" "), declared, "{file}");
            }
        }
        build(&[]);

        // The build script does not even run.
        fs::remove_file(project.path.join("report")).unwrap();
        assert!(build(&[]).is_empty());
        assert!(!project.path.join("report").exists());

        // It runs, and compiles nothing.
        let changed = format!("{REPORTING}// again\n");
        project.write_later("build.rs", &changed);
        assert!(build(&[]).is_empty());
        assert_eq!(report(&project), (0, Vec::new()));

        project.write_later("src/shared.cuh", "#define SHARED 2\n");
        let mut lines = build(&[]);
        lines.sort();
        assert!(
            lines[0].starts_with("by_nvcc.cu for 8.0, 9.0, 12.0+PTX (reporting "),
            "{lines:?}"
        );
        assert!(
            lines[0].ends_with(" of 4; shared.cuh changed)"),
            "{lines:?}"
        );
        let sources = lines
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default());
        let expected = ["by_nvcc.cu", "first.cu", "second.cu", "with_header.cu"];
        assert!(sources.eq(expected), "{lines:?}");
        let (nvrtc, made) = report(&project);
        assert_eq!(nvrtc, 4);
        for name in ["libkernels.a", "by_nvcc.fatbin"] {
            assert!(made.contains(&name.to_owned()), "{name}: {made:?}");
        }
        assert!(!made.contains(&"alone.fatbin".to_owned()), "{made:?}");
    }

    #[test]
    fn a_failing_build_tells_cargo_nothing() {
        let project = reporting("failing");
        let broken = "__global__ void third_kernel(int *p) {\n    *p = undeclared;\n}\n";
        project.write("src/third.cu", broken);
        let build = project.run(&["build"]);
        let words = ["src/third.cu(2): error", "\"undeclared\" is undefined"];
        build.ended_with(101, &words);
        let out = project.out("failing", "cuda-build.stamps");
        assert!(!out.join("libkernels.a").exists());
        for entry in fs::read_dir(&out).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_complete = !name.contains("third") || name.ends_with(".d");
            assert!(
                is_complete && !name.ends_with(".part") && !name.ends_with(".rs"),
                "{name}"
            );
        }
        // Cargo shows what a failed build script printed, under this heading.
        assert!(!build.stderr.contains("--- stdout"), "{build:?}");

        project.write("src/third.cu", "extern \"C\" int third() { return 3; }\n");
        project.run(&["build"]).succeeded();
    }

    #[test]
    fn run_and_test_find_the_shared_runtime() {
        let project = shared_runtime("shared-runtime");
        for (arguments, expected) in [
            (
                &["run", "--", "a b", "--cuda", "3"][..],
                "13040 a b|--cuda|3\n",
            ),
            (&["run", "--cuda", "12", "--quiet"], "12090 \n"),
        ] {
            let run = project.run(arguments);
            run.succeeded();
            assert_eq!(run.stdout, expected);
        }
        let test = project.run(&["test"]);
        test.succeeded();
        assert!(test.stdout.contains("1 passed"), "{test:?}");
        // Cargo's own code, which for `run` is the program's.
        assert_eq!(project.run(&["run", "--", "--fail"]).code, 7);
        // Programs read Cargo's messages, which nothing of ours interrupts.
        let check = project.run(&["check", "--message-format", "json"]);
        check.succeeded();
        let messages = check.stdout.lines();
        let messages: Vec<Value> = messages
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(messages.last().unwrap()["reason"], "build-finished");
    }

    #[test]
    fn a_target_without_cuda_is_refused() {
        let project = shared_runtime("named-target");
        let words = [
            "the build for `aarch64-unknown-linux-gnu` needs",
            "run `cargo cuda toolkit add 1",
            " --target aarch64-unknown-linux-gnu`",
        ];
        let configuration = "[build]\ntarget = 'aarch64-unknown-linux-gnu'";
        project.write(".cargo/config.toml", configuration);
        for arguments in [&["build"][..], &["exec", "--", "true"]] {
            project.run(arguments).failed(exit_code::NOT_FOUND, &words);
        }
        let host = ["run", "--quiet", "--target", "x86_64-unknown-linux-gnu"];
        project.run(&host).succeeded();
    }
}

//! `cargo cuda build|check|run|test` of crates with device code.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components::site_packages;
use crate::project::{CountingToolkit, Project, WITH_CUBLAS, place, target};
use crate::support::Finished;
use crate::wheels::wheels;

/// What a build script made with NVRTC, and what it found up to date, as its own report has it.
const REPORTING: &str = r#"
use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let built = Build::new()?
        .library(Library::new("kernels").file("src/first.cu").file("src/second.cu").file("src/third.cu"))
        .module(Module::new("src/with_header.cu").engine(Engine::Nvrtc))
        .module(Module::new("src/alone.cu").engine(Engine::Nvrtc))
        .module(Module::new("src/by_nvcc.cu").engine(Engine::Nvcc))
        .run()?;
    let mut text = format!("nvrtc {}\n", cuda_build::internal::nvrtc::compilations());
    let made = built.compiled.made.iter().map(|made| ("made", &made.output));
    for (what, path) in made.chain(built.compiled.fresh.iter().map(|path| ("fresh", path))) {
        text += &format!("{what} {}\n", path.file_name().unwrap().to_str().unwrap());
    }
    std::fs::write("report", text).unwrap();
    Ok(())
}
"#;

fn reporting(name: &str) -> Option<Project> {
    let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
    let main = "unsafe extern \"C\" { fn third() -> i32; }\n\
                fn main() { println!(\"{}\", unsafe { third() }) }\n";
    let project = Project::new(name, &[13], declared, REPORTING, main)?;
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
    Some(project)
}

/// The report of the build script's last run: NVRTC's compilations, what was made.
fn report(project: &Project) -> (u64, Vec<String>) {
    let text = fs::read_to_string(project.path.join("report")).unwrap();
    let count = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("nvrtc ")
        .unwrap()
        .parse()
        .unwrap();
    let made = text
        .lines()
        .filter_map(|line| line.strip_prefix("made ").map(str::to_owned))
        .collect();
    (count, made)
}

/// A new time of change and a new content.
fn touch(path: &Path, text: &str) {
    // Cargo compares times of change in whole units of the file system.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(path, text).unwrap();
}

/// What code a file holds, each kind once: `sm_80.cubin`, `sm_120.ptx`.
pub fn cuobjdump(file: &Path) -> Vec<String> {
    let program = site_packages(13).unwrap().join("nvidia/cu13/bin/cuobjdump");
    let output = Command::new(program)
        .args(["--list-elf", "--list-ptx"])
        .arg(file)
        .output()
        .unwrap();
    let text = Finished::of(output);
    text.succeeded();
    let files = text.stdout.lines().filter(|line| line.contains(" file "));
    let mut names: Vec<String> = files
        .map(|line| line.rsplit('.').take(2).collect::<Vec<_>>())
        .map(|parts| format!("{}.{}", parts[1], parts[0]))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_native_app_runs_and_holds_what_is_declared() {
    let Some(project) = Project::template("library", &[12, 13]) else {
        return;
    };
    let run = project.run(&["run"]);
    assert!(
        run.stdout
            .contains("built with CUDA 13.4 for 8.0, 9.0, 10.0, 12.0+PTX"),
        "{run:?}"
    );
    if run.code == 0 {
        assert!(run.stdout.contains("2 * 999 + 1 = 1999"), "{run:?}");
    } else {
        run.ended_with(1, &["error: no CUDA driver is installed on this machine"]);
    }
    let program = project.program("native-app");
    let expected = [
        "sm_100.cubin",
        "sm_120.cubin",
        "sm_120.ptx",
        "sm_80.cubin",
        "sm_90.cubin",
    ];
    assert_eq!(cuobjdump(&program), expected);
    let library = fs::read(&program).unwrap();
    let needs_cudart = library.windows(12).any(|bytes| bytes == b"libcudart.so");
    assert!(!needs_cudart, "cudart is linked statically");

    // Without `cargo cuda`, and with a variable that everybody knows.
    let home = site_packages(13).unwrap().join("nvidia/cu13");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet"]);
    project.prepare(&mut cargo);
    cargo
        .env("CUDA_HOME", &home)
        .env("CUDA_BUILD_CACHE_DIR", target().join("empty-cache"));
    Finished::of(cargo.output().unwrap()).succeeded();
    let plain = target().join("debug/native-app");
    assert_ne!(plain, program);
    assert_eq!(cuobjdump(&plain), expected);
}

#[test]
fn nothing_is_compiled_without_need() {
    // The counting toolkit is another one in every run.
    let Some(project) = reporting("reporting").and_then(|project| project.alone(&[13])) else {
        return;
    };
    let counting = CountingToolkit::new(project.path.parent().unwrap()).unwrap();
    let build = |arguments: &[&str]| {
        let mut command = project.command(&[&["build"], arguments].concat());
        Finished::of(command.env("CUDA_HOME", &counting.path).output().unwrap())
    };
    build(&[]).succeeded();
    let all = ["by_nvcc.cu", "first.cu", "second.cu", "third.cu"];
    assert_eq!(counting.compiled(), all);
    // Four images each: three of SASS and one of PTX.
    assert_eq!(report(&project).0, 8);
    let declared = ["sm_120.cubin", "sm_120.ptx", "sm_80.cubin", "sm_90.cubin"];
    let out = project.out("reporting");
    for file in ["with_header.fatbin", "by_nvcc.fatbin", "libkernels.a"] {
        assert_eq!(cuobjdump(&out.join(file)), declared, "{file}");
    }

    // The build script does not even run.
    fs::remove_file(project.path.join("report")).unwrap();
    build(&[]).succeeded();
    assert_eq!(counting.compiled(), [""; 0]);
    assert!(!project.path.join("report").exists());

    // It runs, and compiles nothing.
    touch(
        &project.path.join("build.rs"),
        &format!("{REPORTING}// again\n"),
    );
    build(&[]).succeeded();
    assert_eq!(counting.compiled(), [""; 0]);
    assert_eq!(report(&project), (0, Vec::new()));

    touch(&project.path.join("src/shared.cuh"), "#define SHARED 2\n");
    build(&[]).succeeded();
    assert_eq!(counting.compiled(), ["by_nvcc.cu", "first.cu", "second.cu"]);
    let (nvrtc, made) = report(&project);
    assert_eq!(nvrtc, 4);
    let objects = made.iter().filter(|name| name.ends_with(".o")).count();
    assert_eq!(objects, 2, "{made:?}");
    for expected in ["with_header.fatbin", "by_nvcc.fatbin", "libkernels.a"] {
        assert!(made.contains(&expected.to_owned()), "{made:?}");
    }
    assert!(!made.contains(&"alone.fatbin".to_owned()), "{made:?}");

    // Another list concerns every file.
    build(&["--capabilities", "8.6,9.0+PTX"]).succeeded();
    assert_eq!(counting.compiled(), all);
    assert_eq!(report(&project).0, 6);
    let expected = ["sm_86.cubin", "sm_90.cubin", "sm_90.ptx"];
    let out = project.out("reporting");
    for file in ["with_header.fatbin", "by_nvcc.fatbin", "libkernels.a"] {
        assert_eq!(cuobjdump(&out.join(file)), expected, "{file}");
    }
}

#[test]
fn a_failing_build_tells_cargo_nothing() {
    let Some(project) = reporting("failing") else {
        return;
    };
    let broken = "__global__ void third_kernel(int *p) {\n    *p = undeclared;\n}\n";
    project.write("src/third.cu", broken);
    let build = project.run(&["build"]);
    build.failed(
        101,
        &[
            "src/third.cu(2): error",
            "\"undeclared\" is undefined",
            "command:",
        ],
    );
    let out = project.out("failing");
    assert!(!out.join("libkernels.a").exists());
    for entry in fs::read_dir(&out).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.contains("third") || name.ends_with(".d"),
            "half an output: {name}"
        );
        assert!(!name.ends_with(".part") && !name.ends_with(".rs"), "{name}");
    }
    // Cargo shows what a failed build script printed, under this heading.
    assert!(
        !build.stderr.contains("--- stdout") && !build.stderr.contains("cargo::"),
        "{build:?}"
    );

    project.write("src/third.cu", "extern \"C\" int third() { return 3; }\n");
    project.run(&["build"]).succeeded();
}

/// A crate that calls the shared runtime, which no loader finds by itself.
fn shared_runtime(name: &str) -> Option<Project> {
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
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{} {profile} {}", version(), std::env::args().skip(1).collect::<Vec<_>>().join("|"));
    std::process::exit(if std::env::args().nth(1).as_deref() == Some("--fail") { 7 } else { 0 });
}
#[test]
fn it_answers() {
    assert_eq!(version() / 1000, option_env!("EXPECTED").unwrap_or("13").parse::<i32>().unwrap());
}
"#;
    Project::new(name, &[12, 13], declared, build, main)
}

#[test]
fn run_and_test_find_the_shared_runtime() {
    let Some(project) = shared_runtime("shared-runtime") else {
        return;
    };
    let run = project.run(&["run", "--", "a b", "--cuda", "3"]);
    run.succeeded();
    assert_eq!(run.stdout, "13040 debug a b|--cuda|3\n");
    // As with cargo, all that comes after the program's first argument is the program's.
    let run = project.run(&["run", "file", "--cuda", "12", "--fetch"]);
    assert_eq!(run.stdout, "13040 debug file|--cuda|12|--fetch\n");
    let major_12 = project.run(&["run", "--cuda", "12", "--quiet"]);
    assert!(major_12.stdout.starts_with("12090 debug"), "{major_12:?}");
    let test = project.run(&["test"]);
    test.succeeded();
    assert!(test.stdout.contains("1 passed"), "{test:?}");
    // Cargo's own code, which for `run` is the program's.
    assert_eq!(project.run(&["run", "--", "--fail"]).code, 7);
}

#[test]
fn cargos_own_options_pass_through() {
    let Some(project) = shared_runtime("passing") else {
        return;
    };
    let check = project.run(&["check", "--message-format", "json", "-p", "passing"]);
    check.succeeded();
    let messages: Vec<serde_json::Value> = check
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        messages
            .iter()
            .any(|m| m["reason"] == "build-script-executed"),
        "{check:?}"
    );
    assert_eq!(messages.last().unwrap()["reason"], "build-finished");

    let elsewhere = place("passing-target");
    let manifest = project.path.join("Cargo.toml");
    let mut build = project.command(&["build", "--profile", "dev", "--target-dir"]);
    build
        .arg(&elsewhere)
        .arg("--manifest-path")
        .arg(&manifest)
        .current_dir("/");
    Finished::of(build.output().unwrap()).succeeded();
    assert!(elsewhere.join("debug/passing").is_file());

    project
        .run(&["build", "--no-such-option"])
        .failed(1, &["--no-such-option"]);
    let misspelled = project.run(&["build", "--cudaa", "13"]);
    misspelled.failed(
        exit_code::USAGE,
        &["--cudaa", "a similar argument exists: '--cuda'"],
    );
    project
        .run(&["build", "-p", "nobody"])
        .failed(101, &["nobody"]);
}

#[test]
fn help_names_our_options() {
    let help = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        let finished = Finished::of(command.arg("cuda").args(arguments).output().unwrap());
        finished.succeeded();
        finished.stdout
    };
    for subcommand in ["build", "check", "run", "test"] {
        let text = help(&[subcommand, "--help"]);
        for option in ["--cuda <RELEASE>", "--capabilities <LIST>", "--fetch"] {
            assert!(text.contains(option), "{text}");
        }
    }
}

#[test]
fn the_target_is_the_one_that_cargo_builds_for() {
    let declared = "components = [\"cudart\"]\ncapabilities = [\"8.0\"]\ncudart = \"shared\"";
    let script =
        "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run()?; Ok(()) }\n";
    let main = "unsafe extern \"C\" { fn cudaRuntimeGetVersion(v: *mut i32) -> i32; }\n\
                fn main() { let mut v = 0; unsafe { cudaRuntimeGetVersion(&mut v) }; println!(\"runtime {v}\") }\n";
    let Some(project) = Project::new("named-target", &[12], declared, script, main) else {
        return;
    };
    let host = "x86_64-unknown-linux-gnu";
    // Cargo's word for this machine, as an argument and in its configuration.
    for (arguments, configuration) in [
        (&["run", "--target", "host-tuple"][..], ""),
        (&["run"], "[build]\ntarget = 'host-tuple'"),
    ] {
        project.write(".cargo/config.toml", configuration);
        let run = project.run(arguments);
        run.succeeded();
        assert_eq!(run.stdout, "runtime 12090\n");
        assert!(
            run.stderr.contains(&format!("{host}/debug/named-target")),
            "{run:?}"
        );
    }
    // What is here is not for it.
    project.write(
        ".cargo/config.toml",
        "[build]\ntarget = 'aarch64-unknown-linux-gnu'",
    );
    for arguments in [&["build"][..], &["exec", "--", "true"]] {
        let run = project.run(arguments);
        let words = [
            "the build for `aarch64-unknown-linux-gnu` needs",
            "hint: fetch them with `cargo cuda toolkit add 1",
            " --target aarch64-unknown-linux-gnu`",
        ];
        run.failed(exit_code::NOT_FOUND, &words);
    }
    project.write(
        ".cargo/config.toml",
        "[build]\ntarget = 'wasm32-unknown-unknown'",
    );
    let words = [
        "target `wasm32-unknown-unknown` is not supported",
        "it comes from `[build] target` in Cargo's configuration",
    ];
    project.run(&["build"]).failed(exit_code::USAGE, &words);
    let words = [
        "target `x86_64-pc-windows-gnu` is not supported: cuda-build knows the files of CUDA for Linux only",
        "hint: build for x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu, or run plain cargo with \
         `CUDA_BUILD_SKIP=1`, which builds the crate without CUDA",
    ];
    let windows = ["--target", "x86_64-pc-windows-gnu"];
    for command in ["build", "doctor"] {
        let run = project.run(&[&[command][..], &windows].concat());
        run.failed(exit_code::USAGE, &words);
    }
    project
        .run(&["run", "--quiet", "--target", host])
        .succeeded();
}

/// An active environment that has NVRTC and no nvcc does not come before a toolkit with nvcc where
/// a library is compiled.
#[test]
fn a_library_is_compiled_where_there_is_an_nvcc() {
    let declared = "capabilities = [\"8.0\"]";
    // It is a module of the script that says so.
    let script = "mod native;\nfn main() { native::compile().unwrap() }\n";
    let module = "pub fn compile() -> Result<(), cuda_build::Error> {\n\
                  let library = cuda_build::Library::new(\"answer\").file(\"answer.cu\");\n\
                  cuda_build::Build::new()?.library(library).run()?;\nOk(())\n}\n";
    let main = "mod cuda { include!(concat!(env!(\"OUT_DIR\"), \"/cuda_build.rs\")); }\n\
                unsafe extern \"C\" { fn answer() -> i32; }\n\
                fn main() { println!(\"{:?} {}\", cuda::CUDA_VERSION, unsafe { answer() }) }\n";
    let Some(project) = Project::new("library-elsewhere", &[13], declared, script, main) else {
        return;
    };
    project.write("native.rs", module);
    project.write(
        "answer.cu",
        "__global__ void k() {}\nextern \"C\" int answer() { return 42; }\n",
    );
    let site = wheels(&WITH_CUBLAS).unwrap();
    let venv = project.path.join("venv");
    fs::create_dir_all(venv.join("lib/python3.11")).unwrap();
    project.write("venv/pyvenv.cfg", "version = 3.11.7\n");
    std::os::unix::fs::symlink(site, venv.join("lib/python3.11/site-packages")).unwrap();
    for arguments in [&["run"][..], &["run", "--capabilities", "9.0"]] {
        let mut run = project.command(arguments);
        let run = Finished::of(run.env("VIRTUAL_ENV", &venv).output().unwrap());
        run.succeeded();
        assert_eq!(run.stdout, "(13, 4) 42\n");
    }
    // Whoever looks for CUDA by himself finds nvcc too.
    let view = Finished::of(
        project
            .command(&["view"])
            .env("VIRTUAL_ENV", &venv)
            .output()
            .unwrap(),
    );
    assert!(
        Path::new(view.stdout.trim_end()).join("bin/nvcc").exists(),
        "{view:?}"
    );
}

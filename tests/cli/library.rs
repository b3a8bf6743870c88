//! Libraries of CUDA, C++ and C: options, objects, patterns, and what an edit compiles again.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::project::Project;
use crate::support::Finished;

const SCRIPT: &str = r#"
use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    let object = out.join("table.o");
    let gcc = std::process::Command::new("gcc").args(["-fPIC", "-c", "table.s", "-o"]).arg(&object).status();
    assert!(gcc.unwrap().success());
    let library = Library::new("native")
        .glob("native/**/*.c*")
        .object(object)
        .includes(["include", "more include"])
        .define("VALUELESS", None)
        .define("BLOCK", "256")
        .std("c++20")
        .flag("--extended-lambda")
        .flag_if_supported("-DBY_FLAG")
        .flag_if_supported("--no-such-flag")
        .host_flag("-DLIST=1,2")
        .host_flag("-DTEXT=\"a, 'b' $HOME\"");
    let built = Build::new()?.library(library).run()?;
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut report: Vec<String> = built.compiled.made.iter().map(|made| name(&made.output)).collect();
    report.extend(built.compiled.never_fresh.iter().map(|(path, why)| format!("{}: {why}", name(path))));
    std::fs::write("report", report.join("\n")).unwrap();
    Ok(())
}
"#;

const GPU: &str = r#"
#include "shared.h"
#include <cuda_runtime.h>
#include <cstring>
#if !defined(VALUELESS) || !defined(BY_FLAG)
#error "an option is missing"
#endif
__global__ void kernel(int *p)
{
    auto add = [=] __device__(int x) { return x + BLOCK; };
    *p = add(1);
}
extern "C" int gpu_launch(int *p) { kernel<<<1, 1>>>(p); return cudaGetLastError(); }
extern "C" int gpu_list()
{
    const int list[] = {LIST};
    return sizeof(list) / sizeof(int);
}
extern "C" int gpu_is_text() { return std::strcmp(TEXT, "a, 'b' $HOME") == 0; }
extern "C" long gpu_standard() { return __cplusplus; }
extern "C" int gpu_optimized()
{
#ifdef __OPTIMIZE__
    return 1;
#else
    return 0;
#endif
}
"#;

const CPP: &str = r#"
#include "only_cpp.h"
#include "shared.h"
#include <cuda_runtime_api.h>
#include <string>
extern "C" int c_value(void);
extern "C" int cpp_value()
{
    const int list[] = {LIST};
    const bool is_text = std::string(TEXT) == "a, 'b' $HOME";
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return (__cplusplus == 202002L) + is_text + sizeof(list) / sizeof(int) + ONLY_CPP + c_value() +
           (version == CUDART_VERSION);
}
"#;

/// Not C++: `class` is a keyword there.
const C: &str = "#include \"shared.h\"\nint class = SHARED;\nint c_value(void) { return class; }\n";

const MAIN: &str = r#"
unsafe extern "C" {
    fn gpu_launch(p: *mut i32) -> i32;
    fn gpu_list() -> i32;
    fn gpu_is_text() -> i32;
    fn gpu_standard() -> i64;
    fn gpu_optimized() -> i32;
    fn cpp_value() -> i32;
    fn table_value() -> i32;
}
fn main() {
    if std::env::args().count() > 1 {
        unsafe { gpu_launch(std::ptr::null_mut()) };
    }
    let gpu = unsafe { (gpu_list(), gpu_is_text(), gpu_standard()) };
    println!("{gpu:?} {} {}", unsafe { cpp_value() }, unsafe { table_value() });
    println!("optimized {}", unsafe { gpu_optimized() });
}
"#;

const TABLE: &str =
    ".globl table_value\ntable_value:\n mov $7, %eax\n ret\n.section .note.GNU-stack\n";

fn project() -> Option<Project> {
    let declared = "capabilities = [\"8.0\", \"9.0\"]";
    let project = Project::new("languages", &[13], declared, SCRIPT, MAIN)?;
    with_host_sources(&project);
    for (file, text) in [
        ("native/gpu.cu", GPU),
        ("native/deep/text.cpp", CPP),
        ("native/plain.c", C),
        ("include/shared.h", "#define SHARED 10\n"),
        ("more include/only_cpp.h", "#define ONLY_CPP 100\n"),
        ("table.s", TABLE),
    ] {
        project.write(file, text);
    }
    Some(project)
}

fn with_host_sources(project: &Project) {
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let with = manifest.replace(
        "version = \"0.1\" }",
        "version = \"0.1\", features = [\"host-sources\"] }",
    );
    assert_ne!(manifest, with);
    project.write("Cargo.toml", &with);
}

/// What the last run of the build script made, without the digests in names.
fn made(project: &Project) -> Vec<String> {
    let report = fs::read_to_string(project.path.join("report")).unwrap();
    let name = |line: &str| match line.strip_suffix(".o") {
        Some(object) => object.rsplit_once('.').unwrap().0.to_owned(),
        None => line.to_owned(),
    };
    let mut made: Vec<String> = report.lines().map(name).collect();
    made.sort();
    made
}

/// A new time of change, in whole units of the file system.
fn write_later(project: &Project, file: &str, text: &str) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    project.write(file, text);
}

#[test]
fn cuda_cpp_c_and_objects_become_one_library() {
    let Some(project) = project() else {
        return;
    };
    let run = project.run(&["run"]);
    run.succeeded();
    assert_eq!(run.stdout, "(2, 1, 202002) 115 7\noptimized 0\n", "{run:?}");
    let all = [
        "libnative.a",
        "native-native-deep-text",
        "native-native-gpu",
        "native-native-plain",
    ];
    assert_eq!(made(&project), all);

    write_later(
        &project,
        "more include/only_cpp.h",
        "#define ONLY_CPP 200\n",
    );
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "(2, 1, 202002) 215 7\noptimized 0\n", "{run:?}");
    assert_eq!(made(&project), ["libnative.a", "native-native-deep-text"]);

    write_later(&project, "include/shared.h", "#define SHARED 20\n");
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "(2, 1, 202002) 225 7\noptimized 0\n", "{run:?}");
    assert_eq!(made(&project), all);

    // A header of the same name that is found first.
    write_later(&project, "include/only_cpp.h", "#define ONLY_CPP 300\n");
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "(2, 1, 202002) 325 7\noptimized 0\n", "{run:?}");
    assert_eq!(made(&project), ["libnative.a", "native-native-deep-text"]);

    write_later(&project, "native/new.c", "int unused_value = 1;\n");
    project.run(&["build"]).succeeded();
    assert_eq!(made(&project), ["libnative.a", "native-native-new"]);

    write_later(&project, "table.s", &TABLE.replace("$7", "$8"));
    write_later(&project, "native/new.c", "int unused_value = 2;\n");
    let run = project.run(&["run"]);
    assert!(run.stdout.contains(" 325 8\n"), "{run:?}");
    assert_eq!(made(&project), ["libnative.a", "native-native-new"]);

    let with = |variable: &str, value: &str| {
        let mut command = project.command(&["run"]);
        Finished::of(command.env(variable, value).output().unwrap())
    };
    let run = with("CXXFLAGS", "-DUNUSED");
    assert!(run.stdout.contains(" 325 8\n"), "{run:?}");
    assert_eq!(made(&project), ["native-native-deep-text"]);
    let run = with("CXX", "no-such-compiler");
    run.ended_with(
        101,
        &[
            "`no-such-compiler` is not installed",
            "hint: install g++, or set `CXX`",
        ],
    );
}

/// Whether objects have debug information: that of CUDA, of C++ and of C.
fn has_debug_information(project: &Project) -> [bool; 3] {
    let out = project.out("profile");
    ["gpu", "text", "plain"].map(|name| {
        let mut objects = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let start = format!("p-{name}.");
        let is_object = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(&start) && name.ends_with(".o")
        };
        let object = objects.find(|path| is_object(path)).unwrap();
        let output = Command::new("readelf").args(["-SW"]).arg(object).output();
        let sections = Finished::of(output.unwrap());
        sections.succeeded();
        sections.stdout.contains(".debug_info")
    })
}

#[test]
fn host_code_follows_the_profile() {
    let script = r#"
use cuda_build::{Build, Library};
fn main() -> Result<(), cuda_build::Error> {
    Build::new()?.library(Library::new("p").files(["gpu.cu", "text.cpp", "plain.c"])).run().map(drop)
}
"#;
    let main = "unsafe extern \"C\" { fn gpu() -> i32; fn text() -> i32; fn plain() -> i32; }\n\
                fn main() { println!(\"{}\", unsafe { gpu() + text() + plain() }); }\n";
    let Some(project) = Project::new("profile", &[13], "capabilities = [\"8.0\"]", script, main)
    else {
        return;
    };
    with_host_sources(&project);
    let source = |head: &str, name: &str| {
        format!(
            "#ifdef __OPTIMIZE__\n#define VALUE 1\n#else\n#define VALUE 0\n#endif\n\
             {head}int {name}(void) {{ return VALUE; }}\n"
        )
    };
    let kernel = "__global__ void k() {}\nextern \"C\" ";
    project.write("gpu.cu", &source(kernel, "gpu"));
    project.write("text.cpp", &source("extern \"C\" ", "text"));
    project.write("plain.c", &source("", "plain"));
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "0\n", "{run:?}");
    assert_eq!(has_debug_information(&project), [true; 3]);

    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let package = "[profile.dev.package.profile]\nopt-level = \"s\"\ndebug = false\n";
    project.write("Cargo.toml", &(manifest + package));
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "3\n", "{run:?}");
    assert_eq!(has_debug_information(&project), [false; 3]);

    let flags = script.replace("])", "]).flag(\"-O0\").flag(\"-std=c++20\")");
    project.write("build.rs", &flags);
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "2\n", "{run:?}");
    assert!(!run.stderr.contains("incompatible redefinition"), "{run:?}");

    let own = script.replace("])", "]).debug(true).opt_level(0)");
    project.write("build.rs", &own);
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "0\n", "{run:?}");
    assert_eq!(has_debug_information(&project), [true; 3]);
}

#[test]
fn modules_have_the_options_of_device_code() {
    let script = r#"
use cuda_build::{Build, Engine, Module};
fn main() -> Result<(), cuda_build::Error> {
    let mut build = Build::new()?;
    for (name, engine) in [("by_nvrtc", Engine::Nvrtc), ("by_nvcc", Engine::Nvcc)] {
        let module = Module::new("m.cu")
            .named(name)
            .engine(engine)
            .std("c++20")
            .define("VALUELESS", None)
            .includes(["first", "second"])
            .flag_if_supported("--no-such-flag")
            .flag_if_supported("-DBY_FLAG");
        let (debug, lines) = (module.clone().debug(true), module.clone().lineinfo(true));
        build = build.module(debug.named(format!("{name}_debug")));
        build = build.module(lines.named(format!("{name}_lines"))).module(module);
    }
    build.run().map(drop)
}
"#;
    let main = "mod cuda { include!(concat!(env!(\"OUT_DIR\"), \"/cuda_build.rs\")); }\n\
                fn main() {\n    use cuda::modules::*;\n    \
                for [plain, lines, debug] in [[BY_NVRTC, BY_NVRTC_LINES, BY_NVRTC_DEBUG], \
                [BY_NVCC, BY_NVCC_LINES, BY_NVCC_DEBUG]] {\n        \
                println!(\"{} {}\", plain.len() < lines.len(), plain.len() < debug.len());\n    }\n}\n";
    let declared = "capabilities = [\"8.0\"]";
    let Some(project) = Project::new("options", &[13], declared, script, main) else {
        return;
    };
    project.write("first/a.cuh", "#define A 1\n");
    project.write("second/b.cuh", "#define B 2\n");
    project.write(
        "m.cu",
        "#include \"a.cuh\"\n#include \"b.cuh\"\n\
         #if __cplusplus < 202002L || !defined(VALUELESS) || !defined(BY_FLAG)\n#error \"an option is missing\"\n#endif\n\
         __global__ void k(float *p) { for (int i = 0; i < A + B; ++i) p[i] = p[i] / 3.0f; }\n",
    );
    let run = project.run(&["run"]);
    assert_eq!(run.stdout, "true true\ntrue true\n", "{run:?}");
}

//! Libraries of CUDA, C++ and C: options, objects, patterns, and what an edit compiles again.

use std::fs;

use crate::project::Project;

mod online {
    use super::*;

    const SCRIPT: &str = r#"
use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    let object = out.join("table.o");
    let gcc = std::process::Command::new("gcc").args(["-fPIC", "-c", "table.s", "-o"]).arg(&object).status();
    assert!(gcc.unwrap().success());
    let library = Library::new("native")
        .glob("native/**/*.c*")
        .file(object)
        .includes(["include", "more include"])
        .define("VALUELESS", None)
        .define("BLOCK", "256")
        .std("c++20")
        .flag("--extended-lambda")
        .flag("-DBY_FLAG")
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
extern "C" int gpu_optimized() { return OPTIMIZED; }
"#;

    const CPP: &str = r#"
#include "only_cpp.h"
#include "shared.h"
#include <cuda_runtime_api.h>
#include <string>
extern "C" int c_value(void);
extern "C" int cpp_optimized() { return OPTIMIZED; }
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
    const C: &str = r#"
#include "shared.h"
int class = SHARED;
int c_value(void) { return class; }
int c_optimized(void) { return OPTIMIZED; }
"#;

    /// Every source knows whether it is optimized.
    const SHARED: &str = r#"
#ifdef __OPTIMIZE__
#define OPTIMIZED 1
#else
#define OPTIMIZED 0
#endif
#define SHARED 10
"#;

    const MAIN: &str = r#"
unsafe extern "C" {
    fn gpu_list() -> i32;
    fn gpu_is_text() -> i32;
    fn gpu_standard() -> i64;
    fn gpu_optimized() -> i32;
    fn cpp_optimized() -> i32;
    fn c_optimized() -> i32;
    fn cpp_value() -> i32;
    fn table_value() -> i32;
}
fn main() {
    let gpu = unsafe { (gpu_list(), gpu_is_text(), gpu_standard()) };
    println!("{gpu:?} {} {}", unsafe { cpp_value() }, unsafe { table_value() });
    println!("optimized {}", unsafe { gpu_optimized() + cpp_optimized() + c_optimized() });
}
"#;

    const TABLE: &str =
        ".globl table_value\ntable_value:\n mov $7, %eax\n ret\n.section .note.GNU-stack\n";

    fn project() -> Project {
        let declared = "capabilities = [\"8.0\", \"9.0\"]";
        let project = Project::new("languages", &[13], declared, SCRIPT, MAIN);
        for (file, text) in [
            ("native/gpu.cu", GPU),
            ("native/deep/text.cpp", CPP),
            ("native/plain.c", C),
            ("include/shared.h", SHARED),
            ("more include/only_cpp.h", "#define ONLY_CPP 100\n"),
            ("table.s", TABLE),
        ] {
            project.write(file, text);
        }
        project
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

    #[test]
    fn cuda_cpp_c_and_objects_become_one_library() {
        let project = project();
        let run = project.run(&["run"]);
        run.succeeded();
        assert_eq!(run.stdout, "(2, 1, 202002) 115 7\noptimized 3\n", "{run:?}");
        let all = [
            "libnative.a",
            "native-native-deep-text",
            "native-native-gpu",
            "native-native-plain",
        ];
        assert_eq!(made(&project), all);

        let header = "more include/only_cpp.h";
        project.write_later(header, "#define ONLY_CPP 200\n");
        let run = project.run(&["run"]);
        assert_eq!(run.stdout, "(2, 1, 202002) 215 7\noptimized 3\n", "{run:?}");
        assert_eq!(made(&project), ["libnative.a", "native-native-deep-text"]);

        project.write_later("include/shared.h", &SHARED.replace("10", "20"));
        let run = project.run(&["run"]);
        assert_eq!(run.stdout, "(2, 1, 202002) 225 7\noptimized 3\n", "{run:?}");
        assert_eq!(made(&project), all);

        project.write_later("native/new.c", "int unused_value = 1;\n");
        project.run(&["build"]).succeeded();
        assert_eq!(made(&project), ["libnative.a", "native-native-new"]);

        project.write_later("table.s", &TABLE.replace("$7", "$8"));
        project.write_later("native/new.c", "int unused_value = 2;\n");
        let run = project.run(&["run"]);
        assert!(run.stdout.contains(" 225 8\n"), "{run:?}");
        assert_eq!(made(&project), ["libnative.a", "native-native-new"]);

        let script = SCRIPT.replace(".std(", ".opt_level(0).std(");
        project.write("build.rs", &script);
        let run = project.run(&["run"]);
        assert_eq!(run.stdout, "(2, 1, 202002) 225 8\noptimized 0\n", "{run:?}");
    }

    /// Relocatable device code: a kernel in one source calls a function of another.
    #[test]
    fn device_code_of_two_sources_is_linked() {
        let script = r#"
use cuda_build::{Build, Library};
fn main() -> Result<(), cuda_build::Error> {
    let library = Library::new("linked").files(["kernel.cu", "function.cu"]).rdc(true);
    Build::new()?.library(library).run().map(drop)
}
"#;
        // Without a GPU this is an error of the driver, not of the program.
        let main = "unsafe extern \"C\" { fn launch(p: *mut i32) -> i32; }\n\
                    fn main() { println!(\"{}\", unsafe { launch(std::ptr::null_mut()) }); }\n";
        let cuda = "capabilities = [\"8.0\"]";
        let project = Project::new("device-link", &[13], cuda, script, main);
        let kernel = "extern __device__ int twice(int);\n\
                      __global__ void kernel(int *p) { *p = twice(*p); }\n\
                      extern \"C\" int launch(int *p) { kernel<<<1, 1>>>(p); return cudaGetLastError(); }\n";
        let function = "__device__ int twice(int x) { return x + x; }\n";
        project.write("kernel.cu", kernel);
        project.write("function.cu", function);
        let linked = |arguments: &[&str]| {
            let run = project.run(arguments);
            run.succeeded();
            assert!(run.stdout.trim().parse::<u32>().is_ok(), "{run:?}");
            fs::read(project.made("device-link", "linked.device-link.o")).unwrap()
        };
        let before = linked(&["run"]);
        project.write("function.cu", &function.replace("x + x", "x * 3"));
        let edited = linked(&["run"]);
        assert!(edited != before);
        assert!(linked(&["run", "--capabilities", "8.0,9.0"]).len() > edited.len());
    }
}

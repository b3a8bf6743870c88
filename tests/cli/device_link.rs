//! Relocatable device code: kernels in one source call functions of another.

use std::fs;

use crate::project::Project;

const SCRIPT: &str = r#"
use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    let library = Library::new("linked").files(["kernel.cu", "function.cu"]).rdc(true);
    Build::new()?.library(library).run()?;
    Ok(())
}
"#;

const MAIN: &str = r#"
unsafe extern "C" {
    fn launch(p: *mut i32) -> i32;
}
fn main() {
    // Without a GPU this is an error of the driver, not of the program.
    println!("{}", unsafe { launch(std::ptr::null_mut()) });
}
"#;

#[test]
fn device_code_of_two_sources_is_linked() {
    let cuda = "capabilities = [\"8.0\"]";
    let Some(project) = Project::new("device-link", &[13], cuda, SCRIPT, MAIN) else {
        return;
    };
    let kernel = "extern __device__ int twice(int);\n\
        __global__ void kernel(int *p) { *p = twice(*p); }\n\
        extern \"C\" int launch(int *p) { kernel<<<1, 1>>>(p); return cudaGetLastError(); }\n";
    project.write("kernel.cu", kernel);
    project.write(
        "function.cu",
        "__device__ int twice(int x) { return x + x; }\n",
    );
    let run = project.run(&["run"]);
    let code: i32 = run.stdout.trim().parse().unwrap_or(-1);
    assert!(code >= 0, "{run:?}");
    let linked = || fs::read(project.out("device-link").join("linked.device-link.o")).unwrap();
    let before = linked();
    // The device code is linked again for another function, and for another capability.
    project.write(
        "function.cu",
        "__device__ int twice(int x) { return x * 3; }\n",
    );
    project.run(&["run"]).succeeded();
    let edited = linked();
    assert!(edited != before);
    project
        .run(&["run", "--capabilities", "8.0,9.0"])
        .succeeded();
    assert!(linked().len() > edited.len());
    // Without it, nvcc cannot compile the kernel.
    project.write("build.rs", &SCRIPT.replace(".rdc(true)", ""));
    let failed = project.run(&["build"]);
    assert!(
        failed.stderr.contains("Unresolved extern function"),
        "{failed:?}"
    );
}

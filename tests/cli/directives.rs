//! What a build script prints for Cargo.

use std::process::Command;

use crate::project::{Project, target};
use crate::support::Finished;

const BUILD: &str = "fn main() -> Result<(), cuda_build::Error> {
    cuda_build::Build::new()?.module(\"kernels/scale.cu\").run()?;
    Ok(())
}\n";

#[test]
fn a_newline_in_a_path_reaches_no_directive() {
    let directory = "inj\ncargo::rustc-env=EVIL=injected\nz";
    let main = "fn main() { println!(\"{:?}\", option_env!(\"EVIL\")); }\n";
    let cuda = "capabilities = [\"8.0\"]";
    let Some(mut project) = Project::at("newline", directory, &[13], cuda, BUILD, main) else {
        return;
    };
    let kernel = "extern \"C\" __global__ void scale(float *p) { *p *= 2.0f; }\n";
    project.write("kernels/scale.cu", kernel);
    // Cargo itself refuses a target directory with a colon.
    project.target = target();
    let mut cargo = Command::new("cargo");
    cargo.arg("run");
    project.prepare(&mut cargo);
    let run = Finished::of(cargo.output().unwrap());
    run.failed(
        101,
        &[
            "cannot pass",
            "newline",
            r"inj\ncargo::",
            "hint: rename or move",
        ],
    );
}

use std::env;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let cuda = cuda_build::Build::new()?;
    if cuda.is_skipped() {
        cuda.run()?;
        return Ok(());
    }
    let view = cuda.view()?;
    let mut native = cmake::Config::new("native");
    // A directory for each view: if the path of nvcc changes, CMake loses what its build directory was configured with.
    native.out_dir(Path::new(&env::var("OUT_DIR")?).join(view.root().strip_prefix("/")?));
    // CMake finds nvcc, the headers and the libraries in one directory, and compiles for the declared capabilities.
    for (name, value) in view.cmake_defines(Some(&cuda.plan()?)) {
        native.define(name, value);
    }
    let installed = native.build();
    println!("cargo::rerun-if-changed=native");
    println!(
        "cargo::rustc-link-search=native={}",
        installed.join("lib").display()
    );
    println!("cargo::rustc-link-lib=static=saxpy");
    println!("cargo::rustc-link-lib=stdc++");
    // Links the CUDA runtime, after the library that needs it.
    cuda.run()?;
    Ok(())
}

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let cuda = cuda_build::Build::new()?;
    if cuda.is_skipped() {
        cuda.run()?;
        return Ok(());
    }
    let mut native = cmake::Config::new("native");
    // CMake finds nvcc, the headers and the libraries in one directory, and compiles for the declared capabilities.
    for (name, value) in cuda.view()?.cmake_defines(Some(&cuda.plan()?)) {
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

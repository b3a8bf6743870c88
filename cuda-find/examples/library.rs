//! Prints where a CUDA library is for a program that runs: `cargo run --example library cublas 12`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program")]

fn main() -> Result<(), cuda_find::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [component, major] = arguments.as_slice() else {
        println!("usage: library COMPONENT MAJOR");
        return Ok(());
    };
    let library = cuda_find::runtime::library(component.as_str(), major.parse().unwrap_or(0))?;
    for path in library.needs() {
        println!("needs {}", path.display());
    }
    println!("{}", library.path().display());
    println!("found in {}", library.reason());
    Ok(())
}

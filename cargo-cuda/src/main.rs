//! `cargo cuda`

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    cargo_cuda::cli::main(arguments)
}

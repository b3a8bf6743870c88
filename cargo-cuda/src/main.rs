//! `cargo cuda`

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_cuda::cli::main(std::env::args_os().skip(1).collect())
}

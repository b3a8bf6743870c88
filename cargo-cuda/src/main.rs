//! `cargo cuda`
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    cargo_cuda::rustc_wrapper::run(&arguments).unwrap_or_default()
}

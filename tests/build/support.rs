//! Where the real components are.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The directory of CUDA 13 components in a `site-packages`: `nvidia/cu13`, with `bin/nvcc`.
/// `None` where tests of real components are left out, which is said on stderr.
///
/// `CUDA_BUILD_TEST_SP13` names the `site-packages`.
pub fn toolkit13() -> Option<PathBuf> {
    if std::env::var_os("CUDA_BUILD_TEST_OFFLINE").is_some_and(|value| value == "1") {
        eprintln!("left out: CUDA_BUILD_TEST_OFFLINE=1 leaves out tests of real components");
        return None;
    }
    let Some(site_packages) = std::env::var_os("CUDA_BUILD_TEST_SP13") else {
        panic!(
            "set CUDA_BUILD_TEST_SP13 to a site-packages directory with nvidia-cuda-nvcc and \
             nvidia-cuda-nvrtc of CUDA 13, or CUDA_BUILD_TEST_OFFLINE=1 to leave this out"
        );
    };
    let toolkit = PathBuf::from(site_packages).join("nvidia/cu13");
    assert!(toolkit.join("bin/nvcc").is_file(), "{} holds no bin/nvcc", toolkit.display());
    Some(toolkit)
}

/// Runs a program to its end.
pub fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("could not run {command:?}: {error}"),
    }
}

/// What a program wrote, both streams.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

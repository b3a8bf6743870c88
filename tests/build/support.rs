//! Where NVIDIA's components are: `site-packages` directories named by variables.
#![allow(clippy::disallowed_methods, reason = "tests read the environment and run NVIDIA's tools")]

use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::nvrtc::Nvrtc;

/// The pip components of one CUDA major.
pub struct Components {
    pub nvrtc: PathBuf,
    /// Include directories of the toolkit, CCCL's too.
    pub include: Vec<PathBuf>,
    pub bin: PathBuf,
}

/// CUDA 11, 12 or 13, or nothing where `CUDA_BUILD_TEST_OFFLINE=1` says to leave these tests out.
/// A variable that is not set fails the test: a test that passes because something is missing
/// proves nothing.
pub fn components(major: u32) -> Option<Components> {
    let variable = format!("CUDA_BUILD_TEST_SP{major}");
    let Some(site_packages) = std::env::var_os(&variable).map(PathBuf::from) else {
        if std::env::var_os("CUDA_BUILD_TEST_OFFLINE").is_some_and(|value| value == "1") {
            println!("skipped: `{variable}` is not set and CUDA_BUILD_TEST_OFFLINE=1");
            return None;
        }
        panic!(
            "`{variable}` is not set: it names the site-packages directory with the CUDA {major} components \
             of pip; CUDA_BUILD_TEST_OFFLINE=1 leaves these tests out"
        );
    };
    let nvidia = site_packages.join("nvidia");
    let components = if major == 13 {
        let root = nvidia.join("cu13");
        Components {
            nvrtc: root.join("lib/libnvrtc.so.13"),
            include: vec![root.join("include"), root.join("include/cccl")],
            bin: root.join("bin"),
        }
    } else {
        let soname = if major == 11 { "libnvrtc.so.11.2" } else { "libnvrtc.so.12" };
        Components {
            nvrtc: nvidia.join("cuda_nvrtc/lib").join(soname),
            include: vec![nvidia.join("cuda_runtime/include"), nvidia.join("cuda_cccl/include")],
            bin: nvidia.join("cuda_nvcc/bin"),
        }
    };
    assert!(components.nvrtc.is_file(), "{variable}: no {}", components.nvrtc.display());
    Some(components)
}

/// NVRTC of this major.
pub fn nvrtc(major: u32) -> Option<Nvrtc> {
    components(major).map(|components| Nvrtc::load(&components.nvrtc).unwrap())
}

/// Runs one of CUDA 13's tools and returns what it printed; it must succeed.
pub fn tool(bin: &Path, name: &str, directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(bin.join(name))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", bin.join(name).display()));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {text}");
    text
}

/// `cuobjdump --list-elf --list-ptx`, only the names: `sm_80.cubin`, `sm_120.ptx`.
pub fn listed(bin: &Path, fatbin: &Path) -> Vec<String> {
    let directory = fatbin.parent().unwrap();
    let text = tool(bin, "cuobjdump", directory, &["--list-elf", "--list-ptx", fatbin.to_str().unwrap()]);
    let names = text.lines().filter(|line| line.contains(" file "));
    names
        .map(|line| line.rsplit('.').take(2).collect::<Vec<_>>())
        .map(|p| format!("{}.{}", p[1], p[0]))
        .collect()
}

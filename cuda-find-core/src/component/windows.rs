//! The names of CUDA's files on Windows. They follow from the names on Linux.
//!
//! Sources: `win_amd64` wheels of CUDA 12.9 and 13.5, cuDNN 9.28 and cuTENSOR 2.8, and the DLL names of NVIDIA's
//! cuda-pathfinder 1.9 for the other libraries.

use super::{Component, Facts};

/// The possible file names of a library: DLLs for a SONAME, one `.lib` for a static archive.
///
/// `libcublas.so.13` is `cublas64_13.dll`, `libcudart.so.11.0` is `cudart64_110.dll`, `libnvrtc.so.13` is
/// `nvrtc64_130_0.dll`, `libnvrtc.so.11.2` is `nvrtc64_112_0.dll`, `libnvJitLink.so.13` is `nvJitLink_130_0.dll`, and
/// `libcutensor.so.2` is `cutensor.dll`.
pub fn file_names(linux: &str) -> Vec<String> {
    let stem = linux.strip_prefix("lib").unwrap_or(linux);
    if let Some(stem) = stem.strip_suffix(".a") {
        return vec![format!("{stem}.lib")];
    }
    let (stem, version) = stem.split_once(".so").unwrap_or((stem, ""));
    let mut names = vec![format!("{stem}.dll")];
    let number = version.replace('.', "");
    if !number.is_empty() {
        let endings =
            ["64_#", "64_#0_0", "64_#_0", "_#0_0", "_#_0"].map(|it| it.replace('#', &number));
        names.extend(endings.map(|ending| format!("{stem}{ending}.dll")));
    }
    names
}

/// The name that a DLL would have on Linux, where `.` separates major and minor: `libnvrtc-builtins.so.13.5` for
/// `nvrtc-builtins64_135.dll`.
pub fn soname(dll: &str) -> Option<String> {
    let name = dll.strip_suffix(".dll")?;
    let (stem, number) = name.strip_suffix("_0").unwrap_or(name).rsplit_once('_')?;
    let stem = stem.strip_suffix("64").unwrap_or(stem);
    // No major of CUDA or of a product has three digits.
    let number = match number.split_at_checked(2) {
        Some((major, minor)) if !minor.is_empty() => format!("{major}.{minor}"),
        _ => number.to_owned(),
    };
    Some(format!("lib{stem}.so.{number}"))
}

/// The file that the linker reads instead of the DLL of a library.
pub fn import_library(library: &str) -> String {
    match library {
        "nvidia-ml" => "nvml.lib".to_owned(),
        _ => format!("{library}.lib"),
    }
}

/// The import libraries in a component's package. That of the driver is in the runtime's.
pub fn import_libraries(facts: &Facts) -> impl Iterator<Item = String> {
    let driver = (facts.component == Component::Cudart).then_some("cuda");
    let libraries = facts.libraries.iter().copied();
    libraries.chain(driver).map(import_library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dlls_have_the_names_of_nvidias_packages() {
        for (linux, dll, minor) in [
            ("libcudart.so.11.0", "cudart64_110.dll", ""),
            ("libcudart.so.13", "cudart64_13.dll", ""),
            ("libnvrtc.so.11.2", "nvrtc64_112_0.dll", ""),
            ("libnvrtc.so.13", "nvrtc64_130_0.dll", ".0"),
            ("libnvrtc-builtins.so.13.5", "nvrtc-builtins64_135.dll", ""),
            ("libnvJitLink.so.12", "nvJitLink_120_0.dll", ".0"),
            ("libcudnn_ops.so.9", "cudnn_ops64_9.dll", ""),
        ] {
            // The name of a DLL may have a minor that the SONAME lacks.
            let with_minor = format!("{linux}{minor}");
            assert_eq!(soname(dll).as_ref(), Some(&with_minor));
            for name in [linux, &with_minor] {
                assert!(file_names(name).contains(&dll.to_owned()), "{dll}");
            }
        }
        assert_eq!(file_names("libcutensor.so.2")[0], "cutensor.dll");
        assert_eq!(file_names("libcudart_static.a"), ["cudart_static.lib"]);
    }
}

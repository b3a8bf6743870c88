//! Versions in headers and file names.

use std::path::Path;

use super::Prober;
use crate::version::{ToolkitVersion, Version};

/// The value of `CUDA_VERSION` in the text of `cuda.h`.
pub(super) fn cuda_version_macro(text: &str) -> Option<ToolkitVersion> {
    number_macro(text, "CUDA_VERSION").and_then(ToolkitVersion::from_cuda_version)
}

/// CCCL's version, from the text of `cub/version.cuh`: `CUB_VERSION` is 300403 for 3.4.3. Every release has this
/// macro, also those from before all parts of CCCL had one version.
pub(super) fn cccl_version(text: &str) -> Option<Version> {
    let number = number_macro(text, "CUB_VERSION")?;
    format!(
        "{}.{}.{}",
        number / 100_000,
        number / 100 % 1000,
        number % 100
    )
    .parse()
    .ok()
}

/// The value of a macro that is a plain number.
pub(super) fn number_macro(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        if words.next() != Some("define") || words.next() != Some(name) {
            return None;
        }
        words.next()?.parse().ok()
    })
}

/// `libnvrtc-builtins.so.13.4` belongs to 13.4. No other file name has a minor.
pub(super) fn builtins_release(path: &Path) -> Option<ToolkitVersion> {
    path.file_name()?
        .to_str()?
        .strip_prefix("libnvrtc-builtins.so.")?
        .parse()
        .ok()
}

/// The version in a library's real file name: in NVIDIA's installers `libcudart.so.12` is a link to
/// `libcudart.so.12.4.127`.
pub(super) fn file_name_version(prober: &Prober<'_>, path: &Path) -> Option<Version> {
    let version: Version = prober
        .root
        .final_name(path)?
        .to_str()?
        .split_once(".so.")?
        .1
        .parse()
        .ok()?;
    (version.parts().len() >= 3).then_some(version)
}

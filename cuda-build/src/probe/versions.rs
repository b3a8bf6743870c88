//! Versions in headers and file names.

use std::path::Path;

use super::Prober;
use crate::component::{Component, VersionMacros};
use crate::version::{ToolkitVersion, Version};

/// The version in a component's own header.
pub(super) fn header_version(
    prober: &Prober<'_>,
    component: Component,
    include: &Path,
) -> Option<Version> {
    let (header, macros) = component.facts().version_macros.as_ref()?;
    let text = prober.root.head(&include.join(header)).ok()?;
    let [major, minor, patch] = match macros {
        VersionMacros::Parts(names) => names.map(|name| number_macro(&text, name)),
        VersionMacros::Number(name) => {
            let number = number_macro(&text, name)?;
            [number / 100_000, number / 100 % 1000, number % 100].map(Some)
        }
    };
    format!("{}.{}.{}", major?, minor?, patch?).parse().ok()
}

/// The value of the macro `name`, if `text` defines it as a plain number.
pub(super) fn number_macro(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        if words.next() != Some("define") || words.next() != Some(name) {
            return None;
        }
        words.next()?.parse().ok()
    })
}

/// The CUDA release in the name of a library: `libnvrtc-builtins.so.13.4` belongs to 13.4.
pub(crate) fn release_in_file_name(path: &Path) -> Option<ToolkitVersion> {
    path.file_name()?
        .to_str()?
        .split_once(".so.")?
        .1
        .parse()
        .ok()
}

/// The version in the name of the file that a library's link leads to, if the version has at least three parts. For
/// example, NVIDIA's installers make `libcudart.so.12` a link to `libcudart.so.12.4.127`.
pub(super) fn file_name_version(prober: &Prober<'_>, path: &Path) -> Option<Version> {
    let name = prober.root.final_name(path)?;
    let version: Version = name.to_str()?.split_once(".so.")?.1.parse().ok()?;
    (version.parts().len() >= 3).then_some(version)
}

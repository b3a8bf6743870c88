//! NVIDIA's libraries and packages. The component table alone decides which libraries are NVIDIA's: `libnvme.so.1` and
//! `libcustom_ops.so` only look like them.

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_find_core::component::{EdgeKind, Facts, closure};
use cuda_find_core::release;

/// Stems of libraries that come with the driver.
const DRIVER_STEMS: &[&str] = &["cuda", "cudadebugger", "nvcuvid", "nvoptix", "nvidia-ml"];

/// Where a needed library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryOrigin {
    /// A component, which a Python package contains.
    Component(Component),
    /// The GPU driver, whose libraries no package may contain.
    Driver,
    /// Not NVIDIA's.
    Foreign,
}

/// The origin of a library, for whatever CUDA major it is.
pub fn origin(soname: &str) -> LibraryOrigin {
    let Some(stem) = stem(soname) else {
        return LibraryOrigin::Foreign;
    };
    if DRIVER_STEMS.contains(&stem) || stem.starts_with("nvidia-") {
        return LibraryOrigin::Driver;
    }
    match facts_of(stem) {
        Some(facts) if facts.is_driver() => LibraryOrigin::Driver,
        Some(facts) => LibraryOrigin::Component(facts.component),
        None => LibraryOrigin::Foreign,
    }
}

/// The CUDA majors whose toolkit has a library with this SONAME; empty for products, which have their own versions.
pub fn majors_of_soname(soname: &str) -> Vec<u32> {
    let facts = stem(soname).and_then(|stem| Some((stem, facts_of(stem)?)));
    let Some((stem, facts)) = facts.filter(|(_, facts)| facts.is_part_of_toolkit()) else {
        return Vec::new();
    };
    // The SONAME of NVRTC's builtins contains the release, and the table has only one release.
    let builtins = soname.strip_prefix("libnvrtc-builtins.so.");
    let major_of_builtins = builtins.and_then(|version| version.split('.').next()?.parse().ok());
    let index = facts.libraries.iter().position(|library| *library == stem);
    let is_of = |major: &u32| {
        major_of_builtins == Some(*major)
            || index.and_then(|index| facts.soname(index, *major)) == Some(soname)
    };
    release::majors().filter(is_of).collect()
}

/// The component that a SONAME belongs to; `None` for a toolkit's library of a major that is not supported.
pub fn component_of(soname: &str) -> Option<Component> {
    let LibraryOrigin::Component(component) = origin(soname) else {
        return None;
    };
    let is_known = component.facts().is_product() || !majors_of_soname(soname).is_empty();
    is_known.then_some(component)
}

/// Whether a file is one of NVIDIA's libraries, renamed by a repair tool (`libcudart-16e8815a.so.12`) or not.
pub fn is_nvidia_library(file_name: &str) -> bool {
    let original = without_hash(file_name);
    let name = original.as_deref().unwrap_or(file_name);
    name.contains(".so") && origin(name) != LibraryOrigin::Foreign
}

/// Whether a library comes with the GPU driver. The name may have the hash of a repair tool.
pub fn is_driver_library(soname: &str) -> bool {
    let original = without_hash(soname);
    origin(original.as_deref().unwrap_or(soname)) == LibraryOrigin::Driver
}

/// `libcuda.so.1` of `libcuda-df60b7cf.so.1`; `None` if the name has no hash.
pub fn without_hash(soname: &str) -> Option<String> {
    let (stem, rest) = soname.split_once(".so")?;
    let (stem, hash) = stem.rsplit_once('-')?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| format!("{stem}.so{rest}"))
}

/// The directory below site-packages that contains the component's libraries, such as `nvidia/cublas/lib`.
pub fn library_directory(component: Component, major: u32) -> Option<String> {
    let facts = component.facts();
    // Most products are installed in the same directory for every CUDA major. So if the table has no entry for this
    // major, another major's counts, unless its directory belongs to that major, as `nvidia/cu13` does.
    let of_any_major = || {
        let mut directories = facts.package_dirs();
        let shared = directories.find(|directory| !directory.starts_with("nvidia/cu1"));
        shared.filter(|_| facts.is_product())
    };
    let directory = facts.package_dir(major).or_else(of_any_major);
    directory.map(|directory| format!("{directory}/lib"))
}

/// Whether a component is required through the metapackage `cuda-toolkit`: the packages of a toolkit whose names do not
/// contain the CUDA major, such as `nvidia-cublas`.
pub fn has_metapackage(facts: &Facts, major: u32) -> bool {
    let suffix = format!("-cu{major}");
    let package = facts.package(major);
    facts.is_part_of_toolkit() && package.is_some_and(|package| !package.ends_with(&suffix))
}

/// Components with those that they need when a program runs, and for which the major has packages.
pub fn with_dependencies(components: &BTreeSet<Component>, major: u32) -> BTreeSet<Component> {
    let list: Vec<Component> = components.iter().copied().collect();
    let mut all = components.clone();
    for (component, kind) in closure(&list, major) {
        let is_run_time = matches!(kind, EdgeKind::Link | EdgeKind::Load);
        if is_run_time && component.facts().package(major).is_some() {
            all.insert(component);
        }
    }
    all
}

/// `cublas` of `libcublas.so.12`.
fn stem(soname: &str) -> Option<&str> {
    soname.strip_prefix("lib")?.split(".so").next()
}

fn facts_of(stem: &str) -> Option<&'static Facts> {
    Some(Component::of_library(stem)?.0.facts())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_makes_a_library_nvidias() {
        for (soname, expected) in [
            (
                "libcudart.so.12",
                LibraryOrigin::Component(Component::Cudart),
            ),
            ("libnccl.so.2", LibraryOrigin::Component(Component::Nccl)),
            (
                "libnvrtc-builtins.so.12.0",
                LibraryOrigin::Component(Component::Nvrtc),
            ),
            ("libcuda.so.1", LibraryOrigin::Driver),
            ("libnvidia-encode.so.1", LibraryOrigin::Driver),
            ("libnvcuvid.so.1", LibraryOrigin::Driver),
            ("libnvinfer.so.10", LibraryOrigin::Foreign),
            ("libcustom_ops.so", LibraryOrigin::Foreign),
            ("libnvme.so.1", LibraryOrigin::Foreign),
            ("libnppcustom.so", LibraryOrigin::Foreign),
            ("libcurl.so.4", LibraryOrigin::Foreign),
            ("ld-linux-x86-64.so.2", LibraryOrigin::Foreign),
        ] {
            assert_eq!(origin(soname), expected, "{soname}");
            assert_eq!(
                is_nvidia_library(soname),
                expected != LibraryOrigin::Foreign,
                "{soname}"
            );
        }
        assert!(!is_nvidia_library("libcuda.py") && is_nvidia_library("libcudart-16e8815a.so.12"));
    }

    #[test]
    fn hashes_of_repair_tools_are_removed() {
        for (name, expected) in [
            ("libcuda-df60b7cf.so.1", Some("libcuda.so.1")),
            ("libcuda.so.1", None),
            ("libnvidia-ml.so.1", None),
            ("libnvrtc-builtins.so.12.0", None),
        ] {
            assert_eq!(without_hash(name).as_deref(), expected);
        }
    }

    #[test]
    fn sonames_have_the_majors_of_the_table() {
        for (soname, majors) in [
            ("libcudart.so.12", &[12][..]),
            ("libcusparse.so.12", &[12, 13]),
            ("libnvrtc-builtins.so.12.0", &[12]),
            ("libnccl.so.2", &[]),
            ("libcudart.so.99", &[]),
            ("libc.so.6", &[]),
        ] {
            assert_eq!(majors_of_soname(soname), majors, "{soname}");
        }
        assert_eq!(component_of("libnccl.so.2"), Some(Component::Nccl));
        assert_eq!(component_of("libcudart.so.99"), None);
    }
}

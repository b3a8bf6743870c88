//! Maps the libraries that a native module needs to the components that contain them.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::internal::component::Facts;
use cuda_build::internal::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use cuda_build::{Component, ToolkitVersion, Version};

use crate::failure::Failure;

/// Stems of libraries that come with the driver and belong to no component.
const DRIVER_STEMS: &[&str] = &["cuda", "cudadebugger", "nvcuvid", "nvoptix", "nvidia-ml"];

/// Libraries of other projects whose names start like NVIDIA's.
const NOT_NVIDIA: &[&str] = &["cups", "curl", "curl-gnutls", "cunit", "curses", "cue"];

/// Where a needed library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A component, which a Python package contains.
    Component(Component),
    /// The GPU driver, whose libraries no package may contain.
    Driver,
    /// Not NVIDIA's.
    Foreign,
}

/// The versions with which the wheel was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltWith {
    /// The toolkit.
    pub toolkit: ToolkitVersion,
    /// The components' own versions, as their packages have them.
    pub components: BTreeMap<Component, Version>,
}

/// Checks that wheels can be made for a CUDA major.
pub fn check_major(major: u32) -> Result<(), Failure> {
    if (OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major) {
        Ok(())
    } else {
        Err(Failure::wheel(format!(
            "wheels for CUDA {major} are not supported, only for {OLDEST_MAJOR} to {NEWEST_MAJOR}"
        ))
        .hint(format!(
            "give `--cuda {NEWEST_MAJOR}`, or correct `majors` in `[package.metadata.cuda]`"
        )))
    }
}

/// Classifies a SONAME for a wheel of `major`.
pub fn origin(soname: &str, major: u32) -> Result<Origin, Failure> {
    check_major(major)?;
    let Some(stem) = stem(soname) else {
        return Ok(Origin::Foreign);
    };
    let unknown = || {
        Failure::wheel(format!(
            "the native module needs `{soname}`, which no known CUDA component has"
        ))
        .hint("if it belongs to a CUDA component that cargo-cuda does not know, please report its name")
    };
    let driver = DRIVER_STEMS.contains(&stem) || stem.starts_with("nvidia-");
    if driver {
        return Ok(Origin::Driver);
    }
    let Some(facts) = Component::all()
        .map(Component::facts)
        .find(|f| f.libraries.contains(&stem))
    else {
        return if looks_like_nvidia(stem) {
            Err(unknown())
        } else {
            Ok(Origin::Foreign)
        };
    };
    if facts.is_driver() {
        return Ok(Origin::Driver);
    }
    // A product's SONAME follows its own version line, whatever the CUDA major.
    if facts.is_product() {
        return Ok(Origin::Component(facts.component));
    }
    let belongs_to: Vec<u32> = release::majors()
        .filter(|&m| carries(facts, stem, soname, m))
        .collect();
    if belongs_to.contains(&major) {
        Ok(Origin::Component(facts.component))
    } else if belongs_to.is_empty() {
        Err(unknown())
    } else {
        let majors: Vec<String> = belongs_to.iter().map(|m| format!("CUDA {m}")).collect();
        Err(Failure::wheel(format!(
            "the native module needs `{soname}` of {}, but the wheel is for CUDA {major}",
            majors.join(" or ")
        ))
        .hint(format!(
            "build with a toolkit of CUDA {major}; if a crate's build script found the other CUDA in an earlier \
             build, use a separate target directory for each major"
        )))
    }
}

/// `cublas` of `libcublas.so.12`.
fn stem(soname: &str) -> Option<&str> {
    soname.strip_prefix("lib")?.split(".so").next()
}

/// Whether a file is one of NVIDIA's libraries, renamed by a repair tool
/// (`libcudart-16e8815a.so.12`) or not.
pub fn is_nvidia_library(file_name: &str) -> bool {
    let Some(stem) = stem(file_name).filter(|_| file_name.contains(".so")) else {
        return false;
    };
    let hash = |text: &str| text.len() == 8 && text.chars().all(|c| c.is_ascii_hexdigit());
    let stem = match stem.rsplit_once('-') {
        Some((before, after)) if hash(after) => before,
        _ => stem,
    };
    DRIVER_STEMS.contains(&stem)
        || stem.starts_with("nvidia-")
        || Component::all().any(|c| c.facts().libraries.contains(&stem))
}

/// Patterns of file names for every library of NVIDIA's and of the driver, for tools that copy libraries into a wheel.
pub fn nvidia_library_patterns() -> Vec<String> {
    let components = Component::all().flat_map(|component| component.facts().libraries);
    let stems = components.chain(DRIVER_STEMS).chain(&["nvidia-*"]);
    stems.map(|stem| format!("lib{stem}.so*")).collect()
}

fn looks_like_nvidia(stem: &str) -> bool {
    !NOT_NVIDIA.contains(&stem)
        && ["cu", "nv", "npp"]
            .iter()
            .any(|prefix| stem.starts_with(prefix))
}

fn carries(facts: &Facts, stem: &str, soname: &str, major: u32) -> bool {
    let known = (0..facts.libraries.len()).filter_map(|index| facts.soname(index, major));
    // The SONAME of nvrtc-builtins contains the toolkit's minor, and the table has only one minor.
    let builtins = stem == "nvrtc-builtins"
        && soname
            .split(".so.")
            .nth(1)
            .is_some_and(|version| version.split('.').next() == Some(major.to_string().as_str()));
    builtins || known.into_iter().any(|name| name == soname)
}

/// The components behind a list of needed SONAMEs, each once, in the table's order.
pub fn components<'a>(
    needed: impl IntoIterator<Item = &'a str>,
    major: u32,
) -> Result<BTreeSet<Component>, Failure> {
    let mut found = BTreeSet::new();
    for soname in needed {
        if let Origin::Component(component) = origin(soname, major)? {
            found.insert(component);
        }
    }
    Ok(found)
}

/// The error if no Python package is known for a component.
pub fn no_package(component: Component, major: u32) -> Failure {
    Failure::wheel(format!(
        "no known Python package contains `{component}` for CUDA {major}"
    ))
    .hint(format!(
        "remove \"{component}\" from `components` in `[package.metadata.cuda]`, and link its static library"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_names_are_recognised() {
        assert_eq!(
            origin("libcudart.so.12", 12).unwrap(),
            Origin::Component(Component::Cudart)
        );
        assert!(is_nvidia_library("libcuda-df60b7cf.so.1"));
        assert!(is_nvidia_library("libcublasLt.so.13"));
        assert!(!is_nvidia_library("saxpy.abi3.so"));
    }

    #[test]
    fn driver_libraries_are_never_a_dependency() {
        for soname in [
            "libcuda.so.1",
            "libnvidia-ml.so.1",
            "libnvcuvid.so.1",
            "libnvidia-encode.so.1",
        ] {
            assert_eq!(origin(soname, 13).unwrap(), Origin::Driver, "{soname}");
        }
    }

    #[test]
    fn other_majors_and_unknown_names_are_errors() {
        let error = origin("libcudart.so.12", 13).unwrap_err().message;
        assert_eq!(
            error,
            "the native module needs `libcudart.so.12` of CUDA 12, but the wheel is for CUDA 13"
        );
        let error = origin("libcusolver.so.11", 13).unwrap_err().to_string();
        assert!(
            error.contains("of CUDA 11 or CUDA 12, but the wheel"),
            "{error}"
        );
        for soname in [
            "libcudart.so.99",
            "libcudart-a1b2c3d4.so.12",
            "libnvfuture.so.1",
            "libcuquantum.so.3",
        ] {
            let error = origin(soname, 12).unwrap_err();
            let expected = format!("needs `{soname}`, which no known CUDA component has");
            assert!(error.message.contains(&expected), "{error}");
        }
        for soname in [
            "libcurl.so.4",
            "libcups.so.2",
            "ld-linux-x86-64.so.2",
            "libgcc_s.so.1",
        ] {
            assert_eq!(origin(soname, 12).unwrap(), Origin::Foreign, "{soname}");
        }
        let error = origin("libc.so.6", 14).unwrap_err().message;
        assert!(error.contains("CUDA 14 are not supported"), "{error}");
    }

    #[test]
    fn builtins_of_any_minor_belong_to_nvrtc() {
        assert_eq!(
            origin("libnvrtc-builtins.so.12.0", 12).unwrap(),
            Origin::Component(Component::Nvrtc)
        );
        assert!(origin("libnvrtc-builtins.so.12.0", 13).is_err());
    }
}

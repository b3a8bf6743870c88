//! Maps the libraries that a native module needs to the Python packages that contain them.
//!
//! CUDA 11 and 12 have one package per component, whose name contains the major
//! (`nvidia-cublas-cu12`). The packages of CUDA 13 have no suffix, and their versions may be
//! independent of the toolkit (`nvidia-curand` is 10.x), so only the `cuda-toolkit` metapackage can
//! bound the major. Products (cuDNN, NCCL …) keep their suffix.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::internal::component::{Facts, edges};
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

/// `Requires-Dist` lines for components. The lower bound is the version with which the wheel was
/// built; the upper bound excludes the next CUDA major, or the next major of a product.
pub fn requirements(
    components: &BTreeSet<Component>,
    major: u32,
    built_with: &BuiltWith,
) -> Result<Vec<String>, Failure> {
    check_major(major)?;
    let mut wanted = components.clone();
    // The packages of the math libraries accept any version of nvJitLink, but a library of CUDA 12.4 needs the
    // symbols of nvJitLink 12.4. So a lower bound for nvJitLink is added.
    let needs_nvjitlink = |c: &Component| {
        c.facts().is_part_of_toolkit()
            && edges(*c, major)
                .iter()
                .any(|(to, _)| *to == Component::Nvjitlink)
    };
    if components.iter().any(needs_nvjitlink)
        && Component::Nvjitlink.facts().package(major).is_some()
    {
        wanted.insert(Component::Nvjitlink);
    }

    let mut lines = Vec::new();
    let mut extras = Vec::new();
    for &component in &wanted {
        let facts = component.facts();
        let missing = || no_package(component, major);
        if facts.is_part_of_toolkit() && !package_name_has_major(facts, major) {
            extras.push(facts.extra.ok_or_else(missing)?);
        } else {
            let package = facts.package(major).ok_or_else(missing)?;
            let (floor, ceiling) = bounds(component, built_with)?;
            lines.push(format!("{package}>={floor},<{ceiling}"));
        }
    }
    if !extras.is_empty() {
        let ToolkitVersion { major, minor } = built_with.toolkit;
        lines.insert(
            0,
            format!(
                "cuda-toolkit[{}]>={major}.{minor},<{}",
                extras.join(","),
                major + 1
            ),
        );
    }
    Ok(lines)
}

/// The error if no Python package is known for a component.
pub fn no_package(component: Component, major: u32) -> Failure {
    Failure::wheel(format!(
        "no known Python package contains `{component}` for CUDA {major}"
    ))
}

/// Whether the name of a component's package contains the CUDA major. A toolkit package without it,
/// such as `nvidia-cublas`, is required through the metapackage.
fn package_name_has_major(facts: &Facts, major: u32) -> bool {
    let suffix = format!("-cu{major}");
    facts
        .package(major)
        .is_some_and(|package| package.ends_with(&suffix))
}

/// The inclusive lower bound and the exclusive upper bound.
fn bounds(component: Component, built_with: &BuiltWith) -> Result<(String, u64), Failure> {
    if component.facts().follows_toolkit {
        let ToolkitVersion { major, minor } = built_with.toolkit;
        return Ok((format!("{major}.{minor}"), u64::from(major) + 1));
    }
    let version = built_with.components.get(&component).ok_or_else(|| {
        Failure::wheel(format!(
            "the version of `{component}` is not known, so its lower bound cannot be written"
        ))
    })?;
    // These versions are independent of the toolkit: two CUDA releases can share `10.3` and differ
    // in the third number (cuRAND 10.3.5 is from CUDA 12.4, 10.3.10 from 12.9).
    let floor: Vec<String> = version.parts().iter().take(3).map(u64::to_string).collect();
    Ok((floor.join("."), version.part(0) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_with(toolkit: (u32, u32), versions: &[(Component, &str)]) -> BuiltWith {
        BuiltWith {
            toolkit: ToolkitVersion::new(toolkit.0, toolkit.1),
            components: versions
                .iter()
                .map(|(c, v)| (*c, v.parse().unwrap()))
                .collect(),
        }
    }

    fn lines(needed: &[&str], major: u32, built: &BuiltWith) -> Vec<String> {
        let found = components(needed.iter().copied(), major).unwrap();
        requirements(&found, major, built).unwrap()
    }

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
    fn cuda_12_has_one_package_per_component() {
        let built = built_with(
            (12, 9),
            &[
                (Component::Cudart, "12.9.79"),
                (Component::Cublas, "12.9.1.4"),
                (Component::Curand, "10.3.10.19"),
                (Component::Cudnn, "9.27.0.42"),
            ],
        );
        let needed = [
            "libcublasLt.so.12",
            "libcublas.so.12",
            "libcudart.so.12",
            "libcurand.so.10",
            "libcudnn.so.9",
            "libc.so.6",
        ];
        assert_eq!(
            lines(&needed, 12, &built),
            [
                "nvidia-cuda-runtime-cu12>=12.9,<13",
                "nvidia-cublas-cu12>=12.9.1,<13",
                "nvidia-curand-cu12>=10.3.10,<11",
                "nvidia-cudnn-cu12>=9.27.0,<10",
            ]
        );
    }

    #[test]
    fn cuda_13_has_the_metapackage_and_products() {
        let built = built_with((13, 4), &[(Component::Nccl, "2.29.3")]);
        let needed = [
            "libcudart.so.13",
            "libcublas.so.13",
            "libnccl.so.2",
            "libcuda.so.1",
        ];
        assert_eq!(
            lines(&needed, 13, &built),
            [
                "cuda-toolkit[cudart,cublas]>=13.4,<14",
                "nvidia-nccl-cu13>=2.29.3,<3"
            ]
        );
    }

    #[test]
    fn math_libraries_bring_their_nvjitlink() {
        let built = built_with((12, 9), &[(Component::Cusparse, "12.5.10.65")]);
        assert_eq!(
            lines(&["libcusparse.so.12"], 12, &built),
            [
                "nvidia-nvjitlink-cu12>=12.9,<13",
                "nvidia-cusparse-cu12>=12.5.10,<13"
            ]
        );
        assert_eq!(
            lines(&["libcusparse.so.12"], 13, &built_with((13, 4), &[])),
            ["cuda-toolkit[nvjitlink,cusparse]>=13.4,<14"]
        );
        let built = built_with((11, 8), &[(Component::Cusparse, "11.7.5.86")]);
        assert_eq!(
            lines(&["libcusparse.so.11"], 11, &built),
            ["nvidia-cusparse-cu11>=11.7.5,<12"]
        );
    }

    #[test]
    fn nothing_needed_asks_for_nothing() {
        assert!(
            lines(
                &["libc.so.6", "libgcc_s.so.1"],
                13,
                &built_with((13, 4), &[])
            )
            .is_empty()
        );
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

    #[test]
    fn a_version_line_of_its_own_must_be_known() {
        let found = components(["libcublas.so.12"], 12).unwrap();
        let error = requirements(&found, 12, &built_with((12, 9), &[])).unwrap_err();
        assert!(error.to_string().contains("`cublas`"), "{error}");
    }
}

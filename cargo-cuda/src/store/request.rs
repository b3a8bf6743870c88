//! A request to fetch: a full or partial release, and components.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::release::{NEWEST_MAJOR, OLDEST_MAJOR, is_nvcc_packaged};
use cuda_build::internal::{RequestedRelease, Target};
use cuda_build::{Component, Version};

use super::package::{Source, platform};
use super::refusal::no_package;
use crate::failure::Failure;

/// A full or partial CUDA release: `13`, `13.4` or `13.4.3`.
///
/// ```
/// use cargo_cuda::store::ReleaseToFetch;
/// let release: ReleaseToFetch = "13.4".parse().unwrap();
/// assert_eq!(release.major(), 13);
/// assert_eq!(release.to_string(), "13.4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseToFetch {
    parts: Vec<u32>,
}

impl ReleaseToFetch {
    /// 11, 12, 13 …
    pub fn major(&self) -> u32 {
        self.parts[0]
    }

    /// Whether this is a version with a patch number, such as `13.4.3`.
    pub(super) fn is_exact(&self) -> bool {
        self.parts.len() > 2
    }

    /// Whether this is a minor release such as `13.4`, which admits each of its patch releases.
    pub(super) fn is_minor(&self) -> bool {
        self.parts.len() == 2
    }

    /// Whether `version` is within this release: `13.4` admits `13.4.3`.
    pub(super) fn admits(&self, version: &Version) -> bool {
        (0..)
            .zip(&self.parts)
            .all(|(index, part)| version.part(index) == u64::from(*part))
    }

    /// The version specifier for a Python package, such as `==13.4.*`.
    pub(super) fn clause(&self) -> String {
        let any_patch = if self.parts.len() > 2 { "" } else { ".*" };
        format!("=={self}{any_patch}")
    }
}

/// Reads a release as users write it: also `latest`, `v13` and `cuda-13.4`.
pub fn parse_release(text: &str) -> Result<ReleaseToFetch, String> {
    let text = text.to_ascii_lowercase();
    if text == "latest" {
        return NEWEST_MAJOR.to_string().parse();
    }
    let mut number = text.as_str();
    for prefix in ["cuda", "-", "v"] {
        number = number.strip_prefix(prefix).unwrap_or(number);
    }
    number.parse()
}

impl From<RequestedRelease> for ReleaseToFetch {
    fn from(release: RequestedRelease) -> Self {
        let parts = std::iter::once(release.major).chain(release.minor);
        Self {
            parts: parts.collect(),
        }
    }
}

impl FromStr for ReleaseToFetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse().ok().filter(|number| *number <= 9999),
            false => None,
        };
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        match parts {
            Some(parts) if parts.len() <= 4 && parts[0] >= OLDEST_MAJOR => Ok(Self { parts }),
            Some(parts) if parts.len() <= 4 => Err(format!(
                "CUDA {} is not supported; the oldest supported major is {OLDEST_MAJOR}",
                parts[0]
            )),
            _ => Err("expected a CUDA release such as `13`, `13.4` or `13.4.3`".to_owned()),
        }
    }
}

impl fmt::Display for ReleaseToFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

/// A toolkit to fetch.
#[derive(Clone, Debug)]
pub struct AddRequest {
    /// The release.
    pub release: ReleaseToFetch,
    /// Components in addition to the default set, with those that they need.
    pub components: Vec<Component>,
    /// If not empty: exactly these components, without the default set and without those that they need.
    pub only: Vec<Component>,
    /// Components to fetch as well, with those that they need, if that is possible.
    pub optional: Vec<Component>,
    /// Where the components come from; by default where the lock file says, else Python packages.
    pub source: Option<Source>,
    /// Look for newer versions than those in the lock file and in the store.
    pub upgrade: bool,
    /// Fail if the lock file would change.
    pub locked: bool,
    /// The platform whose files to fetch; `None` for this machine.
    pub target: Option<Target>,
}

impl AddRequest {
    /// A request for the default set of a release.
    pub fn new(release: ReleaseToFetch) -> Self {
        Self {
            release,
            components: Vec::new(),
            only: Vec::new(),
            optional: Vec::new(),
            source: None,
            upgrade: false,
            locked: false,
            target: None,
        }
    }

    /// The platform directory of the files to fetch, as the search names it.
    pub(super) fn platform(&self) -> String {
        let target = self.target.as_ref();
        target.map_or_else(platform, |target| target.directory().to_owned())
    }

    /// The components to fetch.
    pub(super) fn wanted(&self, source: Source) -> Result<BTreeSet<Component>, Failure> {
        let major = self.release.major();
        let has_package = |component: &Component| source.has_package(*component, major);
        let mut named = self.only.iter().chain(&self.components).copied();
        if let Some(component) = named.find(|component| !has_package(component)) {
            return Err(no_package(component, major, source));
        }
        if !self.only.is_empty() {
            return Ok(self.only.iter().copied().collect());
        }
        let named = self.components.iter().copied();
        Ok(with_needed(
            named.chain(default_set(major, source)),
            major,
            source,
        ))
    }
}

/// The components and those that they need. A needed component without a package of its own, as there are some in
/// CUDA 11 and 12, is skipped.
pub(super) fn with_needed(
    components: impl IntoIterator<Item = Component>,
    major: u32,
    source: Source,
) -> BTreeSet<Component> {
    let components: Vec<Component> = components.into_iter().collect();
    let is_fetched = |component: Component, kind: EdgeKind| {
        kind != EdgeKind::LoadIfPresent && source.has_package(component, major)
    };
    let needed = closure(&components, major).into_iter();
    let needed = needed.filter(|(component, kind)| is_fetched(*component, *kind));
    let needed: Vec<Component> = needed.map(|(component, _)| component).collect();
    components.into_iter().chain(needed).collect()
}

/// The components that are fetched by default, which compile device code. If the wheels of a major
/// contain no nvcc, as in CUDA 12 (`nvidia-cuda-nvcc-cu12` has only `ptxas` and libNVVM), nvcc and its
/// parts are left out, and NVRTC is the compiler.
fn default_set(major: u32, source: Source) -> impl Iterator<Item = Component> {
    let compiler = [Component::Nvcc, Component::Nvvm, Component::Crt];
    Component::all()
        .filter(|component| component.facts().in_every_toolkit)
        .filter(move |component| {
            source == Source::Redist || is_nvcc_packaged(major) || !compiler.contains(component)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ReleaseToFetch {
        text.parse().unwrap()
    }

    #[test]
    fn reads_one_to_four_parts() {
        assert_eq!(spec("13").clause(), "==13.*");
        assert_eq!(spec("13.4").clause(), "==13.4.*");
        assert_eq!(spec("13.4.3").clause(), "==13.4.3");
        assert_eq!(spec("12.9.2.0").clause(), "==12.9.2.0");
        assert_eq!(spec("12.09").to_string(), "12.9");
    }

    #[test]
    fn releases_are_read_as_users_write_them() {
        for (text, release) in [
            ("v13", "13"),
            ("cuda-13.4", "13.4"),
            ("CUDA12", "12"),
            ("12.9.1", "12.9.1"),
        ] {
            assert_eq!(parse_release(text).unwrap().to_string(), release);
        }
        assert_eq!(parse_release("latest").unwrap().major(), NEWEST_MAJOR);
        for text in ["newest", "v", "cuda", "vv13", "13-cuda"] {
            assert!(parse_release(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_release() {
        for text in [
            "",
            "new",
            "13.x",
            "13.4-rc1",
            "13.",
            "10.2",
            "1.2.3.4.5",
            "13;evil",
            "99999",
        ] {
            assert!(text.parse::<ReleaseToFetch>().is_err(), "{text}");
        }
    }

    #[test]
    fn admits_releases_that_begin_with_it() {
        let admits = |given: &str, version: &str| spec(given).admits(&version.parse().unwrap());
        assert!(admits("13", "13.4.3") && admits("13.4", "13.4") && admits("12.9.2", "12.9.2.0"));
        assert!(!admits("13", "12.9") && !admits("13.4", "13.40.1") && !admits("13.4.3", "13.4"));
    }

    fn ids(release: &str, components: &[Component]) -> Vec<&'static str> {
        let mut request = AddRequest::new(spec(release));
        request.components = components.to_vec();
        let wanted = request.wanted(Source::Wheels).unwrap();
        wanted.into_iter().map(Component::id).collect()
    }

    #[test]
    fn the_default_set_can_compile() {
        assert_eq!(
            ids("13", &[]),
            ["cudart", "nvcc", "nvvm", "crt", "cccl", "nvrtc"]
        );
        assert_eq!(ids("12", &[]), ["cudart", "cccl", "nvrtc"]);
        assert_eq!(ids("11.8", &[]), ["cudart", "cccl", "nvrtc"]);
    }

    #[test]
    fn named_components_bring_what_they_need() {
        let cusolver = [
            "cudart",
            "cccl",
            "nvrtc",
            "nvjitlink",
            "cublas",
            "cusolver",
            "cusparse",
        ];
        assert_eq!(ids("12", &[Component::Cusolver]), cusolver);
        // CUDA 11 has no nvJitLink.
        let cufft = ["cudart", "cccl", "nvrtc", "cufft"];
        assert_eq!(ids("11", &[Component::Cufft]), cufft);
    }

    #[test]
    fn only_means_only() {
        let mut request = AddRequest::new(spec("13"));
        request.only = vec![Component::Cufft];
        assert_eq!(
            request.wanted(Source::Wheels).unwrap(),
            BTreeSet::from([Component::Cufft])
        );
    }

    #[test]
    fn a_component_without_a_package_is_named() {
        let mut request = AddRequest::new(spec("12"));
        request.components = vec![Component::Nvvm];
        let error = request.wanted(Source::Wheels).unwrap_err().to_string();
        assert!(
            error.contains("`nvvm`") && error.contains("CUDA 12"),
            "{error}"
        );
    }
}

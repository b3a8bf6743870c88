//! A request to fetch: a release as far as it is given, and components.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::release::{self, is_nvcc_packaged};
use cuda_build::{Component, ToolkitVersion, Version};

use super::StoreError;
use super::package::package_of;

/// A CUDA release as far as it is given: `13`, `13.4` or `13.4.3`.
///
/// ```
/// use cargo_cuda::store::ReleaseSpec;
/// let release: ReleaseSpec = "13.4".parse().unwrap();
/// assert_eq!(release.major(), 13);
/// assert_eq!(release.to_string(), "13.4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSpec {
    parts: Vec<u64>,
}

impl ReleaseSpec {
    /// 11, 12, 13 …
    #[must_use]
    pub fn major(&self) -> u32 {
        // The parser has checked it.
        self.parts
            .first()
            .and_then(|&part| u32::try_from(part).ok())
            .unwrap_or_default()
    }

    /// `major.minor`, if both are given.
    #[must_use]
    pub fn minor(&self) -> Option<ToolkitVersion> {
        let minor = u32::try_from(*self.parts.get(1)?).ok()?;
        Some(ToolkitVersion::new(self.major(), minor))
    }

    /// Whether it ends with the minor, so that any patch release fits.
    pub(super) fn is_minor(&self) -> bool {
        self.parts.len() == 2
    }

    /// Whether `version` is a release that fits.
    pub(super) fn admits(&self, version: &Version) -> bool {
        (0..)
            .zip(&self.parts)
            .all(|(index, part)| version.part(index) == *part)
    }

    /// The clause after the name of a Python package.
    pub(super) fn clause(&self) -> String {
        if self.parts.len() > 2 {
            format!("=={self}")
        } else {
            format!("=={self}.*")
        }
    }
}

impl FromStr for ReleaseSpec {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = |reason: &str| StoreError::InvalidRelease {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let shape = "expected a CUDA release such as `13`, `13.4` or `13.4.3`";
        let version: Version = text.parse().map_err(|_| invalid(shape))?;
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !text.ends_with('.');
        let parts = version.parts().to_vec();
        if !plain || parts.len() > 4 || parts.iter().any(|&part| part > 9999) {
            return Err(invalid(shape));
        }
        let oldest = release::OLDEST_MAJOR;
        if parts[0] < u64::from(oldest) {
            return Err(invalid(&format!("CUDA before {oldest} is not supported")));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for ReleaseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts.iter().map(u64::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

/// A toolkit to fetch.
#[derive(Clone, Debug)]
pub struct AddRequest {
    /// The release.
    pub release: ReleaseSpec,
    /// Components to fetch besides the default set, with the components that they need.
    pub components: BTreeSet<Component>,
    /// Exactly these components, without the default set and without what they need.
    pub only: Option<BTreeSet<Component>>,
    /// Look for newer versions than those in the lock file and in the store.
    pub upgrade: bool,
    /// Fail if the lock file does not pin every package.
    pub locked: bool,
}

impl AddRequest {
    /// The default set of a release.
    #[must_use]
    pub fn new(release: ReleaseSpec) -> Self {
        Self {
            release,
            components: BTreeSet::new(),
            only: None,
            upgrade: false,
            locked: false,
        }
    }

    /// The components to fetch.
    ///
    /// # Errors
    /// [`StoreError::NoPackage`] if a component that was named has no package for this major.
    pub(super) fn wanted(&self) -> Result<BTreeSet<Component>, StoreError> {
        let major = self.release.major();
        let named = self.only.as_ref().unwrap_or(&self.components);
        let has_package = |component: Component| package_of(component, major).is_some();
        if let Some(&component) = named.iter().find(|&&component| !has_package(component)) {
            return Err(StoreError::NoPackage { component, major });
        }
        if let Some(only) = &self.only {
            return Ok(only.clone());
        }
        let named: Vec<Component> = named.iter().copied().chain(default_set(major)).collect();
        // In CUDA 11 and 12 some components have no package of their own.
        let needed = closure(&named, major)
            .into_iter()
            .filter(|(component, kind)| *kind != EdgeKind::LoadIfThere && has_package(*component))
            .map(|(component, _)| component);
        Ok(named.iter().copied().chain(needed).collect())
    }
}

/// The components to compile device code with. If the wheels of a major have no nvcc, NVRTC is
/// the compiler: `nvidia-cuda-nvcc-cu12` contains only `ptxas` and libNVVM.
fn default_set(major: u32) -> impl Iterator<Item = Component> {
    let compiler = [Component::Nvcc, Component::Nvvm, Component::Crt];
    Component::all()
        .filter(|component| component.facts().in_every_toolkit)
        .filter(move |component| is_nvcc_packaged(major) || !compiler.contains(component))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ReleaseSpec {
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
            assert!(text.parse::<ReleaseSpec>().is_err(), "{text}");
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
        request.components = components.iter().copied().collect();
        let wanted = request.wanted().unwrap();
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
        request.only = Some(BTreeSet::from([Component::Cufft]));
        assert_eq!(
            request.wanted().unwrap(),
            BTreeSet::from([Component::Cufft])
        );
    }

    #[test]
    fn a_component_without_a_package_is_named() {
        let mut request = AddRequest::new(spec("12"));
        request.components = BTreeSet::from([Component::Nvvm]);
        let error = request.wanted().unwrap_err().to_string();
        assert!(
            error.contains("`nvvm`") && error.contains("CUDA 12"),
            "{error}"
        );
    }
}

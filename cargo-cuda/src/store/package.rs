//! Exact packages, and a set of them that makes a toolkit.

use cuda_build::release::NEWEST_MAJOR;
use cuda_build::{Component, Version};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::Sha256;

/// One Python package at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// In the normal form of Python packaging: lower case, words joined by `-`.
    pub name: String,
    /// Exact.
    pub version: String,
    /// Of the files that are this package, sorted: one for each platform where the installer
    /// tells them all (uv), else the one of this platform (pip).
    pub hashes: Vec<Sha256>,
}

impl Package {
    /// The same name and version.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version
    }

    /// Whether one file can be both.
    pub(super) fn shares_a_file_with(&self, other: &Self) -> bool {
        self.is(other) && self.hashes.iter().any(|hash| other.hashes.contains(hash))
    }

    /// `major.minor` of the version, for packages that follow the toolkit's.
    pub(super) fn minor(&self) -> Option<(u64, u64)> {
        let version: Version = self.version.parse().ok()?;
        Some((version.part(0), version.part(1)))
    }
}

/// The packages of one toolkit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet {
    /// `13.4.3` where the metapackage vouches for it, `13.5` where it was put together by minor.
    pub version: String,
    /// Sorted by name.
    pub packages: Vec<Package>,
}

impl PackageSet {
    /// The directory's name in the store: the version and a digest of what exactly it is.
    ///
    /// Hashes of files stay out of it: installers differ in how many of them they tell.
    #[must_use]
    pub fn name(&self) -> String {
        let mut digest = sha2::Sha256::new();
        digest.update(platform());
        for package in &self.packages {
            digest.update(format!("\n{}=={}", package.name, package.version));
        }
        let hash: String = digest
            .finalize()
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{}-{hash}", self.version)
    }

    /// The package that carries a component for this set's major.
    pub(super) fn carrier(&self, component: Component) -> Option<&Package> {
        let name = package_of(component, self.major())?;
        self.find(name)
    }

    /// By name.
    pub(super) fn find(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Components whose package is in the set, in the order of the table.
    pub(super) fn components(&self) -> impl Iterator<Item = Component> {
        Component::all().filter(|&component| self.carrier(component).is_some())
    }

    /// The CUDA major.
    pub(super) fn major(&self) -> u32 {
        self.version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .unwrap_or_default()
    }
}

/// The package that carries `component`. A major that the tables don't know yet is expected to
/// be packaged like the newest known one.
pub(super) fn package_of(component: Component, major: u32) -> Option<&'static str> {
    component.facts().package(major.min(NEWEST_MAJOR))
}

/// Machine and system of the files that an installer started here fetches.
pub(super) fn platform() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// A package name in the normal form: `Nvidia_Cuda.Runtime` is `nvidia-cuda-runtime`.
pub(super) fn normal_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            _ => normal.push(character.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::store) fn package(name: &str, version: &str, digit: char) -> Package {
        let hash = Sha256::from_hex(&digit.to_string().repeat(64)).unwrap();
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: vec![hash],
        }
    }

    #[test]
    fn name_follows_versions_and_not_hashes() {
        let set = |version: &str, digit| PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![package("nvidia-cuda-runtime", version, digit)],
        };
        assert_eq!(set("13.4.92", 'a').name(), set("13.4.92", 'b').name());
        assert_ne!(set("13.4.92", 'a').name(), set("13.4.93", 'a').name());
        assert!(set("13.4.92", 'a').name().starts_with("13.4.3-"));
        assert_eq!(set("13.4.92", 'a').name().len(), "13.4.3-".len() + 8);
    }

    #[test]
    fn knows_the_carrier_by_major() {
        let set = PackageSet {
            version: "12.9.2.0".to_owned(),
            packages: vec![package("nvidia-cuda-runtime-cu12", "12.9.79", '0')],
        };
        assert_eq!(
            set.carrier(Component::Cudart).unwrap().minor(),
            Some((12, 9))
        );
        assert_eq!(set.components().collect::<Vec<_>>(), [Component::Cudart]);
        assert_eq!(package_of(Component::Nvvm, 12), None);
        assert_eq!(package_of(Component::Nvvm, 14), Some("nvidia-nvvm"));
    }

    #[test]
    fn names_have_one_form() {
        assert_eq!(
            normal_name("nvidia_cuda_runtime.cu12"),
            "nvidia-cuda-runtime-cu12"
        );
        assert_eq!(normal_name("A--_b"), "a-b");
    }
}

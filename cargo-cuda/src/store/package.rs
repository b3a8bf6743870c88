//! CUDA releases as users request them, exact packages with their hashes, and the set of packages that makes a toolkit.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cargo_metadata::semver::VersionReq;
use cuda_build::{Component, ToolkitVersion, Version};
use cuda_find_core::release::{
    self, COMPILER_HAS_THREE_ARCHIVES_SINCE, NEWEST_MAJOR, OLDEST_MAJOR, is_nvcc_packaged,
};
use cuda_find_core::select::RequestedRelease;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::failure::{Failure, Result};
use crate::output::joined;
use crate::package::metadata::normalized_name;

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
        let any_patch = if self.is_exact() { "" } else { ".*" };
        format!("=={self}{any_patch}")
    }
}

impl Default for ReleaseToFetch {
    fn default() -> Self {
        let parts = vec![NEWEST_MAJOR];
        Self { parts }
    }
}

impl From<RequestedRelease> for ReleaseToFetch {
    fn from(release: RequestedRelease) -> Self {
        let mut parts = vec![release.major];
        parts.extend(release.minor);
        Self { parts }
    }
}

impl FromStr for ReleaseToFetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `parse` alone would accept `+13`.
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let number = |part: &str| part.parse().ok().filter(|number| *number <= 9999);
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        let Some(parts) = parts.filter(|parts| is_plain && parts.len() <= 4) else {
            return Err("expected a CUDA release such as `13`, `13.4` or `13.4.3`".to_owned());
        };
        let major = parts[0];
        if major < OLDEST_MAJOR {
            return Err(format!(
                "CUDA {major} is not supported; the oldest supported major is {OLDEST_MAJOR}"
            ));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for ReleaseToFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.parts, "."))
    }
}

/// A SHA-256 digest. Lock files and manifests contain it in SRI form, `sha256-<base64>`; installers
/// use hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(pub(super) [u8; 32]);

impl Sha256 {
    /// Reads 64 hexadecimal digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len().div_ceil(2)).map(byte).collect();
        bytes.filter(|_| is_hex)?.try_into().ok().map(Self)
    }

    /// 64 lower-case hexadecimal digits.
    pub(super) fn hex(self) -> String {
        hex(&self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.strip_prefix("sha256-")
            .and_then(|digits| BASE64.decode(digits).ok()?.try_into().ok())
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not of the form `sha256-<base64>`"))
    }
}

impl From<Sha256> for String {
    fn from(hash: Sha256) -> Self {
        format!("sha256-{}", BASE64.encode(hash.0))
    }
}

/// Where the packages of a set come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FetchFrom {
    /// Python packages, which uv or pip fetches.
    #[default]
    Wheels,
    /// NVIDIA's redistributable archives.
    Redist,
}

impl FetchFrom {
    fn is_wheels(&self) -> bool {
        *self == Self::Wheels
    }

    /// Whether a component of a CUDA major may be fetched from there.
    pub(super) fn has_package(self, component: Component, major: u32) -> bool {
        match self {
            // The package with this name has only `ptxas` and libNVVM before CUDA 13.
            Self::Wheels if component == Component::Nvcc && !is_nvcc_packaged(major) => false,
            Self::Wheels => wheel_of(component, major).is_some(),
            // Before CUDA 13, `libculibos.a` is in the archive of cudart, as in its wheel.
            Self::Redist if major < COMPILER_HAS_THREE_ARCHIVES_SINCE => {
                component != Component::Culibos && !component.facts().redist.is_empty()
            }
            Self::Redist => !component.facts().redist.is_empty(),
        }
    }

    /// Whether the package called `name` contains a component of a CUDA major.
    pub(super) fn contains(self, name: &str, component: Component, major: u32) -> bool {
        let is_compiler = [Component::Nvvm, Component::Crt].contains(&component);
        match self {
            Self::Wheels => wheel_of(component, major) == Some(name),
            Self::Redist if is_compiler && major < COMPILER_HAS_THREE_ARCHIVES_SINCE => {
                Component::of_redist(&name.replace('-', "_")) == Some(Component::Nvcc)
            }
            Self::Redist => Component::of_redist(&name.replace('-', "_")) == Some(component),
        }
    }

    /// Whether the package called `name` contains any component of a CUDA major.
    pub(super) fn knows(self, name: &str, major: u32) -> bool {
        Component::all().any(|component| self.contains(name, component, major))
    }
}

/// One Python package or one archive, at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PinnedPackage {
    /// In the normal form of Python packaging: lower case, words joined by `-`.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The hashes of the files of this version, sorted. uv reports the hashes for all platforms, pip
    /// reports only the hash for the current platform.
    pub hashes: Vec<Sha256>,
}

impl PinnedPackage {
    pub(super) fn new(name: &str, version: &str, hashes: Vec<Sha256>) -> Self {
        Self {
            name: normalized_name(name),
            version: version.to_owned(),
            hashes,
        }
    }

    /// Whether name and version are equal.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version
    }

    /// Whether both are the same package at the same version and have a file in common.
    pub(super) fn shares_a_file_with(&self, other: &Self) -> bool {
        self.is(other) && self.hashes.iter().any(|hash| other.hashes.contains(hash))
    }
}

/// The versions that a manifest accepts of some components.
pub type AcceptedVersions = Vec<(Component, VersionReq)>;

/// The packages of one toolkit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageSet {
    /// The release: `13.4.3` if the metapackage of that version lists the packages, `13.5` if
    /// they were resolved one by one.
    pub version: String,
    #[serde(default, rename = "source")]
    #[serde(skip_serializing_if = "FetchFrom::is_wheels")]
    pub from: FetchFrom,
    /// Sorted by name.
    pub packages: Vec<PinnedPackage>,
}

impl PackageSet {
    /// The name of the toolkit's directory in the store: the release and a digest of the exact packages.
    ///
    /// The digest excludes file hashes, because uv and pip report different numbers of them.
    pub(super) fn name(&self, platform: &str) -> String {
        let mut text = platform.to_owned();
        for PinnedPackage { name, version, .. } in &self.packages {
            text += &format!("\n{name}=={version}");
        }
        let digest = sha2::Sha256::digest(text);
        format!("{}-{}", self.version, hex(&digest[..4]))
    }

    /// The package that contains a component.
    pub(super) fn package_for(&self, component: Component) -> Option<&PinnedPackage> {
        let (from, major) = (self.from, self.major());
        let mut packages = self.packages.iter();
        packages.find(|package| from.contains(&package.name, component, major))
    }

    /// Whether there may be a package for a component where the set comes from.
    pub fn may_have(&self, component: Component) -> bool {
        self.from.has_package(component, self.major())
    }

    /// The first component that the set has no package for, or none of an accepted version.
    pub fn lacking(
        &self,
        components: impl IntoIterator<Item = Component>,
        accepted: &AcceptedVersions,
    ) -> Option<Component> {
        components.into_iter().find(|component| {
            let package = self.package_for(*component);
            package.is_none_or(|package| !self.accepts(package, accepted))
        })
    }

    /// Whether a package of the set has an accepted version.
    fn accepts(&self, package: &PinnedPackage, accepted: &AcceptedVersions) -> bool {
        let version = package.version.parse::<Version>();
        accepted.iter().all(|(component, requirement)| {
            !self.from.contains(&package.name, *component, self.major())
                || version.as_ref().is_ok_and(|it| it.matches(requirement))
        })
    }

    /// The set without packages of other versions than the accepted ones.
    pub(super) fn with_accepted_only(mut self, accepted: &AcceptedVersions) -> Self {
        let packages = std::mem::take(&mut self.packages).into_iter();
        self.packages = packages.filter(|it| self.accepts(it, accepted)).collect();
        self
    }

    /// The packages of these components, and those of which no component is known: another package may need them.
    pub(super) fn only(&self, components: &BTreeSet<Component>) -> Self {
        let (from, major) = (self.from, self.major());
        let is_needed = |package: &&PinnedPackage| {
            let mut components = components.iter();
            components.any(|it| from.contains(&package.name, *it, major))
                || !from.knows(&package.name, major)
        };
        let packages = self.packages.iter().filter(is_needed);
        Self {
            version: self.version.clone(),
            from,
            packages: packages.cloned().collect(),
        }
    }

    /// The components whose package is in the set, in the order of [`Component::all`].
    pub(super) fn components(&self) -> impl Iterator<Item = Component> {
        Component::all().filter(|&component| self.package_for(component).is_some())
    }

    /// The CUDA major.
    pub(super) fn major(&self) -> u32 {
        let major = self.version.split('.').next();
        major.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The first package of the wrong minor release. Only packages whose version starts with the
    /// toolkit's `major.minor` are checked.
    pub(super) fn inconsistent(&self) -> Option<&PinnedPackage> {
        let minor = self.version.parse::<ToolkitVersion>().ok();
        let mut components = self.components().filter(|it| it.facts().follows_toolkit);
        components.find_map(|component| {
            let package = self.package_for(component);
            package.filter(|package| package.version.parse().ok() != minor)
        })
    }

    /// Fails if `other` has a package of this set at the same version, but without a hash in common.
    pub(super) fn check_files(&self, other: &Self, origin: &str) -> Result<()> {
        for pinned in &self.packages {
            let same = other.packages.iter().find(|package| package.is(pinned));
            if let Some(found) = same.filter(|found| !found.shares_a_file_with(pinned)) {
                return Err(hash_mismatch(pinned, origin, &found.hashes));
            }
        }
        Ok(())
    }

    /// Checks a set that was read from a file. A file is untrusted input: the packages' names become
    /// arguments of an installer, and the release becomes part of a directory's name.
    pub(super) fn check(&self) -> Result<(), String> {
        let minor = self.version.parse::<ToolkitVersion>().ok();
        let is_release = self.version.parse::<ReleaseToFetch>().is_ok();
        let Some(minor) = minor.filter(|_| is_release) else {
            return Err(format!("{:?} is not a CUDA release", self.version));
        };
        for package in &self.packages {
            let (name, version) = (&package.name, &package.version);
            if !self.from.knows(name, minor.major) {
                let major = minor.major;
                return Err(format!(
                    "the package {name:?} contains no component of CUDA {major}"
                ));
            }
            let plain = |b: u8| b.is_ascii_alphanumeric() || b".+!".contains(&b);
            if !version.bytes().all(plain) || version.parse::<Version>().is_err() {
                return Err(format!("{name} has the invalid version {version:?}"));
            }
        }
        let Some(PinnedPackage { name, version, .. }) = self.inconsistent() else {
            return Ok(());
        };
        let release = &self.version;
        Err(format!(
            "{name} {version} does not belong to CUDA {release}"
        ))
    }
}

/// The Python package that contains `component`. A major that is newer than the tables is assumed to have
/// the same packages as the newest major in them.
pub(super) fn wheel_of(component: Component, major: u32) -> Option<&'static str> {
    component.facts().package(major.min(NEWEST_MAJOR))
}

pub(super) fn hash_mismatch(pinned: &PinnedPackage, origin: &str, found: &[Sha256]) -> Failure {
    let (name, version, hashes) = (&pinned.name, &pinned.version, &pinned.hashes);
    let files = format!("{name} {version}: pinned {hashes:?}, {origin} {found:?}");
    let text = format!("a file does not match its pinned hash\n  {files}");
    Failure::lock(text).hint(
        "if the index was changed on purpose, pin the new files with `--upgrade`; if the lock file was created with \
         pip on another platform, create it with uv, which pins the files of all platforms",
    )
}

pub(super) fn no_package(component: Component, major: u32, from: FetchFrom) -> Failure {
    let holder = match from {
        FetchFrom::Wheels => "Python package",
        FetchFrom::Redist => "archive of NVIDIA",
    };
    let message = format!("no {holder} contains `{component}` for CUDA {major}");
    let newest = release::newest_of(major).map_or_else(String::new, |it| it.to_string());
    Failure::not_released(message).hint(match component {
        Component::Driver => {
            "libcuda comes with the GPU driver, which need not be installed for linking".to_owned()
        }
        _ if from != FetchFrom::Wheels && FetchFrom::Wheels.has_package(component, major) => {
            "fetch it as a Python package, with `--from wheels`".to_owned()
        }
        _ if from != FetchFrom::Redist && FetchFrom::Redist.has_package(component, major) => format!(
            "run `cargo cuda toolkit add {newest} --components {component} --from redist`, then build with \
             `--cuda {major}`"
        ),
        _ => OTHER_SOURCES_HINT.to_owned(),
    })
}

/// The hint if no package contains a component.
pub(super) const OTHER_SOURCES_HINT: &str =
    "install CUDA from NVIDIA's packages or archives and set `CUDA_HOME`, or fetch a newer CUDA";

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::store) fn package(name: &str, version: &str, digit: char) -> PinnedPackage {
        let hash = Sha256::from_hex(&digit.to_string().repeat(64)).unwrap();
        PinnedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: vec![hash],
        }
    }

    pub(in crate::store) fn set(version: &str, packages: &[(&str, &str)]) -> PackageSet {
        let packages = packages
            .iter()
            .map(|(name, version)| package(name, version, 'a'));
        PackageSet {
            version: version.to_owned(),
            packages: packages.collect(),
            ..PackageSet::default()
        }
    }

    #[test]
    fn releases_are_read_as_users_write_them() {
        for (text, release, clause) in [
            ("13", "13", "==13.*"),
            ("12.09", "12.9", "==12.9.*"),
            ("12.9.2.0", "12.9.2.0", "==12.9.2.0"),
        ] {
            let read: ReleaseToFetch = text.parse().unwrap();
            assert_eq!(
                (read.to_string().as_str(), read.clause().as_str()),
                (release, clause)
            );
        }
        let wrong = [
            "",
            "new",
            "v",
            "13-cuda",
            "13.x",
            "13.",
            "10.2",
            "1.2.3.4.5",
            "13;evil",
        ];
        for text in wrong {
            assert!(text.parse::<ReleaseToFetch>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_release_admits_versions_that_begin_with_it() {
        for (release, version, expected) in [
            ("13", "13.4.3", true),
            ("13.4", "13.4", true),
            ("12.9.2", "12.9.2.0", true),
            ("13", "12.9", false),
            ("13.4", "13.40.1", false),
            ("13.4.3", "13.4", false),
        ] {
            let release: ReleaseToFetch = release.parse().unwrap();
            assert_eq!(
                release.admits(&version.parse().unwrap()),
                expected,
                "{release} {version}"
            );
        }
    }

    #[test]
    fn a_digest_is_read_and_displayed() {
        // `printf '' | openssl dgst -sha256 -binary | base64`
        let (hex, sri) = (
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        );
        let empty = Sha256::from_hex(hex).unwrap();
        assert_eq!(
            (String::from(empty), empty.hex()),
            (sri.to_owned(), hex.to_owned())
        );
        assert_eq!(Sha256::try_from(sri.to_owned()), Ok(empty));
        for bad in [
            sri.replace("sha256-", "sha512-"),
            sri.replace('+', "-"),
            sri.replace("FU=", "FV="),
            sri.replace("FU=", "="),
            String::new(),
        ] {
            assert!(Sha256::try_from(bad.clone()).is_err(), "{bad}");
        }
        assert!(Sha256::from_hex("e3b0").is_none());
        assert!(Sha256::from_hex(&hex.replace("e3", "+3")).is_none());
    }

    #[test]
    fn the_name_depends_on_versions_and_not_on_hashes() {
        let one = set("13.4.3", &[("nvidia-cuda-runtime", "13.4.92")]);
        let mut two = one.clone();
        two.packages[0] = package("nvidia-cuda-runtime", "13.4.92", 'b');
        let name = |set: &PackageSet| set.name("x86_64-linux");
        assert_eq!(name(&one), name(&two));
        two.packages[0].version = "13.4.93".to_owned();
        assert_ne!(name(&one), name(&two));
        assert_ne!(name(&one), one.name("sbsa-linux"));
        assert!(name(&one).starts_with("13.4.3-") && name(&one).len() == "13.4.3-".len() + 8);
    }

    #[test]
    fn a_set_that_no_index_offers_is_refused() {
        let good = [
            ("nvidia-cuda-runtime", "13.4.92"),
            ("nvidia-cuda-cccl", "13.4.3.1.2"),
        ];
        assert_eq!(set("13.4.3", &good).check(), Ok(()));
        assert_eq!(set("13.4", &good).check(), Ok(()));
        for (version, name, exact) in [
            ("13.99.0", good[0].0, good[0].1),
            ("13.4.3\u{1b}[31m", good[0].0, good[0].1),
            ("13.4/../../x", good[0].0, good[0].1),
            ("13.4.3", "nvidia-cuda-runtime-cu12", "12.9.79"),
            ("13.4.3", "--index-url=http://a", "13.4.92"),
            ("13.4.3", good[0].0, "13.4.92\nother"),
            ("13.4.3", good[0].0, "*"),
        ] {
            let error = set(version, &[(name, exact)]).check().unwrap_err();
            assert!(!error.contains(['\u{1b}', '\n']), "{error:?}");
        }
    }
}

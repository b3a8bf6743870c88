//! Exact packages, the set of them that makes a toolkit, and the manifest of a stored toolkit.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cuda_build::internal::release::NEWEST_MAJOR;
use cuda_build::internal::{Target, store};
use cuda_build::{Component, ToolkitVersion, Version};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::refusal::hash_mismatch;
use super::{ReleaseToFetch, redist};
use crate::failure::Failure;

/// A SHA-256 digest. Lock files and manifests contain it in SRI form, `sha256-<base64>`; installers
/// use hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Reads 64 hexadecimal digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len().div_ceil(2)).map(byte).collect();
        bytes.filter(|_| is_hex)?.try_into().ok().map(Self)
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Python packages, which uv or pip fetches.
    #[default]
    Wheels,
    /// NVIDIA's redistributable archives.
    Redist,
}

impl Source {
    fn is_wheels(&self) -> bool {
        *self == Self::Wheels
    }

    /// Whether this source may have a component of a CUDA major.
    pub(super) fn has_package(self, component: Component, major: u32) -> bool {
        match self {
            Self::Wheels => package_of(component, major).is_some(),
            Self::Redist => !component.facts().redist.is_empty(),
        }
    }
}

/// One Python package at one version, or one archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// In the normal form of Python packaging: lower case, words joined by `-`.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The hashes of the wheels of this version, sorted. uv reports the hashes for all platforms, pip
    /// reports only the hash for the current platform.
    pub hashes: Vec<Sha256>,
}

impl Package {
    /// Whether this is an archive that contains a component.
    pub(super) fn contains(&self, component: Component, major: u32) -> bool {
        redist::contains(&self.name, component, major)
    }

    /// Whether name and version are equal.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version
    }

    /// Whether both are the same package at the same version and have a wheel in common.
    pub(super) fn shares_a_file_with(&self, other: &Self) -> bool {
        self.is(other) && self.hashes.iter().any(|hash| other.hashes.contains(hash))
    }
}

/// The packages of one toolkit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageSet {
    /// The release: `13.4.3` if the metapackage of that version lists the packages, `13.5` if
    /// they were resolved one by one.
    pub version: String,
    #[serde(default, skip_serializing_if = "Source::is_wheels")]
    pub source: Source,
    /// Sorted by name.
    pub packages: Vec<Package>,
}

impl PackageSet {
    /// The name of the toolkit's directory in the store: the release and a digest of the exact packages.
    ///
    /// The digest excludes file hashes, because uv and pip report different numbers of them.
    pub(super) fn name(&self, platform: &str) -> String {
        let mut digest = sha2::Sha256::new();
        digest.update(platform);
        for package in &self.packages {
            digest.update(format!("\n{}=={}", package.name, package.version));
        }
        format!("{}-{}", self.version, hex(&digest.finalize()[..4]))
    }

    /// Whether `name` is the name of this set in the store, for any platform.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let mut platforms = ["x86_64", "aarch64"].into_iter().map(platform_of);
        platforms.any(|platform| self.name(&platform) == name)
    }

    /// The package that contains a component.
    pub(super) fn package_for(&self, component: Component) -> Option<&Package> {
        let major = self.major();
        match self.source {
            Source::Wheels => self.find(package_of(component, major)?),
            Source::Redist => self
                .packages
                .iter()
                .find(|it| it.contains(component, major)),
        }
    }

    /// The package called `name`.
    pub(super) fn find(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
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
    pub(super) fn inconsistent(&self) -> Option<&Package> {
        let minor = self.version.parse::<ToolkitVersion>().ok();
        self.components()
            .filter(|component| component.facts().follows_toolkit)
            .filter_map(|component| self.package_for(component))
            .find(|package| package.version.parse().ok() != minor)
    }

    /// Fails if `other` has a package of this set at the same version, but without a hash in common.
    pub(super) fn check_files(&self, other: &Self, origin: &str) -> Result<(), Failure> {
        for pinned in &self.packages {
            let same = other.packages.iter().find(|package| package.is(pinned));
            if let Some(found) = same.filter(|found| !found.shares_a_file_with(pinned)) {
                return Err(hash_mismatch(&format!(
                    "{} {}: pinned {:?}, {origin} {:?}",
                    pinned.name, pinned.version, pinned.hashes, found.hashes
                )));
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
        for (index, package) in self.packages.iter().enumerate() {
            let Package {
                name,
                version,
                hashes,
            } = package;
            let contains = |component| redist::contains(name, component, minor.major);
            let is_known = match self.source {
                Source::Wheels => is_known(name, minor.major),
                Source::Redist => Component::all().any(contains),
            };
            if !is_known {
                return Err(format!(
                    "the package {name:?} contains no component of CUDA {}",
                    minor.major
                ));
            }
            let plain = |b: u8| b.is_ascii_alphanumeric() || b".+!".contains(&b);
            if !version.bytes().all(plain) || version.parse::<Version>().is_err() {
                return Err(format!("{name} has the invalid version {version:?}"));
            }
            if hashes.is_empty() {
                return Err(format!("{name} {version} has no hash"));
            }
            if self.packages[..index].iter().any(|p| p.name == *name) {
                return Err(format!("{name} is pinned twice"));
            }
        }
        match self.inconsistent() {
            Some(package) => Err(format!(
                "{} {} does not belong to CUDA {}",
                package.name, package.version, self.version
            )),
            None => Ok(()),
        }
    }
}

/// Whether a package contains a component of this major.
pub(super) fn is_known(name: &str, major: u32) -> bool {
    Component::all().any(|component| package_of(component, major) == Some(name))
}

/// The package that contains `component`. A major that is newer than the tables is assumed to have
/// the same packages as the newest major in them.
pub(super) fn package_of(component: Component, major: u32) -> Option<&'static str> {
    component.facts().package(major.min(NEWEST_MAJOR))
}

/// The platform directory of the files that installers fetch on this machine, as the search names it. Python's
/// packages for 64-bit ARM are for servers.
pub(super) fn platform() -> String {
    platform_of(std::env::consts::ARCH)
}

fn platform_of(architecture: &str) -> String {
    let triple = format!("{architecture}-unknown-linux-gnu");
    let target = Target::from_triple(&triple);
    target.map_or(triple, |target| target.directory().to_owned())
}

/// A package name in the normal form: `Nvidia_Cuda.Runtime` is `nvidia-cuda-runtime`.
pub(super) fn normal_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    words.join("-")
}

/// The content of `toolkit.toml`. The search reads some of its fields as [`store::StoredToolkit`];
/// only this crate reads the packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format_version: i64,
    pub platform: String,
    /// The size of all files.
    pub bytes: u64,
    /// The components that were found when the toolkit was added.
    pub components: Vec<String>,
    #[serde(flatten)]
    pub set: PackageSet,
}

impl Manifest {
    pub fn new(set: PackageSet, platform: &str, components: &[Component], bytes: u64) -> Self {
        Self {
            format_version: store::FORMAT_VERSION,
            platform: platform.to_owned(),
            bytes,
            components: components.iter().map(ToString::to_string).collect(),
            set,
        }
    }

    /// Reads a manifest.
    pub fn parse(text: &str) -> Result<Self, String> {
        let manifest: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if manifest.format_version != store::FORMAT_VERSION {
            return Err(format!(
                "format_version is {}, but this cargo-cuda reads {}",
                manifest.format_version,
                store::FORMAT_VERSION
            ));
        }
        manifest.set.check()?;
        Ok(manifest)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use cuda_build::internal::Root;

    use super::*;

    pub(in crate::store) fn package(name: &str, version: &str, digit: char) -> Package {
        let hash = Sha256::from_hex(&digit.to_string().repeat(64)).unwrap();
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: vec![hash],
        }
    }

    fn set(version: &str, packages: &[(&str, &str)]) -> PackageSet {
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
    fn the_carrier_depends_on_the_major() {
        let set = set("12.9.2.0", &[("nvidia-cuda-runtime-cu12", "12.9.79")]);
        assert_eq!(set.package_for(Component::Cudart), set.packages.first());
        assert_eq!(set.components().collect::<Vec<_>>(), [Component::Cudart]);
        assert_eq!(package_of(Component::Nvvm, 12), None);
        assert_eq!(package_of(Component::Nvvm, 14), Some("nvidia-nvvm"));
        assert_eq!(
            normal_name("nvidia_cuda_runtime.cu12"),
            "nvidia-cuda-runtime-cu12"
        );
        assert_eq!(normal_name("A--_b"), "a-b");
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
            ("13", good[0].0, good[0].1),
            ("13.4.3\u{1b}[31m", good[0].0, good[0].1),
            ("13.4/../../x", good[0].0, good[0].1),
            ("13.4.3", "six", "1.16.0"),
            ("13.4.3", "nvidia-cuda-runtime-cu12", "12.9.79"),
            ("13.4.3", "--index-url=http://a", "13.4.92"),
            ("13.4.3", good[0].0, "13.4.92\nother"),
            ("13.4.3", good[0].0, "*"),
        ] {
            let error = set(version, &[(name, exact)]).check().unwrap_err();
            assert!(!error.contains(['\u{1b}', '\n']), "{error:?}");
        }
        assert!(set("13.4.3", &[good[0], good[0]]).check().is_err());
        let mut unpinned = set("13.4.3", &good);
        unpinned.packages[0].hashes.clear();
        assert!(unpinned.check().is_err());
    }

    #[test]
    fn platforms_are_named_as_by_the_search() {
        assert_eq!(platform_of("x86_64"), "x86_64-linux");
        assert_eq!(platform_of("aarch64"), "sbsa-linux");
    }

    #[test]
    fn the_search_reads_what_the_store_writes() {
        let set = set("13.4.3", &[("nvidia-cuda-runtime", "13.4.92")]);
        let manifest = Manifest::new(set, &platform(), &[Component::Cudart], 7);
        let text = toml::to_string(&manifest).unwrap();
        assert_eq!(Manifest::parse(&text).unwrap(), manifest);
        assert!(Manifest::parse(&text.replace("13.4.3", "../x")).is_err());
        assert!(
            Manifest::parse(&text.replace("format_version = 1", "format_version = 2")).is_err()
        );

        let directory = tempfile::tempdir().unwrap();
        #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
        std::fs::write(directory.path().join(store::MANIFEST), text).unwrap();
        let read = |path: &Path| store::StoredToolkit::read(&Root::system(), path).unwrap();
        let found = read(directory.path());
        assert_eq!(found.components, [Component::Cudart]);
        assert_eq!(
            (found.version.to_string(), found.platform),
            ("13.4.3".to_owned(), platform())
        );
    }
}

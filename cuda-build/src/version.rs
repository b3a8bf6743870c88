//! Versions as the field writes them: dotted numbers of any length, and CUDA's `major.minor`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::str::FromStr;

use crate::env::Env;
use crate::error::Error;
use crate::release::OLDEST_MAJOR;

/// A dotted version of any length: `12.9.1.4`, `13.3.5.0.6`, `9.27.0.42`.
///
/// Missing parts count as zero, so `12.9` equals `12.9.0`. Text after the numbers
/// (`.post1`, `rc1`) is kept for display and ignored when comparing.
///
/// ```
/// use cuda_build::Version;
/// let a: Version = "12.9".parse().unwrap();
/// let b: Version = "12.10.0".parse().unwrap();
/// assert!(a < b);
/// assert_eq!(a, "12.9.0".parse().unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct Version {
    parts: Vec<u64>,
    text: String,
}

impl Version {
    /// The numbers, at least one.
    #[must_use]
    pub fn parts(&self) -> &[u64] {
        &self.parts
    }

    /// The part at `index`, zero where the text has fewer.
    #[must_use]
    pub fn part(&self, index: usize) -> u64 {
        self.parts.get(index).copied().unwrap_or(0)
    }

    /// The CUDA release in its first two parts, if it has two.
    pub(crate) fn release(&self) -> Option<ToolkitVersion> {
        self.text.parse().ok()
    }

    fn trimmed(&self) -> &[u64] {
        let end = self
            .parts
            .iter()
            .rposition(|&p| p != 0)
            .map_or(0, |i| i + 1);
        &self.parts[..end]
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let numeric_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let numeric = text[..numeric_end].trim_end_matches('.');
        let parts = numeric
            .split('.')
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>()
            .map_err(|_| InvalidVersion {
                text: text.to_owned(),
            })?;
        Ok(Self {
            parts,
            text: text.to_owned(),
        })
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.trimmed() == other.trimmed()
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.trimmed().hash(state);
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.trimmed().cmp(other.trimmed())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text that does not start with dotted numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidVersion {
    /// What was given.
    pub text: String,
}

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a version: expected dotted numbers such as `12.9` or `13.4.92`",
            self.text
        )
    }
}

impl std::error::Error for InvalidVersion {}

/// Which CUDA release to use: any of one major (`13`), or exactly one (`13.4`).
///
/// ```
/// use cuda_build::internal::ReleaseReq;
/// let any: ReleaseReq = "13".parse().unwrap();
/// let one: ReleaseReq = "13.4".parse().unwrap();
/// assert_eq!((any.major, any.minor), (13, None));
/// assert_eq!((one.minor, one.to_string()), (Some(4), "13.4".to_owned()));
/// assert!("13.4.1".parse::<ReleaseReq>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseReq {
    /// The CUDA major.
    pub major: u32,
    /// The release within the major, if only that one is accepted.
    pub minor: Option<u32>,
}

impl ReleaseReq {
    /// The variable with the release to build for.
    pub const VARIABLE: &'static str = "CUDA_BUILD_RELEASE";

    /// Reads [`ReleaseReq::VARIABLE`].
    ///
    /// # Errors
    /// [`Error::Manifest`] if the value is not a release.
    pub fn from_env(env: &Env) -> Result<Option<Self>, Error> {
        let Some(text) = env.text(Self::VARIABLE) else {
            return Ok(None);
        };
        let release = text.parse().map_err(|reason| Error::Manifest {
            path: PathBuf::from("environment"),
            key: Self::VARIABLE.to_owned(),
            reason,
        })?;
        Ok(Some(release))
    }

    /// The requirement that a minor adds: `~13.4`.
    #[must_use]
    pub fn comparator(self) -> Option<semver::Comparator> {
        Some(semver::Comparator {
            op: semver::Op::Tilde,
            major: self.major.into(),
            minor: Some(self.minor?.into()),
            patch: None,
            pre: semver::Prerelease::EMPTY,
        })
    }
}

impl FromStr for ReleaseReq {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = match text.split_once('.') {
            Some((major, minor)) => (major, Some(minor.parse::<u32>())),
            None => (text, None),
        };
        match (major.parse(), minor.transpose()) {
            (Ok(major), Ok(minor)) if major >= OLDEST_MAJOR => Ok(Self { major, minor }),
            (Ok(_), Ok(_)) => Err(format!(
                "CUDA `{text}` is not supported; the oldest supported major is {OLDEST_MAJOR}"
            )),
            _ => Err(format!(
                "`{text}` is not a CUDA release such as `13` or `13.4`"
            )),
        }
    }
}

impl fmt::Display for ReleaseReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}.{minor}", self.major),
            None => write!(f, "{}", self.major),
        }
    }
}

/// The `major.minor` of a CUDA toolkit, which is what its headers, its compiler and its file
/// names agree on. Patch releases of one minor mix freely.
///
/// ```
/// use cuda_build::ToolkitVersion;
/// let v = ToolkitVersion::from_cuda_version(13_040).unwrap();
/// assert_eq!(v.to_string(), "13.4");
/// assert!(v > ToolkitVersion::new(12, 9));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolkitVersion {
    /// 11, 12, 13 …: what a driver, a wheel name and a SONAME are tied to.
    pub major: u32,
    /// The release within the major.
    pub minor: u32,
}

impl ToolkitVersion {
    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// From the value of `CUDA_VERSION` in `cuda.h` (major × 1000 + minor × 10), also what
    /// `cudaRuntimeGetVersion` and `cuDriverGetVersion` return.
    #[must_use]
    pub const fn from_cuda_version(value: u32) -> Option<Self> {
        if value < 1000 || value > 999_990 {
            return None;
        }
        Some(Self {
            major: value / 1000,
            minor: value % 1000 / 10,
        })
    }

    /// The value that `CUDA_VERSION` has in this toolkit's `cuda.h`.
    #[must_use]
    pub const fn cuda_version(self) -> u32 {
        self.major * 1000 + self.minor * 10
    }

    /// Whether a Cargo-style requirement admits this toolkit.
    #[must_use]
    pub fn matches(self, requirement: &semver::VersionReq) -> bool {
        requirement.matches(&semver::Version::new(
            self.major.into(),
            self.minor.into(),
            0,
        ))
    }
}

impl FromStr for ToolkitVersion {
    type Err = InvalidVersion;

    /// Reads `13.4`, and takes the first two parts of `13.4.92`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion {
            text: text.to_owned(),
        };
        let version: Version = text.parse()?;
        if version.parts().len() < 2 {
            return Err(invalid());
        }
        let part = |i| u32::try_from(version.part(i)).map_err(|_| invalid());
        Ok(Self {
            major: part(0)?,
            minor: part(1)?,
        })
    }
}

impl fmt::Display for ToolkitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn compares_by_number_and_ignores_trailing_zeros() {
        assert!(v("12.9.1.4") < v("12.10"));
        assert_eq!(v("13.4.0"), v("13.4"));
        assert!(v("13.3.5.0.6") > v("13.3.5"));
        assert_eq!(v("11.8.89.post1"), v("11.8.89"));
        assert_eq!(v("11.8.89.post1").to_string(), "11.8.89.post1");
    }

    #[test]
    fn refuses_what_is_no_version() {
        for text in ["", "abc", ".", "1..2", "99999999999999999999.1"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
        assert!("13".parse::<ToolkitVersion>().is_err());
    }

    #[test]
    fn cuda_version_goes_both_ways() {
        for value in [11_080, 12_000, 12_090, 13_040] {
            assert_eq!(
                ToolkitVersion::from_cuda_version(value)
                    .unwrap()
                    .cuda_version(),
                value
            );
        }
        assert_eq!(ToolkitVersion::from_cuda_version(0), None);
    }
}

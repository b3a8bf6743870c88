//! Versions: dotted numbers of any length, and CUDA's `major.minor`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::list::joined;

/// A dotted version of any length: `12.9.1.4`, `13.3.5.0.6`, `9.27.0.42`.
///
/// Missing parts count as zero, so `12.9` equals `12.9.0`. Text after the numbers
/// (`.post1`, `rc1`) is kept for display and ignored in comparisons.
///
/// ```
/// use cuda_find_core::version::Version;
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
    /// The numbers between the dots. There is at least one.
    pub fn parts(&self) -> &[u64] {
        &self.parts
    }

    /// The part at `index`; zero if there are fewer parts.
    pub fn part(&self, index: usize) -> u64 {
        self.parts.get(index).copied().unwrap_or(0)
    }

    /// The first two parts as a CUDA release; `None` if there are fewer parts.
    pub fn release(&self) -> Option<ToolkitVersion> {
        self.text.parse().ok()
    }

    /// Whether a Cargo-style requirement admits the first three parts.
    #[doc(hidden)]
    pub fn matches(&self, requirement: &semver::VersionReq) -> bool {
        let [major, minor, patch] = [0, 1, 2].map(|index| self.part(index));
        requirement.matches(&semver::Version::new(major, minor, patch))
    }

    /// The parts without zeros at the end.
    fn trimmed(&self) -> &[u64] {
        let last = self.parts.iter().rposition(|&part| part != 0);
        &self.parts[..last.map_or(0, |last| last + 1)]
    }
}

/// The versions that a comparator of Cargo admits, as the first of them and the first above all of them: 3.8 and 4 for
/// `^3.8`. `None` on a side without a limit.
pub fn bounds(comparator: &semver::Comparator) -> [Option<Version>; 2] {
    use semver::Op;
    let mut parts = vec![comparator.major];
    parts.extend(comparator.minor);
    parts.extend(comparator.patch);
    let version = |parts: &[u64]| joined(parts, ".").parse().ok();
    let first = version(&parts);
    // The first version above all that begin with the same `count` parts.
    let after = |count: usize| {
        let mut parts = parts[..count.min(parts.len())].to_vec();
        *parts.last_mut()? += 1;
        version(&parts)
    };
    let nonzero = parts.iter().position(|part| *part != 0);
    match comparator.op {
        Op::Greater => [after(3), None],
        Op::GreaterEq => [first, None],
        Op::Less => [None, first],
        Op::LessEq => [None, after(3)],
        Op::Tilde => [first, after(2)],
        Op::Caret => [first, after(nonzero.map_or(3, |index| index + 1))],
        // `=3.8`, `3.8.*`
        _ => [first, after(3)],
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let is_other = |c: char| !c.is_ascii_digit() && c != '.';
        let end = text.find(is_other).unwrap_or(text.len());
        let parts = text[..end].trim_end_matches('.').split('.').map(str::parse);
        Ok(Self {
            parts: parts.collect::<Result<_, _>>().map_err(|_| invalid(text))?,
            text: text.to_owned(),
        })
    }
}

impl From<ToolkitVersion> for Version {
    fn from(release: ToolkitVersion) -> Self {
        Self {
            parts: vec![release.major.into(), release.minor.into()],
            text: release.to_string(),
        }
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.trimmed() == other.trimmed()
    }
}

impl Eq for Version {}

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

fn invalid(text: &str) -> String {
    format!("`{text}` is not a version: expected dotted numbers such as `12.9` or `13.4.92`")
}

/// A CUDA release, `major.minor`. The headers, the compiler and the file names of a toolkit have it in common.
/// Patch releases of the same minor can be mixed.
///
/// ```
/// use cuda_find_core::version::ToolkitVersion;
/// let v = ToolkitVersion::from_cuda_version(13_040).unwrap();
/// assert_eq!(v.to_string(), "13.4");
/// assert!(v > ToolkitVersion::new(12, 9));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolkitVersion {
    /// The CUDA major: 11, 12, 13 … The names of wheels, SONAMEs and the required driver depend on it.
    pub major: u32,
    /// The number of the release within the major.
    pub minor: u32,
}

impl ToolkitVersion {
    /// `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Decodes the value of `CUDA_VERSION` in `cuda.h`, which is major × 1000 + minor × 10. `cuDriverGetVersion`
    /// returns a version in the same form. `None` if the value is out of range.
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
    pub const fn cuda_version(self) -> u32 {
        self.major * 1000 + self.minor * 10
    }

    /// Whether a Cargo-style requirement admits this toolkit.
    #[doc(hidden)]
    pub fn matches(self, requirement: &semver::VersionReq) -> bool {
        Version::from(self).matches(requirement)
    }
}

impl FromStr for ToolkitVersion {
    type Err = String;

    /// Reads `13.4`, and takes the first two parts of `13.4.92`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version: Version = text.parse()?;
        let part = |index: usize| version.parts().get(index).map(|part| u32::try_from(*part));
        match (part(0), part(1)) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(invalid(text)),
        }
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
    fn other_texts_are_refused() {
        for text in ["", "abc", ".", "1..2", "99999999999999999999.1"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
        assert!("13".parse::<ToolkitVersion>().is_err());
    }

    #[test]
    fn cuda_version_is_converted_both_ways() {
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

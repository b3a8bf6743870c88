//! A compute capability: its number, its suffix and its spellings.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A compute capability, such as 9.0. The name of a compilation target may also have a suffix (9.0a): its code can use
/// more features, but runs on fewer devices.
///
/// Capabilities are ordered by number, then by suffix. Every common spelling is parsed, and the one with a dot is
/// printed:
///
/// ```
/// use cuda_find_core::capability::Capability;
/// for spelling in ["9.0a", "90a", "sm_90a", "compute_90a"] {
///     let capability: Capability = spelling.parse()?;
///     assert_eq!(capability.to_string(), "9.0a");
///     assert_eq!(capability.sm(), "sm_90a");
/// }
/// # Ok::<(), cuda_find_core::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// 8 in 8.6. Devices of one major share an instruction set.
    pub major: u32,
    /// 6 in 8.6. It is always a single digit.
    pub minor: u32,
    /// `a` or `f`. Only the name of a compilation target can have a suffix. The capability of a device never does.
    pub suffix: Option<Suffix>,
}

/// The suffix of a compilation target whose code runs on fewer devices than code without a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suffix {
    /// `a`: the code runs only on devices of exactly this capability.
    ArchSpecific,
    /// `f`: the code runs on the devices of the capability's family.
    Family,
}

impl Suffix {
    /// `a` or `f`.
    pub const fn letter(self) -> char {
        match self {
            Self::ArchSpecific => 'a',
            Self::Family => 'f',
        }
    }
}

impl Capability {
    /// A capability without a suffix.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self {
            major,
            minor,
            suffix: None,
        }
    }

    /// The same number with this suffix.
    #[must_use]
    pub const fn with_suffix(self, suffix: Option<Suffix>) -> Self {
        Self { suffix, ..self }
    }

    /// The same number without a suffix.
    #[must_use]
    pub const fn base(self) -> Self {
        self.with_suffix(None)
    }

    /// The number in `sm_90a`: 90.
    pub const fn number(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// The number with its suffix, as after `sm_`: `90a`.
    pub fn digits(self) -> String {
        let mut digits = self.number().to_string();
        digits.extend(self.suffix.map(Suffix::letter));
        digits
    }

    /// The real architecture's name: `sm_90a`.
    pub fn sm(self) -> String {
        format!("sm_{}", self.digits())
    }

    /// The virtual architecture's name: `compute_90a`.
    pub fn compute(self) -> String {
        format!("compute_{}", self.digits())
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.suffix
            .map_or(Ok(()), |it| write!(f, "{}", it.letter()))
    }
}

impl FromStr for Capability {
    type Err = Error;

    /// Reads `9.0`, `90`, `sm_90`, `compute_90`, each with or without `a` or `f`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let mut bare = ["sm_", "compute_"]
            .iter()
            .filter_map(|it| lower.strip_prefix(it));
        let bare = bare.next().unwrap_or(&lower);
        let (number, suffix) = match bare.as_bytes().last() {
            Some(b'a') => (&bare[..bare.len() - 1], Some(Suffix::ArchSpecific)),
            Some(b'f') => (&bare[..bare.len() - 1], Some(Suffix::Family)),
            _ => (bare, None),
        };
        let (major, minor) = split_number(number).ok_or_else(|| {
            Error::capability(
                format!("`{text}` is not a compute capability"),
                "write a capability as `8.0`, `80`, `sm_80` or `9.0a`",
            )
        })?;
        Ok(Self {
            major,
            minor,
            suffix,
        })
    }
}

/// Major and minor of `9.0`, `90` or `120`. The minor is always one digit.
fn split_number(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = match number.split_once('.') {
        Some(parts) => parts,
        None => number.split_at_checked(number.len().checked_sub(1)?)?,
    };
    let is_number = |text: &str, longest| {
        (1..=longest).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    // `800` and `8600` are values of `__CUDA_ARCH__`. They must not be read as the capabilities 80.0 and 860.0.
    if !is_number(major, 2) || !is_number(minor, 1) || major.starts_with('0') {
        return None;
    }
    let major = major.parse().ok().filter(|&major| major < 30)?;
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        for (expected, spellings) in [
            ("8.0", "8.0,80,sm_80,compute_80, 8.0 ,SM_80,sm_8.0"),
            ("9.0a", "9.0a,90a,sm_90a,compute_90a"),
            ("10.0f", "10.0f,100f,sm_100f,compute_100f"),
            ("12.1", "12.1,121,sm_121"),
        ] {
            for spelling in spellings.split(',') {
                let capability: Capability = spelling.parse().unwrap();
                assert_eq!(capability.to_string(), expected, "{spelling:?}");
            }
        }
    }

    #[test]
    fn names_of_the_targets() {
        let capability: Capability = "100f".parse().unwrap();
        assert_eq!(
            (capability.sm(), capability.compute(), capability.number()),
            ("sm_100f".to_owned(), "compute_100f".to_owned(), 100)
        );
    }

    #[test]
    fn ordered_by_number_not_by_text() {
        let mut list: Vec<Capability> = ["12.0", "9.0a", "10.0f", "8.6", "9.0", "10.0"]
            .map(|t| t.parse().unwrap())
            .to_vec();
        list.sort();
        let text: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["8.6", "9.0", "9.0a", "10.0", "10.0f", "12.0"]);
    }

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        let refused =
            ",8,800,1200,8.10,8.,.0,08.0,9.0b,90aa,sm_,lto_80,Hopper,8.0.0,-8.0,+80,٨٠,8٠";
        for text in refused.split(',') {
            let error = text.parse::<Capability>().unwrap_err();
            let expected = format!("`{text}` is not a compute capability");
            assert_eq!(error.to_string(), expected);
            let hint = "write a capability as";
            assert!(error.hints()[0].contains(hint), "{text:?}: {error:?}");
        }
    }
}

//! What is written after `toolkit add`.

use std::fmt;
use std::str::FromStr;

use cuda_build::{ToolkitVersion, Version, release};

use super::StoreError;

/// A CUDA version as far as the user cares: `13`, `13.4` or `13.4.3`.
///
/// ```
/// use cargo_cuda::store::Request;
/// let request: Request = "13.4".parse().unwrap();
/// assert_eq!(request.major(), 13);
/// assert_eq!(request.to_string(), "13.4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    parts: Vec<u64>,
}

impl Request {
    /// 11, 12, 13 …
    #[must_use]
    pub fn major(&self) -> u32 {
        // Checked while parsing.
        self.parts
            .first()
            .and_then(|&part| u32::try_from(part).ok())
            .unwrap_or_default()
    }

    /// `major.minor`, where the request goes that far.
    #[must_use]
    pub fn minor(&self) -> Option<ToolkitVersion> {
        let minor = u32::try_from(*self.parts.get(1)?).ok()?;
        Some(ToolkitVersion::new(self.major(), minor))
    }

    /// Whether it stops at the minor, so that any patch release will do.
    pub(super) fn is_minor(&self) -> bool {
        self.parts.len() == 2
    }

    /// As a clause behind a Python package's name.
    pub(super) fn clause(&self) -> String {
        if self.parts.len() > 2 {
            format!("=={self}")
        } else {
            format!("=={self}.*")
        }
    }
}

impl FromStr for Request {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = |reason: String| StoreError::InvalidRequest {
            text: text.to_owned(),
            reason,
        };
        let version: Version = text.parse().map_err(|_| {
            invalid("expected a CUDA version such as `13`, `13.4` or `13.4.3`".to_owned())
        })?;
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !text.ends_with('.');
        let parts = version.parts().to_vec();
        if !plain || parts.len() > 4 || parts.iter().any(|&part| part > 9999) {
            return Err(invalid(
                "expected a CUDA version such as `13`, `13.4` or `13.4.3`".to_owned(),
            ));
        }
        if parts[0] < u64::from(release::OLDEST_MAJOR) {
            return Err(invalid(format!(
                "CUDA before {} is not supported",
                release::OLDEST_MAJOR
            )));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_to_four_parts() {
        let clause = |text: &str| text.parse::<Request>().unwrap().clause();
        assert_eq!(clause("13"), "==13.*");
        assert_eq!(clause("13.4"), "==13.4.*");
        assert_eq!(clause("13.4.3"), "==13.4.3");
        assert_eq!(clause("12.9.2.0"), "==12.9.2.0");
        assert_eq!("12.09".parse::<Request>().unwrap().to_string(), "12.9");
    }

    #[test]
    fn refuses_what_is_no_version() {
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
            assert!(text.parse::<Request>().is_err(), "{text}");
        }
    }
}

//! Reading a capability in any of the spellings in use.

use std::str::FromStr;

use super::{Capability, Suffix};
use crate::error::Error;

impl FromStr for Capability {
    type Err = Error;

    /// Reads `9.0`, `90`, `sm_90`, `compute_90`, each with or without `a` or `f`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let bare = strip_prefix(text, "sm_")
            .or_else(|| strip_prefix(text, "compute_"))
            .unwrap_or(text);
        let (number, suffix) = match bare.as_bytes().last() {
            Some(b'a') => (&bare[..bare.len() - 1], Some(Suffix::ArchSpecific)),
            Some(b'f') => (&bare[..bare.len() - 1], Some(Suffix::Family)),
            _ => (bare, None),
        };
        let (major, minor) = split_number(number).ok_or_else(|| invalid(text, number))?;
        Ok(Self {
            major,
            minor,
            suffix,
        })
    }
}

fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.get(..prefix.len())
        .filter(|head| head.eq_ignore_ascii_case(prefix))
        .map(|_| &text[prefix.len()..])
}

/// Major and minor of `9.0`, `90` or `120`. The minor is always one digit.
fn split_number(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = match number.split_once('.') {
        Some(parts) => parts,
        None => number.split_at_checked(number.len().checked_sub(1)?)?,
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // Two digits keep `__CUDA_ARCH__` values (`8600`) and toolkit versions out. `800` would
    // read as 80.0, which nothing that exists could mean.
    if !digits(major)
        || !digits(minor)
        || major.len() > 2
        || minor.len() != 1
        || major.starts_with('0')
    {
        return None;
    }
    let major = major.parse().ok().filter(|&major| major < 30)?;
    Some((major, minor.parse().ok()?))
}

fn invalid(text: &str, number: &str) -> Error {
    let hint = match number.parse::<u32>() {
        Ok(major @ 1..=9) => format!("write both parts: `{major}.0`"),
        Ok(arch) if arch >= 300 && arch % 10 == 0 => match split_number(&(arch / 10).to_string()) {
            Some((major, minor)) => {
                format!("`{number}` is a value of `__CUDA_ARCH__`; write `{major}.{minor}`")
            }
            None => general_hint(),
        },
        _ => general_hint(),
    };
    Error::Capability {
        reason: format!("`{text}` is not a compute capability"),
        hint: Some(hint),
    }
}

fn general_hint() -> String {
    "write a capability as `8.0`, `80`, `sm_80` or `9.0a`".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        for (expected, spellings) in [
            (
                "8.0",
                &[
                    "8.0",
                    "80",
                    "sm_80",
                    "compute_80",
                    " 8.0 ",
                    "SM_80",
                    "sm_8.0",
                ][..],
            ),
            ("9.0a", &["9.0a", "90a", "sm_90a", "compute_90a"]),
            ("10.0f", &["10.0f", "100f", "sm_100f", "compute_100f"]),
            ("12.1", &["12.1", "121", "sm_121"]),
        ] {
            for spelling in spellings {
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
    fn refuses_what_is_none_and_says_what_to_write() {
        for (text, hint) in [
            ("", "write a capability as"),
            ("8", "write both parts: `8.0`"),
            ("800", "`800` is a value of `__CUDA_ARCH__`; write `8.0`"),
            ("1200", "`1200` is a value of `__CUDA_ARCH__`; write `12.0`"),
            ("8.10", "write a capability as"),
            ("8.", "write a capability as"),
            (".0", "write a capability as"),
            ("08.0", "write a capability as"),
            ("9.0b", "write a capability as"),
            ("90aa", "write a capability as"),
            ("sm_", "write a capability as"),
            ("lto_80", "write a capability as"),
            ("Hopper", "write a capability as"),
            ("8.0.0", "write a capability as"),
            ("-8.0", "write a capability as"),
            ("+80", "write a capability as"),
            ("٨٠", "write a capability as"),
            ("8٠", "write a capability as"),
        ] {
            let error = text.parse::<Capability>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{text}` is not a compute capability")
            );
            assert!(error.hints()[0].contains(hint), "{text:?}: {error:?}");
        }
    }
}

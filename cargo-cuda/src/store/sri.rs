//! SHA-256 in the form of the SRI specification, `sha256-<base64>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A SHA-256 digest. Shown and stored as `sha256-<base64>`; installers want [`Sha256::hex`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

const PREFIX: &str = "sha256-";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Sha256 {
    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for chunk in self.0.chunks(3) {
            let mut group = [0; 3];
            group[..chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
            for place in 0..4 {
                let index = (bits >> (18 - 6 * place)) & 63;
                let padding = place > chunk.len();
                write!(
                    f,
                    "{}",
                    if padding {
                        '='
                    } else {
                        char::from(ALPHABET[index as usize])
                    }
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not of the form `sha256-<base64>`");
        let digits = text
            .strip_prefix(PREFIX)
            .and_then(|t| t.strip_suffix('='))
            .ok_or_else(invalid)?;
        if digits.len() != 43 {
            return Err(invalid());
        }
        let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::with_capacity(32));
        for digit in digits.bytes() {
            let value = ALPHABET
                .iter()
                .position(|&a| a == digit)
                .ok_or_else(invalid)?;
            bits = bits << 6 | u32::try_from(value).map_err(|_| invalid())?;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.extend(u8::try_from(bits >> held & 0xff));
            }
        }
        let hash = Self(bytes.try_into().map_err(|_| invalid())?);
        // The last digit carries two bits that must be zero; one digest has one spelling.
        if hash.to_string() == text {
            Ok(hash)
        } else {
            Err(invalid())
        }
    }
}

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(hash: Sha256) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_both_ways() {
        // `printf '' | openssl dgst -sha256 -binary | base64`
        let empty =
            Sha256::from_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
                .unwrap();
        assert_eq!(
            empty.to_string(),
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
        assert_eq!(empty.to_string().parse::<Sha256>().unwrap(), empty);
        assert_eq!(Sha256::from_hex(&empty.hex()), Some(empty));
    }

    #[test]
    fn refuses_other_spellings() {
        let good = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        for bad in [
            good.replace("sha256-", "sha512-"),
            good.replace('+', "-"),
            good.replace("FU=", "FV="),
            good.replace("FU=", "="),
            String::new(),
        ] {
            assert!(bad.parse::<Sha256>().is_err(), "{bad}");
        }
        assert!(Sha256::from_hex("e3b0").is_none());
    }
}

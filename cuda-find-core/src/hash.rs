//! Digests of names, keys and contents. They are SHA-256, because another text with the same digest cannot be made on
//! purpose. They are the same on every machine and with every version of Rust.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::command::Invocation;

/// How many bytes a digest has.
const LENGTH: usize = 32;

/// Files of this size are left to `sha256sum`, because build scripts are compiled without optimization: they hash 20 MB
/// in a second, and a compiler has 300 MB.
const LARGE_FILE: u64 = 4_000_000;

/// A digest. It is printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; LENGTH]);

impl Digest {
    /// The first 32 hexadecimal digits, for names of files and directories that are not shared between users.
    pub fn short(&self) -> String {
        self.to_string()[..LENGTH].to_owned()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads what [`Digest`] prints.
impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 2 * LENGTH || !text.is_ascii() {
            return Err(());
        }
        let mut bytes = [0; LENGTH];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            let is_lower_case = !digits
                .bytes()
                .any(|digit| digit.is_ascii_uppercase() || digit == b'+');
            let number = u8::from_str_radix(digits, 16)
                .ok()
                .filter(|_| is_lower_case);
            *byte = number.ok_or(())?;
        }
        Ok(Self(bytes))
    }
}

/// A digest of a content.
pub fn of_content(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// A digest of the content of a large file, if `sha256sum` is on `PATH`. `None` for other files.
pub fn of_large_file(path: &Path, length: u64) -> Option<Digest> {
    if length < LARGE_FILE {
        return None;
    }
    let program = Invocation::new("sha256sum").args(["--".as_ref(), path]);
    let finished = program.run().ok().filter(|finished| finished.success)?;
    // A backslash says that the name, which follows, is escaped.
    let line = finished.stdout.trim_start_matches('\\');
    line.get(..2 * LENGTH)?.parse().ok()
}

/// A digest of several fields.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds a field.
    pub fn field(&mut self, bytes: &[u8]) {
        // The length comes first, so that the fields `ab`, `c` and `a`, `bc` differ.
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// The digest of the fields.
    pub fn digest(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares a real file")]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_printed() {
        let digest = of_content(b"abc");
        // The example of FIPS 180-2.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), expected);
        assert_eq!(expected.parse(), Ok(digest));
        assert_eq!(digest.short(), &expected[..32]);
        for text in [
            "",
            &expected[1..],
            &expected.to_uppercase(),
            &expected.replace("ba", "+a"),
        ] {
            assert_eq!(text.parse::<Digest>(), Err(()), "{text}");
        }
    }

    #[test]
    fn fields_have_borders() {
        let digest = |fields: &[&str]| {
            let mut hasher = Hasher::default();
            fields
                .iter()
                .for_each(|field| hasher.field(field.as_bytes()));
            hasher.digest()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
    }

    #[test]
    fn large_files_have_the_same_digest() {
        let directory = tempfile::tempdir().unwrap();
        let content = vec![b'x'; usize::try_from(LARGE_FILE).unwrap()];
        for name in ["a b", "--help", "line\nbreak"] {
            let path = directory.path().join(name);
            std::fs::write(&path, &content).unwrap();
            let digest = of_large_file(&path, LARGE_FILE);
            assert_eq!(digest, Some(of_content(&content)), "{name:?}");
        }
        assert_eq!(
            of_large_file(&directory.path().join("absent"), LARGE_FILE),
            None
        );
    }
}

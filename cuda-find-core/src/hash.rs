//! Digests of names, keys and contents. They are the same on every machine and with every version of Rust.

/// A digest of a file's content. It is computed from eight bytes at a time, because [`Fnv`] without
/// optimization, as in build scripts, takes longer than a compiler to read a source's headers.
pub fn of_content(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    for word in words {
        hash = add_word(hash, word.try_into().unwrap_or_default());
    }
    add_word(hash, last)
}

/// Every operation here is reversible, so two contents that differ in exactly one word have different digests.
fn add_word(hash: u64, word: [u8; 8]) -> u64 {
    let hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// FNV-1a, 64 bits.
#[derive(Clone, Copy)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a field.
    pub fn field(&mut self, bytes: &[u8]) {
        // The length comes first, so that the fields `ab`, `c` and `a`, `bc` differ.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The digest as a number.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The digest as sixteen hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

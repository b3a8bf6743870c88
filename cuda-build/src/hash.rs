//! The digest for names, keys and contents: the same on every machine and with every version of Rust.

/// FNV-1a, 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a field.
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        // The length comes first, so that the fields `ab`, `c` and `a`, `bc` differ.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The digest as a number.
    pub(crate) fn value(self) -> u64 {
        self.0
    }

    /// The digest as sixteen hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

//! One entry of a container: an image and its header.

use super::{ENTRY_HEADER, invalid, offset_at, outline, size_at};
use crate::capability::Capability;
use crate::error::Error;

/// The kind of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// PTX text, which the driver compiles for its GPU.
    Ptx,
    /// A cubin: an ELF file with SASS for one capability.
    Elf,
    /// LTO-IR, which nvJitLink links into SASS while the program runs.
    LtoIr,
    /// Another kind, such as Tile-IR, with its number in the header.
    Other(u16),
}

/// The compression of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Not compressed.
    None,
    /// An LZ4 block: the result of `--compress-mode speed`, and of every compression before CUDA 12.4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// One image in a container.
///
/// The whole header is kept, so that an entry is written back unchanged even if its header has fields that
/// this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(super) header: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Entry {
    /// Reads the entry at the start of `bytes`; returns it with its length.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let cut = || {
            invalid(format!(
                "an entry is cut off: {} bytes are left",
                bytes.len()
            ))
        };
        let header_len = offset_at(bytes, 4).ok_or_else(cut)?;
        let payload_len = size_at(bytes, 8).ok_or_else(cut)?;
        let compressed_len = offset_at(bytes, 16).ok_or_else(cut)?;
        if header_len < ENTRY_HEADER {
            return Err(invalid(format!(
                "an entry's header of {header_len} bytes; it has {ENTRY_HEADER} or more"
            )));
        }
        if compressed_len > payload_len {
            return Err(invalid(format!(
                "an entry has {compressed_len} compressed bytes, but a payload of {payload_len}"
            )));
        }
        let end = header_len.checked_add(payload_len).ok_or_else(cut)?;
        let header = bytes.get(..header_len).ok_or_else(cut)?.to_vec();
        let payload = bytes.get(header_len..end).ok_or_else(cut)?.to_vec();
        Ok((Self { header, payload }, end))
    }

    /// The kind of the payload.
    pub fn kind(&self) -> Kind {
        outline::kind(&self.header)
    }

    /// The capability that the image is for, with its suffix. (`cuobjdump` 13.4 omits the suffix `f`.)
    pub fn capability(&self) -> Capability {
        outline::capability(&self.header)
    }

    /// The compression of the payload.
    pub fn compression(&self) -> Compression {
        outline::compression(&self.header)
    }

    /// The image: a cubin, or PTX without the NULs at its end. `None` if it is compressed.
    pub fn image(&self) -> Option<&[u8]> {
        if self.compression() != Compression::None {
            return None;
        }
        let end = match self.kind() {
            Kind::Ptx => {
                let last = self.payload.iter().rposition(|&byte| byte != 0);
                last.map_or(0, |last| last + 1)
            }
            _ => self.payload.len(),
        };
        self.payload.get(..end)
    }
}

//! One image of a fat binary, with its header kept as it was read.

use super::read::{offset_at, size_at, u16_at, u32_at, u64_at};
use super::{ENTRY_HEADER, flag, invalid};
use crate::error::Error;

/// The kind of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// PTX text, which the driver compiles for its GPU.
    Ptx,
    /// A cubin: an ELF file with SASS for one capability.
    Elf,
    /// Something else, such as LTO-IR or Tile-IR, by its number in the header.
    Other(u16),
}

impl Kind {
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Ptx => 1,
            Self::Elf => 2,
            Self::Other(number) => number,
        }
    }

    const fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Ptx,
            2 => Self::Elf,
            other => Self::Other(other),
        }
    }
}

/// The compression of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// None.
    None,
    /// LZ4 block (`--compress-mode speed`, and all before CUDA 12.4).
    Lz4,
    /// Zstandard.
    Zstd,
}

/// One image: its header as it was read or made, and its payload.
///
/// The header is kept whole, so that writing an entry that was read gives the same bytes,
/// whatever newer fields it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    header: Vec<u8>,
    payload: Vec<u8>,
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
        if header_len < ENTRY_HEADER {
            return Err(invalid(format!(
                "an entry's header of {header_len} bytes; it has {ENTRY_HEADER} or more"
            )));
        }
        let end = header_len.checked_add(payload_len).ok_or_else(cut)?;
        let header = bytes.get(..header_len).ok_or_else(cut)?.to_vec();
        let payload = bytes.get(header_len..end).ok_or_else(cut)?.to_vec();
        let entry = Self { header, payload };
        if entry.stored_len() > entry.payload.len() {
            return Err(invalid(format!(
                "an entry with {} compressed bytes in a payload of {}",
                entry.stored_len(),
                entry.payload.len()
            )));
        }
        Ok((entry, end))
    }

    /// An entry from a header with correct lengths, and its payload.
    pub(super) fn from_parts(header: Vec<u8>, payload: Vec<u8>) -> Self {
        Self { header, payload }
    }

    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.header);
        out.extend_from_slice(&self.payload);
    }

    /// Length in the file, header included, in bytes.
    pub(super) fn written_len(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// The kind of the payload.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::from_number(u16_at(&self.header, 0).unwrap_or(0))
    }

    /// Capability × 10: 80, 90, 120.
    #[must_use]
    pub fn sm(&self) -> u32 {
        u32_at(&self.header, 28).unwrap_or(0)
    }

    /// `a` for `sm_90a`, `f` for `sm_100f`. `cuobjdump` 13.4 does not show `f`.
    #[must_use]
    pub fn suffix(&self) -> Option<char> {
        let flags = self.flags();
        if flags & flag::ARCHITECTURE_SPECIFIC != 0 {
            Some('a')
        } else if flags & flag::FAMILY_SPECIFIC != 0 {
            Some('f')
        } else {
            None
        }
    }

    /// `(major, minor)` of the PTX ISA; of a cubin, its ABI: `(1, 7)` up to CUDA 12 for
    /// capabilities below 10.0, `(1, 8)` after.
    #[must_use]
    pub fn version(&self) -> (u16, u16) {
        (
            u16_at(&self.header, 26).unwrap_or(0),
            u16_at(&self.header, 24).unwrap_or(0),
        )
    }

    /// The header's flags: 0x1 64-bit, 0x2 debug, 0x10 Linux, 0x2000 LZ4, 0x8000 Zstandard,
    /// 0x10_0000 `a`, 0x20_0000 `f`, 0x100_0000 can be finalised for later GPUs.
    #[must_use]
    pub fn flags(&self) -> u64 {
        u64_at(&self.header, 40).unwrap_or(0)
    }

    /// The compression of the payload.
    #[must_use]
    pub fn compression(&self) -> Compression {
        if self.flags() & flag::ZSTD != 0 {
            Compression::Zstd
        } else if self.flags() & flag::LZ4 != 0 {
            Compression::Lz4
        } else {
            Compression::None
        }
    }

    /// Length of the image before compression, in bytes; without compression, its padded length.
    #[must_use]
    pub fn uncompressed_len(&self) -> u64 {
        match u64_at(&self.header, 56) {
            Some(len) if len != 0 => len,
            _ => self.payload.len() as u64,
        }
    }

    /// The payload as it is in the file, compression and padding included.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The image: a cubin, or PTX without the NULs at its end. `None` if it is compressed.
    #[must_use]
    pub fn image(&self) -> Option<&[u8]> {
        if self.compression() != Compression::None {
            return None;
        }
        let end = match self.kind() {
            Kind::Ptx => self
                .payload
                .iter()
                .rposition(|&byte| byte != 0)
                .map_or(0, |last| last + 1),
            _ => self.payload.len(),
        };
        self.payload.get(..end)
    }

    /// The name of the source that `fatbinary --ident` has added, if it has.
    #[must_use]
    pub fn identifier(&self) -> Option<String> {
        let (start, len) = (offset_at(&self.header, 32)?, offset_at(&self.header, 36)?);
        if start == 0 || len == 0 {
            return None;
        }
        let bytes = self.header.get(start..start.checked_add(len)?)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Length of the payload without padding, in bytes, according to the header.
    fn stored_len(&self) -> usize {
        offset_at(&self.header, 16).unwrap_or(0)
    }
}

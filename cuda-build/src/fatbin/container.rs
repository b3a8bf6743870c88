//! Reads and writes containers.

use std::borrow::Cow;

use super::{CONTAINER_HEADER, ENTRY_HEADER, MAGIC, MAGIC_BYTES, flag};
use super::{invalid, offset_at, u16_at, u32_at, u64_at};
use crate::error::Error;
use cuda_find_core::capability::{Capability, Suffix};
use cuda_find_core::version::ToolkitVersion;

/// The version in `EI_ABIVERSION` from which the second ABI counts.
const SECOND_ABI: u16 = 8;

/// The kind of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// PTX text, which the driver compiles for its GPU.
    Ptx,
    /// A cubin: an ELF file with SASS for one capability.
    Elf,
    /// LTO-IR, which nvJitLink links into SASS while the program runs.
    LtoIr,
    /// Tile IR, which the driver compiles for its GPU.
    TileIr,
    /// Another kind, with its number in the header.
    Other(u16),
}

/// Decompresses a frame of Zstandard, which padding may follow. This crate has no decoder, because few builds need one.
pub type Decompress = fn(&[u8]) -> Option<Vec<u8>>;

/// The compression of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not compressed.
    None,
    /// An LZ4 block: the result of `--compress-mode speed`, and of every compression before CUDA 12.4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// The header of an entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryHeader {
    /// The kind of the payload.
    pub kind: Kind,
    /// The capability that the image is for, with its suffix. (`cuobjdump` 13.4 omits the suffix `f`.)
    pub capability: Capability,
    /// The compression of the payload.
    pub compression: Compression,
    /// For PTX, the version of its language: major and minor. For a cubin, the version of its ABI.
    pub version: (u16, u16),
    /// The length of this header in the file.
    pub header_len: u64,
    /// The length of the payload in the file.
    pub payload_len: u64,
}

impl EntryHeader {
    /// The CUDA release that compiled a cubin, from the start of its payload. `None` for other kinds, and if the
    /// compression hides the release.
    ///
    /// A cubin of the first ABI has the release in `e_version`, after `e_machine`: 0x76 for 11.8. LZ4 does not change
    /// these bytes. A cubin of the second ABI has it in the text of `.note.nv.tkinfo`.
    pub fn release(&self, payload: &[u8]) -> Option<ToolkitVersion> {
        const TEXT: &[u8] = b"Cuda compilation tools, release ";
        const EM_CUDA: &[u8] = &[0, 190, 0];
        let after = |text: &[u8]| {
            let at = payload.windows(text.len()).position(|part| part == text)?;
            payload.get(at + text.len()..)
        };
        if self.kind != Kind::Elf || self.compression == Compression::Zstd {
            return None;
        }
        if self.version.1 < SECOND_ABI {
            let number = u32::from(*after(EM_CUDA)?.first()?);
            return Some(ToolkitVersion::new(number / 10, number % 10));
        }
        let text = after(TEXT)?.split(|byte| *byte == b',').next()?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// Reads the fixed part of a header; `None` if `bytes` are too short.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = u32_at(bytes, 28)?;
        let flags = u64_at(bytes, 40)?;
        let suffix = if flags & flag::ARCHITECTURE_SPECIFIC != 0 {
            Some(Suffix::ArchSpecific)
        } else if flags & flag::FAMILY_SPECIFIC != 0 {
            Some(Suffix::Family)
        } else {
            None
        };
        Some(Self {
            kind: match u16_at(bytes, 0)? {
                1 => Kind::Ptx,
                2 => Kind::Elf,
                8 => Kind::LtoIr,
                128 => Kind::TileIr,
                other => Kind::Other(other),
            },
            capability: Capability::new(number / 10, number % 10).with_suffix(suffix),
            compression: if flags & flag::ZSTD != 0 {
                Compression::Zstd
            } else if flags & flag::LZ4 != 0 {
                Compression::Lz4
            } else {
                Compression::None
            },
            version: (u16_at(bytes, 26)?, u16_at(bytes, 24)?),
            header_len: offset_at(bytes, 4)? as u64,
            payload_len: u64_at(bytes, 8)?,
        })
    }
}

/// Reads the headers of the container at `at`, and returns them with the container's length. `read` returns the bytes
/// at an offset, and `None` if the file ends before their end. Payloads are not read, so a container of any size needs
/// little memory.
///
/// # Errors
/// [`cuda_find_core::error::Error::Format`] if there is no complete container at `at`.
pub fn read_headers(
    at: u64,
    mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Result<(Vec<EntryHeader>, u64), Error> {
    let truncated = || invalid(format!("the container at byte {at} is truncated"));
    let container_header = read(at, CONTAINER_HEADER).ok_or_else(truncated)?;
    let magic = u32_at(&container_header, 0).ok_or_else(truncated)?;
    if magic != MAGIC {
        return Err(invalid(format!(
            "{magic:#010x} at byte {at}, where {MAGIC:#010x} starts a container"
        )));
    }
    let (version, header_len) = (u16_at(&container_header, 4), u16_at(&container_header, 6));
    if version != Some(1) || header_len != Some(CONTAINER_HEADER as u16) {
        return Err(invalid(format!(
            "the container at byte {at} does not have version 1"
        )));
    }
    let start = (at.checked_add(CONTAINER_HEADER as u64)).ok_or_else(truncated)?;
    let length = u64_at(&container_header, 8).ok_or_else(truncated)?;
    let end = start.checked_add(length).ok_or_else(truncated)?;
    // The container is complete if its last byte exists.
    if length > 0 && read(end - 1, 1).is_none() {
        return Err(truncated());
    }
    let mut headers = Vec::new();
    let mut offset = start;
    while offset < end {
        let bytes = read(offset, ENTRY_HEADER).ok_or_else(truncated)?;
        let header = EntryHeader::parse(&bytes).ok_or_else(truncated)?;
        let reason = || format!("the entry at byte {offset} does not fit into its container");
        offset = (offset.checked_add(header.header_len))
            .and_then(|payload| payload.checked_add(header.payload_len))
            .filter(|next| header.header_len >= ENTRY_HEADER as u64 && *next <= end)
            .ok_or_else(|| invalid(reason()))?;
        headers.push(header);
    }
    Ok((headers, end - at))
}

/// One image in a container.
///
/// The bytes of the header are kept, so that an entry is written back unchanged even if its header has fields that
/// this crate does not know.
#[derive(Clone, Debug)]
pub struct Entry {
    header: EntryHeader,
    header_bytes: Vec<u8>,
    payload: Vec<u8>,
}

impl Entry {
    /// The entry with this header; `None` if the header is incomplete.
    pub(super) fn new(header_bytes: Vec<u8>, payload: Vec<u8>) -> Option<Self> {
        Some(Self {
            header: EntryHeader::parse(&header_bytes)?,
            header_bytes,
            payload,
        })
    }

    /// The header.
    pub fn header(&self) -> EntryHeader {
        self.header
    }

    /// The image, which `decompress` decompresses if necessary. `None` if that cannot be done.
    pub fn decompressed(&self, decompress: Option<Decompress>) -> Option<Cow<'_, [u8]>> {
        match self.header.compression {
            Compression::Zstd => decompress?(&self.payload).map(Cow::Owned),
            _ => self.image().map(Cow::Borrowed),
        }
    }

    /// The image: a cubin, or PTX without the NULs at its end. `None` if it is compressed.
    pub fn image(&self) -> Option<&[u8]> {
        if self.header.compression != Compression::None {
            return None;
        }
        if self.header.kind != Kind::Ptx {
            return Some(&self.payload);
        }
        let last = self.payload.iter().rposition(|byte| *byte != 0);
        self.payload.get(..last.map_or(0, |last| last + 1))
    }
}

/// A fat binary: the entries of one container or several. A `.fatbin` file has one container; the `.nv_fatbin` section
/// of a host object has one container for each translation unit.
///
/// ```
/// use cuda_build::fatbin::{Entry, Fatbin, Kind};
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n";
/// let fatbin = Fatbin::from_entries(vec![Entry::ptx("8.0".parse()?, text)?]);
/// let parsed = Fatbin::parse(&fatbin.write())?;
/// assert_eq!(parsed.write(), fatbin.write());
/// let header = parsed.entries().next().unwrap().header();
/// assert_eq!((header.kind, header.capability.sm()), (Kind::Ptx, "sm_80".to_owned()));
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fatbin {
    entries: Vec<Entry>,
}

impl Fatbin {
    /// Reads all containers of a `.fatbin` file or `.nv_fatbin` section. Linkers may put zeros
    /// between containers. Compressed entries stay compressed.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Format`] if the bytes contain no container, or anything that is neither a
    /// container nor zeros between containers.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let read = |offset: u64, len: usize| {
            let rest = bytes.get(usize::try_from(offset).ok()?..)?;
            Some(rest.get(..len)?.to_vec())
        };
        let mut entries = Vec::new();
        let mut at = 0;
        // The first byte of `MAGIC` is not zero, so a container starts at the first nonzero byte after the padding.
        while let Some(padding) = bytes[at..].iter().position(|&byte| byte != 0) {
            at += padding;
            let (headers, len) = read_headers(at as u64, read)?;
            let mut rest = &bytes[at + CONTAINER_HEADER..];
            for header in headers {
                let (header_bytes, after_header) = rest.split_at(header.header_len as usize);
                let (payload, after_entry) = after_header.split_at(header.payload_len as usize);
                entries.push(Entry {
                    header,
                    header_bytes: header_bytes.to_vec(),
                    payload: payload.to_vec(),
                });
                rest = after_entry;
            }
            at += len as usize;
        }
        if at == 0 {
            return Err(invalid(format!("no container in {} bytes", bytes.len())));
        }
        Ok(Self { entries })
    }

    /// One container with these entries in this order.
    pub fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// The bytes of a file with one container. Such a file that was read is written unchanged.
    pub fn write(&self) -> Vec<u8> {
        let entries = self.entries.iter();
        let parts = entries.flat_map(|entry| [&entry.header_bytes[..], &entry.payload]);
        let len: usize = parts.clone().map(<[u8]>::len).sum();
        let mut out = Vec::with_capacity(CONTAINER_HEADER + len);
        out.extend_from_slice(&MAGIC_BYTES);
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&(CONTAINER_HEADER as u16).to_le_bytes());
        out.extend_from_slice(&(len as u64).to_le_bytes());
        parts.for_each(|part| out.extend_from_slice(part));
        out
    }

    /// Every entry of every container.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let ptx = |capability: &str, version: &str| {
            let digits = capability.replace('.', "");
            let text = format!(".version {version}\n.target sm_{digits}\n");
            Entry::ptx(capability.parse().unwrap(), &text).unwrap()
        };
        let entries = vec![ptx("8.0", "8.0"), ptx("9.0a", "8.3"), ptx("10.0f", "8.8")];
        Fatbin::from_entries(entries).write()
    }

    #[test]
    fn containers_in_a_row_with_padding_between() {
        let container = sample();
        let padded = [
            &container[..],
            &vec![0; 8][..],
            &container[..],
            &vec![0; 24][..],
        ];
        let fatbin = Fatbin::parse(&padded.concat()).unwrap();
        assert_eq!(fatbin.entries().count(), 6);
        let written = fatbin.write();
        assert_eq!(Fatbin::parse(&written).unwrap().write(), written);
        assert_eq!(Fatbin::parse(&container).unwrap().write(), container);
    }

    #[test]
    fn headers_give_capability_and_version() {
        let fatbin = Fatbin::parse(&sample()).unwrap();
        let headers = fatbin.entries().map(Entry::header);
        let facts: Vec<_> = headers
            .map(|header| (header.kind, header.capability.to_string(), header.version))
            .collect();
        let expected = [("8.0", (8, 0)), ("9.0a", (8, 3)), ("10.0f", (8, 8))];
        assert_eq!(
            facts,
            expected.map(|(capability, version)| (Kind::Ptx, capability.to_owned(), version))
        );
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = sample();
        assert!(Fatbin::parse(&whole).is_ok());
        for len in 0..whole.len() {
            assert!(Fatbin::parse(&whole[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn errors_name_the_offset() {
        let message = |bytes: &[u8]| Fatbin::parse(bytes).unwrap_err().to_string();
        assert_eq!(
            message(b"\x7fELF and more bytes"),
            "not a valid fat binary: 0x464c457f at byte 0, where 0xba55ed50 starts a container"
        );
        assert!(message(&[]).contains("no container in 0 bytes"));
        assert!(message(&[0; 64]).contains("no container in 64 bytes"));
    }
}

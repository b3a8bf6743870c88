//! Lists the images of a container from its headers alone, so that a section of any size is read in little memory.

use super::{CONTAINER_HEADER, ENTRY_HEADER, MAGIC, flag, invalid, offset_at, size_at};
use super::{Compression, Kind};
use super::{u16_at, u32_at, u64_at};
use crate::capability::{Capability, Suffix};
use crate::error::Error;

/// The first four bytes of every container.
pub const MAGIC_BYTES: [u8; 4] = MAGIC.to_le_bytes();

/// The most entries that a container may have. nvcc writes one for each capability, twice if it also writes PTX.
const MAX_ENTRIES: usize = 4096;

/// One image of a container, as its header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The kind of the payload.
    pub kind: Kind,
    /// The capability that the image is for, with its suffix.
    pub capability: Capability,
    /// The compression of the payload.
    pub compression: Compression,
    /// For PTX, the version of its language: major and minor. For a cubin, the version of its ABI.
    pub version: (u16, u16),
    /// The length of the payload in the file.
    pub len: u64,
}

/// Lists the images of the container at `at`, and returns them with the container's length. `read` returns the bytes
/// at an offset, and `None` if the file ends before that.
///
/// # Errors
/// [`cuda_find::Error::Format`] if there is no complete container at `at`.
pub fn outline(
    at: u64,
    mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Result<(Vec<Outline>, u64), Error> {
    let cut = || invalid(format!("the container at byte {at} is cut off"));
    let header = read(at, CONTAINER_HEADER).ok_or_else(cut)?;
    let known = u32_at(&header, 0) == Some(MAGIC)
        && u16_at(&header, 4) == Some(1)
        && u16_at(&header, 6) == Some(CONTAINER_HEADER as u16);
    if !known {
        return Err(invalid(format!("no container of version 1 at byte {at}")));
    }
    let length = u64_at(&header, 8).ok_or_else(cut)?;
    let start = at.checked_add(CONTAINER_HEADER as u64).ok_or_else(cut)?;
    let end = start.checked_add(length).ok_or_else(cut)?;
    // The container is complete if its last byte exists.
    if length > 0 && read(end - 1, 1).is_none() {
        return Err(cut());
    }
    let mut entries = Vec::new();
    let mut offset = start;
    while offset < end {
        let header = read(offset, ENTRY_HEADER).ok_or_else(cut)?;
        let header_len = offset_at(&header, 4).ok_or_else(cut)? as u64;
        let payload_len = size_at(&header, 8).ok_or_else(cut)? as u64;
        let next = offset
            .checked_add(header_len)
            .and_then(|offset| offset.checked_add(payload_len))
            .filter(|next| header_len >= ENTRY_HEADER as u64 && *next <= end)
            .ok_or_else(|| {
                invalid(format!(
                    "the entry at byte {offset} is longer than its container"
                ))
            })?;
        if entries.len() == MAX_ENTRIES {
            return Err(invalid(format!(
                "the container at byte {at} has more than {MAX_ENTRIES} entries"
            )));
        }
        let version = |offset| u16_at(&header, offset).unwrap_or(0);
        entries.push(Outline {
            kind: kind(&header),
            capability: capability(&header),
            compression: compression(&header),
            version: (version(26), version(24)),
            len: payload_len,
        });
        offset = next;
    }
    Ok((entries, end - at))
}

pub(super) fn kind(header: &[u8]) -> Kind {
    match u16_at(header, 0).unwrap_or(0) {
        1 => Kind::Ptx,
        2 => Kind::Elf,
        8 => Kind::LtoIr,
        other => Kind::Other(other),
    }
}

fn flags(header: &[u8]) -> u64 {
    u64_at(header, 40).unwrap_or(0)
}

pub(super) fn capability(header: &[u8]) -> Capability {
    let (number, flags) = (u32_at(header, 28).unwrap_or(0), flags(header));
    let suffix = if flags & flag::ARCHITECTURE_SPECIFIC != 0 {
        Some(Suffix::ArchSpecific)
    } else if flags & flag::FAMILY_SPECIFIC != 0 {
        Some(Suffix::Family)
    } else {
        None
    };
    Capability::new(number / 10, number % 10).with_suffix(suffix)
}

pub(super) fn compression(header: &[u8]) -> Compression {
    let flags = flags(header);
    if flags & flag::ZSTD != 0 {
        Compression::Zstd
    } else if flags & flag::LZ4 != 0 {
        Compression::Lz4
    } else {
        Compression::None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CompiledImage, Fatbin};
    use super::*;

    fn sample() -> Vec<u8> {
        let ptx = |capability: &str, version: &str| CompiledImage::Ptx {
            capability: capability.parse().unwrap(),
            text: format!(
                ".version {version}\n.target sm_{}\n",
                capability.replace('.', "")
            ),
        };
        let images = vec![ptx("8.0", "8.0"), ptx("9.0a", "8.3"), ptx("10.0f", "8.8")];
        Fatbin::from_images(images).unwrap().write()
    }

    fn outline_of(bytes: &[u8], at: u64) -> Result<(Vec<Outline>, u64), Error> {
        outline(at, |offset, len| {
            let start = usize::try_from(offset).ok()?;
            Some(bytes.get(start..start.checked_add(len)?)?.to_vec())
        })
    }

    #[test]
    fn outline_has_the_entries_of_the_file() {
        let bytes = [vec![7; 3], sample()].concat();
        let (entries, len) = outline_of(&bytes, 3).unwrap();
        assert_eq!(len as usize, bytes.len() - 3);
        let fatbin = Fatbin::parse(&sample()).unwrap();
        let expected: Vec<_> = fatbin
            .entries()
            .map(|e| (e.kind(), e.capability(), e.compression()))
            .collect();
        let read: Vec<_> = entries
            .iter()
            .map(|e| (e.kind, e.capability, e.compression))
            .collect();
        assert_eq!(read, expected);
        let versions: Vec<_> = entries.iter().map(|e| e.version).collect();
        assert_eq!(versions, [(8, 0), (8, 3), (8, 8)]);
    }

    #[test]
    fn truncated_containers_have_no_outline() {
        let whole = sample();
        for len in 0..whole.len() {
            assert!(outline_of(&whole[..len], 0).is_err(), "{len} bytes");
        }
    }
}

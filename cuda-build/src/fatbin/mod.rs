//! The fat binary container: several images, each a cubin or PTX, in one file. The driver loads the image
//! that fits its GPU.
//!
//! This module converts bytes and accesses no files. For the same images, its output equals the output of
//! NVIDIA's `fatbinary --compress-mode none` byte for byte (compared with 13.4; nvFatbin 12.9 writes the
//! same headers). There is one exception: `fatbinary` removes comments and indentation from PTX.
//!
//! All numbers are little-endian. A file or `.nv_fatbin` section is a sequence of containers:
//!
//! ```text
//! container   u32 magic 0xBA55ED50 | u16 version 1 | u16 header length 16 | u64 length of the entries
//! entry    0  u16 kind: 1 PTX, 2 ELF | u16 0x0101 | u32 header length | u64 payload length (multiple of 8)
//!         16  u32 compressed length (0: not compressed) | u32 offset of the notes in the header (0: none)
//!         24  u16 minor, u16 major: of the PTX ISA, or of the cubin's ABI | u32 capability × 10
//!         32  u32 offset of the source's name in the header (0: none) | u32 its length
//!         40  u64 flags | u64 0 | u64 uncompressed length (0: not compressed)
//!         64  source's name, NUL-ended, padded to 8
//!          …  notes: u32 offset of their text in the header | u32 length | text, padded to 8
//! payload     cubin, or PTX with a NUL; padded with NULs to a multiple of 8
//! ```
//!
//! For PTX, the text of the notes is the options for `ptxas`. For a cubin that may be finalised for later
//! GPUs, the text is a NUL and a copy of the section `.nv.compat`. Such a cubin has `EI_OSABI` 0x41, and
//! `e_flags & 3` is not zero. NVIDIA documents none of this. It was found by changing one field of a cubin
//! at a time and running `fatbinary` and nvFatbin on the result.

mod container;
pub(crate) mod elf;
mod image;

pub use container::{Compression, Decompress, Entry, EntryHeader, Fatbin, Kind, read_headers};

/// The number that every container starts with.
const MAGIC: u32 = 0xBA55_ED50;
/// The first four bytes of every container, in the order of a file.
pub const MAGIC_BYTES: [u8; 4] = MAGIC.to_le_bytes();
/// Length of a container's header.
const CONTAINER_HEADER: usize = 16;
/// Length of the fixed part of an entry's header.
const ENTRY_HEADER: usize = 64;

/// Entry flags.
mod flag {
    /// 64-bit device addresses.
    pub(super) const ADDRESS_64: u64 = 0x1;
    /// The host is Linux.
    pub(super) const LINUX: u64 = 0x10;
    /// The payload is compressed with LZ4.
    pub(super) const LZ4: u64 = 0x2000;
    /// The payload is compressed with Zstandard.
    pub(super) const ZSTD: u64 = 0x8000;
    /// The image runs on exactly this capability (`sm_90a`).
    pub(super) const ARCHITECTURE_SPECIFIC: u64 = 0x10_0000;
    /// The image runs on this family of capabilities (`sm_100f`).
    pub(super) const FAMILY_SPECIFIC: u64 = 0x20_0000;
    /// The cubin also contains code that can be finalised for later GPUs.
    pub(super) const FINALIZABLE: u64 = 0x100_0000;
}

/// `N` bytes at `offset`; `None` if the file is too short.
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes_at(bytes, offset).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes_at(bytes, offset).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes_at(bytes, offset).map(u64::from_le_bytes)
}

/// A length or an offset of 64 bits; `None` if the file is too short, or if the number does not fit in a `usize`.
fn size_at(bytes: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, offset)?).ok()
}

/// A length or an offset of 32 bits.
fn offset_at(bytes: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, offset)?).ok()
}

/// The error for bytes that are not a fat binary, or not an image.
fn invalid(reason: impl Into<String>) -> crate::Error {
    cuda_find_core::error::Error::Format {
        what: "fat binary",
        reason: reason.into(),
        hint: "delete the file that contains it, or all build outputs with `cargo clean`, and build again",
    }
    .into()
}

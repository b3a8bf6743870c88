//! Little-endian numbers at offsets that may be outside the file.

/// `N` bytes at `offset`; `None` if the file is too short.
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes_at(bytes, offset).map(u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes_at(bytes, offset).map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes_at(bytes, offset).map(u64::from_le_bytes)
}

/// A length or an offset from a file; `None` if this machine cannot address it.
pub(super) fn size_at(bytes: &[u8], offset: usize) -> Option<usize> {
    u64_at(bytes, offset).and_then(|value| usize::try_from(value).ok())
}

/// A 32-bit offset from a file.
pub(super) fn offset_at(bytes: &[u8], offset: usize) -> Option<usize> {
    u32_at(bytes, offset).and_then(|value| usize::try_from(value).ok())
}

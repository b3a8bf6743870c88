//! Reads and writes containers.

use super::{CONTAINER_HEADER, CompiledImage, Entry, MAGIC, MAGIC_BYTES};
use super::{invalid, size_at, u16_at, u32_at};
use crate::error::Error;

/// A fat binary: the entries of one container or several. A `.fatbin` file has one container; the `.nv_fatbin` section of
/// a host object has one container for each translation unit.
///
/// ```
/// use cuda_build::detail::fatbin::{Fatbin, CompiledImage, Kind};
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
/// let fatbin = Fatbin::from_images(vec![CompiledImage::Ptx { capability: "8.0".parse()?, text }])?;
/// let again = Fatbin::parse(&fatbin.write())?;
/// assert_eq!(again, fatbin);
/// let entry = again.entries().next().unwrap();
/// assert_eq!((entry.kind(), entry.capability().sm()), (Kind::Ptx, "sm_80".to_owned()));
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatbin {
    entries: Vec<Entry>,
}

impl Fatbin {
    /// Reads all containers of a `.fatbin` file or `.nv_fatbin` section. Linkers may put zeros
    /// between containers. Compressed entries stay compressed.
    ///
    /// # Errors
    /// [`cuda_find::Error::Format`] if the bytes contain no container, or anything that is neither a container nor zeros
    /// between containers.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut entries = Vec::new();
        let mut offset = 0;
        while let Some(skipped) = bytes
            .get(offset..)
            .and_then(|rest| rest.iter().position(|&byte| byte != 0))
        {
            let start = offset + skipped;
            // The first byte of `MAGIC` is not zero, so a container starts at the first nonzero byte after the padding.
            let (container, len) = parse_container(&bytes[start..], start)?;
            entries.extend(container);
            offset = start + len;
        }
        if offset == 0 {
            return Err(invalid(format!("no container in {} bytes", bytes.len())));
        }
        Ok(Self { entries })
    }

    /// Makes one container of these images in this order.
    ///
    /// # Errors
    /// [`cuda_find::Error::Format`] in these cases: the bytes of a cubin are not a cubin; PTX lacks `.version` or `.target`; an
    /// image was compiled for another capability than the one in its `capability` field.
    pub fn from_images(images: Vec<CompiledImage>) -> Result<Self, Error> {
        let entries = images.into_iter().map(CompiledImage::into_entry);
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// One container with these entries in this order.
    pub(crate) fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// The bytes of a file with one container. Such a file that was read is written unchanged.
    pub fn write(&self) -> Vec<u8> {
        let lengths = self.entries.iter();
        let lengths = lengths.map(|entry| entry.header.len() + entry.payload.len());
        let len: usize = lengths.sum();
        let mut out = Vec::with_capacity(CONTAINER_HEADER + len);
        out.extend_from_slice(&MAGIC_BYTES);
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&(CONTAINER_HEADER as u16).to_le_bytes());
        out.extend_from_slice(&(len as u64).to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.header);
            out.extend_from_slice(&entry.payload);
        }
        out
    }

    /// Every entry of every container.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

/// Reads the container at the start of `bytes`, which is at offset `at` of the file; returns its
/// entries and its length.
fn parse_container(bytes: &[u8], at: usize) -> Result<(Vec<Entry>, usize), Error> {
    let cut = || {
        invalid(format!(
            "the container at byte {at} is cut off ({} bytes)",
            bytes.len()
        ))
    };
    let magic = u32_at(bytes, 0).ok_or_else(cut)?;
    if magic != MAGIC {
        return Err(invalid(format!(
            "{magic:#010x} at byte {at}, where {MAGIC:#010x} starts a container"
        )));
    }
    let version = u16_at(bytes, 4).ok_or_else(cut)?;
    let header_len = usize::from(u16_at(bytes, 6).ok_or_else(cut)?);
    if version != 1 || header_len != CONTAINER_HEADER {
        return Err(invalid(format!(
            "container version {version} with a header of {header_len} bytes at byte {at}; only \
             version 1 with {CONTAINER_HEADER} bytes is known"
        )));
    }
    let body_len = size_at(bytes, 8).ok_or_else(cut)?;
    let end = CONTAINER_HEADER.checked_add(body_len).ok_or_else(cut)?;
    let mut body = bytes.get(CONTAINER_HEADER..end).ok_or_else(cut)?;
    let mut entries = Vec::new();
    while !body.is_empty() {
        // `len` is at least `ENTRY_HEADER`, so the loop ends.
        let (entry, len) = Entry::parse(body)?;
        entries.push(entry);
        body = &body[len..];
    }
    Ok((entries, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;

    fn sample() -> Vec<u8> {
        let ptx = |major: u32| CompiledImage::Ptx {
            capability: Capability::new(major, 0),
            text: format!(".version 8.0\n.target sm_{major}0\n.address_size 64\n"),
        };
        Fatbin::from_images(vec![ptx(8), ptx(9)]).unwrap().write()
    }

    #[test]
    fn containers_in_a_row_with_padding_between() {
        let one = sample();
        let section = [one.clone(), vec![0; 8], one.clone(), vec![0; 24]].concat();
        let fatbin = Fatbin::parse(&section).unwrap();
        assert_eq!(fatbin.entries().count(), 4);
        assert_eq!(Fatbin::parse(&fatbin.write()).unwrap(), fatbin);
        assert_eq!(Fatbin::parse(&one).unwrap().write(), one);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = sample();
        assert!(Fatbin::parse(&whole).is_ok());
        for len in 0..whole.len() {
            assert!(
                Fatbin::parse(&whole[..len]).is_err(),
                "{len} of {} bytes",
                whole.len()
            );
        }
    }

    #[test]
    fn refusals_say_where() {
        let said = Fatbin::parse(b"\x7fELF and more").unwrap_err().to_string();
        assert_eq!(
            said,
            "not a valid fat binary: 0x464c457f at byte 0, where 0xba55ed50 starts a container"
        );
        assert!(
            Fatbin::parse(&[])
                .unwrap_err()
                .to_string()
                .contains("no container in 0 bytes")
        );
        assert!(
            Fatbin::parse(&[0; 64])
                .unwrap_err()
                .to_string()
                .contains("no container in 64 bytes")
        );
    }
}

//! Finds device code in a file of any size: fat binaries in sections and in data (`include_bytes!`), and PTX as text.
//!
//! The file is read once, in blocks, and only headers of images are kept. Nothing is decompressed, because the header of
//! an image has its kind, its capability and its version of PTX.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use cuda_build::Capability;
use cuda_build::internal::fatbin::{self, Compression, Kind, Outline};
use memchr::memmem::Finder;

use super::device::DeviceCode;

/// The size of a block. Fat binaries of real libraries have some kilobytes to some megabytes.
const BLOCK: usize = 1 << 20;

/// The most containers and images of one file. The largest real libraries have about a hundred thousand.
const MAX_HEADERS: usize = 2_000_000;

/// The start of the line in PTX that names the capability.
const TARGET: &[u8] = b"\n.target sm_";

/// The start of the line before it.
const VERSION: &[u8] = b".version ";

/// How far `.version` is before `.target`.
const DIRECTIVES: usize = 256;

/// Reads the device code of a file. `relocatable` are the ranges of sections with relocatable code.
pub fn scan(file: &mut (impl Read + Seek), relocatable: &[Range<u64>]) -> io::Result<DeviceCode> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut code = DeviceCode {
        relocatable: relocatable
            .iter()
            .map(|range| range.end.min(end).saturating_sub(range.start))
            .sum(),
        ..DeviceCode::default()
    };
    let magic = Finder::new(&fatbin::MAGIC_BYTES);
    let target = Finder::new(TARGET);
    let is_relocatable = |at: u64| relocatable.iter().any(|range| range.contains(&at));
    let mut headers = 0;
    let mut block = Vec::with_capacity(BLOCK);
    // The first byte that is not examined yet.
    let mut start = 0;
    while start < end {
        // A block begins before `start`, so that the directives before a `.target` are in it.
        let from = start.saturating_sub(DIRECTIVES as u64);
        file.seek(SeekFrom::Start(from))?;
        block.clear();
        file.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        // What begins near the end of a block is examined with the next one.
        let limit = match from + block.len() as u64 >= end {
            true => block.len(),
            false => block.len().saturating_sub(DIRECTIVES),
        };
        let mut position = (start - from) as usize;
        if position >= limit {
            // The file became shorter.
            break;
        }
        while position < limit {
            let found = magic.find(&block[position..]).map(|found| position + found);
            let found = found.filter(|found| *found < limit);
            // The images of a container may contain any text, so only the text before it is searched.
            let text_end = found.unwrap_or(limit);
            let searched = &block[position..(text_end + TARGET.len() - 1).min(block.len())];
            for found in target.find_iter(searched) {
                if let Some(image) = ptx(&block, position + found)
                    && !is_relocatable(from + (position + found) as u64)
                {
                    code.add(&image);
                }
            }
            let Some(found) = found else {
                position = limit;
                break;
            };
            position = found;
            let at = from + position as u64;
            headers += 1;
            let outline = fatbin::outline(at, |offset, len| {
                headers += 1;
                bytes_at(file, &block, from, offset, len)
            });
            if headers > MAX_HEADERS {
                return Err(io::Error::other(format!(
                    "it has more than {MAX_HEADERS} headers of fat binaries, more than any real library"
                )));
            }
            match outline {
                Ok((images, len)) => {
                    if !is_relocatable(at) {
                        images.iter().for_each(|image| code.add(image));
                    }
                    position = position.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                }
                Err(_) => position += 1,
            }
        }
        start = from.saturating_add(position as u64);
    }
    Ok(code)
}

/// The bytes at an offset of the file, from the block if they are in it.
fn bytes_at(
    file: &mut (impl Read + Seek),
    block: &[u8],
    from: u64,
    offset: u64,
    len: usize,
) -> Option<Vec<u8>> {
    let in_block = offset.checked_sub(from).and_then(|start| {
        let start = usize::try_from(start).ok()?;
        block.get(start..start.checked_add(len)?)
    });
    if let Some(bytes) = in_block {
        return Some(bytes.to_vec());
    }
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(offset)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The PTX whose `.target` line begins at `at`. Compilers contain the same text as a template, without numbers.
fn ptx(block: &[u8], at: usize) -> Option<Outline> {
    let word = |bytes: &[u8]| -> String {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'.';
        bytes
            .iter()
            .take(16)
            .take_while(is_word)
            .map(|byte| char::from(*byte))
            .collect()
    };
    let capability: Capability = word(&block[at + TARGET.len()..]).parse().ok()?;
    let before = &block[at.saturating_sub(DIRECTIVES)..at];
    let line = memchr::memmem::rfind(before, VERSION)? + VERSION.len();
    let version = word(&before[line..]);
    let (major, minor) = version.split_once('.')?;
    Some(Outline {
        kind: Kind::Ptx,
        capability,
        compression: Compression::None,
        version: (major.parse().ok()?, minor.parse().ok()?),
        len: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use cuda_build::internal::fatbin::{CompiledImage, Fatbin};

    use super::*;

    fn ptx_text(sm: &str) -> String {
        format!("//\n.version 8.3\n.target sm_{sm}\n.address_size 64\n")
    }

    fn fatbin(capabilities: &[&str]) -> Vec<u8> {
        let image = |capability: &&str| CompiledImage::Ptx {
            capability: capability.parse().unwrap(),
            text: ptx_text(capability),
        };
        Fatbin::from_images(capabilities.iter().map(image).collect())
            .unwrap()
            .write()
    }

    fn found(bytes: Vec<u8>) -> Vec<String> {
        let code = scan(&mut Cursor::new(bytes), &[]).unwrap();
        code.images
            .keys()
            .map(|image| image.capability.to_string())
            .collect()
    }

    #[test]
    fn code_is_found_at_every_place() {
        for before in [0, 1, 7, BLOCK - 300, BLOCK - 20, BLOCK, 2 * BLOCK + 3] {
            let bytes = [vec![1; before], fatbin(&["80", "90a"]), vec![1; 10]].concat();
            assert_eq!(found(bytes), ["8.0", "9.0a"], "{before} bytes before");
            let bytes = [vec![b' '; before], ptx_text("75").into_bytes(), vec![1; 10]].concat();
            assert_eq!(found(bytes), ["7.5"], "{before} bytes before");
        }
        let two = [fatbin(&["80"]), vec![0; 8], fatbin(&["120"])].concat();
        assert_eq!(found(two), ["8.0", "12.0"]);
    }

    #[test]
    fn text_of_compilers_is_no_code() {
        assert!(found(b".version 8.0\n.target sm_%d\n".to_vec()).is_empty());
        assert!(found(b"\n.target sm_80\n".to_vec()).is_empty());
        assert!(found(fatbin(&["80"])[..40].to_vec()).is_empty());
    }

    #[test]
    fn relocatable_code_is_counted_apart() {
        let bytes = fatbin(&["80"]);
        let len = bytes.len() as u64;
        let whole = std::iter::once(0..len);
        let code = scan(&mut Cursor::new(bytes), &whole.collect::<Vec<_>>()).unwrap();
        assert!(code.images.is_empty());
        assert_eq!(code.relocatable, len);
    }

    #[test]
    fn headers_in_headers_end() {
        let bytes = fatbin::MAGIC_BYTES.repeat(600_000);
        assert!(found(bytes).is_empty());
    }
}

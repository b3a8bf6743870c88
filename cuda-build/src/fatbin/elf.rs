//! Reads 64-bit little-endian ELF files: cubins and host objects.

use cuda_find_core::list::Set;

use super::{offset_at, size_at, u16_at, u32_at};

/// One section of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Section<'a> {
    name: &'a [u8],
    kind: u32,
    link: usize,
    content: &'a [u8],
}

/// One row of the symbol table, with the fields that `elf.h` defines.
struct Symbol<'a> {
    name: &'a [u8],
    info: u8,
    other: u8,
    section: usize,
    value: usize,
    size: usize,
}

impl Symbol<'_> {
    fn kind(&self) -> u8 {
        self.info & 0xf
    }

    fn is_kernel(&self) -> bool {
        self.kind() == FUNCTION && self.other & KERNEL != 0
    }
}

/// The type of an object in the file's header.
const RELOCATABLE: u16 = 1;
// Types of sections.
const SYMBOL_TABLE: u32 = 2;
const NO_BITS: u32 = 8;
// Types of symbols: the low four bits of `Symbol::info`.
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
/// The largest alignment of a section of device code that [`with_section`] expects: that of a page.
const LARGEST_ALIGNMENT: usize = 4096;
/// The types of symbols for texture and surface references, which exist up to CUDA 11.
const REFERENCES: std::ops::RangeInclusive<u8> = 10..=12;
/// The bit of `Symbol::other` that marks a function as a kernel.
const KERNEL: u8 = 0x10;

/// The sections of a cubin that contain variables.
const VARIABLE_SECTIONS: [&[u8]; 3] = [b".nv.global", b".nv.global.init", b".nv.constant3"];

/// The sections of a file; empty if the bytes are not a complete 64-bit little-endian ELF file.
pub(crate) fn sections(bytes: &[u8]) -> Vec<Section<'_>> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Vec::new();
    }
    read_sections(bytes).unwrap_or_default()
}

fn read_sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    let table = size_at(bytes, 40)?;
    let size = usize::from(u16_at(bytes, 58)?);
    let count = usize::from(u16_at(bytes, 60)?);
    let names = usize::from(u16_at(bytes, 62)?);
    let header = |index: usize| bytes.get(table.checked_add(index.checked_mul(size)?)?..);
    let content = |header| {
        let start = size_at(header, 24)?;
        match u32_at(header, 4)? {
            NO_BITS => Some(&[][..]),
            _ => bytes.get(start..start.checked_add(size_at(header, 32)?)?),
        }
    };
    let strings = content(header(names)?)?;
    let section = |header| {
        Some(Section {
            name: text_at(strings, offset_at(header, 0)?)?,
            kind: u32_at(header, 4)?,
            link: offset_at(header, 40)?,
            content: content(header)?,
        })
    };
    (0..count).map(|index| section(header(index)?)).collect()
}

/// The NUL-terminated text at `offset` in a string table.
fn text_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    strings.get(offset..)?.split(|&byte| byte == 0).next()
}

/// The content of the section with this name.
pub(crate) fn section<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let sections = sections(bytes);
    let section = sections.iter().find(|section| section.name == name)?;
    Some(section.content)
}

/// The object `bytes` with other content in the section with this name. The content is at the end of the file, because
/// an object has no segments, whose places in the file would have to fit.
///
/// `None` if the bytes are not a relocatable object with one such section, if a symbol refers to a place inside the
/// section, if the section itself has relocations, or if a linker may take the content from a section for link-time
/// optimization instead.
pub(crate) fn with_section(bytes: &[u8], name: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let before = sections(bytes);
    let index = before.iter().position(|section| section.name == name)?;
    let relocations = [b".rela", name].concat();
    let is_unexpected = |(other, section): (usize, &Section<'_>)| {
        other != index && section.name == name
            || section.name == relocations
            || section.name.starts_with(b".gnu.lto_")
    };
    let symbols = symbols(&before)?.into_iter();
    let mut inside = symbols.filter(|symbol| symbol.section == index);
    let header = size_at(bytes, 40)? + index * usize::from(u16_at(bytes, 58)?);
    let alignment = size_at(bytes, header + 48)?.max(1);
    if u16_at(bytes, 16)? != RELOCATABLE
        || before.iter().enumerate().any(is_unexpected)
        || inside.any(|symbol| (symbol.value, symbol.size) != (0, 0))
        || alignment > LARGEST_ALIGNMENT
    {
        return None;
    }
    let start = size_at(bytes, header + 24)?;
    let mut object = bytes.to_vec();
    // A search of the file for fat binaries must not find the old one.
    object
        .get_mut(start..start + before[index].content.len())?
        .fill(0);
    object.resize(object.len().next_multiple_of(alignment), 0);
    for (field, value) in [(24, object.len()), (32, content.len())] {
        let field = object.get_mut(header + field..header + field + 8)?;
        field.copy_from_slice(&u64::try_from(value).ok()?.to_le_bytes());
    }
    object.extend_from_slice(content);
    let after = sections(&object);
    let is_right = |(other, section): (usize, &Section<'_>)| match other == index {
        true => section.content == content,
        false => before.get(other) == Some(section),
    };
    let is_complete = after.len() == before.len() && after.iter().enumerate().all(is_right);
    is_complete.then_some(object)
}

fn symbols<'a>(sections: &[Section<'a>]) -> Option<Vec<Symbol<'a>>> {
    let table = sections.iter().find(|s| s.kind == SYMBOL_TABLE)?;
    let strings = sections.get(table.link)?.content;
    let symbol = |row| {
        Some(Symbol {
            name: text_at(strings, offset_at(row, 0)?)?,
            info: *row.get(4)?,
            other: *row.get(5)?,
            section: usize::from(u16_at(row, 6)?),
            value: size_at(row, 8)?,
            size: size_at(row, 16)?,
        })
    };
    table.content.chunks_exact(24).map(symbol).collect()
}

/// The names of the kernels, variables, and texture and surface references that a cubin defines, with the sizes of
/// variables. `None` if the bytes are not a cubin with a symbol table.
pub(crate) fn device_names(cubin: &[u8]) -> Option<Set<(Vec<u8>, usize)>> {
    let sections = sections(cubin);
    let mut names = Set::default();
    for symbol in symbols(&sections)? {
        let Some(section) = sections.get(symbol.section).filter(|_| symbol.section != 0) else {
            continue;
        };
        let is_variable = symbol.kind() == OBJECT && VARIABLE_SECTIONS.contains(&section.name);
        if is_variable && !symbol.name.starts_with(b"$") {
            // A name that starts with `$`, such as `$str`, belongs to a constant that the compiler generated.
            names.insert((symbol.name.to_vec(), symbol.size));
        } else if symbol.is_kernel() || REFERENCES.contains(&symbol.kind()) {
            names.insert((symbol.name.to_vec(), 0));
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object with a section of device code, a table of symbols with one symbol, and a section with this name.
    fn object(symbol_size: u8, other: &str) -> Vec<u8> {
        let names = format!("\0.nv_fatbin\0.symtab\0.strtab\0{other}\0");
        let mut symbols = vec![0; 48];
        (symbols[24 + 6], symbols[24 + 16]) = (1, symbol_size);
        let rows: [(&str, u8, u8, &[u8]); 5] = [
            ("\0", 0, 0, b""),
            (".nv_fatbin\0", 1, 0, b"old code"),
            (".symtab\0", 2, 3, &symbols),
            (".strtab\0", 3, 0, names.as_bytes()),
            (other, 1, 0, b"data"),
        ];
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        (file[16], file[58], file[60], file[62]) = (1, 64, 5, 3);
        let mut table = Vec::new();
        for (name, kind, link, content) in rows {
            let mut header = [0; 64];
            header[0] = u8::try_from(names.find(name).unwrap()).unwrap();
            (header[4], header[40], header[48]) = (kind, link, 8);
            let place = u16::try_from(file.len()).unwrap();
            header[24..26].copy_from_slice(&place.to_le_bytes());
            header[32] = u8::try_from(content.len()).unwrap();
            file.extend(content);
            table.extend(header);
        }
        let place = u16::try_from(file.len()).unwrap();
        file[40..42].copy_from_slice(&place.to_le_bytes());
        file.extend(table);
        file
    }

    #[test]
    fn a_section_gets_other_content_at_the_end() {
        let before = object(0, ".text");
        let after = with_section(&before, b".nv_fatbin", b"new, longer code").unwrap();
        assert_eq!(section(&after, b".nv_fatbin").unwrap(), b"new, longer code");
        assert!(after.ends_with(b"new, longer code") && (after.len() - 16) % 8 == 0);
        assert!(!after.windows(8).any(|bytes| bytes == b"old code"));
        for name in [&b".text"[..], b".symtab", b".strtab"] {
            assert_eq!(section(&after, name), section(&before, name));
        }
    }

    #[test]
    fn an_unexpected_object_is_left_alone() {
        let changed = |place: usize, value: u8| {
            let mut bytes = object(0, ".text");
            bytes[place] = value;
            bytes
        };
        for bytes in [
            object(1, ".text"),
            object(0, ".nv_fatbin"),
            object(0, ".rela.nv_fatbin"),
            object(0, ".gnu.lto_.decls"),
            // 32-bit, big-endian, a shared library, a table beyond the end.
            changed(4, 1),
            changed(5, 2),
            changed(16, 3),
            changed(41, 255),
            object(0, ".text")[..400].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(with_section(&bytes, b".nv_fatbin", b"new"), None);
        }
        assert_eq!(with_section(&object(0, ".text"), b".other", b"new"), None);
    }
}

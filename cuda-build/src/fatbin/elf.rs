//! Reads 64-bit little-endian ELF files: cubins and host objects.

use cuda_find_core::list::Set;

use super::{offset_at, size_at, u16_at, u32_at};

/// One section of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    name: &'a [u8],
    kind: u32,
    link: usize,
    content: &'a [u8],
}

/// One row of the symbol table, with the fields that `elf.h` defines.
#[derive(PartialEq)]
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

const SYMBOL_TABLE: u32 = 2;
const STRING_TABLE: u32 = 3;
const NO_BITS: u32 = 8;
// Types of symbols: the low four bits of `Symbol::info`.
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
const FILE: u8 = 4;
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

/// The names of the kernels that a cubin defines. `None` if the bytes are not a cubin with a symbol table.
pub(crate) fn kernels(cubin: &[u8]) -> Option<Vec<String>> {
    let symbols = symbols(&sections(cubin))?.into_iter();
    let kernels = symbols.filter(|symbol| symbol.section != 0 && symbol.is_kernel());
    let names = kernels.map(|kernel| String::from_utf8_lossy(kernel.name).into_owned());
    Some(names.collect())
}

/// The first difference between two objects: the number of sections, the name of a section, or `symbols`;
/// `None` if there is no difference.
///
/// File symbols are ignored, because they contain names of temporary files. The other symbols are compared
/// row by row, not by the bytes of the symbol table and the string table.
pub fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    let (one, other) = (sections(one), sections(other));
    if one.len() != other.len() || one.is_empty() {
        return Some(format!("{} sections against {}", one.len(), other.len()));
    }
    for (a, b) in one.iter().zip(&other) {
        let is_compared = ![SYMBOL_TABLE, STRING_TABLE].contains(&a.kind);
        if a.name != b.name || a.kind != b.kind || is_compared && a.content != b.content {
            return Some(String::from_utf8_lossy(a.name).into_owned());
        }
    }
    let [one, other] = [&one, &other].map(|sections| {
        let mut rows = symbols(sections).unwrap_or_default();
        rows.retain(|symbol| symbol.kind() != FILE);
        rows
    });
    (one != other).then(|| "symbols".to_owned())
}

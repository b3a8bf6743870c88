//! Compares objects that compilers made.

use object::Endianness;
use object::elf::{SHT_STRTAB, SHT_SYMTAB, STT_FILE, SectionType};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader, Sym};

type File<'a> = ElfFile64<'a, Endianness>;

/// The sections of an object: name, type and content.
fn sections(object: &[u8]) -> Vec<(Vec<u8>, SectionType, Vec<u8>)> {
    let file = File::parse(object).unwrap();
    let (endian, table) = (file.endian(), file.elf_section_table());
    let section = |header: &object::elf::SectionHeader64<Endianness>| {
        let name = table.section_name(endian, header).unwrap();
        let content = header.data(endian, object).unwrap();
        (name.to_vec(), header.sh_type(endian), content.to_vec())
    };
    table.iter().map(section).collect()
}

/// The symbols of an object but those of files, whose names are those of temporary files.
fn symbols(object: &[u8]) -> Vec<String> {
    let file = File::parse(object).unwrap();
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, object).unwrap();
    let table = sections.symbols(endian, object, SHT_SYMTAB).unwrap();
    let symbols = table.iter().filter(|symbol| symbol.st_type() != STT_FILE);
    let shown = |symbol: &object::elf::Sym64<Endianness>| {
        let name = table.symbol_name(endian, symbol).unwrap();
        let (value, size) = (symbol.st_value(endian), symbol.st_size(endian));
        let (info, other) = (symbol.st_info(), symbol.st_other());
        let section = symbol.st_shndx(endian);
        format!(
            "{} {value} {size} {info:?} {other:?} {section:?}",
            name.escape_ascii()
        )
    };
    symbols.map(shown).collect()
}

/// The first difference between two objects: the number of sections, the name of a section, or `symbols`; `None` if
/// there is no difference. The bytes of tables of symbols and strings do not count.
pub fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    let [a, b] = [one, other].map(sections);
    if a.len() != b.len() {
        return Some(format!("{} sections against {}", a.len(), b.len()));
    }
    let is_table = |kind: SectionType| kind == SHT_SYMTAB || kind == SHT_STRTAB;
    let mut pairs = a.iter().zip(&b);
    let differing = pairs.find(|(a, b)| (&a.0, a.1) != (&b.0, b.1) || !is_table(a.1) && a.2 != b.2);
    if let Some(((name, ..), _)) = differing {
        return Some(String::from_utf8_lossy(name).into_owned());
    }
    (symbols(one) != symbols(other)).then(|| "symbols".to_owned())
}

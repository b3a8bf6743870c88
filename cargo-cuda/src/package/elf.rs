//! What the loader reads in a shared library: the libraries that it needs, its search path, the symbols that it
//! imports.

use std::io::{Read, Seek};
use std::ops::Range;

use cuda_build::Version;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, SectionHeader as _, Sym as _};
use object::read::{ReadCache, ReadRef, StringTable};
use object::{Endianness, Object as _, ObjectSymbol as _, SymbolIndex};

use super::device::{DeviceCode, ImageKind};
use super::nvidia::{self, LibraryOrigin};
use crate::failure::{Failure, Result};

const BUILD_AGAIN: &str = "the file is damaged: build or download it again";

/// Relocatable device code that `nvlink` left behind.
const RELOCATABLE: &[u8] = b"__nv_relfatbin";

/// The parts of an ELF file that matter for a wheel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// SONAMEs of `DT_NEEDED`, in the file's order.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Entries of `DT_RPATH`: searched before `LD_LIBRARY_PATH`.
    pub rpath: Vec<String>,
    /// Entries of `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`.
    pub runpath: Vec<String>,
    /// The symbols that the file needs from NVIDIA's libraries, and unversioned symbols.
    pub imports: Vec<Import>,
    /// The oldest glibc that has the versions of all symbols that the file needs.
    pub glibc: Option<Version>,
    /// The device code in sections and in data.
    pub device: DeviceCode,
    /// The places of relocatable device code.
    pub relocatable: Vec<Range<u64>>,
}

/// A symbol that a file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub symbol: String,
    /// The SONAME of the library that defines it. `None` if the library's symbols are unversioned (NCCL, cuFile).
    pub library: Option<String>,
}

/// Whether the bytes start as a 64-bit ELF file. Another one, such as firmware, is data: no loader of a platform that
/// CUDA supports loads it.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG) && bytes.get(4) == Some(&elf::ELFCLASS64.0)
}

impl ElfFacts {
    /// Whether an entry is in the search path, of either kind.
    pub fn searches(&self, entry: &str) -> bool {
        let mut entries = self.rpath.iter().chain(&self.runpath);
        entries.any(|own| own == entry)
    }

    /// The needed libraries that belong to components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        let needed = self.needed.iter().map(String::as_str);
        needed.filter(|soname| matches!(nvidia::origin(soname), LibraryOrigin::Component(_)))
    }

    pub fn has_no_search_path(&self) -> bool {
        self.rpath.is_empty() && self.runpath.is_empty()
    }

    /// Reads a 64-bit ELF file of any size with its device code.
    pub fn read(mut file: impl Read + Seek) -> Result<Self> {
        let mut facts = Self::read_tables(&mut file)?;
        facts.device = DeviceCode::scan(&mut file, &facts.relocatable).map_err(|error| {
            Failure::wheel(format!("its device code is not readable: {error}")).hint(BUILD_AGAIN)
        })?;
        Ok(facts)
    }

    /// Reads everything but device code, without loading the file.
    pub fn read_tables(file: impl Read + Seek) -> Result<Self> {
        tables(&ReadCache::new(file)).map_err(|error| {
            Failure::wheel(format!("not a readable ELF library: {error}")).hint(BUILD_AGAIN)
        })
    }

    /// Whether the file has device code as LTO-IR, which nvJitLink links.
    pub fn has_lto_ir(&self) -> bool {
        self.device.has(ImageKind::LtoIr)
    }

    /// The entries of the search path that the loader uses: it ignores `DT_RPATH` if there is a `DT_RUNPATH`.
    pub fn search_path(&self) -> &[String] {
        match self.runpath.as_slice() {
            [] => &self.rpath,
            runpath => runpath,
        }
    }
}

/// Whether a library exports a symbol.
pub fn exports(library: impl Read + Seek, symbol: &str) -> bool {
    let data = ReadCache::new(library);
    let file = ElfFile64::<Endianness, _>::parse(&data);
    file.is_ok_and(|file| {
        let mut symbols = file.dynamic_symbols().filter(|it| it.is_definition());
        symbols.any(|it| it.name_bytes() == Ok(symbol.as_bytes()))
    })
}

fn tables<'a>(data: impl ReadRef<'a>) -> object::Result<ElfFacts> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // The loader ignores an empty list, but an empty entry of a list is the current directory.
    let entries = |list: &str| match list {
        "" => Vec::new(),
        list => list.split(':').map(str::to_owned).collect(),
    };
    let mut facts = ElfFacts::default();
    let sections = header.sections(endian, data)?;
    if let Some((dynamic, link)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for entry in dynamic {
            let tag = entry.tag(endian);
            if tag == elf::DT_NULL {
                break;
            }
            if !entry.is_string(endian) {
                continue;
            }
            let value = text(entry.string(endian, strings)?);
            match tag {
                elf::DT_NEEDED => facts.needed.push(value),
                elf::DT_SONAME => facts.soname = Some(value),
                elf::DT_RPATH => facts.rpath = entries(&value),
                elf::DT_RUNPATH => facts.runpath = entries(&value),
                _ => {}
            }
        }
    }
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    if !symbols.is_empty() {
        // All names are read at once, not each from the file.
        let link = sections.section(symbols.string_section())?;
        let bytes = link.data(endian, data)?;
        let strings = StringTable::new(bytes, 0, bytes.len() as u64);
        let versions = sections.versions(endian, data)?.unwrap_or_default();
        for (index, symbol) in symbols.iter().enumerate().skip(1) {
            if symbol.st_shndx(endian) != elf::SHN_UNDEF || symbol.st_bind() == elf::STB_WEAK {
                continue;
            }
            let version = versions.version_index(endian, SymbolIndex(index)).index();
            let version = versions.version(version).unwrap_or_default();
            let name = version.map(|version| text(version.name()));
            let glibc = name.as_deref().and_then(|name| name.strip_prefix("GLIBC_"));
            facts.glibc = glibc.and_then(|glibc| glibc.parse().ok()).max(facts.glibc);
            let library = version.and_then(|version| version.file()).map(text);
            if library.as_deref().is_none_or(nvidia::is_nvidia_library) {
                facts.imports.push(Import {
                    symbol: text(symbol.name(endian, strings)?),
                    library,
                });
            }
        }
    }
    for section in sections.iter() {
        if sections.section_name(endian, section) == Ok(RELOCATABLE)
            && let Some((start, len)) = section.file_range(endian)
        {
            facts.relocatable.push(start..start.saturating_add(len));
        }
    }
    Ok(facts)
}

#[cfg(test)]
impl ElfFacts {
    /// A file that needs these libraries, with this RPATH.
    pub fn linking(needed: &[&str], rpath: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            needed: owned(needed),
            rpath: owned(rpath),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn reads_the_program_that_runs_this() {
        // The test program is an ELF file that every machine of this kind has.
        let path = std::path::Path::new("/proc/self/exe");
        let bytes = cuda_find_core::root::Root::system().bytes(path).unwrap();
        assert!(is_elf(&bytes));
        let facts = ElfFacts::read(Cursor::new(bytes)).unwrap();
        assert!(facts.needed.iter().any(|n| n == "libc.so.6"), "{facts:?}");
        assert!(facts.glibc >= "2.2".parse().ok(), "{facts:?}");
    }

    #[test]
    fn an_empty_search_path_has_no_entries() {
        let place = tempfile::tempdir().unwrap();
        let library = place.path().join("library.so");
        let gcc = cuda_find_core::command::Invocation::new("gcc");
        let gcc = gcc.args(["-shared", "-Wl,-rpath,", "-xc", "/dev/null", "-o"]);
        assert!(gcc.args([&library]).run().unwrap().success);
        let bytes = cuda_find_core::root::Root::system().bytes(&library);
        let file = Cursor::new(bytes.unwrap());
        assert!(ElfFacts::read(file).unwrap().has_no_search_path());
    }

    #[test]
    fn other_files_are_errors() {
        assert!(!is_elf(b"MZ"));
        for bytes in [
            &b""[..],
            b"\x7fELF",
            b"\x7fELF\x02\x01\x01 and then text that is no header at all .......",
        ] {
            let error = ElfFacts::read(Cursor::new(bytes)).unwrap_err().message;
            assert!(error.starts_with("not a readable ELF"), "{error}");
        }
    }
}

//! What the loader reads in a shared library: the libraries that it needs, its search path, the versions of symbols.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::ops::Range;

use cuda_build::internal::fatbin::Kind;
use object::elf::{self, FileHeader64};
use object::read::elf::{
    Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _,
};
use object::read::{Error as ElfError, ReadCache, ReadRef, StringTable};
use object::{Endianness, SymbolIndex};

use super::archive::Entry;
use super::dependencies;
use crate::audit::device::DeviceCode;
use crate::audit::scan::scan;
use crate::failure::Failure;

/// The most that is read of one ELF file. The tables that the loader reads have some megabytes in the largest libraries;
/// device code is not read here.
const MAX_READ: u64 = 64 << 20;

/// The most text that is kept of one ELF file. In a malformed file, millions of entries can name the same long string.
const MAX_TEXT: usize = 32 << 20;

const BUILD_AGAIN: &str = "the file is damaged: build or download it again";

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
    /// The processor, as in a platform tag: `x86_64`. Empty for other processors than `x86_64` and `aarch64`.
    pub machine: &'static str,
    /// The versions of symbols that the file needs: SONAME and version, such as `libc.so.6` and `GLIBC_2.34`.
    pub versions: Vec<(String, String)>,
    /// The symbols that the file needs from NVIDIA's libraries, and those whose library the file does not name.
    pub imports: Vec<Import>,
    /// Whether the loader changes code of the file (`DT_TEXTREL`).
    pub text_relocations: bool,
    /// Whether the file requires a stack that can be executed.
    pub executable_stack: bool,
    /// The device code in sections and in data.
    pub device: DeviceCode,
}

/// A symbol that a file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub symbol: String,
    /// The SONAME of the library that defines it. `None` if that library has no versions for its symbols, as NCCL and
    /// cuFile have none.
    pub library: Option<String>,
}

/// Whether the bytes start with the magic number of ELF.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}

impl ElfFacts {
    /// Whether an entry is in the search path, of either kind.
    pub fn searches(&self, entry: &str) -> bool {
        let mut entries = self.rpath.iter().chain(&self.runpath);
        entries.any(|own| own == entry)
    }

    pub fn has_no_search_path(&self) -> bool {
        self.rpath.is_empty() && self.runpath.is_empty()
    }

    /// Reads a 64-bit ELF file of any size; CUDA 12 and later support no other. Only the tables that the loader reads
    /// are kept in memory.
    pub fn read(mut file: impl Read + Seek) -> Result<Self, Failure> {
        let cache = ReadCache::new(&mut file);
        let limited = Limited {
            cache: &cache,
            left: &Cell::new(MAX_READ),
        };
        let tables = read_tables(limited, &mut Text { left: MAX_TEXT });
        let (mut facts, relocatable) = tables.map_err(|Unreadable(reason)| {
            Failure::wheel(format!("not a readable ELF library: {reason}")).hint(BUILD_AGAIN)
        })?;
        facts.device = scan(&mut file, &relocatable).map_err(|error| {
            Failure::wheel(format!("its device code is not readable: {error}")).hint(BUILD_AGAIN)
        })?;
        Ok(facts)
    }

    /// Whether the file has device code as LTO-IR, which nvJitLink links.
    pub fn has_lto_ir(&self) -> bool {
        self.device.capabilities(Kind::LtoIr).next().is_some()
    }

    /// The entries of the search path that the loader uses: it ignores `DT_RPATH` if there is a `DT_RUNPATH`.
    pub fn search_path(&self) -> &[String] {
        match self.runpath.is_empty() {
            true => &self.rpath,
            false => &self.runpath,
        }
    }
}

/// A file that is read in parts, up to a total of `left` bytes.
struct Limited<'a, R: Read + Seek> {
    cache: &'a ReadCache<R>,
    left: &'a Cell<u64>,
}

impl<R: Read + Seek> Clone for Limited<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Read + Seek> Copy for Limited<'_, R> {}

impl<R: Read + Seek> Limited<'_, R> {
    fn take(self, len: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(len).ok_or(())?);
        Ok(())
    }
}

impl<'a, R: Read + Seek> ReadRef<'a> for Limited<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // Many small reads take more memory than their bytes.
        self.take(size.max(256))?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let found = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(found.len() as u64)?;
        Ok(found)
    }
}

struct Unreadable(String);

impl From<ElfError> for Unreadable {
    fn from(error: ElfError) -> Self {
        Self(error.to_string())
    }
}

/// Reads the tables of the loader. Also returns the sections with device code that is not linked yet.
fn read_tables<'a, R: ReadRef<'a>>(
    data: R,
    text: &mut Text,
) -> Result<(ElfFacts, Vec<Range<u64>>), Unreadable> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let mut facts = ElfFacts {
        machine: match header.e_machine.get(endian) {
            elf::EM_X86_64 => "x86_64",
            elf::EM_AARCH64 => "aarch64",
            _ => "",
        },
        ..ElfFacts::default()
    };
    for segment in header.program_headers(endian, data)? {
        if segment.p_type(endian) == elf::PT_GNU_STACK {
            facts.executable_stack = segment.p_flags(endian).contains(elf::PF_X);
        }
    }
    let sections = header.sections(endian, data)?;
    if let Some((dynamic, link)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for entry in dynamic {
            let tag = entry.tag(endian);
            if tag == elf::DT_NULL {
                break;
            }
            facts.text_relocations |= tag == elf::DT_TEXTREL
                || tag == elf::DT_FLAGS && entry.val(endian) & elf::DF_TEXTREL.0 != 0;
            if !entry.is_string(endian) {
                continue;
            }
            let value = text.keep(entry.string(endian, strings)?)?;
            match tag {
                elf::DT_NEEDED => facts.needed.push(value),
                elf::DT_SONAME => facts.soname = Some(value),
                elf::DT_RPATH => facts.rpath.extend(value.split(':').map(str::to_owned)),
                elf::DT_RUNPATH => facts.runpath.extend(value.split(':').map(str::to_owned)),
                _ => {}
            }
        }
    }
    if let Some((mut needs, link)) = sections.gnu_verneed(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        while let Some((need, mut versions)) = needs.next()? {
            let file = text.keep(need.file(endian, strings)?)?;
            while let Some(version) = versions.next()? {
                let version = text.keep(version.name(endian, strings)?)?;
                facts.versions.push((file.clone(), version));
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
            let is_optional = symbol.st_bind() == elf::STB_WEAK;
            if symbol.st_shndx(endian) != elf::SHN_UNDEF || is_optional {
                continue;
            }
            let version = versions.version_index(endian, SymbolIndex(index)).index();
            let version = versions.version(version).unwrap_or_default();
            let library = version.and_then(|version| version.file());
            let library = library.map(|library| text.keep(library)).transpose()?;
            let is_other = |library: &String| !dependencies::is_nvidia_library(library);
            if !library.as_ref().is_some_and(is_other) {
                facts.imports.push(Import {
                    symbol: text.keep(symbol.name(endian, strings)?)?,
                    library,
                });
            }
        }
    }
    let is_relocatable = |name: &[u8]| name == RELOCATABLE;
    let relocatable = sections.iter().filter(|section| {
        let name = sections.section_name(endian, section);
        name.is_ok_and(is_relocatable)
    });
    let ranges = relocatable.filter_map(|section| section.file_range(endian));
    let ranges = ranges.map(|(start, len)| start..start.saturating_add(len));
    let ranges = ranges.collect();
    Ok((facts, ranges))
}

/// The section with device code that is not linked yet.
const RELOCATABLE: &[u8] = b"__nv_relfatbin";

/// Copies text out of a file, up to `left` bytes in total.
struct Text {
    left: usize,
}

impl Text {
    fn keep(&mut self, bytes: &[u8]) -> Result<String, Unreadable> {
        let left = self.left.checked_sub(bytes.len() + 1);
        self.left =
            left.ok_or_else(|| Unreadable(format!("its names have more than {MAX_TEXT} bytes")))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Fails if a wheel contains copies of NVIDIA's libraries. The licence forbids modified copies, and
/// a copy of the driver's library does not match the driver of another machine.
pub(super) fn reject_bundled_libraries(
    entries: &BTreeMap<String, Entry>,
    dist_info: &str,
) -> Result<(), Failure> {
    let is_copy = |(path, entry): &(&String, &Entry)| {
        let file_name = path.rsplit('/').next().unwrap_or_default();
        let soname = entry.elf.as_ref().and_then(|facts| facts.soname.as_deref());
        !path.starts_with(dist_info)
            && (dependencies::is_nvidia_library(file_name)
                || soname.is_some_and(dependencies::is_nvidia_library))
    };
    let files: Vec<&str> = entries
        .iter()
        .filter(is_copy)
        .map(|(path, _)| path.as_str())
        .collect();
    if files.is_empty() {
        return Ok(());
    }
    Err(Failure::wheel(format!(
        "the wheel contains copies of NVIDIA's libraries:\n  {}",
        files.join("\n  ")
    ))
    .hint(
        "build with `maturin build --auditwheel warn` (or `auditwheel repair --exclude`): \
         users get these libraries from NVIDIA's own packages, and libcuda from the installed driver",
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn reads_the_program_that_runs_this() {
        // The test program is an ELF file that every machine of this kind has.
        let path = std::path::Path::new("/proc/self/exe");
        let bytes = cuda_build::internal::Root::system().bytes(path).unwrap();
        assert!(is_elf(&bytes));
        let facts = ElfFacts::read(Cursor::new(bytes)).unwrap();
        assert!(
            facts.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            facts.needed
        );
        let versions = facts.versions.iter();
        assert!(
            versions
                .clone()
                .any(|(file, version)| file == "libc.so.6" && version.starts_with("GLIBC_"))
        );
        assert!(!facts.machine.is_empty() && !facts.executable_stack && !facts.text_relocations);
    }

    #[test]
    fn what_is_no_elf_is_an_error() {
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

//! The dynamic section of a shared library: the libraries that it needs, and its search path.

use std::collections::BTreeMap;

use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, SymbolIndex};

use super::archive::Entry;
use super::dependencies;
use crate::failure::Failure;

/// Libraries that every manylinux system has (PEP 600). Only those that Rust code or nvcc's host
/// code may link.
pub(super) const MANYLINUX: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libnsl.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
    "libexpat.so.1",
    "libatomic.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

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
    /// The symbols that the file needs from NVIDIA's libraries, and those whose library the file does not name.
    pub imports: Vec<Import>,
    /// Whether the file has device code as LTO-IR, which nvJitLink compiles.
    pub has_lto_ir: bool,
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
    /// Reads a 64-bit ELF file. CUDA 12 and later support no other.
    pub fn parse<'data>(file: impl ReadRef<'data>) -> Result<Self, Failure> {
        read(file).map_err(|error| Failure::wheel(format!("not a readable ELF library: {error}")))
    }
}

fn read<'data>(file: impl ReadRef<'data>) -> Result<ElfFacts, object::read::Error> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let mut facts = ElfFacts::default();

    if let Some((dynamic, link)) = sections.dynamic(endian, file)? {
        let strings = sections.strings(endian, file, link)?;
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
                elf::DT_RPATH => facts.rpath.extend(value.split(':').map(str::to_owned)),
                elf::DT_RUNPATH => facts.runpath.extend(value.split(':').map(str::to_owned)),
                _ => {}
            }
        }
    }
    let symbols = sections.symbols(endian, file, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, file)?.unwrap_or_default();
    for (index, symbol) in symbols.iter().enumerate().skip(1) {
        if symbol.st_shndx(endian) != elf::SHN_UNDEF || symbol.st_bind() == elf::STB_WEAK {
            continue;
        }
        let version = versions.version_index(endian, SymbolIndex(index)).index();
        let version = versions.version(version).unwrap_or_default();
        let library = version.and_then(|version| version.file()).map(text);
        let is_other = |library: &String| !dependencies::is_nvidia_library(library);
        if !library.as_ref().is_some_and(is_other) {
            facts.imports.push(Import {
                symbol: text(symbol.name(endian, symbols.strings())?),
                library,
            });
        }
    }
    if let Some((_, section)) = sections.section_by_name(endian, b".nv_fatbin")
        && let Some((start, len)) = section.file_range(endian)
    {
        facts.has_lto_ir = has_lto_ir(file, start, len).unwrap_or(false);
    }
    Ok(facts)
}

/// Whether a section with fat binaries has an image of LTO-IR; `None` if the section is malformed. Reads headers only:
/// the format is described in `cuda_build::internal::fatbin`.
fn has_lto_ir<'data>(file: impl ReadRef<'data>, start: u64, len: u64) -> Option<bool> {
    /// The number of this kind of image.
    const LTO_IR: u16 = 8;
    const CONTAINER: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
    let read = |at, len| file.read_bytes_at(at, len).ok();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    let end = start.checked_add(len)?;
    let mut at = start;
    while at < end {
        let header = read(at, 16)?;
        if header[..4] != CONTAINER {
            // Linkers put zeros between containers, which are aligned to 8 bytes.
            at += 8;
            continue;
        }
        let mut entry = at.checked_add(16)?;
        at = entry.checked_add(number(&header[8..16]))?;
        while entry < at {
            let header = read(entry, 16)?;
            if number(&header[..2]) == u64::from(LTO_IR) {
                return Some(true);
            }
            let header_len = number(&header[4..8]).max(1);
            let next = entry.checked_add(header_len)?;
            entry = next.checked_add(number(&header[8..16]))?;
        }
    }
    Some(false)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
    use super::*;

    #[test]
    fn reads_the_program_that_runs_this() {
        // The test program is an ELF file that every machine of this kind has.
        let path = std::path::Path::new("/proc/self/exe");
        let bytes = cuda_build::internal::Root::system().bytes(path).unwrap();
        assert!(is_elf(&bytes));
        let facts = ElfFacts::parse(bytes.as_slice()).unwrap();
        assert!(
            facts.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            facts.needed
        );
    }

    #[test]
    fn what_is_no_elf_is_an_error() {
        assert!(!is_elf(b"MZ"));
        for bytes in [
            &b""[..],
            b"\x7fELF",
            b"\x7fELF\x02\x01\x01 and then text that is no header at all .......",
        ] {
            let error = ElfFacts::parse(bytes).unwrap_err().message;
            assert!(error.starts_with("not a readable ELF"), "{error}");
        }
    }
}

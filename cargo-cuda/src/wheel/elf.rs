//! The dynamic section of a shared library: the libraries that it needs, and its search path.

use std::collections::BTreeMap;

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, Sym as _};
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
    /// Undefined dynamic symbols, in the file's order.
    pub imports: Vec<Import>,
}

/// A symbol that another library must export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The name without the version.
    pub name: String,
    /// The version that it was linked with, such as `GLIBC_2.34` or `libcudart.so.12`.
    pub version: Option<String>,
    /// The SONAME of the library that defines this version of the symbol (`vn_file`).
    pub file: Option<String>,
    /// Whether the importing library can be loaded even if no other library exports the symbol.
    pub weak: bool,
}

/// Whether the bytes start with the magic number of ELF.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}

impl ElfFacts {
    /// Reads a 64-bit ELF file. CUDA 12 and later support no other.
    pub fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        read(bytes).map_err(|error| Failure::wheel(format!("not a readable ELF library: {error}")))
    }
}

fn read(bytes: &[u8]) -> Result<ElfFacts, object::read::Error> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut facts = ElfFacts::default();

    if let Some((dynamic, link)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
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

    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, bytes)?;
    for (index, symbol) in symbols.enumerate() {
        // Entry 0 is the null symbol.
        if index == SymbolIndex(0) || !symbol.is_undefined(endian) {
            continue;
        }
        let version = match &versions {
            Some(table) => table.version(table.version_index(endian, index).index())?,
            None => None,
        };
        facts.imports.push(Import {
            name: text(symbol.name(endian, symbols.strings())?),
            version: version.map(|v| text(v.name())),
            file: version.and_then(|v| v.file()).map(text),
            weak: symbol.st_bind() == elf::STB_WEAK,
        });
    }
    Ok(facts)
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
        let soname = || {
            ElfFacts::parse(&entry.content)
                .ok()
                .and_then(|facts| facts.soname)
        };
        !path.starts_with(dist_info)
            && (dependencies::is_nvidia_library(file_name)
                || (is_elf(&entry.content)
                    && soname().is_some_and(|soname| dependencies::is_nvidia_library(&soname))))
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
        let facts = ElfFacts::parse(&bytes).unwrap();
        assert!(
            facts.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            facts.needed
        );
        let import = facts
            .imports
            .iter()
            .find(|i| i.name == "__libc_start_main")
            .unwrap();
        assert_eq!(import.file.as_deref(), Some("libc.so.6"));
        assert!(
            import
                .version
                .as_deref()
                .is_some_and(|v| v.starts_with("GLIBC_")),
            "{import:?}"
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

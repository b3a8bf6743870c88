//! The dynamic section of a shared library: the libraries that it needs, and its search path.

use std::collections::BTreeMap;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};

use super::archive::Entry;
use super::dependencies;
use crate::failure::Failure;

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

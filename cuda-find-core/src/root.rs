//! Read-only access to the disk.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that reads the disk while searching"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::list::each_once;

/// The size in bytes of the largest file that is read as text. For comparison: `cuda.h` of CUDA 13.5 has 1.1 MB.
const TEXT_LIMIT: u64 = 16 * 1024 * 1024;

/// How many bytes [`Root::head`] reads. CUDA's headers define their version in the first 16 KiB.
const HEAD: u64 = 32 * 1024;

/// Reads the disk and never writes. Built-in places (`/usr/local/cuda`) are below `prefix`, so that a test can search a
/// small real directory. A `Root` is not the root of a toolkit, which is a plain path.
#[derive(Clone, Debug)]
pub struct Root {
    prefix: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self::system()
    }
}

impl Root {
    /// The machine's own disk.
    pub fn system() -> Self {
        Self::below("/")
    }

    /// A disk whose built-in places are below `prefix`.
    pub fn below(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// The path of a built-in place such as `/usr/local/cuda`.
    pub fn locate(&self, place: &str) -> PathBuf {
        self.prefix.join(place.trim_start_matches('/'))
    }

    /// The directories that compilers and linkers search by default. They must not be passed explicitly: all of the
    /// system's headers or libraries would come before those of later directories.
    pub fn default_search_dirs(&self, multiarch: &str) -> Vec<PathBuf> {
        let top = ["/usr/include", "/usr/lib64", "/usr/lib", "/lib64", "/lib"];
        let deeper = ["/usr/include", "/usr/lib", "/lib"];
        let deeper = deeper.map(|place| self.locate(place).join(multiarch));
        let top = top.map(|place| self.locate(place));
        [top.as_slice(), &deeper].concat()
    }

    /// The directories in which the loader looks for a library: those of `LD_LIBRARY_PATH`, which is `listed`, those in
    /// its cache, and its default ones. Directories of stubs are left out.
    pub fn loader_directories(&self, listed: &OsStr, multiarch: &str, name: &str) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = std::env::split_paths(listed).collect();
        // The cache is a table of numbers, followed by its texts, each with a zero at the end. The paths are among
        // them.
        let cache = self.text(&self.locate("/etc/ld.so.cache"));
        let cache = cache.unwrap_or_default();
        let paths = cache.split('\0').filter(|text| text.starts_with('/'));
        let of_name = paths.map(Path::new).filter(|path| path.ends_with(name));
        directories.extend(of_name.filter_map(|path| path.parent()).map(Path::to_owned));
        directories.extend(self.default_search_dirs(multiarch));
        let headers = self.locate("/usr/include");
        directories.retain(|path| path.is_absolute() && !path.starts_with(&headers));
        directories.retain(|path| !path.ends_with("stubs"));
        each_once(directories)
    }

    /// Whether `path` is a regular file, links followed.
    pub fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    /// Whether `path` is a directory, links followed.
    pub fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    /// Whether anything is at `path`, a broken link included.
    pub fn exists(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    /// The metadata of `path`, links followed.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path)
    }

    /// The metadata of `path`, that of the link if it is one.
    pub fn link_metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::symlink_metadata(path)
    }

    /// The size and modification time of a file as text, links followed; `absent` if nothing exists at `path`. The
    /// text for a directory has only the time, which changes when an entry is added or removed.
    pub fn identity(&self, path: &Path) -> String {
        match fs::metadata(path) {
            Err(_) => "absent".to_owned(),
            Ok(metadata) if metadata.is_dir() => format!("directory {}", modified(&metadata)),
            Ok(metadata) => format!("{} {}", metadata.len(), modified(&metadata)),
        }
    }

    /// A text that is different for every file and changes with the file: device, inode, size and
    /// modification time, links followed.
    pub fn fingerprint(&self, path: &Path) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        let ((device, inode), size) = (device_and_inode(&metadata), metadata.len());
        Some(format!("{device} {inode} {size} {}", modified(&metadata)))
    }

    /// An identifier of a file or directory that is the same for every path to it; the path itself if nothing exists
    /// there. This function makes one system call, while resolving a path makes one for each name in the path.
    pub fn place(&self, path: &Path) -> OsString {
        match fs::metadata(path).map(|metadata| device_and_inode(&metadata)) {
            Err(_) => path.as_os_str().to_owned(),
            Ok((0, 0)) => self.resolve(path).into_os_string(),
            Ok((device, inode)) => format!("{device}:{inode}").into(),
        }
    }

    /// The path with every `<name>/..` removed, if the shorter path leads to the same file or directory; otherwise the
    /// path itself.
    pub fn tidy(&self, path: &Path) -> PathBuf {
        let mut tidied = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(tidied.pop()),
                part => tidied.push(part),
            }
        }
        let is_same = tidied == path || self.place(&tidied) == self.place(path);
        if is_same { tidied } else { path.to_owned() }
    }

    /// Whether `path` is a link.
    pub fn is_link(&self, path: &Path) -> bool {
        fs::read_link(path).is_ok()
    }

    /// Where a link leads, as a path from the directory above the link; `None` if it is no link.
    pub fn link_target(&self, link: &Path) -> Option<PathBuf> {
        let target = fs::read_link(link).ok()?;
        Some(link.parent()?.join(target))
    }

    /// The name of the file at the end of a chain of links.
    pub fn final_name(&self, path: &Path) -> Option<OsString> {
        let mut path = path.to_owned();
        // Linux follows at most 40 links.
        for _ in 0..40 {
            let Ok(target) = fs::read_link(&path) else {
                break;
            };
            path = path.parent()?.join(target);
        }
        path.file_name().map(OsStr::to_owned)
    }

    /// The path with links resolved; the path itself if that fails.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }

    /// The text of a regular file, with invalid UTF-8 replaced. A file of more than 16 MiB is an error. So is a file
    /// that is not regular, because opening a FIFO would block.
    pub fn text(&self, path: &Path) -> io::Result<String> {
        let length = regular_file(path)?;
        if length > TEXT_LIMIT {
            let reason = "larger than 16 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        read(path, TEXT_LIMIT, length)
    }

    /// As [`Root::text`], but only the whole lines of the first 32 KiB.
    pub fn head(&self, path: &Path) -> io::Result<String> {
        regular_file(path)?;
        let mut text = read(path, HEAD, HEAD)?;
        if text.len() as u64 >= HEAD {
            text.truncate(text.rfind('\n').unwrap_or_default());
        }
        Ok(text)
    }

    /// The machine that a little-endian ELF file is for (`e_machine`); `None` for other files.
    pub fn elf_machine(&self, path: &Path) -> Option<u16> {
        // Opening a FIFO would block.
        regular_file(path).ok()?;
        let mut head = [0; 20];
        fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
        machine(&head)
    }

    /// As [`Root::elf_machine`], for a shared library or a static archive. The machine of an archive is that of its
    /// first ELF object.
    pub fn machine_of_library(&self, path: &Path) -> Option<u16> {
        if path.extension().is_none_or(|extension| extension != "a") {
            return self.elf_machine(path);
        }
        // How many members are read. An archive may begin with an index and a table of long names, which are not ELF.
        const MEMBERS: usize = 8;
        let mut file = fs::File::open(path).ok()?;
        let mut magic = [0; 8];
        file.read_exact(&mut magic).ok()?;
        if magic != *b"!<arch>\n" {
            return None;
        }
        let mut at = 8;
        for _ in 0..MEMBERS {
            // A header of 60 bytes (48 for name, date, owner and mode, 10 for the size, 2 at the end), then the first
            // 20 bytes of the member.
            let mut head = [0; 80];
            file.seek(SeekFrom::Start(at)).ok()?;
            file.read_exact(&mut head).ok()?;
            if let Some(machine) = machine(&head[60..]) {
                return Some(machine);
            }
            let size = std::str::from_utf8(&head[48..58]).ok()?.trim_end();
            let end = at.checked_add(60)?.checked_add(size.parse().ok()?)?;
            at = end.checked_next_multiple_of(2)?;
        }
        None
    }

    /// Whether a file exists, and is for this machine if it is an ELF file.
    pub fn is_library(&self, path: &Path, machine: u16) -> bool {
        self.is_file(path) && self.elf_machine(path).is_none_or(|it| it == machine)
    }

    /// The names of the libraries that a shared library of a 64-bit little-endian machine needs (`DT_NEEDED`); empty
    /// for other files. Only the tables are read, because libraries of CUDA have up to a gigabyte.
    pub fn needed_libraries(&self, path: &Path) -> Vec<String> {
        let file = regular_file(path).and_then(|_| fs::File::open(path));
        file.ok().and_then(needed_libraries).unwrap_or_default()
    }

    /// Whether a file is executable.
    pub fn is_executable(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| is_executable(&metadata))
    }

    /// The whole content of a file.
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// The error of listing a directory, if the reason is a missing permission; otherwise `None`.
    pub fn closed(&self, directory: &Path) -> Option<io::Error> {
        let error = fs::read_dir(directory).err()?;
        (error.kind() == io::ErrorKind::PermissionDenied).then_some(error)
    }

    /// The names in a directory, sorted; empty if it cannot be listed.
    pub fn names(&self, directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    }
}

/// The length of a regular file; an error for anything else.
fn regular_file(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let reason = "not a regular file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// The modification time in nanoseconds since 1970; 0 if it is unknown.
fn modified(metadata: &Metadata) -> u128 {
    let time = metadata.modified().ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos())
}

/// `e_machine` in the first bytes of a little-endian ELF file.
fn machine(head: &[u8]) -> Option<u16> {
    let is_elf = head.starts_with(b"\x7fELF") && head.get(5) == Some(&1);
    let bytes = head.get(18..20).filter(|_| is_elf)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// The `DT_NEEDED` names, according to the ELF-64 specification.
fn needed_libraries(mut file: fs::File) -> Option<Vec<String>> {
    /// The tables that are read here have a few hundred kilobytes at most.
    const LIMIT: u64 = 16 * 1024 * 1024;
    let mut bytes_at = |offset: u64, length: u64| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset)).ok()?;
        (&mut file)
            .take(length.min(LIMIT))
            .read_to_end(&mut bytes)
            .ok()?;
        Some(bytes)
    };
    let number = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let head = bytes_at(0, 64)?;
    machine(&head)?;
    let count = u64::from(u16::from_le_bytes([*head.get(56)?, *head.get(57)?]));
    // Each program header: type, flags, offset, virtual address, physical address, size in the file …
    let segments = bytes_at(number(&head, 32)?, count * 56)?;
    let of_type = |wanted: u8| {
        let segments = segments.chunks_exact(56);
        segments.filter(move |segment| segment[..4] == [wanted, 0, 0, 0])
    };
    let (load, dynamic) = (1, of_type(2).next()?);
    let entries = bytes_at(number(dynamic, 8)?, number(dynamic, 32)?)?;
    let entries = entries.chunks_exact(16);
    let entries = entries.filter_map(|entry| Some((number(entry, 0)?, number(entry, 8)?)));
    let value = |tag: u64| {
        entries
            .clone()
            .find(|(it, _)| *it == tag)
            .map(|(_, value)| value)
    };
    let (address, size) = (value(5)?, value(10)?);
    // The string table's address in memory is in one of the loaded segments.
    let offset = of_type(load).find_map(|segment| {
        let within = address.checked_sub(number(segment, 16)?)?;
        number(segment, 8)?
            .checked_add(within)
            .filter(|_| within < number(segment, 32).unwrap_or(0))
    })?;
    let strings = bytes_at(offset, size)?;
    let name = |at: u64| {
        let text = strings.get(usize::try_from(at).ok()?..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    };
    let needed = entries.filter(|(tag, _)| *tag == 1);
    Some(needed.filter_map(|(_, at)| name(at)).collect())
}

/// The device and the inode; 0 and 0 on platforms without inodes.
#[cfg(unix)]
fn device_and_inode(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(unix)]
fn is_executable(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file()
}

#[cfg(not(unix))]
fn device_and_inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

fn read(path: &Path, limit: u64, expected: u64) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0).saturating_add(1));
    fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_places_are_below_the_prefix() {
        assert_eq!(
            Root::below("/tmp/x").locate("/usr/local/cuda"),
            Path::new("/tmp/x/usr/local/cuda")
        );
        assert_eq!(
            Root::system().locate("/usr/local/cuda"),
            Path::new("/usr/local/cuda")
        );
    }

    #[test]
    fn a_head_ends_with_a_whole_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cuda.h");
        let (first, rest) = (
            "a\n".repeat(HEAD as usize / 2 - 1),
            "#define CUDA_VERSION 13040\n",
        );
        fs::write(&path, format!("{first}{rest}")).unwrap();
        assert_eq!(Root::system().head(&path).unwrap(), first.trim_end());
        fs::write(&path, rest).unwrap();
        assert_eq!(Root::system().head(&path).unwrap(), rest);
        assert!(Root::system().head(directory.path()).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn every_path_of_a_file_has_the_same_place() {
        let directory = tempfile::tempdir().unwrap();
        let (root, path) = (Root::system(), directory.path());
        fs::create_dir_all(path.join("cuda-13.4/targets/lib")).unwrap();
        fs::write(path.join("cuda-13.4/targets/lib/libcudart.so.13.0.96"), "").unwrap();
        let link =
            |target: &str, name: &str| std::os::unix::fs::symlink(target, path.join(name)).unwrap();
        link("cuda-13.4", "cuda");
        link("targets/lib", "cuda-13.4/lib64");
        link(
            "../lib/libcudart.so.13.0.96",
            "cuda-13.4/targets/lib/libcudart.so.13",
        );
        link("libcudart.so.13", "cuda-13.4/targets/lib/libcudart.so");
        link("loop", "loop");
        assert_eq!(
            root.place(&path.join("cuda/lib64")),
            root.place(&path.join("cuda-13.4/targets/lib"))
        );
        assert_ne!(
            root.place(&path.join("cuda/lib64")),
            root.place(&path.join("cuda"))
        );
        assert_eq!(root.place(&path.join("absent")), path.join("absent"));
        let name = |of: &str| root.final_name(&path.join(of)).unwrap();
        assert_eq!(name("cuda/lib64/libcudart.so"), "libcudart.so.13.0.96");
        assert_eq!(
            name("cuda/lib64/libcudart.so.13.0.96"),
            "libcudart.so.13.0.96"
        );
        assert_eq!(
            (name("loop"), name("absent")),
            ("loop".into(), "absent".into())
        );
    }

    #[test]
    fn a_directory_is_not_read_as_text() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Root::system().text(directory.path()).is_err());
        assert!(
            Root::system()
                .names(&directory.path().join("absent"))
                .is_empty()
        );
    }
}

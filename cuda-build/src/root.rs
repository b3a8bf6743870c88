//! Read-only access to the disk.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file that reads the disk while searching"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Headers and metadata that are read for a version are small; a larger one is not what it
/// seems. CUDA 13.5's `cuda.h` has 1.1 MB.
const TEXT_LIMIT: u64 = 16 * 1024 * 1024;

/// The version in CUDA's headers stands within the first 16 KiB.
const HEAD: u64 = 32 * 1024;

/// Reads the disk and never writes. Built-in places (`/usr/local/cuda`) are looked up below
/// `prefix`, so that a test can build a small real directory and have it searched.
#[derive(Clone, Debug)]
pub struct Root {
    prefix: PathBuf,
}

impl Root {
    /// The machine's own disk.
    #[must_use]
    pub fn system() -> Self {
        Self {
            prefix: PathBuf::from("/"),
        }
    }

    /// A disk whose built-in places lie below `prefix`.
    #[must_use]
    pub fn below(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// Where a built-in absolute place lies.
    #[must_use]
    pub fn locate(&self, place: &str) -> PathBuf {
        self.prefix.join(place.trim_start_matches('/'))
    }

    /// Directories that compilers and linkers search by default. Naming one of them puts all of the system's headers or
    /// libraries before those of directories that are named after it.
    #[must_use]
    pub fn default_search_dirs(&self, multiarch: &str) -> Vec<PathBuf> {
        let places = ["/usr/include", "/usr/lib64", "/usr/lib", "/lib64", "/lib"];
        let deeper =
            ["/usr/include", "/usr/lib", "/lib"].map(|place| self.locate(place).join(multiarch));
        places
            .iter()
            .map(|place| self.locate(place))
            .chain(deeper)
            .collect()
    }

    /// Whether `path` is a regular file, links followed.
    #[must_use]
    pub fn is_file(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|m| m.is_file())
    }

    /// Whether `path` is a directory, links followed.
    #[must_use]
    pub fn is_dir(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|m| m.is_dir())
    }

    /// Whether anything is at `path`, a broken link included.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    /// What the file system says of `path`, links followed.
    ///
    /// # Errors
    /// Those of [`std::fs::metadata`].
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path)
    }

    /// Size and time of change, links followed: what changes when a file is replaced in place. Of
    /// a directory the time alone, which moves when a name in it comes or goes.
    #[must_use]
    pub fn identity(&self, path: &Path) -> String {
        let Ok(metadata) = fs::metadata(path) else {
            return "absent".to_owned();
        };
        let changed = metadata
            .modified()
            .ok()
            .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        let changed = changed.map_or(0, |t| t.as_nanos());
        if metadata.is_dir() {
            format!("directory {changed}")
        } else {
            format!("{} {changed}", metadata.len())
        }
    }

    /// What tells a file from every other one, and from itself after it was changed: device, inode,
    /// size and time of change, links followed. `None` where there is nothing.
    #[must_use]
    pub fn fingerprint(&self, path: &Path) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        let changed = metadata
            .modified()
            .ok()
            .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        let changed = changed.map_or(0, |t| t.as_nanos());
        let (device, inode) = place_on_disk(&metadata);
        Some(format!("{device} {inode} {} {changed}", metadata.len()))
    }

    /// The same text for the same file or directory, by whatever path it is reached; the path itself
    /// where there is nothing. One system call, where resolving takes one for each part of a path.
    #[must_use]
    pub fn place(&self, path: &Path) -> OsString {
        match fs::metadata(path).map(|metadata| place_on_disk(&metadata)) {
            Err(_) => path.as_os_str().to_owned(),
            Ok((0, 0)) => self.resolve(path).into_os_string(),
            Ok((device, inode)) => format!("{device}:{inode}").into(),
        }
    }

    /// Whether `path` is a link.
    #[must_use]
    pub fn is_link(&self, path: &Path) -> bool {
        fs::read_link(path).is_ok()
    }

    /// The name of the file itself, where `path` is a link to it, or to a link.
    #[must_use]
    pub fn final_name(&self, path: &Path) -> Option<OsString> {
        let mut path = path.to_owned();
        // As many as Linux follows.
        for _ in 0..40 {
            let Ok(target) = fs::read_link(&path) else {
                break;
            };
            path = path.parent()?.join(target);
        }
        path.file_name().map(OsStr::to_owned)
    }

    /// The path with links resolved; the path itself where that fails.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }

    /// The text of a regular file of reasonable size, bytes that are no UTF-8 replaced.
    ///
    /// # Errors
    /// Not a regular file (a FIFO would block for ever), too large, or unreadable.
    pub fn text(&self, path: &Path) -> io::Result<String> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        if metadata.len() > TEXT_LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "larger than 16 MiB",
            ));
        }
        read(path, TEXT_LIMIT, metadata.len())
    }

    /// As [`Root::text`], the whole lines of the first 32 KiB alone.
    ///
    /// # Errors
    /// As [`Root::text`].
    pub fn head(&self, path: &Path) -> io::Result<String> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut text = read(path, HEAD, HEAD)?;
        if text.len() as u64 >= HEAD {
            text.truncate(text.rfind('\n').unwrap_or_default());
        }
        Ok(text)
    }

    /// The machine that an ELF file is for (`e_machine`, of a little-endian file); `None` for what
    /// is no such file.
    #[must_use]
    pub fn elf_machine(&self, path: &Path) -> Option<u16> {
        self.is_file(path)
            .then(|| self.machine_of_file(path))
            .flatten()
    }

    /// As [`Root::elf_machine`], of what is known to be a regular file.
    #[must_use]
    pub fn machine_of_file(&self, path: &Path) -> Option<u16> {
        let mut head = [0; 20];
        fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
        machine(&head)
    }

    /// As [`Root::elf_machine`], of the objects in a static library; `None` where the first of its
    /// members show none.
    #[must_use]
    pub fn machine_of_archive(&self, path: &Path) -> Option<u16> {
        // The first members are an index and a table of long names.
        const MEMBERS: usize = 8;
        let mut file = fs::File::open(path).ok()?;
        let mut magic = [0; 8];
        file.read_exact(&mut magic).ok()?;
        if magic != *b"!<arch>\n" {
            return None;
        }
        let mut at = 8;
        for _ in 0..MEMBERS {
            // Name, dates and owners in 48 bytes, the size in 10, an end mark; then the member.
            let mut head = [0; 80];
            file.seek(SeekFrom::Start(at)).ok()?;
            file.read_exact(&mut head).ok()?;
            if let Some(machine) = machine(&head[60..]) {
                return Some(machine);
            }
            let size: u64 = std::str::from_utf8(&head[48..58])
                .ok()?
                .trim_end()
                .parse()
                .ok()?;
            at = at
                .checked_add(60)?
                .checked_add(size)?
                .checked_next_multiple_of(2)?;
        }
        None
    }

    /// Whether a file is executable.
    #[must_use]
    pub fn is_executable(&self, path: &Path) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
        }
        #[cfg(not(unix))]
        {
            self.is_file(path)
        }
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// Those of [`std::fs::read`].
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// As [`Root::names`], of a directory with at most `limit` names. `None` where there are more, or
    /// where it can't be listed: files in it may be found all the same.
    #[must_use]
    pub fn few_names(&self, directory: &Path, limit: usize) -> Option<Vec<OsString>> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
            entries => entries.ok()?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.ok()?.file_name());
            if names.len() > limit {
                return None;
            }
        }
        names.sort_unstable();
        Some(names)
    }

    /// Why a directory keeps this user out; `None` where it does not, or is none.
    #[must_use]
    pub fn closed(&self, directory: &Path) -> Option<io::Error> {
        fs::read_dir(directory)
            .err()
            .filter(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Names in a directory, sorted; empty where there is none or it can't be read.
    #[must_use]
    pub fn names(&self, directory: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        names
    }
}

/// `e_machine` in the first bytes of a little-endian ELF file.
fn machine(head: &[u8]) -> Option<u16> {
    let is_elf = head.starts_with(b"\x7fELF") && head.get(5) == Some(&1);
    let bytes = head.get(18..20).filter(|_| is_elf)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Device and inode, the same by whatever path a file was reached.
#[cfg(unix)]
fn place_on_disk(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn place_on_disk(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// `expected` bytes are read at once; there may be more or fewer.
fn read(path: &Path, limit: u64, expected: u64) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0).saturating_add(1));
    fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_places_lie_below_the_prefix() {
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
    fn a_place_has_one_text_and_a_link_its_files_name() {
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
    fn a_directory_is_no_text() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Root::system().text(directory.path()).is_err());
        assert!(
            Root::system()
                .names(&directory.path().join("absent"))
                .is_empty()
        );
    }
}

//! Unpacks an archive of NVIDIA's (`.tar.xz`) into the root of a toolkit. An archive is untrusted input: nothing is
//! written outside the root, no symbolic link leads out of it, and size and memory are limited.
#![allow(
    clippy::disallowed_methods,
    reason = "the store unpacks archives only in this module"
)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component as Part, Path, PathBuf};

use lzma_rust2::XzReader;
use sha2::Digest as _;
use tar::{Archive, Entry, EntryType};

use super::package::Sha256;

/// The memory for decompressing, in KiB. `xz -9`, the highest level, needs 65 MiB.
const MEMORY: u32 = 256 * 1024;

/// An archive may unpack to this many times its size …
const RATIO: u64 = 100;

/// … and this many bytes more.
const SLACK: u64 = 16 * 1024 * 1024;

/// The SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> io::Result<Sha256> {
    let (mut file, mut digest) = (File::open(path)?, sha2::Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Sha256::from_bytes(digest.finalize().into())),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Why an archive could not be unpacked.
#[derive(Debug)]
pub(super) enum Problem {
    /// What is wrong with the archive.
    Archive(String),
    /// The system's error.
    Disk(io::Error),
}

impl From<io::Error> for Problem {
    /// Only errors of the system have a number.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Disk(error),
            None => Self::Archive(error.to_string()),
        }
    }
}

impl Problem {
    /// The same problem of one entry of the archive.
    fn of_entry(self, path: &Path) -> Self {
        match self {
            Self::Archive(reason) => Self::Archive(format!("`{}`: {reason}", path.display())),
            disk => disk,
        }
    }
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Archive(reason.into()))
}

/// Unpacks the archive of the package `name` into `root`, without the directory that contains everything in the archive.
/// Returns the paths of the files below `root` with their sizes; a symbolic link has no size. A different file that
/// another archive has unpacked before is kept.
pub(super) fn unpack(archive: &Path, name: &str, root: &Path) -> Result<Files, Problem> {
    let file = File::open(archive)?;
    let size = file.metadata()?.len();
    let limit = size.saturating_mul(RATIO).saturating_add(SLACK);
    let stream = XzReader::new_mem_limit(io::BufReader::new(file), true, MEMORY);
    let stream = Limited {
        stream,
        left: limit,
    };
    let mut archive = Archive::new(stream);
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let failed = |problem: Problem| problem.of_entry(&path);
        let Some(below) = below_top(&path).map_err(failed)? else {
            continue;
        };
        // Every archive has a licence at its top.
        let below = match below.to_str() {
            Some("LICENSE") => PathBuf::from(format!("LICENSE-{name}")),
            _ => below,
        };
        if let Some(size) = write(&mut entry, root, &below).map_err(failed)? {
            files.push((below, size));
        }
    }
    Ok(files)
}

/// Paths with sizes.
pub(super) type Files = Vec<(PathBuf, Option<u64>)>;

/// A stream that fails after a number of bytes.
struct Limited<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                return Err(io::Error::other(
                    "the archive unpacks to an unreasonable size",
                ));
            }
        }
        Ok(count)
    }
}

/// The path below the archive's top directory; `None` for that directory itself.
fn below_top(path: &Path) -> Result<Option<PathBuf>, Problem> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Part::Normal(name) => names.push(name),
            Part::CurDir => {}
            _ => return invalid("the path leads out of the archive"),
        }
    }
    let below: PathBuf = names.iter().skip(1).collect();
    Ok((names.len() > 1).then_some(below))
}

/// Writes one entry. Returns the size of a file, `Some(None)` for a link, and `None` for a directory or if there is
/// something else in its place.
fn write(
    entry: &mut Entry<'_, impl Read>,
    root: &Path,
    below: &Path,
) -> Result<Option<Option<u64>>, Problem> {
    let target = root.join(below);
    // No entry is written through a link of an earlier entry.
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let above = below
        .ancestors()
        .skip(1)
        .filter(|path| !path.as_os_str().is_empty());
    if above.map(|path| root.join(path)).any(|path| is_link(&path)) {
        return invalid("a directory of the path is a symbolic link");
    }
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory {
        fs::create_dir_all(&target)?;
        return Ok(None);
    }
    fs::create_dir_all(target.parent().unwrap_or(root))?;
    let existing = fs::symlink_metadata(&target).ok();
    match kind {
        EntryType::Regular => {
            if let Some(existing) = existing {
                let same = existing.is_file() && is_same(entry, &mut File::open(&target)?)?;
                return Ok(same.then_some(Some(existing.len())));
            }
            let mode = entry.header().mode()?;
            let mut file = File::options().write(true).create_new(true).open(&target)?;
            let size = io::copy(entry, &mut file)?;
            let executable = if mode & 0o111 == 0 { 0 } else { 0o111 };
            let mode = fs::Permissions::from_mode(0o644 | executable);
            file.set_permissions(mode)?;
            Ok(Some(Some(size)))
        }
        EntryType::Symlink => {
            let link = entry.link_name()?.unwrap_or_default();
            if !stays_inside(below, &link) {
                return invalid(format!(
                    "it links to `{}`, outside the archive",
                    link.display()
                ));
            }
            if existing.is_some() {
                let same = fs::read_link(&target).is_ok_and(|existing| existing == *link);
                return Ok(same.then_some(None));
            }
            std::os::unix::fs::symlink(&link, &target)?;
            Ok(Some(None))
        }
        _ => invalid("it is neither a file, a directory nor a symbolic link"),
    }
}

/// Whether two streams have the same bytes.
fn is_same(one: &mut impl Read, other: &mut impl Read) -> io::Result<bool> {
    let (mut buffer, mut expected) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut buffer)?;
        if count == 0 {
            return Ok(other.read(&mut buffer)? == 0);
        }
        match other.read_exact(&mut expected[..count]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if buffer[..count] != expected[..count] {
            return Ok(false);
        }
    }
}

/// Whether a link at `below` with this target leads to a path below the root. `..` is accepted only at the start of the
/// target: after the name of another link, it would mean the parent of that link's target.
fn stays_inside(below: &Path, link: &Path) -> bool {
    let depth = below.components().count().saturating_sub(1);
    let mut parts = link
        .components()
        .filter(|part| *part != Part::CurDir)
        .peekable();
    let mut parents = 0;
    while parts.next_if_eq(&Part::ParentDir).is_some() {
        parents += 1;
    }
    !link.as_os_str().is_empty()
        && parents <= depth
        && parts.all(|part| matches!(part, Part::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_top() {
        let below =
            |path: &str| below_top(Path::new(path)).map(|it| it.map(|p| p.display().to_string()));
        let bin = |path: &str| below(path).unwrap();
        assert_eq!(bin("a-archive/bin/nvcc").as_deref(), Some("bin/nvcc"));
        assert_eq!(bin("./a-archive/bin").as_deref(), Some("bin"));
        assert_eq!(bin("a-archive/"), None);
        for path in ["/etc/passwd", "a/../../b", "../a/b"] {
            assert!(below(path).is_err(), "{path}");
        }
    }

    #[test]
    fn links_stay_inside() {
        let inside = |below: &str, link: &str| stays_inside(Path::new(below), Path::new(link));
        assert!(inside("lib/a.so", "a.so.1") && inside("lib/stubs/a.so", "../a.so"));
        for (below, link) in [
            ("a", "../b"),
            ("lib/a", "../../b"),
            ("lib/a", "/etc"),
            ("lib/a", ""),
            // On the way, the path is outside.
            ("lib/a", "../../cuda/lib/b"),
            // `a/b/c/l` may be a link to `../../..`.
            ("m", "a/b/c/l/../../x"),
            ("lib/m", "./../../x"),
        ] {
            assert!(!inside(below, link), "{below} -> {link}");
        }
    }
}

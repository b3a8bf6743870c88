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

/// Unpacks the archive of the package `name` into `root`, without the directory that contains everything in the archive.
/// Returns the paths of the files below `root` with their sizes; a symbolic link to a file has no size. A file that
/// another archive has unpacked before is kept.
pub(super) fn unpack(archive: &Path, name: &str, root: &Path) -> Result<Files, String> {
    let text = |error: io::Error| error.to_string();
    let file = File::open(archive).map_err(text)?;
    let size = file.metadata().map_err(text)?.len();
    let limit = size.saturating_mul(RATIO).saturating_add(SLACK);
    let stream = XzReader::new_mem_limit(io::BufReader::new(file), true, MEMORY);
    let stream = Limited {
        stream,
        left: limit,
    };
    let mut archive = Archive::new(stream);
    let mut files = Vec::new();
    for entry in archive.entries().map_err(text)? {
        let mut entry = entry.map_err(text)?;
        let path = entry.path().map_err(text)?.into_owned();
        let failed = |reason: String| format!("`{}`: {reason}", path.display());
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
    // Links to directories are not recorded, because a record is a list of files.
    files.retain(|(path, _)| root.join(path).is_file());
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
fn below_top(path: &Path) -> Result<Option<PathBuf>, String> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Part::Normal(name) => names.push(name),
            Part::CurDir => {}
            _ => return Err("the path leads out of the archive".to_owned()),
        }
    }
    let below: PathBuf = names.iter().skip(1).collect();
    Ok((names.len() > 1).then_some(below))
}

/// Writes one entry. Returns the size of a file that was written, `Some(None)` for a link.
fn write(
    entry: &mut Entry<'_, impl Read>,
    root: &Path,
    below: &Path,
) -> Result<Option<Option<u64>>, String> {
    let text = |error: io::Error| error.to_string();
    let target = root.join(below);
    // No entry is written through a link of an earlier entry.
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let above = below
        .ancestors()
        .skip(1)
        .filter(|path| !path.as_os_str().is_empty());
    if above.map(|path| root.join(path)).any(|path| is_link(&path)) {
        return Err("a directory of the path is a symbolic link".to_owned());
    }
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory {
        fs::create_dir_all(&target).map_err(text)?;
        return Ok(None);
    }
    fs::create_dir_all(target.parent().unwrap_or(root)).map_err(text)?;
    if fs::symlink_metadata(&target).is_ok() {
        return Ok(None);
    }
    match kind {
        EntryType::Regular => {
            let mode = entry.header().mode().map_err(text)?;
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .open(&target)
                .map_err(text)?;
            let size = io::copy(entry, &mut file).map_err(text)?;
            let executable = if mode & 0o111 == 0 { 0 } else { 0o111 };
            let mode = fs::Permissions::from_mode(0o644 | executable);
            file.set_permissions(mode).map_err(text)?;
            Ok(Some(Some(size)))
        }
        EntryType::Symlink => {
            let link = entry.link_name().map_err(text)?.unwrap_or_default();
            if !stays_inside(below, &link) {
                return Err(format!(
                    "it links to `{}`, outside the archive",
                    link.display()
                ));
            }
            std::os::unix::fs::symlink(&link, &target).map_err(text)?;
            Ok(Some(None))
        }
        _ => Err("it is neither a file, a directory nor a symbolic link".to_owned()),
    }
}

/// Whether a link at `below` with this target leads to a path below the root.
fn stays_inside(below: &Path, link: &Path) -> bool {
    let mut depth = below.components().count().saturating_sub(1);
    for part in link.components() {
        match part {
            Part::Normal(_) => depth += 1,
            Part::CurDir => {}
            Part::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    !link.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_top() {
        let below =
            |path: &str| below_top(Path::new(path)).map(|it| it.map(|p| p.display().to_string()));
        assert_eq!(below("a-archive/bin/nvcc"), Ok(Some("bin/nvcc".to_owned())));
        assert_eq!(below("./a-archive/bin"), Ok(Some("bin".to_owned())));
        assert_eq!(below("a-archive/"), Ok(None));
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
        ] {
            assert!(!inside(below, link), "{below} -> {link}");
        }
        // On the way, the path is outside.
        assert!(!inside("lib/a", "../../cuda/lib/b"));
    }
}

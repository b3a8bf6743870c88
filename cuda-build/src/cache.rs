//! What build scripts write, nearly all of it below `OUT_DIR`: outputs, and beside each a stamp that says what it was made
//! from.
//!
//! Cargo runs a build script again for one changed header; the stamps keep it from compiling
//! what that header does not concern.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the file that writes outputs"
)]

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

const HEAD: &str = "cuda-build stamp 1";

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

/// Writes a file as a whole or not at all: beside it first, then renamed.
///
/// # Errors
/// [`Error::Io`]; then there is no partial file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        failed("write", path)(error)
    })
}

/// As [`write`], for a file in a directory that many processes use at once: the directory is made,
/// and nobody else writes to the same half-done file.
///
/// # Errors
/// [`Error::Io`].
pub fn write_shared(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed("create", directory))?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(
        ".{}-{}.part",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        failed("write", path)(error)
    })
}

/// Writes a file only where its content is another, so that what depends on its time of change
/// is left alone.
///
/// # Errors
/// [`Error::Io`].
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        Ok(())
    } else {
        write(path, bytes)
    }
}

/// Removes a file; that there is none is fine.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// What an output is made from: the key says how, the inputs say from what.
#[derive(Clone, Debug)]
pub struct Stamp {
    path: PathBuf,
    key: String,
}

impl Stamp {
    /// The stamp of `output`; `key` holds the tool's identity and every argument.
    #[must_use]
    pub fn new(output: &Path, key: &[String]) -> Self {
        let mut path = output.as_os_str().to_owned();
        path.push(".stamp");
        let key = key
            .iter()
            .map(|line| format!("key {}\n", line.replace('\n', "\\n")))
            .collect();
        Self {
            path: PathBuf::from(path),
            key,
        }
    }

    /// The inputs recorded when the output was made, if it is still what the same tool would
    /// make of the same arguments and unchanged inputs; `None` where it has to be made anew.
    #[must_use]
    pub fn fresh_inputs(&self, output: &Path) -> Option<Vec<PathBuf>> {
        if !output.is_file() {
            return None;
        }
        let text = fs::read_to_string(&self.path).ok()?;
        let inputs = text
            .strip_prefix(HEAD)?
            .strip_prefix('\n')?
            .strip_prefix(self.key.as_str())?;
        let mut paths = Vec::new();
        for line in inputs.lines() {
            let (hash, path) = line.strip_prefix("input ")?.split_once(' ')?;
            let path = PathBuf::from(path);
            if content_hash(&path).ok()? != hash {
                return None;
            }
            paths.push(path);
        }
        Some(paths)
    }

    /// Records that the output was made from `inputs`. Called after the output is whole.
    ///
    /// # Errors
    /// [`Error::Io`], also for an input that can't be read.
    pub fn record(&self, inputs: &[PathBuf]) -> Result<(), Error> {
        let mut text = format!("{HEAD}\n{}", self.key);
        for path in inputs {
            let hash = content_hash(path).map_err(failed("read", path))?;
            let _ = writeln!(text, "input {hash} {}", path.display());
        }
        write(&self.path, text.as_bytes())
    }

    /// Forgets, before the output is made anew: a build that is killed then leaves no claim.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn forget(&self) -> Result<(), Error> {
        remove(&self.path)
    }
}

/// The standard library's hash may change between Rust releases; then everything is made once
/// more, which a new compiler entails anyway.
fn content_hash(path: &Path) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    fs::read(path)?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// What tells one build of a tool from another: path, size and time of change.
#[must_use]
pub fn identity(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else {
        return path.display().to_string();
    };
    let changed = metadata
        .modified()
        .ok()
        .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    format!(
        "{} {} {}",
        path.display(),
        metadata.len(),
        changed.map_or(0, |t| t.as_nanos())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_fresh_until_key_input_or_itself_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (output, input) = (
            directory.path().join("a.fatbin"),
            directory.path().join("größe a.cuh"),
        );
        let key = vec!["nvcc 13.4".to_owned(), "-O3\n-x".to_owned()];
        let stamp = Stamp::new(&output, &key);
        write(&input, b"1").unwrap();
        assert_eq!(stamp.fresh_inputs(&output), None);
        write(&output, b"code").unwrap();
        stamp.record(std::slice::from_ref(&input)).unwrap();
        assert_eq!(stamp.fresh_inputs(&output), Some(vec![input.clone()]));
        assert_eq!(Stamp::new(&output, &key[..1]).fresh_inputs(&output), None);
        write(&input, b"2").unwrap();
        assert_eq!(stamp.fresh_inputs(&output), None);
        write(&input, b"1").unwrap();
        assert!(stamp.fresh_inputs(&output).is_some());
        remove(&output).unwrap();
        assert_eq!(stamp.fresh_inputs(&output), None);
    }

    #[test]
    fn writing_is_all_or_nothing_and_leaves_the_unchanged_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        write(&path, b"1").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        let absent = directory.path().join("absent/x");
        assert!(
            write(&absent, b"1")
                .unwrap_err()
                .to_string()
                .contains("absent/x")
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

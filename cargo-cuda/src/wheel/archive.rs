//! Reads wheels, and writes them so that the same content always gives the same bytes.
#![allow(
    clippy::disallowed_methods,
    reason = "`wheel` reads and writes files only in this module"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read as _, Write as _};
use std::path::{Component as PathPart, Path};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::record;
use crate::failure::Failure;
use crate::output;
use crate::store::human_size;

/// zlib's default. Higher levels take much longer and gain little on device code, which is
/// compressed already.
const LEVEL: i64 = 6;

/// The most that a wheel may unpack to, because all of it is read into memory. Indexes accept
/// much less.
const MAX_SIZE: u64 = 2_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub content: Vec<u8>,
    pub executable: bool,
}

/// The files of a wheel without `RECORD`, which is computed from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// The metadata directory, such as `saxpy-0.1.0.dist-info`.
    pub dist_info: String,
    /// The files by their paths in the wheel, with `/`.
    pub entries: BTreeMap<String, Entry>,
}

pub fn read(path: &Path) -> Result<Wheel, Failure> {
    read_at_most(path, MAX_SIZE)
}

fn read_at_most(path: &Path, max_size: u64) -> Result<Wheel, Failure> {
    let invalid = |reason: String| Failure::wheel(format!("{}: {reason}", path.display()));
    let failed = |action| Failure::io(action, path);
    let of_zip = |error: ZipError| match error {
        ZipError::Io(source) => failed("read")(source),
        other => invalid(format!("not a readable zip file: {other}")),
    };
    // Opening a FIFO would wait for a writer.
    if !std::fs::metadata(path).map_err(failed("open"))?.is_file() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(failed("open"))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(of_zip)?;
    // `ZipArchive` would keep only the last file of each name.
    if archive.has_duplicate_names() {
        return Err(invalid("contains two files of the same name".to_owned()));
    }
    let mut entries = BTreeMap::new();
    let mut total = 0_u64;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(of_zip)?;
        let name = check_entry_name(file.name_raw()).map_err(|failure| invalid(failure.message))?;
        if file.is_symlink() {
            return Err(invalid(format!(
                "`{name}` is a symbolic link, which installers do not support"
            )));
        }
        if file.is_dir() {
            continue;
        }
        total = total.saturating_add(file.size());
        if total > max_size {
            return Err(invalid(format!(
                "its files have more than {} when unpacked, which is the largest size that cargo-cuda reads",
                human_size(max_size)
            )));
        }
        let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut content = Vec::new();
        // Ends with an error if the file unpacks to more than it declares.
        file.read_to_end(&mut content)
            .map_err(|error| invalid(format!("`{name}` is damaged: {error}")))?;
        let entry = Entry {
            content,
            executable,
        };
        entries.insert(name, entry);
    }
    let dist_info = dist_info(&entries).map_err(invalid)?;
    entries.remove(&format!("{dist_info}/RECORD"));
    Ok(Wheel { dist_info, entries })
}

/// The name of an entry as a path below the directory in which a wheel is installed.
pub fn check_entry_name(raw: &[u8]) -> Result<String, Failure> {
    let shown = raw.escape_ascii();
    let Ok(name) = std::str::from_utf8(raw) else {
        return Err(Failure::wheel(format!(
            "the file name `{shown}` is not UTF-8"
        )));
    };
    if name.contains(char::is_control) {
        return Err(Failure::wheel(format!(
            "the file name `{shown}` has control characters"
        )));
    }
    let is_plain = |part: PathPart<'_>| matches!(part, PathPart::Normal(_));
    if name.contains('\\') || !Path::new(name).components().all(is_plain) {
        return Err(Failure::wheel(format!(
            "the file name `{name}` leads out of the wheel"
        )));
    }
    Ok(name.to_owned())
}

/// The one metadata directory, with the files that installers require.
fn dist_info(entries: &BTreeMap<String, Entry>) -> Result<String, String> {
    let mut directories: Vec<&str> = entries
        .keys()
        .filter_map(|name| name.split_once('/'))
        .map(|(top, _)| top)
        .filter(|top| top.ends_with(".dist-info"))
        .collect();
    directories.dedup();
    let directory = match directories[..] {
        [one] => one,
        [] => return Err("not a wheel: it has no `.dist-info` directory".to_owned()),
        _ => {
            return Err(format!(
                "has several metadata directories: {}",
                directories.join(", ")
            ));
        }
    };
    let has = |file: &str| entries.contains_key(&format!("{directory}/{file}"));
    if let Some(missing) = ["METADATA", "WHEEL"].into_iter().find(|file| !has(file)) {
        return Err(format!("not a wheel: it has no `{directory}/{missing}`"));
    }
    if let Some(signature) = ["RECORD.jws", "RECORD.p7s"].into_iter().find(|f| has(f)) {
        return Err(format!(
            "is signed (`{signature}`), and rewriting would break the signature"
        ));
    }
    Ok(directory.to_owned())
}

/// Writes a wheel atomically, and returns its size in bytes. Files are sorted, followed by the
/// metadata, and `RECORD` is last. Dates are 1980-01-01, and modes are 0644 or 0755.
pub fn write(wheel: &Wheel, target: &Path) -> Result<u64, Failure> {
    // Compress in memory: a `ZipWriter` that is dropped after a failed write prints to stderr.
    let bytes = zip_bytes(wheel).map_err(Failure::io("compress", target))?;
    output::write(target, &bytes)?;
    Ok(bytes.len() as u64)
}

fn zip_bytes(wheel: &Wheel) -> io::Result<Vec<u8>> {
    let metadata_prefix = format!("{}/", wheel.dist_info);
    let mut ordered: Vec<(&String, &Entry)> = wheel.entries.iter().collect();
    ordered.sort_by_key(|(path, _)| (path.starts_with(&metadata_prefix), *path));

    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(DateTime::default())
        // `MAX_SIZE` keeps every file below 4 GiB.
        .large_file(false);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut record_text = String::new();
    for (path, entry) in ordered {
        let mode = if entry.executable { 0o755 } else { 0o644 };
        zip.start_file(path.as_str(), options.unix_permissions(mode))?;
        zip.write_all(&entry.content)?;
        let mut hasher = record::Hasher::default();
        hasher.update(&entry.content);
        record_text.push_str(&record::line(path, &hasher.finish()));
    }
    let record_path = format!("{}/RECORD", wheel.dist_info);
    record_text.push_str(&record::own_line(&record_path));
    zip.start_file(record_path.as_str(), options.unix_permissions(0o644))?;
    zip.write_all(record_text.as_bytes())?;
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;

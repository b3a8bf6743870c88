//! Writes wheels, so that the same content always gives the same bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use zip::read::ZipFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::archive::{Content, WheelArchive, WheelFile};
use super::metadata::record_line;
use crate::failure::Result;
use crate::output;

/// zlib's default. Higher levels take much longer and gain little on device code, which is
/// compressed already.
const LEVEL: i64 = 6;

/// The type of a regular file in a Unix mode.
const REGULAR: u32 = 0o100_000;

/// Writes a wheel atomically. Files are sorted, followed by the
/// metadata, and `RECORD` is last. Dates are 1980-01-01, and modes are 0644 or 0755. A file that has
/// neither a new content nor a new name is copied as it is compressed. Returns the wheel's size.
pub fn write(wheel: &WheelArchive, target: &Path) -> Result<u64> {
    output::write_with(target, |file| {
        let mut zip = ZipWriter::new(BufWriter::with_capacity(1 << 18, &mut *file));
        if let Err(error) = fill(wheel, &mut zip) {
            // Dropping an unfinished `ZipWriter` prints an error.
            std::mem::forget(zip);
            return Err(error);
        }
        zip.finish()?.flush()?;
        Ok(file.metadata()?.len())
    })
}

type Writer<'a> = ZipWriter<BufWriter<&'a mut File>>;

fn fill(wheel: &WheelArchive, zip: &mut Writer<'_>) -> io::Result<()> {
    let metadata_prefix = format!("{}/", wheel.dist_info);
    let mut ordered: Vec<(&String, &WheelFile)> = wheel.entries.iter().collect();
    ordered.sort_by_key(|(path, _)| (path.starts_with(&metadata_prefix), *path));

    let mut record_text = String::new();
    for (path, entry) in ordered {
        record_text += &record_line(path, Some(&entry.digest));
        add(zip, wheel, path, entry)?;
    }
    let record_path = format!("{}/RECORD", wheel.dist_info);
    record_text += &record_line(&record_path, None);
    zip.start_file(record_path, options(false))?;
    zip.write_all(record_text.as_bytes())
}

fn options(executable: bool) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(DateTime::default())
        // `MAX_SIZE` of the reader (4 GB) is below zip's limit of 4 GiB.
        .large_file(false)
        .unix_permissions(mode(executable))
}

fn mode(executable: bool) -> u32 {
    if executable { 0o755 } else { 0o644 }
}

fn add(
    zip: &mut Writer<'_>,
    wheel: &WheelArchive,
    path: &str,
    entry: &WheelFile,
) -> io::Result<()> {
    let index = match &entry.content {
        Content::New(content) => {
            zip.start_file(path, options(entry.executable))?;
            return zip.write_all(content);
        }
        Content::Old(index) => *index,
    };
    let source = wheel.source.as_ref();
    let source = source.ok_or_else(|| io::Error::other(format!("`{path}` is missing")))?;
    let mut source = source.borrow_mut();
    let raw = source.by_index_raw(index)?;
    if can_copy_compressed(&raw, path) {
        let mode = Some(mode(entry.executable));
        return Ok(zip.raw_copy_file_touch(raw, DateTime::default(), mode)?);
    }
    drop(raw);
    zip.start_file(path, options(entry.executable))?;
    io::copy(&mut source.by_index(index)?, zip).map(drop)
}

/// Whether a copy of the compressed file has the headers that [`options`] give: such a copy keeps
/// the name, the system, the file type, the extra fields and the comment.
fn can_copy_compressed<R: io::Read>(file: &ZipFile<'_, R>, path: &str) -> bool {
    file.name_raw() == path.as_bytes()
        && file.system() == System::Unix
        && file.unix_mode().map(|mode| mode & !0o7777) == Some(REGULAR)
        && file.extra_data_fields().next().is_none()
        && file.comment().is_empty()
}

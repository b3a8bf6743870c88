//! Writes wheels, so that the same content always gives the same bytes.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use zip::read::ZipFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::archive::{Content, Entry, Wheel};
use super::record;
use crate::failure::Failure;
use crate::output;

/// zlib's default. Higher levels take much longer and gain little on device code, which is
/// compressed already.
const LEVEL: i64 = 6;

/// The type of a regular file in a Unix mode.
const REGULAR: u32 = 0o100_000;

/// Writes a wheel atomically, and returns its size in bytes. Files are sorted, followed by the
/// metadata, and `RECORD` is last. Dates are 1980-01-01, and modes are 0644 or 0755. A file that has
/// neither a new content nor a new name is copied as it is compressed.
pub fn write(wheel: &Wheel, target: &Path) -> Result<u64, Failure> {
    output::write_with(target, |file| {
        let mut sink = Sink::new(file);
        let filled = fill(wheel, &mut sink);
        sink.finish()?;
        filled?;
        Ok(file.metadata()?.len())
    })
}

fn fill(wheel: &Wheel, sink: &mut Sink<'_>) -> io::Result<()> {
    let metadata_prefix = format!("{}/", wheel.dist_info);
    let mut ordered: Vec<(&String, &Entry)> = wheel.entries.iter().collect();
    ordered.sort_by_key(|(path, _)| (path.starts_with(&metadata_prefix), *path));

    let mut zip = ZipWriter::new(sink);
    let mut record_text = String::new();
    for (path, entry) in ordered {
        record_text.push_str(&record::line(path, &entry.digest));
        add(&mut zip, wheel, path, entry)?;
    }
    let record_path = format!("{}/RECORD", wheel.dist_info);
    record_text.push_str(&record::own_line(&record_path));
    zip.start_file(record_path, options(false))?;
    zip.write_all(record_text.as_bytes())?;
    zip.finish()?;
    Ok(())
}

fn options(executable: bool) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(DateTime::default())
        // Wheels that unpack to 4 GiB are not read.
        .large_file(false)
        .unix_permissions(mode(executable))
}

fn mode(executable: bool) -> u32 {
    if executable { 0o755 } else { 0o644 }
}

fn add(
    zip: &mut ZipWriter<&mut Sink<'_>>,
    wheel: &Wheel,
    path: &str,
    entry: &Entry,
) -> io::Result<()> {
    let index = match &entry.content {
        Content::New(content) => {
            zip.start_file(path, options(entry.executable))?;
            return zip.write_all(content);
        }
        Content::Old { index, .. } => *index,
    };
    let source = wheel.source.as_ref();
    let source = source.ok_or_else(|| io::Error::other(format!("`{path}` is missing")))?;
    let mut source = source.borrow_mut();
    let raw = source.by_index_raw(index)?;
    if is_copied_as_it_is(&raw, path) {
        let mode = Some(mode(entry.executable));
        zip.raw_copy_file_touch(raw, DateTime::default(), mode)?;
    } else {
        drop(raw);
        zip.start_file(path, options(entry.executable))?;
        io::copy(&mut source.by_index(index)?, zip)?;
    }
    Ok(())
}

/// Whether a copy of the compressed file has the headers that [`options`] give: such a copy keeps
/// the name, the system, the file type, the extra fields and the comment.
fn is_copied_as_it_is<R: io::Read>(file: &ZipFile<'_, R>, path: &str) -> bool {
    file.name_raw() == path.as_bytes()
        && file.system() == System::Unix
        && file
            .unix_mode()
            .is_some_and(|mode| mode & !0o7777 == REGULAR)
        && file.extra_data_fields().next().is_none()
        && file.comment().is_empty()
}

/// A file that accepts everything after its first error, and returns that error at the end. A
/// `ZipWriter` that cannot finish its archive prints a message when it is dropped.
struct Sink<'a> {
    file: BufWriter<&'a mut File>,
    position: u64,
    error: Option<io::Error>,
}

impl<'a> Sink<'a> {
    fn new(file: &'a mut File) -> Self {
        Self {
            file: BufWriter::with_capacity(1 << 18, file),
            position: 0,
            error: None,
        }
    }

    fn finish(mut self) -> io::Result<()> {
        self.attempt(|file| file.flush());
        // The rest of the buffer must not be written when the buffer is dropped.
        let (_, _) = self.file.into_parts();
        self.error.map_or(Ok(()), Err)
    }

    fn attempt<T>(
        &mut self,
        action: impl FnOnce(&mut BufWriter<&'a mut File>) -> io::Result<T>,
    ) -> Option<T> {
        if self.error.is_some() {
            return None;
        }
        match action(&mut self.file) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|file| file.write_all(bytes));
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(BufWriter::flush);
        Ok(())
    }
}

impl Seek for Sink<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match (self.attempt(|file| file.seek(to)), to) {
            (Some(position), _) | (None, SeekFrom::Start(position)) => position,
            (None, _) => self.position,
        };
        Ok(self.position)
    }
}

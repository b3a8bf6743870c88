//! Reading a wheel, and writing one so that the same content always gives the same bytes.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the only file of `wheel` that reads and writes files"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read as _, Write as _};
use std::path::{Component as PathPart, Path};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::{WheelError, record};
use crate::store::human_size;

/// zlib's own middle: higher levels cost much time and gain little on device code, which is
/// compressed already.
const LEVEL: i64 = 6;

/// The most that a wheel may unpack to, because all of it is read into memory. Indexes accept
/// much less.
const MAX_SIZE: u64 = 2_000_000_000;

/// One file of a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Whether it may be run.
    pub executable: bool,
}

/// A wheel's files without `RECORD`, which follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// The metadata directory, such as `saxpy-0.1.0.dist-info`.
    pub dist_info: String,
    /// Path inside the wheel, with `/`, to file.
    pub entries: BTreeMap<String, Entry>,
}

/// Reads a wheel into memory.
///
/// # Errors
/// [`WheelError::Io`]; [`WheelError::InvalidWheel`] if the file is not a zip file, is damaged, is
/// not a wheel, or has entries that an installer would refuse or put elsewhere.
pub fn read(path: &Path) -> Result<Wheel, WheelError> {
    read_at_most(path, MAX_SIZE)
}

fn read_at_most(path: &Path, max_size: u64) -> Result<Wheel, WheelError> {
    let invalid = |reason: String| WheelError::InvalidWheel {
        path: path.to_owned(),
        reason,
    };
    let failed = |action| {
        move |source| WheelError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
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
    // The library keeps the last one of each name.
    if archive.has_duplicate_names() {
        return Err(invalid("holds two files of the same name".to_owned()));
    }
    let mut entries = BTreeMap::new();
    let mut total = 0_u64;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(of_zip)?;
        let name = check_entry_name(file.name_raw()).map_err(invalid)?;
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
                "the files in it have more than {} when unpacked, the most that is read into memory",
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
fn check_entry_name(raw: &[u8]) -> Result<String, String> {
    let shown = raw.escape_ascii();
    let Ok(name) = std::str::from_utf8(raw) else {
        return Err(format!("the file name `{shown}` is not UTF-8"));
    };
    if name.contains(char::is_control) {
        return Err(format!("the file name `{shown}` has control characters"));
    }
    let is_plain = |part: PathPart<'_>| matches!(part, PathPart::Normal(_));
    if name.contains('\\') || !Path::new(name).components().all(is_plain) {
        return Err(format!("the file name `{name}` leads out of the wheel"));
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

/// Writes a wheel: files sorted, metadata after them, `RECORD` last, the date 1980-01-01, one
/// compression level, modes 0644 and 0755. The file appears under its name complete or not at all.
/// Returns its size in bytes.
///
/// # Errors
/// [`WheelError::Io`], a full disk among them.
pub fn write(wheel: &Wheel, target: &Path) -> Result<u64, WheelError> {
    let failed = |action| {
        move |source| WheelError::Io {
            action,
            path: target.to_owned(),
            source,
        }
    };
    let directory = target
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(failed("create the directory of"))?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let mut temporary =
        temporary_file(&format!(".{name}."), directory).map_err(failed("write beside"))?;
    // In memory first: a `ZipWriter` that is dropped after a failed write prints to stderr.
    let bytes = zip_bytes(wheel).map_err(failed("compress"))?;
    temporary
        .as_file_mut()
        .write_all(&bytes)
        .map_err(failed("write"))?;
    // Without this a crash of the machine could leave the final name on an empty file.
    temporary.as_file().sync_all().map_err(failed("write"))?;
    let size = temporary
        .as_file()
        .metadata()
        .map_err(failed("write"))?
        .len();
    temporary
        .persist(target)
        .map_err(|error| failed("rename to")(error.error))?;
    Ok(size)
}

/// A file that goes away when dropped, with the mode that any new file has.
fn temporary_file(prefix: &str, directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
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
        record_text.push_str(&record::line(path, &entry.content));
    }
    let record_path = format!("{}/RECORD", wheel.dist_info);
    record_text.push_str(&record::own_line(&record_path));
    zip.start_file(record_path.as_str(), options.unix_permissions(0o644))?;
    zip.write_all(record_text.as_bytes())?;
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel() -> Wheel {
        let file = |text: &str| Entry {
            content: text.as_bytes().to_owned(),
            executable: false,
        };
        let entries = [
            ("saxpy/__init__.py", file("x = 1\n")),
            ("zzz.py", file("")),
            ("saxpy-0.1.0.dist-info/METADATA", file("Name: saxpy\n")),
            ("saxpy-0.1.0.dist-info/WHEEL", file("Wheel-Version: 1.0\n")),
            (
                "saxpy-0.1.0.data/scripts/run",
                Entry {
                    content: b"#!x".to_vec(),
                    executable: true,
                },
            ),
        ];
        let entries = entries
            .into_iter()
            .map(|(path, entry)| (path.to_owned(), entry))
            .collect();
        Wheel {
            dist_info: "saxpy-0.1.0.dist-info".to_owned(),
            entries,
        }
    }

    fn bytes(wheel: &Wheel) -> Vec<u8> {
        zip_bytes(wheel).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out/saxpy-0.1.0-py3-none-any.whl");
        let size = write(&wheel(), &target).unwrap();
        assert_eq!(size, std::fs::metadata(&target).unwrap().len());
        assert_eq!(read(&target).unwrap(), wheel());
        let names: Vec<_> = std::fs::read_dir(target.parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn order_date_and_modes_are_fixed() {
        let mut archive = ZipArchive::new(Cursor::new(bytes(&wheel()))).unwrap();
        let mut seen = Vec::new();
        for index in 0..archive.len() {
            let file = archive.by_index(index).unwrap();
            assert_eq!(file.extra_data().unwrap_or_default(), b"");
            assert_eq!(
                file.last_modified().unwrap().to_string(),
                "1980-01-01 00:00:00"
            );
            seen.push((
                file.name().unwrap().into_owned(),
                file.unix_mode().unwrap() & 0o7777,
            ));
        }
        let expected = [
            ("saxpy-0.1.0.data/scripts/run", 0o755),
            ("saxpy/__init__.py", 0o644),
            ("zzz.py", 0o644),
            ("saxpy-0.1.0.dist-info/METADATA", 0o644),
            ("saxpy-0.1.0.dist-info/WHEEL", 0o644),
            ("saxpy-0.1.0.dist-info/RECORD", 0o644),
        ];
        assert_eq!(seen, expected.map(|(name, mode)| (name.to_owned(), mode)));
        assert_eq!(bytes(&wheel()), bytes(&wheel()));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        // A directory in the target's place makes the last step, the rename, fail.
        let target = directory.path().join("saxpy.whl");
        std::fs::create_dir_all(target.join("inside")).unwrap();
        let error = write(&wheel(), &target).unwrap_err().to_string();
        assert!(error.starts_with("could not rename to "), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(target.join("inside").is_dir());
    }

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.whl");
        let reason = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(reason(b"").contains("not a readable zip file"));
        let good = bytes(&wheel());
        assert!(reason(&good[..good.len() / 2]).contains("not a readable zip file"));

        let with = |path: &str| {
            let mut changed = wheel();
            changed.entries.insert(
                path.to_owned(),
                Entry {
                    content: Vec::new(),
                    executable: false,
                },
            );
            bytes(&changed)
        };
        assert!(reason(&with("../evil")).contains("`../evil` leads out"));
        assert!(reason(&with("/etc/passwd")).contains("leads out"));
        assert!(
            reason(&with("other-1.dist-info/METADATA")).contains("several metadata directories")
        );
        assert!(reason(&with("saxpy-0.1.0.dist-info/RECORD.jws")).contains("is signed"));
        for required in ["METADATA", "WHEEL"] {
            let mut changed = wheel();
            let path = format!("saxpy-0.1.0.dist-info/{required}");
            changed.entries.remove(&path);
            let text = reason(&bytes(&changed));
            assert!(text.ends_with(&format!("it has no `{path}`")), "{text}");
        }
        assert!(matches!(
            read(Path::new("/nowhere/x.whl")),
            Err(WheelError::Io { .. })
        ));
    }

    #[test]
    fn hostile_entries_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.whl");
        let mut good = wheel();
        for name in ["pkg/aa.py", "pkg/ab.py"] {
            let content = vec![b'x'; 100];
            let entry = Entry {
                content,
                executable: false,
            };
            good.entries.insert(name.to_owned(), entry);
        }
        let good = bytes(&good);
        let reason = |from: &[u8], to: &[u8]| {
            assert_eq!(from.len(), to.len());
            let mut changed = good.clone();
            let mut count = 0;
            for at in 0..changed.len() - from.len() {
                if changed[at..].starts_with(from) {
                    changed[at..at + to.len()].copy_from_slice(to);
                    count += 1;
                }
            }
            // In the entry's own header and in the central directory.
            assert!(count >= 2, "{count}");
            std::fs::write(&path, changed).unwrap();
            read(&path).map_err(|error| error.to_string()).unwrap_err()
        };
        for (to, words) in [
            (&b"pkg/aa.py"[..], "two files of the same name"),
            (b"pkg/a\xe9.py", r"`pkg/a\xe9.py` is not UTF-8"),
            (b"pkg/a\0.py", r"`pkg/a\x00.py` has control characters"),
            (b"pkg/a\n.py", "control characters"),
            (b"pkg\\ab.py", "leads out"),
        ] {
            let text = reason(b"pkg/ab.py", to);
            assert!(text.contains(words), "{text}");
        }
        // 100 bytes that declare to be 99: sizes are two numbers of four bytes beside each other.
        let at = good
            .windows(8)
            .position(|w| w[4..] == 100_u32.to_le_bytes());
        let start = good[at.unwrap()..][..4].to_owned();
        let declared = |size: u32| [start.clone(), size.to_le_bytes().to_vec()].concat();
        let text = reason(&declared(100), &declared(99));
        assert!(text.contains("is damaged"), "{text}");

        std::fs::write(&path, &good).unwrap();
        let text = read_at_most(&path, 210).unwrap_err().to_string();
        assert!(text.contains("more than 210 B when unpacked"), "{text}");
        std::fs::remove_file(&path).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(fifo.unwrap().success());
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("not a regular file"), "{text}");
    }
}

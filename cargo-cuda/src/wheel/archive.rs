//! Reading a wheel, and writing one so that the same content always gives the same bytes.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one file of `wheel` that touches the disk"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read as _, Write as _};
use std::path::{Component as PathPart, Path};

use cuda_build::Env;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::{WheelError, record};

/// zlib's own middle: higher levels cost much time and gain little on device code, which is
/// compressed already.
const LEVEL: i64 = 6;

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

/// The date that every file of a wheel gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveDate {
    given: Option<DateTime>,
}

impl ArchiveDate {
    /// The date of `SOURCE_DATE_EPOCH` (seconds since 1970, UTC), else the first that a zip file
    /// can hold, 1980-01-01. Source: the specification at reproducible-builds.org.
    ///
    /// # Errors
    /// [`WheelError::InvalidDate`] where the variable is no number or lies outside 1980 to 2107.
    pub fn from_env(env: &Env) -> Result<Self, WheelError> {
        let Some(value) = env.text("SOURCE_DATE_EPOCH") else {
            return Ok(Self::default());
        };
        let given = value.trim().parse().ok().and_then(date_of);
        if given.is_none() {
            return Err(WheelError::InvalidDate { value });
        }
        Ok(Self { given })
    }

    /// The given date as text; nothing where none was given.
    #[must_use]
    pub fn rfc3339(self) -> Option<String> {
        let d = self.given?;
        let (year, month, day) = (d.year(), d.month(), d.day());
        Some(format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            d.hour(),
            d.minute(),
            d.second()
        ))
    }
}

/// A zip file's date of seconds since 1970. Zip files count seconds in twos.
fn date_of(seconds: u64) -> Option<DateTime> {
    let (days, rest) = (seconds / 86_400, u32::try_from(seconds % 86_400).ok()?);
    // The Gregorian calendar in eras of 400 years that begin on 1 March: Howard Hinnant,
    // "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let days = days.checked_add(719_468)?;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);

    let small = |value: u64| u8::try_from(value).ok();
    let clock = |value: u32| u8::try_from(value).ok();
    DateTime::from_date_and_time(
        u16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        clock(rest / 3600)?,
        clock(rest / 60 % 60)?,
        clock(rest % 60 / 2 * 2)?,
    )
    .ok()
}

/// Reads a wheel whole.
///
/// # Errors
/// [`WheelError::Io`]; [`WheelError::InvalidWheel`] where the file is no zip file, is damaged,
/// has no metadata directory or several, or holds paths that lead out of it.
pub fn read(path: &Path) -> Result<Wheel, WheelError> {
    let invalid = |reason: String| WheelError::InvalidWheel {
        path: path.to_owned(),
        reason,
    };
    let of_zip = |error: ZipError| match error {
        ZipError::Io(source) => WheelError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        },
        other => invalid(format!("not a readable zip file: {other}")),
    };
    let file = File::open(path).map_err(|source| WheelError::Io {
        action: "open",
        path: path.to_owned(),
        source,
    })?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(of_zip)?;
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(of_zip)?;
        let name = file.name().map_err(of_zip)?.into_owned();
        let plain = Path::new(&name)
            .components()
            .all(|part| matches!(part, PathPart::Normal(_)));
        if !plain || name.contains('\\') {
            return Err(invalid(format!("`{name}` leads out of the wheel")));
        }
        if file.is_symlink() {
            return Err(invalid(format!(
                "`{name}` is a symbolic link, which wheels can't hold"
            )));
        }
        if file.is_dir() {
            continue;
        }
        let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut content = Vec::new();
        file.read_to_end(&mut content)
            .map_err(|error| invalid(format!("`{name}` is damaged: {error}")))?;
        if entries
            .insert(
                name.clone(),
                Entry {
                    content,
                    executable,
                },
            )
            .is_some()
        {
            return Err(invalid(format!("holds `{name}` twice")));
        }
    }

    let mut dist_infos: Vec<String> = entries
        .keys()
        .filter_map(|name| name.split_once('/'))
        .filter(|(top, _)| top.ends_with(".dist-info"))
        .map(|(top, _)| top.to_owned())
        .collect();
    dist_infos.dedup();
    let dist_info = match dist_infos.as_slice() {
        [one] => one.clone(),
        [] => {
            return Err(invalid(
                "no wheel: there is no `.dist-info` directory in it".to_owned(),
            ));
        }
        many => {
            return Err(invalid(format!(
                "has several metadata directories: {}",
                many.join(", ")
            )));
        }
    };
    for signature in ["RECORD.jws", "RECORD.p7s"] {
        if entries.contains_key(&format!("{dist_info}/{signature}")) {
            return Err(invalid(format!(
                "is signed (`{signature}`), and rewriting would break the signature"
            )));
        }
    }
    entries.remove(&format!("{dist_info}/RECORD"));
    Ok(Wheel { dist_info, entries })
}

/// Writes a wheel: files sorted, metadata after them, `RECORD` last, one date, one compression
/// level, modes 0644 and 0755. The file appears under its name complete or not at all.
/// Returns its size in bytes.
///
/// # Errors
/// [`WheelError::Io`], a full disk among them.
pub fn write(wheel: &Wheel, date: ArchiveDate, target: &Path) -> Result<u64, WheelError> {
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
    let bytes = zip_bytes(wheel, date).map_err(failed("compress"))?;
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

fn zip_bytes(wheel: &Wheel, date: ArchiveDate) -> io::Result<Vec<u8>> {
    let metadata_prefix = format!("{}/", wheel.dist_info);
    let mut ordered: Vec<(&String, &Entry)> = wheel.entries.iter().collect();
    ordered.sort_by_key(|(path, _)| (path.starts_with(&metadata_prefix), *path));

    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(date.given.unwrap_or_default())
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

    fn bytes(wheel: &Wheel, date: ArchiveDate) -> Vec<u8> {
        zip_bytes(wheel, date).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out/saxpy-0.1.0-py3-none-any.whl");
        let size = write(&wheel(), ArchiveDate::default(), &target).unwrap();
        assert_eq!(size, std::fs::metadata(&target).unwrap().len());
        assert_eq!(read(&target).unwrap(), wheel());
        let names: Vec<_> = std::fs::read_dir(target.parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn order_date_and_modes_are_fixed() {
        let mut archive =
            ZipArchive::new(Cursor::new(bytes(&wheel(), ArchiveDate::default()))).unwrap();
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
            ("saxpy-0.1.0.dist-info/RECORD", 0o644),
        ];
        assert_eq!(seen, expected.map(|(name, mode)| (name.to_owned(), mode)));
        assert_eq!(
            bytes(&wheel(), ArchiveDate::default()),
            bytes(&wheel(), ArchiveDate::default())
        );
    }

    #[test]
    fn source_date_epoch_sets_the_date() {
        let date =
            |value: &str| ArchiveDate::from_env(&Env::from_pairs([("SOURCE_DATE_EPOCH", value)]));
        for (value, text) in [
            ("315532800", "1980-01-01T00:00:00Z"),
            ("951868800", "2000-03-01T00:00:00Z"),
            ("1700000001", "2023-11-14T22:13:20Z"),
            ("4354819198", "2107-12-31T23:59:58Z"),
        ] {
            assert_eq!(date(value).unwrap().rfc3339().as_deref(), Some(text));
        }
        for value in ["0", "yesterday", "-1", "4354819200", "18446744073709551615"] {
            assert!(
                matches!(date(value), Err(WheelError::InvalidDate { .. })),
                "{value}"
            );
        }
        assert_eq!(
            ArchiveDate::from_env(&Env::default()).unwrap(),
            ArchiveDate::default()
        );
        assert_ne!(
            bytes(&wheel(), date("1700000000").unwrap()),
            bytes(&wheel(), ArchiveDate::default())
        );
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        // A directory in the target's place makes the last step, the rename, fail.
        let target = directory.path().join("saxpy.whl");
        std::fs::create_dir_all(target.join("inside")).unwrap();
        let error = write(&wheel(), ArchiveDate::default(), &target)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("could not rename to "), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(target.join("inside").is_dir());
    }

    #[test]
    fn what_is_no_wheel_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.whl");
        let reason = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(reason(b"").contains("not a readable zip file"));
        let good = bytes(&wheel(), ArchiveDate::default());
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
            bytes(&changed, ArchiveDate::default())
        };
        assert!(reason(&with("../evil")).contains("`../evil` leads out"));
        assert!(reason(&with("/etc/passwd")).contains("leads out"));
        assert!(
            reason(&with("other-1.dist-info/METADATA")).contains("several metadata directories")
        );
        assert!(reason(&with("saxpy-0.1.0.dist-info/RECORD.jws")).contains("is signed"));
        assert!(matches!(
            read(Path::new("/nowhere/x.whl")),
            Err(WheelError::Io { .. })
        ));
    }
}

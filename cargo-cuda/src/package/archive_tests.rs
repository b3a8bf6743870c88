//! Wheels that are written and read, and hostile ones.
#![allow(clippy::disallowed_methods, reason = "prepares files")]

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::*;
use crate::package::archive_writer::write;

fn file(content: &[u8]) -> WheelFile {
    WheelFile::new(content.to_owned(), false).unwrap()
}

fn wheel() -> WheelArchive {
    let executable = WheelFile::new(b"#!x".to_vec(), true).unwrap();
    let entries = [
        ("saxpy/__init__.py", file(b"x = 1\n")),
        ("zzz.py", file(b"")),
        ("saxpy-0.1.0.dist-info/METADATA", file(b"Name: saxpy\n")),
        ("saxpy-0.1.0.dist-info/WHEEL", file(b"Wheel-Version: 1.0\n")),
        ("saxpy-0.1.0.data/scripts/run", executable),
    ];
    let entries = entries
        .into_iter()
        .map(|(path, entry)| (path.to_owned(), entry));
    WheelArchive::new("saxpy-0.1.0.dist-info".to_owned(), entries.collect())
}

fn bytes(wheel: &WheelArchive) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    write(wheel, &path).unwrap();
    std::fs::read(path).unwrap()
}

/// The paths, hashes and contents of a wheel's files.
fn contents(wheel: &WheelArchive) -> BTreeMap<&str, (bool, &Digest, Vec<u8>)> {
    let entries = wheel.entries.iter();
    entries
        .map(|(path, entry)| {
            let content = wheel.bytes(path).unwrap();
            (path.as_str(), (entry.executable, &entry.digest, content))
        })
        .collect()
}

#[test]
fn a_written_wheel_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("out/saxpy-0.1.0-py3-none-any.whl");
    let written = write(&wheel(), &target).unwrap();
    assert_eq!(written, std::fs::metadata(&target).unwrap().len());
    let read = WheelArchive::open(&target).unwrap();
    assert_eq!(contents(&read), contents(&wheel()));
    assert_eq!(read.dist_info, wheel().dist_info);
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

/// A wheel that another program has written with the given options.
fn foreign(options: SimpleFileOptions) -> Vec<u8> {
    let info = "saxpy-0.1.0.dist-info";
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for name in [
        "saxpy/a.py",
        &format!("{info}/METADATA"),
        &format!("{info}/WHEEL"),
    ] {
        // Compresses well, and differently at each level.
        let content = name.repeat(1000) + &"saxpy".repeat(999);
        zip.start_file(name, options).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn unchanged_files_are_copied_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let packed = |bytes: &[u8], name: &str| {
        let mut archive = ZipArchive::new(Cursor::new(bytes.to_owned())).unwrap();
        let mut raw = Vec::new();
        let index = archive.index_for_name(name).unwrap();
        let mut file = archive.by_index_raw(index).unwrap();
        file.read_to_end(&mut raw).unwrap();
        (file.compression(), raw)
    };
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let deflated = stored.compression_method(CompressionMethod::Deflated);
    for options in [
        stored,
        deflated.compression_level(Some(1)).unix_permissions(0o600),
    ] {
        let old = foreign(options);
        std::fs::write(&path, &old).unwrap();
        let new = bytes(&WheelArchive::open(&path).unwrap());
        assert_eq!(packed(&new, "saxpy/a.py"), packed(&old, "saxpy/a.py"));
        let mut archive = ZipArchive::new(Cursor::new(new)).unwrap();
        let copied = archive.by_name("saxpy/a.py").unwrap();
        assert_eq!(copied.unix_mode(), Some(0o100_644));
        assert_eq!(copied.last_modified(), Some(DateTime::default()));
    }
}

#[test]
fn headers_of_the_source_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(6));
    let date = DateTime::from_date_and_time(2026, 11, 22, 1, 2, 4).unwrap();
    let variants = [
        options,
        options.last_modified_time(date).unix_permissions(0o640),
        options.system(System::Dos).last_modified_time(date),
    ];
    let written = variants.map(|options| {
        std::fs::write(&path, foreign(options)).unwrap();
        bytes(&WheelArchive::open(&path).unwrap())
    });
    assert!(written[0] == written[1] && written[0] == written[2]);
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let reason = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        WheelArchive::open(&path).unwrap_err().message
    };
    assert!(reason(b"").contains("not a readable zip file"));
    let good = bytes(&wheel());
    assert!(reason(&good[..good.len() / 2]).contains("not a readable zip file"));

    let with = |path: &str| {
        let mut changed = wheel();
        changed.entries.insert(path.to_owned(), file(b""));
        bytes(&changed)
    };
    assert!(reason(&with("../evil")).contains("`../evil` is not a plain path"));
    assert!(reason(&with("/etc/passwd")).contains("is not a plain path"));
    assert!(reason(&with("other-1.dist-info/METADATA")).contains("exactly one `.dist-info`"));
    let error = WheelArchive::open(Path::new("/nowhere/x.whl")).unwrap_err();
    assert_eq!(error.code, crate::exit_code::DISK);
}

#[test]
fn hostile_entries_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let mut good = wheel();
    for name in ["pkg/aa.py", "pkg/ab.py"] {
        good.entries.insert(name.to_owned(), file(&[b'x'; 100]));
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
        WheelArchive::open(&path)
            .map_err(|error| error.to_string())
            .unwrap_err()
    };
    for (to, words) in [
        (&b"pkg/aa.py"[..], "two files of the same name"),
        (b"pkg/a\xe9.py", r"`pkg/a\xe9.py` is not UTF-8"),
        (b"./ab_c.py", "`./ab_c.py` is not a plain path"),
        (b"pkg/a\0.py", "is not a plain path"),
        (b"pkg\\ab.py", "is not a plain path"),
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
    assert!(text.contains("could not be unpacked"), "{text}");

    std::fs::remove_file(&path).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(fifo.unwrap().success());
    let text = WheelArchive::open(&path).unwrap_err().message;
    assert!(text.contains("not a regular file"), "{text}");
}

/// Many names for one compressed file: 10 kB that would unpack to 300 GB.
#[test]
fn files_that_share_their_data_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    zip.start_file("a", options).unwrap();
    zip.write_all(&[0; 1_000_000]).unwrap();
    for number in 0..300 {
        zip.shallow_copy_file("a", &format!("{number}")).unwrap();
    }
    std::fs::write(&path, zip.finish().unwrap().into_inner()).unwrap();
    let error = WheelArchive::open(&path).unwrap_err().message;
    assert!(error.contains("not a readable zip file"), "{error}");
    assert!(
        error.contains("overlapping") || error.contains("mismatch"),
        "{error}"
    );
}

/// Every change of one byte gives the same wheel or an error, and nothing else.
#[test]
fn damaged_wheels_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let good = bytes(&wheel());
    let expected = wheel();
    let expected = contents(&expected);
    for at in 0..good.len() {
        for flip in [1, 0x80] {
            let mut changed = good.clone();
            changed[at] ^= flip;
            std::fs::write(&path, changed).unwrap();
            if let Ok(read) = WheelArchive::open(&path) {
                let read: Vec<_> = contents(&read)
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v.2))
                    .collect();
                let same = expected.iter().map(|(k, v)| ((*k).to_owned(), v.2.clone()));
                assert_eq!(read, same.collect::<Vec<_>>(), "byte {at}");
            }
        }
    }
}

//! Wheels that are written and read, and hostile ones.
#![allow(clippy::disallowed_methods, reason = "prepares files")]

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
fn a_written_wheel_reads_back() {
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
    let error = write(&wheel(), &target).unwrap_err().message;
    assert!(error.starts_with("could not write "), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(target.join("inside").is_dir());
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.whl");
    let reason = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        read(&path).unwrap_err().message
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
    assert!(reason(&with("other-1.dist-info/METADATA")).contains("several metadata directories"));
    assert!(reason(&with("saxpy-0.1.0.dist-info/RECORD.jws")).contains("is signed"));
    for required in ["METADATA", "WHEEL"] {
        let mut changed = wheel();
        let path = format!("saxpy-0.1.0.dist-info/{required}");
        changed.entries.remove(&path);
        let text = reason(&bytes(&changed));
        assert!(text.ends_with(&format!("it has no `{path}`")), "{text}");
    }
    let error = read(Path::new("/nowhere/x.whl")).unwrap_err();
    assert_eq!(error.code, crate::exit_code::DISK);
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
    let text = read_at_most(&path, 210).unwrap_err().message;
    assert!(text.contains("more than 210 B when unpacked"), "{text}");
    std::fs::remove_file(&path).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(fifo.unwrap().success());
    let text = read(&path).unwrap_err().message;
    assert!(text.contains("not a regular file"), "{text}");
}

//! Files that are not what they seem.

use std::fs::File;
use std::io::Write as _;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::Snapshot;
use super::machine::Machine;

const INFO: &str = "p-1.0.dist-info";

/// Writes a zip file with stored entries.
pub(super) fn zip(machine: &Machine, name: &str, files: &[(&str, &[u8])]) {
    let mut zip = ZipWriter::new(File::create(machine.path("project").join(name)).unwrap());
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in files {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
}

/// Replaces bytes in a file, wherever they are.
pub(super) fn replace(machine: &Machine, name: &str, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let path = machine.path("project").join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty(), "{name}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    std::fs::write(path, bytes).unwrap();
}

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Audits");
    let machine = Machine::new();
    machine.write("notes.txt", "text");
    machine.fails(snapshot, "audit notes.txt");
    machine.write("dist/notes.txt", "text");
    machine.fails(snapshot, "audit dist");
    machine.write("p.whl", "text");
    machine.fails_as(snapshot, "no zip file", "audit p.whl");
    let metadata = format!("{INFO}/METADATA");
    type Case<'a> = (&'a str, Vec<(&'a str, &'a [u8])>);
    let cases: Vec<Case<'_>> = vec![
        ("no metadata", vec![("p.py", b"")]),
        (
            "two packages",
            vec![(&metadata, b""), ("q-1.0.dist-info/METADATA", b"")],
        ),
        ("metadata that is not UTF-8", vec![(&metadata, b"\xff")]),
        ("a path that leads out", vec![("../p.py", b"")]),
        ("a control character in a name", vec![("p\n.py", b"")]),
    ];
    for (what, files) in cases {
        zip(&machine, "p-1.0-py3-none-any.whl", &files);
        machine.fails_as(snapshot, what, "audit p-1.0-py3-none-any.whl");
    }
    zip(
        &machine,
        "p-1.0-py3-none-any.whl",
        &[("a.py", b"x"), ("b.py", b"x")],
    );
    replace(&machine, "p-1.0-py3-none-any.whl", b"b.py", b"a.py");
    machine.fails_as(
        snapshot,
        "two files of one name",
        "audit p-1.0-py3-none-any.whl",
    );
    zip(
        &machine,
        "p-1.0-py3-none-any.whl",
        &[("a.py", b"some text")],
    );
    replace(
        &machine,
        "p-1.0-py3-none-any.whl",
        b"some text",
        b"same text",
    );
    machine.fails_as(snapshot, "a changed file", "audit p-1.0-py3-none-any.whl");
    zip(
        &machine,
        "p-1.0-py3-none-any.whl",
        &[("aa.py", b"some text")],
    );
    replace(&machine, "p-1.0-py3-none-any.whl", b"aa.py", b"a\xff.py");
    machine.fails_as(
        snapshot,
        "a name that is not UTF-8",
        "audit p-1.0-py3-none-any.whl",
    );
    large(snapshot, &machine);
}

fn large(snapshot: &mut Snapshot, machine: &Machine) {
    let path = machine.path("project").join("p-1.0-py3-none-any.whl");
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    zip.add_symlink("p.so", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    zip.finish().unwrap();
    machine.fails_as(snapshot, "a symbolic link", "audit p-1.0-py3-none-any.whl");
}

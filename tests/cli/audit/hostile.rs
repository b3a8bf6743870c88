//! Wheels and libraries that were made to break a reader.

use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::path::Path;

use cargo_cuda::audit::input;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::fixture::{GOOD, Module, Wheel, audit, codes, container, report};
use crate::components::offline;
use crate::support::Finished;

/// A zip file with these files and no more.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in files {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Replaces every occurrence of `from` by bytes of the same length.
fn replaced(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn archives_that_deceive_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("a/b");
    fs::create_dir_all(&inside).unwrap();
    let good = zip(&[
        ("saxpy/a.py", b"text"),
        ("x-1.dist-info/METADATA", b"Name: x"),
    ]);
    let zeros = zip(&[("saxpy/a.bin", &[0; 100_000])]);
    let size = 100_000_u32.to_le_bytes();
    let link = {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("saxpy/a.so", "/etc/passwd", SimpleFileOptions::default())
            .unwrap();
        zip.finish().unwrap().into_inner()
    };
    for (bytes, reason) in [
        (
            replaced(good.clone(), b"saxpy/a.py", b"../../a.py"),
            "leads out of the wheel",
        ),
        (
            replaced(good.clone(), b"saxpy/a.py", b"/tmp/xa.py"),
            "leads out of the wheel",
        ),
        (
            replaced(good.clone(), b"saxpy/a.py", b"sax\x1by/a.py"),
            "control characters",
        ),
        (
            replaced(zip(&[("a.py", b"1"), ("b.py", b"2")]), b"b.py", b"a.py"),
            "two files of the same name",
        ),
        (link, "is a symbolic link"),
        (
            replaced(zeros.clone(), &size, &4_200_000_000_u32.to_le_bytes()),
            "when unpacked",
        ),
        (replaced(zeros, &size, &10_u32.to_le_bytes()), "is damaged"),
        (good[..good.len() / 2].to_vec(), "not a readable zip file"),
        (b"PK".to_vec(), "not a readable zip file"),
        (zip(&[("saxpy/a.py", b"text")]), "no `.dist-info` directory"),
        (
            zip(&[("x-1.dist-info/WHEEL", b""), ("y-1.dist-info/WHEEL", b"")]),
            "several metadata directories: x-1.dist-info, y-1.dist-info",
        ),
    ] {
        let path = inside.join("x-1-py3-none-any.whl");
        fs::write(&path, bytes).unwrap();
        let finished = audit(&[], &[&path]);
        finished.failed(15, &["x-1-py3-none-any.whl", reason]);
    }
    // Nothing but the wheel was written.
    let files = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!((files(place.path()), files(&inside)), (1, 1));
    assert!(!Path::new("/tmp/xa.py").exists());
}

#[test]
fn what_is_no_wheel_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let text = place.path().join("notes.txt");
    fs::write(&text, "text").unwrap();
    audit(&[], &[&text]).failed(15, &["neither a wheel, nor an ELF library", "hint: "]);
    // A directory that is empty, and one with a source distribution only.
    let dist = place.path().join("dist");
    fs::create_dir(&dist).unwrap();
    let nothing = "dist: contains neither a wheel, nor an ELF library, nor device code";
    audit(&[], &[&dist]).failed(15, &[nothing]);
    fs::write(dist.join("saxpy-1.0.tar.gz"), [31, 139, 8]).unwrap();
    audit(&[], &[&dist]).failed(15, &[nothing]);
    audit(&[], &[Path::new("missing.whl")]).failed(16, &["could not open missing.whl"]);
    audit(&[], &[Path::new("/dev/null")]).failed(15, &["neither a regular file nor a directory"]);
}

#[test]
fn damaged_files_are_findings() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let module = Module::good().link();
    let wheel = Wheel::with_module(module[..module.len() / 2].to_vec());
    let finished = audit(&["--json"], &[&wheel.write(place.path())]);
    assert_eq!(finished.code, 17);
    let report = report(&finished);
    assert_eq!(codes(&report), ["W18"]);
    let message = report["findings"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("saxpy/saxpy.abi3.so: not a readable ELF library"),
        "{message}"
    );
}

#[test]
fn mutated_libraries_never_panic() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("m.so");
    let module = Module::good().link();
    // Marsaglia's xorshift: the same sequence on every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    let images = container(GOOD);
    let start = module
        .windows(16)
        .position(|window| window == &images[..16])
        .unwrap();
    let (mut readable, mut unreadable) = (0, 0);
    for round in 0..1500 {
        let mut bytes = module.clone();
        for _ in 0..=random() % 8 {
            // Headers of the file, of the fat binary, of the sections.
            let at = match round % 4 {
                0 => random() % 1024,
                1 => start + random() % 100,
                2 => bytes.len() - 1 - random() % 2048,
                _ => random() % bytes.len(),
            };
            bytes[at] = [0, 1, 0xff, 0x80, random() as u8][random() % 5];
        }
        if random() % 4 == 0 {
            bytes.truncate(random() % bytes.len());
        }
        fs::write(&path, bytes).unwrap();
        match input::read(&path) {
            Ok(artifact) if artifact.unreadable.is_empty() => readable += 1,
            _ => unreadable += 1,
        }
    }
    assert!(
        readable > 100 && unreadable > 100,
        "{readable} readable, {unreadable} unreadable"
    );
}

/// Makes a section of a module reach to the end of the file, which gets `size` bytes.
fn with_huge_section(mut module: Vec<u8>, name: &[u8], size: usize) -> Vec<u8> {
    use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
    let file = ElfFile64::<object::Endianness>::parse(&*module).unwrap();
    let endian = file.elf_header().endian().unwrap();
    let (index, section) = file
        .elf_section_table()
        .section_by_name(endian, name)
        .unwrap();
    let (start, _) = section.file_range(endian).unwrap();
    // The size is the fifth of the 8-byte fields after name and type.
    let at = file.elf_header().e_shoff(endian) as usize + index.0 * 64 + 32;
    module[at..at + 8].copy_from_slice(&(size as u64 - start).to_le_bytes());
    module.resize(size, 0);
    module
}

#[test]
fn huge_tables_of_a_module_are_not_read() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let module = with_huge_section(Module::good().link(), b".dynstr", 70 << 20);
    let mut wheel = Wheel::with_module(module);
    wheel.name = "saxpy".to_owned();
    let path = wheel.write(place.path());
    let script = format!(
        "ulimit -d 60000; exec '{}' cuda wheel --cuda 13 --from-wheel '{}'",
        env!("CARGO_BIN_EXE_cargo-cuda"),
        path.display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path())
        .output();
    Finished::of(output.unwrap()).failed(15, &["saxpy/saxpy.abi3.so: not a readable ELF library"]);
}

#[test]
#[ignore = "minutes"]
fn large_files_need_little_memory() {
    let place = tempfile::tempdir().unwrap();
    let module = Module::good().link();
    let path = place.path().join("large.so");
    let mut file = File::create(&path).unwrap();
    file.write_all(&module).unwrap();
    file.set_len(2 << 30).unwrap();
    let script = format!(
        "ulimit -v 300000; exec '{}' cuda audit '{}'",
        env!("CARGO_BIN_EXE_cargo-cuda"),
        path.display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Hopper     9.0"));
}

//! `cargo cuda toolkit gc` and `remove` beside other commands.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::redist::{Mirror, RUNTIME, add, file};
use crate::support::{Finished, Sandbox, Tool};

/// A store with one toolkit, and the path of its only library.
fn stored() -> (Sandbox, PathBuf) {
    let mut mirror = Mirror::new("12.9.1");
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        file(archive, "top/lib/libcudart.so.12", b"runtime");
    });
    let sandbox = Sandbox::new(Tool::Nothing);
    let report = add(
        &sandbox,
        mirror.directory.path().to_str().unwrap(),
        &RUNTIME,
    )
    .json();
    let library = Path::new(report["path"].as_str().unwrap()).join("root/lib/libcudart.so.12");
    (sandbox, library)
}

/// Starts a command while another process holds the lock of the store, and returns when it waits.
fn waiting(sandbox: &Sandbox, arguments: &[&str]) -> (Child, Child) {
    let mut holder = Command::new("flock");
    holder.arg(sandbox.path("cache/toolkits/.lock"));
    holder.args(["sh", "-c", "echo locked; read end"]);
    let mut holder = holder
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "locked\n");
    let mut command = sandbox.toolkit(arguments);
    let mut command = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut waits = [0; 7];
    let stderr = command.stderr.as_mut().unwrap();
    while waits != *b"Waiting" {
        waits.rotate_left(1);
        stderr.read_exact(&mut waits[6..]).unwrap();
    }
    (command, holder)
}

#[test]
fn gc_keeps_what_was_repaired_meanwhile() {
    let (sandbox, library) = stored();
    fs::remove_file(&library).unwrap();
    let (gc, mut holder) = waiting(&sandbox, &["gc"]);
    fs::write(&library, "runtime").unwrap();
    drop(holder.stdin.take());
    let gc = Finished::of(gc.wait_with_output().unwrap());
    assert_eq!((gc.code, gc.stdout.as_str()), (0, "nothing to remove\n"));
    assert!(library.exists());
    holder.wait().unwrap();
}

#[test]
fn a_second_gc_has_nothing_to_do() {
    let (sandbox, library) = stored();
    fs::remove_file(&library).unwrap();
    let (gc, mut holder) = waiting(&sandbox, &["gc"]);
    let toolkit = sandbox.path("cache/toolkits").join(&sandbox.stored()[0]);
    fs::remove_dir_all(toolkit).unwrap();
    drop(holder.stdin.take());
    let gc = Finished::of(gc.wait_with_output().unwrap());
    assert_eq!((gc.code, gc.stdout.as_str()), (0, "nothing to remove\n"));
    holder.wait().unwrap();
}

#[test]
fn gc_keeps_toolkits_of_a_newer_program() {
    let (sandbox, library) = stored();
    let name = sandbox.stored().remove(0);
    let manifest = sandbox
        .path("cache/toolkits")
        .join(&name)
        .join("toolkit.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    for (from, to) in [
        ("format_version = 1", "format_version = 2"),
        ("cuda-cudart", "cuda-future"),
    ] {
        assert!(text.contains(from));
        fs::write(&manifest, text.replace(from, to)).unwrap();
        let run = sandbox.run(&["gc"]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "nothing to remove\n"));
        let list = sandbox.run(&["list"]).stdout;
        assert!(list.contains("cannot be used"), "{list}");
    }
    fs::write(&manifest, text).unwrap();
    fs::remove_file(library).unwrap();
    sandbox.run(&["gc"]).succeeded();
    assert!(sandbox.stored().is_empty());
}

#[test]
fn only_gc_removes_interrupted_downloads() {
    let (sandbox, _) = stored();
    let archive = sandbox.path("cache/toolkits/.archives/0123");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    fs::write(&archive, "half").unwrap();
    sandbox.run(&["remove", "12"]).succeeded();
    assert!(archive.exists());
    sandbox.run(&["gc"]).succeeded();
    assert!(!archive.exists());
}

//! What `--from redist` makes of unusual mirrors and archives: links, shared files, full disks, odd paths, signals.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_cuda::exit_code;
use serde_json::json;

use crate::redist::{self, Mirror, RUNTIME, Server, add, file, link};
use crate::support::{Finished, Sandbox, Tool, left_out};

/// A mirror of libraries that are only text.
fn mirror() -> Mirror {
    let mut mirror = Mirror::new("12.9.1");
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        file(archive, "top/lib/libcudart.so.12", b"runtime");
        file(archive, "top/version.txt", b"12.9");
        link(archive, "top/lib64", "lib");
        link(archive, "top/lib/stubs/libcuda.so", "../../absent");
    });
    mirror.add("libcufft", "11.4.1.4", |archive| {
        file(archive, "top/lib/libcufft.so.11", b"transform");
        file(archive, "top/version.txt", b"12.9");
        link(archive, "top/lib64", "lib");
    });
    mirror.add("libcurand", "10.3.10.19", |archive| {
        file(archive, "top/lib/libcurand.so.10", b"numbers");
    });
    mirror
}

fn directory(mirror: &Mirror) -> &str {
    mirror.directory.path().to_str().unwrap()
}

fn root(report: &serde_json::Value) -> PathBuf {
    Path::new(report["path"].as_str().unwrap()).join("root")
}

#[test]
fn a_larger_toolkit_has_links_and_shared_files() {
    let (mirror, sandbox) = (mirror(), Sandbox::new(Tool::Nothing));
    let add = |arguments: &[&str]| add(&sandbox, directory(&mirror), arguments).json();
    let small = add(&RUNTIME);
    let both = add(&["12", "--only", "cudart,cufft", "--json"]);
    assert_eq!(both["fetched"], json!(["libcufft"]));
    let other = add(&["12.9", "--only", "cufft,curand", "--json"]);
    assert_eq!(other["fetched"], json!(["libcurand"]));
    for (report, stub) in [(&small, true), (&both, true), (&other, false)] {
        let root = root(report);
        assert_eq!(fs::read_link(root.join("lib64")).unwrap(), Path::new("lib"));
        assert_eq!(fs::read(root.join("version.txt")).unwrap(), b"12.9");
        let found = fs::read_link(root.join("lib/stubs/libcuda.so"));
        assert_eq!(found.is_ok(), stub, "{report}");
    }
    // A link that was recorded is part of what is checked.
    fs::remove_file(root(&both).join("lib64")).unwrap();
    let list = sandbox.run(&["list"]).stdout;
    assert!(
        list.contains("`root/lib64` of cuda-cudart 12.9.79 is missing"),
        "{list}"
    );
}

#[test]
fn a_chain_of_links_does_not_lead_out() {
    let mut mirror = Mirror::new("12.9.1");
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        link(archive, "top/a/b/c/l", "../../..");
        link(archive, "top/m", "a/b/c/l/../../x");
    });
    let sandbox = Sandbox::new(Tool::Nothing);
    add(&sandbox, directory(&mirror), &RUNTIME).failed(
        exit_code::INSTALLER,
        &["`top/m`: it links to `a/b/c/l/../../x`, outside the archive"],
    );
    assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
}

#[test]
fn an_archive_that_is_incomplete_is_unpacked_once() {
    let mut mirror = Mirror::new("12.9.1");
    // The list of files has one path in each line.
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        file(archive, "top/a\nb", b"");
    });
    let sandbox = Sandbox::new(Tool::Nothing);
    let run = add(&sandbox, directory(&mirror), &RUNTIME);
    run.failed(
        exit_code::INSTALLER,
        &["`b` of cuda-cudart 12.9.79 is missing"],
    );
    assert_eq!(run.stderr.matches("Unpacking").count(), 1, "{run:?}");
}

#[test]
fn messages_are_those_of_the_source() {
    let (mirror, sandbox) = (mirror(), Sandbox::new(Tool::Nothing));
    let nccl = ["12", "--components", "nccl"];
    add(&sandbox, directory(&mirror), &nccl).failed(
        exit_code::NOT_RELEASED,
        &[
            "no archive of NVIDIA's contains `nccl` for CUDA 12",
            "`--from wheels`",
        ],
    );
    // The lock file pins a version that the mirror no longer has.
    fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
    add(&sandbox, directory(&mirror), &RUNTIME).succeeded();
    sandbox.run(&["remove", "12"]).succeeded();
    fs::remove_file(mirror.path("redistrib_12.9.1.json")).unwrap();
    add(&sandbox, directory(&mirror), &RUNTIME)
        .failed(exit_code::NOT_RELEASED, &["has no redistrib_12.9.1.json"]);
}

#[test]
fn every_path_of_a_directory_is_found() {
    let mirror = mirror();
    for name in [&b"a b"[..], b"caf\xe9"] {
        let sandbox = Sandbox::new(Tool::Nothing);
        let path = sandbox.path("").join(OsStr::from_bytes(name));
        let copied = Command::new("cp")
            .arg("-r")
            .arg(mirror.directory.path())
            .arg(&path)
            .status();
        assert!(copied.unwrap().success());
        let mut add = sandbox.toolkit(&["add", "--from", "redist", "12", "--only", "cudart"]);
        Finished::of(add.env("CUDA_BUILD_REDIST", &path).output().unwrap()).succeeded();
    }
    let sandbox = Sandbox::new(Tool::Nothing);
    let url = format!("file://{}", directory(&mirror).replace('/', "/%2e/"));
    add(&sandbox, &url, &RUNTIME).succeeded();
}

#[test]
fn curl_gets_the_lock_and_no_other_protocol() {
    let mirror = mirror();
    let sandbox = redist::sandbox();
    let server = Server::start(mirror.directory.path(), false, true);
    let curl = fs::read_to_string(sandbox.path("bin/curl")).unwrap();
    let input = sandbox.path("input");
    let noting = format!("/bin/readlink /proc/$$/fd/0 > '{}'\nexec", input.display());
    fs::write(sandbox.path("bin/curl"), curl.replace("exec", &noting)).unwrap();
    add(&sandbox, &server.url, &RUNTIME).succeeded();
    let input = fs::read_to_string(input).unwrap();
    assert!(input.ends_with("cache/toolkits/.lock\n"), "{input}");

    for (scheme, redirections) in [("http", "=http,https"), ("https", "=https")] {
        fs::write(sandbox.path("calls"), "").unwrap();
        let url = format!("{scheme}://user:secret@127.0.0.1:9/a");
        let run = add(&sandbox, &url, &["11", "--only", "cudart", "--verbose"]);
        run.failed(
            exit_code::INDEX,
            &[&format!("could not fetch {scheme}://127.0.0.1:9/a/")],
        );
        assert!(!run.stderr.contains("secret"), "{run:?}");
        let calls = fs::read_to_string(sandbox.path("calls")).unwrap();
        let option = format!("--proto-redir {redirections} ");
        assert!(
            calls.contains(&option) && calls.contains("user:secret@"),
            "{calls}"
        );
    }
}

#[test]
fn an_interrupted_download_is_no_failed_one() {
    let sandbox = redist::sandbox();
    let begun = sandbox.path("begun");
    let script = format!("#!/bin/sh\n: > '{}'\nexec /bin/sleep 60\n", begun.display());
    fs::write(sandbox.path("bin/curl"), script).unwrap();
    let mut add = sandbox.toolkit(&["add", "--from", "redist", "12"]);
    add.env("CUDA_BUILD_REDIST", "http://127.0.0.1:9");
    let child = add
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !begun.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let kill = Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    let run = Finished::of(child.wait_with_output().unwrap());
    assert_eq!(run.code, 128 + 15, "{run:?}");
    assert!(run.stderr.contains("interrupted by signal 15"), "{run:?}");
    assert!(!run.stderr.contains("check the URL"), "{run:?}");
}

/// On a disk of its own, in a mount namespace that ends with the process.
#[test]
fn a_full_disk_is_reported_as_one() {
    if std::env::var_os("CUDA_BUILD_TEST_NO_MOUNT").is_some() {
        left_out("CUDA_BUILD_TEST_NO_MOUNT");
        return;
    }
    let mut mirror = Mirror::new("12.9.1");
    let mut state = 1_u64;
    let random = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    });
    let random: Vec<u8> = random.take(4 << 20).collect();
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        file(archive, "top/lib/libcudart.so.12", &random);
    });
    let server = Server::start(mirror.directory.path(), false, true);
    for place in [directory(&mirror), &server.url] {
        let sandbox = redist::sandbox();
        fs::create_dir(sandbox.path("cache")).unwrap();
        let inner = sandbox.toolkit(&["add", "--from", "redist", "12", "--only", "cudart"]);
        let script = "mount -t tmpfs -o size=3m tmpfs \"$CUDA_BUILD_CACHE_DIR\" || exit 99\n\
                      PATH=$INNER_PATH \"$@\"; exit $?";
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
        outer.arg(inner.get_program()).args(inner.get_args());
        outer
            .env("CUDA_BUILD_CACHE_DIR", sandbox.path("cache"))
            .env("CUDA_BUILD_REDIST", place)
            .env("INNER_PATH", sandbox.path("bin"))
            .env("no_proxy", "127.0.0.1")
            .current_dir(sandbox.path("work"));
        let run = Finished::of(outer.output().unwrap());
        assert_ne!(
            run.code, 99,
            "CUDA_BUILD_TEST_NO_MOUNT=1 leaves this out: {run:?}"
        );
        run.failed(
            exit_code::STORE_FULL,
            &[
                "no space left for",
                "No space left on device",
                "hint: free some",
            ],
        );
    }
}

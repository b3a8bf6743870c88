//! `cargo cuda toolkit add --from redist`, from mirrors that are made here: a directory, and a server
//! on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;
use cuda_find_core::root::Root;
use cuda_find_core::sources;
use lzma_rust2::{XzOptions, XzWriter};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::support::{Finished, Sandbox, Tool};

/// A directory as NVIDIA publishes its archives.
pub struct Mirror {
    pub directory: tempfile::TempDir,
    version: &'static str,
    index: Value,
}

/// As NVIDIA calls it.
const PLATFORM: &str = "linux-x86_64";

impl Mirror {
    pub fn new(version: &'static str) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            version,
            index: json!({"release_date": "2026-01-01", "release_label": version}),
        }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// Adds an archive of a component, and returns its path below the mirror.
    pub fn add(
        &mut self,
        name: &str,
        version: &str,
        fill: impl FnOnce(&mut Builder<XzWriter<fs::File>>),
    ) -> String {
        let below = format!("{name}/{PLATFORM}/{name}-{PLATFORM}-{version}-archive.tar.xz");
        let path = self.path(&below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(&path).unwrap();
        let mut archive = Builder::new(XzWriter::new(file, XzOptions::with_preset(0)).unwrap());
        archive.follow_symlinks(false);
        fill(&mut archive);
        archive.into_inner().unwrap().finish().unwrap();
        let hash = Command::new("sha256sum")
            .arg(&path)
            .output()
            .unwrap()
            .stdout;
        let hash = String::from_utf8(hash).unwrap()[..64].to_owned();
        let size = fs::metadata(&path).unwrap().len().to_string();
        self.index[name] = json!({
            "name": name, "license": "CUDA Toolkit", "version": version,
            PLATFORM: {"relative_path": below, "sha256": hash, "md5": "", "size": size},
            "windows-x86_64": {"relative_path": "a.zip", "sha256": "", "size": "0"},
        });
        let index = self.path(&format!("redistrib_{}.json", self.version));
        fs::write(index, self.index.to_string()).unwrap();
        below
    }

    /// Archives of libraries that are only text. Returns the path of the runtime's.
    pub fn of_text() -> (Self, String) {
        let mut mirror = Self::new("12.9.1");
        let path = mirror.add("cuda_cudart", "12.9.79", |archive| {
            file(archive, "top/lib/libcudart.so.12", b"runtime");
            file(archive, "top/version.txt", b"12.9");
            file(archive, "top/LICENSE", b"text");
            link(archive, "top/lib64", "lib");
            link(archive, "top/lib/stubs/libcuda.so", "../../absent");
        });
        mirror.add("libcufft", "11.4.1.4", |archive| {
            file(archive, "top/lib/libcufft.so.11", b"transform");
            file(archive, "top/version.txt", b"12.9");
            link(archive, "top/lib64", "lib");
        });
        fs::write(mirror.path("redistrib_12.8.0.json"), "{}").unwrap();
        fs::write(mirror.path("redistrib_13.0.0.json"), "{}").unwrap();
        (mirror, path)
    }

    pub fn shown(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }
}

pub fn file(archive: &mut Builder<impl std::io::Write>, path: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, path, content).unwrap();
}

fn link(archive: &mut Builder<impl std::io::Write>, path: &str, target: &str) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, path, target).unwrap();
}

pub fn add(sandbox: &Sandbox, mirror: &str, arguments: &[&str]) -> Finished {
    let mut command = sandbox.toolkit(&[&["add", "--from", "redist"], arguments].concat());
    command
        .env("CUDA_BUILD_REDIST", mirror)
        .env("no_proxy", "127.0.0.1");
    Finished::of(command.output().unwrap())
}

pub const RUNTIME: [&str; 4] = ["12", "--only", "cudart", "--json"];

fn root(report: &Value) -> PathBuf {
    Path::new(report["path"].as_str().unwrap()).join("root")
}

#[test]
fn archives_of_a_directory_become_a_toolkit() {
    let (mirror, _) = Mirror::of_text();
    let sandbox = Sandbox::new(Tool::Nothing);
    fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
    let report = add(&sandbox, mirror.shown(), &RUNTIME).json();
    assert_eq!(report["version"], "12.9.1");
    assert_eq!(report["fetched"], json!(["cuda-cudart"]));
    let small = root(&report);
    assert!(small.join("LICENSE-cuda-cudart").is_file());
    let toolkit = small.parent().unwrap();
    assert!(
        sources::StoredToolkit::read(&Root::system(), toolkit)
            .unwrap()
            .is_archives
    );
    let lock = fs::read_to_string(sandbox.path("work/cuda-toolkits.lock")).unwrap();
    assert!(
        lock.contains("source = \"redist\"") && lock.contains("\"sha256-"),
        "{lock}"
    );
    assert!(!lock.contains(mirror.shown()), "{lock}");

    // The lock file says where the components come from.
    let again = ["add", "12", "--only", "cudart", "--locked", "--json"];
    assert_eq!(sandbox.run(&again).json()["new"], false);
    fs::remove_file(small.join("lib/libcudart.so.12")).unwrap();
    let url = format!("file://{}", mirror.shown());
    let mut repair = sandbox.toolkit(&again);
    repair.env("CUDA_BUILD_REDIST", url);
    assert_eq!(Finished::of(repair.output().unwrap()).json()["new"], true);

    let both = ["12", "--only", "cudart,cufft", "--json"];
    let both = add(&sandbox, mirror.shown(), &both).json();
    assert_eq!(both["fetched"], json!(["cuda-cudart", "libcufft"]));
    for root in [&small, &root(&both)] {
        assert_eq!(fs::read_link(root.join("lib64")).unwrap(), Path::new("lib"));
        assert_eq!(fs::read(root.join("version.txt")).unwrap(), b"12.9");
        assert!(fs::read_link(root.join("lib/stubs/libcuda.so")).is_ok());
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
fn what_a_mirror_lacks_is_named() {
    let (mirror, path) = Mirror::of_text();
    let sandbox = Sandbox::new(Tool::Nothing);
    let directory = mirror.shown();
    let lacks = |arguments: &[&str], words: &[&str]| {
        add(&sandbox, directory, arguments).failed(exit_code::NOT_RELEASED, words);
    };
    lacks(
        &["12", "--only", "cudart,curand"],
        &["redistrib_12.9.1.json", "has no `.tar.xz` with `curand`"],
    );
    let words = ["no archive of NVIDIA contains `nccl`", "`--from wheels`"];
    lacks(&["12", "--components", "nccl"], &words);
    add(&sandbox, "/nonexistent", &["12"]).failed(exit_code::NOT_RELEASED, &["does not exist"]);

    // An archive that is not the one in the index.
    let mut bytes = fs::read(mirror.path(&path)).unwrap();
    bytes[100] ^= 1;
    fs::write(mirror.path(&path), bytes).unwrap();
    let run = add(&sandbox, directory, &RUNTIME);
    run.failed(
        exit_code::LOCK,
        &["does not match its pinned hash", "cuda-cudart 12.9.79"],
    );
    assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
}

type Fill = fn(&mut Builder<XzWriter<fs::File>>);

/// Archives that are refused, with a word of the reason.
fn hostile() -> [(&'static str, Fill); 4] {
    [
        ("one directory at its top", |archive| {
            raw(archive, "top/../../evil");
        }),
        ("outside of destination path", |archive| {
            link(archive, "top/lib", "../../..");
            file(archive, "top/lib/evil", b"");
        }),
        ("outside of destination path", |archive| {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Link);
            header.set_size(0);
            archive
                .append_link(&mut header, "top/a", "/etc/passwd")
                .unwrap();
        }),
        // The list of files has one path in each line.
        ("`b` of cuda-cudart 12.9.79 is missing", |archive| {
            file(archive, "top/a\nb", b"");
        }),
    ]
}

#[test]
fn hostile_archives_are_refused() {
    for (word, fill) in hostile() {
        let mut mirror = Mirror::new("12.9.1");
        mirror.add("cuda_cudart", "12.9.79", fill);
        let sandbox = Sandbox::new(Tool::Nothing);
        let run = add(&sandbox, mirror.shown(), &RUNTIME);
        run.failed(exit_code::INSTALLER, &["cuda-cudart 12.9.79", word]);
        assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
        let mut everything = Command::new("find");
        everything.arg(sandbox.path("")).args(["-name", "*evil*"]);
        assert!(everything.output().unwrap().stdout.is_empty());
    }
}

#[test]
fn an_archive_writes_through_no_link_of_another() {
    let mut mirror = Mirror::new("12.9.1");
    mirror.add("cuda_cudart", "12.9.79", |archive| {
        link(archive, "top/lib", "../../../..");
    });
    mirror.add("libcufft", "11.4.1.4", |archive| {
        file(archive, "top/lib/evil", b"");
    });
    let sandbox = Sandbox::new(Tool::Nothing);
    let both = ["12", "--only", "cudart,cufft"];
    let words = ["`lib/evil` of libcufft is below a link of another archive"];
    add(&sandbox, mirror.shown(), &both).failed(exit_code::INSTALLER, &words);
    assert!(!sandbox.path("").join("evil").exists());
}

/// A file at a path that the `tar` crate would refuse to write.
fn raw(archive: &mut Builder<impl std::io::Write>, path: &str) {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    archive.append(&header, std::io::empty()).unwrap();
}

/// A server of a directory.
fn serve(directory: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/redist", listener.local_addr().unwrap());
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            let path = first.split(' ').nth(1).unwrap().replacen("/redist/", "", 1);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let body = match path.as_str() {
                // As a server lists a directory.
                "" => b"<a href=\"redistrib_12.9.1.json\">redistrib_12.9.1.json</a>".to_vec(),
                _ => fs::read(directory.join(path)).unwrap_or_default(),
            };
            let status = if body.is_empty() {
                "404 Not Found"
            } else {
                "200 OK"
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    url
}

/// A place with `curl`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(Tool::Nothing);
    let curl = Command::new("sh")
        .args(["-c", "command -v curl"])
        .output()
        .unwrap();
    let curl = String::from_utf8(curl.stdout).unwrap();
    assert!(!curl.is_empty(), "this test needs curl");
    sandbox.shim("curl", "", Path::new(curl.trim()));
    sandbox
}

#[test]
fn archives_of_a_server_become_a_toolkit() {
    let (mirror, path) = Mirror::of_text();
    let server = serve(mirror.directory.path());
    let report = add(&sandbox(), &server, &RUNTIME).json();
    assert_eq!(report["new"], true);

    fs::remove_file(mirror.path(&path)).unwrap();
    let words = ["could not fetch", &path, "curl ended with exit status: 22"];
    add(&sandbox(), &server, &RUNTIME).failed(exit_code::INSTALLER, &words);
    let nothing = Sandbox::new(Tool::Nothing);
    let words = ["`curl` is not on `PATH`", "CUDA_BUILD_REDIST"];
    add(&nothing, &server, &RUNTIME).failed(exit_code::NO_INSTALLER, &words);
}

#[test]
fn curl_follows_no_link_to_another_protocol() {
    let sandbox = sandbox();
    for (scheme, redirections) in [("http", "=http,https"), ("https", "=https")] {
        fs::write(sandbox.path("calls"), "").unwrap();
        let url = format!("{scheme}://user:secret@127.0.0.1:9/a");
        let run = add(&sandbox, &url, &["11", "--only", "cudart", "--verbose"]);
        run.failed(
            exit_code::INSTALLER,
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
fn a_toolkit_of_a_newer_program_is_listed() {
    let (mirror, _) = Mirror::of_text();
    let sandbox = Sandbox::new(Tool::Nothing);
    let report = add(&sandbox, mirror.shown(), &RUNTIME).json();
    let manifest = root(&report).with_file_name("toolkit.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    for (from, to) in [
        ("format_version = 1", "format_version = 2"),
        ("cuda-cudart", "cuda-future"),
    ] {
        assert!(text.contains(from));
        fs::write(&manifest, text.replace(from, to)).unwrap();
        let list = sandbox.run(&["list"]).stdout;
        assert!(list.contains("cannot be used"), "{list}");
    }
}

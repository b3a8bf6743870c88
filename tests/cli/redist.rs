//! `cargo cuda toolkit add --from redist`, from mirrors that are made here: a directory, and a server on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use cargo_cuda::exit_code;
use cuda_build::Component;
use cuda_build::internal::{Root, Target, store};
use lzma_rust2::{XzOptions, XzWriter};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::components;
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

    /// The real runtime of CUDA 12.9 in the layout of an archive; `None` if tests of real components are left out.
    fn with_runtime() -> Option<(Self, String)> {
        let wheel = components::site_packages(12)?.join("nvidia/cuda_runtime");
        let mut mirror = Self::new("12.9.1");
        let path = mirror.add("cuda_cudart", "12.9.79", |archive| {
            let top = Path::new("cuda_cudart-linux-x86_64-12.9.79-archive");
            archive
                .append_dir_all(top.join("include"), wheel.join("include"))
                .unwrap();
            archive
                .append_dir_all(top.join("lib"), wheel.join("lib"))
                .unwrap();
            link(archive, "top/lib/libcudart.so", "libcudart.so.12");
            file(archive, "top/LICENSE", b"text");
        });
        fs::write(mirror.path("redistrib_12.8.0.json"), "{}").unwrap();
        fs::write(mirror.path("redistrib_13.0.0.json"), "{}").unwrap();
        Some((mirror, path))
    }
}

pub fn file(archive: &mut Builder<impl std::io::Write>, path: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, path, content).unwrap();
}

pub fn link(archive: &mut Builder<impl std::io::Write>, path: &str, target: &str) {
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

/// Whether the search finds the runtime in a toolkit of the store.
fn has_runtime(toolkit: &Path) -> bool {
    let stored = store::StoredToolkit::read(&Root::system(), toolkit).unwrap();
    assert!(stored.is_archives);
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let attempt = store::probe(&Root::system(), &target, toolkit, true);
    let mut sets = attempt.sets.iter();
    sets.any(|set| set.major == 12 && set.get(Component::Cudart).is_some())
}

pub const RUNTIME: [&str; 4] = ["12", "--only", "cudart", "--json"];

#[test]
fn archives_of_a_directory_become_a_toolkit() {
    let Some((mirror, _)) = Mirror::with_runtime() else {
        return;
    };
    let sandbox = Sandbox::new(Tool::Nothing);
    fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
    let directory = mirror.directory.path().to_str().unwrap();
    let report = add(&sandbox, directory, &RUNTIME).json();
    assert_eq!(report["version"], "12.9.1");
    assert_eq!(report["fetched"], json!(["cuda-cudart"]));
    let toolkit = PathBuf::from(report["path"].as_str().unwrap());
    assert!(has_runtime(&toolkit));
    let root = toolkit.join("root");
    assert_eq!(
        fs::read_link(root.join("lib/libcudart.so")).unwrap(),
        Path::new("libcudart.so.12")
    );
    assert!(root.join("LICENSE-cuda-cudart").is_file());
    let lock = fs::read_to_string(sandbox.path("work/cuda-toolkits.lock")).unwrap();
    assert!(
        lock.contains("source = \"redist\"") && lock.contains("\"sha256-"),
        "{lock}"
    );
    assert!(!lock.contains(directory), "{lock}");

    // The lock file says where the components come from.
    let again = ["add", "12", "--only", "cudart", "--locked", "--json"];
    assert_eq!(sandbox.run(&again).json()["new"], false);
    fs::remove_file(root.join("lib/libcudart.so.12")).unwrap();
    let mut repair = sandbox.toolkit(&again);
    repair.env("CUDA_BUILD_REDIST", format!("file://{directory}"));
    assert_eq!(Finished::of(repair.output().unwrap()).json()["new"], true);
    assert!(has_runtime(&toolkit));
}

#[test]
fn what_a_mirror_lacks_is_named() {
    let Some((mirror, path)) = Mirror::with_runtime() else {
        return;
    };
    let sandbox = Sandbox::new(Tool::Nothing);
    let directory = mirror.directory.path().to_str().unwrap();
    let lacks = |arguments: &[&str], words: &[&str]| {
        add(&sandbox, directory, arguments).failed(exit_code::NOT_RELEASED, words);
    };
    lacks(
        &["12", "--only", "cudart,cufft"],
        &["redistrib_12.9.1.json", "has no `cufft`", "hint:"],
    );
    lacks(&["12.9"], &["has no `nvcc`"]);
    lacks(&["11"], &["has no redistrib_11*.json"]);
    add(&sandbox, "/nonexistent", &["12"]).failed(exit_code::NOT_RELEASED, &["does not exist"]);
    add(&sandbox, "ftp://a/b", &["12"]).failed(exit_code::USAGE, &["scheme `ftp`"]);

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

pub type Fill = fn(&mut Builder<XzWriter<fs::File>>);

/// Archives that are refused, with a word of the reason.
pub fn hostile() -> [(&'static str, Fill); 7] {
    [
        ("leads out of the archive", |archive| {
            raw(archive, "top/../../evil");
        }),
        ("leads out of the archive", |archive| {
            raw(archive, "/tmp/cargo-cuda-evil");
        }),
        ("outside the archive", |archive| {
            link(archive, "top/lib/a", "/etc/passwd");
        }),
        ("outside the archive", |archive| {
            link(archive, "top/lib/a", "../../evil");
        }),
        ("is a symbolic link", |archive| {
            link(archive, "top/lib", "include");
            file(archive, "top/lib/a", b"");
        }),
        (
            "neither a file, a directory nor a symbolic link",
            |archive| {
                let mut header = Header::new_gnu();
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                archive
                    .append_link(&mut header, "top/a", "/etc/passwd")
                    .unwrap();
            },
        ),
        ("unreasonable size", |archive| {
            file(archive, "top/zeros", &vec![0; 18 << 20]);
        }),
    ]
}

#[test]
fn hostile_archives_are_refused() {
    for (word, fill) in hostile() {
        let mut mirror = Mirror::new("12.9.1");
        mirror.add("cuda_cudart", "12.9.79", fill);
        let sandbox = Sandbox::new(Tool::Nothing);
        let run = add(
            &sandbox,
            mirror.directory.path().to_str().unwrap(),
            &RUNTIME,
        );
        run.failed(
            exit_code::INSTALLER,
            &["the archive of cuda-cudart 12.9.79 cannot be used", word],
        );
        assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
        let mut everything = Command::new("find");
        everything.arg(sandbox.path("")).args(["-name", "*evil*"]);
        assert!(everything.output().unwrap().stdout.is_empty());
    }
    assert!(!Path::new("/tmp/cargo-cuda-evil").exists());
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

/// A requested path, and the start of its `Range`.
type Request = (String, Option<usize>);

/// A server of a directory. The first answer about an archive ends after half of it, if `cut` is set.
pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(directory: &Path, cut: bool, resumes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/redist", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, directory) = (Arc::clone(&requests), directory.to_owned());
        std::thread::spawn(move || {
            let mut cut = cut;
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (path, range) = request(&stream);
                seen.lock().unwrap().push((path.clone(), range));
                let is_cut = cut && path.ends_with(".xz");
                cut &= !is_cut;
                answer(stream, &directory, &path, range.filter(|_| resumes), is_cut);
            }
        });
        Self { url, requests }
    }

    fn archives(&self) -> Vec<Option<usize>> {
        let requests = self.requests.lock().unwrap();
        let archives = requests.iter().filter(|(path, _)| path.ends_with(".xz"));
        archives.map(|(_, range)| *range).collect()
    }
}

fn request(stream: &TcpStream) -> Request {
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    let path = first.split(' ').nth(1).unwrap().replacen("/redist/", "", 1);
    let mut range = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(from) = line.to_lowercase().strip_prefix("range: bytes=") {
            range = from.trim_end_matches('-').parse().ok();
        }
    }
    (path, range)
}

fn answer(mut stream: TcpStream, directory: &Path, path: &str, range: Option<usize>, cut: bool) {
    let body = match path {
        // As a server lists a directory.
        "" => {
            b"<a href=\"redistrib_12.9.1.json\">redistrib_12.9.1.json</a> <a href=\"cuda_cudart/\">"
                .to_vec()
        }
        _ => fs::read(directory.join(path)).unwrap_or_default(),
    };
    let from = range.unwrap_or(0);
    let head = match range {
        _ if body.is_empty() => "HTTP/1.1 404 Not Found\r\n".to_owned(),
        Some(from) => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{}\r\n",
            body.len() - 1,
            body.len()
        ),
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    let length = body.len() - from;
    let head = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let end = if cut { body.len() / 2 } else { body.len() };
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body[from..end]));
}

/// A place with `curl`.
pub fn sandbox() -> Sandbox {
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
fn an_interrupted_download_is_resumed() {
    let Some((mirror, path)) = Mirror::with_runtime() else {
        return;
    };
    let size = usize::try_from(fs::metadata(mirror.path(&path)).unwrap().len()).unwrap();
    for resumes in [true, false] {
        let sandbox = sandbox();
        let server = Server::start(mirror.directory.path(), true, resumes);
        let first = add(&sandbox, &server.url, &RUNTIME);
        first.failed(
            exit_code::INDEX,
            &[
                "could not fetch http://127.0.0.1",
                "curl ended with code 18",
            ],
        );
        let second = add(&sandbox, &server.url, &RUNTIME).json();
        assert!(has_runtime(Path::new(second["path"].as_str().unwrap())));
        let expected = match resumes {
            true => vec![None, Some(size / 2)],
            // The server sends everything in answer to a range, which curl refuses.
            false => vec![None, Some(size / 2), None],
        };
        assert_eq!(server.archives(), expected);
        let left = fs::read_dir(sandbox.path("cache/toolkits/.archives")).unwrap();
        assert!(
            left.map(|entry| entry.unwrap().file_name())
                .all(|name| name == "index")
        );
    }
}

#[test]
fn a_server_without_the_files_and_a_machine_without_curl() {
    let Some((mirror, path)) = Mirror::with_runtime() else {
        return;
    };
    fs::remove_file(mirror.path(&path)).unwrap();
    let server = Server::start(mirror.directory.path(), false, true);
    let sandbox = sandbox();
    let run = add(&sandbox, &server.url, &RUNTIME);
    run.failed(
        exit_code::INDEX,
        &["could not fetch", &path, "curl ended with code 22"],
    );
    let run = add(&sandbox, &server.url, &["12.9.7", "--only", "cudart"]);
    run.failed(exit_code::INDEX, &["redistrib_12.9.7.json"]);
    let nothing = Sandbox::new(Tool::Nothing);
    let run = add(&nothing, &server.url, &RUNTIME);
    run.failed(
        exit_code::NO_INSTALLER,
        &["`curl` is not on `PATH`", "CUDA_BUILD_REDIST"],
    );
}

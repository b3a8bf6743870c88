//! Parsers against texts and files that nobody would write: never a panic, never a hang.
//!
//! Each parser has a directory in `tests/fuzz-corpus`: good inputs to start from, and every input
//! that ever broke it. Those are tried as they are, then changed by chance. The same seed gives the
//! same inputs. To look longer:
//!
//! ```sh
//! CUDA_BUILD_FUZZ_CASES=1000000 CUDA_BUILD_FUZZ_SEED=7 cargo test -p cargo-cuda --test build -- fuzz
//! ```
//!
//! What breaks a parser is written into a file that the message names: put it into the corpus.

use std::ffi::OsStr;
use std::fs;
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cargo_cuda::package::elf::ElfFacts;
use cargo_cuda::package::metadata::FileName;
use cargo_cuda::package::metadata::Metadata;
use cargo_cuda::package::requirement::Requirement;
use cuda_build::config::Config;
use cuda_build::fatbin::Fatbin;
use cuda_build::{Capability, Component, ToolkitVersion, Version};
use cuda_find_core::capability::{Declared, observed_from_ptxas_help};
use cuda_find_core::toml::{Table, Value};
use cuda_find_core::{
    env::Env,
    root::Root,
    search::{Outcome, SearchContext},
    target::Target,
};
use cuda_find_core::{
    nvcc::NvccAnswer,
    select::{Need, Part, Request},
    sources::StoredToolkit,
};

use crate::mutate::{Random, mutated};

/// Longer than any input may take, however busy the machine is.
const TOO_LONG: Duration = Duration::from_secs(60);

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/fuzz-corpus")
        .join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", directory.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Gives `parser` the corpus of this name, and `cases` inputs made of it and of `tokens`, words of the format that are
/// separated by `|`. The parser gets a directory of its own.
fn fuzz(
    name: &'static str,
    cases: u64,
    tokens: &'static [u8],
    parser: impl Fn(&[u8], &Path) + Send + 'static,
) {
    let seeds = corpus(name);
    let seed = number("CUDA_BUILD_FUZZ_SEED", 1);
    let cases = usize::try_from(number("CUDA_BUILD_FUZZ_CASES", cases)).unwrap();
    let tokens: Vec<&[u8]> = tokens.split(|byte| *byte == b'|').collect();
    let current = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = mpsc::channel::<Result<(), ()>>();
    let shown = Arc::clone(&current);
    // A parser that hangs can't be stopped; it is left to its thread.
    std::thread::spawn(move || {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random::new(seed);
        for case in 0..seeds.len() + cases {
            let input = seeds
                .get(case)
                .cloned()
                .unwrap_or_else(|| mutated(&mut random, &seeds, &tokens));
            current.lock().unwrap().clone_from(&input);
            let outcome = catch_unwind(AssertUnwindSafe(|| parser(&input, directory.path())));
            if sender.send(outcome.map_err(|_| ())).is_err() {
                return;
            }
        }
    });
    let mut tried = 0;
    let failure = loop {
        match receiver.recv_timeout(TOO_LONG) {
            Ok(Ok(())) => tried += 1,
            Ok(Err(())) => break Some("panics at"),
            Err(mpsc::RecvTimeoutError::Timeout) => break Some("hangs at"),
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
        }
    };
    if let Some(what) = failure {
        let path = std::env::temp_dir().join(format!("fuzz-{name}-{seed}-{tried}"));
        fs::write(&path, shown.lock().unwrap().as_slice()).unwrap();
        panic!(
            "{name} {what} input {tried} of seed {seed}, kept in {}",
            path.display()
        );
    }
    eprintln!("{name}: {tried} inputs, seed {seed}");
    assert!(tried > cases, "{name}: the thread ended early");
}

fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

fn search(root: &Path, env: &Env) -> Outcome {
    let need = Need::new(Component::Cudart, Part::Headers, "to try");
    let request = Request {
        needs: vec![need],
        ..Request::default()
    };
    let root = Root::below(root);
    SearchContext::new(&root, env, &target()).report(std::slice::from_ref(&request))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn answers_of_nvcc() {
    let tokens = b"#$ TOP=|#$ INCLUDES=|-L|-isystem|release 12.4, V|VER_MAJOR__=";
    fuzz("nvcc-answer", 4000, tokens, |input, _| {
        if let Some(answer) = NvccAnswer::parse(&String::from_utf8_lossy(input)) {
            let paths = answer
                .includes
                .iter()
                .chain(&answer.libraries)
                .chain(&answer.programs)
                .chain(&answer.top);
            assert!(
                paths.into_iter().all(|path| path.is_absolute()),
                "{answer:?}"
            );
            assert_eq!(
                answer.version.to_string().parse().ok(),
                Some(answer.version)
            );
        }
    });
}

/// `version.json`, `cuda.h` and other headers, in a root: each input is all of them.
#[test]
fn files_of_a_root() {
    let tokens = b"#define CUDA_VERSION |\"cuda\"|\"version\"|12040|# define|13.4";
    fuzz("root-files", 400, tokens, |input, directory| {
        let place = directory.join("opt/cuda");
        for file in [
            "version.json",
            "include/cuda.h",
            "include/cuda_runtime.h",
            "lib64/libcudart.so.12",
            "lib64/libnvrtc.so.12",
        ] {
            write(&place.join(file), input);
        }
        let report = search(directory, &Env::from_pairs([("CUDA_HOME", &place)]));
        assert!(!report.attempts[0].summary().is_empty());
    });
}

/// Names that installers, and who knows who else, leave in site-packages: a line is a name.
#[test]
fn names_in_site_packages() {
    let tokens = b".dist-info\n|nvidia_|-cu12-|12.9.79|-";
    fuzz("dist-info", 300, tokens, |input, directory| {
        let packages = directory.join("venv/lib/python3.12/site-packages");
        let _ = fs::remove_dir_all(&packages);
        write(
            &packages.join("nvidia/cuda_runtime/lib/libcudart.so.12"),
            b"",
        );
        write(
            &packages.join("nvidia/cuda_runtime/include/cuda_runtime.h"),
            b"",
        );
        write(
            &packages.join("nvidia/cuda_runtime/include/cuda.h"),
            b"#define CUDA_VERSION 12090\n",
        );
        for name in input
            .split(|byte| matches!(byte, b'\n' | b'/' | 0))
            .take(40)
        {
            if !name.is_empty() && name.len() < 250 && !matches!(name, b"." | b"..") {
                let _ = fs::create_dir(packages.join(OsStr::from_bytes(name)));
            }
        }
        let report = search(
            directory,
            &Env::from_pairs([("VIRTUAL_ENV", directory.join("venv"))]),
        );
        assert!(
            report.attempts[0].summary().contains("cudart"),
            "{}",
            report.attempts[0].summary()
        );
    });
}

#[test]
fn toolkit_files() {
    let tokens = b"[[component]]\n|format_version = |name = |major = 4294967296|= []";
    fuzz("toolkit-file", 1500, tokens, |input, directory| {
        let file = directory.join("toolkit.toml");
        write(&file, input);
        let report = search(directory, &Env::from_pairs([("CUDA_BUILD_TOOLKIT", &file)]));
        match report.toolkit {
            Ok(toolkit) => {
                let text = toolkit.to_toml().unwrap();
                write(&file, text.as_bytes());
                let again = search(directory, &Env::from_pairs([("CUDA_BUILD_TOOLKIT", &file)]));
                assert_eq!(again.toolkit.unwrap().to_toml().unwrap(), text);
            }
            Err(error) => assert!(!format!("{error:?}").is_empty()),
        }
        let _ = StoredToolkit::read(&Root::system(), directory);
    });
}

#[test]
fn manifests() {
    let tokens =
        b"[package.metadata.cuda]\n|capabilities = [|major = |{ name = |toolkit = \"|[workspace]\n";
    fuzz("manifest", 1500, tokens, |input, directory| {
        write(&directory.join("Cargo.toml"), input);
        let env = Env::from_pairs([(
            "CUDA_BUILD_CAPABILITIES",
            String::from_utf8_lossy(input).as_ref(),
        )]);
        for env in [Env::default(), env] {
            if let Err(error) = Config::read(&Root::system(), &env, directory) {
                assert!(!format!("{error:?}").is_empty());
            }
        }
    });
}

/// The crate `toml` and this project's reader accept and refuse the same documents, and read the same from them. Except:
///
/// - Of floats and dates, this project checks only the first characters.
/// - It reads an integer that does not fit `i64` as one of unknown value. `toml` refuses it.
/// - It lets a second header or a dotted key extend any table. `toml` applies the specification's rules.
/// - It counts the parts of dotted keys as nesting.
/// - In inline tables, it refuses a line break beside `=`, as the specification does. `toml` accepts it.
/// - It reads every line break in a string as `\n`.
fn compare_with_toml(text: &str) {
    let ours = Table::parse(text);
    match (&ours, text.parse::<toml::Table>()) {
        (Ok(ours), Ok(_)) => {
            let theirs = text.replace("\r\n", "\n").parse().unwrap();
            let ours = Value::Table(ours.clone());
            assert!(is_same(&ours, &toml::Value::Table(theirs)), "{ours:?}");
        }
        (Ok(ours), Err(error)) => {
            let reason = error.message();
            let is_about_tables = reason == "duplicate key" || reason.starts_with("cannot extend");
            let is_known = is_about_tables || has_unread(&Value::Table(ours.clone()));
            assert!(is_known, "`toml` refuses it: {error}");
        }
        (Err(error), Ok(_)) => {
            let (line, reason) = error["line ".len()..].split_once(": ").unwrap();
            let line = text.split('\n').nth(line.parse::<usize>().unwrap() - 1);
            let line = line.unwrap().split('#').next().unwrap().trim_end();
            let is_known = match reason {
                "nested too deeply" => true,
                "expected a value" => line.ends_with('='),
                "expected `=`" => {
                    line.ends_with(|c: char| c.is_alphanumeric() || "-_\"'".contains(c))
                }
                _ => false,
            };
            assert!(is_known, "`toml` accepts it: {error}");
        }
        (Err(_), Err(_)) => {}
    }
}

fn is_same(ours: &Value, theirs: &toml::Value) -> bool {
    match (ours, theirs) {
        (Value::Table(ours), toml::Value::Table(theirs)) => {
            let mut keys = theirs.iter();
            let has_same = |(key, theirs): (&String, _)| {
                ours.get(key).is_some_and(|ours| is_same(ours, theirs))
            };
            ours.keys().count() == theirs.len() && keys.all(has_same)
        }
        (Value::Array(ours), toml::Value::Array(theirs)) => {
            let mut both = ours.iter().zip(theirs);
            ours.len() == theirs.len() && both.all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::String(ours), toml::Value::String(theirs)) => ours == theirs,
        (Value::Integer(ours), toml::Value::Integer(theirs)) => ours == theirs,
        (Value::Boolean(ours), toml::Value::Boolean(theirs)) => ours == theirs,
        (Value::Other(ours), theirs) => *ours == theirs.type_str(),
        _ => false,
    }
}

/// Whether a value contains one of which only the type is read.
fn has_unread(value: &Value) -> bool {
    match value {
        Value::Other(_) => true,
        Value::Array(items) => items.iter().any(has_unread),
        Value::Table(table) => (table.keys()).any(|key| table.get(key).is_some_and(has_unread)),
        _ => false,
    }
}

#[test]
fn toml_as_the_crate_toml_reads_it() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates");
    let mut read = 0;
    for template in fs::read_dir(templates).unwrap() {
        for file in ["Cargo.toml", "Cargo.lock", "pyproject.toml"] {
            if let Ok(text) = fs::read_to_string(template.as_ref().unwrap().path().join(file)) {
                Table::parse(&text).unwrap();
                compare_with_toml(&text);
                read += 1;
            }
        }
    }
    assert!(read > 6, "{read} files");
    let tokens = b"\"\"\"|'''|\\u00e9|\\\n |{ a = 1, b.c = 2 }|[[a]]\n|[a.b]\n|a.b = 1\n|07:32:00|0x1f|1.5e3|\r\n|# c\n|,|_";
    for corpus in ["toml", "manifest", "toolkit-file"] {
        fuzz(corpus, 3000, tokens, |input, _| {
            compare_with_toml(&String::from_utf8_lossy(input));
        });
    }
}

#[test]
fn capabilities() {
    let tokens = b"sm_|compute_|+PTX|-real|-virtual|a|f|native|all-major|12.0";
    fuzz("capability", 8000, tokens, |input, _| {
        let text = String::from_utf8_lossy(input);
        let items: Vec<&str> = text.split(['\n', ',']).collect();
        let _ = Declared::parse(&items);
        let _ = observed_from_ptxas_help(&text);
        for item in items {
            if let Ok(capability) = item.parse::<Capability>() {
                assert_eq!(capability.sm().parse::<Capability>().unwrap(), capability);
            }
            if let Ok(version) = item.parse::<Version>() {
                assert_eq!(version.to_string().parse::<Version>().unwrap(), version);
            }
            let _ = item.parse::<ToolkitVersion>();
        }
    });
}

#[test]
fn metadata_of_wheels() {
    let tokens = b"Requires-Dist: |Name:|\n |\n\n|[cudart]|>=13,<14|; extra == 'x'";
    fuzz("metadata", 4000, tokens, |input, _| {
        let text = String::from_utf8_lossy(input);
        let metadata = Metadata::parse(&text);
        // A name survives being written; without a header there is nothing to read.
        if let Some(name) = metadata.all("Name").next() {
            let again = Metadata::parse(&metadata.to_string());
            assert_eq!(
                again.all("Name").next().map(str::trim_end),
                Some(name.trim_end()),
                "{text:?}"
            );
        }
        for line in text.lines() {
            if let Ok(requirement) = Requirement::parse(line) {
                assert!(!requirement.covers(&requirement, 13) || requirement.marker.is_empty());
                let _ = requirement.unbounded();
            }
            if let Some(name) = FileName::parse(line) {
                assert_eq!(name.to_string(), line);
            }
        }
    });
}

#[test]
fn fat_binaries() {
    assert!(
        corpus("fatbin")
            .iter()
            .any(|bytes| Fatbin::parse(bytes).is_ok()),
        "nothing good to start from"
    );
    fuzz(
        "fatbin",
        8000,
        b"\x50\xed\x55\xba|\x7fELF|.version 8.7",
        |input, _| {
            let Ok(fatbin) = Fatbin::parse(input) else {
                return;
            };
            for entry in fatbin.entries() {
                let _ = entry.image().map(<[u8]>::len);
            }
            let written = fatbin.write();
            assert_eq!(Fatbin::parse(&written).unwrap().write(), written);
        },
    );
}

#[test]
fn elf_files() {
    assert!(
        corpus("elf")
            .iter()
            .any(|bytes| ElfFacts::read(Cursor::new(bytes)).is_ok()),
        "nothing good to start from"
    );
    fuzz(
        "elf",
        8000,
        b"\x7fELF|libcudart.so.13|$ORIGIN",
        |input, directory| {
            let _ = ElfFacts::read(Cursor::new(input));
            if input.len() < 64 {
                write(&directory.join("lib.so"), input);
                let _ = Root::system().elf_machine(&directory.join("lib.so"));
            }
        },
    );
}

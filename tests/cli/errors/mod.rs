//! The text and hints of the library's errors, in one file to read.
//!
//! `CUDA_BUILD_TEST_BLESS=1` rewrites `errors.txt`; read the difference before committing.

use std::fs;
use std::io;
use std::path::PathBuf;

use cuda_build::internal::Conflict;
use cuda_build::{Component, Error};

use crate::project::checkout;

/// One error of each kind. `Error::NotFound` is in the expected texts of `tests/layouts`.
fn errors() -> Vec<Error> {
    let path = PathBuf::from;
    vec![
        Error::Inconsistent {
            conflicts: vec![Conflict {
                reason: "nvcc 13.5.37 is from CUDA 13.5, but cicc (nvvm) 13.0.88 is from CUDA 13.0"
                    .to_owned(),
                fix: "install `nvidia-nvvm==13.5.*` beside it".to_owned(),
            }],
        },
        Error::InvalidSource {
            source_name: "environment variable `CUDA_HOME`".to_owned(),
            path: path("/opt/cuda"),
            reason: "does not exist".to_owned(),
            unused: Vec::new(),
        },
        Error::Manifest {
            path: path("Cargo.toml"),
            line: Some(12),
            key: "package.metadata.cuda.component".to_owned(),
            reason: "unknown key; did you mean `components`?".to_owned(),
        },
        Error::HostCompiler {
            reason: "CUDA 11.8 does not accept gcc 14.2.0".to_owned(),
            tried: vec!["/usr/bin/g++".to_owned()],
            hints: vec!["install gcc 11".to_owned()],
        },
        Error::Capability {
            reason: "CUDA 13.4 does not support compute capability 7.7".to_owned(),
            hint: Some("remove 7.7".to_owned()),
        },
        Error::UnsupportedTarget {
            triple: "wasm32-unknown-unknown".to_owned(),
            reason: "CUDA has no libraries for it",
        },
        Error::ViewConflict {
            path: path("include/cuda.h"),
            components: [Component::Cudart, Component::Crt],
            files: [path("/a/cuda.h"), path("/b/cuda.h")],
        },
        Error::ViewNotCreated {
            path: path("/opt/view"),
            reason: "it is a directory that is not a view".to_owned(),
            hint: "choose another directory".to_owned(),
        },
        Error::Directive {
            directive: "cargo::rerun-if-changed".to_owned(),
            value: "a\nb".into(),
            reason: "it has a line break",
        },
        Error::Usage {
            reason: "two modules are called `scale`".to_owned(),
            hint: Some("rename one of them".to_owned()),
        },
        Error::Compile {
            tool: "nvcc 13.4".to_owned(),
            source_file: path("kernels/a.cu"),
            command: "nvcc -c kernels/a.cu".to_owned(),
            output: "kernels/a.cu(1): error: expected a \";\"".to_owned(),
        },
        Error::Program {
            command: "nvcc --version".to_owned(),
            reason: "it did not end within 30 seconds".to_owned(),
        },
        Error::Library {
            path: path("/a/libnvrtc.so.13"),
            reason: "it has no function `nvrtcVersion`".to_owned(),
        },
        Error::Format {
            what: "fat binary",
            reason: "it is truncated".to_owned(),
        },
        Error::Io {
            action: "write",
            path: path("/a/b"),
            source: io::Error::from(io::ErrorKind::StorageFull),
        },
    ]
}

#[test]
fn errors_are_as_they_were_read() {
    let text: Vec<String> = errors()
        .iter()
        .map(|error| format!("{error:?}\n"))
        .collect();
    let text = text.join("\n");
    let file = checkout().join("tests/cli/errors.txt");
    if std::env::var_os("CUDA_BUILD_TEST_BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    assert_eq!(
        text, expected,
        "CUDA_BUILD_TEST_BLESS=1 rewrites tests/cli/errors.txt"
    );
}

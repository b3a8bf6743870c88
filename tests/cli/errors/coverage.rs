//! Each text of an error in the sources is in `errors.txt`, or in one of the lists below, with the reason.

use super::scan::{Text, texts, without_hint};
use super::{BLESS, expected};
use crate::project::checkout;

/// Files whose texts are not errors: notes, findings and what `doctor` prints.
const NOT_ERRORS: [(&str, &str); 9] = [
    ("audit/rules/", "findings of an audit, each with its advice"),
    ("audit/scan.rs", "a finding of an audit"),
    ("commands/doctor.rs", "a finding of `doctor`"),
    (
        "compile/images.rs",
        "why kept device code is not used: a note",
    ),
    (
        "compile/joining.rs",
        "why device code is not joined: a note",
    ),
    ("compile/launcher.rs", "why a launcher is not used: a note"),
    ("src/driver.rs", "why `doctor` finds no driver"),
    ("freshness/mod.rs", "why a step runs again: a note"),
    ("fatbin/outline.rs", "an audit skips what is no container"),
];

/// Texts of errors that a quick test cannot cause.
const NOT_CAUSED: &[(&str, &str)] = &[
    ("seconds and was killed", "takes 30 seconds"),
    (
        "nvcc needs a host compiler, and there is none on `PATH` (",
        "the recorded answer of nvcc names compilers",
    ),
    (
        "remove `-ccbin` from `",
        "needs nvcc, which reads the variable",
    ),
    (
        "this NVRTC cannot make cubins: CUDA 11.1 or newer is needed",
        "needs NVRTC",
    ),
    ("holds a NUL at byte", "needs NVRTC"),
    ("too many options or headers:", "needs 2 billion headers"),
    (
        "`nvrtcVersion` returned status",
        "NVRTC always has a version",
    ),
    (
        "` needs the feature `view` of cuda-build",
        "the tests have the feature",
    ),
    (
        "add `features = [\"view\"]` to the dependency `cuda-build` in Cargo.toml",
        "the tests have the feature",
    ),
    (
        "no compiler for",
        "the tests do not have the feature `host-sources`",
    ),
    (
        "` to a compiler",
        "the tests do not have the feature `host-sources`",
    ),
    (
        "` is not installed",
        "the tests do not have the feature `host-sources`",
    ),
    (
        "; delete it and fetch it again, or name it in `CUDA_BUILD_ROOTS` if you trust it",
        "`doctor` prints it as a remark",
    ),
    ("was not queried", "is replaced by the reason for the probe"),
    (
        "run `cargo cuda doctor`, which queries it",
        "is replaced by the reason for the probe",
    ),
    (
        "is not Unicode",
        "no step of the search proposes such a path",
    ),
    (
        "run the build through `cargo cuda` again, which writes the file, from a toolkit whose path is UTF-8",
        "the reason is in another error",
    ),
    ("rename to", "a directory that changes at the same moment"),
    ("views are supported on Linux only", "another platform"),
    ("has more than", "needs half a million files"),
    (
        "name the directory of one package",
        "needs half a million files",
    ),
    ("` has more than", "needs a file of 32 MB"),
    (
        "when unpacked, which is the largest size that cargo-cuda reads",
        "needs a wheel of 4 GB",
    ),
    (
        "this build of cargo-cuda has no address of a git repository for the dependency on cuda-build",
        "a package without an address",
    ),
    (
        "add `--cuda-build-path <checkout of cuda-build>`",
        "a package without an address",
    ),
    (
        "correct the syntax of Cargo.toml",
        "the file was read once before",
    ),
    (
        "could not find the path of this program:",
        "needs a machine without /proc",
    ),
    (
        "mount `/proc`, from which the path is read",
        "needs a machine without /proc",
    ),
    (
        "`, a placeholder without files; the package is `",
        "a finding of an audit",
    ),
    ("satisfies too", "a finding of an audit"),
    ("`, which has no upper bound", "a finding of an audit"),
    ("rename into", "a directory that changes at the same moment"),
    ("copy to", "a disk that fails while it is used"),
    ("create a file in", "a disk that fails while it is used"),
    (
        "delete it, so that it is written from nothing",
        "every lock file can be written as TOML",
    ),
    (
        "its device code is not readable:",
        "a disk that fails while it is read",
    ),
    ("its names have more than", "needs a library of 32 MB"),
    ("curl could not write", "a disk that fails while it is used"),
    (
        "free some space on its disk, and check who may write there",
        "a disk that fails while it is used",
    ),
    (
        "run the same command again: it continues the download",
        "an interrupted download",
    ),
    (", or build with another: `--cuda 13`", "a note"),
    (
        "only uv fetches for another platform: pip records the hashes of this machine's files alone",
        "needs a resolution by pip",
    ),
    ("; the Python packages of CUDA", "a note"),
    (
        "` is not known, so its lower bound cannot be written",
        "needs a component without a version and a table of symbols",
    ),
    (
        "declare it: `components = [{ name = \"",
        "needs a component without a version and a table of symbols",
    ),
    (
        "`, which the planned search path does not cover",
        "the plan is made from the needs of the wheel",
    ),
    (
        "\" to `components` in `[package.metadata.cuda]`",
        "the plan is made from the needs of the wheel",
    ),
];

/// The text in one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_text_of_an_error_is_in_the_snapshot() {
    let snapshot = flat(&expected());
    let texts = texts();
    assert!(texts.len() > 300, "the scan finds {} texts", texts.len());
    let is_shown = |text: &Text| snapshot.contains(&flat(&text.part));
    let excused = |text: &Text| {
        let of_file = NOT_ERRORS.iter().any(|(file, _)| text.file.contains(file));
        of_file || NOT_CAUSED.iter().any(|(part, _)| *part == text.part)
    };
    let lines: Vec<String> = texts
        .iter()
        .filter(|text| !is_shown(text) && !excused(text))
        .map(|text| format!("{}:{}: {}", text.file, text.line, text.part))
        .collect();
    assert!(
        lines.is_empty(),
        "{} texts of errors are not in errors.txt: add a case below tests/cli/errors ({BLESS})\n{}",
        lines.len(),
        lines.join("\n")
    );
    // An excuse that is no longer needed hides a text that comes later.
    for (part, _) in NOT_CAUSED {
        let needed = texts
            .iter()
            .any(|text| text.part == *part && !is_shown(text));
        assert!(needed, "not needed: {part}");
    }
}

#[test]
fn every_failure_gets_a_hint_where_it_is_made() {
    // Their callers add it.
    let later = [
        "cargo-cuda/src/commands/new.rs",
        "cargo-cuda/src/store/directory.rs",
        "cargo-cuda/src/store/refusal.rs",
        "cargo-cuda/src/wheel/rewrite.rs",
    ];
    assert_eq!(without_hint(), later);
}

/// Messages in docs/troubleshooting.md that other programs print: compilers, linkers, loaders, cargo, Python, uv.
const OF_OTHERS: [&str; 10] = [
    "no such command: cuda",
    "cannot open source file \"vector\"",
    "A function without execution space annotations",
    "unsupported GNU version",
    "unable to find library -lcublas",
    "could not find native static library cublas_static",
    "libcuda.so.1: cannot open shared object file",
    "libcublas.so.13: cannot open shared object file",
    "libcudart.so.13: cannot open shared object file",
    "PackageNotFoundError: saxpy",
];

#[test]
fn every_error_in_troubleshooting_exists() {
    let snapshot = flat(&expected());
    let page = std::fs::read_to_string(checkout().join("docs/troubleshooting.md")).unwrap();
    let entries: Vec<&str> = page
        .split("\n\n")
        .filter(|paragraph| paragraph.starts_with("**"))
        .collect();
    assert!(entries.len() > 15, "{entries:?}");
    for entry in entries {
        let quoted = entry
            .strip_prefix("**`")
            .and_then(|rest| rest.split_once("`**"));
        let (text, _) =
            quoted.unwrap_or_else(|| panic!("an entry starts with the text of an error: {entry}"));
        let is_known = text.split('…').all(|part| snapshot.contains(part.trim()));
        assert!(
            is_known || OF_OTHERS.contains(&text),
            "no error has the text `{text}`"
        );
    }
}

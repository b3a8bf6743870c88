//! Support for a new CUDA major or a new component is a change of the tables alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::internal::release::NEWEST_MAJOR;

/// Tables, which may name majors, and files where the number means something else.
const EXCEPT: [&str; 6] = [
    // A table of versions of libstdc++.
    "cargo-cuda/src/audit/rules/system.rs",
    // A table of exit codes.
    "cargo-cuda/src/exit_code.rs",
    "cuda-build/src/component/edges.rs",
    "cuda-build/src/component/table.rs",
    "cuda-build/src/release/",
    "cuda-build/src/capability/table.rs",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.to_str().unwrap().ends_with("tests.rs")
        {
            into.push(path);
        }
    }
}

/// Whether a line of code has this number by itself: not `cu13` or `130`.
fn has_number(line: &str, number: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(number).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + number.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The lines of a file without comments, the contents of strings and everything from the first test on.
fn code(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let text = text.replace("'\"'", "");
    let (mut in_string, mut code) = (false, Vec::new());
    for line in text.lines() {
        let (mut kept, mut escaped) = (String::new(), false);
        for (at, c) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if c == '"' && !escaped {
                in_string = !in_string;
            } else if !in_string {
                kept.push(c);
            }
            escaped = in_string && c == '\\' && !escaped;
        }
        code.push(kept);
    }
    code
}

#[test]
fn only_numbers_in_code_count() {
    let found = |text: &str| code(text).iter().any(|line| has_number(line, "13"));
    for text in ["major < 13", "11..=13", "[12, 13]", "f(\"\\\"\", 13)"] {
        assert!(found(text), "{text}");
    }
    for text in [
        "cu13",
        "130",
        "\"add 13\"",
        "1 // 13",
        "\"a\n13\"",
        "\"\\\" 13\"",
    ] {
        assert!(!found(text), "{text}");
    }
}

/// What decides by the newest major asks the release table for it.
#[test]
fn no_newest_major_outside_the_tables() {
    let (root, number) = (repository(), NEWEST_MAJOR.to_string());
    let mut files = Vec::new();
    for package in ["cuda-build/src", "cargo-cuda/src"] {
        sources(&root.join(package), &mut files);
    }
    assert!(files.len() > 100, "{files:?}");
    let mut found = Vec::new();
    for path in files {
        let name = path
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if EXCEPT.iter().any(|table| name.starts_with(table)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (index, line) in code(&text).iter().enumerate() {
            if has_number(line, &number) {
                found.push(format!("{name}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Patches a fictitious CUDA major and a fictitious component into a copy of the tables, and searches every layout
/// with it.
#[test]
fn a_new_major_is_found_after_a_change_of_the_tables() {
    let output = Command::new("bash")
        .arg(repository().join("tests/next_major/run.sh"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("next-major"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#![allow(
    clippy::disallowed_methods,
    reason = "tests write the files that are read"
)]

use std::fs;

use super::*;

/// A package with these files; `cuda` stands for the toolkit's directory.
fn package(files: &[(&str, &str)]) -> tempfile::TempDir {
    let package = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = package.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    package
}

struct Scanned {
    files: Vec<String>,
    absent: Vec<String>,
    scan: Scan,
}

/// Scans `src/k.cu` with `inc` as the user's directory.
fn scan(package: &Path, headers: &[String]) -> Scanned {
    let search = SearchPath {
        working: package.to_owned(),
        directories: vec![package.join("inc")],
        toolkit: vec![package.join("cuda")],
    };
    let (mut files, mut scanner) = (Files::default(), Scanner::default());
    let scan = scanner.scan(
        &mut files,
        [package.join("src/k.cu")],
        headers,
        ["math.h"],
        &search,
    );
    let names = |paths: &Set<PathBuf>| {
        let relative = paths.iter().map(|path| path.strip_prefix(package).unwrap());
        relative
            .map(|path| path.to_str().unwrap().to_owned())
            .collect()
    };
    Scanned {
        files: names(&scan.files),
        absent: names(&scan.absent),
        scan,
    }
}

#[test]
fn every_file_of_a_name_counts() {
    let package = package(&[
        (
            "src/k.cu",
            "#include \"a.h\"\n#include \"sub/b.h\"\n#include <angled.h>\n",
        ),
        ("src/a.h", ""),
        ("src/angled.h", "not found by `<…>`"),
        ("inc/a.h", "#include \"only_inc.h\""),
        ("inc/only_inc.h", ""),
        ("inc/angled.h", ""),
        (
            "src/sub/b.h",
            "#include \"c.h\"\n#include \"../top.h\"\n#include \"k_only.h\"",
        ),
        ("src/sub/c.h", ""),
        (
            "src/c.h",
            "only the directory of the including file is searched",
        ),
        ("src/k_only.h", ""),
        ("src/top.h", ""),
    ]);
    let found = scan(package.path(), &[]);
    let expected = [
        "inc/a.h",
        "inc/angled.h",
        "inc/only_inc.h",
        "src/a.h",
        "src/sub/b.h",
        "src/sub/c.h",
        "src/top.h",
    ];
    assert_eq!(found.files, expected);
    let absent = [
        "inc/../top.h",
        "inc/c.h",
        "inc/k_only.h",
        "inc/math.h",
        "inc/sub",
        "src/sub/k_only.h",
        "top.h",
    ];
    assert!(
        found
            .absent
            .iter()
            .all(|path| absent.contains(&path.as_str())),
        "{:?}",
        found.absent
    );
    for path in ["inc/k_only.h", "inc/sub", "src/sub/k_only.h", "inc/math.h"] {
        assert!(
            found.absent.iter().any(|absent| absent == path),
            "{path}: {:?}",
            found.absent
        );
    }
}

#[test]
fn conditions_hide_nothing() {
    let text = "#if 0\n#include \"off.h\"\n#endif\n#if __has_include(\"perhaps.h\")\n#endif\n";
    let package = package(&[("src/k.cu", text), ("src/off.h", "")]);
    let found = scan(package.path(), &[]);
    assert_eq!(found.files, ["src/off.h"]);
    assert!(
        found.absent.contains(&"src/perhaps.h".to_owned()),
        "{:?}",
        found.absent
    );
    // No directory `inc` yet.
    assert!(
        found.absent.contains(&"inc/perhaps.h".to_owned()),
        "{:?}",
        found.absent
    );
}

#[test]
fn cycles_end() {
    let package = package(&[
        ("src/k.cu", "#include \"k.cu\"\n#include \"x/a.h\""),
        (
            "src/x/a.h",
            "#include \"../x/a.h\"\n#include \"../x/../x/b.h\"",
        ),
        ("src/x/b.h", "#include \"../x/a.h\""),
    ]);
    assert_eq!(scan(package.path(), &[]).files, ["src/x/a.h", "src/x/b.h"]);
}

#[cfg(unix)]
#[test]
fn a_link_and_dots_lead_where_the_disk_says() {
    let package = package(&[
        (
            "src/k.cu",
            "#include \"link/../x.h\"\n#include \"link/self.h\"\n",
        ),
        ("real/deep/self.h", "#include \"../deep/self.h\"\n"),
        ("real/x.h", ""),
        ("src/x.h", "another file"),
    ]);
    std::os::unix::fs::symlink("../real/deep", package.path().join("src/link")).unwrap();
    let found = scan(package.path(), &[]);
    assert!(
        found.files.contains(&"src/link/../x.h".to_owned()),
        "{:?}",
        found.files
    );
    assert!(
        !found.files.contains(&"src/x.h".to_owned()),
        "{:?}",
        found.files
    );
}

#[test]
fn toolkit_headers_are_named_and_not_read_further() {
    let package = package(&[
        (
            "src/k.cu",
            "#include <cub/cub.cuh>\n#include <cuda_fp16.h>\n#include <stdint.h>",
        ),
        ("cuda/cub/cub.cuh", "#include <cub/deep.cuh>"),
        ("cuda/cub/deep.cuh", ""),
        ("cuda/cuda_fp16.h", ""),
    ]);
    let found = scan(package.path(), &[]);
    assert!(found.files.is_empty() && found.scan.own.is_empty());
    assert!(found.scan.includes_cccl());
    assert_eq!(found.scan.toolkit_files.len(), 2);
}

#[test]
fn cccl_of_the_user_is_recognized() {
    let source = ("src/k.cu", "#include <cuda/atomic>\n");
    let cccl = package(&[
        source,
        ("inc/cuda/atomic", "#include \"std/atomic\"\n"),
        ("inc/cuda/std/atomic", ""),
    ]);
    assert!(scan(cccl.path(), &[]).scan.includes_cccl());
    let other = package(&[source, ("inc/cuda/atomic", "")]);
    assert!(!scan(other.path(), &[]).scan.includes_cccl());
}

#[test]
fn a_header_of_the_user_named_like_a_shim_is_own() {
    let beside = package(&[("src/k.cu", "#include \"math.h\""), ("src/math.h", "")]);
    assert!(scan(beside.path(), &[]).scan.own.contains("math.h"));
    let unnamed = package(&[("src/k.cu", ""), ("inc/math.h", "")]);
    assert!(scan(unnamed.path(), &[]).scan.own.contains("math.h"));
}

#[test]
fn headers_of_options_and_macros() {
    let package = package(&[
        (
            "src/k.cu",
            "#include NAME\n#if __has_include(OTHER)\n#endif\n",
        ),
        ("inc/first.h", "#include \"second.h\""),
        ("inc/second.h", ""),
    ]);
    let found = scan(
        package.path(),
        &["first.h".to_owned(), "inc/second.h".to_owned()],
    );
    assert_eq!(found.files, ["inc/first.h", "inc/second.h"]);
    let by_macro = |reason: Option<String>| {
        reason.is_some_and(|r| r.ends_with("src/k.cu takes the name of a header from a macro"))
    };
    assert!(by_macro(found.scan.unknown_include) && by_macro(found.scan.unknown_query));
}

#[test]
fn a_macro_may_name_a_header_beside_its_file() {
    let package = package(&[("src/k.cu", "#include NAME\n"), ("inc/math.h", "")]);
    // `math.h` is among the other names of these tests.
    let found = scan(package.path(), &[]);
    assert_eq!(found.files, ["inc/math.h"]);
    assert!(
        found.absent.contains(&"src/math.h".to_owned()),
        "{:?}",
        found.absent
    );
}

#[test]
fn a_header_of_an_option_that_is_not_found_makes_the_scan_incomplete() {
    let package = package(&[("src/k.cu", ""), ("pre/first.h", "")]);
    let found = scan(package.path(), &["pre/first.h".to_owned()]);
    assert_eq!(found.files, ["pre/first.h"]);
    assert_eq!(found.scan.unknown_include, None);
    let found = scan(package.path(), &["nowhere.h".to_owned()]);
    assert_eq!(
        found.scan.unknown_include.as_deref(),
        Some("the header `nowhere.h` of an option was not found")
    );
}

#[test]
fn names_that_would_hide_a_toolkit_header() {
    let package = package(&[
        ("cuda/cub/cub.cuh", ""),
        ("cuda/cuda/std/cmath", ""),
        ("cuda/vector_types.h", ""),
        ("inc/cuda/mine.cuh", ""),
        ("inc/vector_types.h", ""),
    ]);
    let mut scan = Scan::default();
    let at = |name: &str| package.path().join(name);
    hidden_by(&mut Files::default(), &at("inc"), &at("cuda"), &mut scan);
    assert_eq!(scan.files, [at("inc/vector_types.h")].into());
    assert_eq!(scan.absent, [at("inc/cub"), at("inc/cuda/std")].into());
}

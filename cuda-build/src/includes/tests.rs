#![allow(
    clippy::disallowed_methods,
    reason = "tests write the files that are read"
)]

use std::fs;

use super::*;

/// Writes these files, and scans `src/k.cu` with `inc` as the user's directory and `cuda` as the toolkit's. Each option
/// header is included first; `math.h` is among the other names.
fn scan(files: &[(&str, &str)], option_headers: &[&str]) -> (tempfile::TempDir, Scan) {
    let package = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = package.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let scan = scan_again(package.path(), option_headers);
    (package, scan)
}

fn scan_again(package: &Path, option_headers: &[&str]) -> Scan {
    let search = SearchPath {
        working: package.to_owned(),
        directories: vec![package.join("inc")],
        toolkit: vec![package.join("cuda")],
    };
    let headers: Vec<String> = option_headers
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let source = [package.join("src/k.cu")];
    let mut scanner = Scanner::default();
    scanner.scan(&mut Files::default(), source, &headers, ["math.h"], &search)
}

/// The paths as text, relative to the package.
fn names(package: &tempfile::TempDir, paths: &Set<PathBuf>) -> String {
    let relative = paths
        .iter()
        .map(|path| path.strip_prefix(package.path()).unwrap());
    relative
        .map(|path| path.to_str().unwrap())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_header_with_an_absolute_path_is_scanned() {
    let package = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(package.path().join(name), text).unwrap();
    let include = format!("#include <{}/x.h>\n", package.path().display());
    write("k.cu", &include);
    write("x.h", "#include \"y.h\"\n");
    write("y.h", "");
    let search = SearchPath {
        working: package.path().to_owned(),
        directories: Vec::new(),
        toolkit: vec![package.path().join("cuda")],
    };
    let source = [package.path().join("k.cu")];
    let mut files = Files::default();
    let scan = Scanner::default().scan(&mut files, source, &[], [], &search);
    assert_eq!(names(&package, &scan.files), "x.h y.h");
}

#[test]
fn every_file_of_a_name_counts() {
    let files = [
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
    ];
    let (package, scan) = scan(&files, &[]);
    let expected = "inc/a.h inc/angled.h inc/only_inc.h src/a.h src/sub/b.h src/sub/c.h src/top.h";
    assert_eq!(names(&package, &scan.files), expected);
    let expected = "inc/c.h inc/k_only.h inc/math.h inc/sub src/sub/k_only.h top.h";
    assert_eq!(names(&package, &scan.absent), expected);
}

#[test]
fn what_a_source_includes_and_looks_for() {
    let optional = "#if 0\n#include \"off.h\"\n#endif\n#if __has_include(\"perhaps.h\")\n#endif\n";
    let cycle = [
        ("src/k.cu", "#include \"k.cu\"\n#include \"x/a.h\""),
        (
            "src/x/a.h",
            "#include \"../x/a.h\"\n#include \"../x/../x/b.h\"",
        ),
        ("src/x/b.h", "#include \"../x/a.h\""),
    ];
    let by_macro = [("src/k.cu", "#include NAME\n"), ("inc/math.h", "")];
    let directory = [("src/k.cu", "#include <memory>\n"), ("inc/memory/x.h", "")];
    for (files, included, absent) in [
        // `#if` is ignored; `inc` does not exist.
        (
            &[("src/k.cu", optional), ("src/off.h", "")][..],
            "src/off.h",
            "inc src/perhaps.h",
        ),
        (&cycle, "src/x/a.h src/x/b.h", "inc x"),
        // A macro may name a header beside its file.
        (&by_macro, "inc/math.h", "src/math.h"),
        (&directory, "", "inc/math.h inc/memory"),
    ] {
        let (package, scan) = scan(files, &[]);
        assert_eq!(names(&package, &scan.files), included);
        assert_eq!(names(&package, &scan.absent), absent);
    }
}

#[cfg(unix)]
#[test]
fn dots_after_a_link_follow_the_link() {
    let files = [
        (
            "src/k.cu",
            "#include \"link/../x.h\"\n#include \"link/self.h\"\n",
        ),
        ("real/deep/self.h", "#include \"../deep/self.h\"\n"),
        ("real/x.h", ""),
        ("src/x.h", "another file"),
    ];
    let (package, _) = scan(&files, &[]);
    std::os::unix::fs::symlink("../real/deep", package.path().join("src/link")).unwrap();
    let files = names(&package, &scan_again(package.path(), &[]).files);
    assert!(
        files.contains("src/link/../x.h") && !files.contains("src/x.h"),
        "{files}"
    );
}

#[test]
fn toolkit_headers_are_named_and_not_read_further() {
    let includes = "#include <cub/cub.cuh>\n#include <cuda_fp16.h>\n#include <stdint.h>";
    let files = [
        ("src/k.cu", includes),
        ("cuda/cub/cub.cuh", "#include <cub/deep.cuh>"),
        ("cuda/cub/deep.cuh", ""),
        ("cuda/cuda_fp16.h", ""),
    ];
    let (_, found) = scan(&files, &[]);
    assert!(found.files.is_empty() && found.user_names.is_empty());
    assert!(found.includes_cccl() && found.toolkit_files.len() == 2);
    // The user may have CCCL, and a directory `cuda` with other headers.
    let source = ("src/k.cu", "#include <cuda/atomic>\n");
    let cccl = [
        ("inc/cuda/atomic", "#include \"std/atomic\"\n"),
        ("inc/cuda/std/atomic", ""),
    ];
    assert!(scan(&[source, cccl[0], cccl[1]], &[]).1.includes_cccl());
    assert!(
        !scan(&[source, ("inc/cuda/atomic", "")], &[])
            .1
            .includes_cccl()
    );
}

#[test]
fn a_header_of_the_user_replaces_a_shim() {
    let beside = [("src/k.cu", "#include \"math.h\""), ("src/math.h", "")];
    let unnamed = [("src/k.cu", ""), ("inc/math.h", "")];
    for files in [beside, unnamed] {
        assert!(scan(&files, &[]).1.user_names.contains("math.h"));
    }
}

#[test]
fn headers_of_options_and_macros() {
    let files = [
        (
            "src/k.cu",
            "#include NAME\n#if __has_include(OTHER)\n#endif\n",
        ),
        ("inc/first.h", "#include \"second.h\""),
        ("inc/second.h", ""),
        ("pre/first.h", ""),
    ];
    let (package, found) = scan(&files, &["first.h", "inc/second.h"]);
    assert_eq!(names(&package, &found.files), "inc/first.h inc/second.h");
    let reason = "src/k.cu takes the name of a header from a macro";
    for unknown in [found.unknown_include, found.unknown_query] {
        assert!(unknown.is_some_and(|text| text.ends_with(reason)));
    }
    fs::write(package.path().join("src/k.cu"), "").unwrap();
    let found = scan_again(package.path(), &["pre/first.h"]);
    assert_eq!(names(&package, &found.files), "pre/first.h");
    assert_eq!(found.unknown_include, None);
    let unknown = scan_again(package.path(), &["nowhere.h"]).unknown_include;
    let reason = "the header `nowhere.h` of an option was not found";
    assert_eq!(unknown.as_deref(), Some(reason));
}

#[test]
fn files_that_the_assembler_reads_are_unknown() {
    for text in [
        r#"asm(".incbin \"x\"");"#,
        r#"asm(".include \"x\"");"#,
        r#"asm(R"(.include "x")");"#,
    ] {
        let reason = scan(&[("src/k.cu", text)], &[]).1.unknown_query;
        assert!(reason.is_some_and(|reason| reason.ends_with("makes the assembler read a file")));
    }
}

#[test]
fn names_that_would_hide_a_toolkit_header() {
    let files = [
        ("src/k.cu", ""),
        ("cuda/cub/cub.cuh", ""),
        ("cuda/cuda/std/cmath", ""),
        ("cuda/vector_types.h", ""),
        ("inc/cuda/mine.cuh", ""),
        ("inc/vector_types.h", ""),
    ];
    let (package, _) = scan(&files, &[]);
    for (directory, hiding, absent) in [
        ("inc", "inc/vector_types.h", "inc/cub inc/cuda/std"),
        ("no", "", "no"),
    ] {
        let mut scan = Scan::default();
        let at = |name: &str| package.path().join(name);
        add_hiding_paths(
            &mut Files::default(),
            &at(directory),
            &at("cuda"),
            &mut scan,
        );
        assert_eq!(names(&package, &scan.files), hiding);
        assert_eq!(names(&package, &scan.absent), absent);
    }
}

//! What a build script costs that is run again and has nothing to compile. A measurement, not a
//! test: `cargo test -p cargo-cuda --test attack -- --ignored --nocapture cost`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::package::{Compiler, Package, place, succeeded};

const SOURCES: usize = 500;
const HEADERS: usize = 100;
const RUNS: u32 = 20;

/// Writes an output and a depfile as nvcc does for a source that includes all headers; anything
/// else is left to the real nvcc.
const NVCC: &str = r#"#!/bin/sh
case "$*" in *kernels/k*.cu) ;; *) exec REAL "$@" ;; esac
while [ $# -gt 1 ]; do
  case "$1" in
    -o) output=$2; shift ;;
    -MF) depfile=$2; shift ;;
  esac
  shift
done
echo code > "$output"
{ printf '%s : %s' "$output" "$1"; while read -r header; do printf ' \\\n    %s' "$header"; done < HEADERS; echo; } > "$depfile"
"#;

fn scripted_toolkit(place: &Path, real: &Path, headers: &Path) -> PathBuf {
    let toolkit = place.join("toolkit");
    let link_all = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            symlink(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    link_all(real, &toolkit);
    fs::remove_file(toolkit.join("bin")).unwrap();
    link_all(&real.join("bin"), &toolkit.join("bin"));
    let nvcc = toolkit.join("bin/nvcc");
    let real = toolkit.join("bin/real-nvcc");
    fs::rename(&nvcc, &real).unwrap();
    let script = NVCC
        .replace("REAL", &real.display().to_string())
        .replace("HEADERS", &headers.display().to_string());
    fs::write(&nvcc, script).unwrap();
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    toolkit
}

/// Processor time of all children so far, in milliseconds.
fn children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The name may hold blanks; after it come the fields from the third on.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |field: usize| fields[field - 3].parse::<f64>().unwrap();
    (ticks(16) + ticks(17)) * 10.0
}

/// Milliseconds of processor time of one run of the script, and what it reports.
fn measured(sources: usize, optimized: bool) -> (f64, String) {
    let real = Compiler::Nvcc13.root().unwrap().join("nvidia/cu13");
    let name = format!("cost-{sources}-{optimized}");
    let beside = place(&format!("{name}-toolkit"));
    let list = beside.join("headers");
    let package = Package::with_root(&name, &scripted_toolkit(&beside, &real, &list));
    let mut paths = String::new();
    for header in 0..HEADERS {
        let file = format!("include/h{header}.cuh");
        package.write(&file, format!("// {header}\n{}", "// filler\n".repeat(400)));
        paths += &format!("{}\n", package.path.join(&file).display());
    }
    fs::write(&list, paths).unwrap();
    for source in 0..sources {
        package.write(&format!("kernels/k{source}.cu"), format!("// {source}\n"));
    }
    if optimized {
        package.write_manifest(
            "build-override = { opt-level = 3 }\n\
             [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n[workspace]\n",
        );
    }
    package.write_script_with(
        &format!(
            "let mut build = Build::new()?;\nfor index in 0..{sources} {{\n\
             build = build.module(Module::new(format!(\"kernels/k{{index}}.cu\")).engine(Engine::Nvcc)\
             .include(\"include\"));\n}}\n\
             if true {{ build.run()?; return Ok(()); }}"
        ),
        "",
    );
    package.write_program(&[], &[]);
    package.build().unwrap();
    let out = package.out();
    let run = || succeeded(package.script(&out).output().unwrap()).unwrap();
    let output = run();
    let before = children();
    (0..RUNS).for_each(|_| drop(run()));
    let used = (children() - before) / f64::from(RUNS);
    let text = String::from_utf8(output.stdout).unwrap();
    let report = text.lines().find(|line| line.contains("up to date"));
    (used, report.unwrap_or_default().to_owned())
}

#[test]
#[ignore = "a measurement"]
fn a_script_with_nothing_to_compile() {
    if Compiler::Nvcc13.root().is_none() {
        return;
    }
    for optimized in [false, true] {
        let (one, _) = measured(1, optimized);
        let (all, report) = measured(SOURCES, optimized);
        eprintln!(
            "optimized {optimized}: {all:.1} ms of CPU for {SOURCES} sources that share {HEADERS} headers, \
             {one:.1} ms for one: {:.1} ms for freshness ({report})",
            all - one
        );
    }
}

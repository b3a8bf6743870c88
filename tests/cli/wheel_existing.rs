//! `cargo cuda wheel --from-wheel`: wheels of other builders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;
use cargo_cuda::wheel::archive::{Entry, Wheel};
use cargo_cuda::wheel::archive_writer;

use crate::components::site_packages;
use crate::project::place;
use crate::support::Finished;
use crate::wheel_template::files;

const MODULE: &str = "fast/_native.abi3.so";
const NAME: &str = "fast-1.0-cp39-abi3-manylinux_2_28_x86_64.whl";

/// A wheel with a module that needs CUDA's runtime, and has `size` bytes of data.
fn wheel(work: &Path, size: usize) -> Option<PathBuf> {
    linked(work, size, &[])
}

/// The same, with more options for the linker.
fn linked(work: &Path, size: usize, options: &[&str]) -> Option<PathBuf> {
    let library = site_packages(13)?.join("nvidia/cu13/lib/libcudart.so.13");
    let data = work.join("data");
    fs::write(&data, vec![7; size]).unwrap();
    let source = work.join("module.c");
    let code = format!(
        "__asm__(\".section .rodata\\n.incbin \\\"{}\\\"\\n.text\\n\");\n\
         int cudaRuntimeGetVersion(int *);\nint version(void) {{ int v; return cudaRuntimeGetVersion(&v); }}\n",
        data.display()
    );
    fs::write(&source, code).unwrap();
    let module = work.join("module.so");
    let gcc = Command::new("gcc")
        .args([
            "-shared",
            "-fPIC",
            "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../nvidia/cu13/lib",
            "-o",
        ])
        .args([&module, &source, &library])
        .args(options)
        .output();
    Finished::of(gcc.unwrap()).succeeded();
    let info = "fast-1.0.dist-info";
    let python = "import importlib.metadata\n\n__version__ = importlib.metadata.version('fast')\n";
    let files = [
        (MODULE.to_owned(), fs::read(&module).unwrap()),
        ("fast/__init__.py".to_owned(), python.into()),
        (
            format!("{info}/METADATA"),
            "Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n".into(),
        ),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nTag: cp39-abi3-manylinux_2_28_x86_64\n".into(),
        ),
    ];
    let entries = files.map(|(path, content)| (path, Entry::new(content, false).unwrap()));
    let wheel = Wheel::new(info.to_owned(), BTreeMap::from(entries));
    let path = work.join(NAME);
    archive_writer::write(&wheel, &path).unwrap();
    Some(path)
}

/// `cargo cuda wheel --from-wheel`, which may use 60 MB of memory.
fn rewrite(wheel: &Path, arguments: &str) -> Finished {
    let script =
        format!("ulimit -d 60000 && exec \"$0\" cuda wheel --from-wheel \"$1\" {arguments}");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_cargo-cuda")])
        .arg(wheel)
        .current_dir(wheel.parent().unwrap())
        .output();
    Finished::of(output.unwrap())
}

#[test]
fn a_wheel_larger_than_the_memory_is_rewritten() {
    let work = place("wheel-existing-large");
    let Some(old) = wheel(&work, 100_000_000) else {
        return;
    };
    let run = rewrite(&old, "--cuda 13");
    assert_eq!(run.code, 0, "{run:?}");
    let note = "note: fast/__init__.py:3: `version(\"fast\")` fails, because no distribution is named `fast`";
    assert!(run.stderr.contains(note), "{run:?}");
    assert!(
        run.stdout.contains("  requires cuda-toolkit[cudart]>=13."),
        "{run:?}"
    );
    let new = work.join("dist").join(NAME.replace("fast-", "fast_cu13-"));
    let (old, new) = (Wheel::open(&old).unwrap(), Wheel::open(&new).unwrap());
    assert_eq!(old.entries[MODULE].digest, new.entries[MODULE].digest);
}

#[test]
fn directories_of_the_user_stay_beside_the_wheel() {
    let work = place("wheel-existing-beside");
    let Some(old) = wheel(&work, 10) else {
        return;
    };
    for name in ["fresh-data", ".cargo-cuda-own"] {
        fs::create_dir(work.join(name)).unwrap();
    }
    let before = files(&work);
    rewrite(&old, "--cuda 13 --out .").succeeded();
    let mut after = files(&work);
    after.retain(|path| *path != work.join(NAME.replace("fast-", "fast_cu13-")));
    assert_eq!(after, before);
}

#[test]
fn a_requirement_that_is_not_valid_can_be_copied() {
    let work = place("wheel-existing-requirement");
    let Some(old) = wheel(&work, 10) else {
        return;
    };
    let requirement = "Requires-Dist: pytz (>dev)\n";
    let mut opened = Wheel::open(&old).unwrap();
    let path = format!("{}/METADATA", opened.dist_info);
    let metadata = opened.text(&path).unwrap() + requirement;
    opened.set_text(path, metadata).unwrap();
    let changed = work.join("changed").join(NAME);
    fs::create_dir(work.join("changed")).unwrap();
    archive_writer::write(&opened, &changed).unwrap();
    rewrite(&changed, "--cuda 13").failed(
        exit_code::AUDIT,
        &["`Requires-Dist: pytz (>dev)` is not valid", "--allow W18"],
    );
    rewrite(&changed, "--cuda 13 --allow W18").succeeded();
    let new = NAME.replace("fast-", "fast_cu13-");
    let new = Wheel::open(&work.join("changed/dist").join(new)).unwrap();
    let metadata = new.text(&format!("{}/METADATA", new.dist_info)).unwrap();
    assert!(metadata.contains(requirement), "{metadata}");
}

#[test]
fn wheels_that_cannot_be_rewritten_leave_nothing() {
    let work = place("wheel-existing-refused");
    let Some(old) = wheel(&work, 10) else {
        return;
    };
    let dist = work.join("dist");
    rewrite(&old, "--cuda 12").failed(
        exit_code::WHEEL,
        &["`libcudart.so.13` of CUDA 13, but the wheel is for CUDA 12"],
    );
    rewrite(&old, "--cuda 12,13").failed(exit_code::USAGE, &["takes one CUDA major"]);
    // A changed byte in the compressed module.
    let mut damaged = fs::read(&old).unwrap();
    damaged[1000] ^= 1;
    fs::write(&old, damaged).unwrap();
    rewrite(&old, "--cuda 13").failed(exit_code::WHEEL, &[NAME, "is damaged"]);
    assert!(!dist.exists(), "{:?}", files(&dist));
}

#[test]
fn a_wheel_with_an_error_is_not_written() {
    let work = place("wheel-existing-audit");
    let Some(old) = linked(&work, 10, &["-Wl,-z,execstack"]) else {
        return;
    };
    let new = NAME.replace("fast-", "fast_cu13-");
    rewrite(&old, "--cuda 13").failed(
        exit_code::AUDIT,
        &[
            &format!("error: {new} was not written, because the audit found errors in it:"),
            &format!("  error[W20]: {MODULE} requires an executable stack"),
            "hint: do not link libpython",
            "hint: to write the wheel nevertheless: `--allow W20`",
        ],
    );
    let dist = work.join("dist");
    assert!(files(&dist).is_empty(), "{:?}", files(&dist));
    let run = rewrite(&old, "--cuda 13 --allow W20");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(files(&dist), [dist.join(new)]);
}

#[test]
fn the_kind_of_search_path_stays() {
    let work = place("wheel-existing-runpath");
    let Some(old) = linked(&work, 10, &["-Wl,--enable-new-dtags"]) else {
        return;
    };
    rewrite(&old, "--cuda 13 --rpath rpath").failed(
        exit_code::WHEEL,
        &["expected DT_RPATH: $ORIGIN/../nvidia/cu13/lib"],
    );
    let run = rewrite(&old, "--cuda 13");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_wheel_above_the_limit_is_kept_and_fails() {
    let work = place("wheel-existing-limit");
    let Some(old) = wheel(&work, 10) else {
        return;
    };
    let run = rewrite(&old, "--cuda 13 --max-size '1 kB'");
    run.failed(
        exit_code::WHEEL,
        &[
            "the index accepts 1.0 kB per file",
            MODULE,
            "hint: drop capabilities",
            "max-size = ",
        ],
    );
    assert_eq!(files(&work.join("dist")).len(), 1);
    let run = rewrite(&old, "--cuda 13 --max-size 1");
    run.failed(exit_code::USAGE, &["`1` is not a size such as `200 MiB`"]);
}

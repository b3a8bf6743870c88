//! Rewriting without a builder: wheels made of a few entries. The program that runs the tests is
//! an ELF file without CUDA; tests with real modules are in `tests/cli/wheel_existing.rs`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::*;
use cuda_build::Component;

const INIT: &str = "from .saxpy import *\n\n__doc__ = saxpy.__doc__\nif hasattr(saxpy, \"__all__\"):\n    \
                    __all__ = saxpy.__all__";

fn this_program() -> Vec<u8> {
    cuda_find_core::root::Root::system()
        .bytes(Path::new("/proc/self/exe"))
        .unwrap()
}

/// The module of every wheel here, which is hashed once.
fn module() -> WheelFile {
    static MODULE: OnceLock<WheelFile> = OnceLock::new();
    let module = MODULE.get_or_init(|| WheelFile::new(this_program(), true).unwrap());
    module.clone()
}

fn wheel(extra: &[(&str, &str)]) -> WheelArchive {
    let texts = [
        ("saxpy/__init__.py", INIT),
        (
            "saxpy-0.1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: saxpy\nVersion: 0.1.0\nRequires-Dist: saxpy[plot]; extra == 'all'\n",
        ),
        (
            "saxpy-0.1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nTag: cp39-abi3-manylinux_2_34_x86_64\n",
        ),
        ("saxpy-0.1.0.dist-info/licenses/LICENSE", "MIT\n"),
    ];
    let mut entries: BTreeMap<String, WheelFile> = texts
        .iter()
        .chain(extra)
        .map(|&(path, text)| {
            let entry = WheelFile::new(text.as_bytes().to_owned(), false).unwrap();
            (path.to_owned(), entry)
        })
        .collect();
    entries.insert("saxpy/saxpy.abi3.so".to_owned(), module());
    WheelArchive::new("saxpy-0.1.0.dist-info".to_owned(), entries)
}

fn rewriting(major: u32) -> Rewrite {
    let cudart = BTreeSet::from([Component::Cudart]);
    Rewrite {
        purpose: Purpose::Index,
        needs: Needs {
            required: cudart,
            ..Needs::new(BuiltWith {
                components: [(Component::Cudart, "13.4.92".parse().unwrap())].into(),
                ..BuiltWith::newest(major)
            })
        },
        dependencies: Vec::new(),
        excluded: Vec::new(),
        allow: Vec::new(),
    }
}

const NAME: &str = "saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl";

fn rewrite_with(
    rewriting: &Rewrite,
    mut wheel: WheelArchive,
) -> Result<(WheelArchive, BuiltWheel), Failure> {
    let mut name = FileName::parse(NAME).unwrap();
    let built = rewriting.rewrite(&mut wheel, &mut name)?;
    Ok((wheel, built))
}

fn rewrite(wheel: WheelArchive) -> Result<(WheelArchive, BuiltWheel), Failure> {
    rewrite_with(&rewriting(13), wheel)
}

#[test]
fn only_the_distribution_is_renamed() {
    let extra = [
        (
            "saxpy-0.1.0.dist-info/entry_points.txt",
            "[console_scripts]\nsaxpy = saxpy:main\n",
        ),
        ("saxpy-0.1.0.data/data/share/x", "x"),
        ("saxpy/cli.py", "from saxpy import axpy\n"),
        ("helper.py", ""),
        ("other/__init__.py", ""),
    ];
    let before = wheel(&extra).entries;
    let (wheel, built) = rewrite(wheel(&extra)).unwrap();
    assert_eq!(
        built.requires,
        [
            "saxpy-cu13[plot]; extra == 'all'",
            "cuda-toolkit[cudart]>=13.0,<14"
        ]
    );
    let paths: Vec<&str> = wheel.entries.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "helper.py",
            "other/__init__.py",
            "saxpy/__init__.py",
            "saxpy/cli.py",
            "saxpy/saxpy.abi3.so",
            "saxpy_cu13-0.1.0.data/data/share/x",
            "saxpy_cu13-0.1.0.dist-info/METADATA",
            "saxpy_cu13-0.1.0.dist-info/WHEEL",
            "saxpy_cu13-0.1.0.dist-info/entry_points.txt",
            "saxpy_cu13-0.1.0.dist-info/licenses/LICENSE",
        ]
    );
    for (path, entry) in &wheel.entries {
        if !path.ends_with("METADATA") && !path.ends_with("WHEEL") {
            let old = path.replace("saxpy_cu13-", "saxpy-");
            assert_eq!(before[&old], *entry, "{path}");
        }
    }
    let facts = wheel.text("saxpy_cu13-0.1.0.dist-info/WHEEL").unwrap();
    assert!(
        facts.ends_with("_x86_64\nRoot-Is-Purelib: true\n"),
        "{facts}"
    );
    assert_eq!(
        wheel.text("saxpy_cu13-0.1.0.dist-info/METADATA").unwrap(),
        "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\nRequires-Dist: saxpy-cu13[plot]; extra == 'all'\n\
         Requires-Dist: cuda-toolkit[cudart]>=13.0,<14\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"
    );
}

#[test]
fn report_has_the_requirements_of_the_metadata() {
    let metadata = "Name: saxpy\nVersion: 0.1.0\nProvides-Extra: plot\nRequires-Dist: numpy\n";
    let mut rewriting = rewriting(13);
    rewriting.needs.required.clear();
    rewriting.dependencies = vec!["nvmath-python[cu13]".to_owned()];
    let wheel = wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)]);
    let (wheel, built) = rewrite_with(&rewriting, wheel).unwrap();
    let text = wheel.text("saxpy_cu13-0.1.0.dist-info/METADATA").unwrap();
    let lines = text.lines();
    let requires: Vec<&str> = lines
        .filter_map(|l| l.strip_prefix("Requires-Dist: "))
        .collect();
    assert_eq!(requires, ["numpy", "nvmath-python[cu13]"]);
    assert_eq!(built.requires, requires);
}

fn library(needed: &str) -> ElfFacts {
    ElfFacts {
        needed: vec![needed.to_owned()],
        ..ElfFacts::default()
    }
}

#[test]
fn only_the_table_decides_what_is_nvidias() {
    let with = |needed: &str, excluded: &[&str]| {
        let mut wheel = wheel(&[]);
        let mut custom = module();
        custom.elf = Some(library(needed));
        wheel
            .entries
            .insert("saxpy/libcustom_ops.so".to_owned(), custom);
        let rewriting = Rewrite {
            excluded: excluded.iter().map(|&name| name.to_owned()).collect(),
            ..rewriting(13)
        };
        let mut name = FileName::parse(NAME).unwrap();
        let built = rewriting.rewrite(&mut wheel, &mut name).unwrap();
        (built.expected_on_system, name.rest.contains("manylinux"))
    };
    // What the wheel contains is its own, and NVIDIA's libraries are in its packages.
    for name in [
        "libcustom_ops.so",
        "libcudart.so.13",
        "libcuda.so.1",
        "libc.so.6",
        // A program that embeds Python needs the installed interpreter's library.
        "libpython3.11.so.1.0",
    ] {
        assert_eq!(with(name, &[]), (vec![], true), "{name}");
    }
    for name in [
        "libnvinfer.so.10",
        "libcudf.so",
        "libnvme.so.1",
        "libnppcustom.so",
    ] {
        assert_eq!(with(name, &[]), (vec![name.to_owned()], false), "{name}");
        assert_eq!(with(name, &[name]), (vec![name.to_owned()], true), "{name}");
    }
    for pattern in ["libnv*", "lib*infer*"] {
        let (_, is_portable) = with("libnvinfer.so.10", &[pattern]);
        assert!(is_portable, "{pattern}");
    }
}

#[test]
fn another_builder_has_decided_the_tags() {
    let mut wheel = wheel(&[]);
    let mut custom = module();
    custom.elf = Some(library("libtorch.so"));
    let path = "saxpy/libcustom_ops.so".to_owned();
    wheel.entries.insert(path, custom);
    let mut name = FileName::parse(NAME).unwrap();
    let rewriting = Rewrite::of_other_builder(13, Vec::new());
    let built = rewriting.rewrite(&mut wheel, &mut name).unwrap();
    assert_eq!(built.expected_on_system, ["libtorch.so"]);
    assert!(name.rest.contains("manylinux_2_34"));
}

#[test]
fn what_is_no_64_bit_elf_file_is_data() {
    for content in [&b"\x7fELF"[..], b"\x7fELF\x01\x01\x01\0 firmware"] {
        let file = WheelFile::new(content.to_vec(), false).unwrap();
        assert!(file.elf.is_none());
    }
}

#[test]
fn copies_of_nvidias_libraries_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (path, soname, code) in [
        ("saxpy.libs/libcuda-df60b7cf.so.1", "libcuda.so.1", "W01"),
        ("saxpy/libcudart.so.13", "libcudart.so.13", "W02"),
    ] {
        let mut copy = module();
        copy.elf = Some(ElfFacts {
            soname: Some(soname.to_owned()),
            ..ElfFacts::default()
        });
        let mut wheel = wheel(&[]);
        wheel.entries.insert(path.to_owned(), copy);
        let refused = rewriting(13).apply(wheel, Path::new(NAME), directory.path());
        let message = refused.err().unwrap().message;
        assert!(message.contains(&format!("[{code}]: {path}")), "{message}");
    }
}

#[test]
fn an_error_names_the_wheel_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut pure = wheel(&[]);
    pure.entries.remove("saxpy/saxpy.abi3.so");
    let out = directory.path().join("dist");
    let error = rewriting(13).apply(pure, Path::new(NAME), &out);
    let error = error.unwrap_err().message;
    let expected = "saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl: contains no native module";
    assert!(error.starts_with(expected), "{error}");
    assert!(!out.exists());
}

#[test]
fn invalid_names_are_refused() {
    for (metadata, words) in [
        ("Name: /elsewhere/x\nVersion: 0.1.0\n", "\"/elsewhere/x\""),
        ("Name: x\n  y\nVersion: 0.1.0\n", "x\\n  y"),
        ("Name: a\nName: b\nVersion: 0.1.0\n", "several `Name` lines"),
        ("Version: 0.1.0\n", "no Name"),
        ("Name: saxpy_cu12\n", "ends with a CUDA major (12)"),
    ] {
        let error = rewrite(wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)]));
        let error = error.err().unwrap().to_string();
        assert!(error.contains(words), "{metadata:?}: {error}");
    }
}

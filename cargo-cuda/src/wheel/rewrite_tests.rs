//! Rewriting without a builder: wheels made of a few entries. The program that runs the tests is
//! an ELF file without CUDA; tests with real modules are in `tests/cli/wheel.rs`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::*;
use crate::wheel::archive::Entry;
use crate::wheel::runpath::SearchPathKind;
use cuda_build::{Component, ToolkitVersion};

const INIT: &str = "from .saxpy import *\n\n__doc__ = saxpy.__doc__\nif hasattr(saxpy, \"__all__\"):\n    __all__ = saxpy.__all__";

fn this_program() -> Vec<u8> {
    cuda_build::internal::Root::system()
        .bytes(Path::new("/proc/self/exe"))
        .unwrap()
}

/// The module of every wheel here, which is hashed once.
fn module() -> Entry {
    static MODULE: OnceLock<Entry> = OnceLock::new();
    let module = MODULE.get_or_init(|| Entry::new(this_program(), true).unwrap());
    module.clone()
}

fn wheel(extra: &[(&str, &str)]) -> Wheel {
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
    let mut entries: BTreeMap<String, Entry> = texts
        .iter()
        .chain(extra)
        .map(|&(path, text)| {
            let entry = Entry::new(text.as_bytes().to_owned(), false).unwrap();
            (path.to_owned(), entry)
        })
        .collect();
    entries.insert("saxpy/saxpy.abi3.so".to_owned(), module());
    Wheel::new("saxpy-0.1.0.dist-info".to_owned(), entries)
}

fn rewriting(major: u32) -> Rewrite {
    let cudart = BTreeSet::from([Component::Cudart]);
    Rewrite {
        name: None,
        major,
        runpath: SearchPathPlan::new(&cudart, major, SearchPathKind::Runpath).unwrap(),
        built_with: BuiltWith {
            toolkit: ToolkitVersion::new(major, 4),
            components: [(Component::Cudart, "13.4.92".parse().unwrap())].into(),
        },
        declared: Needs {
            required: cudart,
            ..Needs::default()
        },
        dependencies: Vec::new(),
        excluded: Vec::new(),
        allow: Vec::new(),
    }
}

fn rewrite(wheel: Wheel) -> Result<Rewritten, Failure> {
    let name = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    rewriting(13).rewrite(wheel, &name)
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
    let Rewritten {
        wheel,
        name,
        requires,
        ..
    } = rewrite(wheel(&extra)).unwrap();
    assert_eq!(name, "saxpy-cu13");
    assert_eq!(
        requires,
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
        if !path.ends_with("METADATA") {
            let old = path.replace("saxpy_cu13-", "saxpy-");
            assert_eq!(before[&old], *entry, "{path}");
        }
    }
    assert_eq!(
        wheel.text("saxpy_cu13-0.1.0.dist-info/METADATA").unwrap(),
        "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\nRequires-Dist: saxpy-cu13[plot]; extra == 'all'\n\
         Requires-Dist: cuda-toolkit[cudart]>=13.0,<14\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"
    );
}

#[test]
fn requirements_of_the_author_are_kept() {
    let metadata =
        "Name: saxpy\nVersion: 0.1.0\nRequires-Dist: CUDA-Toolkit[cudart,nvrtc]==13.4.3\n";
    let rewritten = rewrite(wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)])).unwrap();
    let metadata = "saxpy_cu13-0.1.0.dist-info/METADATA";
    let text = rewritten.wheel.text(metadata).unwrap();
    assert_eq!(
        text.to_lowercase().matches("cuda-toolkit").count(),
        1,
        "{text}"
    );

    let metadata = "Name: saxpy\nVersion: 0.1.0\nRequires-Dist: nvidia-cublas-cu12>=12\n";
    let error = rewrite(wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)]))
        .err()
        .unwrap();
    let expected = "requires `nvidia-cublas-cu12>=12`, but the wheel is for CUDA 13";
    assert!(error.message.contains(expected), "{error}");
}

#[test]
fn report_has_the_requirements_of_the_metadata() {
    let metadata = "Name: saxpy\nVersion: 0.1.0\nProvides-Extra: cu12\nProvides-Extra: cu13\nRequires-Dist: numpy\n\
                    Requires-Dist: cupy-cuda12x; extra == 'cu12'\nRequires-Dist: cupy-cuda13x; extra == 'cu13'\n";
    let mut rewriting = rewriting(13);
    rewriting.declared.optional.insert(Component::Cudnn);
    rewriting.dependencies = vec!["nvmath-python[cu13]".to_owned()];
    let file = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    let wheel = wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)]);
    let rewritten = rewriting.rewrite(wheel, &file).unwrap();
    let text = rewritten
        .wheel
        .text("saxpy_cu13-0.1.0.dist-info/METADATA")
        .unwrap();
    let all = |header: &str| -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix(header))
            .collect()
    };
    assert_eq!(all("Requires-Dist: "), rewritten.requires);
    assert_eq!(
        rewritten.requires,
        [
            "numpy",
            "cupy-cuda13x; extra == 'cu13'",
            "nvmath-python[cu13]",
            "cuda-toolkit[cudart]>=13.0,<14",
            "cuda-toolkit[nvrtc,cublas]>=13.0,<14; extra == 'cudnn'",
            "nvidia-cudnn-cu13>=9.12.0,<10; extra == 'cudnn'",
        ]
    );
    assert_eq!(all("Provides-Extra: "), ["cu13", "cudnn"]);
}

#[test]
fn grafted_libraries_are_refused() {
    for file in [
        "saxpy.libs/libcuda-df60b7cf.so.1",
        "saxpy/libcudart.so.13",
        "saxpy.libs/libnvidia-ml.so.1",
    ] {
        let error = rewrite(wheel(&[(file, "")])).err().unwrap();
        let expected = format!("copies of NVIDIA's libraries:\n  {file}");
        assert!(error.message.ends_with(&expected), "{error}");
    }
}

#[test]
fn a_wheel_of_one_major_is_refused() {
    let error = rewrite(wheel(&[(
        "saxpy-0.1.0.dist-info/METADATA",
        "Name: saxpy_cu12\nVersion: 0.1.0\n",
    )]))
    .err()
    .unwrap();
    assert!(
        error.to_string().contains("ends with a CUDA major (12)"),
        "{error}"
    );
}

#[test]
fn a_wheel_without_native_code_is_refused() {
    let mut pure = wheel(&[]);
    pure.entries.remove("saxpy/saxpy.abi3.so");
    assert!(
        rewrite(pure)
            .err()
            .unwrap()
            .to_string()
            .contains("no native module")
    );
}

#[test]
fn an_error_names_the_wheel_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory
        .path()
        .join("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl");
    let mut pure = wheel(&[]);
    pure.entries.remove("saxpy/saxpy.abi3.so");
    archive_writer::write(&pure, &input).unwrap();
    let out = directory.path().join("dist");
    let error = rewriting(13).apply(&input, &out).unwrap_err().message;
    let expected = "saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl: contains no native module";
    assert!(error.starts_with(expected), "{error}");
    assert!(!out.exists());
}

#[test]
fn another_name_is_that_of_the_distribution() {
    let file = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    let rewriting = Rewrite {
        name: Some("Fast.Saxpy".to_owned()),
        ..rewriting(13)
    };
    let rewritten = rewriting.rewrite(wheel(&[]), &file).unwrap();
    assert_eq!(rewritten.name, "fast-saxpy-cu13");
    assert!(rewritten.wheel.entries.contains_key("saxpy/__init__.py"));
    let metadata = rewritten
        .wheel
        .text("fast_saxpy_cu13-0.1.0.dist-info/METADATA");
    let metadata = metadata.unwrap();
    assert!(metadata.contains("Name: fast-saxpy-cu13\n"), "{metadata}");
}

#[test]
fn invalid_names_and_versions_are_refused() {
    for (metadata, words) in [
        ("Name: /elsewhere/x\nVersion: 0.1.0\n", "\"/elsewhere/x\""),
        ("Name: x\n  y\nVersion: 0.1.0\n", "x\\n  y"),
        ("Name: a\nName: b\nVersion: 0.1.0\n", "several `Name` lines"),
        ("Version: 0.1.0\n", "no Name"),
        ("Name: saxpy\n", "no Version"),
        ("Name: saxpy\nVersion: 0.2.0\n", "the file name has 0.1.0"),
        ("Name: saxpy\nVersion: new\n", "not a Python version"),
    ] {
        let error = rewrite(wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)]));
        let error = error.err().unwrap().to_string();
        assert!(error.contains(words), "{metadata:?}: {error}");
    }
    let file = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    for name in ["/elsewhere/x", "../../up", "a/b", "a b", "ü", "", "x\ny"] {
        let rewriting = Rewrite {
            name: Some(name.to_owned()),
            ..rewriting(13)
        };
        let error = rewriting.rewrite(wheel(&[]), &file).err().unwrap();
        assert!(error.message.contains("is not a valid name"), "{error}");
    }
}

#[test]
fn code_that_needs_the_old_name_is_reported() {
    let code = "from importlib import metadata\n__version__ = metadata.version('Saxpy')\n";
    let rewritten = rewrite(wheel(&[("saxpy/_version.py", code)])).unwrap();
    let [lookup] = &rewritten.lookups[..] else {
        panic!("{:?}", rewritten.lookups);
    };
    assert_eq!(
        (lookup.file.as_str(), lookup.line),
        ("saxpy/_version.py", 2)
    );
}

#[test]
fn a_static_runtime_has_a_notice() {
    let mut with_runtime = wheel(&[]);
    let module = [this_program(), static_runtime::marker()].concat();
    let module = Entry::new(module, true).unwrap();
    assert!(module.static_runtime && !with_runtime.entries["saxpy/saxpy.abi3.so"].static_runtime);
    with_runtime
        .entries
        .insert("saxpy/saxpy.abi3.so".to_owned(), module);
    let rewritten = rewrite(with_runtime).unwrap();
    assert!(rewritten.static_runtime);
    let info = "saxpy_cu13-0.1.0.dist-info";
    let text = |file: &str| rewritten.wheel.text(&format!("{info}/{file}")).unwrap();
    assert!(text("METADATA").contains("License-File: NVIDIA-CUDA-runtime.txt\n"));
    let notice = text("licenses/NVIDIA-CUDA-runtime.txt");
    assert!(
        notice.contains("13.4.92") && notice.contains("  saxpy/saxpy.abi3.so\n"),
        "{notice}"
    );
    assert!(text("sboms/nvidia.cyclonedx.json").contains("pkg:pypi/saxpy-cu13@0.1.0"));
}

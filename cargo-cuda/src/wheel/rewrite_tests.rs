//! Rewriting without a builder: wheels made of a few entries. The program that runs the tests is
//! an ELF file without CUDA; tests with real modules are in `tests/cli/wheel.rs`.

use super::*;
use crate::wheel::runpath::SearchPathKind;
use cuda_build::ToolkitVersion;

const INIT: &str = "from .saxpy import *\n\n__doc__ = saxpy.__doc__\nif hasattr(saxpy, \"__all__\"):\n    __all__ = saxpy.__all__";

fn this_program() -> Vec<u8> {
    cuda_build::internal::Root::system()
        .bytes(Path::new("/proc/self/exe"))
        .unwrap()
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
        .map(|&(path, text)| (path.to_owned(), text_entry(text.to_owned())))
        .collect();
    let module = Entry {
        content: this_program(),
        executable: true,
    };
    entries.insert("saxpy/saxpy.abi3.so".to_owned(), module);
    Wheel {
        dist_info: "saxpy-0.1.0.dist-info".to_owned(),
        entries,
    }
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
        dlopened: cudart,
        excluded: Vec::new(),
    }
}

fn rewrite(wheel: Wheel) -> Result<Rewritten, Failure> {
    let name = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    rewriting(13).rewrite(wheel, &name)
}

fn text<'a>(wheel: &'a Wheel, path: &str) -> &'a str {
    std::str::from_utf8(&wheel.entries[path].content).unwrap()
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
    let before = wheel(&extra);
    let Rewritten {
        wheel,
        name,
        requires,
        ..
    } = rewrite(before.clone()).unwrap();
    assert_eq!(name, "saxpy-cu13");
    assert_eq!(requires, ["cuda-toolkit[cudart]>=13.4,<14"]);
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
            assert_eq!(before.entries[&old], *entry, "{path}");
        }
    }
    assert_eq!(
        text(&wheel, "saxpy_cu13-0.1.0.dist-info/METADATA"),
        "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\nRequires-Dist: saxpy-cu13[plot]; extra == 'all'\n\
         Requires-Dist: cuda-toolkit[cudart]>=13.4,<14\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"
    );
}

#[test]
fn requirements_of_the_author_are_kept() {
    let metadata =
        "Name: saxpy\nVersion: 0.1.0\nRequires-Dist: CUDA-Toolkit[cudart,nvrtc]==13.4.3\n";
    let rewritten = rewrite(wheel(&[("saxpy-0.1.0.dist-info/METADATA", metadata)])).unwrap();
    let text = text(&rewritten.wheel, "saxpy_cu13-0.1.0.dist-info/METADATA");
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
    archive::write(&pure, &input).unwrap();
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
    let metadata = text(&rewritten.wheel, "fast_saxpy_cu13-0.1.0.dist-info/METADATA");
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

//! Rewriting without a builder: wheels made of a few entries. The program that runs the tests is
//! an ELF file without CUDA; tests with real modules are in `tests/cli/wheel.rs`.

use super::*;
use crate::wheel::runpath::Kind;
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
        runpath: RunpathPlan::new(&cudart, major, Kind::Runpath).unwrap(),
        built_with: BuiltWith {
            toolkit: ToolkitVersion::new(major, 4),
            components: [(Component::Cudart, "13.4.92".parse().unwrap())].into(),
        },
        loaded_at_run_time: cudart,
        capabilities: vec!["8.0".to_owned()],
        ptx: vec!["9.0".to_owned()],
    }
}

fn rewrite(wheel: Wheel) -> Result<Rewritten, WheelError> {
    let name = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    rewriting(13).rewrite(wheel, &name)
}

fn text<'a>(wheel: &'a Wheel, path: &str) -> &'a str {
    std::str::from_utf8(&wheel.entries[path].content).unwrap()
}

#[test]
fn all_names_are_rewritten() {
    let extra = [
        (
            "saxpy-0.1.0.dist-info/entry_points.txt",
            "[console_scripts]\nsaxpy = saxpy:main\n",
        ),
        ("saxpy-0.1.0.data/data/share/x", "x"),
        ("saxpy/py.typed", ""),
    ];
    let Rewritten {
        wheel,
        name,
        package,
        requires,
        ..
    } = rewrite(wheel(&extra)).unwrap();
    assert_eq!(
        (name.as_str(), package.as_str()),
        ("saxpy-cu13", "saxpy_cu13")
    );
    assert_eq!(requires, ["cuda-toolkit[cudart]>=13.4,<14"]);
    let paths: Vec<&str> = wheel.entries.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "saxpy_cu13-0.1.0.data/data/share/x",
            "saxpy_cu13-0.1.0.dist-info/METADATA",
            "saxpy_cu13-0.1.0.dist-info/WHEEL",
            "saxpy_cu13-0.1.0.dist-info/entry_points.txt",
            "saxpy_cu13-0.1.0.dist-info/licenses/LICENSE",
            "saxpy_cu13/__init__.py",
            "saxpy_cu13/_build.json",
            "saxpy_cu13/py.typed",
            "saxpy_cu13/saxpy.abi3.so",
        ]
    );
    assert_eq!(
        text(&wheel, "saxpy_cu13-0.1.0.dist-info/METADATA"),
        "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\nRequires-Dist: saxpy-cu13[plot]; extra == 'all'\n\
         Requires-Dist: cuda-toolkit[cudart]>=13.4,<14\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"
    );
    assert_eq!(text(&wheel, "saxpy_cu13/__init__.py"), INIT);
    assert!(
        text(&wheel, "saxpy_cu13-0.1.0.dist-info/WHEEL")
            .contains("Tag: cp39-abi3-manylinux_2_34_x86_64")
    );
    assert!(
        text(&wheel, "saxpy_cu13-0.1.0.dist-info/entry_points.txt")
            .contains("saxpy = saxpy_cu13:main")
    );
    let info: serde_json::Value =
        serde_json::from_str(text(&wheel, "saxpy_cu13/_build.json")).unwrap();
    assert_eq!(info["toolkit"], "13.4");
    assert_eq!(info["components"]["cudart"], "13.4.92");
    assert_eq!(info["capabilities"][0], "8.0");
    assert!(wheel.entries["saxpy_cu13/saxpy.abi3.so"].executable);
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
    assert!(
        matches!(error, WheelError::ForeignRequirement { .. }),
        "{error}"
    );
}

#[test]
fn grafted_libraries_are_refused() {
    for file in [
        "saxpy.libs/libcuda-df60b7cf.so.1",
        "saxpy/libcudart.so.13",
        "saxpy.libs/libnvidia-ml.so.1",
    ] {
        let error = rewrite(wheel(&[(file, "")])).err().unwrap();
        assert!(
            matches!(&error, WheelError::Grafted { files } if files == &[file]),
            "{error}"
        );
    }
}

#[test]
fn packages_that_cannot_be_renamed_are_refused() {
    let error = rewrite(wheel(&[(
        "saxpy/cli.py",
        "import os\nfrom saxpy import axpy\n",
    )]))
    .err()
    .unwrap();
    assert!(
        error
            .to_string()
            .ends_with("\n  saxpy/cli.py:2: from saxpy import axpy"),
        "{error}"
    );
    for (path, reason) in [
        ("helper.py", "`helper.py` lies beside"),
        ("other/__init__.py", "(other, saxpy)"),
    ] {
        let error = rewrite(wheel(&[(path, "")])).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = rewrite(wheel(&[(
        "saxpy-0.1.0.dist-info/METADATA",
        "Name: saxpy_cu12\nVersion: 0.1.0\n",
    )]))
    .err()
    .unwrap();
    assert!(
        error.to_string().contains("one CUDA major (12) already"),
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
    archive::write(&wheel(&[("beside.py", "")]), &input).unwrap();
    let out = directory.path().join("dist");
    let error = rewriting(13).apply(&input, &out).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: `beside.py` lies", input.display())),
        "{error}"
    );
    assert!(!out.exists());
}

#[test]
fn another_name_leaves_the_import_package_alone() {
    let file = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl").unwrap();
    let rewriting = Rewrite {
        name: Some("Fast.Saxpy".to_owned()),
        ..rewriting(13)
    };
    let rewritten = rewriting.rewrite(wheel(&[]), &file).unwrap();
    assert_eq!(
        (rewritten.name.as_str(), rewritten.package.as_str()),
        ("fast-saxpy-cu13", "saxpy_cu13")
    );
    let metadata = text(&rewritten.wheel, "fast_saxpy_cu13-0.1.0.dist-info/METADATA");
    assert!(metadata.contains("Name: fast-saxpy-cu13\n"), "{metadata}");
}

#[test]
fn invalid_names_and_versions_are_refused() {
    for (metadata, words) in [
        ("Name: /elsewhere/x\nVersion: 0.1.0\n", "\"/elsewhere/x\""),
        ("Name: x\n  y\nVersion: 0.1.0\n", "x\\n  y"),
        ("Name: a\nName: b\nVersion: 0.1.0\n", "several lines `Name`"),
        ("Version: 0.1.0\n", "no Name"),
        ("Name: saxpy\n", "no Version"),
        ("Name: saxpy\nVersion: 0.2.0\n", "the file name 0.1.0"),
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
        assert!(matches!(error, WheelError::InvalidName { .. }), "{error}");
    }
}

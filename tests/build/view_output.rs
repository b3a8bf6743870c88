//! Views at places that the user names: what is replaced, and what never is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cuda_build::internal::ViewPlace;
use cuda_build::{Build, Error};

use crate::named_places::package;
use crate::view_faults::{Place, contents, target, temporaries};

#[test]
fn only_views_are_replaced() {
    let place = Place::new();
    let output = place.0.path().join("out put");
    let view = || place.view_at(&ViewPlace::at(&output, &target()));
    assert!(view().unwrap().was_made());
    assert!(!view().unwrap().was_made());
    fs::write(
        place.source().join("nvidia/cu13/lib/libcudart.so.13"),
        "newer",
    )
    .unwrap();
    let other = view().unwrap();
    assert!(other.was_made());
    assert_eq!(other.root(), output);
    assert_eq!(fs::read(output.join("lib/libcudart.so")).unwrap(), b"newer");
    fs::remove_dir_all(&output).unwrap();
    fs::create_dir(&output).unwrap();
    assert!(
        view().unwrap().was_made(),
        "an empty directory is in nobody's way"
    );
    fs::remove_dir_all(&output).unwrap();
    fs::create_dir(&output).unwrap();
    fs::write(output.join("thesis.tex"), "…").unwrap();
    let error = view().unwrap_err();
    assert!(matches!(error, Error::ViewNotCreated { .. }), "{error}");
    assert_eq!(
        fs::read_dir(&output).unwrap().count(),
        1,
        "what was there is still there"
    );
    assert_eq!(temporaries(place.0.path()), [""; 0]);
}

#[test]
fn a_module_added_later_is_in_the_view() {
    let directory = tempfile::tempdir().unwrap();
    let cuda = directory.path().join("cuda");
    for (file, text) in [
        (
            "include/cuda.h",
            "#define CUDA_VERSION 13040\nCUresult CUDAAPI cuInit(unsigned int Flags);\n",
        ),
        ("include/cuda_runtime.h", ""),
        ("include/nvrtc.h", ""),
        ("lib/libcudart.so.13", ""),
        ("lib/libcudart_static.a", ""),
        ("lib/libnvrtc.so.13", ""),
        ("lib/libnvrtc-builtins.so.13.4", ""),
    ] {
        let path = cuda.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let out = directory.path().join("target/debug/build/p-0/out");
    let build = package(directory.path(), &[("CUDA_HOME", &cuda), ("OUT_DIR", &out)]);
    let has_nvrtc = |build: &Build| {
        let root = build.view().unwrap().root();
        root.join("lib/libnvrtc.so.13").exists()
    };
    assert!(!has_nvrtc(&build));
    assert!(has_nvrtc(&build.module("k.cu")));
}

#[test]
fn a_view_behind_a_link_is_written_where_it_is() {
    let place = Place::new();
    let (real, link) = (place.0.path().join("real"), place.0.path().join("link"));
    place.view_at(&ViewPlace::at(&real, &target())).unwrap();
    let reference = contents(&real);
    symlink("real", &link).unwrap();
    let view = || place.view_at(&ViewPlace::at(&link, &target()));
    assert!(!view().unwrap().was_made());
    fs::remove_file(real.join("version.json")).unwrap();
    fs::remove_dir_all(real.join("lib")).unwrap();
    assert!(view().unwrap().was_made());
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
    assert_eq!(contents(&real), reference);
    // Replaced behind the link too.
    fs::write(
        place.source().join("nvidia/cu13/lib/libcudart.so.13"),
        "newer",
    )
    .unwrap();
    assert!(view().unwrap().was_made());
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
    assert_eq!(fs::read(real.join("lib/libcudart.so")).unwrap(), b"newer");
    // Where it leads nowhere, nobody has said what is to be made.
    fs::remove_dir_all(&real).unwrap();
    assert!(matches!(view(), Err(Error::ViewNotCreated { .. })));
    fs::create_dir(&real).unwrap();
    assert!(view().unwrap().was_made());
    assert!(real.join("version.json").is_file());
}

#[test]
fn a_view_with_files_of_the_user_is_kept() {
    let place = Place::new();
    let output = place.0.path().join("copy");
    let mut copy = ViewPlace::at(&output, &target());
    copy.copy = true;
    let view = || place.view_at(&copy);
    view().unwrap();
    let product = output.join("lib/libcudnn.so.9");
    fs::write(&product, "a user's").unwrap();
    assert!(
        !view().unwrap().was_made(),
        "in nobody's way while the view is the same"
    );
    fs::write(
        place.source().join("nvidia/cu13/lib/libcudart.so.13"),
        "newer",
    )
    .unwrap();
    let error = view().unwrap_err();
    assert!(
        error.to_string().ends_with(": lib/libcudnn.so.9"),
        "{error}"
    );
    assert!(
        !error.hints().concat().contains("CUDA_BUILD_CACHE_DIR"),
        "{:?}",
        error.hints()
    );
    assert_eq!(fs::read(&product).unwrap(), b"a user's");
    assert_eq!(
        fs::read(output.join("lib/libcudart.so.13")).unwrap(),
        b"one",
        "left as it is"
    );
    // A link into a place of the user's own, and more than an error can name.
    for number in 0..9 {
        symlink("/elsewhere", output.join(format!("include/mine_{number}"))).unwrap();
    }
    let error = view().unwrap_err().to_string();
    assert!(
        error.contains("include/mine_0, ") && error.ends_with(" and 5 more files"),
        "{error}"
    );
    for number in 0..9 {
        fs::remove_file(output.join(format!("include/mine_{number}"))).unwrap();
    }
    fs::remove_file(&product).unwrap();
    // A file of the view that the user changed.
    let profile = output.join("version.json");
    let generated = fs::read(&profile).unwrap();
    fs::write(&profile, "mine").unwrap();
    let error = view().unwrap_err().to_string();
    assert!(error.ends_with("changed: version.json"), "{error}");
    fs::write(&profile, generated).unwrap();
    assert!(view().unwrap().was_made());
    assert_eq!(
        fs::read(output.join("lib/libcudart.so.13")).unwrap(),
        b"newer"
    );
}

#[test]
fn copies_need_no_components() {
    let place = Place::new();
    let output = place.0.path().join("copy");
    let mut copy = ViewPlace::at(&output, &target());
    copy.copy = true;
    place.view_at(&copy).unwrap();
    fs::remove_dir_all(place.source()).unwrap();
    let moved = place.0.path().join("moved");
    fs::rename(&output, &moved).unwrap();
    for (path, what) in contents(&moved) {
        assert!(!what.starts_with("-> /"), "{}: {what}", path.display());
        assert!(moved.join(&path).exists(), "{}", path.display());
    }
    assert_eq!(fs::read(moved.join("lib64/libcudart.so")).unwrap(), b"one");
    assert!(moved.join("include/crt/host_config.h").is_file());
}

/// A checkout with a marker that lists its own files, in the form of a marker that this crate
/// would write.
#[test]
fn a_forged_marker_deletes_nothing() {
    let place = Place::new();
    let real = place.0.path().join("real");
    let view = ViewPlace::at(&real, &target());
    place.view_at(&view).unwrap();
    let marker = fs::read_to_string(real.join(".cuda-build-view")).unwrap();
    let digest = |name: &str| {
        let lines: Vec<&str> = marker.lines().filter(|line| line.contains(name)).collect();
        assert_eq!(lines.len(), 1);
        lines[0].to_owned()
    };
    // A file whose line is right but for its path.
    let text = fs::read(real.join("version.json")).unwrap();
    let line = digest("\"version.json\"");
    let listed = |name: &str| line.replace("version.json", name);
    let length = text.len();
    let markers = [
        "cuda-build view 1\n0123456789abcdef\n- src/main.rs\n- lib/main.rs\n".to_owned(),
        format!(
            "cuda-build view 1\n0123456789abcdef\n{length} src/main.rs\n{length} lib/main.rs\n"
        ),
        "cuda-build view 2\n0123456789abcdef\n- src/main.rs\n- lib/main.rs\n".to_owned(),
        format!(
            "cuda-build view 2\n0\n{}\n{}\n",
            listed("src/main.rs"),
            listed("lib/main.rs")
        ),
        format!(
            "cuda-build view 2\n0\nlink \"src/main.rs\" \"x\"\nfile \"lib/main.rs\" {length} 0\n"
        ),
    ];
    for (number, marker) in markers.iter().enumerate() {
        let project = place.0.path().join(format!("project {number}"));
        for name in ["src/main.rs", "lib/main.rs"] {
            let path = project.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &text).unwrap();
        }
        fs::write(project.join(".cuda-build-view"), marker).unwrap();
        let before = contents(&project);
        let error = place.view_at(&ViewPlace::at(&project, &target()));
        assert!(
            matches!(error, Err(Error::ViewNotCreated { .. })),
            "{error:?}"
        );
        assert_eq!(contents(&project), before, "{marker}");
    }
}

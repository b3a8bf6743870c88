//! Compilers, headers and packages that do not belong together, as real packages side by side: each
//! is refused before a compiler runs, by an error that names both sides, their places and the way
//! out.

use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_find_core::error::Error;
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};

use crate::wheels::wheels;

pub fn search(places: &[&Path], request: &Request) -> Result<cuda_build::Toolkit, Error> {
    let (root, env) = (Root::system(), Env::from_pairs::<&str, &str>([]));
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let places: Vec<PathBuf> = places.iter().map(|place| place.to_path_buf()).collect();
    SearchContext {
        root: &root,
        env: &env,
        target: &target,
        places,
        runs_nvcc: true,
    }
    .find(request)
}

pub fn shared(components: &[Component]) -> Request {
    let need = |c: &Component| Need::new(*c, Part::Shared, "declared in `[package.metadata.cuda]`");
    Request {
        needs: components.iter().map(need).collect(),
        ..Request::default()
    }
}

/// What a static library of `.cu` files needs.
fn library() -> Request {
    let need = |component, part| Need::new(component, part, "needed to compile 1 source file");
    let needs = vec![
        need(Component::Nvcc, Part::Tools),
        need(Component::Nvvm, Part::Tools),
        need(Component::Crt, Part::Headers),
        need(Component::Cudart, Part::Headers),
    ];
    Request {
        needs,
        ..Request::default()
    }
}

/// What a crate with `.cu` files gets where `CUDA_HOME` names `place`.
fn by_home(place: &Path) -> Result<cuda_build::Toolkit, Error> {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let env = Env::from_pairs([("CUDA_HOME", place)]);
    SearchContext::new(&Root::system(), &env, &target).find(&library())
}

/// The error, with its hints, holds every text; `{place}` stands for the directory.
pub fn refused(place: &Path, request: &Request, texts: &[&str]) {
    let error = search(&[place], request).unwrap_err();
    assert!(!error.hints().is_empty(), "{error}");
    let shown = format!("{error:?}");
    for text in texts {
        let text = text.replace("{place}", &place.display().to_string());
        assert!(shown.contains(&text), "no {text:?} in\n{shown}");
    }
}

/// The directory of the packages is what people give to `CUDA_HOME`; whose files are in it stands
/// two levels above.
#[test]
fn mixes_below_a_named_package_directory() {
    let older_cicc = wheels(&[
        "nvidia-cuda-nvcc==13.5.37",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.5.37",
        "nvidia-cuda-runtime==13.5.37",
    ]);
    let newer_headers = wheels(&[
        "nvidia-cuda-nvcc==13.0.88",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.5.37",
        "nvidia-cuda-runtime==13.0.96",
    ]);
    let linked = tempfile::tempdir().unwrap();
    let link = linked.path().join("cuda");
    std::os::unix::fs::symlink(older_cicc.join("nvidia/cu13"), &link).unwrap();
    let of_cicc = ["nvcc 13.5.37 (", "13.5, but cicc (nvvm) 13.0.88 ("];
    let of_crt = ["nvcc 13.0.88 (", "13.0, but crt 13.5.37 ("];
    for (home, texts) in [
        (older_cicc.join("nvidia/cu13"), of_cicc),
        (link, of_cicc),
        (newer_headers.join("nvidia/cu13"), of_crt),
    ] {
        let error = by_home(&home).unwrap_err();
        assert!(matches!(error, Error::Inconsistent { .. }), "{error:?}");
        let place = format!("environment variable `CUDA_HOME` ({})", home.display());
        for text in texts.into_iter().chain([place.as_str()]) {
            assert!(
                format!("{error:?}").contains(text),
                "no {text:?} in\n{error:?}"
            );
        }
    }
    // Without the metadata nothing tells, and nothing is made up.
    let copy = copied(&older_cicc.join("nvidia"));
    let toolkit = by_home(&copy.path().join("cu13")).unwrap();
    for (component, shown) in [
        (Component::Nvcc, "nvcc 13.5.37"),
        (Component::Nvvm, "nvvm for CUDA 13"),
        (Component::Crt, "crt for CUDA 13"),
    ] {
        assert_eq!(toolkit.get(component).unwrap().to_string(), shown);
    }
}

#[test]
fn nvrtc_without_its_builtins() {
    let whole = wheels(&[
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia-cuda-nvrtc-cu12==12.9.86",
    ]);
    assert!(search(&[&whole], &shared(&[Component::Nvrtc])).is_ok());
    let place = copied(&whole);
    let builtins = place
        .path()
        .join("nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9");
    std::fs::remove_file(&builtins).unwrap();
    refused(
        place.path(),
        &shared(&[Component::Nvrtc]),
        &[
            "CUDA component `nvrtc` not found",
            "cause: nvidia-cuda-nvrtc-cu12 12.9.86 has no `libnvrtc-builtins.so` for CUDA 12, so its NVRTC cannot be used",
            "(argument ({place}))",
            "hint: run `cargo cuda toolkit add 12`",
        ],
    );
    // Those of another release are no better.
    std::fs::write(builtins.with_file_name("libnvrtc-builtins.so.12.4"), "").unwrap();
    refused(
        place.path(),
        &shared(&[Component::Nvrtc]),
        &[
            "nvrtc 12.9.86",
            "libnvrtc-builtins.so.12.4) are from CUDA 12.4",
            "hint: install `nvidia-cuda-nvrtc-cu12==12.9.*`",
        ],
    );
}

#[test]
fn a_placeholder() {
    let place = wheels(&["nvidia-cuda-runtime==13.4.92", "nvidia-cuda-cupti==0.0.0a0"]);
    refused(
        &place,
        &shared(&[Component::Cudart, Component::Cupti]),
        &[
            "CUDA component `cupti` not found",
            "cause: nvidia-cuda-cupti 0.0.0a0 is installed but has no `libcupti.so` for CUDA 13 (an incomplete or damaged package, or a placeholder",
            "(argument ({place}))",
            "hint: run `cargo cuda toolkit add 13 --components cupti`",
        ],
    );
}

/// A copy to take files away from, with links to the files of the original.
pub fn copied(from: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    link_tree(from, copy.path());
    copy
}

fn link_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            link_tree(&entry.path(), &target);
        } else {
            std::os::unix::fs::symlink(entry.path(), target).unwrap();
        }
    }
}

//! Toolkits that cannot be used, and views that cannot be created.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cuda_build::internal::store::StoredToolkit;
use cuda_build::internal::{Conflict, Env, Root, Target, ViewPlace};
use cuda_build::{Build, Component, Error};

use super::Snapshot;
use super::library::Package;

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Toolkits and views");
    toolkits(snapshot);
    views(snapshot);
}

fn toolkits(snapshot: &mut Snapshot) {
    let find = |build: Build| build.toolkit().map(drop);
    let declared = Package::new("components = [\"cufft\"]");
    declared.failed(snapshot, "a toolkit without a declared component", find);
    let other = Package::new("toolkit = \"<13\"");
    other.failed(snapshot, "a toolkit of another release", find);
    let package = Package::new("").with("CUDA_BUILD_ROOTS", "/here/nowhere");
    package.failed(snapshot, "CUDA_BUILD_ROOTS=/here/nowhere", find);
    let package = Package::new("").with("CUDA_BUILD_ROOTS", "cuda");
    package.failed(snapshot, "CUDA_BUILD_ROOTS=cuda", find);
    let no_header = Package::new("components = [\"cublas\"]");
    fs::remove_dir_all(no_header.here.join("cuda")).unwrap();
    no_header.write("cuda/lib/libcublas.so.13", "");
    no_header.write("cuda/include/cublas_v2.h", "");
    no_header.failed(snapshot, "a toolkit without cudart", find);

    let component = "[[component]]\nname = \"nvrtc\"\nmajor = 13\ninclude = []\nlibraries = [\"/gone/libnvrtc.so.13\"]\n\
                     archives = []\ntools = []\nevidence = \"\"\n";
    let head = "format_version = 1\nversion = \"13.4\"\n";
    for (what, text) in [
        (
            "a newer cuda-build wrote",
            "format_version = 2\n".to_owned(),
        ),
        ("without components", head.to_owned()),
        (
            "with a component twice",
            format!("{head}{component}{component}"),
        ),
        (
            "with a major that is none",
            format!("{head}{}", component.replace("13", "-1")),
        ),
        ("with files that were removed", format!("{head}{component}")),
        (
            "without a name",
            format!("{head}[[component]]\nmajor = 13\n"),
        ),
        (
            "with text as major",
            format!("{head}[[component]]\nname = \"nvrtc\"\nmajor = \"13\"\n"),
        ),
        (
            "without libraries",
            format!("{head}[[component]]\nname = \"nvrtc\"\nmajor = 13\ninclude = []\n"),
        ),
        (
            "with a number as library",
            format!(
                "{head}{}",
                component.replace("[\"/gone/libnvrtc.so.13\"]", "[1]")
            ),
        ),
        ("with a list of numbers", format!("{head}component = [1]\n")),
    ] {
        let package = Package::new("").with("CUDA_BUILD_TOOLKIT", "/here/t.toml");
        package.write("t.toml", &text);
        package.failed(
            snapshot,
            &format!("CUDA_BUILD_TOOLKIT names a file {what}"),
            find,
        );
    }
    for (what, value) in [("no file", "/here/nowhere"), ("a directory", "/here/cuda")] {
        let package = Package::new("").with("CUDA_BUILD_TOOLKIT", value);
        package.failed(snapshot, &format!("CUDA_BUILD_TOOLKIT names {what}"), find);
    }
    for (what, text) in [
        ("with a conflict of a merge", "<<<<<<< HEAD\n"),
        (
            "without a CUDA release",
            "format_version = 1\n[[toolkit]]\nversion = \"new\"\n",
        ),
        (
            "without packages",
            "format_version = 1\n[[toolkit]]\nversion = \"13.4.3\"\n",
        ),
    ] {
        let package = Package::new("").with("CUDA_BUILD_LOCK", "/here/cuda-toolkits.lock");
        package.write("cuda-toolkits.lock", text);
        package.failed(snapshot, &format!("a lock file {what}"), find);
    }
    let package = Package::new("");
    package.write(
        "store/13.4.3-1/toolkit.toml",
        "format_version = 1\nversion = \"new\"\ncomponents = []\nplatform = \"\"\n",
    );
    let error = StoredToolkit::read(&Root::system(), &package.here.join("store/13.4.3-1"));
    snapshot.error("a fetched toolkit without a version", &package.here, error);
    package.write("store/13.4.3-0/toolkit.toml", "format_version = 9\n");
    let error = StoredToolkit::read(&Root::system(), &package.here.join("store/13.4.3-0"));
    snapshot.error("a fetched toolkit of a newer format", &package.here, error);
}

fn views(snapshot: &mut Snapshot) {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let package = Package::new("components = [\"cudart\"]");
    let view_at = |package: &Package, path: &str| {
        let build = package.build()?;
        let path = path.replace("/here", package.here.to_str().unwrap());
        let mut place = ViewPlace::at(Path::new(&path), &target);
        place.copy = true;
        build.toolkit()?.view(&place, &Root::system()).map(drop)
    };
    package.write("file", "");
    package.write("full/thesis.tex", "");
    for (what, path) in [
        ("/", "/"),
        ("a file", "/here/file"),
        ("a directory with files", "/here/full"),
        ("a path below a file", "/here/file/view"),
    ] {
        let error = view_at(&package, path);
        snapshot.error(&format!("a view at {what}"), &package.here, error);
    }
    view_at(&package, "/here/view").unwrap();
    package.write("view/lib/mine.so", "");
    package.write("cuda/lib/libcudart.so.13", "newer");
    let error = view_at(&package, "/here/view");
    snapshot.error("a view with added files", &package.here, error);
    fs::remove_file(package.here.join("view/lib/mine.so")).unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(package.here.join("view"), open).unwrap();
    let error = view_at(&package, "/here/view");
    snapshot.error("a view that every user can change", &package.here, error);
    let package = Package::new("").with("CUDA_BUILD_VIEWS", "/here/target/debug/views");
    package.failed(snapshot, "CUDA_BUILD_VIEWS=target/debug/views", |build| {
        build.view().map(drop)
    });
    let package = Package::new("components = [\"nvml\"]");
    package.write("cuda/include/nvml.h", "");
    package.failed(snapshot, "nvml.h without functions", |build| {
        build.view().map(drop)
    });
    let env = Env::from_pairs([("PATH", "/usr/bin")]);
    let error = ViewPlace::from_env(&env, &target);
    snapshot.error("no variable for the cache directory", Path::new("/"), error);
    let conflict = Error::ViewConflict {
        path: "include/cuda.h".into(),
        components: [Component::Cudart, Component::Crt],
        files: ["/a/cuda.h".into(), "/b/cuda.h".into()],
    };
    snapshot.error(
        "two components with the same file",
        Path::new("/nowhere"),
        Err::<(), _>(conflict),
    );
    let conflict = Error::Inconsistent {
        conflicts: vec![Conflict {
            reason: "nvcc 13.5.37 is from CUDA 13.5, but cicc (nvvm) 13.0.88 is from CUDA 13.0"
                .to_owned(),
            fix: "install `nvidia-nvvm==13.5.*` beside it".to_owned(),
        }],
    };
    snapshot.error(
        "components that do not belong together",
        Path::new("/nowhere"),
        Err::<(), _>(conflict),
    );
}

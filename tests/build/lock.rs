//! The lock file of a workspace decides which toolkit is used.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_cuda::toolkits::{Finder, PackageNeeds};
use cuda_build::{Build, Component, Error, Toolkit};
use cuda_find_core::{env::Env, found::Found, root::Root};

use crate::layout_files::Layout;

/// Two fetched toolkits, an active virtual environment with CUDA 12, and a root with CUDA 12.4.
const DISK: &str = r##"
in cache/toolkits/12.9.1-a
file toolkit.toml | format_version = 1\nversion = "12.9.1"\nplatform = "x86_64-linux"\ncomponents = ["cudart", "nvrtc"]\n[[packages]]\nname = "nvidia-cuda-nvrtc-cu12"\nversion = "12.9.86"\nhashes = ["sha256-1", "sha256-2"]\n[[packages]]\nname = "nvidia-cuda-runtime-cu12"\nversion = "12.9.79"\nhashes = ["sha256-1", "sha256-2"]
file nvidia/cuda_runtime/include/cuda.h | #define CUDA_VERSION 12090
file nvidia/cuda_runtime/include/cuda_runtime.h
elf nvidia/cuda_runtime/lib/libcudart.so.12 libcudart.so.12
file nvidia/cuda_runtime/lib/libcudart_static.a
file nvidia/cuda_nvrtc/include/nvrtc.h
elf nvidia/cuda_nvrtc/lib/libnvrtc.so.12 libnvrtc.so.12
elf nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9 libnvrtc-builtins.so.12.9
in cache/toolkits/13.4.3-b
file toolkit.toml | format_version = 1\nversion = "13.4.3"\nplatform = "x86_64-linux"\ncomponents = ["cudart", "nvrtc"]\n[[packages]]\nname = "nvidia-cuda-nvrtc"\nversion = "13.4.92"\nhashes = ["sha256-1"]\n[[packages]]\nname = "nvidia-cuda-runtime"\nversion = "13.4.92"\nhashes = ["sha256-1"]
file nvidia/cu13/include/cuda.h | #define CUDA_VERSION 13040
file nvidia/cu13/include/cuda_runtime.h
file nvidia/cu13/include/nvrtc.h
elf nvidia/cu13/lib/libcudart.so.13 libcudart.so.13
file nvidia/cu13/lib/libcudart_static.a
elf nvidia/cu13/lib/libnvrtc.so.13 libnvrtc.so.13
elf nvidia/cu13/lib/libnvrtc-builtins.so.13.4 libnvrtc-builtins.so.13.4
in venv/lib/python3.12/site-packages
file nvidia/cuda_runtime/include/cuda.h | #define CUDA_VERSION 12060
file nvidia/cuda_runtime/include/cuda_runtime.h
elf nvidia/cuda_runtime/lib/libcudart.so.12 libcudart.so.12
file nvidia/cuda_runtime/lib/libcudart_static.a
file nvidia/cuda_nvrtc/include/nvrtc.h
elf nvidia/cuda_nvrtc/lib/libnvrtc.so.12 libnvrtc.so.12
elf nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.6 libnvrtc-builtins.so.12.6
in opt/cuda-12.4
file include/cuda.h | #define CUDA_VERSION 12040
file include/cuda_runtime.h
file include/nvrtc.h
elf lib64/libcudart.so.12 libcudart.so.12
file lib64/libcudart_static.a
elf lib64/libnvrtc.so.12 libnvrtc.so.12
elf lib64/libnvrtc-builtins.so.12.4 libnvrtc-builtins.so.12.4
nvcc bin/nvcc classic-12.4
tool bin/ptxas
tool bin/cudafe++
tool nvvm/bin/cicc
file nvvm/include/nvvm.h
file include/fatbinary_section.h
file include/crt/host_config.h
in ws
file Cargo.toml | [workspace]\nmembers = ["app"]
file app/Cargo.toml | [package]\nname = "app"\nversion = "0.1.0"\n[package.metadata.cuda]\ncapabilities = ["8.0"]
file target/CACHEDIR.TAG
in cargo-home/registry/src/index/dep-0.1.0
file Cargo.toml | [package]\nname = "dep"\nversion = "0.1.0"\n[workspace]\n[package.metadata.cuda]\ncapabilities = ["8.0"]
file cuda-toolkits.lock | not a lock file
"##;

/// A locked toolkit, by major; `-` for packages that were never fetched.
fn entry(major: &str) -> String {
    let (version, suffix, nvrtc, runtime) = match major {
        "12" => ("12.9.1", "-cu12", "12.9.86", "12.9.79"),
        "13" => ("13.4.3", "", "13.4.92", "13.4.92"),
        _ => ("13.5.0", "", "13.5.37", "13.5.37"),
    };
    format!(
        "[[toolkit]]\nrequest = \"{major}\"\nversion = \"{version}\"\n\
         [[toolkit.packages]]\nname = \"nvidia-cuda-nvrtc{suffix}\"\nversion = \"{nvrtc}\"\nhashes = [\"sha256-1\"]\n\
         [[toolkit.packages]]\nname = \"nvidia-cuda-runtime{suffix}\"\nversion = \"{runtime}\"\nhashes = [\"sha256-1\"]\n"
    )
}

struct Workspace(Layout);

impl Workspace {
    fn new(locked: &[&str]) -> Self {
        let layout = Layout::parse(DISK);
        if !locked.is_empty() {
            let entries: Vec<String> = locked.iter().map(|major| entry(major)).collect();
            let text = format!("format_version = 1\n{}", entries.join("\n"));
            fs::write(layout.root.join("ws/cuda-toolkits.lock"), text).unwrap();
        }
        Self(layout)
    }

    fn env(&self, more: &[(&str, &str)]) -> Env {
        let below = |path: &str| self.0.root.join(path).into_os_string();
        let env = Env::from_pairs([
            ("CUDA_BUILD_CACHE_DIR", below("cache")),
            ("VIRTUAL_ENV", below("venv")),
            ("CARGO_HOME", below("cargo-home")),
        ]);
        more.iter().fold(env, |env, (name, value)| {
            let root = self.0.root.to_str().unwrap();
            env.with(name, value.replace("@ROOT@", root))
        })
    }

    /// The build script of a package: its toolkit, and the warnings it prints.
    fn script(
        &self,
        package: &str,
        more: &[(&str, &str)],
    ) -> (Result<Toolkit, Error>, Vec<String>) {
        let root = &self.0.root;
        let env = self
            .env(more)
            .with("CARGO_MANIFEST_DIR", root.join(package))
            .with("OUT_DIR", root.join("ws/target/debug/p-0/out"))
            .with("TARGET", "x86_64-unknown-linux-gnu");
        let build = Build::from_env(env, Root::below(root))
            .unwrap()
            .module("k.cu");
        let toolkit = build.toolkit();
        let warnings = toolkit.as_ref().into_iter().flat_map(|toolkit| {
            let directives = build.directives(toolkit);
            directives
                .to_lines()
                .unwrap()
                .into_iter()
                .filter(|line| line.starts_with("cargo::warning="))
        });
        let warnings = warnings.collect();
        (toolkit.cloned(), warnings)
    }

    fn release(&self, package: &str, more: &[(&str, &str)]) -> String {
        self.script(package, more).0.unwrap().version().to_string()
    }
}

const APP: &str = "ws/app";
const DEPENDENCY: &str = "cargo-home/registry/src/index/dep-0.1.0";

#[test]
fn the_locked_toolkit_comes_before_an_active_environment() {
    for (locked, expected) in [(&[][..], "12.6"), (&["13"], "13.4"), (&["12"], "12.9")] {
        let workspace = Workspace::new(locked);
        assert_eq!(workspace.release(APP, &[]), expected, "{locked:?}");
        assert_eq!(workspace.release(DEPENDENCY, &[]), "12.6", "{locked:?}");
        let named = ("CUDA_BUILD_LOCK", "@ROOT@/ws/cuda-toolkits.lock");
        assert_eq!(
            workspace.release(DEPENDENCY, &[named]),
            expected,
            "{locked:?}"
        );
        assert!(workspace.script(APP, &[]).1.is_empty());
    }
}

/// `cargo cuda` prefers a toolkit with nvcc, but not to the locked one.
#[test]
fn the_lock_is_not_left_for_an_nvcc() {
    let path = ("PATH", "@ROOT@/opt/cuda-12.4/bin");
    for (locked, expected) in [(&[][..], "12.4"), (&["13"], "13.4")] {
        let workspace = Workspace::new(locked);
        let lock = ("CUDA_BUILD_LOCK", "@ROOT@/ws/cuda-toolkits.lock");
        let (env, root) = (workspace.env(&[path, lock]), Root::below(&workspace.0.root));
        let target = workspace.0.target();
        let needs = PackageNeeds::default();
        let finder = Finder::new(&env, &root, &target, &needs);
        let toolkit = finder.outcome().unwrap().toolkit.unwrap();
        assert_eq!(toolkit.version().to_string(), expected, "{locked:?}");
    }
}

#[test]
fn the_newest_locked_toolkit_that_is_admitted_is_used() {
    let workspace = Workspace::new(&["12", "13"]);
    assert_eq!(workspace.release(APP, &[]), "13.4");
    assert_eq!(
        workspace.release(APP, &[("CUDA_BUILD_RELEASE", "12")]),
        "12.9"
    );
}

#[test]
fn a_lock_that_was_not_fetched_is_a_warning_with_the_command() {
    let workspace = Workspace::new(&["new"]);
    let (toolkit, warnings) = workspace.script(APP, &[]);
    assert_eq!(toolkit.unwrap().version().to_string(), "12.6");
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.contains("locks CUDA 13.5.0, which has not been fetched")
            && warning.contains("`cargo cuda fetch`"),
        "{warning}"
    );
    // An older locked toolkit does not replace it.
    let workspace = Workspace::new(&["13", "new"]);
    assert_eq!(workspace.release(APP, &[]), "12.6");
}

#[test]
fn an_error_has_the_nearest_way_out() {
    use std::os::unix::fs::PermissionsExt as _;
    let stored = ("CUDA_BUILD_SOURCES", "lock,stored");
    let empty = ("CUDA_BUILD_CACHE_DIR", "@ROOT@/empty");
    let error = |workspace: &Workspace, more: &[(&str, &str)]| {
        format!("{:?}", workspace.script(APP, more).0.unwrap_err())
    };
    let shown = error(&Workspace::new(&["new"]), &[stored, empty]);
    assert!(
        shown.contains("\nhint: run `cargo cuda fetch`: "),
        "{shown}"
    );
    let workspace = Workspace::new(&[]);
    let unknown = ("CUDA_BUILD_RELEASE", "99");
    let shown = error(&workspace, &[stored, empty, unknown]);
    assert!(shown.contains("no release of CUDA 99 is known"), "{shown}");
    let toolkits = workspace.0.root.join("cache/toolkits");
    fs::set_permissions(toolkits, fs::Permissions::from_mode(0o777)).unwrap();
    let shown = error(&workspace, &[stored]);
    assert!(
        shown.contains("\n  cause: could not use ") && shown.contains("by every user"),
        "{shown}"
    );
}

/// A user may remove a toolkit of which a larger one has every package.
#[test]
fn a_larger_toolkit_with_the_locked_packages_is_used() {
    let workspace = Workspace::new(&[]);
    let lock = entry("13");
    let (nvrtc, _) = lock.rsplit_once("[[toolkit.packages]]").unwrap();
    for (text, expected) in [
        (nvrtc.to_owned(), "13.4"),
        (nvrtc.replace("sha256-1", "sha256-other"), "12.6"),
        (nvrtc.replace("\"13.4.3\"", "\"13.4.2\""), "12.6"),
    ] {
        let text = format!("format_version = 1\n{text}");
        fs::write(workspace.0.root.join("ws/cuda-toolkits.lock"), &text).unwrap();
        assert_eq!(workspace.release(APP, &[]), expected, "{text}");
    }
}

/// `cargo cuda fetch` may still have to create the file, so this is no error.
#[test]
fn a_named_lock_that_is_absent_is_a_warning() {
    let workspace = Workspace::new(&["13"]);
    let absent = ("CUDA_BUILD_LOCK", "@ROOT@/ws/absent.lock");
    let (toolkit, warnings) = workspace.script(APP, &[absent]);
    assert_eq!(toolkit.unwrap().version().to_string(), "12.6");
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.contains("/ws/absent.lock, which does not exist"),
        "{warning}"
    );
}

#[test]
fn a_broken_lock_is_an_error() {
    let workspace = Workspace::new(&[]);
    fs::write(
        workspace.0.root.join("ws/cuda-toolkits.lock"),
        "<<<<<<< HEAD\n",
    )
    .unwrap();
    let error = workspace.script(APP, &[]).0.unwrap_err().to_string();
    assert!(error.contains("cuda-toolkits.lock"), "{error}");
    // A dependency's own lock is not read.
    let workspace = Workspace::new(&[]);
    assert_eq!(workspace.release(DEPENDENCY, &[]), "12.6");
}

/// Of toolkits for this machine and for the target, those that the lock file lists.
#[test]
fn a_cross_build_uses_the_locked_toolkits_of_both_platforms() {
    let layout = Layout::load("stored-cross");
    let root = &layout.root;
    for (from, to) in [("13.4.3-1", "13.5.0-3"), ("13.4.3-2", "13.5.0-4")] {
        let stored = |name: &str| root.join("cache/toolkits").join(name);
        let copied = Command::new("cp")
            .arg("-r")
            .args([stored(from), stored(to)])
            .status();
        assert!(copied.unwrap().success());
        let manifest = stored(to).join("toolkit.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let text = text
            .replace("13.4.3", "13.5.0")
            .replace("13.4.92", "13.5.37");
        fs::write(manifest, text).unwrap();
    }
    let lock = root.join("cuda-toolkits.lock");
    let locked = |version: &str, package: &str| {
        let text = format!(
            "format_version = 1\n[[toolkit]]\nrequest = \"13\"\nversion = \"{version}\"\n\
             [[toolkit.packages]]\nname = \"nvidia-cuda-runtime\"\nversion = \"{package}\"\nhashes = [\"sha256-1\"]\n"
        );
        fs::write(&lock, text).unwrap();
        let env = layout.environment().with("CUDA_BUILD_LOCK", &lock);
        let disk = Root::below(root);
        let toolkit = Finder::new(&env, &disk, &layout.target(), &PackageNeeds::default())
            .find()
            .unwrap();
        let path = |component, part: fn(&Found) -> &PathBuf| {
            let path = part(toolkit.get(component).unwrap());
            path.strip_prefix(root.join("cache/toolkits"))
                .unwrap()
                .to_owned()
        };
        let first = |path: PathBuf| path.iter().next().unwrap().to_str().unwrap().to_owned();
        [
            first(path(Component::Cudart, |found| &found.libraries[0])),
            first(path(Component::Nvcc, |found| &found.tools[0])),
        ]
    };
    assert_eq!(locked("13.4.3", "13.4.92"), ["13.4.3-1", "13.4.3-2"]);
    assert_eq!(locked("13.5.0", "13.5.37"), ["13.5.0-3", "13.5.0-4"]);
}

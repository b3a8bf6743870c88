//! A fictitious CUDA major with a fictitious product and toolkit component, in every layout. `run.sh` runs this with a
//! copy of cuda-find-core in whose tables they are.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests prepare real directories"
)]

use std::fs;
use std::path::PathBuf;

use cuda_find_core::component::Component;
use cuda_find_core::{env::Env, release::NEWEST_MAJOR, root::Root};
use cuda_find_core::select::{Need, Part, Request};
use cuda_find_core::{search::SearchContext as Search, target::Target};

/// The files of one component: its package version and paths below a root.
struct Files {
    id: &'static str,
    python: String,
    redist: String,
    files: Vec<(String, String)>,
}

/// The toolkit's part and the product's, as a root has them.
fn components() -> [Files; 4] {
    let major = NEWEST_MAJOR;
    let file = |path: &str, text: &str| (path.to_owned(), format!("{text}\n"));
    [
        Files {
            id: "cudart",
            python: format!("nvidia_cuda_runtime-{major}.0.1"),
            redist: format!("cuda_cudart-linux-x86_64-{major}.0.1-archive"),
            files: vec![
                file(
                    "include/cuda.h",
                    &format!("#define CUDA_VERSION {major}000"),
                ),
                file("include/cuda_runtime.h", ""),
                file(&format!("lib/libcudart.so.{major}"), ""),
            ],
        },
        Files {
            id: "nvrtc",
            python: format!("nvidia_cuda_nvrtc-{major}.0.1"),
            redist: format!("cuda_nvrtc-linux-x86_64-{major}.0.1-archive"),
            files: vec![
                file("include/nvrtc.h", ""),
                file(&format!("lib/libnvrtc.so.{major}"), ""),
                file(&format!("lib/libnvrtc-builtins.so.{major}.0"), ""),
            ],
        },
        Files {
            id: "cubar",
            python: format!("nvidia_cubar-{major}.0.0.1"),
            redist: format!("libcubar-linux-x86_64-{major}.0.0.1-archive"),
            files: vec![
                file("include/cubar_v2.h", ""),
                file(&format!("lib/libcubar.so.{major}"), ""),
                file(&format!("lib/libcubarLt.so.{major}"), ""),
                file(&format!("lib/libnvbar.so.{major}"), ""),
            ],
        },
        Files {
            id: "cufoo",
            python: format!("nvidia_cufoo_cu{major}-1.2.3"),
            redist: format!("libcufoo-linux-x86_64-1.2.3.4_cuda{major}-archive"),
            files: vec![
                file(
                    "include/cufoo.h",
                    "#define CUFOO_VERSION_MAJOR 1\n#define CUFOO_VERSION_MINOR 2\n#define CUFOO_VERSION_PATCH 3",
                ),
                file("lib/libcufoo.so.1", ""),
            ],
        },
    ]
}

/// A disk with one layout.
struct Disk {
    root: PathBuf,
    env: Vec<(String, String)>,
    _directory: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            root: directory.path().canonicalize().unwrap(),
            env: Vec::new(),
            _directory: directory,
        }
    }

    fn path(&self, below: &str) -> String {
        self.root.join(below).display().to_string()
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    fn dir(&self, below: &str) {
        fs::create_dir_all(self.root.join(below)).unwrap();
    }

    /// The files of a component, with other directories in place of `include` and `lib`.
    fn put(&self, files: &Files, include: &str, lib: &str) {
        for (path, text) in &files.files {
            let (directory, name) = path.split_once('/').unwrap();
            let below = if directory == "lib" { lib } else { include };
            let path = self.root.join(below).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn put_all(&self, include: &str, lib: &str) {
        for files in components() {
            self.put(&files, include, lib);
        }
    }

    /// Every component is found for the new major, below this disk.
    fn check(&self, layout: &str) {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let needs = components().map(|files| {
            let component: Component = files.id.parse().unwrap();
            Need::new(component, Part::Shared, "tested")
        });
        let request = Request {
            needs: needs.to_vec(),
            ..Request::default()
        };
        let (root, env) = (Root::below(&self.root), Env::from_pairs(self.env.clone()));
        let search = Search::new(&root, &env, &target);
        let toolkit = search
            .find(&request)
            .unwrap_or_else(|error| panic!("{layout}: {error:?}"));
        assert_eq!(
            toolkit.version().to_string(),
            format!("{NEWEST_MAJOR}.0"),
            "{layout}"
        );
        for need in &request.needs {
            let found = toolkit.get(need.component).unwrap();
            assert_eq!(found.major, NEWEST_MAJOR, "{layout}: {found}");
            assert!(
                found.libraries[0].starts_with(&self.root),
                "{layout}: {found}"
            );
        }
        let product = toolkit.get("cufoo".parse().unwrap()).unwrap();
        let version = product.version.as_ref().unwrap().to_string();
        assert_eq!(version, "1.2.3", "{layout}");
    }
}

#[test]
fn python_packages() {
    let site = "venv/lib/python3.12/site-packages";
    for metadata in [true, false] {
        let mut disk = Disk::new();
        disk.set("VIRTUAL_ENV", disk.path("venv"));
        for files in components() {
            let below = format!("{site}/nvidia/cu{NEWEST_MAJOR}");
            disk.put(&files, &format!("{below}/include"), &format!("{below}/lib"));
            if metadata {
                disk.dir(&format!("{site}/{}.dist-info", files.python));
            }
        }
        disk.check(if metadata {
            "pip"
        } else {
            "pip without metadata"
        });
    }
}

#[test]
fn default_places() {
    let versioned = format!("usr/local/cuda-{NEWEST_MAJOR}.0/targets/x86_64-linux");
    for (layout, include, lib) in [
        (
            "NVIDIA's installer",
            format!("{versioned}/include"),
            format!("{versioned}/lib"),
        ),
        (
            "Arch",
            "opt/cuda/include".to_owned(),
            "opt/cuda/lib64".to_owned(),
        ),
        (
            "Debian",
            "usr/include".to_owned(),
            "usr/lib/x86_64-linux-gnu".to_owned(),
        ),
        (
            "Fedora",
            "usr/include/cuda".to_owned(),
            "usr/lib64".to_owned(),
        ),
    ] {
        let disk = Disk::new();
        disk.put_all(&include, &lib);
        disk.check(layout);
    }
}

#[test]
fn variables() {
    for variable in ["CUFOO_DIR", "CUFOO_ROOT"] {
        let mut disk = Disk::new();
        disk.set("CUDA_HOME", disk.path("toolkit"));
        disk.set(variable, disk.path("product"));
        for files in components() {
            let root = if files.id == "cufoo" {
                "product"
            } else {
                "toolkit"
            };
            disk.put(&files, &format!("{root}/include"), &format!("{root}/lib"));
        }
        disk.check(variable);
    }
}

#[test]
fn redistributable_archives() {
    let mut disk = Disk::new();
    disk.set("CUDA_BUILD_ROOTS", disk.path("redist"));
    for files in components() {
        let below = format!("redist/{}", files.redist);
        disk.put(&files, &format!("{below}/include"), &format!("{below}/lib"));
    }
    disk.check("redist");
}

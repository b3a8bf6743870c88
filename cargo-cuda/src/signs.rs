//! What in a package's files says that its build looks for CUDA.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cargo_metadata::Package;
use cuda_build::Root;

/// In a build script, a build system's file, or a package's name.
const WORDS: [&str; 8] = [
    "cuda", "nvcc", "cublas", "cudnn", "cufft", "cusolver", "cusparse", "nvrtc",
];

/// In the sources of somebody's crate for build scripts. `cc` compiles CUDA for who asks it to, and
/// `target-lexicon` knows its triple: only who asks for a root looks for one.
const ROOTS: [&str; 8] = [
    "CUDA_PATH",
    "CUDA_HOME",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT",
    "CUDAToolkit_ROOT",
    "CUDACXX",
    "CUDA_COMPUTE_CAP",
    "/usr/local/cuda",
];

/// Tables of `[package.metadata]` that name libraries for a build script to find.
const LIBRARIES: [&str; 3] = ["system-deps", "pkg-config", "vcpkg"];

/// Native code is looked for so many directories below a package's own, and among so many names.
const DEPTH: usize = 4;
const NAMES: usize = 4000;

/// What most files end with that are of no interest here: no need to ask whether they are directories.
const PLAIN: [&str; 16] = [
    "rs", "toml", "md", "txt", "c", "cc", "cpp", "h", "hpp", "S", "asm", "pl", "py", "json",
    "html", "lock",
];

pub(crate) fn speaks_of_cuda(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

fn takes_one(text: &str) -> bool {
    text.contains("CUDA_COMPUTE_CAP")
}

/// What the sources of a crate say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    /// They look for CUDA.
    pub(crate) looks: bool,
    /// They read `CUDA_COMPUTE_CAP`.
    pub(crate) takes_one: bool,
}

/// Reads packages, each once, and keeps in mind what of local ones was read.
pub(crate) struct Files<'a> {
    root: &'a Root,
    /// The directories of all packages.
    packages: BTreeSet<&'a Path>,
    read: RefCell<BTreeSet<PathBuf>>,
    crates: RefCell<BTreeMap<PathBuf, Signs>>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(root: &'a Root, packages: &'a [Package]) -> Self {
        let packages = packages
            .iter()
            .filter_map(|package| package.manifest_path.as_std_path().parent());
        let (read, crates) = (RefCell::default(), RefCell::default());
        Self {
            root,
            packages: packages.collect(),
            read,
            crates,
        }
    }

    /// Files and directories of local packages that were read: a directory's names count.
    pub(crate) fn into_read(self) -> BTreeSet<PathBuf> {
        self.read.into_inner()
    }

    /// Keeps in mind that this counted.
    pub(crate) fn note(&self, package: &Package, path: &Path) {
        if package.source.is_none() {
            self.read.borrow_mut().insert(path.to_owned());
        }
    }

    fn text(&self, package: &Package, path: &Path) -> Option<String> {
        self.note(package, path);
        self.root.text(path).ok()
    }

    fn names(&self, package: &Package, directory: &Path) -> Vec<OsString> {
        self.note(package, directory);
        names(self.root, directory)
    }

    /// What a package's build script says, and what lies beside it for it to build.
    pub(crate) fn script(&self, package: &Package, script: &Path) -> Signs {
        let own = self.sources_of_script(package, script);
        Signs {
            looks: own.iter().any(|text| speaks_of_cuda(text))
                || names_libraries(package)
                || self.has_native_code(package),
            takes_one: own.iter().any(|text| takes_one(text)),
        }
    }

    /// What a crate for build scripts says. A local one is somebody's own for this very build, and
    /// says something sooner.
    pub(crate) fn helper(&self, package: &Package) -> Signs {
        let directory = package.manifest_path.as_std_path().with_file_name("src");
        if let Some(known) = self.crates.borrow().get(&directory) {
            return *known;
        }
        let local = package.source.is_none();
        let mut signs = Signs::default();
        for text in self.sources(package, &directory, 3) {
            signs.looks |=
                ROOTS.iter().any(|word| text.contains(word)) || (local && speaks_of_cuda(&text));
            signs.takes_one |= takes_one(&text);
        }
        self.crates.borrow_mut().insert(directory, signs);
        signs
    }

    /// The build script, with the modules beside it.
    fn sources_of_script(&self, package: &Package, script: &Path) -> Vec<String> {
        let directory = script.parent().unwrap_or(Path::new("."));
        let mut texts: Vec<String> = self.text(package, script).into_iter().collect();
        if self.root.is_file(&directory.join("Cargo.toml")) {
            texts.extend(self.sources(package, directory, 0));
            texts.extend(self.sources(package, &directory.join("build"), 2));
        } else {
            texts.extend(self.sources(package, directory, 2));
        }
        texts
    }

    /// Whether a package's build script, or the package itself where it is a crate that build scripts
    /// of the workspace call, names what only nvcc compiles. Which engine is used is known when the
    /// script runs; its words tell which toolkit to prefer.
    pub(crate) fn wants_nvcc(&self, package: &Package, script: Option<&Path>) -> bool {
        let own = script
            .map(|script| self.sources_of_script(package, script))
            .unwrap_or_default();
        let called = match script {
            None => self.sources(
                package,
                &package.manifest_path.as_std_path().with_file_name("src"),
                3,
            ),
            Some(_) => Vec::new(),
        };
        let words = ["Library::new", ".library(", "Engine::Nvcc"];
        own.iter()
            .chain(&called)
            .any(|text| words.iter().any(|word| text.contains(word)))
    }

    fn sources(&self, package: &Package, directory: &Path, depth: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for name in self.names(package, directory) {
            let path = directory.join(name);
            if path.extension().is_some_and(|extension| extension == "rs") {
                texts.extend(self.text(package, &path));
            } else if depth > 0 && self.root.is_dir(&path) {
                texts.extend(self.sources(package, &path, depth - 1));
            }
        }
        texts
    }

    /// Whether there is device code in the package, or a build system's file that speaks of CUDA:
    /// then the script need not.
    fn has_native_code(&self, package: &Package) -> bool {
        let Some(top) = package.manifest_path.as_std_path().parent() else {
            return false;
        };
        let mut directories = vec![top.to_owned()];
        let mut left = NAMES;
        for depth in 0..=DEPTH {
            for directory in std::mem::take(&mut directories) {
                let names = self.names(package, &directory);
                // What some other build made.
                if names.iter().any(|name| name == "CACHEDIR.TAG") {
                    continue;
                }
                for name in names {
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    let path = directory.join(&name);
                    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
                    if matches!(extension, "cu" | "cuh") {
                        return true;
                    }
                    if is_of_a_build_system(&name, extension) {
                        let text = self.text(package, &path).unwrap_or_default();
                        if text
                            .lines()
                            .any(|line| speaks_of_cuda(line.split('#').next().unwrap_or(line)))
                        {
                            return true;
                        }
                    } else if depth < DEPTH
                        && !PLAIN.contains(&extension)
                        && !self.packages.contains(&*path)
                        && self.root.is_dir(&path)
                    {
                        directories.push(path);
                    }
                }
            }
        }
        false
    }
}

/// The names in a directory that count here: neither hidden ones nor what Cargo builds.
pub(crate) fn names(root: &Root, directory: &Path) -> Vec<OsString> {
    let mut names = root.names(directory);
    names.retain(|name| name != "target" && !name.as_encoded_bytes().starts_with(b"."));
    names
}

/// CMake's, make's, and Meson's.
fn is_of_a_build_system(name: &OsStr, extension: &str) -> bool {
    let name = name.to_str().unwrap_or_default();
    matches!(
        name,
        "CMakeLists.txt" | "Makefile" | "makefile" | "GNUmakefile" | "meson.build"
    ) || name.starts_with("Makefile.")
        || matches!(extension, "cmake" | "mk")
}

fn names_libraries(package: &Package) -> bool {
    LIBRARIES
        .iter()
        .any(|table| speaks_of_cuda(&package.metadata[*table].to_string()))
}

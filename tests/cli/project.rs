//! Crates to run `cargo cuda` on, and a machine of their own: variables, store, target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::components;
use crate::support::Finished;

/// Variables that would name another toolkit than the one that a test means.
const FOREIGN: &str = "CUDA_BUILD_FETCH CUDA_BUILD_SKIP DOCS_RS RUSTC_WRAPPER CUDA_BUILD_TOOLKIT \
                       CUDA_BUILD_ROOTS CUDA_BUILD_SOURCES CUDA_BUILD_RELEASE CUDA_BUILD_CAPABILITIES CUDA_BUILD_CUDART \
                       NVCC CUDACXX CUDA_HOME CUDA_PATH CUDA_ROOT CUDAToolkit_ROOT CUDA_TOOLKIT_ROOT_DIR \
                       NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH CUDA_BUILD_VIEWS \
                       RUSTFLAGS CARGO_ENCODED_RUSTFLAGS";

/// CUDA 12.9 with cuBLAS, a directory a component; no nvcc.
pub const WITH_CUBLAS: [&str; 5] = [
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvidia-cuda-cccl-cu12==12.9.27",
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "nvidia-cublas-cu12==12.9.2.10",
];

/// A directory of this test alone, emptied.
pub fn place(name: &str) -> PathBuf {
    let place = below_target(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    place
}

fn below_target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name)
}

pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A cache directory whose store holds these toolkits and nothing else.
pub fn store(cache: &Path, majors: &[u32]) {
    let toolkits = cache.join("toolkits");
    fs::create_dir_all(&toolkits).unwrap();
    for major in majors {
        let stored = components::site_packages(*major);
        let link = toolkits.join(stored.file_name().unwrap());
        // Another test may make the same link at the same time.
        let linked = std::os::unix::fs::symlink(&stored, &link);
        assert!(linked.is_ok() || link.exists(), "{linked:?}");
    }
}

/// The cache directory of all projects with these toolkits. The toolkits have the same paths for all
/// of them then, and their builds the same variables.
fn shared_cache(majors: &[u32]) -> PathBuf {
    let stored = majors.iter().map(|major| components::site_packages(*major));
    let names = stored.map(|path| format!(" {}", path.file_name().unwrap().to_str().unwrap()));
    let name = format!("cache{}", names.collect::<String>());
    below_target(&name)
}

/// A crate in a place of its own. Most of them share a target directory and a store, so that
/// dependencies compile once; nothing of an earlier run of the test is left in it.
#[derive(Debug)]
pub struct Project {
    /// The package's directory.
    pub path: PathBuf,
    /// Its cache directory.
    pub cache: PathBuf,
    /// Where cargo builds it.
    pub target: PathBuf,
}

impl Project {
    /// A copy of a template.
    pub fn template(name: &str, majors: &[u32]) -> Self {
        let project = Self::empty(name, name, majors);
        copy(&checkout().join("templates").join(name), &project.path);
        project.point_to_checkout();
        let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        let name = manifest.split("name = \"").nth(1).unwrap();
        let package = name.split('"').next().unwrap();
        project.forget(package);
        project
    }

    /// A package that `cargo cuda new` has made below `place`, which is outside of the checkout, with the versions that
    /// the template locks.
    pub fn from_template(place: &Path, template: &str, name: &str, majors: &[u32]) -> Self {
        let project = Self {
            path: place.to_owned(),
            cache: shared_cache(majors),
            target: target(),
        };
        store(&project.cache, majors);
        let mut new = project.command(&["new", "--template", template, name]);
        Finished::of(new.output().unwrap()).succeeded();
        let project = Self {
            path: place.join(name),
            ..project
        };
        let manifest = project.path.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let repository = concat!("git = \"", env!("CARGO_PKG_REPOSITORY"), "\"");
        let path = format!("path = \"{}/cuda-build\"", checkout().display());
        assert!(text.contains(repository), "{text}");
        fs::write(&manifest, text.replace(repository, &path)).unwrap();
        let lock = format!("templates/{template}/Cargo.lock");
        fs::copy(checkout().join(lock), project.path.join("Cargo.lock")).unwrap();
        project.forget(name);
        project
    }

    /// A program of its own: `build.rs`, what `[package.metadata.cuda]` says, and `src/main.rs`.
    pub fn new(name: &str, majors: &[u32], cuda: &str, build: &str, main: &str) -> Self {
        Self::at(name, name, majors, cuda, build, main)
    }

    /// The same in a directory called otherwise, and a target directory called like that.
    pub fn at(
        name: &str,
        directory: &str,
        majors: &[u32],
        cuda: &str,
        build: &str,
        main: &str,
    ) -> Self {
        let mut project = Self::empty(name, directory, majors);
        if name != directory {
            project.target = below_target(&format!("target {directory}"));
        }
        project.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[build-dependencies]\n\
                 cuda-build = {{ path = \"../../cuda-build\", version = \"0.1\" }}\n\n\
                 [package.metadata.cuda]\n{cuda}\n\n[workspace]\n"
            ),
        );
        // The same versions as the template's, so that they are compiled once for all.
        let lock = checkout().join("templates/library/Cargo.lock");
        fs::copy(lock, project.path.join("Cargo.lock")).unwrap();
        project.point_to_checkout();
        project.write("build.rs", build);
        project.write("src/main.rs", main);
        project.forget(name);
        project
    }

    /// Nothing but a directory whose name needs quoting, with a target directory of its own.
    pub fn bare(name: &str, majors: &[u32]) -> Self {
        Self::bare_at(name, "it's a $project", majors)
    }

    /// The same in a directory called like that.
    pub fn bare_at(name: &str, directory: &str, majors: &[u32]) -> Self {
        let project = Self::empty(name, directory, majors);
        project.alone(majors)
    }

    /// The same with a target directory and a store of its own.
    pub fn alone(self, majors: &[u32]) -> Self {
        let cache = self.path.parent().unwrap().join("cache");
        store(&cache, majors);
        Self {
            target: self.path.join("target"),
            cache,
            path: self.path,
        }
    }

    fn empty(name: &str, directory: &str, majors: &[u32]) -> Self {
        let place = place(name);
        let project = Self {
            path: place.join(directory),
            cache: shared_cache(majors),
            target: target(),
        };
        store(&project.cache, majors);
        fs::create_dir_all(&project.path).unwrap();
        project
    }

    fn point_to_checkout(&self) {
        point_to_checkout(&self.path.join("Cargo.toml"));
    }

    /// Writes a file of the package.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The same, with a time of change that Cargo can tell from an earlier one.
    pub fn write_later(&self, file: &str, text: &str) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.write(file, text);
    }

    /// `cargo cuda …` in the package.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command.arg("cuda").args(arguments);
        self.prepare(&mut command);
        command
    }

    /// Gives a command this project's directory and variables.
    pub fn prepare(&self, command: &mut Command) {
        command
            .current_dir(&self.path)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CUDA_BUILD_CACHE_DIR", &self.cache)
            // Each test compiles, whatever others and earlier runs compiled.
            .env("CUDA_BUILD_IMAGES", self.path.with_extension("images"));
        // Projects with different lists share the target directory.
        if self.target != self.path.join("target") {
            command.env("CUDA_BUILD_TARGET_DIRECTORIES", "1000");
        }
        // Cargo sets these for the tests themselves.
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO_PKG") || name.starts_with("CARGO_MANIFEST") {
                command.env_remove(name);
            }
        }
        for name in FOREIGN.split(' ') {
            command.env_remove(name);
        }
    }

    /// Runs `cargo cuda …` to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().unwrap())
    }

    /// Removes everything that cargo has built of a package.
    pub fn forget(&self, package: &str) {
        for path in traces(&self.target, package) {
            let removed = match path.is_dir() && !path.is_symlink() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            // A directory in the list may contain another entry.
            assert!(removed.is_ok() || !path.exists(), "{path:?}: {removed:?}");
        }
    }

    /// The file of this name that the package's build script has written last.
    pub fn made(&self, package: &str, name: &str) -> PathBuf {
        let directories = traces(&self.target, package).into_iter();
        let files = directories.flat_map(|directory| below(&directory));
        let named = files.filter(|path| path.is_file() && path.file_name().unwrap() == name);
        newest(named).unwrap_or_else(|| panic!("no {name} of {package} in {:?}", self.target))
    }

    /// The directory with the file of this name that the package's build script has written last.
    pub fn out(&self, package: &str, name: &str) -> PathBuf {
        self.made(package, name).parent().unwrap().to_owned()
    }

    /// The program that was linked last.
    pub fn program(&self, name: &str) -> PathBuf {
        let published = self.target.join("cargo-cuda/debug").join(name);
        let plain = self.target.join("debug").join(name);
        let programs = [published, plain].into_iter();
        newest(programs.filter(|program| program.is_file())).unwrap()
    }
}

fn newest(paths: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    paths.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap())
}

/// How deep the directories of packages are below a target directory, in every layout of Cargo's.
const DEPTH: usize = 6;

/// The files and directories below a target directory that have a package's name: `native-app`, or
/// `native-app-0123456789abcdef`, with `-` or `_`. Cargo's layout is not known here.
fn traces(target: &Path, package: &str) -> Vec<PathBuf> {
    let is_trace = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        let name = name.replace('_', "-");
        let rest = name
            .strip_prefix("lib")
            .unwrap_or(&name)
            .strip_prefix(package);
        rest.is_some_and(|rest| {
            let hash = rest.strip_prefix('-').unwrap_or_default();
            let length = hash.chars().take_while(char::is_ascii_alphanumeric).count();
            rest.is_empty() || rest.starts_with('.') || length >= 12
        })
    };
    let mut found = Vec::new();
    let mut open = vec![(target.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if is_trace(&path) {
                found.push(path);
            } else if depth < DEPTH && path.is_dir() && !path.is_symlink() {
                open.push((path, depth + 1));
            }
        }
    }
    found
}

/// The files below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = paths.flat_map(|path| match path.is_dir() && !path.is_symlink() {
        true => below(&path),
        false => vec![path],
    });
    files.collect()
}

/// The target directory of all projects.
pub fn target() -> PathBuf {
    below_target("target")
}

/// Makes the path of the dependency on cuda-build that of the checkout.
pub fn point_to_checkout(manifest: &Path) {
    let text = fs::read_to_string(manifest).unwrap();
    let pointed = text.replace(
        "../../cuda-build",
        checkout().join("cuda-build").to_str().unwrap(),
    );
    assert_ne!(text, pointed, "no path dependency on cuda-build");
    fs::write(manifest, pointed).unwrap();
}

/// Copies a directory without what was built in it. An equal file keeps its time of change.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if !entry.path().is_dir() {
            let content = fs::read(entry.path()).unwrap();
            if !fs::read(&target).is_ok_and(|old| old == content) {
                fs::write(target, content).unwrap();
            }
        } else if !["target", "dist"].contains(&entry.file_name().to_str().unwrap()) {
            copy(&entry.path(), &target);
        }
    }
}

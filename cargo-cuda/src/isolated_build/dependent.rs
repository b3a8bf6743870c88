//! Which packages may depend on CUDA. The others stay compiled when the toolkit or the list of capabilities changes.
//!
//! A package depends on CUDA through code that runs during the build, a build script or a procedural macro, or through
//! libraries that it links by an attribute. That code reads CUDA's variables or starts CUDA's programs, whose names
//! contain one of [`WORDS`] or [`LIBRARIES`], or it reads the view through CMake or a compiler, and the view has only
//! CUDA. So a package of a registry counts if one of these words is in a file of the package, or of a package that this
//! code uses. The files of other packages may change between two builds, and a script of a git package may read files
//! of its repository, so any code that runs during the build counts there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Node, Package, PackageId, Target};
use cuda_find_core::root::Root;

const WORDS: [&str; 3] = ["cuda", "nvcc", "nvidia"];

/// Names of libraries without one of the words. In mixed case, such short names are found in encoded data.
const LIBRARIES: &str =
    "cudnn nccl nvrtc cublas cufft curand cusolver cusparse cutensor nvjitlink cupti nvml";

/// A name of a target that crates list together with all others.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Crates with one of the words that do nothing with CUDA unless their caller names it.
const PASSIVE: [&str; 5] = ["cc", "libc", "object", "target-lexicon", "vcpkg"];

/// The names of the packages that may depend on CUDA.
pub(super) fn dependent_packages(metadata: &Metadata, root: &Root) -> BTreeSet<String> {
    let nodes = metadata.resolve.iter().flat_map(|graph| &graph.nodes);
    let nodes: BTreeMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
    let packages = metadata.packages.iter();
    let users = packages.clone().filter(|package| uses_cuda(package, root));
    let users: BTreeSet<&PackageId> = users.map(|package| &package.id).collect();
    let may_depend = |package: &&Package| {
        let mut helpers = BTreeSet::new();
        for kind in kinds_of_helpers(package) {
            add_dependencies(&nodes, &package.id, kind, &mut helpers);
        }
        let mut helpers = helpers.into_iter();
        users.contains(&package.id)
            || helpers.any(|id| users.contains(id) || !is_of_registry(&metadata[id]))
    };
    let dependent = packages.filter(may_depend);
    dependent.map(|package| package.name.to_string()).collect()
}

/// Adds the dependencies of this kind, and what these need.
fn add_dependencies<'n>(
    nodes: &BTreeMap<&PackageId, &'n Node>,
    package: &PackageId,
    kind: DependencyKind,
    all: &mut BTreeSet<&'n PackageId>,
) {
    for dependency in nodes.get(package).iter().flat_map(|node| &node.deps) {
        let is_of_kind = dependency.dep_kinds.iter().any(|it| it.kind == kind);
        if is_of_kind && all.insert(&dependency.pkg) {
            add_dependencies(nodes, &dependency.pkg, DependencyKind::Normal, all);
        }
    }
}

/// The kinds of dependencies that the package's own code uses while it runs during the build.
fn kinds_of_helpers(package: &Package) -> Vec<DependencyKind> {
    let kind = |target: &Target| match target {
        _ if target.is_custom_build() => Some(DependencyKind::Build),
        _ if target.is_proc_macro() => Some(DependencyKind::Normal),
        _ => None,
    };
    package.targets.iter().filter_map(kind).collect()
}

fn is_of_registry(package: &Package) -> bool {
    let source = package.source.as_ref();
    source.is_some_and(|source| !source.repr.starts_with("git+"))
}

/// Whether the package itself may use CUDA.
fn uses_cuda(package: &Package, root: &Root) -> bool {
    if PASSIVE.contains(&package.name.as_str()) {
        return false;
    }
    let is_of_registry = is_of_registry(package);
    if !is_of_registry && !kinds_of_helpers(package).is_empty() {
        return true;
    }
    let manifest = package.manifest_path.as_std_path();
    let mut files = files(root, manifest.parent().unwrap_or(manifest)).into_iter();
    files.any(|path| {
        let text = || {
            let bytes = root.bytes(&path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let is_rust = || path.extension().is_some_and(|extension| extension == "rs");
        match is_of_registry {
            true => mentions_cuda(&text()),
            false => {
                is_rust()
                    && ["#[link(", "link(name"]
                        .iter()
                        .any(|it| text().contains(it))
            }
        }
    })
}

/// The files below a directory, without those in hidden directories and in target directories.
fn files(root: &Root, directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in root.names(directory) {
        let path = directory.join(&name);
        if name.as_encoded_bytes().starts_with(b".") || root.is_link(&path) {
            continue;
        }
        match root.is_dir(&path) {
            true if root.exists(&path.join("CACHEDIR.TAG")) => {}
            true => found.extend(files(root, &path)),
            false => found.push(path),
        }
    }
    found
}

/// Whether a text has one of the words, in any case, or the name of a library.
fn mentions_cuda(text: &str) -> bool {
    let lower = text.to_ascii_lowercase().replace(TRIPLE, "");
    let has_library = |name: &str| text.contains(name) || text.contains(&name.to_ascii_uppercase());
    WORDS.iter().any(|word| lower.contains(word)) || LIBRARIES.split(' ').any(has_library)
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::*;

    const SCRIPT: &str = "fn main() {}";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes packages")]
    fn code_that_runs_in_the_build_decides() {
        let place = tempfile::tempdir().unwrap();
        // The files of each package, its dependency, and whether it stays when the toolkit changes: as a package of a
        // registry, and as a local one.
        let packages = [
            ("plain", &[("src/lib.rs", "// cpu")][..], "", true, true),
            (
                "inside",
                &[
                    (
                        "Cargo.toml",
                        "[package]\nname = \"inside\"\nversion = \"1.0.0\"\nbuild = \"src/build.rs\"\n",
                    ),
                    ("src/build.rs", "fn main() { \"CUDNN_LIB\"; }"),
                ],
                "",
                false,
                false,
            ),
            (
                "encoded",
                &[("build.rs", SCRIPT), ("test.pem", "xnCclx")],
                "",
                true,
                false,
            ),
            ("script", &[("build.rs", SCRIPT)], "", true, false),
            (
                "reads",
                &[("build.rs", "fn main() { \"CUDA_HOME\"; }")],
                "",
                false,
                false,
            ),
            (
                "cmake",
                &[
                    ("build.rs", SCRIPT),
                    ("c/CMakeLists.txt", "find_package(CUDAToolkit)"),
                ],
                "",
                false,
                false,
            ),
            (
                "lib-of-script",
                &[("build.rs", SCRIPT), ("src/lib.rs", "// cuda")],
                "",
                false,
                false,
            ),
            (
                "targets",
                &[("build.rs", "// nvptx64-nvidia-cuda\nfn main() {}")],
                "",
                true,
                false,
            ),
            (
                "documented",
                &[
                    ("build.rs", SCRIPT),
                    ("README.md", "NVIDIA"),
                    ("LICENSE", "NVIDIA"),
                ],
                "",
                false,
                false,
            ),
            (
                "helped",
                &[("build.rs", SCRIPT)],
                "build-dependencies.helper",
                false,
                false,
            ),
            (
                "uses",
                &[("build.rs", SCRIPT)],
                "dependencies.helper",
                true,
                false,
            ),
            (
                "helper",
                &[("src/lib.rs", "Command::new(\"nvcc\")")],
                "",
                false,
                true,
            ),
            (
                "with-cc",
                &[("build.rs", SCRIPT)],
                "build-dependencies.cc",
                true,
                false,
            ),
            ("cc", &[("src/lib.rs", "// nvcc")], "", true, true),
            (
                "links",
                &[("src/lib.rs", "#[link(name = \"cudart\")]\nunsafe extern {}")],
                "",
                false,
                false,
            ),
            (
                "links-other",
                &[("src/lib.rs", "#[link(name = \"z\")]\nunsafe extern {}")],
                "",
                true,
                false,
            ),
        ];
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut root = "[workspace]\n[package]\nname = \"root\"\nversion = \"1.0.0\"\n".to_owned();
        for (name, files, dependency, ..) in packages {
            let directory = place.path().join(name);
            let mut manifest =
                format!("[package]\nname = {name:?}\nversion = \"1.0.0\"\nedition = \"2024\"\n");
            if let Some((_, of)) = dependency.split_once('.') {
                manifest += &format!("[{dependency}]\npath = \"../{of}\"\n");
            }
            write(directory.join("Cargo.toml"), &manifest);
            write(directory.join("src/lib.rs"), "");
            for (file, text) in files {
                write(directory.join(file), text);
            }
            root += &format!("[dependencies.{name}]\npath = {name:?}\n");
        }
        write(place.path().join("Cargo.toml"), &root);
        write(place.path().join("src/lib.rs"), "");
        let manifest = place.path().join("Cargo.toml");
        let mut metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .exec()
            .unwrap();
        // The package at the root has the files of all others.
        let names = |of_registry: bool| -> BTreeSet<String> {
            let rest = packages
                .into_iter()
                .filter(|it| !if of_registry { it.3 } else { it.4 });
            let names = rest.map(|it| it.0.to_owned());
            names.chain(["root".to_owned()]).collect()
        };
        let system = Root::system();
        assert_eq!(dependent_packages(&metadata, &system), names(false));
        for package in &mut metadata.packages {
            package.source = Some(serde_json::from_str("\"registry+x\"").unwrap());
        }
        assert_eq!(dependent_packages(&metadata, &system), names(true));
    }
}

//! Which packages cannot depend on CUDA, so that they stay compiled when the toolkit or the list of capabilities
//! changes.
//!
//! A package depends on CUDA through code that runs during the build, a build script or a procedural macro, or through
//! libraries that it links by an attribute. That code reads CUDA's variables or starts CUDA's programs, whose names
//! contain one of [`WORDS`] or [`LIBRARIES`], or it reads the view through CMake or a compiler, and the
//! view has only CUDA. So for a package of a registry, a file with one of these words decides: a file of the package,
//! except the Rust sources of its library, or a Rust source of a crate that this code uses. The code of a local package
//! may change between two builds, and a package of git may read files of its repository, so both always count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Node, Package, PackageId};
use cuda_find_core::root::Root;

const WORDS: [&str; 3] = ["cuda", "nvcc", "nvidia"];

/// Names of libraries without one of the words. In mixed case, such short names are found in encoded data.
const LIBRARIES: [&str; 12] = [
    "cudnn",
    "nccl",
    "nvrtc",
    "cublas",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
    "cutensor",
    "nvjitlink",
    "cupti",
    "nvml",
];

/// A name of a target that crates list together with all others.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Crates with one of the words that do nothing with CUDA unless their caller names it.
const PASSIVE: [&str; 3] = ["cc", "libc", "target-lexicon"];

/// The names of the packages of a build.
pub(super) struct Packages {
    pub dependent: BTreeSet<String>,
    /// The others. Of two versions of a package, one may depend on CUDA.
    pub independent: BTreeSet<String>,
}

impl Packages {
    pub fn examine(metadata: &Metadata, root: &Root) -> Self {
        let nodes = metadata.resolve.iter().flat_map(|graph| &graph.nodes);
        let nodes: BTreeMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
        let packages = metadata.packages.iter();
        let packages = packages.filter(|package| nodes.contains_key(&package.id));
        let uses: BTreeMap<_, _> = packages
            .clone()
            .map(|package| (&package.id, Uses::read(package, root)))
            .collect();
        let may_depend = |package: &&Package| {
            let of_package = &uses[&package.id];
            let mut helpers = BTreeSet::new();
            for kind in of_package.kinds_of_helpers.into_iter().flatten() {
                add_dependencies(&nodes, &package.id, kind, &mut helpers);
            }
            of_package.links
                || of_package.in_build
                || helpers.into_iter().any(|helper| uses[helper].in_rust)
        };
        let (dependent, independent): (Vec<_>, Vec<_>) = packages.partition(may_depend);
        let [dependent, independent] = [dependent, independent]
            .map(|packages| BTreeSet::from_iter(packages.iter().map(|it| it.name.to_string())));
        Self {
            independent: &independent - &dependent,
            dependent,
        }
    }
}

/// Adds the dependencies of this kind, and what these need.
fn add_dependencies<'n>(
    nodes: &BTreeMap<&PackageId, &'n Node>,
    package: &PackageId,
    kind: DependencyKind,
    all: &mut BTreeSet<&'n PackageId>,
) {
    for dependency in &nodes[package].deps {
        let is_of_kind = dependency.dep_kinds.iter().any(|it| it.kind == kind);
        if is_of_kind && all.insert(&dependency.pkg) {
            add_dependencies(nodes, &dependency.pkg, DependencyKind::Normal, all);
        }
    }
}

/// How the files of a package use CUDA.
#[derive(Default)]
struct Uses {
    /// What the build script needs, and the procedural macro.
    kinds_of_helpers: [Option<DependencyKind>; 2],
    /// The code that runs during the build may use CUDA.
    in_build: bool,
    /// A Rust source may.
    in_rust: bool,
    /// An attribute may link a library of CUDA.
    links: bool,
}

impl Uses {
    fn read(package: &Package, root: &Root) -> Self {
        let is_macro = package.targets.iter().any(|target| target.is_proc_macro());
        let (scripts, others): (Vec<_>, Vec<_>) =
            package.targets.iter().partition(|it| it.is_custom_build());
        let text = |path: &Path| {
            let bytes = root.bytes(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let directory = directory(package);
        let sources = others
            .iter()
            .filter_map(|it| it.src_path.as_std_path().parent());
        let sources: Vec<&Path> = sources.filter(|source| *source != directory).collect();
        // The script may be, or have modules, among the sources of the library.
        let includes = scripts.iter().any(|script| {
            let path = script.src_path.as_std_path();
            let text = text(path);
            let is_among_sources = sources.iter().any(|source| path.starts_with(source));
            is_among_sources || text.contains("include!") || text.contains("#[path")
        });
        let is_of_library = |path: &Path| sources.iter().any(|source| path.starts_with(source));
        // A script of git's package may read files of the repository outside of the package.
        let source = package.source.as_ref();
        let is_local = source.is_none_or(|source| source.repr.starts_with("git+"));
        let mut uses = Self {
            kinds_of_helpers: [
                (!scripts.is_empty()).then_some(DependencyKind::Build),
                is_macro.then_some(DependencyKind::Normal),
            ],
            ..Self::default()
        };
        let runs = is_macro || !scripts.is_empty();
        uses.in_build = runs && is_local;
        if PASSIVE.contains(&package.name.as_str()) {
            return uses;
        }
        for path in files(root, directory) {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if !is_rust && (!runs || uses.in_build) {
                continue;
            }
            let text = text(&path);
            let is_mentioned = mentions(&text);
            let is_document = |name: &str| name.ends_with(".md") || name.starts_with("LICENSE");
            let is_unused = match is_rust {
                true => is_of_library(&path) && !includes && !is_macro,
                false => is_document(&path.file_name().unwrap_or_default().to_string_lossy()),
            };
            uses.in_build |= runs && is_mentioned && !is_unused;
            uses.in_rust |= is_rust && is_mentioned;
            uses.links |= is_rust
                && (text.contains("#[link(") || text.contains("link(name"))
                && (is_local || is_mentioned);
        }
        uses
    }
}

fn directory(package: &Package) -> &Path {
    let manifest = package.manifest_path.as_std_path();
    manifest.parent().unwrap_or(manifest)
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
fn mentions(text: &str) -> bool {
    let lower = text.to_ascii_lowercase().replace(TRIPLE, "");
    let has_library = |name: &str| text.contains(name) || text.contains(&name.to_ascii_uppercase());
    WORDS.iter().any(|word| lower.contains(word)) || LIBRARIES.into_iter().any(has_library)
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
            ("plain", &[("src/lib.rs", "// cuda")][..], "", true, true),
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
                true,
                false,
            ),
            (
                "shared",
                &[
                    ("build.rs", "#[path = \"src/lib.rs\"]\nmod m; fn main() {}"),
                    ("src/lib.rs", "// cuda"),
                ],
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
                true,
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
                true,
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
        let names = |of_registry: bool| -> BTreeSet<String> {
            let stays = packages
                .into_iter()
                .filter(|it| if of_registry { it.3 } else { it.4 });
            stays.map(|it| it.0.to_owned()).collect()
        };
        let system = Root::system();
        // The package at the root has the files of all others.
        assert_eq!(
            Packages::examine(&metadata, &system).independent,
            names(false)
        );
        for package in &mut metadata.packages {
            package.source = Some(serde_json::from_str("\"registry+x\"").unwrap());
        }
        assert_eq!(
            Packages::examine(&metadata, &system).independent,
            names(true)
        );
    }
}

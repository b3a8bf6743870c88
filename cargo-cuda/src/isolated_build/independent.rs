//! Which packages cannot depend on CUDA, so that they stay compiled when the toolkit or the list of capabilities
//! changes.
//!
//! A package depends on CUDA through code that runs during the build, a build script or a procedural macro, or through
//! libraries that it links by an attribute. That code reads CUDA's variables or starts CUDA's programs, whose names
//! contain one of [`WORDS`], or it reads the view through CMake, pkg-config or a compiler, and the view has only CUDA.
//! So for a package of a registry or of git, a file with one of these words decides: a file of the package, except the
//! Rust sources of its library, or a Rust source of a crate that this code uses. The code of a local package may change
//! between two builds, so it always counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Node, Package, PackageId};
use cuda_find_core::root::Root;

const WORDS: [&str; 3] = ["cuda", "nvcc", "nvidia"];

/// A name of a target that crates list together with all others.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Crates with one of the words that do nothing with CUDA unless their caller names it.
const PASSIVE: [&str; 3] = ["cc", "libc", "target-lexicon"];

/// The names of the packages that cannot depend on CUDA.
pub fn independent_packages(metadata: &Metadata, root: &Root) -> BTreeSet<String> {
    let packages = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package));
    let nodes = metadata.resolve.iter().flat_map(|graph| &graph.nodes);
    let graph = Graph {
        root,
        packages: packages.collect(),
        nodes: nodes.map(|node| (&node.id, node)).collect(),
    };
    let (dependent, independent): (Vec<&Node>, Vec<&Node>) = graph
        .nodes
        .values()
        .partition(|node| graph.may_depend(node));
    let names = |nodes: Vec<&Node>| -> BTreeSet<String> {
        nodes
            .into_iter()
            .map(|node| graph.packages[&node.id].name.to_string())
            .collect()
    };
    // Of two versions of a package, one may depend on CUDA.
    &names(independent) - &names(dependent)
}

struct Graph<'m> {
    root: &'m Root,
    packages: BTreeMap<&'m PackageId, &'m Package>,
    nodes: BTreeMap<&'m PackageId, &'m Node>,
}

impl Graph<'_> {
    fn may_depend(&self, node: &Node) -> bool {
        let package = self.packages[&node.id];
        let is_local = package.source.is_none();
        let has_script = package
            .targets
            .iter()
            .any(|target| target.is_custom_build());
        let runs = has_script || package.targets.iter().any(|target| target.is_proc_macro());
        if runs && (is_local || self.mentions_in_build(node, package, has_script)) {
            return true;
        }
        let directory = directory(package);
        let mut sources = self
            .files(directory)
            .into_iter()
            .filter(|path| is_rust(path));
        sources.any(|path| {
            let text = self.text(&path);
            text.contains("link(") && (is_local || mentions(&text))
        })
    }

    /// Whether the build script or procedural macro of a package may use CUDA.
    fn mentions_in_build(&self, node: &Node, package: &Package, has_script: bool) -> bool {
        let directory = directory(package);
        let (scripts, others): (Vec<_>, Vec<_>) = package
            .targets
            .iter()
            .partition(|target| target.is_custom_build());
        let includes = scripts.iter().any(|script| {
            let text = self.text(script.src_path.as_std_path());
            text.contains("include!") || text.contains("#[path")
        });
        let of_others = others
            .iter()
            .filter_map(|target| target.src_path.as_std_path().parent());
        let of_others: Vec<&Path> = of_others.filter(|source| *source != directory).collect();
        let is_read = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_of_library = has_script
                && !includes
                && is_rust(path)
                && of_others.iter().any(|source| path.starts_with(source));
            !is_of_library && !name.ends_with(".md") && !name.starts_with("LICENSE")
        };
        let mut files = self.files(directory).into_iter().filter(is_read);
        if !PASSIVE.contains(&package.name.as_str())
            && files.any(|path| mentions(&self.text(&path)))
        {
            return true;
        }
        let kind = if has_script {
            DependencyKind::Build
        } else {
            DependencyKind::Normal
        };
        let mut used = BTreeSet::new();
        self.add_dependencies(node, kind, &mut used);
        used.into_iter().any(|id| {
            let package = self.packages[id];
            let mut files = self
                .files(self::directory(package))
                .into_iter()
                .filter(|path| is_rust(path));
            !PASSIVE.contains(&package.name.as_str())
                && files.any(|path| mentions(&self.text(&path)))
        })
    }

    /// Adds the dependencies of this kind, and what these need.
    fn add_dependencies<'n>(
        &'n self,
        node: &'n Node,
        kind: DependencyKind,
        all: &mut BTreeSet<&'n PackageId>,
    ) {
        for dependency in &node.deps {
            let is_of_kind = dependency.dep_kinds.iter().any(|it| it.kind == kind);
            if is_of_kind && all.insert(&dependency.pkg) {
                self.add_dependencies(self.nodes[&dependency.pkg], DependencyKind::Normal, all);
            }
        }
    }

    /// The files below a directory, without those in hidden directories and in target directories.
    fn files(&self, directory: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in self.root.names(directory) {
            let path = directory.join(&name);
            if name.as_encoded_bytes().starts_with(b".") || self.root.is_link(&path) {
                continue;
            }
            match self.root.is_dir(&path) {
                true if self.root.exists(&path.join("CACHEDIR.TAG")) => {}
                true => files.extend(self.files(&path)),
                false => files.push(path),
            }
        }
        files
    }

    fn text(&self, path: &Path) -> String {
        let bytes = self.root.bytes(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn directory(package: &Package) -> &Path {
    let manifest = package.manifest_path.as_std_path();
    manifest.parent().unwrap_or(manifest)
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Whether a text has one of the words, in any case.
fn mentions(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace(TRIPLE, "");
    WORDS.iter().any(|word| text.contains(word))
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
        // The files of each package, its dependency, and whether it can stay when the toolkit changes: as a package of a
        // registry, and in the source tree.
        let packages = [
            ("plain", &[("src/lib.rs", "// cuda")][..], "", true, true),
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
                    ("build.rs", "#[path = \"src/lib.rs\"] mod m; fn main() {}"),
                    ("src/lib.rs", "// cuda"),
                ],
                "",
                false,
                false,
            ),
            (
                "targets",
                &[("build.rs", "fn main() { \"nvptx64-nvidia-cuda\"; }")],
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
                &[(
                    "src/lib.rs",
                    "#[link(name = \"cudart\")] unsafe extern \"C\" {}",
                )],
                "",
                false,
                false,
            ),
            (
                "links-other",
                &[("src/lib.rs", "#[link(name = \"z\")] unsafe extern \"C\" {}")],
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
        assert_eq!(independent_packages(&metadata, &system), names(false));
        for package in &mut metadata.packages {
            package.source = Some(serde_json::from_str("\"registry+x\"").unwrap());
        }
        assert_eq!(independent_packages(&metadata, &system), names(true));
    }
}

//! The packages below a workspace that look for CUDA by themselves.
//!
//! Such a package's build script looks below a root that a variable names, and more often than
//! not it does not tell Cargo which variables it read. Nothing here knows a package by its name
//! but cudarc, which has a list of releases and stops at one that is newer than itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId, TargetKind};
use cuda_build::{Env, Root, Target};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::output;
use crate::workspace::{self, Workspace};

/// What is known of the packages below a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// Packages whose build scripts look for CUDA without cuda-build, or with it but from
    /// outside the workspace, sorted by name.
    pub others: Vec<Other>,
    /// The releases that every cudarc without a fixed one knows, as in 13040.
    pub cudarc: Option<Vec<u32>>,
}

/// A package that looks for CUDA by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// Its name and version.
    pub name: String,
    /// Whether it reads `CUDA_COMPUTE_CAP`, which holds one capability.
    pub takes_one: bool,
}

/// A [`Graph`] and what it was made from.
#[derive(Serialize, Deserialize)]
struct Cached {
    key: String,
    /// Files that may change without a change of version, with a digest.
    local: Vec<(PathBuf, String)>,
    graph: Graph,
}

impl Graph {
    /// The packages that are built when cargo is given `arguments`. The answer is kept beside
    /// the workspace's toolkit, for as long as lock file, manifests and features are the same:
    /// asking Cargo for the whole graph takes longer than everything else here.
    ///
    /// # Errors
    /// Where Cargo can't resolve the graph.
    pub fn load(
        root: &Root,
        env: &Env,
        workspace: &Workspace,
        target: &Target,
        arguments: &[OsString],
    ) -> Result<Self, Failure> {
        let options = workspace::graph_options(arguments);
        // Features are those of the package that is named.
        let manifest = workspace::manifest_path(arguments).unwrap_or(workspace.root.join("Cargo.toml"));
        let what = format!("{}\n{}\n{options:?}", manifest.display(), target.triple());
        let file = workspace.build_directory.join("cuda").join(format!("packages-{}.json", short(&what)));
        let lock = || root.text(&workspace.root.join("Cargo.lock")).unwrap_or_default();
        let key = digest(&format!("{}\n{}", env!("CARGO_PKG_VERSION"), lock()));
        if let Ok(text) = root.text(&file)
            && let Ok(cached) = serde_json::from_str::<Cached>(&text)
            && cached.key == key
            && workspace.packages.iter().all(|p| cached.local.iter().any(|(path, _)| *path == p.manifest))
            && cached.local.iter().all(|(path, known)| content(root, path) == *known)
        {
            return Ok(cached.graph);
        }
        let mut command = MetadataCommand::new();
        if let Some(cargo) = env.peek("CARGO") {
            command.cargo_path(cargo);
        }
        command.manifest_path(manifest);
        command.other_options(
            [options, vec!["--filter-platform".to_owned(), target.triple().to_owned()]].concat(),
        );
        let metadata = command.exec().map_err(workspace::not_answered)?;
        let (graph, local) = Reader { root, metadata: &metadata }.read();
        let local = local.into_iter().map(|path| (content(root, &path), path)).map(|(c, p)| (p, c)).collect();
        // The lock file may have been made just now.
        let key = digest(&format!("{}\n{}", env!("CARGO_PKG_VERSION"), lock()));
        let cached = Cached { key, local, graph };
        if let Ok(text) = serde_json::to_string(&cached) {
            output::write_if_changed(&file, text.as_bytes())?;
        }
        Ok(cached.graph)
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Enough of a digest for a file's name.
fn short(text: &str) -> String {
    digest(text).chars().take(16).collect()
}

fn content(root: &Root, path: &Path) -> String {
    root.text(path).map(|text| digest(&text)).unwrap_or_default()
}

struct Reader<'a> {
    root: &'a Root,
    metadata: &'a Metadata,
}

impl Reader<'_> {
    fn read(&self) -> (Graph, Vec<PathBuf>) {
        let packages: BTreeMap<&PackageId, &Package> =
            self.metadata.packages.iter().map(|package| (&package.id, package)).collect();
        let nodes =
            self.metadata.resolve.as_ref().map(|resolve| resolve.nodes.as_slice()).unwrap_or_default();
        let mut graph = Graph::default();
        let mut local = Vec::new();
        for node in nodes {
            let Some(&package) = packages.get(&node.id) else { continue };
            let script = package.targets.iter().find(|target| target.kind.contains(&TargetKind::CustomBuild));
            let script = script.map(|target| target.src_path.as_std_path());
            if package.source.is_none() {
                local.push(package.manifest_path.clone().into_std_path_buf());
                local.extend(script.map(Path::to_owned));
            }
            if package.name == "cudarc" {
                self.cudarc(package, node, &mut graph);
            }
            if let Some(script) = script {
                graph.others.extend(self.other(package, node, script, &packages));
            }
        }
        graph.others.sort_by(|a, b| a.name.cmp(&b.name));
        (graph, local)
    }

    /// Which releases a cudarc knows is in its features; one of them switched on is the release
    /// that it was told.
    fn cudarc(&self, package: &Package, node: &Node, graph: &mut Graph) {
        let number = |feature: &str| feature.strip_prefix("cuda-")?.parse::<u32>().ok();
        if node.features.iter().any(|feature| number(feature).is_some()) {
            return;
        }
        let knows: Vec<u32> = package.features.keys().filter_map(|feature| number(feature)).collect();
        match &mut graph.cudarc {
            Some(known) => known.retain(|release| knows.contains(release)),
            none => *none = Some(knows),
        }
    }

    fn other(
        &self,
        package: &Package,
        node: &Node,
        script: &Path,
        packages: &BTreeMap<&PackageId, &Package>,
    ) -> Option<Other> {
        let builds: Vec<&Package> = node
            .deps
            .iter()
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Build))
            .filter_map(|dep| packages.get(&dep.pkg).copied())
            .collect();
        let member = self.metadata.workspace_members.contains(&package.id);
        if member && builds.iter().any(|package| package.name == "cuda-build") {
            return None;
        }
        let own = self.sources_of_script(script);
        let speaks_of_cuda = |text: &str| {
            let text = text.to_ascii_lowercase();
            text.contains("cuda") || text.contains("nvcc")
        };
        let names = builds.iter().map(|package| package.name.as_str());
        if !own.iter().map(String::as_str).chain(names).any(speaks_of_cuda) {
            return None;
        }
        let reads = |text: &String| text.contains("CUDA_COMPUTE_CAP");
        let takes_one = own.iter().any(reads)
            || builds.iter().any(|package| {
                let directory = package.manifest_path.as_std_path().with_file_name("src");
                self.sources(&directory, 3).iter().any(reads)
            });
        Some(Other { name: format!("{} {}", package.name, package.version), takes_one })
    }

    /// The build script, with the modules beside it where it has a directory of its own.
    fn sources_of_script(&self, script: &Path) -> Vec<String> {
        let directory = script.parent().unwrap_or(Path::new("."));
        let mut texts: Vec<String> = self.root.text(script).into_iter().collect();
        if self.root.is_file(&directory.join("Cargo.toml")) {
            texts.extend(self.sources(&directory.join("build"), 2));
        } else {
            texts.extend(self.sources(directory, 2));
        }
        texts
    }

    fn sources(&self, directory: &Path, depth: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for name in self.root.names(directory) {
            let path = directory.join(name);
            if path.extension().is_some_and(|extension| extension == "rs") {
                texts.extend(self.root.text(&path));
            } else if depth > 0 && self.root.is_dir(&path) {
                texts.extend(self.sources(&path, depth - 1));
            }
        }
        texts
    }
}

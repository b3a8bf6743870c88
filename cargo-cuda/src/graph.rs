//! The packages below a workspace that look for CUDA by themselves.
//!
//! Such a package's build script looks below a root that a variable names, and more often than
//! not it does not tell Cargo which variables it read. Nothing here knows a package by its name
//! but cudarc, which has a list of releases and stops at one that is newer than itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cargo_metadata::{
    DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId, TargetKind,
};
use cuda_build::{Env, Root, Target};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::output;
use crate::signs::{self, Files, Signs};
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
    /// Files and directories that may change without a change of version, with a digest of what
    /// is in them.
    local: BTreeMap<PathBuf, String>,
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
        // Features are those of the package that is named, or that the user is in.
        let manifest =
            workspace::manifest_path(arguments).or_else(|| workspace::manifest_here(root));
        let manifest = manifest.unwrap_or(workspace.root.join("Cargo.toml"));
        let manifest = std::path::absolute(&manifest).unwrap_or(manifest);
        let what = format!("{}\n{}\n{options:?}", manifest.display(), target.triple());
        let file = workspace
            .build_directory
            .join("cuda")
            .join(format!("packages-{}.json", short(&what)));
        let lock = || {
            root.text(&workspace.root.join("Cargo.lock"))
                .unwrap_or_default()
        };
        let key = digest(&format!("{}\n{}", env!("CARGO_PKG_VERSION"), lock()));
        if let Ok(text) = root.text(&file)
            && let Ok(cached) = serde_json::from_str::<Cached>(&text)
            && cached.key == key
            && workspace
                .packages
                .iter()
                .all(|p| cached.local.contains_key(&p.manifest))
            && cached
                .local
                .iter()
                .all(|(path, known)| content(root, path) == *known)
        {
            return Ok(cached.graph);
        }
        let mut command = MetadataCommand::new();
        if let Some(cargo) = env.peek("CARGO") {
            command.cargo_path(cargo);
        }
        command.manifest_path(manifest);
        command.other_options(
            [
                options,
                vec!["--filter-platform".to_owned(), target.triple().to_owned()],
            ]
            .concat(),
        );
        let metadata = command.exec().map_err(workspace::not_answered)?;
        let (graph, local) = Reader {
            files: Files::new(root, &metadata.packages),
            metadata: &metadata,
        }
        .read();
        let local = local
            .into_iter()
            .map(|path| (content(root, &path), path))
            .map(|(c, p)| (p, c))
            .collect();
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
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Enough of a digest for a file's name.
fn short(text: &str) -> String {
    digest(text).chars().take(16).collect()
}

fn content(root: &Root, path: &Path) -> String {
    match root.text(path) {
        Ok(text) => digest(&text),
        Err(_) if root.is_dir(path) => digest(&format!("{:?}", signs::names(root, path))),
        Err(_) => String::new(),
    }
}

struct Reader<'a> {
    files: Files<'a>,
    metadata: &'a Metadata,
}

impl Reader<'_> {
    fn read(self) -> (Graph, BTreeSet<PathBuf>) {
        let packages: BTreeMap<&PackageId, &Package> = self
            .metadata
            .packages
            .iter()
            .map(|package| (&package.id, package))
            .collect();
        let nodes = self
            .metadata
            .resolve
            .as_ref()
            .map(|resolve| resolve.nodes.as_slice())
            .unwrap_or_default();
        let mut graph = Graph::default();
        for node in nodes {
            let Some(&package) = packages.get(&node.id) else {
                continue;
            };
            let script = package
                .targets
                .iter()
                .find(|target| target.kind.contains(&TargetKind::CustomBuild));
            let script = script.map(|target| target.src_path.as_std_path());
            self.files
                .note(package, package.manifest_path.as_std_path());
            script
                .into_iter()
                .for_each(|script| self.files.note(package, script));
            if package.name == "cudarc" {
                self.cudarc(package, node, &mut graph);
            }
            if let Some(script) = script {
                graph
                    .others
                    .extend(self.other(package, node, script, &packages));
            }
        }
        graph.others.sort_by(|a, b| a.name.cmp(&b.name));
        (graph, self.files.into_read())
    }

    /// Which releases a cudarc knows is in its features; one of them switched on is the release
    /// that it was told.
    fn cudarc(&self, package: &Package, node: &Node, graph: &mut Graph) {
        let number = |feature: &str| feature.strip_prefix("cuda-")?.parse::<u32>().ok();
        if node
            .features
            .iter()
            .any(|feature| number(feature).is_some())
        {
            return;
        }
        let knows: Vec<u32> = package
            .features
            .keys()
            .filter_map(|feature| number(feature))
            .collect();
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
            .filter(|dep| {
                dep.dep_kinds
                    .iter()
                    .any(|kind| kind.kind == DependencyKind::Build)
            })
            .filter_map(|dep| packages.get(&dep.pkg).copied())
            .collect();
        let member = self.metadata.workspace_members.contains(&package.id);
        if member && builds.iter().any(|package| package.name == "cuda-build") {
            return None;
        }
        let own = self.files.script(package, script);
        // A crate of the workspace that calls cuda-build does as if the script did.
        let by_cuda_build = |helper: &Package| member && uses_cuda_build(helper);
        let helpers: Vec<Signs> = builds
            .iter()
            .filter(|helper| !by_cuda_build(helper))
            .map(|helper| self.files.helper(helper))
            .collect();
        let through_cuda_build = helpers.len() < builds.len();
        let named = builds
            .iter()
            .any(|helper| signs::speaks_of_cuda(&helper.name));
        let looks = !through_cuda_build && (own.looks || named);
        if !(looks || helpers.iter().any(|helper| helper.looks)) {
            return None;
        }
        let takes_one = own.takes_one || helpers.iter().any(|helper| helper.takes_one);
        Some(Other {
            name: format!("{} {}", package.name, package.version),
            takes_one,
        })
    }
}

fn uses_cuda_build(package: &Package) -> bool {
    package.dependencies.iter().any(|dependency| {
        dependency.name == "cuda-build" && dependency.kind == DependencyKind::Normal
    })
}

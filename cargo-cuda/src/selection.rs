//! What Cargo builds for one command: the packages with their features, as `cargo tree` prints them.
//!
//! `cargo tree` uses the resolver of `cargo build`: it knows member directories, `default-members`, package
//! specifications, the platform, and how features are unified. Nothing of this is computed here. Only one thing is
//! added: `cargo tree` has no option such as `--bin`, so the packages that own the named targets are looked up in
//! `cargo metadata`, and what these packages need is followed in the printed tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{Metadata, Package, Target};
use cuda_find_core::list::matches;
use cuda_find_core::{command::Invocation, env::Env};

use crate::cargo_arguments::CargoOptions;
use crate::failure::{Failure, Result};
use crate::process;

/// The packages that one command builds.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub packages: Vec<SelectedPackage>,
}

/// A package with the features that are enabled for one command. A package for this machine and for the target platform
/// may be there twice, with different features.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectedPackage {
    pub name: String,
    pub version: String,
    /// As `cargo tree` prints it: the directory of a path dependency, the address of a repository; empty for a package
    /// of the default registry.
    pub source: String,
    pub features: Vec<String>,
}

impl SelectedPackage {
    /// Whether `cargo metadata` describes the same package.
    pub fn is(&self, package: &Package) -> bool {
        let directory = package.manifest_path.parent();
        let is_of_path = package.source.is_none();
        self.name == *package.name
            && self.version == package.version.to_string()
            && is_of_path == directory.is_some_and(|it| it.as_str() == self.source)
    }
}

/// Which part of a workspace is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the command builds for its platforms.
    Command,
    /// All members with their default features and development dependencies, for the platforms of lock files.
    Workspace,
}

/// The platforms for which a lock file is the same. Cargo would have to download crates for others.
const PLATFORMS_OF_LOCKS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// A command of cargo in the current directory.
#[derive(Clone, Copy, Debug)]
pub struct CargoCommand<'a> {
    /// `build`, `test` …
    pub name: &'a str,
    pub options: &'a CargoOptions,
    pub manifest: Option<&'a Path>,
    /// The triple for which cargo builds without `--target`.
    pub default_platform: &'a str,
}

type IsKind = fn(&Target) -> bool;

/// The options that select all targets of a kind. A library and a program have tests and benchmarks of their own.
const TARGET_KINDS: [(&str, IsKind); 6] = [
    ("--lib", is_library),
    ("--bins", Target::is_bin),
    ("--examples", Target::is_example),
    ("--tests", |target| {
        target.is_test() || is_library(target) || target.is_bin()
    }),
    ("--benches", |target| {
        target.is_bench() || is_library(target) || target.is_bin()
    }),
    ("--all-targets", |_| true),
];

/// The options that select targets by a name or a pattern.
const NAMED_TARGETS: [(&str, IsKind); 4] = [
    ("--bin", Target::is_bin),
    ("--example", Target::is_example),
    ("--test", Target::is_test),
    ("--bench", Target::is_bench),
];

fn is_library(target: &Target) -> bool {
    let is_other = [
        target.is_bin(),
        target.is_example(),
        target.is_test(),
        target.is_bench(),
        target.is_custom_build(),
    ];
    !is_other.contains(&true)
}

impl CargoCommand<'_> {
    /// The platforms that it builds for.
    pub fn platforms(&self) -> Vec<String> {
        let named: Vec<String> = self.options.values("--target").collect();
        match named.is_empty() {
            true => vec![self.default_platform.to_owned()],
            false => named,
        }
    }

    /// Whether it compiles development dependencies.
    fn builds_tests(&self) -> bool {
        const TARGETS_WITH_DEVELOPMENT_DEPENDENCIES: [&str; 7] = [
            "--all-targets",
            "--tests",
            "--test",
            "--benches",
            "--bench",
            "--examples",
            "--example",
        ];
        let is_check_of_tests = || {
            let profile = self.options.value("--profile");
            self.name == "check" && profile.as_deref() == Some("test")
        };
        ["test", "bench", "nextest"].contains(&self.name)
            || self.options.has(&TARGETS_WITH_DEVELOPMENT_DEPENDENCIES)
            || is_check_of_tests()
    }

    /// Whether it builds any target of a package that it selects.
    fn builds_target_of(&self, package: &Package) -> bool {
        let options = self.options;
        let has = |is_kind: IsKind| package.targets.iter().any(is_kind);
        let of_kinds = TARGET_KINDS
            .iter()
            .filter(|(option, _)| options.has(&[option]));
        let mut of_kinds = of_kinds.map(|(_, is_kind)| *is_kind).peekable();
        let named = NAMED_TARGETS.iter().flat_map(|(option, is_kind)| {
            let patterns = options.values(option);
            patterns.map(move |pattern| (pattern, *is_kind))
        });
        let mut named = named.peekable();
        if of_kinds.peek().is_none() && named.peek().is_none() {
            return true;
        }
        of_kinds.any(has)
            || named.any(|(pattern, is_kind)| {
                let mut targets = package.targets.iter();
                targets.any(|target| is_kind(target) && matches(&pattern, &target.name))
            })
    }

    /// The call of `cargo tree` for one platform.
    fn tree(&self, scope: Scope, platform: &str, env: &Env) -> Invocation {
        let edges = match self.builds_tests() || scope == Scope::Workspace {
            true => "normal,build,dev",
            false => "normal,build",
        };
        let mut call = process::cargo(env, &["tree", "--quiet", "--prefix", "depth"]);
        call = call.args([
            "--format", "{p}|{f}", "--target", platform, "--edges", edges,
        ]);
        if let Some(manifest) = self.manifest {
            call = call.args(["--manifest-path".as_ref(), manifest.as_os_str()]);
        }
        call = call.args(self.options.resolver_arguments());
        match scope {
            Scope::Command => call.args(self.options.selection_arguments()),
            Scope::Workspace => call.args(["--workspace"]),
        }
    }
}

impl Selection {
    /// The packages of a command.
    ///
    /// # Errors
    /// Cargo's own message if it cannot resolve the packages.
    pub fn read(
        metadata: &Metadata,
        command: &CargoCommand<'_>,
        scope: Scope,
        env: &Env,
    ) -> Result<Self> {
        let platforms = match scope {
            Scope::Command => command.platforms(),
            Scope::Workspace => PLATFORMS_OF_LOCKS.map(str::to_owned).to_vec(),
        };
        let mut packages = BTreeSet::new();
        for platform in platforms {
            let call = command.tree(scope, &platform, env);
            let finished = call.run()?;
            if !finished.success {
                let text = finished.stderr.trim().trim_start_matches("error: ");
                let hint = format!("correct what cargo reports; the command was `{call}`");
                return Err(Failure::other(text).hint(hint));
            }
            let tree = Tree::parse(&finished.stdout);
            let roots = match scope {
                Scope::Command => tree.roots_of(command, metadata),
                Scope::Workspace => tree.roots.clone(),
            };
            packages.extend(tree.reachable_from(&roots));
        }
        Ok(Self {
            packages: packages.into_iter().collect(),
        })
    }

    pub fn contains(&self, package: &Package) -> bool {
        self.packages.iter().any(|selected| selected.is(package))
    }
}

/// What `cargo tree` has printed.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<SelectedPackage>,
    /// The packages that the command selects, as indices of nodes.
    roots: Vec<usize>,
    /// The dependencies of each node.
    dependencies: BTreeMap<usize, BTreeSet<usize>>,
}

impl Tree {
    /// Reads lines such as `1serde v1.0.228|default,std`: the depth, the package and its features. A line that ends in
    /// ` (*)` repeats a package whose dependencies were printed before.
    fn parse(text: &str) -> Self {
        let mut tree = Self::default();
        let mut indices = BTreeMap::new();
        // The node of the last line at each depth.
        let mut path: Vec<usize> = Vec::new();
        for line in text.lines() {
            let Some((depth, package)) = parse_line(line) else {
                continue;
            };
            let index = *indices.entry(package.clone()).or_insert_with(|| {
                tree.nodes.push(package);
                tree.nodes.len() - 1
            });
            path.truncate(depth);
            match path.last() {
                Some(parent) => _ = tree.dependencies.entry(*parent).or_default().insert(index),
                None => tree.roots.push(index),
            }
            path.push(index);
        }
        tree
    }

    /// The roots that own a target that the command builds.
    fn roots_of(&self, command: &CargoCommand<'_>, metadata: &Metadata) -> Vec<usize> {
        let owns_target = |root: &&usize| {
            let selected = &self.nodes[**root];
            let described = metadata.packages.iter().find(|it| selected.is(it));
            described.is_none_or(|package| command.builds_target_of(package))
        };
        let owners: Vec<usize> = self.roots.iter().filter(owns_target).copied().collect();
        match owners.is_empty() {
            // Cargo reports that there is no such target.
            true => self.roots.clone(),
            false => owners,
        }
    }

    /// The nodes that these nodes need, with the nodes themselves.
    fn reachable_from(&self, roots: &[usize]) -> Vec<SelectedPackage> {
        let mut reached = BTreeSet::new();
        let mut open = roots.to_vec();
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(self.dependencies.get(&node).into_iter().flatten());
            }
        }
        reached
            .into_iter()
            .map(|it| self.nodes[it].clone())
            .collect()
    }
}

fn parse_line(line: &str) -> Option<(usize, SelectedPackage)> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let depth = line[..digits].parse().ok()?;
    let line = &line[digits..];
    let line = line.strip_suffix(" (*)").unwrap_or(line);
    let (package, features) = line.rsplit_once('|')?;
    let (name, rest) = package.split_once(" v")?;
    let (version, source) = rest.split_once(' ').unwrap_or((rest, ""));
    let source = source.strip_prefix("(proc-macro)").unwrap_or(source);
    let source = source.trim_start();
    let source = source.strip_prefix('(').unwrap_or(source);
    let source = source.strip_suffix(')').unwrap_or(source);
    let features = features.split(',').filter(|feature| !feature.is_empty());
    Some((
        depth,
        SelectedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.to_owned(),
            features: features.map(str::to_owned).collect(),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_depth_package_source_and_features() {
        for (line, expected) in [
            (
                "0app v0.1.0 (/a b/app)|",
                Some((0, "app", "0.1.0", "/a b/app", "")),
            ),
            (
                "12serde v1.0.2|std,x-y (*)",
                Some((12, "serde", "1.0.2", "", "std,x-y")),
            ),
            (
                "1m v1.0.0-rc.1+b (proc-macro)|",
                Some((1, "m", "1.0.0-rc.1+b", "", "")),
            ),
            (
                "1m v1.0.0 (proc-macro) (/m)|a",
                Some((1, "m", "1.0.0", "/m", "a")),
            ),
            (
                "2g v1.0.0 (https://x.example/g?branch=a|b#0123)|",
                Some((2, "g", "1.0.0", "https://x.example/g?branch=a|b#0123", "")),
            ),
            (
                "0p v0.1.0 (/a/p (copy))|",
                Some((0, "p", "0.1.0", "/a/p (copy)", "")),
            ),
            ("", None),
            ("[dev-dependencies]", None),
        ] {
            let parsed = parse_line(line);
            let shown = parsed.as_ref().map(|(depth, package)| {
                let SelectedPackage {
                    name,
                    version,
                    source,
                    features,
                } = package;
                (
                    *depth,
                    name.as_str(),
                    version.as_str(),
                    source.as_str(),
                    features.join(","),
                )
            });
            let expected = expected.map(|(depth, name, version, source, features)| {
                (depth, name, version, source, features.to_owned())
            });
            assert_eq!(shown, expected, "{line}");
        }
    }

    #[test]
    fn a_repeated_package_keeps_its_dependencies() {
        let text = "0a v1.0.0 (/a)|\n1b v1.0.0|\n2c v1.0.0|\n\n0d v1.0.0 (/d)|\n1b v1.0.0| (*)\n";
        let tree = Tree::parse(text);
        let names = |roots: &[usize]| {
            let reached = tree.reachable_from(roots).into_iter();
            reached.map(|it| it.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&tree.roots), "a b c d");
        assert_eq!(names(&tree.roots[1..]), "b c d");
    }
}

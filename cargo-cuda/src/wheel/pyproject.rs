//! `pyproject.toml`: the keys of maturin that `cargo cuda` has to know. maturin itself reads all keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::Root;
use pep440_rs::VersionSpecifiers;
use serde::Deserialize;

use crate::requirement::Requirement;

/// A `pyproject.toml`. A key that cannot be parsed is ignored here, because maturin reports it.
#[derive(Clone, Debug)]
pub struct Pyproject {
    /// The directory that contains the file.
    pub directory: PathBuf,
    requires: Vec<String>,
    has_table: bool,
    maturin: Table,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Document {
    build_system: BuildSystem,
    tool: Tool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BuildSystem {
    requires: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tool {
    maturin: Option<Table>,
}

/// The table `[tool.maturin]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Table {
    module_name: Option<String>,
    manifest_path: Option<PathBuf>,
    profile: Option<String>,
    rustc_args: Vec<String>,
    /// A feature is a string, or a table with the Python versions that enable it.
    features: Vec<toml::Value>,
    all_features: bool,
    no_default_features: bool,
    config: Vec<String>,
    locked: bool,
    frozen: bool,
}

impl Pyproject {
    /// Reads the file in `directory`; `None` if there is none.
    pub fn read(root: &Root, directory: &Path) -> Option<Self> {
        let text = root.text(&directory.join("pyproject.toml")).ok()?;
        Some(Self::parse(&text, directory))
    }

    fn parse(text: &str, directory: &Path) -> Self {
        let document: Document = toml::from_str(text).unwrap_or_default();
        Self {
            directory: directory.to_owned(),
            requires: document.build_system.requires,
            has_table: document.tool.maturin.is_some(),
            maturin: document.tool.maturin.unwrap_or_default(),
        }
    }

    /// The file of the crate at `manifest`, which maturin searches in the crate's directory and its parents up to the
    /// parent of `workspace`, the workspace's root. Above that, a file counts if its `manifest-path` names the crate.
    pub fn of_crate(root: &Root, manifest: &Path, workspace: &Path) -> Option<Self> {
        let limit = workspace.parent().unwrap_or(workspace);
        let found = |directory: &Path| Self::read(root, directory);
        manifest
            .ancestors()
            .skip(1)
            .filter_map(|directory| found(directory).map(|file| (directory, file)))
            .find(|(directory, file)| directory.starts_with(limit) || file.names(root, manifest))
            .map(|(_, file)| file)
    }

    /// Whether maturin finds this file if it gets only the path of the crate's `Cargo.toml`.
    pub fn is_found_from_crate(&self, workspace: &Path) -> bool {
        self.directory
            .starts_with(workspace.parent().unwrap_or(workspace))
    }

    /// Whether the file is for maturin and for the crate at `manifest`: `manifest-path` names the crate, or the file is
    /// in the crate's directory.
    pub fn builds(&self, root: &Root, manifest: &Path) -> bool {
        let is_for_maturin = self.has_table || self.maturin_requirement().is_some();
        is_for_maturin
            && match self.manifest() {
                Some(_) => self.names(root, manifest),
                None => manifest.parent() == Some(self.directory.as_path()),
            }
    }

    fn names(&self, root: &Root, manifest: &Path) -> bool {
        self.manifest()
            .is_some_and(|named| root.resolve(&named) == root.resolve(manifest))
    }

    /// The `Cargo.toml` that `manifest-path` names.
    pub fn manifest(&self) -> Option<PathBuf> {
        let named = self.maturin.manifest_path.as_ref()?;
        Some(self.directory.join(named))
    }

    /// Cargo's profile, if the file has one.
    pub fn profile(&self) -> Option<&str> {
        self.maturin.profile.as_deref()
    }

    /// Arguments for rustc. maturin ignores them if it gets others on the command line.
    pub fn rustc_args(&self) -> &[String] {
        &self.maturin.rustc_args
    }

    /// How many directories below site-packages the native module probably is: one for each dot in `module-name`.
    /// Without a dot, maturin makes a package around the module.
    pub fn module_depth(&self) -> usize {
        let name = self.maturin.module_name.as_deref().unwrap_or_default();
        name.matches('.').count().max(1)
    }

    /// The versions of maturin that `[build-system] requires` accepts, if it bounds them.
    pub fn maturin_versions(&self) -> Option<VersionSpecifiers> {
        let versions = self.maturin_requirement()?.versions;
        versions.filter(|versions| !versions.is_empty())
    }

    fn maturin_requirement(&self) -> Option<Requirement> {
        let requires = self.requires.iter();
        let mut requires = requires.filter_map(|line| Requirement::parse(line).ok());
        requires.find(|requirement| requirement.name == "maturin")
    }

    /// The options for cargo that maturin takes from this file and adds to the user's `options`. maturin ignores
    /// `features` in the file if the user passes `--features`.
    pub fn cargo_options(&self, options: &[OsString]) -> Vec<OsString> {
        let Table {
            features, config, ..
        } = &self.maturin;
        let is_given = |names: [&str; 2]| {
            options.iter().any(|option| {
                let option = option.to_string_lossy();
                names.iter().any(|name| option.starts_with(name))
            })
        };
        let mut added: Vec<OsString> = Vec::new();
        let plain: Vec<&str> = features.iter().filter_map(toml::Value::as_str).collect();
        if !plain.is_empty() && !is_given(["-F", "--features"]) {
            added.extend(["--features".into(), plain.join(",").into()]);
        }
        if !is_given(["--config"; 2]) {
            added.extend(
                config
                    .iter()
                    .flat_map(|value| ["--config".into(), value.into()]),
            );
        }
        for (name, is_set) in [
            ("--all-features", self.maturin.all_features),
            ("--no-default-features", self.maturin.no_default_features),
            ("--locked", self.maturin.locked),
            ("--frozen", self.maturin.frozen),
        ] {
            added.extend(is_set.then(|| name.into()));
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parse(text: &str) -> Pyproject {
        Pyproject::parse(text, Path::new("/p"))
    }

    #[test]
    fn options_for_cargo_are_found() {
        let options = |passed: &str, text: &str| {
            let passed: Vec<OsString> = passed.split_whitespace().map(OsString::from).collect();
            let options = parse(text).cargo_options(&passed);
            options.join(OsStr::new(" ")).into_string().unwrap()
        };
        let project = "[tool.maturin]\nfeatures = ['pyo3/abi3', { feature = 'y', python-version = '>=3.11' }, 'x']\n\
                       no-default-features = true\nlocked = true\nconfig = ['a=1']\n";
        assert_eq!(
            options("", project),
            "--features pyo3/abi3,x --config a=1 --no-default-features --locked"
        );
        assert_eq!(
            options("--config=b -Fy", project),
            "--no-default-features --locked"
        );
        assert_eq!(options("", "[tool.maturin]\nall-features = false"), "");
        assert_eq!(options("--offline", "[tool"), "");
    }

    #[test]
    fn the_depth_follows_the_module_name() {
        for (name, depth) in [("saxpy", 1), ("saxpy._native", 1), ("acme.gpu._native", 2)] {
            let text = format!("[tool.maturin]\nmodule-name = '{name}'\n");
            assert_eq!(parse(&text).module_depth(), depth, "{name}");
        }
        assert_eq!(parse("").module_depth(), 1);
    }

    #[test]
    fn versions_of_maturin_are_read() {
        let versions = |line: &str| {
            let text = format!("[build-system]\nrequires = ['cffi', \"{line}\"]\n");
            parse(&text).maturin_versions().map(|v| v.to_string())
        };
        assert_eq!(
            versions("maturin>=1.9,<2").as_deref(),
            Some(">=1.9, <2"),
            "as in most projects"
        );
        assert_eq!(
            versions("Maturin[zig] ~=1.4 ; python_version > '3'").as_deref(),
            Some("~=1.4")
        );
        assert_eq!(versions("maturin"), None);
        assert_eq!(versions("maturin-import-hook>=1"), None);
    }

    #[test]
    fn the_file_of_a_crate_may_be_above_it() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            crate::output::write(&path, text.as_bytes()).unwrap();
        };
        let of = |manifest: &str, workspace: &str| {
            let at = |path: &str| place.path().join(path);
            let found = Pyproject::of_crate(&Root::system(), &at(manifest), &at(workspace));
            found.map(|file| {
                file.directory
                    .strip_prefix(place.path())
                    .unwrap()
                    .to_owned()
            })
        };
        write(
            "p/pyproject.toml",
            "[tool.maturin]\nmanifest-path = 'crates/py/Cargo.toml'\n",
        );
        write("p/crates/py/Cargo.toml", "");
        write("p/crates/other/Cargo.toml", "");
        let above = Some(PathBuf::from("p"));
        assert_eq!(of("p/crates/py/Cargo.toml", "p/crates/py"), above);
        assert_eq!(of("p/crates/other/Cargo.toml", "p/crates/other"), None);
        assert_eq!(of("p/crates/other/Cargo.toml", "p"), above);
        write("p/crates/other/pyproject.toml", "");
        assert_eq!(
            of("p/crates/other/Cargo.toml", "p"),
            Some("p/crates/other".into())
        );
    }
}

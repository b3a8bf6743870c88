//! `pyproject.toml`: the keys that `cargo cuda` has to know. maturin itself reads all of its keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_find_core::root::Root;
use serde::Deserialize;

use super::requirement::Requirement;
use crate::cargo_arguments::first_of;
use crate::failure::{Failure, Result};

/// A `pyproject.toml`. A file that cannot be parsed is empty here, because maturin reports the error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Pyproject {
    /// The directory that contains the file.
    #[serde(skip)]
    pub directory: PathBuf,
    build_system: BuildSystem,
    project: Option<ProjectTable>,
    tool: ToolTables,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct BuildSystem {
    requires: Vec<String>,
    build_backend: String,
    backend_path: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectTable {
    name: Option<String>,
    dynamic: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ToolTables {
    maturin: Option<MaturinTable>,
}

/// The table `[tool.maturin]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct MaturinTable {
    module_name: Option<String>,
    manifest_path: Option<PathBuf>,
    /// Cargo's profile.
    pub profile: Option<String>,
    /// Arguments for rustc. maturin ignores them if it gets others on the command line.
    pub rustc_args: Vec<String>,
    /// A feature is a string, or a table with the Python versions that enable it.
    features: Vec<toml::Value>,
    all_features: bool,
    no_default_features: bool,
    config: Vec<String>,
    locked: bool,
    frozen: bool,
    skip_auditwheel: bool,
    auditwheel: Option<String>,
}

impl Pyproject {
    /// Reads the file in `directory`; `None` if there is none.
    pub fn read(root: &Root, directory: &Path) -> Option<Self> {
        let text = root.text(&directory.join("pyproject.toml")).ok()?;
        Some(Self::parse(&text, directory))
    }

    fn parse(text: &str, directory: &Path) -> Self {
        let mut pyproject: Self = toml::from_str(text).unwrap_or_default();
        directory.clone_into(&mut pyproject.directory);
        pyproject
    }

    /// The file of the crate at `manifest`, which maturin searches in the crate's directory and its parents up to the
    /// parent of `workspace`, the workspace's root. Above that, a file counts if its `manifest-path` names the crate.
    pub fn of_crate(root: &Root, manifest: &Path, workspace: &Path) -> Option<Self> {
        let directories = manifest.ancestors().skip(1);
        let mut files = directories.filter_map(|directory| Self::read(root, directory));
        files.find(|file| file.is_found_from_crate(workspace) || file.names(root, manifest))
    }

    /// Whether maturin finds this file if it gets only the path of the crate's `Cargo.toml`.
    pub fn is_found_from_crate(&self, workspace: &Path) -> bool {
        let highest = workspace.parent().unwrap_or(workspace);
        self.directory.starts_with(highest)
    }

    /// Whether the file is for maturin and for the crate at `manifest`: `manifest-path` names the crate, or the file is
    /// in the crate's directory.
    pub fn builds(&self, root: &Root, manifest: &Path) -> bool {
        let requires_maturin = |line: &String| {
            Requirement::parse(line).is_ok_and(|requirement| requirement.name == "maturin")
        };
        let mut requires = self.build_system.requires.iter();
        (self.tool.maturin.is_some() || requires.any(requires_maturin))
            && match self.manifest() {
                Some(_) => self.names(root, manifest),
                None => manifest.parent() == Some(self.directory.as_path()),
            }
    }

    /// Whether `[build-system]` requires other packages than maturin, which build scripts may import.
    pub fn requires_more_than_maturin(&self) -> bool {
        let mut requires = self.build_system.requires.iter();
        !requires.all(|line| Requirement::parse(line).is_ok_and(|it| it.name == "maturin"))
    }

    /// Fails if another program than maturin builds the package: what maturin would build is something else.
    pub fn check_backend(&self, root: &Root) -> Result<()> {
        let backend = &self.build_system.build_backend;
        if backend.is_empty() || backend == "maturin" || self.backend_file(root).is_some() {
            return Ok(());
        }
        let text = format!(
            "the build backend of {} is `{backend}`, and `cargo cuda wheel` builds with maturin",
            self.directory.join("pyproject.toml").display()
        );
        Err(Failure::configuration(text).hint(
            "build the wheel as usual, and rewrite it: `cargo cuda wheel --from-wheel <wheel> --cuda <major>`",
        ))
    }

    fn names(&self, root: &Root, manifest: &Path) -> bool {
        let named = self.manifest().map(|named| root.resolve(&named));
        named == Some(root.resolve(manifest))
    }

    /// The table `[tool.maturin]`.
    pub fn maturin(&self) -> MaturinTable {
        self.tool.maturin.clone().unwrap_or_default()
    }

    /// The `Cargo.toml` that `manifest-path` names.
    pub fn manifest(&self) -> Option<PathBuf> {
        let named = self.tool.maturin.as_ref()?.manifest_path.as_ref()?;
        Some(self.directory.join(named))
    }

    /// The name of the distribution, if the file has it.
    pub fn name(&self) -> Option<&str> {
        self.project.as_ref()?.name.as_deref()
    }

    /// Fails if a frontend may take the requirements from `pyproject.toml` instead of the build backend.
    pub fn check_dynamic(&self) -> Result<()> {
        let is_dynamic =
            |project: &ProjectTable| project.dynamic.iter().any(|field| field == "dependencies");
        if self.project.as_ref().is_none_or(is_dynamic) {
            return Ok(());
        }
        let text = "`dependencies` in pyproject.toml is not dynamic, but the package requires NVIDIA's packages for \
                    its CUDA major";
        Err(Failure::configuration(text).hint(
            "write `dynamic = [\"dependencies\"]` below `[project]`, and move requirements of your own to \
             `dependencies` in `[package.metadata.cuda]` of Cargo.toml",
        ))
    }

    /// The file of a build backend in the source tree, relative to the directory of `pyproject.toml`.
    pub fn backend_file(&self, root: &Root) -> Option<PathBuf> {
        let mut names = self.build_system.build_backend.split(':');
        let name = names.next().filter(|name| !name.is_empty())?;
        let module = PathBuf::from(name.replace('.', "/"));
        let mut candidates = self.build_system.backend_path.iter().flat_map(|place| {
            // Without `.` components, as in the list of files of an archive.
            let parts = place.components().filter(|part| part.as_os_str() != ".");
            let module = parts.collect::<PathBuf>().join(&module);
            [module.with_extension("py"), module.join("__init__.py")]
        });
        candidates.find(|file| root.is_file(&self.directory.join(file)))
    }
}

impl MaturinTable {
    /// How many directories below site-packages the native module probably is: one for each dot in `module-name`.
    /// Without a dot, maturin makes a package around the module.
    pub fn module_depth(&self) -> usize {
        let name = self.module_name.as_deref().unwrap_or_default();
        name.matches('.').count().max(1)
    }

    /// Whether the wheel has the tag of this machine and no copied libraries, instead of a manylinux tag.
    pub fn skips_auditwheel(&self) -> bool {
        self.skip_auditwheel || self.auditwheel.as_deref() == Some("skip")
    }

    /// The options for cargo that maturin takes from this table and adds to the user's `options`. maturin ignores
    /// `features` in the table if the user passes `--features`.
    pub fn cargo_options(&self, options: &[OsString]) -> Vec<OsString> {
        let is_passed = |names: &[&str]| first_of(options, names).is_some();
        let mut added = Vec::new();
        let features = self.features.iter().filter_map(toml::Value::as_str);
        let features = crate::output::joined(features, ",");
        if !features.is_empty() && !is_passed(&["-F", "--features"]) {
            added.extend(["--features".into(), features.into()]);
        }
        if !is_passed(&["--config"]) {
            for value in &self.config {
                added.extend(["--config".into(), value.into()]);
            }
        }
        for (name, is_set) in [
            ("--all-features", self.all_features),
            ("--no-default-features", self.no_default_features),
            ("--locked", self.locked),
            ("--frozen", self.frozen),
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
            let options = parse(text).maturin().cargo_options(&passed);
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
            assert_eq!(parse(&text).maturin().module_depth(), depth, "{name}");
        }
        assert_eq!(parse("").maturin().module_depth(), 1);
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

    #[test]
    fn requirements_have_to_be_dynamic() {
        let check = |text: &str| parse(text).check_dynamic();
        assert!(check("[project]\nname = 'a'\ndynamic = ['version', 'dependencies']").is_ok());
        assert!(check("[build-system]").is_ok(), "all metadata is dynamic");
        for text in [
            "[project]\nname = 'a'\ndependencies = ['numpy']",
            "[project]\nname = 'a'\ndynamic = ['version']",
        ] {
            let error = check(text).unwrap_err();
            assert!(
                error.hints[0].contains("dynamic = [\"dependencies\"]"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_backend_in_the_source_tree_is_found() {
        let place = tempfile::tempdir().unwrap();
        for file in ["cuda_backend.py", "tools/build/__init__.py"] {
            crate::output::write(&place.path().join(file), b"").unwrap();
        }
        let file = |backend: &str, path: &str| {
            let text =
                format!("[build-system]\nbuild-backend = '{backend}'\nbackend-path = [{path}]");
            Pyproject::parse(&text, place.path()).backend_file(&Root::system())
        };
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!(file("cuda_backend", "'.'"), found("cuda_backend.py"));
        assert_eq!(
            file("build:hooks", "'.', './tools'"),
            found("tools/build/__init__.py")
        );
        assert_eq!(file("tools.build", "''"), found("tools/build/__init__.py"));
        assert_eq!(file("maturin", ""), None);
        assert_eq!(file("", "'.'"), None);
    }
}

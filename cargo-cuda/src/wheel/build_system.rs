//! What `pyproject.toml` declares for frontends such as pip and uv: the build backend, and what is dynamic.

use std::path::{Path, PathBuf};

use cuda_build::internal::Root;
use serde::Deserialize;

use crate::exit_code;
use crate::failure::Failure;

/// The tables of a `pyproject.toml`. A file that cannot be parsed is empty here, because maturin reports the error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct BuildSystem {
    build_system: Backend,
    project: Option<Project>,
    tool: Tool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Backend {
    build_backend: String,
    backend_path: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Project {
    name: Option<String>,
    dynamic: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Tool {
    maturin: Maturin,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Maturin {
    module_name: Option<String>,
}

impl BuildSystem {
    /// Reads the file in `directory`.
    pub fn read(root: &Root, directory: &Path) -> Self {
        let text = root.text(&directory.join("pyproject.toml"));
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        toml::from_str(text).unwrap_or_default()
    }

    /// The name of the distribution, if the file has it.
    pub fn name(&self) -> Option<&str> {
        self.project.as_ref()?.name.as_deref()
    }

    /// The name of the package that is imported, without its subpackages. By default, maturin takes that of the library.
    pub fn import_name<'a>(&'a self, library: &'a str) -> &'a str {
        let named = self.tool.maturin.module_name.as_deref();
        let first = named.and_then(|name| name.split('.').next());
        first.unwrap_or(library)
    }

    /// Fails if a frontend may take the requirements from `pyproject.toml` instead of the build backend.
    pub fn check_dynamic(&self) -> Result<(), Failure> {
        let is_dynamic = |project: &Project| project.dynamic.iter().any(|f| f == "dependencies");
        if self.project.as_ref().is_none_or(is_dynamic) {
            return Ok(());
        }
        Err(Failure::new(
            exit_code::CONFIGURATION,
            "`dependencies` in pyproject.toml is not dynamic, but the package requires NVIDIA's packages for its CUDA major",
        )
        .hint(
            "write `dynamic = [\"dependencies\"]` below `[project]`, and move requirements of your own to `dependencies` in \
             `[package.metadata.cuda]` of Cargo.toml",
        ))
    }

    /// The file of a build backend in the source tree, relative to `directory`, which contains `pyproject.toml`.
    pub fn backend_file(&self, root: &Root, directory: &Path) -> Option<PathBuf> {
        let Backend {
            build_backend,
            backend_path,
        } = &self.build_system;
        let module = build_backend.split(':').next()?;
        if module.is_empty() {
            return None;
        }
        let module = module.replace('.', "/");
        let candidates = backend_path.iter().flat_map(|place| {
            // Without `.` components, as in the list of files of an archive.
            let place: PathBuf = place
                .components()
                .filter(|c| c.as_os_str() != ".")
                .collect();
            [format!("{module}.py"), format!("{module}/__init__.py")].map(|file| place.join(file))
        });
        let mut files = candidates.filter(|file| root.is_file(&directory.join(file)));
        files.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_have_to_be_dynamic() {
        let check = |text: &str| BuildSystem::parse(text).check_dynamic();
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
            BuildSystem::parse(&text).backend_file(&Root::system(), place.path())
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

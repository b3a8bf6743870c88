//! The templates of `cargo cuda new` and `init`: the files of the crates in `templates/`, embedded in this program.

use clap::ValueEnum;
use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError};

/// A file: its path in the package, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub content: String,
}

/// The embedded files of a template.
struct Embedded {
    /// The name of the crate, which is replaced in all files.
    name: &'static str,
    manifest: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// One row for each template: its name on the command line is that of the enum's variant and of the directory in
/// `templates/`; then the name of the crate, and its files. They are read through links in `cargo-cuda/templates`:
/// cargo packages no file from outside of the package, and no directory with a file `Cargo.toml`.
macro_rules! templates {
    ($($(#[$attribute:meta])* $variant:ident $directory:literal $name:literal [$($file:tt),*],)*) => {
        /// A crate that is copied.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
        pub enum Template {
            $($(#[$attribute])* $variant,)*
        }

        impl Template {
            fn embedded(self) -> Embedded {
                match self {
                    $(Self::$variant => Embedded {
                        name: $name,
                        manifest: include_str!(concat!("../templates/", $directory, "/manifest.toml")),
                        files: &[$(templates!(@file $directory $file)),*],
                    },)*
                }
            }
        }
    };
    (@file $directory:literal ($path:literal from $link:literal)) => {
        ($path, include_str!(concat!("../templates/", $directory, "/", $link)))
    };
    (@file $directory:literal $path:literal) => { templates!(@file $directory ($path from $path)) };
}

templates! {
    /// Host and device code with `<<<…>>>` launches, compiled by nvcc and called from Rust
    #[default]
    Library "library" "native-app" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A kernel, launched with the crate cust
    ModuleCust "module-cust" "module-cust" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A kernel, launched with the crate cudarc; starts without a driver
    ModuleCudarc "module-cudarc" "module-cudarc" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A Python module with pyo3, one wheel per CUDA major
    Python "python" "saxpy" [
        // Git does not follow a link with the name of its own file.
        ".github/workflows/wheels.yml", (".gitignore" from "gitignore"), "build.rs", "cuda_backend.py",
        "kernels/axpy.cu", "pyproject.toml", "python/saxpy/__init__.py", "src/lib.rs", "tests/test_saxpy.py"
    ],
    /// A CMake project that uses CUDA
    Cmake "cmake" "cmake-app" ["build.rs", "native/CMakeLists.txt", "native/saxpy.cu", "src/main.rs"],
    /// A crate that links cuBLAS and passes the toolkit to its dependents
    Sys "sys" "linked-cublas" ["build.rs", "src/lib.rs", "tests/links.rs"],
}

impl Template {
    /// The name on the command line, which is also that of the directory in `templates/`.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the package is a library for other crates or for Python, and not a program.
    pub fn is_library(self) -> bool {
        let mut files = self.embedded().files.iter();
        files.any(|(path, _)| *path == "src/lib.rs")
    }

    /// `Cargo.toml` for a package of this name.
    pub fn manifest(self, package: &str) -> String {
        let embedded = self.embedded();
        renamed(embedded.manifest, embedded.name, package)
    }

    /// The other files for a package of this name.
    pub fn files(self, package: &str) -> Vec<File> {
        let embedded = self.embedded();
        let files = embedded.files.iter().map(|(path, content)| File {
            path: renamed(path, embedded.name, package),
            content: renamed(content, embedded.name, package),
        });
        files.collect()
    }
}

/// Replaces the name of a package: in TOML, as in `name = "my-app"`, in code, as in `use my_app`, and in the names of
/// variables, as in `DEP_MY_APP_ROOT`. A new name that contains the old one is not replaced again.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let [from_code, to_code] = [from, to].map(|name| name.replace('-', "_"));
    let names = [
        (format!("= \"{from}\""), format!("= \"{to}\"")),
        (from_code.to_uppercase(), to_code.to_uppercase()),
        (from_code, to_code),
    ];
    let mut renamed = String::new();
    let mut rest = text;
    loop {
        let found = names
            .iter()
            .filter_map(|(old, new)| Some((rest.split_once(old.as_str())?, new)));
        let Some(((before, after), new)) = found.min_by_key(|((before, _), _)| before.len()) else {
            return renamed + rest;
        };
        renamed.push_str(before);
        renamed.push_str(new);
        rest = after;
    }
}

/// The dotted keys that were added to a manifest, and those that have another value than in the template.
#[derive(Debug, Default)]
pub struct Changes {
    pub added: Vec<String>,
    pub different: Vec<String>,
}

/// Adds to `manifest` what the template's manifest has in addition, and keeps comments and format. `key` and `value`
/// are those of the dependency on cuda-build: `git` or `path`. `[lib]` is added only to a new package: other packages
/// and tests could not use the library.
pub fn add_to_manifest(
    manifest: &mut DocumentMut,
    template: &str,
    (key, value): (&str, &str),
    is_new: bool,
) -> Result<Changes, TomlError> {
    let mut template: DocumentMut = template.parse()?;
    template.remove("workspace");
    if !is_new {
        template.remove("lib");
    }
    if let Some(package) = template.get_mut("package").and_then(Item::as_table_mut) {
        package.retain(|key, _| ["links", "metadata"].contains(&key));
    }
    let dependencies = template.get_mut("build-dependencies");
    let dependency = dependencies.and_then(|table| table.get_mut("cuda-build"));
    if let Some(dependency) = dependency.and_then(Item::as_inline_table_mut) {
        dependency.remove("path");
        dependency.remove("version");
        dependency.insert(key, value.into());
        dependency.fmt();
    }
    let mut changes = Changes::default();
    merge(manifest.as_table_mut(), &template, "", &mut changes);
    Ok(changes)
}

fn merge(to: &mut dyn TableLike, from: &Table, prefix: &str, changes: &mut Changes) {
    for (key, item) in from {
        let name = format!("{prefix}{key}");
        match (to.get_mut(key), item) {
            (Some(existing), Item::Table(table)) if existing.is_table_like() => {
                if let Some(existing) = existing.as_table_like_mut() {
                    merge(existing, table, &format!("{name}."), changes);
                }
            }
            (Some(existing), item) if existing.to_string().trim() == item.to_string().trim() => {}
            (Some(_), _) => changes.different.push(name),
            (None, item) => {
                let mut item = item.clone();
                clear_positions(&mut item);
                // The key has the comment above the entry.
                let key = from.key(key).cloned().unwrap_or_else(|| key.into());
                if let toml_edit::Entry::Vacant(entry) = to.entry_format(&key) {
                    entry.insert(item);
                }
                changes.added.push(name);
            }
        }
    }
}

/// Puts an added table after the tables of the manifest. Otherwise it would keep its position in the template.
fn clear_positions(item: &mut Item) {
    if let Item::Table(table) = item {
        table.set_position(None);
        table.iter_mut().for_each(|(_, item)| clear_positions(item));
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "compares the embedded files with the directory"
)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn templates() -> impl Iterator<Item = Template> {
        Template::value_variants().iter().copied()
    }

    /// Files below `directory`, without outputs of builds and what belongs to the checkout alone.
    fn files(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let skipped = [
                "target",
                "dist",
                "__pycache__",
                "Cargo.lock",
                "cuda-toolkits.lock",
            ];
            if skipped.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            match entry.path().is_dir() {
                true => files(&entry.path(), &format!("{path}/"), found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn every_file_of_a_template_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates");
        for template in templates() {
            let directory = root.join(template.name());
            let mut expected = Vec::new();
            files(&directory, "", &mut expected);
            expected.sort();
            let name = template.embedded().name;
            let mut embedded = template.files(name);
            let manifest = template.manifest(name);
            embedded.push(File {
                path: "Cargo.toml".to_owned(),
                content: manifest,
            });
            embedded.sort_by(|a, b| a.path.cmp(&b.path));
            let paths: Vec<&str> = embedded.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, expected);
            for file in &embedded {
                let content = fs::read_to_string(directory.join(&file.path)).unwrap();
                assert!(content == file.content, "{}", file.path);
            }
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), templates().count());
    }

    /// All files for a package, each with its path.
    fn written(template: Template, name: &str) -> String {
        let files = template.files(name).into_iter();
        let texts = files.map(|file| format!("{}\n{}", file.path, file.content));
        template.manifest(name) + &texts.collect::<String>()
    }

    #[test]
    fn no_name_of_a_template_is_left() {
        for template in templates() {
            let name = template.embedded().name;
            let text = written(template, "my-package").to_lowercase();
            for name in [name.to_owned(), name.replace('-', "_")] {
                assert!(!text.contains(&name), "{name} in {text}");
            }
        }
    }

    #[test]
    fn a_new_name_may_contain_the_name_of_the_template() {
        for template in templates() {
            for name in ["my-saxpy", "saxpy2", "native-app-2", "x"] {
                let expected = written(template, "q-0")
                    .replace("q-0", name)
                    .replace("q_0", &name.replace('-', "_"))
                    .replace("Q_0", &name.replace('-', "_").to_uppercase());
                assert_eq!(written(template, name), expected);
            }
        }
    }

    #[test]
    fn a_name_is_written_as_each_language_needs_it() {
        let text = "name = \"a-sys\"\nuse a_sys;\nDEP_A_SYS_ROOT\n";
        assert_eq!(
            renamed(text, "a-sys", "b-c"),
            "name = \"b-c\"\nuse b_c;\nDEP_B_C_ROOT\n"
        );
    }

    const ORIGIN: (&str, &str) = ("git", "https://example.org/cuda-build");

    fn add(manifest: &str, template: Template, is_new: bool) -> (String, Changes) {
        let mut manifest: DocumentMut = manifest.parse().unwrap();
        let template = template.manifest("own");
        let changes = add_to_manifest(&mut manifest, &template, ORIGIN, is_new).unwrap();
        (manifest.to_string(), changes)
    }

    #[test]
    fn comments_and_format_stay() {
        let manifest = "# Ours.\n[package]\nname    = 'own' # as published\nedition = \"2024\"\n\n[dependencies]\n\
             # Fast.\nlibm = '0.2'\n\n[build-dependencies]\ncc = \"1\"\n\n[profile.release]\nlto = true\n";
        let (changed, changes) = add(manifest, Template::ModuleCust, false);
        let lines = changed
            .lines()
            .filter(|line| !line.starts_with("capabilities"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(
            lines.join("\n"),
            "# Ours.\n[package]\nname    = 'own' # as published\nedition = \"2024\"\n\n[package.metadata.cuda]\n\n\
             [dependencies]\n# Fast.\nlibm = '0.2'\ncust = \"0.3\"\n\n\
             [build-dependencies]\ncc = \"1\"\ncuda-build = { git = \"https://example.org/cuda-build\" }\n\n\
             [profile.release]\nlto = true"
        );
        assert_eq!(
            changes.added,
            [
                "package.metadata",
                "dependencies.cust",
                "build-dependencies.cuda-build"
            ]
        );
        let (again, changes) = add(&changed, Template::ModuleCust, false);
        assert_eq!(again, changed);
        assert!(
            changes.added.is_empty() && changes.different.is_empty(),
            "{changes:?}"
        );
    }

    #[test]
    fn values_of_the_manifest_stay_and_are_reported() {
        let manifest = "[package]\nname = \"own\"\nmetadata.cuda.capabilities = [\"9.0\"]\n\
             [lib]\ncrate-type = [\"rlib\"]\n[build-dependencies]\ncuda-build = \"0.1\"\n";
        let (changed, changes) = add(manifest, Template::Python, true);
        assert!(changed.contains("metadata.cuda.capabilities = [\"9.0\"]\n"));
        assert!(changed.contains("[lib]\ncrate-type = [\"rlib\"]\n"));
        for key in [
            "package.metadata.cuda.capabilities",
            "lib.crate-type",
            "build-dependencies.cuda-build",
        ] {
            assert!(
                changes.different.iter().any(|different| different == key),
                "{changes:?}"
            );
        }
        let package = "[package]\nname = \"own\"\n";
        assert!(add(package, Template::Python, true).0.contains("cdylib"));
        assert!(!add(package, Template::Python, false).0.contains("cdylib"));
        let (sys, _) = add(package, Template::Sys, false);
        let dependency = "cuda-build = { default-features = false, git = \"https://";
        assert!(
            sys.contains(dependency) && sys.contains("links = \"own\""),
            "{sys}"
        );
    }
}

//! The templates of `cargo cuda new`: the files of the crates in `templates/`, embedded in this program.

use clap::ValueEnum;

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

    /// The manifest of a package of this name after the keys that `cargo new` writes. The dependency on cuda-build
    /// names its repository, and the package may be a member of a workspace.
    pub fn tables(self, package: &str) -> String {
        let manifest = self.manifest(package);
        let (_, tables) = manifest.split_once("publish = false\n").unwrap_or_default();
        let tables = tables.replace("\n# A workspace of its own.\n[workspace]\n", "");
        let repository = concat!("git = \"", env!("CARGO_PKG_REPOSITORY"), "\"");
        let path = "path = \"../../cuda-build\", version = \"0.1\"";
        tables.replace(path, repository)
    }

    /// The paths and contents of the other files for a package of this name.
    pub fn files(self, package: &str) -> Vec<(String, String)> {
        let embedded = self.embedded();
        let renamed = |text: &str| renamed(text, embedded.name, package);
        let files = embedded.files.iter();
        files
            .map(|(path, content)| (renamed(path), renamed(content)))
            .collect()
    }
}

/// Replaces the name of a package: in TOML, as in `name = "my-app"`, in code, as in `use my_app`, and in the names of
/// variables, as in `DEP_MY_APP_ROOT`.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let spellings = |name: &str| {
        let code = name.replace('-', "_");
        [format!("= \"{name}\""), code.to_uppercase(), code]
    };
    // The new name may contain the old one, which is not replaced again.
    let marks = ["\0toml\0", "\0variable\0", "\0code\0"];
    let mut renamed = text.to_owned();
    for (old, mark) in spellings(from).iter().zip(marks) {
        renamed = renamed.replace(old, mark);
    }
    for (mark, new) in marks.into_iter().zip(spellings(to)) {
        renamed = renamed.replace(mark, &new);
    }
    renamed
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

    /// The name on the command line, which is also that of the directory in `templates/`.
    fn directory_name(template: Template) -> String {
        template.to_possible_value().unwrap().get_name().to_owned()
    }

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
            let directory = root.join(directory_name(template));
            let mut expected = Vec::new();
            files(&directory, "", &mut expected);
            expected.sort();
            let name = template.embedded().name;
            let mut embedded = template.files(name);
            let manifest = template.manifest(name);
            embedded.push(("Cargo.toml".to_owned(), manifest));
            embedded.sort();
            let paths: Vec<&str> = embedded.iter().map(|(path, _)| path.as_str()).collect();
            assert_eq!(paths, expected);
            for (path, content) in &embedded {
                let expected = fs::read_to_string(directory.join(path)).unwrap();
                assert!(*content == expected, "{path}");
            }
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), templates().count());
    }

    /// All files for a package, each with its path.
    fn written(template: Template, name: &str) -> String {
        let files = template.files(name).into_iter();
        let texts = files.map(|(path, content)| format!("{path}\n{content}"));
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
}

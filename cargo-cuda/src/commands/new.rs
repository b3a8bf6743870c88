//! `cargo cuda new`: packages from the crates in `templates/`, which are embedded in this program.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cuda_find_core::{command, root::Root};

use crate::failure::{Failure, Result};
use crate::output;

/// One row for each template: the directory in `templates/`, the name of the crate, a command to start with, and the
/// files beside `Cargo.toml`. They are read through links in `cargo-cuda/templates`: cargo packages no file from
/// outside of the package and no directory with a file `Cargo.toml`, and Git does not follow a link `.gitignore`.
macro_rules! templates {
    ($($(#[$about:meta])* $variant:ident $directory:literal $name:literal $command:literal [$($file:literal),*],)*) => {
        /// A crate that is copied. Its name on the command line is that of the directory.
        #[derive(Clone, Copy, Debug, ValueEnum)]
        enum Template {
            $($(#[$about])* $variant,)*
        }

        /// The name, the command, and the path and text of each file.
        fn row(template: Template) -> (&'static str, &'static str, &'static [(&'static str, &'static str)]) {
            match template {
                $(Template::$variant => ($name, $command, &[
                    ("Cargo.toml", include_str!(concat!("../../templates/", $directory, "/manifest.toml"))),
                    $(($file, include_str!(concat!("../../templates/", $directory, "/", $file))),)*
                ]),)*
            }
        }
    };
}

templates! {
    /// Host and device code with `<<<…>>>` launches, compiled by nvcc and called from Rust
    Library "library" "native-app" "run" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A kernel, launched with the crate cust
    ModuleCust "module-cust" "module-cust" "run" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A kernel, launched with the crate cudarc; starts without a driver
    ModuleCudarc "module-cudarc" "module-cudarc" "run" ["build.rs", "kernels/saxpy.cu", "src/main.rs"],
    /// A Python module with pyo3, one wheel per CUDA major
    Python "python" "saxpy" "wheel" [
        ".github/workflows/wheels.yml", "gitignore", "build.rs", "cuda_backend.py", "kernels/axpy.cu",
        "pyproject.toml", "python/saxpy/__init__.py", "src/lib.rs", "tests/test_saxpy.py"
    ],
    /// A CMake project that uses CUDA
    Cmake "cmake" "cmake-app" "run" ["build.rs", "native/CMakeLists.txt", "native/saxpy.cu", "src/main.rs"],
    /// A crate that links cuBLAS and passes the toolkit to its dependents
    Sys "sys" "linked-cublas" "test" ["build.rs", "src/lib.rs", "tests/links.rs"],
}

/// Create a package that builds CUDA code
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// The directory to create, with the name of the package
    path: PathBuf,
    /// What the package contains
    #[arg(long, value_enum, default_value = "library")]
    template: Template,
}

/// Creates the package, and returns a text for the user.
pub fn new(arguments: &NewArgs, root: &Root) -> Result<String> {
    let path = &arguments.path;
    let name = output::file_name(path);
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_allowed) {
        let message = format!("`{name}` is not a valid name of a package");
        let hint = "a name has letters, digits, `-` and `_`, and starts with a letter";
        return Err(Failure::usage(message).hint(hint));
    }
    if root.is_file(path) || !root.names(path).is_empty() {
        let message = format!("{} exists, and is not an empty directory", path.display());
        return Err(Failure::usage(message).hint("give the path of a new directory"));
    }
    let (crate_name, next, files) = row(arguments.template);
    let repository = concat!("git = \"", env!("CARGO_PKG_REPOSITORY"), "\"");
    for (file, text) in files {
        let file = renamed(&file.replace("gitignore", ".gitignore"), crate_name, &name);
        let text = text.replace("path = \"../../cuda-build\", version = \"0.1\"", repository);
        let text = renamed(&text, crate_name, &name);
        output::write(&path.join(file), text.as_bytes())?;
    }
    let directory = command::quoted(path.as_os_str());
    // `--fetch` fetches a toolkit on a machine without CUDA.
    let commands = format!("  cd {directory}\n  cargo cuda {next} --fetch\n");
    Ok(format!("next commands:\n{commands}"))
}

/// Replaces the name of a package: in TOML, as in `name = "my-app"`, in names of variables, as in `DEP_MY_APP_ROOT`,
/// and in code, as in `use my_app`.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let [old, new] = [from, to].map(|name| name.replace('-', "_"));
    // The new name may contain the old one, which is not replaced again.
    let text = text.replace(&format!("= \"{from}\""), "= \"\0\"");
    let text = text.replace(&old.to_uppercase(), &new.to_uppercase());
    text.replace(&old, &new).replace('\0', to)
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "compares written files with those of the templates"
)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The text of each file below `directory`, without outputs of builds and what belongs to the checkout alone.
    fn files(directory: &Path, prefix: &str) -> BTreeMap<String, String> {
        let skipped = [
            "target",
            "dist",
            "__pycache__",
            "Cargo.lock",
            "cuda-toolkits.lock",
        ];
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{prefix}{name}");
            if entry.path().is_dir() && !skipped.contains(&name.as_str()) {
                found.extend(files(&entry.path(), &format!("{path}/")));
            } else if !skipped.contains(&name.as_str()) {
                found.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
        found
    }

    fn run(template: Template, path: PathBuf) -> Result<String> {
        new(&NewArgs { path, template }, &Root::system())
    }

    /// The files of a new package.
    fn written(template: Template, name: &str) -> BTreeMap<String, String> {
        let place = tempfile::tempdir().unwrap();
        run(template, place.path().join(name)).unwrap();
        files(&place.path().join(name), "")
    }

    #[test]
    fn under_its_own_name_a_package_has_the_files_of_the_template() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates");
        for template in Template::value_variants() {
            let directory = template.to_possible_value().unwrap();
            let mut expected = files(&root.join(directory.get_name()), "");
            let manifest = expected.get_mut("Cargo.toml").unwrap();
            let path = "{ path = \"../../cuda-build\", version = \"0.1\" }";
            let git = concat!("{ git = \"", env!("CARGO_PKG_REPOSITORY"), "\" }");
            assert!(manifest.contains(path) && manifest.ends_with("\n[workspace]\n"));
            *manifest = manifest.replace(path, git);
            assert_eq!(written(*template, row(*template).0), expected);
        }
        let directories = fs::read_dir(&root).unwrap().count();
        assert_eq!(directories, Template::value_variants().len());
    }

    #[test]
    fn no_name_of_a_template_is_left() {
        for template in Template::value_variants() {
            let name = row(*template).0;
            let text = format!("{:?}", written(*template, "my-package")).to_lowercase();
            for name in [name.to_owned(), name.replace('-', "_")] {
                assert!(!text.contains(&name), "{name} in {text}");
            }
        }
    }

    #[test]
    fn a_new_name_may_contain_the_name_of_the_template() {
        for template in Template::value_variants() {
            for name in ["my-saxpy", "saxpy2", "native_app-2", "Q_Linked_cublas", "x"] {
                let code = name.replace('-', "_");
                let renamed = |text: String| {
                    text.replace("q-0", name)
                        .replace("q_0", &code)
                        .replace("Q_0", &code.to_uppercase())
                };
                let other = written(*template, "q-0").into_iter();
                let expected = other.map(|(path, text)| (renamed(path), renamed(text)));
                assert_eq!(written(*template, name), expected.collect());
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

    #[test]
    fn other_names_and_full_directories_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = |name: &str, expected: &str| {
            let failure = run(Template::Library, place.path().join(name)).unwrap_err();
            assert_eq!(failure.code, crate::exit_code::USAGE);
            assert!(failure.message.contains(expected), "{failure}");
            assert_eq!(failure.hints.len(), 1);
        };
        for name in ["2fast", "-x", "my dir", "naïve", "a.b", ".."] {
            refused(name, "is not a valid name of a package");
        }
        fs::create_dir_all(place.path().join("full/src")).unwrap();
        fs::create_dir(place.path().join("empty")).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        for name in ["full", "file"] {
            refused(name, "exists, and is not an empty directory");
        }
        run(Template::Library, place.path().join("empty")).unwrap();
    }
}

//! What build scripts did, read from Cargo's target directory after a failed build.
//!
//! In `build/<package>-<hash>`, Cargo writes `invoked.timestamp` when it starts a script, and `output`, with what the
//! script printed, after the script has succeeded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::internal::Root;

#[derive(Debug, Default)]
pub struct Scripts {
    /// The libraries that scripts have passed to rustc, as in `-l<name>`.
    pub linked: BTreeSet<String>,
    /// The packages whose script failed.
    pub failed: BTreeSet<String>,
}

impl Scripts {
    /// Reads the scripts of a target directory. Scripts that were started before `began` did not fail in this build.
    pub fn read(root: &Root, target: &Path, began: SystemTime) -> Self {
        let mut scripts = Self::default();
        for directory in script_directories(root, target) {
            let time = |name: &str| root.metadata(&directory.join(name)).ok()?.modified().ok();
            let (started, ended) = (time("invoked.timestamp"), time("output"));
            if started.is_some_and(|started| started >= began) && ended < started {
                scripts.failed.extend(package(&directory));
            }
            let output = root.text(&directory.join("output")).unwrap_or_default();
            scripts.linked.extend(output.lines().filter_map(library));
        }
        scripts
    }
}

/// `<target>/<profile>/build/*`, and `<target>/<triple>/<profile>/build/*`.
fn script_directories(root: &Root, target: &Path) -> Vec<PathBuf> {
    let below = |directory: &Path| -> Vec<PathBuf> {
        let names = root.names(directory).into_iter();
        names.map(|name| directory.join(name)).collect()
    };
    let first = below(target);
    let second = first.iter().flat_map(|directory| below(directory));
    let profiles = first.iter().cloned().chain(second);
    profiles
        .flat_map(|profile| below(&profile.join("build")))
        .collect()
}

/// `blas-sys` from `blas-sys-0123456789abcdef`.
fn package(directory: &Path) -> Option<String> {
    let (package, _) = directory.file_name()?.to_str()?.rsplit_once('-')?;
    Some(package.to_owned())
}

/// The name in `cargo::rustc-link-lib=[KIND[:MODIFIERS]=]NAME[:RENAME]`, with one colon or two.
fn library(line: &str) -> Option<String> {
    let line = line.strip_prefix("cargo:")?;
    let value = line
        .trim_start_matches(':')
        .strip_prefix("rustc-link-lib=")?;
    let name = value.rsplit('=').next()?;
    let name = name.rsplit(':').next()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn libraries_of_every_form() {
        for (line, expected) in [
            ("cargo:rustc-link-lib=cublas", Some("cublas")),
            ("cargo::rustc-link-lib=dylib=cublas", Some("cublas")),
            (
                "cargo:rustc-link-lib=static:+whole-archive,-bundle=culibos",
                Some("culibos"),
            ),
            ("cargo:rustc-link-lib=static=internal:cufft", Some("cufft")),
            ("cargo:rustc-link-search=native=/lib", None),
            ("rustc-link-lib=cublas", None),
        ] {
            assert_eq!(library(line).as_deref(), expected, "{line}");
        }
    }
}

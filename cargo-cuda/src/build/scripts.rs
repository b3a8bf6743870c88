//! What build scripts did, read from Cargo's target directory after a failed build.
//!
//! In `build/<package>-<hash>`, Cargo writes `invoked.timestamp` when it starts a script, and `output`, with what the
//! script printed, after the script has succeeded.

use std::collections::{BTreeMap, BTreeSet};
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
        let mut newest = BTreeMap::new();
        for directory in script_directories(root, target) {
            let time = |name: &str| root.metadata(&directory.join(name)).ok()?.modified().ok();
            let (Some(package), Some(started)) = (package(&directory), time("invoked.timestamp"))
            else {
                continue;
            };
            if started >= began && time("output") < Some(started) {
                scripts.failed.insert(package.clone());
            }
            let other = newest.entry(package).or_insert((started, PathBuf::new()));
            if other.0 <= started {
                *other = (started, directory);
            }
        }
        // A package has other directories of builds with other features.
        for (_, directory) in newest.into_values() {
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
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use cuda_build::internal::Root;

    use super::{Scripts, library};

    #[test]
    fn of_two_builds_of_a_package_the_newer_counts() {
        let target = tempfile::tempdir().unwrap();
        let began = SystemTime::now();
        let script = |hash: &str, age: u64, output: Option<&str>| {
            let directory = target.path().join(format!("debug/build/blas-sys-{hash}"));
            fs::create_dir_all(&directory).unwrap();
            let started = fs::File::create(directory.join("invoked.timestamp")).unwrap();
            started
                .set_modified(began - Duration::from_secs(age))
                .unwrap();
            if let Some(output) = output {
                fs::write(directory.join("output"), output).unwrap();
            }
        };
        let read = || Scripts::read(&Root::system(), target.path(), began);
        script("1", 9, Some("cargo::rustc-link-lib=cufft\n"));
        assert!(read().linked.contains("cufft"));
        script("2", 5, Some("cargo::rustc-link-lib=cublas\n"));
        assert!(read().linked.iter().eq(["cublas"]));
        script("3", 5, None);
        assert!(read().failed.is_empty(), "an older build");
        script("4", 0, None);
        assert!(read().failed.iter().eq(["blas-sys"]));
    }

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

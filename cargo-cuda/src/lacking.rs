//! Hints after a failed build: the libraries that its build scripts link and the toolkit lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_find::detail::{component::Facts, root::Root, target::Target};

use crate::dependencies::ORDINARY_NAMES;
use crate::isolated_build::{Build, library_directories};
use crate::project::Project;

/// Names the libraries that are missing, and what adds them.
pub fn hints(build: &Build, project: &Project) -> Vec<String> {
    let version = build.toolkit.version();
    let linked = linked_libraries(&project.root, &build.directory.path);
    let (mut absent, mut archives) = (Vec::new(), Vec::new());
    for facts in Component::all().map(Component::facts) {
        // `-lOpenCL` of the system is no part of CUDA.
        if facts.package(version.major).is_none() || ORDINARY_NAMES.contains(&facts.component) {
            continue;
        }
        let found = build.toolkit.get(facts.component);
        let is_absent = found.is_none_or(|found| found.libraries.is_empty());
        let mut shared = facts.libraries.iter();
        if is_absent
            && shared.any(|name| {
                linked.contains(*name) && !is_installed(&project.root, &project.target, name)
            })
        {
            absent.push(facts);
        }
        let missing = static_names(facts).filter(|name| {
            linked.contains(*name) && !build.view.contains(format!("lib/lib{name}.a"))
        });
        // A component with static libraries alone, such as culibos, is added like any other.
        match facts.libraries {
            [] => absent.extend(missing.take(1).map(|_| facts)),
            _ => archives.extend(missing),
        }
    }
    let mut hints = Vec::new();
    if !absent.is_empty() {
        let ids: Vec<&str> = absent.iter().map(|facts| facts.id).collect();
        hints.push(format!(
            "a build script links {}, which this CUDA {version} does not have; declare what it needs in \
             `[package.metadata.cuda]`, as in `components = {ids:?}`, run `cargo cuda fetch`, and commit \
             cuda-toolkits.lock",
            ids.join(", ")
        ));
    }
    if !archives.is_empty() {
        hints.push(format!(
            "a build script links {}, and this CUDA {version} has no such static library; the Python packages do not \
             contain them. Enable the crate's feature for dynamic linking (`dynamic-link`, `dynamic-linking` or \
             similar), or set CUDA_BUILD_ROOTS or CUDA_PATH to a toolkit that has them: from NVIDIA's installer or \
             redist archives, from Debian, or from conda with the `-static` packages",
            archives.join(", ")
        ));
    }
    hints
}

/// The names of a component's static libraries, as in `-l<name>`.
fn static_names(facts: &Facts) -> impl Iterator<Item = &'static str> + use<> {
    let files = facts.archives.iter();
    files.map(|file| file.trim_start_matches("lib").trim_end_matches(".a"))
}

/// Whether the linker finds a library without CUDA's directories, as a cuDNN of the distribution.
fn is_installed(root: &Root, target: &Target, name: &str) -> bool {
    let mut directories = library_directories(root, target);
    directories.any(|directory| root.is_file(&directory.join(format!("lib{name}.so"))))
}

/// The libraries that build scripts have passed to rustc, as in `-l<name>`. Cargo writes what a script has printed to
/// `<target>/<profile>/build/<package>-<hash>/output`, or below `<target>/<triple>`.
fn linked_libraries(root: &Root, target: &Path) -> BTreeSet<String> {
    let below = |directory: &Path| -> Vec<PathBuf> {
        let names = root.names(directory).into_iter();
        names.map(|name| directory.join(name)).collect()
    };
    let profiles = below(target);
    let profiles = profiles.iter().flat_map(|path| below(path));
    let builds = below(target).into_iter().chain(profiles);
    // The newest build of each package. The others were made with other features.
    let mut newest = BTreeMap::new();
    for directory in builds.flat_map(|profile| below(&profile.join("build"))) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let started = root.metadata(&directory.join("invoked.timestamp"));
        if let (Some((package, _)), Ok(started)) = (name.rsplit_once('-'), started) {
            let started = started.modified().ok();
            let build = newest.entry(package.to_owned()).or_default();
            *build = std::cmp::max((started, directory.clone()), std::mem::take(build));
        }
    }
    // What a script has printed is written when it succeeds: an older file is of an earlier run than the one that failed.
    let outputs = newest.into_values().filter_map(|(started, directory)| {
        let output = directory.join("output");
        let written = root.metadata(&output).ok()?.modified().ok();
        (written >= started).then(|| root.text(&output).ok())?
    });
    outputs
        .flat_map(|output| output.lines().filter_map(library).collect::<Vec<_>>())
        .collect()
}

/// The name in `cargo::rustc-link-lib=[KIND[:MODIFIERS]=]NAME[:RENAME]`, with one colon or two.
fn library(line: &str) -> Option<String> {
    let line = line.strip_prefix("cargo:")?.trim_start_matches(':');
    let value = line.strip_prefix("rustc-link-lib=")?;
    let name = value.rsplit(['=', ':']).next()?;
    Some(name.to_owned())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn of_two_builds_of_a_package_the_newer_counts() {
        let target = tempfile::tempdir().unwrap();
        for (profile, hash, age, library) in [
            ("debug", "1", 9, "cufft"),
            ("debug", "3", 5, "cublas"),
            ("x86_64-unknown-linux-gnu/release", "2", 7, "cusolver"),
        ] {
            let directory = target
                .path()
                .join(format!("{profile}/build/blas-sys-{hash}"));
            fs::create_dir_all(&directory).unwrap();
            let started = fs::File::create(directory.join("invoked.timestamp")).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            started.set_modified(time).unwrap();
            let output = format!("cargo::rustc-link-lib={library}\n");
            fs::write(directory.join("output"), output).unwrap();
        }
        let linked = || linked_libraries(&Root::system(), target.path());
        assert_eq!(linked(), BTreeSet::from(["cublas".to_owned()]));
        // The next run of the same script fails.
        let started = target
            .path()
            .join("debug/build/blas-sys-3/invoked.timestamp");
        let started = fs::File::options().append(true).open(started).unwrap();
        let later = SystemTime::now() + Duration::from_secs(1);
        started.set_modified(later).unwrap();
        assert_eq!(linked(), BTreeSet::new());
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

//! Hints after a failed build: the libraries that its build scripts link and the toolkit lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::Component;
use cuda_find::detail::root::Root;

use crate::dependencies::ORDINARY_NAMES;
use crate::isolated_build::Build;

/// Names the libraries that are missing, and the command or the setting that adds them.
pub fn hints(build: &Build, root: &Root) -> Vec<String> {
    let version = build.toolkit.version();
    let linked = linked_libraries(root, &build.directory.path);
    let (mut components, mut archives) = (Vec::new(), Vec::new());
    for facts in Component::all().map(Component::facts) {
        // `-lOpenCL` links the system's library.
        if facts.package(version.major).is_none() || ORDINARY_NAMES.contains(&facts.component) {
            continue;
        }
        let found = build.toolkit.get(facts.component);
        let has_libraries = found.is_some_and(|found| !found.libraries.is_empty());
        let mut shared = facts.libraries.iter();
        if !has_libraries && shared.any(|name| linked.contains(*name)) {
            components.push(facts.id);
        }
        let files = facts.archives.iter();
        let names = files.map(|file| file.trim_start_matches("lib").trim_end_matches(".a"));
        let mut missing = names.filter(|name| {
            linked.contains(*name) && !build.view.contains(format!("lib/lib{name}.a"))
        });
        // A component that has only static libraries, such as culibos, can be fetched like any other.
        match facts.libraries {
            [] => components.extend(missing.next().map(|_| facts.id)),
            _ => archives.extend(missing),
        }
    }
    let mut hints = Vec::new();
    if !components.is_empty() {
        hints.push(format!(
            "a build script links {}, which this CUDA {version} does not have; declare \
             `components = {components:?}` in `[package.metadata.cuda]`, and run `cargo cuda fetch`",
            components.join(", ")
        ));
    }
    if !archives.is_empty() {
        hints.push(format!(
            "a build script links {}, but this CUDA {version} has no such static library, and the Python packages of \
             CUDA do not contain static libraries; enable the crate's feature for dynamic linking, or name a toolkit \
             of NVIDIA's installer in `CUDA_BUILD_ROOTS`",
            archives.join(", ")
        ));
    }
    hints
}

/// The libraries that build scripts have passed to rustc, as in `-l<name>`. Cargo writes what a script has printed to
/// `<target>/<profile>/build/<package>-<hash>/output`, or below `<target>/<triple>`.
fn linked_libraries(root: &Root, target: &Path) -> BTreeSet<String> {
    let below = |directory: &Path| -> Vec<PathBuf> {
        let names = root.names(directory).into_iter();
        names.map(|name| directory.join(name)).collect()
    };
    let changed = |file: PathBuf| root.metadata(&file).ok()?.modified().ok();
    let profiles = below(target);
    let profiles_of_triples = profiles.iter().flat_map(|triple| below(triple));
    let profiles = profiles.clone().into_iter().chain(profiles_of_triples);
    // Only the newest build of each package counts, because the others had other features.
    let mut newest: BTreeMap<String, (SystemTime, PathBuf)> = BTreeMap::new();
    for directory in profiles.flat_map(|profile| below(&profile.join("build"))) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let Some((package, _)) = name.rsplit_once('-') else {
            continue;
        };
        let Some(started) = changed(directory.join("invoked.timestamp")) else {
            continue;
        };
        let package = package.to_owned();
        if newest.get(&package).is_none_or(|(time, _)| *time < started) {
            newest.insert(package, (started, directory));
        }
    }
    // Cargo writes the file when the script succeeds. An older file is from a run before the one that failed.
    let outputs = newest.into_values().filter_map(|(started, directory)| {
        let output = directory.join("output");
        (changed(output.clone())? >= started).then(|| root.text(&output).ok())?
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

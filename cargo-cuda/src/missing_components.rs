//! What a failed build names and the toolkit lacks: headers, CMake targets, and libraries that build scripts link.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cuda_build::Component;
use cuda_build::compile::{header_hint, missing_headers};
use cuda_find_core::root::Root;

use crate::dependencies::{Guess, ORDINARY_NAMES};
use crate::isolated_build::IsolatedBuild;
use crate::output::joined;

#[derive(Debug, Default)]
pub struct MissingComponents {
    /// Those whose version the manifest need not give.
    pub components: Vec<Guess>,
    /// The commands or settings that add what is missing.
    pub hints: Vec<String>,
}

impl MissingComponents {
    /// `messages` is what cargo wrote to standard error; empty if that is not known.
    pub fn of(build: &IsolatedBuild, root: &Root, messages: &str) -> Self {
        let mut missing = Self::default();
        let major = build.toolkit.version().major;
        let mut headers = missing_headers(messages);
        headers.retain(|component, _| {
            build.toolkit.get(*component).is_none() && component.facts().package(major).is_some()
        });
        let targets = cmake_targets(messages);
        if !targets.is_empty() {
            missing.add_libraries(build, &targets, |_| true);
        } else if headers.is_empty() {
            let linked = linked_libraries(root, &build.directory.path);
            missing.add_libraries(build, &linked, |name: &str| {
                let texts = [format!("-l{name}"), format!("static library `{name}`")];
                messages.is_empty() || texts.iter().any(|text| messages.contains(text))
            });
        }
        for (component, header) in headers {
            if !component.facts().is_header_package() {
                missing.add(component, format!("`{header}` is missing"));
            }
            missing.hints.push(header_hint(component, header));
        }
        // The linker says that it is defined twice: in two crates, because cuda-build refuses it in one.
        if messages.contains("__cudaRegisterLinkedBinary_") {
            let hint = "two crates link the device code of one source: put the sources of both into one `Library`, \
                        because device code is linked within a library";
            missing.hints.push(hint.to_owned());
        }
        // cuda-build has printed this hint already.
        missing.hints.retain(|hint| !messages.contains(hint));
        missing
    }

    fn add(&mut self, component: Component, reason: String) {
        self.components.push(Guess {
            component,
            reason,
            is_loaded: false,
        });
    }

    /// Adds those of the libraries that the toolkit lacks, if `is_named` is true for one of them: the linker or rustc
    /// may stop at the first.
    fn add_libraries(
        &mut self,
        build: &IsolatedBuild,
        linked: &BTreeSet<String>,
        is_named: impl Fn(&str) -> bool,
    ) {
        let version = build.toolkit.version();
        let (mut components, mut archives) = (Vec::new(), Vec::new());
        for facts in Component::all().map(Component::facts) {
            // `-lOpenCL` links the system's library.
            if facts.package(version.major).is_none() || ORDINARY_NAMES.contains(&facts.component) {
                continue;
            }
            let found = build.toolkit.get(facts.component);
            // The toolkit has only the driver's headers; its library comes with the driver.
            let has_libraries =
                found.is_some_and(|found| facts.is_driver() || !found.libraries.is_empty());
            let mut shared = facts.libraries.iter().copied();
            if !has_libraries && let Some(name) = shared.find(|name| linked.contains(*name)) {
                components.push((facts.component, name));
            }
            let files = facts.archives.iter();
            let names = files.map(|file| file.trim_start_matches("lib").trim_end_matches(".a"));
            let mut missing = names.filter(|name| {
                linked.contains(*name) && !build.view.contains(format!("lib/lib{name}.a"))
            });
            // A component that has only static libraries, such as culibos, can be fetched like any other.
            match facts.libraries {
                [] => components.extend(missing.next().map(|name| (facts.component, name))),
                _ => archives.extend(missing),
            }
        }
        let mut names = components.iter().map(|(_, name)| name).chain(&archives);
        if !names.any(|name| is_named(name)) {
            return;
        }
        if !components.is_empty() {
            let ids: Vec<&str> = components.iter().map(|(c, _)| c.id()).collect();
            let names = ids.join(", ");
            self.hints.push(format!(
                "a build script links {names}, which this CUDA {version} does not have; declare \
                 `components = {ids:?}` in `[package.metadata.cuda]`, and run `cargo cuda fetch`"
            ));
        }
        if !archives.is_empty() {
            self.hints.push(format!(
                "a build script links {}, but this CUDA {version} has no such static library, and the Python packages \
                 of CUDA do not contain static libraries; enable the crate's feature for dynamic linking, or name a \
                 toolkit of NVIDIA's installer in `CUDA_BUILD_ROOTS`",
                archives.join(", ")
            ));
        }
        for (component, name) in components {
            self.add(component, format!("a build script links {name}"));
        }
    }
}

/// The libraries of the targets in CMake's `Target "a" links to target "CUDA::cublas" but the target was not found`,
/// and in the form of newer CMake, which puts the name into a line of its own.
fn cmake_targets(messages: &str) -> BTreeSet<String> {
    let words: Vec<&str> = messages.split_whitespace().collect();
    let missing = words
        .windows(4)
        .filter(|next| next[1..] == ["but", "the", "target"]);
    let names = missing.filter_map(|next| next[0].trim_matches('"').strip_prefix("CUDA::"));
    let library_of_target = |name: &str| {
        let mut others = Component::all().flat_map(|component| component.facts().cmake);
        let file = others.find(|(other, _)| *other == name)?.1.first()?;
        Path::new(file).file_stem()?.to_str()?.strip_prefix("lib")
    };
    names
        .map(|name| library_of_target(name).unwrap_or(name).to_owned())
        .collect()
}

/// The libraries that build scripts have passed to rustc, as in `-l<name>`. Cargo writes what a script has printed to
/// `<target>/<profile>/build/<package>-<hash>/output`, or below `<target>/<triple>`.
fn linked_libraries(root: &Root, target: &Path) -> BTreeSet<String> {
    let below = |directory: &Path| -> Vec<PathBuf> {
        let names = root.names(directory).into_iter();
        names.map(|name| directory.join(name)).collect()
    };
    let changed = |file: PathBuf| root.metadata(&file).ok()?.modified().ok();
    let mut profiles = below(target);
    profiles.extend(below(target).iter().flat_map(|triple| below(triple)));
    let directories = profiles
        .iter()
        .flat_map(|profile| below(&profile.join("build")));
    let mut runs: Vec<(SystemTime, PathBuf)> = directories
        .filter_map(|path| Some((changed(path.join("invoked.timestamp"))?, path)))
        .collect();
    runs.sort();
    // Only the newest build of each package counts, because the others had other features.
    let newest = runs.into_iter().filter_map(|(started, path)| {
        let (package, _) = path.file_name()?.to_str()?.rsplit_once('-')?;
        Some((package.to_owned(), (started, path)))
    });
    let newest: BTreeMap<String, (SystemTime, PathBuf)> = newest.collect();
    // Cargo writes the file when the script succeeds. An older file is from a run before the one that failed.
    let outputs = newest.into_values().filter_map(|(started, directory)| {
        let output = directory.join("output");
        (changed(output.clone())? >= started).then(|| root.text(&output).ok())?
    });
    let outputs = joined(outputs, "\n");
    outputs.lines().filter_map(linked_library).collect()
}

/// The name in `cargo::rustc-link-lib=[KIND[:MODIFIERS]=]NAME[:RENAME]`, with one colon or two.
fn linked_library(line: &str) -> Option<String> {
    let line = line.strip_prefix("cargo:")?.trim_start_matches(':');
    let value = line.strip_prefix("rustc-link-lib=")?;
    Some(value.rsplit(['=', ':']).next()?.to_owned())
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

    /// From CMake 3.22 and 4.4, below the indentation of cargo.
    #[test]
    fn cmake_targets_of_both_forms() {
        let old = |name: &str| {
            format!(
                "  CMake Error at CMakeLists.txt:4 (add_executable):\n    Target \"whisper\" links to target \
                 \"{name}\" but the target was not\n    found.  Perhaps a find_package() call is missing\n"
            )
        };
        let new = |name: &str| {
            format!(
                "  CMake Error at CMakeLists.txt:5 (target_link_libraries):\n    Target \"whisper\" links to:\n\n      \
                 {name}\n\n    but the target was not found.  Possible reasons include:\n"
            )
        };
        for (target, expected) in [
            ("CUDA::cublas", &["cublas"][..]),
            ("CUDA::cublasLt", &["cublasLt"]),
            ("CUDA::curand_static", &["curand_static"]),
            ("CUDA::culibos", &["culibos"]),
            ("CUDA::cupti", &["cupti"]),
            ("CUDA::nvml", &["nvidia-ml"]),
            ("CUDA::cuFile_static", &["cufile_static"]),
            ("OpenSSL::SSL", &[]),
        ] {
            for messages in [old(target), new(target)] {
                let found: Vec<String> = cmake_targets(&messages).into_iter().collect();
                assert_eq!(found, expected, "{messages}");
            }
        }
        assert_eq!(cmake_targets(&(old("CUDA::a") + &new("CUDA::b"))).len(), 2);
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
            assert_eq!(linked_library(line).as_deref(), expected, "{line}");
        }
    }
}

//! What a build that failed asked its toolkit for in vain, read from what Cargo keeps of the run:
//! each crate's messages in `.fingerprint`, what build scripts printed in `build`.
//!
//! Cargo has the terminal to itself, so its output is not read on the way. A Cargo that keeps
//! these files elsewhere leaves nothing to read, and then nothing is said.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cuda_build::component::{Bundle, Facts};
use cuda_build::{Component, Root, Toolkit, View};

use crate::graph::Graph;

/// What was asked for, and not found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Static libraries, as in `-l static=cublas_static`.
    pub archives: BTreeSet<String>,
    /// What the linker did not find, as in `-l cublas`.
    pub linked: BTreeSet<String>,
    /// Packages that asked for static libraries of CUDA's.
    pub by: BTreeSet<String>,
    /// Packages whose build scripts failed.
    pub scripts: BTreeSet<String>,
}

impl Missing {
    /// Reads what a run of Cargo's that began at `since` left below a profile's directory.
    #[must_use]
    pub fn read(root: &Root, profile: &Path, since: SystemTime) -> Self {
        // The clock that dates files lags a tick behind.
        let since = since
            .checked_sub(Duration::from_millis(20))
            .unwrap_or(since);
        let changed = |path: &Path| {
            root.metadata(path)
                .and_then(|metadata| metadata.modified())
                .ok()
        };
        let is_new = |path: &Path| changed(path).is_some_and(|time| time >= since);
        let mut missing = Self::default();
        let (units, runs) = (profile.join(".fingerprint"), profile.join("build"));
        for unit in root.names(&units) {
            let directory = units.join(&unit);
            let outputs = root
                .names(&directory)
                .into_iter()
                .map(|name| directory.join(name));
            let is_output = |path: &Path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("output-"))
            };
            for output in outputs.filter(|path| is_output(path) && is_new(path)) {
                let text = root.text(&output).unwrap_or_default();
                missing.add_messages(package(&unit.to_string_lossy()), &text);
            }
        }
        for run in root.names(&runs) {
            let directory = runs.join(&run);
            let (started, output) = (
                directory.join("invoked.timestamp"),
                directory.join("output"),
            );
            let name = run.to_string_lossy();
            // A script that ends well leaves what it printed, dated with its start.
            if is_new(&started) && changed(&output) < changed(&started) {
                missing.scripts.insert(package(&name).to_owned());
            }
            if missing.by.contains(package(&name)) {
                missing.add_directives(&root.text(&output).unwrap_or_default());
            }
        }
        missing
    }

    /// Adds what errors among rustc's messages, one JSON object a line, name as not found.
    fn add_messages(&mut self, package: &str, text: &str) {
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        for message in messages.filter(|message| message["level"] == "error") {
            let children = message["children"].as_array().into_iter().flatten();
            let texts = std::iter::once(&message)
                .chain(children)
                .filter_map(|m| m["message"].as_str());
            for text in texts {
                // rustc, looking for what goes into an rlib.
                for name in after(text, "could not find native static library `", &['`']) {
                    self.archives.insert(library(name).to_owned());
                    if archive(library(name)).is_some() {
                        self.by.insert(package.to_owned());
                    }
                }
                // lld, GNU ld and gold, mold.
                for mark in [
                    "unable to find library -l",
                    "cannot find -l",
                    "library not found: ",
                ] {
                    let names = after(text, mark, &[' ', '\n', ',']);
                    self.linked
                        .extend(names.map(|name| library(name.trim_end_matches(':')).to_owned()));
                }
            }
        }
    }

    /// Adds all static libraries that a build script named, where one of them was not found: rustc
    /// stops at the first.
    fn add_directives(&mut self, printed: &str) {
        let values = printed
            .lines()
            .filter_map(|line| line.split_once("rustc-link-lib=static"));
        let names = values
            .filter_map(|(_, rest)| rest.split_once('='))
            .map(|(_, name)| library(name.trim()));
        let names: Vec<&str> = names.collect();
        if names.iter().any(|name| self.archives.contains(*name)) {
            self.archives.extend(names.into_iter().map(str::to_owned));
        }
    }

    /// What to do about it. Nothing about what is not CUDA's, and nothing where the failure has
    /// another reason. `shared` are builds that share a directory with plain cargo.
    #[must_use]
    pub fn hints(
        &self,
        toolkit: &Toolkit,
        view: &View,
        graph: &Graph,
        shared: bool,
    ) -> Vec<String> {
        let version = toolkit.version();
        let all = self.archives.iter().chain(&self.linked);
        let archives = all.filter_map(|name| Some((name.as_str(), archive(name)?)));
        let (there, absent): (Vec<_>, Vec<_>) =
            archives.partition(|(name, _)| has_archive(view, name));
        // A package of their own, as culibos has for CUDA 13.
        let (packaged, nowhere): (Vec<_>, Vec<_>) = absent.iter().partition(|(_, facts)| {
            facts.libraries.is_empty() && facts.package(version.major).is_some()
        });
        let by: Vec<&str> = self.by.iter().map(String::as_str).collect();
        let by = if by.is_empty() {
            String::new()
        } else {
            format!(", asked for by {}", by.join(", "))
        };
        let mut hints = Vec::new();
        if !nowhere.is_empty() {
            let names = listed(nowhere.iter().map(|(name, _)| *name));
            hints.push(format!(
                "this CUDA {version} has no static {names}{by}; {ARCHIVES}"
            ));
        } else if !packaged.is_empty() {
            let names = listed(packaged.iter().map(|(name, _)| *name));
            let components = listed(packaged.iter().map(|(_, facts)| facts.id)).replace(' ', "");
            hints.push(format!(
                "this CUDA {version} has no static {names}{by}: `cargo cuda toolkit add {} --components {components}`",
                version.major
            ));
        }
        if shared && absent.is_empty() && !there.is_empty() {
            hints.push(format!(
                "this CUDA {version} has static {}, and rustc does not look for it in builds that are shared \
                 with plain cargo; with `--major {}` it does",
                listed(there.iter().map(|(name, _)| *name)),
                version.major
            ));
        }
        let has = |component| {
            toolkit
                .get(component)
                .is_some_and(|found| !found.libraries.is_empty())
        };
        let components = self.unlinked(version.major, has);
        if !components.is_empty() {
            hints.push(format!(
                "this CUDA {version} has no shared library of {}: `cargo cuda toolkit add {} --components {}`",
                components.join(", "),
                version.major,
                components.join(",")
            ));
        }
        let named = |other: &str| {
            self.scripts
                .iter()
                .any(|script| other.split(' ').next() == Some(script))
        };
        let scripts: Vec<&str> = graph
            .others
            .iter()
            .map(|other| other.name.as_str())
            .filter(|name| named(name))
            .collect();
        if hints.is_empty() && !scripts.is_empty() {
            hints.extend(lacks(toolkit, view, &scripts.join(", ")));
        }
        hints
    }

    /// Components whose shared libraries the linker did not find, that are not there, and that
    /// `toolkit add` has for this major.
    fn unlinked(&self, major: u32, has: impl Fn(Component) -> bool) -> Vec<&'static str> {
        // Every vendor has an OpenCL: that one is missing does not say that CUDA's was meant.
        let known =
            |facts: &&Facts| facts.component != Component::Opencl && facts.package(major).is_some();
        let component =
            |name: &String| toolkits().find(|facts| facts.libraries.contains(&name.as_str()));
        let absent = self
            .linked
            .iter()
            .filter_map(component)
            .filter(known)
            .filter(|f| !has(f.component));
        absent
            .map(|facts| facts.id)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

/// What to do without static libraries.
const ARCHIVES: &str = "Python's packages don't carry them. Switch on that crate's feature for linking \
                        dynamically (`dynamic-link`, `dynamic-linking` or the like), or name a toolkit that has \
                        them with CUDA_BUILD_ROOTS or CUDA_PATH: of NVIDIA's installer, its redist archives, \
                        Debian's, or conda's with the `-static` packages";

/// What a script that failed may have looked for: it alone knows.
fn lacks(toolkit: &Toolkit, view: &View, scripts: &str) -> Vec<String> {
    let version = toolkit.version();
    let has = |facts: &&Facts| {
        toolkit
            .get(facts.component)
            .is_some_and(|found| !found.libraries.is_empty())
    };
    let known =
        toolkits().filter(|f| !f.libraries.is_empty() && f.package(version.major).is_some());
    let (there, absent): (Vec<_>, Vec<_>) = known.partition(has);
    let mut hints = Vec::new();
    if let Some(first) = absent.first() {
        hints.push(format!(
            "if the build script of {scripts} looked for a library: this CUDA {version} has no shared ones of {}; \
             `cargo cuda toolkit add {} --components {}` adds those that are named",
            listed(absent.iter().map(|facts| facts.id)),
            version.major,
            first.id,
        ));
    }
    let archives = there
        .iter()
        .flat_map(|facts| facts.archives)
        .map(|name| library(name));
    let archives: Vec<&str> = archives.filter(|name| !has_archive(view, name)).collect();
    if !archives.is_empty() {
        hints.push(format!(
            "if it looked for static libraries: this CUDA {version} has no static {}; {ARCHIVES}",
            listed(archives.into_iter())
        ));
    }
    hints
}

fn toolkits() -> impl Iterator<Item = &'static Facts> {
    Component::all()
        .map(Component::facts)
        .filter(|facts| facts.bundle == Bundle::Toolkit)
}

/// The component whose archive `cublas_static` is.
fn archive(name: &str) -> Option<&'static Facts> {
    toolkits().find(|facts| {
        facts
            .archives
            .iter()
            .any(|archive| library(archive) == name)
    })
}

fn has_archive(view: &View, name: &str) -> bool {
    view.contains(format!("lib/lib{name}.a"))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// `cublas-sys` of `cublas-sys-0123456789abcdef`.
fn package(directory: &str) -> &str {
    directory
        .rsplit_once('-')
        .map_or(directory, |(package, _)| package)
}

/// `cublas` of `cublas`, `:libcublas.so.13` and `libcublas.a`.
fn library(name: &str) -> &str {
    let name = name.trim_start_matches(':');
    let name = name.split(".so").next().unwrap_or(name);
    let name = name.strip_suffix(".a").unwrap_or(name);
    name.strip_prefix("lib").unwrap_or(name)
}

/// What follows each `mark`, up to one of `ends`.
fn after<'a>(text: &'a str, mark: &'a str, ends: &'a [char]) -> impl Iterator<Item = &'a str> {
    text.split(mark)
        .skip(1)
        .filter_map(move |rest| rest.split(ends).next())
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: &str, text: &str, child: &str) -> String {
        let children = serde_json::json!([{ "message": child, "level": "note" }]);
        serde_json::json!({ "level": level, "message": text, "children": children }).to_string()
    }

    fn read(messages: &[String]) -> Missing {
        let mut missing = Missing::default();
        missing.add_messages("blas-sys", &messages.join("\n"));
        missing
    }

    fn names(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn what_rustc_and_each_linker_say() {
        let archive =
            "could not find native static library `cublas_static`, perhaps an -L flag is missing?";
        let mut missing = read(&[
            message("error", archive, ""),
            message("error", "aborting", ""),
        ]);
        assert_eq!(names(&missing.archives), ["cublas_static"]);
        assert_eq!(names(&missing.by), ["blas-sys"]);
        missing.add_directives("cargo:rustc-link-lib=static=other\n");
        assert_eq!(
            names(&missing.archives),
            ["cublas_static"],
            "another run of the script"
        );
        missing.add_directives(
            "cargo:rustc-link-lib=static=cublas_static\ncargo::rustc-link-lib=static:+whole-archive=culibos\n\
             cargo:rustc-link-lib=dylib=cudart\n",
        );
        assert_eq!(names(&missing.archives), ["cublas_static", "culibos"]);

        for (text, expected) in [
            (
                "rust-lld: error: unable to find library -lcufft\nrust-lld: error: x",
                "cufft",
            ),
            (
                "/usr/bin/ld: cannot find -lcufft: No such file or directory\ncollect2: error",
                "cufft",
            ),
            (
                "/usr/bin/ld: cannot find -l:libcufft.so.12: No such file or directory",
                "cufft",
            ),
            ("/usr/bin/ld.gold: error: cannot find -lcufft\n", "cufft"),
            ("mold: fatal: library not found: cufft\n", "cufft"),
        ] {
            let missing = read(&[message("error", "linking with `cc` failed", text)]);
            assert_eq!(names(&missing.linked), [expected], "{text}");
        }
    }

    #[test]
    fn only_what_can_be_added_and_is_cudas_own_is_advised() {
        let text = ["cufft", "cufile", "OpenCL", "cudart", "cufftw", "ssl"]
            .map(|name| format!("/usr/bin/ld: cannot find -l{name}: No such file or directory\n"))
            .concat();
        let missing = read(&[message("error", "linking with `cc` failed", &text)]);
        let advised = |major| missing.unlinked(major, |component| component == Component::Cudart);
        assert_eq!(advised(13), ["cufft", "cufile"]);
        assert_eq!(advised(11), ["cufft"], "no package of cuFile for CUDA 11");
        assert_eq!(missing.unlinked(13, |_| true), [""; 0]);
    }

    #[test]
    fn warnings_and_other_errors_name_nothing() {
        let own = "could not find native static library `foo`, perhaps an -L flag is missing?";
        assert_eq!(
            names(&read(&[message("error", own, "")]).by),
            [""; 0],
            "not CUDA's"
        );
        let warning = message("warning", "unused: cannot find -lcufft", "");
        let error = message("error", "mismatched types", "expected `i32`, found `&str`");
        assert_eq!(
            read(&[warning, error, "not JSON".to_owned()]),
            Missing::default()
        );
    }
}

//! site-packages of Python environments, found without starting Python.

use std::path::{Path, PathBuf};

use super::{Candidate, Layout, Sources, Step};
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose_active(root: &Root, env: &Env, found: &mut Sources) {
    let Some(prefix) = env.path("VIRTUAL_ENV") else {
        return;
    };
    let mut packages = site_packages_of(root, &prefix);
    if packages.is_empty() {
        // So that it is reported: it does not exist, or has no packages.
        packages.push(prefix);
    }
    for path in packages {
        found.candidates.push(Candidate::site_packages(
            Step::Environment,
            "virtual environment of `VIRTUAL_ENV`",
            path,
        ));
    }
}

/// A Python on `PATH` has its packages in the prefix two levels above the program, in the administrator's `local`
/// below it, or in the user's own directory. The `python3` of a virtual environment is a link to another prefix, so
/// the unresolved path is tried first, then the resolved one.
pub(super) fn propose_on_path(root: &Root, env: &Env, found: &mut Sources) {
    let python = env
        .search_path()
        .into_iter()
        .flat_map(|dir| [dir.join("python3"), dir.join("python")])
        .find(|path| root.is_file(path));
    let Some(python) = python else { return };
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for program in [python.clone(), root.resolve(&python)] {
        if let Some(prefix) = program.parent().and_then(Path::parent) {
            prefixes.push(prefix.to_owned());
            // Debian's and Ubuntu's Python has what pip installs as root in `/usr/local`.
            prefixes.extend(prefix.ends_with("usr").then(|| prefix.join("local")));
        }
    }
    let label = "site-packages of the Python on `PATH`";
    if prefixes
        .iter()
        .all(|prefix| site_packages_of(root, prefix).is_empty())
        && is_script(root, &python)
    {
        found.candidates.push(Candidate::new(
            Step::Python,
            label,
            python,
            Layout::PythonScript,
        ));
    }
    if let Some(home) = env.path("HOME") {
        prefixes.push(home.join(".local"));
    }
    // A link beside the program it leads to has the same prefix.
    let mut distinct: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        if !distinct.contains(&prefix) {
            distinct.push(prefix);
        }
    }
    let mut proposed: Vec<PathBuf> = Vec::new();
    for path in distinct
        .iter()
        .flat_map(|prefix| site_packages_of(root, prefix))
    {
        // A Python without any CUDA wheel is not reported.
        if holds_cuda(root, &path) && !proposed.contains(&path) {
            proposed.push(path);
        }
    }
    for path in proposed {
        found
            .candidates
            .push(Candidate::site_packages(Step::Python, label, path));
    }
}

/// A script that starts some interpreter, as pyenv and asdf have them.
fn is_script(root: &Root, program: &Path) -> bool {
    root.head(program).is_ok_and(|head| head.starts_with("#!"))
}

/// Whether site-packages hold any CUDA wheel. cuTENSOR's are not in `nvidia/`.
pub(super) fn holds_cuda(root: &Root, path: &Path) -> bool {
    ["nvidia", "cutensor"]
        .iter()
        .any(|name| root.is_dir(&path.join(name)))
}

/// `lib/python3.*/{site,dist}-packages` below a prefix, newest Python first.
pub(super) fn site_packages_of(root: &Root, prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let mut pythons: Vec<(u32, PathBuf)> = Vec::new();
    for name in root.names(&lib) {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix("python3") else {
            continue;
        };
        // `python3` itself (Debian's dist-packages) sorts last.
        let minor = rest
            .strip_prefix('.')
            .and_then(|m| m.parse().ok())
            .unwrap_or(0);
        pythons.push((minor, lib.join(name)));
    }
    pythons.sort_by_key(|(minor, _)| std::cmp::Reverse(*minor));
    pythons
        .iter()
        .flat_map(|(_, python)| [python.join("site-packages"), python.join("dist-packages")])
        .filter(|path| root.is_dir(path))
        .collect()
}

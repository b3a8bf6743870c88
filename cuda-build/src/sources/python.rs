//! site-packages of Python environments, found without starting Python.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::{Candidate, Layout, SearchStep, Sources, on_path};
use crate::component::Component;
use crate::env::Env;
use crate::list::sort_by_key;
use crate::root::Root;

pub(super) fn propose_active(root: &Root, env: &Env, found: &mut Sources) {
    let Some(prefix) = env.path("VIRTUAL_ENV") else {
        return;
    };
    let mut packages = site_packages_of(root, &prefix);
    if packages.is_empty() {
        // The prefix does not exist or has no site-packages. It is proposed itself, so that it is reported.
        packages.push(prefix);
    }
    let label = "virtual environment of `VIRTUAL_ENV`";
    for path in packages {
        let candidate = Candidate::site_packages(SearchStep::Environment, label, path);
        found.candidates.push(candidate);
    }
}

/// Proposes the site-packages of the Python on `PATH`. They are in the prefix two levels above the program, in
/// `/usr/local` if the prefix is `/usr`, or in the user's `~/.local`. In a virtual environment, `python3` is a link to
/// a program in another prefix, so the prefix of the link is tried first, then the prefix of the program.
pub(super) fn propose_on_path(root: &Root, env: &Env, found: &mut Sources) {
    let names = ["python3", "python"].map(Path::new);
    let Some(python) = on_path(root, env, &names) else {
        return;
    };
    let mut packages: Vec<PathBuf> = Vec::new();
    for program in [python.clone(), root.resolve(&python)] {
        if let Some(prefix) = program.parent().and_then(Path::parent) {
            packages.extend(site_packages_of(root, prefix));
            // pip installs into `/usr/local` for the Python of Debian and Ubuntu.
            if prefix.ends_with("usr") {
                packages.extend(site_packages_of(root, &prefix.join("local")));
            }
        }
    }
    let label = "site-packages of the Python on `PATH`";
    // pyenv and asdf install a script with the name of Python, which selects and starts an interpreter.
    let is_script = || root.head(&python).is_ok_and(|head| head.starts_with("#!"));
    if packages.is_empty() && is_script() {
        let candidate = Candidate::new(SearchStep::Python, label, &python, Layout::PythonScript);
        found.candidates.push(candidate);
    }
    if let Some(home) = env.path("HOME") {
        packages.extend(site_packages_of(root, &home.join(".local")));
    }
    let mut proposed: Vec<PathBuf> = Vec::new();
    for path in packages {
        // Site-packages without a CUDA wheel are not proposed, so they are not reported.
        if has_cuda(root, &path) && !proposed.contains(&path) {
            proposed.push(path);
        }
    }
    for path in proposed {
        let candidate = Candidate::site_packages(SearchStep::Python, label, path);
        found.candidates.push(candidate);
    }
}

/// Whether site-packages contain any CUDA wheel.
pub(super) fn has_cuda(root: &Root, path: &Path) -> bool {
    let mut names: Vec<&str> = Vec::new();
    for component in Component::all() {
        for directory in component.facts().package_dirs.iter().flatten() {
            names.extend(directory.split('/').next());
        }
    }
    names.dedup();
    names.iter().any(|name| root.is_dir(&path.join(name)))
}

/// Every existing `lib/python3*/{site,dist}-packages` below a prefix, newest Python first.
pub(super) fn site_packages_of(root: &Root, prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let names = root.names(&lib);
    let python = |name: &str| {
        let rest = name.strip_prefix("python3")?;
        // `lib/python3` without a minor version, which has Debian's dist-packages, comes last.
        let minor: u32 = rest
            .strip_prefix('.')
            .map_or(0, |minor| minor.parse().unwrap_or(0));
        Some((Reverse(minor), lib.join(name)))
    };
    let names = names.iter().filter_map(|name| name.to_str());
    let mut pythons: Vec<_> = names.filter_map(python).collect();
    sort_by_key(&mut pythons, Clone::clone);
    let mut packages = Vec::new();
    for (_, python) in pythons {
        packages.push(python.join("site-packages"));
        packages.push(python.join("dist-packages"));
    }
    packages.retain(|path| root.is_dir(path));
    packages
}

//! The variables that CUDA's users and packagers set.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Candidate, Label, Layout, Sources, Step, belonging, named, search_path, split_list};
use crate::component::Component;
use crate::env::Env;
use crate::root::Root;

/// Variables that name the compiler. The root is two levels above it.
const COMPILERS: [&str; 2] = ["NVCC", "CUDACXX"];

/// Variables that name a root, or a list of roots.
const ROOTS: [&str; 6] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDAToolkit_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDA_TOOLKIT_PATH",
];

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    let mut compilers: Vec<(&'static str, Vec<PathBuf>)> = Vec::new();
    let mut roots: Vec<(&str, Vec<PathBuf>)> = Vec::new();
    for variable in COMPILERS {
        if let Some(value) = env.get(variable) {
            let nvcc = compiler(root, env, Path::new(value));
            let path = root_of(&nvcc);
            push(
                root,
                found,
                Step::Variable,
                variable,
                std::slice::from_ref(&path),
                Some(&nvcc),
            );
            compilers.push((variable, vec![nvcc]));
            roots.push((variable, vec![path]));
        }
    }
    for variable in ROOTS {
        let Some(value) = env.get(variable) else {
            continue;
        };
        let paths = split_list(value);
        push(root, found, Step::Variable, variable, &paths, None);
        roots.push((variable, paths));
    }
    for variable in Component::all().flat_map(|component| component.facts().variables) {
        if let Some(path) = env.path(variable) {
            push(root, found, Step::Product, variable, &[path], None);
        }
    }
    // Two compilers of one root disagree too.
    let disagree = remark_disagreement(root, &roots, "places", found);
    if !disagree {
        remark_disagreement(root, &compilers, "programs", found);
    }
}

fn push(
    root: &Root,
    found: &mut Sources,
    step: Step,
    variable: &'static str,
    paths: &[PathBuf],
    nvcc: Option<&Path>,
) {
    let label = Label::Variable(variable);
    let mut proposed = named(root, step, &label, paths);
    if let (Some(_), [path]) = (nvcc, paths) {
        // The compiler's own root, whatever has been unpacked beside it.
        proposed.retain(|candidate| candidate.layout == Layout::SitePackages);
        proposed.insert(0, Candidate::root(step, label, path));
    }
    for candidate in proposed {
        let candidate = candidate.with_nvcc(nvcc);
        let same = |one: &Path, other: &Path| root.place(one) == root.place(other);
        // Two compilers of one root are both probed: one of them may be broken.
        let covers = |c: &Candidate| match (c.nvcc(), candidate.nvcc()) {
            (Some(one), Some(other)) => same(one, other),
            (_, other) => other.is_none(),
        };
        let known = |c: &Candidate| {
            c.step == step
                && c.more_roots() == candidate.more_roots()
                && same(&c.path, &candidate.path)
                && covers(c)
        };
        if !found.candidates.iter().any(known) {
            found.candidates.push(candidate);
        }
    }
}

/// The directory above the `bin` of a program; the program itself if its path is relative.
fn root_of(program: &Path) -> PathBuf {
    let above = program
        .parent()
        .and_then(Path::parent)
        .filter(|_| program.is_absolute());
    above.unwrap_or(program).to_owned()
}

/// A bare name is looked up on `PATH`, as a shell and CMake do. One that is not there stays.
fn compiler(root: &Root, env: &Env, value: &Path) -> PathBuf {
    let bare = value.components().count() == 1 && value.is_relative();
    let on_path = || {
        env.search_path()
            .into_iter()
            .map(|dir| dir.join(value))
            .find(|p| root.is_file(p))
    };
    let named = if bare {
        on_path()
    } else {
        Some(value.to_owned())
    };
    match named {
        Some(nvcc) if nvcc.is_absolute() => search_path::program(root, nvcc),
        named => named.unwrap_or_else(|| value.to_owned()),
    }
}

/// Whether any two have nothing in common: a list may name what another variable does, and more.
fn remark_disagreement(
    root: &Root,
    named: &[(&str, Vec<PathBuf>)],
    what: &str,
    found: &mut Sources,
) -> bool {
    let places = |paths: &[PathBuf]| -> Vec<OsString> {
        let all = paths
            .iter()
            .flat_map(|path| [path.clone()].into_iter().chain(belonging(root, path)));
        all.map(|path| root.place(&path)).collect()
    };
    let shown = |paths: &[PathBuf]| match paths {
        [] => String::new(),
        [path] => path.display().to_string(),
        [path, more @ ..] => format!("{} and {} more", path.display(), more.len()),
    };
    let mut all = named.iter().filter(|(_, paths)| !paths.is_empty());
    let Some((first, paths)) = all.next() else {
        return false;
    };
    let before = found.disagreements.len();
    for (other, other_paths) in all {
        let theirs = places(other_paths);
        if !places(paths).iter().any(|place| theirs.contains(place)) {
            found.disagreements.push(format!(
                "`{first}` ({}) and `{other}` ({}) name different {what}; `{first}` is read first, and the other \
                 for what is not there",
                shown(paths),
                shown(other_paths)
            ));
        }
    }
    found.disagreements.len() > before
}

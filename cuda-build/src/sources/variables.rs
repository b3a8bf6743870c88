//! Proposes places that the user names (arguments, `CUDA_BUILD_ROOTS`, common variables such as
//! `CUDA_HOME`), and the root of the nvcc on `PATH`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{
    Candidate, Label, Layout, SearchStep, Sources, associated_roots, named, on_path, split_list,
};
use crate::component::Component;
use crate::env::Env;
use crate::root::Root;

/// Variables that name the compiler. The root is two levels above the compiler.
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

/// A variable and the paths in it.
type Named = (&'static str, Vec<PathBuf>);

pub(super) fn propose(root: &Root, env: &Env, arguments: &[PathBuf], found: &mut Sources) {
    let candidates = named(root, SearchStep::Argument, &"argument".into(), arguments);
    found.candidates.extend(candidates);
    if let Some(list) = env.get("CUDA_BUILD_ROOTS") {
        let label = Label::Variable("CUDA_BUILD_ROOTS");
        let candidates = named(root, SearchStep::Roots, &label, &split_list(list));
        found.candidates.extend(candidates);
    }
    let (mut compilers, mut roots): (Vec<Named>, Vec<Named>) = (Vec::new(), Vec::new());
    for variable in COMPILERS {
        if let Some(value) = env.get(variable) {
            let nvcc = compiler(root, env, Path::new(value));
            let path = root_of(&nvcc);
            add(root, found, of_compiler(root, variable, &path, &nvcc));
            compilers.push((variable, vec![nvcc]));
            roots.push((variable, vec![path]));
        }
    }
    for variable in ROOTS {
        if let Some(value) = env.get(variable) {
            let paths = split_list(value);
            let label = Label::Variable(variable);
            add(
                root,
                found,
                named(root, SearchStep::Variable, &label, &paths),
            );
            roots.push((variable, paths));
        }
    }
    for variable in Component::all().flat_map(|component| component.facts().variables) {
        if let Some(path) = env.path(variable) {
            let label = Label::Variable(variable);
            add(
                root,
                found,
                named(root, SearchStep::Product, &label, &[path]),
            );
        }
    }
    found.disagreements = disagreements(root, &roots, "places");
    if found.disagreements.is_empty() {
        // If the roots agree, two variables may still name different compilers of one root.
        found.disagreements = disagreements(root, &compilers, "programs");
    }
}

pub(super) fn propose_on_path(root: &Root, env: &Env, found: &mut Sources) {
    let nvcc = on_path(root, env, &[Path::new("nvcc")]);
    let Some(program) = nvcc.map(|nvcc| program(root, nvcc)) else {
        return;
    };
    let prefix = program.parent().and_then(Path::parent).map(Path::to_owned);
    let prefix = prefix.into_iter().collect();
    let place = Candidate::scattered(root, SearchStep::SearchPath, "nvcc on `PATH`", prefix);
    found
        .candidates
        .extend(place.map(|place| place.with_nvcc(&program)));
}

/// Candidates for a compiler that a variable names: its root `path`, and site-packages below `path`.
/// Redist archives below `path` are not proposed.
fn of_compiler(root: &Root, variable: &'static str, path: &Path, nvcc: &Path) -> Vec<Candidate> {
    let label = Label::Variable(variable);
    let mut proposed = named(root, SearchStep::Variable, &label, &[path.to_owned()]);
    proposed.retain(|candidate| candidate.layout == Layout::SitePackages);
    proposed.insert(
        0,
        Candidate::root(SearchStep::Variable, label, path).with_nvcc(nvcc),
    );
    proposed
}

/// Adds the candidates that no earlier variable named.
fn add(root: &Root, found: &mut Sources, proposed: Vec<Candidate>) {
    let is_same = |one: &Path, other: &Path| root.place(one) == root.place(other);
    for candidate in proposed {
        // Two compilers of one root are both probed: one of them may be broken.
        let covers = |known: &Candidate| match (known.nvcc(), candidate.nvcc()) {
            (Some(one), Some(other)) => is_same(one, other),
            (_, other) => other.is_none(),
        };
        let is_known = |known: &Candidate| {
            known.step == candidate.step
                && known.more_roots() == candidate.more_roots()
                && is_same(&known.path, &candidate.path)
                && covers(known)
        };
        if !found.candidates.iter().any(is_known) {
            found.candidates.push(candidate);
        }
    }
}

/// The directory above a program's `bin` directory. A relative path is returned unchanged.
fn root_of(program: &Path) -> PathBuf {
    let root = program.parent().and_then(Path::parent);
    root.filter(|_| program.is_absolute())
        .unwrap_or(program)
        .to_owned()
}

/// The path of a compiler. A bare name is looked up on `PATH`, as in a shell and in CMake; if it is
/// not found there, it is returned unchanged.
fn compiler(root: &Root, env: &Env, value: &Path) -> PathBuf {
    let is_bare = value.iter().count() == 1 && value.is_relative();
    let nvcc = match is_bare {
        true => on_path(root, env, &[value]),
        false => None,
    };
    match nvcc.unwrap_or_else(|| value.to_owned()) {
        nvcc if nvcc.is_absolute() => program(root, nvcc),
        nvcc => nvcc,
    }
}

/// The path by which to start nvcc. The caller derives the root from this path.
///
/// nvcc looks for `nvcc.profile` beside argv\[0\] and does not follow links. If the profile is there, as
/// in a `bin` directory of links, the path is used unchanged. Otherwise the path may be a single link
/// to an nvcc elsewhere, so links are resolved.
fn program(root: &Root, nvcc: PathBuf) -> PathBuf {
    let has_profile = |program: &Path| root.is_file(&program.with_file_name("nvcc.profile"));
    if has_profile(&nvcc) {
        return nvcc;
    }
    let real = root.resolve(&nvcc);
    // A link to a program with another name, such as ccache, is a wrapper. A wrapper is started by the link.
    if real.ends_with("nvcc") || has_profile(&real) {
        real
    } else {
        nvcc
    }
}

/// Compares each variable with the first in `named`, and returns a sentence for each that disagrees. A
/// variable may list several paths; two variables agree if they have one place in common.
fn disagreements(root: &Root, named: &[Named], what: &str) -> Vec<String> {
    let places = |paths: &[PathBuf]| -> Vec<OsString> {
        let mut all = paths.to_vec();
        for path in paths {
            all.extend(associated_roots(root, path));
        }
        all.iter().map(|path| root.place(path)).collect()
    };
    let shown = |(variable, paths): &Named| match paths.as_slice() {
        [path] => format!("`{variable}` ({})", path.display()),
        [path, more @ ..] => format!("`{variable}` ({} and {} more)", path.display(), more.len()),
        [] => format!("`{variable}`"),
    };
    let mut named = named.iter().filter(|(_, paths)| !paths.is_empty());
    let Some(first) = named.next() else {
        return Vec::new();
    };
    let (variable, places_of_first) = (first.0, places(&first.1));
    named
        .filter(|(_, paths)| !places(paths).iter().any(|place| places_of_first.contains(place)))
        .map(|other| {
            format!(
                "{} and {} name different {what}; `{variable}` takes precedence, and the other is used only for components missing there",
                shown(first),
                shown(other)
            )
        })
        .collect()
}

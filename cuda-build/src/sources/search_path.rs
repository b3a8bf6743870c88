//! nvcc on `PATH`.

use std::path::{Path, PathBuf};

use super::{Candidate, Sources, Step};
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    let nvcc = env
        .search_path()
        .into_iter()
        .map(|dir| dir.join("nvcc"))
        .find(|path| root.is_file(path));
    let Some(nvcc) = nvcc else { return };
    let program = program(root, nvcc);
    let Some(prefix) = program.parent().and_then(Path::parent) else {
        return;
    };
    let place = Candidate::scattered(
        root,
        Step::SearchPath,
        "nvcc on `PATH`",
        vec![prefix.to_owned()],
    );
    found
        .candidates
        .extend(place.map(|place| place.with_nvcc(Some(&program))));
}

/// The nvcc to start, whose place decides the root.
///
/// nvcc looks beside argv\[0\] without following links, so a `bin` of links is a root of its own. A single link to an
/// nvcc elsewhere is not: then the real path decides.
pub(super) fn program(root: &Root, nvcc: PathBuf) -> PathBuf {
    let beside = |program: &Path| {
        program
            .parent()
            .is_some_and(|bin| root.is_file(&bin.join("nvcc.profile")))
    };
    if beside(&nvcc) {
        return nvcc;
    }
    let real = root.resolve(&nvcc);
    // A link to a program with another name (ccache) is a wrapper: start the link.
    if real.file_name().is_some_and(|name| name == "nvcc") || beside(&real) {
        real
    } else {
        nvcc
    }
}

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
    if let Some(mut place) = Candidate::scattered(
        root,
        Step::SearchPath,
        "nvcc on `PATH`",
        vec![prefix.to_owned()],
    ) {
        place.nvcc = Some(program);
        found.candidates.push(place);
    }
}

/// The nvcc to start, and whose place counts.
///
/// nvcc itself looks beside argv\[0\] without following links, so a `bin` of links is a root of
/// its own; a lone link to somebody else's nvcc is not, and then the real place counts.
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
    // A wrapper under another name (ccache) leads to a program that is no nvcc: ask the wrapper.
    if real.file_name().is_some_and(|name| name == "nvcc") || beside(&real) {
        real
    } else {
        nvcc
    }
}

//! Places given to this tool directly: arguments and `CUDA_BUILD_ROOTS`.

use std::path::PathBuf;

use super::{Label, Sources, Step, named, split_list};
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, arguments: &[PathBuf], found: &mut Sources) {
    found
        .candidates
        .extend(named(root, Step::Argument, &"argument".into(), arguments));
    if let Some(list) = env.get("CUDA_BUILD_ROOTS") {
        let label = Label::Variable("CUDA_BUILD_ROOTS");
        found
            .candidates
            .extend(named(root, Step::Roots, &label, &split_list(list)));
    }
}

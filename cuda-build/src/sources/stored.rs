//! Toolkits that `cargo cuda toolkit add` fetched.

use super::{Candidate, Label, Sources, Step};
use crate::env::Env;
use crate::root::Root;
use crate::store;
use crate::target::Target;

/// Newest first. Toolkits for another platform are left out.
pub(super) fn propose(root: &Root, env: &Env, target: &Target, found: &mut Sources) {
    let Some(directory) = store::toolkits_dir(env) else {
        return;
    };
    let mut toolkits = Vec::new();
    for toolkit in store::stored_toolkits(root, &directory) {
        match toolkit {
            Ok(toolkit) if toolkit.platform == target.directory() => toolkits.push(toolkit),
            Ok(_) => {}
            Err(error) => found.remarks.push(error.to_string()),
        }
    }
    // Of two toolkits of one version, the one with more components comes first.
    toolkits.sort_by(|a, b| {
        let rank = |t: &store::StoredToolkit| (t.version.clone(), t.components.len());
        rank(b).cmp(&rank(a)).then_with(|| a.path.cmp(&b.path))
    });
    for toolkit in toolkits {
        let label = format!("toolkit {} from `cargo cuda toolkit add`", toolkit.version);
        found.candidates.push(Candidate::site_packages(
            Step::Stored,
            Label::Text(label),
            toolkit.path,
        ));
    }
}

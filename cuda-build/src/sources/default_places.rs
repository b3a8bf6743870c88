//! Where NVIDIA's own installers put a toolkit.

use std::path::Path;

use super::{Candidate, Sources, Step};
use crate::root::Root;
use crate::version::Version;

pub(super) fn propose(root: &Root, found: &mut Sources) {
    let link = root.locate("/usr/local/cuda");
    // A link that leads nowhere is what removing a toolkit leaves.
    let is_place = |path: &Path| root.is_dir(path) || root.is_link(path);
    if is_place(&link) {
        found
            .candidates
            .push(Candidate::root(Step::DefaultPlace, "default place", &link));
    }
    let parent = root.locate("/usr/local");
    let mut versioned: Vec<(Version, Candidate)> = Vec::new();
    for name in root.names(&parent) {
        let Some(version) = name.to_str().and_then(|n| n.strip_prefix("cuda-")) else {
            continue;
        };
        // `cuda-12` and `cuda-12.4` both exist, the first a link to the second.
        let Ok(version) = version.parse::<Version>() else {
            continue;
        };
        let path = parent.join(&name);
        let is_known = versioned
            .iter()
            .any(|(_, c)| root.place(&c.path) == root.place(&path));
        if is_place(&path) && root.place(&path) != root.place(&link) && !is_known {
            versioned.push((
                version,
                Candidate::root(Step::VersionedPlace, "default place", path),
            ));
        }
    }
    versioned.sort_by(|a, b| b.0.cmp(&a.0));
    found
        .candidates
        .extend(versioned.into_iter().map(|(_, candidate)| candidate));
}

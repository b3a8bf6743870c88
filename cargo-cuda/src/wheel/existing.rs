//! Rewrites a wheel that another program has built, such as scikit-build-core.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cuda_build::ToolkitVersion;

use super::archive::Wheel;
use super::dependencies::{self, BuiltWith};
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{SearchPathKind, SearchPathPlan};
use crate::failure::Failure;

/// Writes the wheel of one major into `out_dir`. Its components are those that the native modules need, because there
/// is no manifest that could declare more.
pub fn rewrite(
    path: &Path,
    major: u32,
    kind: SearchPathKind,
    out_dir: &Path,
) -> Result<BuiltWheel, Failure> {
    let wheel = Wheel::open(path)?;
    let needed = wheel.modules().flat_map(|(_, facts)| &facts.needed);
    let components = dependencies::components(needed.map(String::as_str), major)?;
    let rewrite = Rewrite {
        name: None,
        major,
        runpath: SearchPathPlan::new(&components, major, kind)?,
        built_with: BuiltWith {
            toolkit: ToolkitVersion::new(major, 0),
            components: BTreeMap::new(),
        },
        dlopened: BTreeSet::new(),
    };
    rewrite.apply_to(wheel, path, out_dir)
}

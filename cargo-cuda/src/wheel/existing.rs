//! Rewrites a wheel that another program has built, such as scikit-build-core.

use std::collections::BTreeMap;
use std::path::Path;

use cuda_build::ToolkitVersion;
use cuda_build::internal::release;

use super::archive::Wheel;
use super::dependencies::{self, BuiltWith};
use super::needs::Needs;
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{SearchPathKind, SearchPathPlan};
use crate::audit::check::Code;
use crate::failure::Failure;

/// Writes the wheel of one major into `out_dir`. Its components are those that the native modules need, because there
/// is no manifest that could declare more. Without `kind`, the search path is of the kind that the modules have.
pub fn rewrite(
    path: &Path,
    major: u32,
    kind: Option<SearchPathKind>,
    allow: &[Code],
    out_dir: &Path,
) -> Result<BuiltWheel, Failure> {
    let wheel = Wheel::open(path)?;
    let needed = wheel.modules().flat_map(|(_, facts)| &facts.needed);
    let components = dependencies::components(needed.map(String::as_str), major)?;
    let has_runpath = || wheel.modules().any(|(_, facts)| !facts.runpath.is_empty());
    let kind = kind.unwrap_or_else(|| match has_runpath() {
        true => SearchPathKind::Runpath,
        false => SearchPathKind::Rpath,
    });
    let rewrite = Rewrite {
        name: None,
        major,
        runpath: SearchPathPlan::new(&components, major, kind)?,
        built_with: BuiltWith {
            // It is not known. The newest release has every symbol that the modules need.
            toolkit: release::newest_of(major).unwrap_or(ToolkitVersion::new(major, 0)),
            components: BTreeMap::new(),
        },
        declared: Needs::default(),
        dependencies: Vec::new(),
        excluded: Vec::new(),
        allow: allow.to_vec(),
    };
    rewrite.apply_to(wheel, path, out_dir)
}

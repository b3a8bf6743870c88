//! Lists the toolkits in the store, and probes what was fetched as the search does.

use std::collections::BTreeSet;
use std::path::Path;

use cuda_build::Component;
use cuda_find_core::search;
use cuda_find_core::sources::{Candidate, CandidateKind, SearchStep};
use cuda_find_core::{env::Env, root::Root, target::Target};
use serde::Serialize;

use super::directory::{StoreDirectory, damage};
use super::lock::Manifest;
use super::package::{FetchFrom, OTHER_SOURCES_HINT, PackageSet, PinnedPackage, no_package};
use crate::failure::{Failure, Result};

/// A toolkit of the store.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ListedToolkit {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    pub path: String,
    /// The release.
    pub version: String,
    /// Its platform, such as `x86_64-linux`.
    pub platform: String,
    /// The components that were found when it was added.
    pub components: Vec<String>,
    /// The exact packages.
    pub packages: Vec<PinnedPackage>,
    /// The size of all its files. Toolkits may share files, so a sum over several may be too large.
    pub bytes: u64,
    /// Why it cannot be used; `None` if it can.
    pub problem: Option<String>,
}

/// All toolkits of the store, sorted by name, including those that cannot be used. Empty if there
/// is no store yet.
pub fn list(env: &Env) -> Result<Vec<ListedToolkit>> {
    let store = StoreDirectory::open(env, "toolkits")?;
    let names = store.names().into_iter();
    Ok(names.filter_map(|name| listed(&store, name)).collect())
}

pub(super) fn listed(store: &StoreDirectory, name: String) -> Option<ListedToolkit> {
    let path = store.path(&name);
    let (manifest, damage, unreadable) = match store.manifest(&name).transpose()? {
        Ok(manifest) => {
            let damage = damage(&path, &manifest.set);
            (manifest, damage, None)
        }
        Err(reason) => (Manifest::default(), None, Some(reason)),
    };
    Some(ListedToolkit {
        // A directory's name is the version and a digest.
        version: name.split('-').next().unwrap_or_default().to_owned(),
        platform: manifest.platform,
        components: manifest.components,
        packages: manifest.set.packages,
        bytes: manifest.bytes,
        problem: damage.or(unreadable),
        path: path.display().to_string(),
        name,
    })
}

/// The components of a set that the search finds in `site`.
pub(super) fn components(
    site: &Path,
    set: &PackageSet,
    wanted: &BTreeSet<Component>,
    target: &Target,
) -> Result<Vec<Component>> {
    // A root's nvcc would have to be run, and the hash of its archive has been checked.
    if set.from == FetchFrom::Redist {
        return Ok(set.components().collect());
    }
    let (step, kind) = (SearchStep::Stored, CandidateKind::SitePackages);
    let candidate = Candidate::new(step, "fetched packages", site, kind);
    let attempt = search::probe(&Root::system(), target, &candidate);
    let major = set.major();
    let probed = attempt.sets.iter().find(|probed| probed.major == major);
    let is_found = |component: &Component| probed.is_some_and(|set| set.get(*component).is_some());
    // Programs for another platform do not run here, so the probe does not accept them.
    let runs = |component: &Component| target.is_native() || component.facts().tools.is_empty();
    let mut absent = wanted.iter().filter(|component| !is_found(component));
    if let Some(&component) = absent.find(|component| runs(component)) {
        let Some(package) = set.package_for(component) else {
            return Err(no_package(component, major, set.from));
        };
        let mut unusable = attempt.unusable.iter();
        let reason = unusable.find(|it| it.component == component && it.major == major);
        let reason = reason.map_or("none of its files was found", |it| &it.reason);
        let PinnedPackage { name, version, .. } = package;
        let message = format!("package {name} {version} does not contain `{component}`: {reason}");
        return Err(Failure::not_released(message).hint(OTHER_SOURCES_HINT));
    }
    Ok(set.components().filter(is_found).collect())
}

#[cfg(test)]
mod tests {
    use super::super::directory::tests::{WHOLE, site};
    use super::*;

    #[test]
    fn a_placeholder_is_named() {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let (site_packages, set) = site(&WHOLE);
        let cufft = BTreeSet::from([Component::Cufft]);
        let found = components(site_packages.path(), &set, &cufft, &target);
        assert_eq!(found.unwrap(), [Component::Cufft]);
        let (site_packages, set) = site(&[]);
        let error = components(site_packages.path(), &set, &cufft, &target).unwrap_err();
        for word in ["nvidia-cufft-cu12 11.4.1.4", "`cufft`"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

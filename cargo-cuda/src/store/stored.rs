//! Lists and removes the toolkits in the store, and probes what was fetched as the search does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_find_core::search;
use cuda_find_core::sources::{Candidate, CandidateKind, SearchStep};
use cuda_find_core::{env::Env, root::Root, target::Target};
use serde::{Serialize, Serializer};

use super::directory::{StoreDirectory, damage};
use super::lock::Manifest;
use super::package::{
    FetchFrom, OTHER_SOURCES_HINT, PackageSet, PinnedPackage, no_package, parse_release,
};
use crate::failure::{Failure, Result};
use crate::output::{joined, printable};

/// A toolkit of the store.
#[derive(Clone, Debug, Serialize)]
pub struct ListedToolkit {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
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
    /// Whether the problem is that files are missing or have another size. Otherwise the toolkit may be intact, such as
    /// one of a newer cargo-cuda.
    #[serde(skip)]
    pub is_damaged: bool,
}

/// Serializes a path. Bytes that are not UTF-8 are replaced, because JSON is UTF-8.
pub(super) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// All toolkits of the store, sorted by name, including those that cannot be used. Empty if there
/// is no store yet.
pub fn list(env: &Env) -> Result<Vec<ListedToolkit>> {
    let store = StoreDirectory::open(env, "toolkits")?;
    let names = store.names().into_iter();
    Ok(names.filter_map(|name| listed(&store, name)).collect())
}

fn listed(store: &StoreDirectory, name: String) -> Option<ListedToolkit> {
    let path = store.path(&name);
    let (manifest, damage, unreadable) = match store.manifest(&name).transpose()? {
        Ok(manifest) => {
            let damage = damage(&path, &manifest.set);
            (manifest, damage, None)
        }
        Err(reason) => (Manifest::default(), None, Some(reason)),
    };
    Some(ListedToolkit {
        is_damaged: damage.is_some(),
        // A directory's name is the version and a digest.
        version: name.split('-').next().unwrap_or_default().to_owned(),
        platform: manifest.platform,
        components: manifest.components,
        packages: manifest.set.packages,
        bytes: manifest.bytes,
        problem: damage.or(unreadable),
        path,
        name,
    })
}

/// Removes the toolkit with this name, or the only one of this full or partial release; with `all`, every one of the
/// release.
pub fn remove(name: &str, all: bool, env: &Env) -> Result<Vec<ListedToolkit>> {
    let store = StoreDirectory::open(env, "toolkits")?;
    let _lock = store.lock()?;
    let removed = choose(name, all, list(env)?)?;
    removed.iter().try_for_each(|it| store.discard(&it.name))?;
    Ok(removed)
}

/// Removes toolkits that are not needed: those that are damaged, and those of which another toolkit of the same
/// version has every package. To add one of the latter again, nothing has to be downloaded. Also removes what
/// interrupted downloads have left.
pub fn collect_garbage(env: &Env) -> Result<Vec<ListedToolkit>> {
    let store = StoreDirectory::open(env, "toolkits")?;
    // Another command may be repairing a toolkit, so the list is read under the lock.
    let _lock = store.lock()?;
    let all = list(env)?;
    let is_garbage = |toolkit: &&ListedToolkit| {
        toolkit.is_damaged || all.iter().any(|other| other.supersedes(toolkit))
    };
    let garbage: Vec<ListedToolkit> = all.iter().filter(is_garbage).cloned().collect();
    garbage.iter().try_for_each(|it| store.discard(&it.name))?;
    Ok(garbage)
}

impl ListedToolkit {
    /// Whether this toolkit can be used and has every package of `other`, and more.
    fn supersedes(&self, other: &Self) -> bool {
        let has = |package: &PinnedPackage| {
            let mut packages = self.packages.iter();
            packages.any(|own| own.shares_a_file_with(package))
        };
        self.problem.is_none()
            && (&self.version, &self.platform) == (&other.version, &other.platform)
            && self.packages.len() > other.packages.len()
            && other.packages.iter().all(has)
    }
}

fn choose(name: &str, all: bool, mut stored: Vec<ListedToolkit>) -> Result<Vec<ListedToolkit>> {
    if let Some(exact) = stored.iter().position(|toolkit| toolkit.name == name) {
        return Ok(vec![stored.swap_remove(exact)]);
    }
    let release = parse_release(name).map_or_else(|_| name.to_owned(), |it| it.to_string());
    let below = format!("{release}.");
    stored.retain(|it| it.version == release || it.version.starts_with(&below));
    let name = printable(name);
    let names = stored.iter().map(|toolkit| &toolkit.name);
    let (text, hint) = match stored.len() {
        0 => (
            format!("there is no toolkit `{name}` in the store"),
            "`cargo cuda toolkit list` shows what has been fetched",
        ),
        2.. if !all => (
            format!("several toolkits match `{name}`: {}", joined(names, ", ")),
            "give the whole name of one of them, or `--all` to remove all of them",
        ),
        _ => return Ok(stored),
    };
    Err(Failure::usage(text).hint(hint))
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
    use super::super::package::tests::package;
    use super::*;

    fn toolkit(name: &str) -> ListedToolkit {
        ListedToolkit {
            name: name.to_owned(),
            path: PathBuf::new(),
            version: name.split('-').next().unwrap().to_owned(),
            platform: String::new(),
            components: Vec::new(),
            packages: Vec::new(),
            bytes: 0,
            problem: None,
            is_damaged: false,
        }
    }

    #[test]
    fn one_toolkit_matches_or_none_is_removed() {
        let all = ["12.9.2.0-1", "13.4.3-2", "13.4.3-3", "13.5-4"]
            .map(toolkit)
            .to_vec();
        let choose = |name: &str, every: bool| choose(name, every, all.clone());
        let chosen = |name: &str| choose(name, false).map(|mut chosen| chosen.remove(0).name);
        assert_eq!(chosen("12").unwrap(), "12.9.2.0-1");
        assert_eq!(chosen("13.5").unwrap(), "13.5-4");
        assert_eq!(chosen("13.4.3-3").unwrap(), "13.4.3-3");
        assert_eq!(chosen("v12").unwrap(), "12.9.2.0-1");
        assert_eq!(choose("13.4", true).unwrap().len(), 2);
        let error = chosen("13.4.3").unwrap_err().message;
        assert!(error.ends_with(": 13.4.3-2, 13.4.3-3"), "{error}");
        for none in ["1", "", "14", "../13.5-4", "13.4.3-"] {
            let error = chosen(none).unwrap_err();
            assert!(error.message.contains("there is no toolkit"), "{none}");
        }
    }

    #[test]
    fn a_toolkit_is_superseded_by_one_with_more_packages() {
        let with = |name: &str, packages: &[(&str, char)]| ListedToolkit {
            packages: packages
                .iter()
                .map(|(name, digit)| package(name, "1", *digit))
                .collect(),
            ..toolkit(name)
        };
        let small = with("13.4.3-1", &[("a", '0')]);
        let large = with("13.4.3-2", &[("a", '0'), ("b", '1')]);
        assert!(large.supersedes(&small) && !small.supersedes(&large) && !large.supersedes(&large));
        assert!(!with("13.4.2-2", &[("a", '0'), ("b", '1')]).supersedes(&small));
        assert!(!with("13.4.3-2", &[("a", '9'), ("b", '1')]).supersedes(&small));
        let damaged = ListedToolkit {
            problem: Some(String::new()),
            ..large
        };
        assert!(!damaged.supersedes(&small));
    }

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

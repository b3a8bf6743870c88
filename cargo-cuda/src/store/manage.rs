//! `toolkit list` and `toolkit remove`.

use std::path::PathBuf;

use cuda_build::{Component, Root};

use super::directory::Store;
use super::lock::Index;
use super::package::Manifest;
use super::progress::Progress;
use super::verify::damage;
use super::{Context, Package, StoreError};

/// A toolkit of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The release.
    pub version: String,
    /// Machine and system that it is for, such as `x86_64-linux`.
    pub platform: String,
    /// The components that were found when it was added.
    pub components: Vec<Component>,
    /// The exact packages.
    pub packages: Vec<Package>,
    /// Of all its files. Toolkits may share files, so the sum over several can be too much.
    pub bytes: u64,
    /// Requests that were last resolved to it, such as `13`.
    pub requests: Vec<String>,
    /// Why it cannot be used as it is.
    pub problem: Option<String>,
}

/// A toolkit that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The directory's name.
    pub name: String,
    /// Where it was.
    pub path: PathBuf,
    /// Of all its files.
    pub bytes: u64,
}

/// All toolkits of the store, sorted by name, also those that cannot be used. Nothing if there is
/// no store yet.
///
/// # Errors
/// No variable names the store, or other users can write in it.
pub fn list(context: &Context) -> Result<Vec<Listed>, StoreError> {
    let store = Store::locate(&context.env)?;
    store.clean();
    let index = Index::read(&store);
    let names = store.names().into_iter();
    Ok(names
        .filter_map(|name| listed(&store, &index, name))
        .collect())
}

fn listed(store: &Store, index: &Index, name: String) -> Option<Listed> {
    let path = store.path(&name);
    let (manifest, problem) = match store.manifest(&name) {
        Ok(manifest) => {
            let manifest = manifest?;
            let problem = damage(&path, &manifest.set(), &Root::system());
            (Some(manifest), problem)
        }
        Err(reason) => (None, Some(reason)),
    };
    let version = name.split('-').next().unwrap_or_default();
    Some(Listed {
        requests: index.requests(&name),
        version: manifest
            .as_ref()
            .map_or(version, |found| &found.version)
            .to_owned(),
        components: manifest
            .as_ref()
            .map(Manifest::components)
            .unwrap_or_default(),
        bytes: manifest.as_ref().map_or(0, |found| found.bytes),
        platform: manifest
            .as_ref()
            .map(|found| found.platform.clone())
            .unwrap_or_default(),
        packages: manifest.map(|found| found.packages).unwrap_or_default(),
        problem,
        path,
        name,
    })
}

/// Removes the toolkit of this name, or of this release as far as it is given.
///
/// # Errors
/// There is no such toolkit, or there are several.
pub fn remove(name: &str, context: &Context) -> Result<Removed, StoreError> {
    let store = Store::locate(&context.env)?;
    let progress = Progress::new(context.messages);
    let all = list(context)?;
    let Listed {
        name, path, bytes, ..
    } = choose(name, all)?;
    let _guard = store.lock(&name, &progress)?;
    Index::change(&store, &progress, |requests| {
        requests.retain(|_, resolved| *resolved != name);
    })?;
    store.discard(&name)?;
    Ok(Removed { name, path, bytes })
}

fn choose(name: &str, mut all: Vec<Listed>) -> Result<Listed, StoreError> {
    let stored = all.iter().map(|toolkit| toolkit.name.clone()).collect();
    if let Some(exact) = all.iter().position(|toolkit| toolkit.name == name) {
        return Ok(all.swap_remove(exact));
    }
    let below = format!("{name}.");
    all.retain(|toolkit| toolkit.version == name || toolkit.version.starts_with(&below));
    let name = name.to_owned();
    match all.pop() {
        Some(one) if all.is_empty() => Ok(one),
        Some(one) => {
            all.push(one);
            let names = all.into_iter().map(|toolkit| toolkit.name).collect();
            Err(StoreError::Ambiguous { name, names })
        }
        None => Err(StoreError::NotStored { name, stored }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(name: &str) -> Listed {
        Listed {
            name: name.to_owned(),
            path: PathBuf::new(),
            version: name.split('-').next().unwrap().to_owned(),
            platform: String::new(),
            components: Vec::new(),
            packages: Vec::new(),
            bytes: 0,
            requests: Vec::new(),
            problem: None,
        }
    }

    #[test]
    fn one_toolkit_matches_or_none_is_removed() {
        let all = ["12.9.2.0-1", "13.4.3-2", "13.4.3-3", "13.5-4"]
            .map(toolkit)
            .to_vec();
        let chosen = |name: &str| choose(name, all.clone()).map(|toolkit| toolkit.name);
        assert_eq!(chosen("12").unwrap(), "12.9.2.0-1");
        assert_eq!(chosen("13.5").unwrap(), "13.5-4");
        assert_eq!(chosen("13.4.3-3").unwrap(), "13.4.3-3");
        for (name, matching) in [("13.4.3", 2), ("13", 3)] {
            let error = chosen(name).unwrap_err();
            assert!(
                matches!(&error, StoreError::Ambiguous { names, .. } if names.len() == matching),
                "{error}"
            );
        }
        for none in ["1", "", "14", "../13.5-4", "13.4.3-"] {
            assert!(
                matches!(chosen(none), Err(StoreError::NotStored { .. })),
                "{none}"
            );
        }
    }
}

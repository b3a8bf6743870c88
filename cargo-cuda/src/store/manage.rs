//! `toolkit list` and `toolkit remove`.

use std::path::PathBuf;

use cuda_build::Component;

use super::index::Index;
use super::place::Store;
use super::progress::Progress;
use super::{Context, Package, StoreError};

/// A toolkit of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// Of the set as a whole.
    pub version: String,
    /// Machine and system it is for, such as `x86_64-linux`.
    pub platform: String,
    /// What was proved to be there.
    pub components: Vec<Component>,
    /// Exact.
    pub packages: Vec<Package>,
    /// Of all its files. Toolkits may share files, so the sum over several can be too much.
    pub bytes: u64,
    /// Requests that it answered last, such as `13`.
    pub requests: Vec<String>,
}

/// What `remove` removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The directory's name.
    pub name: String,
    /// Where it was.
    pub path: PathBuf,
    /// Of all its files.
    pub bytes: u64,
}

/// All toolkits of the store, sorted by name; nothing where there is no store yet.
///
/// # Errors
/// No variable tells where the store is.
pub fn list(context: &Context) -> Result<Vec<Listed>, StoreError> {
    let store = Store::locate(&context.env)?;
    let index = Index::read(&store);
    let listed = store.all().into_iter().map(|(name, manifest)| Listed {
        path: store.path(&name),
        components: manifest.components(),
        requests: index.requests(&name),
        version: manifest.version,
        platform: manifest.platform,
        packages: manifest.packages,
        bytes: manifest.bytes,
        name,
    });
    Ok(listed.collect())
}

/// Removes the one toolkit that `asked` means: its name, or its version as far as it is given.
///
/// # Errors
/// None is meant, or several are.
pub fn remove(asked: &str, context: &Context) -> Result<Removed, StoreError> {
    let store = Store::locate(&context.env)?;
    let progress = Progress::new(context.messages);
    let all = list(context)?;
    let chosen = choose(asked, &all)?;
    let _guard = store.lock(&chosen.name, &progress)?;
    Index::change(&store, &progress, |requests| {
        requests.retain(|_, name| *name != chosen.name);
    })?;
    store.discard(&chosen.name)?;
    Ok(Removed {
        name: chosen.name.clone(),
        path: chosen.path.clone(),
        bytes: chosen.bytes,
    })
}

fn choose<'a>(asked: &str, all: &'a [Listed]) -> Result<&'a Listed, StoreError> {
    if let Some(exact) = all.iter().find(|toolkit| toolkit.name == asked) {
        return Ok(exact);
    }
    let below = format!("{asked}.");
    let meant: Vec<&Listed> = all
        .iter()
        .filter(|toolkit| toolkit.version == asked || toolkit.version.starts_with(&below))
        .collect();
    let names =
        |toolkits: &mut dyn Iterator<Item = &Listed>| toolkits.map(|t| t.name.clone()).collect();
    match meant[..] {
        [one] => Ok(one),
        [] => Err(StoreError::NotStored {
            asked: asked.to_owned(),
            stored: names(&mut all.iter()),
        }),
        _ => Err(StoreError::Ambiguous {
            asked: asked.to_owned(),
            names: names(&mut meant.into_iter()),
        }),
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
        }
    }

    #[test]
    fn one_is_meant_or_none_is_removed() {
        let all = ["12.9.2.0-1", "13.4.3-2", "13.4.3-3", "13.5-4"].map(toolkit);
        let name = |asked: &str| choose(asked, &all).map(|t| t.name.clone());
        assert_eq!(name("12").unwrap(), "12.9.2.0-1");
        assert_eq!(name("13.5").unwrap(), "13.5-4");
        assert_eq!(name("13.4.3-3").unwrap(), "13.4.3-3");
        assert!(
            matches!(name("13.4.3"), Err(StoreError::Ambiguous { names, .. }) if names.len() == 2)
        );
        assert!(matches!(name("13"), Err(StoreError::Ambiguous { names, .. }) if names.len() == 3));
        for none in ["1", "", "14", "../13.5-4", "13.4.3-"] {
            assert!(
                matches!(name(none), Err(StoreError::NotStored { .. })),
                "{none}"
            );
        }
    }
}

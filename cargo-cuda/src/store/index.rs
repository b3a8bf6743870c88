//! Which toolkit answered a request last, so that asking again needs no installer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::place::{Guard, Store, read, write_atomically};
use super::progress::Progress;
use super::{Request, StoreError};

const FORMAT_VERSION: i64 = 1;

/// `index.toml` in the store. It can be deleted at any time; requests are then resolved anew.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    format_version: i64,
    #[serde(default)]
    requests: BTreeMap<String, String>,
}

impl Index {
    /// The index as it is; empty where there is none that can be read.
    pub fn read(store: &Store) -> Self {
        let text = read(&path(store)).ok().flatten();
        text.and_then(|text| toml::from_str(&text).ok())
            .filter(|index: &Self| index.format_version == FORMAT_VERSION)
            .unwrap_or(Self {
                format_version: FORMAT_VERSION,
                requests: BTreeMap::new(),
            })
    }

    /// The toolkit that answered `request`.
    pub fn name(&self, request: &Request) -> Option<&str> {
        self.requests.get(&request.to_string()).map(String::as_str)
    }

    /// The requests that a toolkit answers.
    pub fn requests(&self, name: &str) -> Vec<String> {
        self.requests
            .iter()
            .filter(|(_, found)| *found == name)
            .map(|(request, _)| request.clone())
            .collect()
    }

    /// Changes the index while no other process does.
    pub fn change(
        store: &Store,
        progress: &Progress,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<(), StoreError> {
        let _guard = Self::guard(store, progress)?;
        let mut index = Self::read(store);
        let before = index.requests.clone();
        change(&mut index.requests);
        if index.requests == before {
            return Ok(());
        }
        let path = path(store);
        let text = toml::to_string(&index)
            .map_err(|error| StoreError::io("write", &path, std::io::Error::other(error)))?;
        write_atomically(&path, &text)
    }

    /// Also keeps the lock files of workspaces from losing entries to one another.
    pub fn guard(store: &Store, progress: &Progress) -> Result<Guard, StoreError> {
        store.lock("index", progress)
    }
}

fn path(store: &Store) -> PathBuf {
    store.directory().join("index.toml")
}

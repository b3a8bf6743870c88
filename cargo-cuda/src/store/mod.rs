//! Toolkits in the user's cache directory: put together, fetched, pinned, listed, removed.
//!
//! ```text
//! request ─► wanted ─► [lock | index] ─► resolve ─► PackageSet ─► place ─► probe ─► manifest
//! "13"       components  known already?   exact versions, hashes   one directory, renamed in
//! ```
//!
//! What a toolkit in the store looks like to its readers is [`cuda_build::store`]'s to say.

mod add;
mod command;
mod error;
mod index;
mod installer;
mod lock;
mod manage;
mod manifest;
mod package;
mod place;
mod probe;
mod progress;
mod refusal;
mod request;
mod resolve;
mod reuse;
mod sri;
mod tool;
mod wanted;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use cuda_build::{Component, Env};

pub use add::add;
pub use error::{StoreError, exit_code};
pub use lock::LOCK_FILE;
pub use manage::{Listed, Removed, list, remove};
pub use package::{Package, PackageSet};
pub use progress::{Messages, human_size};
pub use request::Request;
pub use sri::Sha256;
pub use tool::{fetched_maturin, maturin};

/// What `add` is asked for.
#[derive(Clone, Debug)]
pub struct AddRequest {
    /// Which CUDA.
    pub version: Request,
    /// Taken beside the default set, with what they need.
    pub components: BTreeSet<Component>,
    /// Exactly these instead of the default set, without what they need.
    pub only: Option<BTreeSet<Component>>,
    /// Look for newer versions, whatever the lock file and the store hold.
    pub upgrade: bool,
    /// The lock file must already tell every version; nothing else will do.
    pub locked: bool,
}

impl AddRequest {
    /// The default set of a version.
    #[must_use]
    pub fn new(version: Request) -> Self {
        Self {
            version,
            components: BTreeSet::new(),
            only: None,
            upgrade: false,
            locked: false,
        }
    }
}

/// What the commands of this module work in.
#[derive(Clone, Debug)]
pub struct Context {
    /// Variables; installers are started with exactly these.
    pub env: Env,
    /// The workspace's lock file, whether it is there yet or not; `None` outside a workspace.
    pub lock_file: Option<PathBuf>,
    /// How progress is told.
    pub messages: Messages,
}

/// What `add` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its directory's name in the store.
    pub name: String,
    /// The directory, to be searched as site-packages.
    pub path: PathBuf,
    /// Of the set as a whole: `13.4.3`, or `13.5` where it was put together by minor.
    pub version: String,
    /// What was proved to be there.
    pub components: Vec<Component>,
    /// Whether it was put into the store now; `false` where it was there.
    pub new: bool,
    /// Packages that an installer fetched; empty where other toolkits of the store held them all.
    pub fetched: Vec<String>,
    /// Bytes of files that those packages brought.
    pub bytes_added: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// From call to return.
    pub took: Duration,
}

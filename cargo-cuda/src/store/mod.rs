//! Fetched toolkits in the user's cache directory: add, list, remove.
//!
//! ```text
//! AddRequest ─► wanted ─► [lock | index] ─► resolve ─► PackageSet ─► write ─► verify ─► manifest
//! "13"       components  resolved before?  exact versions, hashes  one directory, then renamed
//! ```
//!
//! How the search reads a toolkit in the store is defined by [`cuda_build::internal::store`].

mod add;
mod command;
mod directory;
mod error;
mod installer;
mod lock;
mod maturin;
mod package;
mod progress;
mod request;
mod resolve;
mod stored;

use std::path::PathBuf;
use std::time::Duration;

use cuda_build::Component;
use cuda_build::internal::Env;

pub use add::add;
pub use error::{StoreError, exit_code};
pub use lock::LOCK_FILE;
pub use maturin::{fetched_maturin, maturin};
pub use package::{Package, PackageSet, Sha256};
pub use progress::{Messages, human_size};
pub use request::{AddRequest, ReleaseSpec};
pub use stored::{Listed, Removed, list, remove};

/// The surroundings of a command.
#[derive(Clone, Debug)]
pub struct Context {
    /// The environment.
    pub env: Env,
    /// The workspace's lock file, which may not exist yet; `None` outside a workspace.
    pub lock_file: Option<PathBuf>,
    /// How progress is reported.
    pub messages: Messages,
}

/// The result of `add`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its directory's name in the store.
    pub name: String,
    /// The directory, to be searched as site-packages.
    pub path: PathBuf,
    /// The release: `13.4.3`, or `13.5` if it was put together by minor.
    pub version: String,
    /// The components that were found in it.
    pub components: Vec<Component>,
    /// Whether it was written by this call. `false` if it was there.
    pub new: bool,
    /// The packages that an installer fetched. The others were in toolkits of the store.
    pub fetched: Vec<String>,
    /// Bytes of files that those packages brought.
    pub bytes_added: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// From call to return.
    pub took: Duration,
}

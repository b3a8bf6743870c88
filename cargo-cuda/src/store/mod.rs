//! Fetched toolkits in the user's cache directory: add, list, remove.
//!
//! ```text
//! AddRequest ─► components ─► [lock | index] ─► resolve ─► PackageSet ─► fetch ─► verify ─► manifest
//! "13"                       resolved before?  exact versions, hashes  into .part-*, then renamed
//! ```
//!
//! How the search reads a toolkit in the store is defined by [`cuda_build::internal::store`].

mod add;
mod answers;
mod directory;
mod downloads;
mod installer;
mod lock;
mod package;
mod progress;
mod refusal;
mod request;
mod resolve;
mod settings;
mod stored;
pub mod tools;

use std::path::{Path, PathBuf};

use cuda_build::internal::sources::{LOCK_FILE, LOCK_VARIABLE};
use cuda_build::internal::{Env, store};

use crate::exit_code;
use crate::failure::Failure;
use progress::Progress;

pub use add::{Added, add};
pub use lock::Lock;
pub use request::{AddRequest, ReleaseToFetch};
pub use stored::{Listed, list, remove};

/// The user's cache directory.
pub fn cache_dir(env: &Env) -> Result<PathBuf, Failure> {
    store::required_cache_dir(env).map_err(|error| Failure {
        code: exit_code::NO_STORE,
        ..error.into()
    })
}

/// The environment and lock file of a command.
#[derive(Clone, Debug)]
pub struct Context {
    pub env: Env,
    /// The lock file, which may not exist yet; `None` outside a workspace, unless [`LOCK_VARIABLE`] names
    /// a file.
    pub lock_file: Option<PathBuf>,
}

impl Context {
    /// The context of a command. `workspace` is the workspace's directory.
    pub fn new(env: &Env, workspace: Option<&Path>) -> Self {
        let named = env.peek(LOCK_VARIABLE).map(PathBuf::from);
        Self {
            env: env.clone(),
            lock_file: named.or_else(|| Some(workspace?.join(LOCK_FILE))),
        }
    }
}

/// Bytes in decimal units, as disks and package indexes count: `2.5 MB`.
///
/// ```
/// use cargo_cuda::store::human_size;
/// assert_eq!(human_size(999), "999 B");
/// assert_eq!(human_size(2_460_000), "2.5 MB");
/// ```
pub fn human_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    for (unit, size) in UNITS {
        if bytes >= size {
            let tenths = (bytes * 10 + size / 2) / size;
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

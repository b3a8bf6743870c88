//! Fetched toolkits in the user's cache directory: add, list, remove.
//!
//! ```text
//! AddRequest ─► components ─► [lock | store] ─► resolve ─► PackageSet ─► fetch ─► check ─► manifest
//! "13"                       resolved before?  exact versions, hashes  into .part-*, then renamed
//! ```
//!
//! How the search reads a toolkit in the store is defined by [`cuda_find_core::sources`].

mod add;
mod directory;
mod installer;
mod lock;
mod package;
mod redist;
mod resolve;
mod stored;
pub mod tools;

pub use add::{AddRequest, AddedToolkit, add, lock};
pub use directory::cache_dir;
pub use lock::{Lock, has_lock_file, with_lock_file};
pub use package::{AcceptedVersions, FetchFrom, PackageSet, ReleaseToFetch};
pub use stored::{ListedToolkit, list};

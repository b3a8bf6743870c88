//! Where CUDA may be: the places that each step of the search proposes.

mod candidate;
mod places;
mod steps;
mod stored;

pub use candidate::{Candidate, CandidateKind, SearchStep, variable_label};
pub use places::{
    associated_roots, companions, holds_product, is_package, site_packages_of, versions,
};
pub use steps::{Proposals, candidates};
pub use stored::{
    ARCHIVES, FORMAT_VERSION, LOCK_FILE, LOCK_FORMAT_VERSION, LOCK_VARIABLE, LockedToolkit,
    MANIFEST, StoredPackage, StoredToolkit, lock_file, stored_toolkits, toolkits_dir,
    workspace_manifest, workspace_root,
};

//! Packages that another toolkit of the store holds already are linked, not fetched again.
#![allow(
    clippy::disallowed_methods,
    reason = "the store writes here, and nowhere else in its code"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cuda_build::Root;

use super::StoreError;
use super::package::{Package, PackageSet, platform};
use super::place::{Store, create_directory};
use super::probe::files_of;

/// Packages with the toolkit that holds them whole, and packages that have to be fetched.
type Plan<'a> = (Vec<(&'a Package, PathBuf)>, Vec<&'a Package>);

/// Looks for each package of `set` in the toolkits of the store.
pub(super) fn plan<'a>(store: &Store, set: &'a PackageSet, root: &Root) -> Plan<'a> {
    let stored = store.all();
    let (mut held, mut missing) = (Vec::new(), Vec::new());
    for package in &set.packages {
        let holder = stored
            .iter()
            .filter(|(_, manifest)| manifest.platform == platform())
            .filter(|(_, manifest)| {
                manifest
                    .packages
                    .iter()
                    .any(|other| other.shares_a_file_with(package))
            })
            .map(|(name, _)| store.path(name))
            .find(|path| is_whole(package, path, root));
        match holder {
            Some(path) => held.push((package, path)),
            None => missing.push(package),
        }
    }
    (held, missing)
}

fn is_whole(package: &Package, site: &Path, root: &Root) -> bool {
    let files = files_of(site, package, root);
    !files.is_empty() && files.iter().all(|file| root.is_file(&site.join(file)))
}

/// Links the files of `package`, as installed in `from`, into `to`; copies where the disk knows
/// no links.
///
/// # Errors
/// The disk said no.
pub(super) fn link(
    package: &Package,
    from: &Path,
    to: &Path,
    root: &Root,
) -> Result<(), StoreError> {
    for file in files_of(from, package, root) {
        let (source, target) = (from.join(&file), to.join(&file));
        if let Some(directory) = target.parent() {
            create_directory(directory)?;
        }
        match fs::hard_link(&source, &target) {
            // Two packages may hold one file (`nvidia/__init__.py`).
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => {
                fs::copy(&source, &target)
                    .map_err(|error| StoreError::io("copy to", &target, error))?;
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

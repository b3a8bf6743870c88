//! NVIDIA's redistributable archives, unpacked side by side: one directory a component, named
//! `cuda_cudart-linux-x86_64-13.0.96-archive`, and no common root. Which of them belong together,
//! the probe says (`probe::archives`).

use std::path::{Path, PathBuf};

use crate::root::Root;

/// The archives in a directory; none where it is no such directory.
pub(super) fn archives(root: &Root, path: &Path) -> Vec<PathBuf> {
    let names = root.names(path);
    let archives = names
        .iter()
        .map(|name| path.join(name))
        .filter(|path| is_archive(path));
    archives.filter(|path| root.is_dir(path)).collect()
}

pub(super) fn is_archive(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.ends_with("-archive"))
}

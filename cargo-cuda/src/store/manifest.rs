//! `toolkit.toml`: what a toolkit in the store says of itself.

use cuda_build::{Component, store};
use serde::{Deserialize, Serialize};

use super::package::{Package, PackageSet, platform};

/// Read in part by [`store::StoredToolkit`]; the packages are for this crate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format_version: i64,
    pub version: String,
    pub platform: String,
    /// Of all files.
    pub bytes: u64,
    components: Vec<String>,
    pub packages: Vec<Package>,
}

impl Manifest {
    pub fn new(set: &PackageSet, components: &[Component], bytes: u64) -> Self {
        Self {
            format_version: store::FORMAT_VERSION,
            version: set.version.clone(),
            platform: platform(),
            bytes,
            components: components
                .iter()
                .map(|component| component.id().to_owned())
                .collect(),
            packages: set.packages.clone(),
        }
    }

    /// What was proved to be there when it was added.
    pub fn components(&self) -> Vec<Component> {
        self.components
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect()
    }

    pub fn set(&self) -> PackageSet {
        PackageSet {
            version: self.version.clone(),
            packages: self.packages.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cuda_build::Root;

    use super::super::package::tests::package;
    use super::*;

    #[test]
    fn the_search_reads_what_the_store_writes() {
        let set = PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![package("nvidia-cuda-runtime", "13.4.92", 'a')],
        };
        let manifest = Manifest::new(&set, &[Component::Cudart], 7);
        let text = toml::to_string(&manifest).unwrap();
        assert_eq!(toml::from_str::<Manifest>(&text).unwrap(), manifest);
        assert_eq!(manifest.set(), set);

        let directory = tempfile::tempdir().unwrap();
        #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
        std::fs::write(directory.path().join(store::MANIFEST), text).unwrap();
        let read = |path: &Path| store::StoredToolkit::read(&Root::system(), path).unwrap();
        let found = read(directory.path());
        assert_eq!(found.components, [Component::Cudart]);
        assert_eq!(
            (found.version.to_string(), found.platform),
            ("13.4.3".to_owned(), platform())
        );
    }
}

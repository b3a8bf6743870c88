//! The CUDA release that a version of a component belongs to.

use super::table::Component;
use crate::release::{self, RELEASES};
use crate::version::{ToolkitVersion, Version};

/// Toolkit components with version numbers of their own, in the order of
/// [`Release::first_versions`](release::Release).
const SELF_VERSIONED: [Component; release::SELF_VERSIONED] = [
    Component::Cublas,
    Component::Cufft,
    Component::Curand,
    Component::Cusolver,
    Component::Cusparse,
    Component::Npp,
    Component::Nvjpeg,
    Component::Cufile,
];

/// The CUDA release that `version` of `component` belongs to; `None` for versions older than the table, and for
/// products, which belong to no release.
///
/// The math libraries have version numbers of their own: cuSPARSE 12.5.8.93 belongs to CUDA 12.8. The result is the
/// newest release whose first version is not newer than `version`, so that updates have a result too: cuSPARSE 12.5.1.3
/// is part of the update 12.5.1, and the result is CUDA 12.5. For a version that no metapackage pins, the true release
/// may be newer than the result, but not older.
pub fn release_of(component: Component, version: &Version) -> Option<ToolkitVersion> {
    if component.facts().follows_toolkit {
        return version.release();
    }
    let older = first_versions(component)?.filter(|(first, _)| first <= version);
    older.max().map(|(_, release)| release)
}

/// The oldest CUDA release of which every version of `component` is `version` or newer; `None` for versions newer than
/// the table, and for products.
pub fn oldest_release_with(component: Component, version: &Version) -> Option<ToolkitVersion> {
    if component.facts().follows_toolkit {
        return version.release().or_else(|| {
            let major = u32::try_from(version.part(0)).ok()?;
            Some(ToolkitVersion::new(major, 0))
        });
    }
    let (_, release) = first_versions(component)?.find(|(first, _)| first >= version)?;
    Some(release)
}

/// The first version of a component in each release whose metapackage pins the component; `None` unless the component
/// has version numbers of its own.
fn first_versions(component: Component) -> Option<impl Iterator<Item = (Version, ToolkitVersion)>> {
    let column = SELF_VERSIONED
        .iter()
        .position(|known| *known == component)?;
    let versions = RELEASES
        .iter()
        .map(move |row| (row.first_versions[column].parse(), row.version));
    // Releases without a pin have an empty text, which is not a version.
    Some(versions.filter_map(|(first, release)| Some((first.ok()?, release))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(component: Component, version: &str) -> Option<String> {
        release_of(component, &version.parse().unwrap()).map(|release| release.to_string())
    }

    #[test]
    fn first_versions_are_versions_and_differ() {
        for component in SELF_VERSIONED {
            assert!(!component.facts().follows_toolkit, "{component}");
            let mut versions: Vec<Version> = first_versions(component)
                .unwrap()
                .map(|(first, _)| first)
                .collect();
            let pinned = RELEASES.len()
                - RELEASES
                    .iter()
                    .filter(|row| row.first_versions[0].is_empty())
                    .count();
            assert!(
                component == Component::Cufile || versions.len() == pinned,
                "{component}"
            );
            let count = versions.len();
            versions.sort();
            versions.dedup();
            assert_eq!(versions.len(), count, "{component}: a version twice");
        }
    }

    #[test]
    fn versions_of_the_math_libraries_are_not_the_toolkits() {
        for (component, version, expected) in [
            (Component::Cublas, "12.4.5.8", "12.4"),
            (Component::Cublas, "13.2.0.9", "13.1"),
            (Component::Cublas, "13.8.0.4", "13.4"),
            (Component::Cufft, "10.9.0.58", "11.8"),
            (Component::Cufft, "11.2.3.61", "12.5"),
            (Component::Curand, "10.3.10.19", "12.9"),
            (Component::Curand, "10.4.0.35", "13.0"),
            (Component::Cusparse, "12.9.4.2", "13.5"),
            (Component::Cusolver, "11.7.1.2", "12.6"),
            (Component::Nvjpeg, "12.1.1.14", "12.2"),
        ] {
            assert_eq!(
                release(component, version).as_deref(),
                Some(expected),
                "{component} {version}"
            );
        }
    }

    #[test]
    fn a_release_guarantees_its_first_version() {
        for (component, version, expected) in [
            (Component::Cublas, "13.0.0", Some("13.0")),
            (Component::Cublas, "13.2", Some("13.1")),
            (Component::Cublas, "13.2.0.10", Some("13.2")),
            (Component::Cusparse, "12.0.0", Some("12.0")),
            (Component::Cusparse, "12.3", Some("12.4")),
            (Component::Cublas, "13.8.0.4", Some("13.5")),
            (Component::Cublas, "13.11", None),
            (Component::Cudart, "12.4.127", Some("12.4")),
            (Component::Cudart, "13", Some("13.0")),
            (Component::Cudnn, "9.27.0", None),
        ] {
            let found = oldest_release_with(component, &version.parse().unwrap());
            let found = found.map(|release| release.to_string());
            assert_eq!(found.as_deref(), expected, "{component} {version}");
        }
    }

    #[test]
    fn versions_outside_the_table_have_no_release() {
        assert_eq!(release(Component::Cublas, "11.5.1"), None);
        assert_eq!(release(Component::Cudnn, "9.27.0"), None);
    }
}

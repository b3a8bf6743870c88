//! To which CUDA release a version of a component belongs.

use super::table::Component;
use crate::detail::release::{NEWEST_PINNED, NVJPEG_EXCEPTIONS, RELEASES};
use crate::detail::version::{ToolkitVersion, Version};

/// Toolkit components with version numbers of their own, in the order of [`Release::first_versions`](crate::detail::release::Release).
const SELF_VERSIONED: [Component; crate::detail::release::SELF_VERSIONED] = [
    Component::Cublas,
    Component::Cufft,
    Component::Curand,
    Component::Cusolver,
    Component::Cusparse,
    Component::Npp,
    Component::Nvjpeg,
    Component::Cufile,
];

/// The CUDA release that `version` of `component` belongs to; `None` for versions outside the table, and for
/// products, which belong to no release.
///
/// The math libraries have version numbers of their own: cuSPARSE 12.5.8.93 belongs to CUDA 12.8. If a version lies
/// between the first versions of two releases, the result is the older release. So versions that no metapackage pins
/// have a result too: cuSPARSE 12.5.1.3 belongs to CUDA 12.5, whose update 12.5.1 contains it. For a version that is
/// not pinned, the true release may be newer than the result, but not older.
pub fn release_of(component: Component, version: &Version) -> Option<ToolkitVersion> {
    if component.facts().follows_toolkit {
        return version.to_string().parse().ok();
    }
    let column = SELF_VERSIONED
        .iter()
        .position(|numbered| *numbered == component)?;
    // A test parses every version of the table, so parsing does not fail here.
    let parse = |text: &str| text.parse::<Version>().ok();
    if parse(NEWEST_PINNED[column]).is_none_or(|newest| *version > newest) {
        return None;
    }
    first_versions(component, column)
        .filter_map(|(first, release)| Some((parse(first)?, release)))
        .filter(|(first, _)| first <= version)
        .max_by(|(one, _), (other, _)| one.cmp(other))
        .map(|(_, release)| release)
}

/// The oldest CUDA release of which every version of `component` is `version` or newer; `None` for versions outside the
/// table, and for products.
pub fn oldest_release_with(component: Component, version: &Version) -> Option<ToolkitVersion> {
    if component.facts().follows_toolkit {
        return version.release().or_else(|| {
            let major = u32::try_from(version.part(0)).ok()?;
            Some(ToolkitVersion::new(major, 0))
        });
    }
    let column = SELF_VERSIONED
        .iter()
        .position(|numbered| *numbered == component)?;
    let is_new_enough = |first: &str| {
        first
            .parse::<Version>()
            .is_ok_and(|first| first >= *version)
    };
    RELEASES
        .iter()
        .find(|row| is_new_enough(row.first_versions[column]))
        .map(|row| row.version)
}

/// The first version of a component in each release whose metapackage pins the component, and the exceptions.
fn first_versions(
    component: Component,
    column: usize,
) -> impl Iterator<Item = (&'static str, ToolkitVersion)> {
    let exceptions = if component == Component::Nvjpeg {
        NVJPEG_EXCEPTIONS.as_slice()
    } else {
        &[]
    };
    let pinned = RELEASES
        .iter()
        .map(move |row| (row.first_versions[column], row.version))
        .filter(|(first, _)| !first.is_empty());
    pinned.chain(exceptions.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::release::was_released;

    fn release(component: Component, version: &str) -> Option<String> {
        release_of(component, &version.parse().unwrap()).map(|release| release.to_string())
    }

    #[test]
    fn first_versions_are_below_the_newest_pinned() {
        for (column, component) in SELF_VERSIONED.into_iter().enumerate() {
            assert!(!component.facts().follows_toolkit, "{component}");
            let newest: Version = NEWEST_PINNED[column].parse().unwrap();
            let mut versions: Vec<Version> = Vec::new();
            for (first, release) in first_versions(component, column) {
                assert!(was_released(release), "{component} {release}");
                versions.push(first.parse().unwrap());
            }
            assert!(versions.iter().all(|version| *version <= newest));
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
            (Component::Cusolver, "11.7.1.2", "12.6"),
            (Component::Nvjpeg, "12.1.1.14", "12.2"),
            (Component::Nvjpeg, "12.2.0.2", "12.1"),
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
            (Component::Cublas, "13.8.0.4", None),
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
        // CUDA 13.5 has no metapackage yet.
        assert_eq!(release(Component::Cusparse, "12.9.4.2"), None);
        assert_eq!(release(Component::Cublas, "11.5.1"), None);
        assert_eq!(release(Component::Cudnn, "9.27.0"), None);
    }
}

use super::*;
use crate::capability::supported;

fn release(component: Component, version: &str) -> Option<String> {
    release_of(component, &version.parse().unwrap()).map(|release| release.to_string())
}

#[test]
fn releases_ascend() {
    for pair in table::RELEASES.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        assert!(a.version < b.version, "{} {}", a.version, b.version);
        assert!(a.ptx_isa <= b.ptx_isa, "{} {}", a.version, b.version);
        assert!(
            a.gcc_max <= b.gcc_max && a.clang_max <= b.clang_max,
            "{} {}",
            a.version,
            b.version
        );
    }
}

#[test]
fn default_capabilities_are_supported_and_drivers_reach_the_floor() {
    for row in table::RELEASES {
        assert!(
            supported(row.version).contains(&row.default_capability),
            "{}",
            row.version
        );
        let floor = driver_floor(row.version.major).expect("every major has a driver floor");
        // 11.0 came before the compatibility that begins with 450.80.02.
        if let Some(driver) = row.driver.filter(|_| row.version > first_release()) {
            let parse = |text: &str| text.parse::<Version>().unwrap();
            assert!(parse(driver) >= parse(floor), "{}", row.version);
        }
    }
}

/// The first release, to which minor-version compatibility does not apply.
fn first_release() -> ToolkitVersion {
    table::RELEASES[0].version
}

#[test]
fn the_only_gap_is_12_7() {
    let minors = |major| {
        table::RELEASES
            .iter()
            .filter(move |row| row.version.major == major)
            .map(|row| row.version.minor)
            .max()
    };
    let gaps: Vec<String> = majors()
        .flat_map(|major| {
            let newest = minors(major).expect("every major has releases");
            (0..=newest).map(move |minor| ToolkitVersion::new(major, minor))
        })
        .filter(|&toolkit| !was_released(toolkit))
        .map(|toolkit| toolkit.to_string())
        .collect();
    assert_eq!(gaps, ["12.7"]);
}

#[test]
fn first_versions_are_below_the_newest_pinned() {
    for (column, component) in table::SELF_VERSIONED.into_iter().enumerate() {
        assert!(!component.facts().follows_toolkit, "{component}");
        let newest: Version = table::NEWEST_PINNED[column].parse().unwrap();
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

//! Which CUDA release a component's own version belongs to.
//!
//! The math libraries count for themselves: cuSPARSE 12.5.8.93 is CUDA 12.8's, cuRAND 10.3.5.147
//! is 12.4's. The table comes from the pins in the metadata of every release of the
//! `cuda-toolkit` metapackage from 11.8.0 to 13.4.3, which NVIDIA publishes as a Python package.
//! Of each release it holds the first version; what lies between two rows belongs to the lower
//! one, so that an update that no metapackage pins (cuSPARSE 12.5.1.3 of CUDA 12.5.1) has its
//! place too. For a version between the last pin of one release and the first of the next that
//! is the older of two answers: who compares must take it as a lower bound.

use super::Component;
use crate::version::{ToolkitVersion, Version};

/// The versions of one component, ascending.
struct Line {
    component: Component,
    /// The newest version that a metapackage pins; what is newer belongs to a release that is
    /// not known here.
    newest: &'static str,
    /// The first version of a run, and the release it belongs to.
    starts: &'static [(&'static str, u32, u32)],
}

/// The CUDA release that `version` of `component` belongs to; `None` where the table does not
/// reach, and for products, which belong to no release.
///
/// ```
/// use cuda_build::Component;
/// use cuda_build::component::release_of;
/// let release = |component, version: &str| {
///     release_of(component, &version.parse().unwrap()).map(|release| release.to_string())
/// };
/// assert_eq!(release(Component::Cusparse, "12.5.1.3").as_deref(), Some("12.5"));
/// assert_eq!(release(Component::Cusparse, "12.5.8.93").as_deref(), Some("12.8"));
/// assert_eq!(release(Component::Nvjitlink, "12.9.86").as_deref(), Some("12.9"));
/// assert_eq!(release(Component::Cusparse, "99.0"), None);
/// ```
#[must_use]
pub fn release_of(component: Component, version: &Version) -> Option<ToolkitVersion> {
    if component.facts().follows_toolkit {
        return version.to_string().parse().ok();
    }
    let line = LINES.iter().find(|line| line.component == component)?;
    // The literals are versions; a test reads each.
    let parse = |text: &str| text.parse::<Version>().ok();
    if parse(line.newest).is_none_or(|newest| *version > newest) {
        return None;
    }
    let reached = |start: &&(&str, u32, u32)| parse(start.0).is_some_and(|first| first <= *version);
    line.starts
        .iter()
        .rfind(reached)
        .map(|(_, major, minor)| ToolkitVersion::new(*major, *minor))
}

// nvJPEG went back once: 12.1.1 came with a higher version than 12.2.0.
static LINES: &[Line] = &[
    Line {
        component: Component::Cublas,
        newest: "13.8.0.4",
        starts: &[
            ("11.11.3.6", 11, 8),
            ("12.0.1.189", 12, 0),
            ("12.1.0.26", 12, 1),
            ("12.2.1.16", 12, 2),
            ("12.3.2.9", 12, 3),
            ("12.4.2.65", 12, 4),
            ("12.5.2.13", 12, 5),
            ("12.6.0.22", 12, 6),
            ("12.8.3.14", 12, 8),
            ("12.9.0.13", 12, 9),
            ("13.0.0.19", 13, 0),
            ("13.2.0.9", 13, 1),
            ("13.3.0.5", 13, 2),
            ("13.5.1.27", 13, 3),
            ("13.7.0.27", 13, 4),
        ],
    },
    Line {
        component: Component::Cufft,
        newest: "12.4.0.43",
        starts: &[
            ("10.9.0.58", 11, 8),
            ("11.0.0.21", 12, 0),
            ("11.0.2.4", 12, 1),
            ("11.0.8.15", 12, 2),
            ("11.0.11.19", 12, 3),
            ("11.2.0.44", 12, 4),
            ("11.2.3.18", 12, 5),
            ("11.2.6.28", 12, 6),
            ("11.3.3.41", 12, 8),
            ("11.4.0.6", 12, 9),
            ("12.0.0.15", 13, 0),
            ("12.1.0.31", 13, 1),
            ("12.2.0.37", 13, 2),
            ("12.3.0.29", 13, 3),
            ("12.4.0.34", 13, 4),
        ],
    },
    Line {
        component: Component::Curand,
        newest: "10.4.4.72",
        starts: &[
            ("10.3.0.86", 11, 8),
            ("10.3.1.50", 12, 0),
            ("10.3.2.56", 12, 1),
            ("10.3.3.53", 12, 2),
            ("10.3.4.52", 12, 3),
            ("10.3.5.119", 12, 4),
            ("10.3.6.39", 12, 5),
            ("10.3.7.37", 12, 6),
            ("10.3.9.55", 12, 8),
            ("10.3.10.19", 12, 9),
            ("10.4.0.35", 13, 0),
            ("10.4.1.34", 13, 1),
            ("10.4.2.51", 13, 2),
            ("10.4.3.29", 13, 3),
            ("10.4.4.49", 13, 4),
        ],
    },
    Line {
        component: Component::Cusolver,
        newest: "12.3.5.3",
        starts: &[
            ("11.4.1.48", 11, 8),
            ("11.4.2.57", 12, 0),
            ("11.4.4.55", 12, 1),
            ("11.5.0.53", 12, 2),
            ("11.5.3.52", 12, 3),
            ("11.6.0.99", 12, 4),
            ("11.6.2.40", 12, 5),
            ("11.6.4.38", 12, 6),
            ("11.7.2.55", 12, 8),
            ("11.7.4.40", 12, 9),
            ("12.0.3.29", 13, 0),
            ("12.0.7.41", 13, 1),
            ("12.1.0.51", 13, 2),
            ("12.2.2.18", 13, 3),
            ("12.3.2.15", 13, 4),
        ],
    },
    Line {
        component: Component::Cusparse,
        newest: "12.8.6.72",
        starts: &[
            ("11.7.5.86", 11, 8),
            ("12.0.0.76", 12, 0),
            ("12.0.2.55", 12, 1),
            ("12.1.1.53", 12, 2),
            ("12.1.3.153", 12, 3),
            ("12.3.0.142", 12, 4),
            ("12.4.1.24", 12, 5),
            ("12.5.2.23", 12, 6),
            ("12.5.7.53", 12, 8),
            ("12.5.9.5", 12, 9),
            ("12.6.2.49", 13, 0),
            ("12.7.2.19", 13, 1),
            ("12.7.9.17", 13, 2),
            ("12.8.1.7", 13, 3),
            ("12.8.6.49", 13, 4),
        ],
    },
    Line {
        component: Component::Npp,
        newest: "13.2.0.58",
        starts: &[
            ("11.8.0.86", 11, 8),
            ("12.0.0.30", 12, 0),
            ("12.0.2.50", 12, 1),
            ("12.1.1.14", 12, 2),
            ("12.2.2.32", 12, 3),
            ("12.2.5.2", 12, 4),
            ("12.3.0.116", 12, 5),
            ("12.3.1.23", 12, 6),
            ("12.3.3.65", 12, 8),
            ("12.4.0.27", 12, 9),
            ("13.0.0.50", 13, 0),
            ("13.0.2.21", 13, 1),
            ("13.1.0.44", 13, 2),
            ("13.1.2.48", 13, 3),
            ("13.2.0.35", 13, 4),
        ],
    },
    Line {
        component: Component::Nvjpeg,
        newest: "13.2.3.58",
        starts: &[
            ("11.9.0.86", 11, 8),
            ("12.0.0.28", 12, 0),
            ("12.1.0.39", 12, 1),
            ("12.1.1.14", 12, 2),
            ("12.2.0.2", 12, 1),
            ("12.2.1.2", 12, 2),
            ("12.2.3.32", 12, 3),
            ("12.3.1.89", 12, 4),
            ("12.3.2.38", 12, 5),
            ("12.3.3.23", 12, 6),
            ("12.3.5.57", 12, 8),
            ("12.4.0.16", 12, 9),
            ("13.0.0.40", 13, 0),
            ("13.0.2.28", 13, 1),
            ("13.0.4.44", 13, 2),
            ("13.2.0.21", 13, 3),
            ("13.2.2.35", 13, 4),
        ],
    },
    Line {
        component: Component::Cufile,
        newest: "1.19.1.55",
        starts: &[
            ("1.11.1.6", 12, 6),
            ("1.13.0.11", 12, 8),
            ("1.14.0.30", 12, 9),
            ("1.15.0.42", 13, 0),
            ("1.16.0.49", 13, 1),
            ("1.17.0.44", 13, 2),
            ("1.18.0.66", 13, 3),
            ("1.19.0.109", 13, 4),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::was_released;

    fn release(component: Component, version: &str) -> Option<String> {
        release_of(component, &version.parse().unwrap()).map(|release| release.to_string())
    }

    #[test]
    fn rows_ascend_and_name_releases_that_were() {
        for line in LINES {
            let versions: Vec<Version> = line
                .starts
                .iter()
                .map(|start| start.0.parse().unwrap())
                .collect();
            assert!(
                versions.windows(2).all(|pair| pair[0] < pair[1]),
                "{}",
                line.component
            );
            assert!(
                *versions.last().unwrap() <= line.newest.parse().unwrap(),
                "{}",
                line.component
            );
            assert!(
                !line.component.facts().follows_toolkit,
                "{}",
                line.component
            );
            for (_, major, minor) in line.starts {
                assert!(
                    was_released(ToolkitVersion::new(*major, *minor)),
                    "{} {major}.{minor}",
                    line.component
                );
            }
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
    fn beyond_the_table_nothing_is_claimed() {
        assert_eq!(
            release(Component::Cusparse, "12.9.4.2"),
            None,
            "CUDA 13.5 has no metapackage yet"
        );
        assert_eq!(release(Component::Cublas, "11.5.1"), None);
        assert_eq!(release(Component::Cudnn, "9.27.0"), None);
    }
}

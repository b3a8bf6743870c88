//! What is known about each released toolkit.
//!
//! PTX versions are the ceiling that `ptxas` itself reports (from 11.7; before, the release history
//! in NVIDIA's PTX ISA guide). Host compiler bounds are the conditions in `crt/host_config.h`, not the
//! messages, which are sometimes wrong (from 11.7; before,
//! [nixpkgs](https://github.com/NixOS/nixpkgs/blob/master/pkgs/development/cuda-modules/_cuda/db/bootstrap/nvcc.nix),
//! [Spack](https://github.com/spack/spack-packages/blob/develop/repos/spack_repo/builtin/build_systems/cuda.py) and
//! [PyTorch](https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py)). Drivers come from
//! [Meson's table](https://github.com/mesonbuild/meson/blob/master/mesonbuild/modules/cuda.py) and the table of
//! minor-version compatibility in NVIDIA's CUDA Compatibility guide.

use super::Capability;
use crate::version::ToolkitVersion;

/// What is known about one `major.minor` of the toolkit.
#[derive(Clone, Debug)]
pub struct ToolkitFacts {
    /// Which toolkit.
    pub version: ToolkitVersion,
    /// The newest PTX version it writes: `(9, 4)`. A driver older than the toolkit can't read it.
    pub ptx_isa: (u32, u32),
    /// What nvcc builds for when nothing is said.
    pub default_capability: Capability,
    /// The newest major of gcc that its headers accept.
    pub gcc_max: u32,
    /// The newest major of clang that its headers accept.
    pub clang_max: u32,
    /// `_MSC_VER`: first accepted, first not accepted.
    pub msc_ver: Option<(u32, u32)>,
    /// The drivers it was released with; empty where not known.
    pub drivers: &'static [DriverFloor],
}

/// The driver that one patch release of a toolkit was released with: enough for everything it
/// writes, PTX of its newest version included.
#[derive(Clone, Debug)]
pub struct DriverFloor {
    /// The release, three parts.
    pub toolkit: &'static str,
    /// On Linux.
    pub linux: &'static str,
    /// On Windows.
    pub windows: Option<&'static str>,
}

/// The oldest driver that runs SASS of any toolkit of one major.
#[derive(Clone, Debug)]
pub struct MajorFloor {
    /// The CUDA major.
    pub major: u32,
    /// On Linux.
    pub linux: &'static str,
    /// On Windows.
    pub windows: Option<&'static str>,
}

const fn driver(
    toolkit: &'static str,
    linux: &'static str,
    windows: Option<&'static str>,
) -> DriverFloor {
    DriverFloor {
        toolkit,
        linux,
        windows,
    }
}

const fn row(
    version: (u32, u32),
    ptx_isa: (u32, u32),
    default: (u32, u32),
    [gcc_max, clang_max]: [u32; 2],
    msc_ver: Option<(u32, u32)>,
    drivers: &'static [DriverFloor],
) -> ToolkitFacts {
    ToolkitFacts {
        version: ToolkitVersion::new(version.0, version.1),
        ptx_isa,
        default_capability: Capability::new(default.0, default.1),
        gcc_max,
        clang_max,
        msc_ver,
        drivers,
    }
}

// Version, PTX, default capability, [gcc, clang], MSVC, drivers.
//
// 11.4: gcc 11 is accepted from 11.4.1 on. 12.2: clang 16 from 12.2.1 on (nvcc 12.2.91 stops at 15).
// 12.3: PyTorch names gcc 13, the header refuses it. 13.4 and 13.5: no public table names their drivers.
static TABLE: &[ToolkitFacts] = &[
    row(
        (11, 0),
        (7, 0),
        (5, 2),
        [9, 9],
        None,
        &[
            driver("11.0.1", "450.36.06", Some("451.22")),
            driver("11.0.2", "450.51.05", Some("451.48")),
            driver("11.0.3", "450.51.06", Some("451.82")),
        ],
    ),
    row(
        (11, 1),
        (7, 1),
        (5, 2),
        [10, 10],
        None,
        &[
            driver("11.1.0", "455.23", Some("456.38")),
            driver("11.1.1", "455.32", Some("456.81")),
        ],
    ),
    row(
        (11, 2),
        (7, 2),
        (5, 2),
        [10, 11],
        None,
        &[
            driver("11.2.0", "460.27.03", Some("460.82")),
            driver("11.2.1", "460.32.03", Some("461.09")),
            driver("11.2.2", "460.32.03", Some("461.33")),
        ],
    ),
    row(
        (11, 3),
        (7, 3),
        (5, 2),
        [10, 11],
        None,
        &[driver("11.3.0", "465.19.01", Some("465.89"))],
    ),
    row(
        (11, 4),
        (7, 4),
        (5, 2),
        [10, 12],
        None,
        &[
            driver("11.4.0", "470.42.01", Some("471.11")),
            driver("11.4.1", "470.57.02", Some("471.41")),
            driver("11.4.3", "470.82.01", Some("472.50")),
        ],
    ),
    row(
        (11, 5),
        (7, 5),
        (5, 2),
        [11, 12],
        None,
        &[
            driver("11.5.0", "495.29.05", Some("496.04")),
            driver("11.5.1", "495.29.05", Some("496.13")),
        ],
    ),
    row(
        (11, 6),
        (7, 6),
        (5, 2),
        [11, 13],
        None,
        &[
            driver("11.6.0", "510.39.01", Some("511.23")),
            driver("11.6.1", "510.47.03", Some("511.65")),
        ],
    ),
    row(
        (11, 7),
        (7, 7),
        (5, 2),
        [11, 13],
        Some((1910, 1940)),
        &[
            driver("11.7.0", "515.43.04", Some("516.01")),
            driver("11.7.1", "515.48.07", Some("516.31")),
        ],
    ),
    row(
        (11, 8),
        (7, 8),
        (5, 2),
        [11, 14],
        Some((1910, 1940)),
        &[driver("11.8.0", "520.61.05", Some("522.06"))],
    ),
    row(
        (12, 0),
        (8, 0),
        (5, 2),
        [12, 14],
        Some((1910, 1940)),
        &[
            driver("12.0.0", "525.60.13", Some("527.41")),
            driver("12.0.1", "525.85.11", Some("528.33")),
        ],
    ),
    row(
        (12, 1),
        (8, 1),
        (5, 2),
        [12, 15],
        Some((1910, 1940)),
        &[
            driver("12.1.0", "530.30.02", Some("531.14")),
            driver("12.1.1", "530.30.02", Some("531.14")),
        ],
    ),
    row(
        (12, 2),
        (8, 2),
        (5, 2),
        [12, 16],
        Some((1910, 1940)),
        &[
            driver("12.2.0", "535.54.03", Some("536.25")),
            driver("12.2.1", "535.86.09", Some("536.67")),
            driver("12.2.2", "535.104.05", Some("537.13")),
        ],
    ),
    row(
        (12, 3),
        (8, 3),
        (5, 2),
        [12, 16],
        Some((1910, 1940)),
        &[
            driver("12.3.0", "545.23.06", Some("545.84")),
            driver("12.3.1", "545.23.08", Some("546.12")),
        ],
    ),
    row(
        (12, 4),
        (8, 4),
        (5, 2),
        [13, 17],
        Some((1910, 1950)),
        &[
            driver("12.4.0", "550.54.14", Some("551.61")),
            driver("12.4.1", "550.54.15", Some("551.78")),
        ],
    ),
    row(
        (12, 5),
        (8, 5),
        (5, 2),
        [13, 17],
        Some((1910, 1950)),
        &[
            driver("12.5.0", "555.42.02", Some("555.85")),
            driver("12.5.1", "555.42.06", Some("555.85")),
        ],
    ),
    row(
        (12, 6),
        (8, 5),
        (5, 2),
        [13, 18],
        Some((1910, 1950)),
        &[
            driver("12.6.0", "560.28.03", Some("560.76")),
            driver("12.6.1", "560.35.03", Some("560.94")),
            driver("12.6.2", "560.35.03", Some("560.94")),
            driver("12.6.3", "560.35.05", Some("561.17")),
        ],
    ),
    row(
        (12, 8),
        (8, 7),
        (5, 2),
        [14, 19],
        Some((1910, 1950)),
        &[
            driver("12.8.0", "570.26", Some("570.65")),
            driver("12.8.1", "570.124.06", Some("572.61")),
        ],
    ),
    row(
        (12, 9),
        (8, 8),
        (5, 2),
        [14, 19],
        Some((1910, 1950)),
        &[
            driver("12.9.0", "575.51.03", Some("576.02")),
            driver("12.9.1", "575.57.08", Some("576.57")),
        ],
    ),
    row(
        (13, 0),
        (9, 0),
        (7, 5),
        [15, 20],
        Some((1920, 1950)),
        &[
            driver("13.0.0", "580.65.06", None),
            driver("13.0.1", "580.82.07", None),
            driver("13.0.2", "580.95.05", None),
        ],
    ),
    row(
        (13, 1),
        (9, 1),
        (7, 5),
        [15, 21],
        Some((1920, 1950)),
        &[
            driver("13.1.0", "590.44.01", None),
            driver("13.1.1", "590.48.01", None),
        ],
    ),
    row(
        (13, 2),
        (9, 2),
        (7, 5),
        [15, 21],
        Some((1920, 1960)),
        &[
            driver("13.2.0", "595.45.04", None),
            driver("13.2.1", "595.58.03", None),
        ],
    ),
    row(
        (13, 3),
        (9, 3),
        (7, 5),
        [15, 21],
        Some((1920, 1960)),
        &[
            driver("13.3.0", "610.43.02", None),
            driver("13.3.1", "610.43.02", None),
        ],
    ),
    row((13, 4), (9, 4), (7, 5), [16, 22], Some((1920, 1960)), &[]),
    row((13, 5), (9, 5), (7, 5), [16, 22], Some((1920, 1960)), &[]),
];

static MAJOR_FLOORS: &[MajorFloor] = &[
    MajorFloor {
        major: 11,
        linux: "450.80.02",
        windows: Some("452.39"),
    },
    MajorFloor {
        major: 12,
        linux: "525.60.13",
        windows: Some("528.33"),
    },
    MajorFloor {
        major: 13,
        linux: "580.65.06",
        windows: None,
    },
];

/// The newest toolkit this crate knows. A newer one is judged by what its compiler lists.
#[must_use]
pub fn newest_known() -> ToolkitVersion {
    TABLE
        .last()
        .map_or(ToolkitVersion::new(0, 0), |row| row.version)
}

/// What is known about a toolkit; `None` for one that is older than 11.0, newer than
/// [`newest_known`], or never was.
#[must_use]
pub fn toolkit_facts(toolkit: ToolkitVersion) -> Option<&'static ToolkitFacts> {
    TABLE.iter().find(|row| row.version == toolkit)
}

/// Whether there may be such a toolkit. `false` for the gaps: there never was a CUDA 12.7.
///
/// ```
/// use cuda_build::ToolkitVersion;
/// use cuda_build::capability::was_released;
/// assert!(!was_released(ToolkitVersion::new(12, 7)));
/// assert!(was_released(ToolkitVersion::new(14, 1)), "newer than this crate: nothing is known");
/// ```
#[must_use]
pub fn was_released(toolkit: ToolkitVersion) -> bool {
    toolkit > newest_known() || toolkit.major < 11 || toolkit_facts(toolkit).is_some()
}

/// The oldest driver that runs SASS built by any toolkit of this major.
#[must_use]
pub fn driver_floor(major: u32) -> Option<&'static MajorFloor> {
    MAJOR_FLOORS.iter().find(|floor| floor.major == major)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::supported;
    use crate::version::Version;

    #[test]
    fn rows_ascend_and_values_never_fall() {
        for pair in TABLE.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert!(
                a.version < b.version && a.ptx_isa <= b.ptx_isa,
                "{} {}",
                a.version,
                b.version
            );
            assert!(
                a.gcc_max <= b.gcc_max && a.clang_max <= b.clang_max,
                "{} {}",
                a.version,
                b.version
            );
        }
        assert_eq!(newest_known(), ToolkitVersion::new(13, 5));
    }

    #[test]
    fn every_default_is_supported_and_every_driver_fits() {
        for row in TABLE {
            assert!(
                supported(row.version).contains(&row.default_capability),
                "{}",
                row.version
            );
            let floor: Version = driver_floor(row.version.major)
                .unwrap()
                .linux
                .parse()
                .unwrap();
            for driver in row.drivers {
                let patch: Version = driver.toolkit.parse().unwrap();
                assert_eq!(
                    (patch.part(0), patch.part(1)),
                    (row.version.major.into(), row.version.minor.into())
                );
                // 11.0 came before the compatibility that begins with 450.80.02.
                if row.version > ToolkitVersion::new(11, 0) {
                    assert!(
                        driver.linux.parse::<Version>().unwrap() >= floor,
                        "{}",
                        driver.toolkit
                    );
                }
            }
        }
    }

    #[test]
    fn the_only_gap_is_12_7() {
        let gaps: Vec<String> = [(11, 0..=8), (12, 0..=9), (13, 0..=5)]
            .into_iter()
            .flat_map(|(major, minors)| minors.map(move |minor| ToolkitVersion::new(major, minor)))
            .filter(|&toolkit| !was_released(toolkit))
            .map(|toolkit| toolkit.to_string())
            .collect();
        assert_eq!(gaps, ["12.7"]);
    }
}

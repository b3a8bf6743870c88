//! CUDA releases: which exist, and what is known about each.
//!
//! One line for each CUDA release. To support a new release, add a line here; for a new major, also
//! add a column to the component table.
//!
//! The sources of the values:
//!
//! - PTX version: the newest that `ptxas` of the release reports. Before 11.7: the release history in NVIDIA's PTX ISA
//!   guide.
//! - Newest gcc and clang: the conditions in `crt/host_config.h`. The messages in this header are sometimes wrong, so
//!   they are not used. Before 11.7:
//!   [nixpkgs](https://github.com/NixOS/nixpkgs/blob/master/pkgs/development/cuda-modules/_cuda/db/bootstrap/nvcc.nix),
//!   [Spack](https://github.com/spack/spack-packages/blob/develop/repos/spack_repo/builtin/build_systems/cuda.py) and
//!   [PyTorch](https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py).
//! - Driver: [Meson's table](https://github.com/mesonbuild/meson/blob/master/mesonbuild/modules/cuda.py).
//! - Versions of components: the pins of the `cuda-toolkit` metapackage, which NVIDIA publishes as a Python package,
//!   in each of its versions from 11.8.0 to 13.5.0.

use crate::capability::Capability;
use crate::version::ToolkitVersion;

/// What is known about one `major.minor` of the toolkit.
pub struct Release {
    /// `13.4`.
    pub version: ToolkitVersion,
    /// The newest version of PTX that the toolkit's compilers write, such as `(9, 4)`. A driver that is older than
    /// the toolkit cannot read PTX of this version.
    pub ptx_isa: (u32, u32),
    /// The capability that nvcc compiles for if no option names one.
    pub default_capability: Capability,
    /// The newest major of gcc that the toolkit's headers accept.
    pub gcc_max: u32,
    /// The newest major of clang that the toolkit's headers accept.
    pub clang_max: u32,
    /// The Linux driver that shipped with the first patch release of this toolkit. The driver runs everything that
    /// the toolkit writes, including PTX of the newest version. `None` if no public table lists the driver.
    pub driver: Option<&'static str>,
    /// For each component with version numbers of its own, the first version of it that belongs to this release; empty
    /// if no metapackage pins one.
    pub(crate) first_versions: [&'static str; SELF_VERSIONED],
}

/// The oldest CUDA major that the tables cover.
pub const OLDEST_MAJOR: u32 = RELEASES[0].version.major;

/// The newest CUDA major that the tables cover.
pub const NEWEST_MAJOR: u32 = RELEASES[RELEASES.len() - 1].version.major;

/// How many majors the tables cover: the number of columns in the component table.
pub const MAJORS: usize = (NEWEST_MAJOR - OLDEST_MAJOR + 1) as usize;

/// The first major whose Python packages include nvcc. The packages of earlier majors include only `ptxas` and
/// libNVVM, so code for these majors is compiled with NVRTC.
const FIRST_MAJOR_WITH_PACKAGED_NVCC: u32 = 13;

/// The first release that can be fetched by its version: the first of the Python metapackage `cuda-toolkit`.
pub const FIRST_PACKAGED: ToolkitVersion = ToolkitVersion::new(11, 8);

/// The first major in which code for Jetson boards and code for other GPUs of the same capability
/// major are interchangeable, and whose files for servers are those for the boards, too (Orin since JetPack 7.2).
pub const JETSON_UNIFIED_SINCE: u32 = 13;

/// The first major of which NVIDIA's archives have libNVVM and the `crt` headers apart from nvcc.
pub const COMPILER_HAS_THREE_ARCHIVES_SINCE: u32 = 13;

/// Every CUDA major that the tables cover, oldest first.
pub fn majors() -> impl DoubleEndedIterator<Item = u32> + Clone {
    OLDEST_MAJOR..=NEWEST_MAJOR
}

/// The known releases, oldest first.
pub fn releases() -> impl DoubleEndedIterator<Item = ToolkitVersion> {
    RELEASES.iter().map(|release| release.version)
}

/// The newest release in the tables. The tables do not have the capabilities of a newer toolkit, so those that its
/// compiler lists are used.
pub fn newest() -> ToolkitVersion {
    RELEASES[RELEASES.len() - 1].version
}

/// The newest release of a major; `None` for a major that the tables do not cover.
pub fn newest_of(major: u32) -> Option<ToolkitVersion> {
    let versions = RELEASES.iter().map(|row| row.version);
    versions.filter(|version| version.major == major).max()
}

/// What is known about a release; `None` if it is older than 11.0, newer than [`newest`], or never existed.
pub fn facts(toolkit: ToolkitVersion) -> Option<&'static Release> {
    RELEASES.iter().find(|row| row.version == toolkit)
}

/// The oldest Linux driver that runs SASS built by any toolkit of this major.
pub fn driver_floor(major: u32) -> Option<&'static str> {
    let floor = DRIVER_FLOORS.iter().find(|(known, _)| *known == major);
    floor.map(|(_, driver)| *driver)
}

/// Whether the Python packages of a major include nvcc.
pub const fn is_nvcc_packaged(major: u32) -> bool {
    major >= FIRST_MAJOR_WITH_PACKAGED_NVCC
}

/// Where nvcc of a release comes from if its Python packages have none, in parentheses, otherwise nothing.
pub fn source_of_nvcc(release: ToolkitVersion) -> String {
    if is_nvcc_packaged(release.major) {
        return String::new();
    }
    format!(
        " (its Python packages have no nvcc; `cargo cuda toolkit add {release} --from redist` has it)"
    )
}

/// Functions that a C library declares since one of its versions, and that the headers of nvcc declare in another way.
pub struct CLibrary {
    /// The version of glibc.
    pub glibc: (u32, u32),
    /// The functions.
    pub functions: &'static [&'static str],
    /// The first release whose headers fit this version.
    pub since: ToolkitVersion,
}

/// Source: `crt/math_functions.h` of NVIDIA's packages, which asks for these versions of glibc.
pub const C_LIBRARIES: &[CLibrary] = &[
    CLibrary {
        glibc: (2, 41),
        functions: &["cospi", "cospif", "sinpi", "sinpif"],
        since: ToolkitVersion::new(13, 0),
    },
    CLibrary {
        glibc: (2, 42),
        functions: &["rsqrt", "rsqrtf"],
        since: ToolkitVersion::new(13, 2),
    },
];

/// How many toolkit components have version numbers of their own.
pub(crate) const SELF_VERSIONED: usize = 8;

/// The first versions of a release whose components no metapackage pins.
const NOT_PINNED: [&str; SELF_VERSIONED] = [""; SELF_VERSIONED];

const fn row(
    version: (u32, u32),
    ptx_isa: (u32, u32),
    default_capability: (u32, u32),
    [gcc_max, clang_max]: [u32; 2],
    driver: Option<&'static str>,
    first_versions: [&'static str; SELF_VERSIONED],
) -> Release {
    Release {
        version: ToolkitVersion::new(version.0, version.1),
        ptx_isa,
        default_capability: Capability::new(default_capability.0, default_capability.1),
        gcc_max,
        clang_max,
        driver,
        first_versions,
    }
}

// Columns: release, PTX, default capability, [gcc, clang], driver, first versions of `SELF_VERSIONED`.
//
// - 11.4: the row has gcc 10; gcc 11 is accepted from 11.4.1 on.
// - 12.2: the row has clang 16, which is accepted from 12.2.1 on; nvcc 12.2.91 accepts at most clang 15.
// - 12.3: PyTorch lists gcc 13, but `crt/host_config.h` refuses it.
// - 12.7 was never released.
// - 13.4 and 13.5: no public table lists the driver.
// - nvJPEG: its version numbers went back once. CUDA 12.1.1 has 12.2.0.2, and CUDA 12.2.0 has 12.1.1.14.
#[rustfmt::skip]
pub(crate) const RELEASES: &[Release] = &[
    row((11, 0), (7, 0), (5, 2), [9, 9], Some("450.36.06"), NOT_PINNED),
    row((11, 1), (7, 1), (5, 2), [10, 10], Some("455.23"), NOT_PINNED),
    row((11, 2), (7, 2), (5, 2), [10, 11], Some("460.27.03"), NOT_PINNED),
    row((11, 3), (7, 3), (5, 2), [10, 11], Some("465.19.01"), NOT_PINNED),
    row((11, 4), (7, 4), (5, 2), [10, 12], Some("470.42.01"), NOT_PINNED),
    row((11, 5), (7, 5), (5, 2), [11, 12], Some("495.29.05"), NOT_PINNED),
    row((11, 6), (7, 6), (5, 2), [11, 13], Some("510.39.01"), NOT_PINNED),
    row((11, 7), (7, 7), (5, 2), [11, 13], Some("515.43.04"), NOT_PINNED),
    row((11, 8), (7, 8), (5, 2), [11, 14], Some("520.61.05"),
        ["11.11.3.6", "10.9.0.58", "10.3.0.86", "11.4.1.48", "11.7.5.86", "11.8.0.86", "11.9.0.86", ""]),
    row((12, 0), (8, 0), (5, 2), [12, 14], Some("525.60.13"),
        ["12.0.1.189", "11.0.0.21", "10.3.1.50", "11.4.2.57", "12.0.0.76", "12.0.0.30", "12.0.0.28", ""]),
    row((12, 1), (8, 1), (5, 2), [12, 15], Some("530.30.02"),
        ["12.1.0.26", "11.0.2.4", "10.3.2.56", "11.4.4.55", "12.0.2.55", "12.0.2.50", "12.1.0.39", ""]),
    row((12, 2), (8, 2), (5, 2), [12, 16], Some("535.54.03"),
        ["12.2.1.16", "11.0.8.15", "10.3.3.53", "11.5.0.53", "12.1.1.53", "12.1.1.14", "12.1.1.14", ""]),
    row((12, 3), (8, 3), (5, 2), [12, 16], Some("545.23.06"),
        ["12.3.2.9", "11.0.11.19", "10.3.4.52", "11.5.3.52", "12.1.3.153", "12.2.2.32", "12.2.3.32", ""]),
    row((12, 4), (8, 4), (5, 2), [13, 17], Some("550.54.14"),
        ["12.4.2.65", "11.2.0.44", "10.3.5.119", "11.6.0.99", "12.3.0.142", "12.2.5.2", "12.3.1.89", ""]),
    row((12, 5), (8, 5), (5, 2), [13, 17], Some("555.42.02"),
        ["12.5.2.13", "11.2.3.18", "10.3.6.39", "11.6.2.40", "12.4.1.24", "12.3.0.116", "12.3.2.38", ""]),
    row((12, 6), (8, 5), (5, 2), [13, 18], Some("560.28.03"),
        ["12.6.0.22", "11.2.6.28", "10.3.7.37", "11.6.4.38", "12.5.2.23", "12.3.1.23", "12.3.3.23", "1.11.1.6"]),
    row((12, 8), (8, 7), (5, 2), [14, 19], Some("570.26"),
        ["12.8.3.14", "11.3.3.41", "10.3.9.55", "11.7.2.55", "12.5.7.53", "12.3.3.65", "12.3.5.57", "1.13.0.11"]),
    row((12, 9), (8, 8), (5, 2), [14, 19], Some("575.51.03"),
        ["12.9.0.13", "11.4.0.6", "10.3.10.19", "11.7.4.40", "12.5.9.5", "12.4.0.27", "12.4.0.16", "1.14.0.30"]),
    row((13, 0), (9, 0), (7, 5), [15, 20], Some("580.65.06"),
        ["13.0.0.19", "12.0.0.15", "10.4.0.35", "12.0.3.29", "12.6.2.49", "13.0.0.50", "13.0.0.40", "1.15.0.42"]),
    row((13, 1), (9, 1), (7, 5), [15, 21], Some("590.44.01"),
        ["13.2.0.9", "12.1.0.31", "10.4.1.34", "12.0.7.41", "12.7.2.19", "13.0.2.21", "13.0.2.28", "1.16.0.49"]),
    row((13, 2), (9, 2), (7, 5), [15, 21], Some("595.45.04"),
        ["13.3.0.5", "12.2.0.37", "10.4.2.51", "12.1.0.51", "12.7.9.17", "13.1.0.44", "13.0.4.44", "1.17.0.44"]),
    row((13, 3), (9, 3), (7, 5), [15, 21], Some("610.43.02"),
        ["13.5.1.27", "12.3.0.29", "10.4.3.29", "12.2.2.18", "12.8.1.7", "13.1.2.48", "13.2.0.21", "1.18.0.66"]),
    row((13, 4), (9, 4), (7, 5), [16, 22], None,
        ["13.7.0.27", "12.4.0.34", "10.4.4.49", "12.3.2.15", "12.8.6.49", "13.2.0.35", "13.2.2.35", "1.19.0.109"]),
    row((13, 5), (9, 5), (7, 5), [16, 22], None,
        ["13.10.0.20", "12.5.0.14", "10.4.5.25", "12.4.1.2", "12.9.4.2", "13.2.0.93", "13.3.2.43", "1.20.0.107"]),
];

/// For each major, the oldest driver that runs SASS of any of its releases, from the table of minor-version
/// compatibility in NVIDIA's CUDA Compatibility guide.
const DRIVER_FLOORS: &[(u32, &str)] = &[(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    #[test]
    fn releases_ascend() {
        for pair in RELEASES.windows(2) {
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
        for row in RELEASES {
            assert!(
                crate::capability::supported(row.version).contains(&row.default_capability),
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
        RELEASES[0].version
    }

    #[test]
    fn the_only_gap_is_12_7() {
        let minors = |major| {
            RELEASES
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
            .filter(|&toolkit| facts(toolkit).is_none())
            .map(|toolkit| toolkit.to_string())
            .collect();
        assert_eq!(gaps, ["12.7"]);
    }
}

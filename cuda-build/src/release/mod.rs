//! CUDA releases: which exist, what is known about each, and to which one a component belongs.

mod table;

use crate::capability::Capability;
use crate::component::Component;
use crate::version::{ToolkitVersion, Version};

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
    /// For each component of [`table::SELF_VERSIONED`], the first version of it that belongs to this release; empty if
    /// no metapackage pins one.
    first_versions: [&'static str; table::SELF_VERSIONED.len()],
}

/// The oldest CUDA major that the tables cover.
pub const OLDEST_MAJOR: u32 = table::RELEASES[0].version.major;

/// The newest CUDA major that the tables cover.
pub const NEWEST_MAJOR: u32 = table::RELEASES[table::RELEASES.len() - 1].version.major;

/// How many majors the tables cover: the number of columns in the component table.
pub(crate) const MAJORS: usize = (NEWEST_MAJOR - OLDEST_MAJOR + 1) as usize;

/// The first major whose Python packages include nvcc. The packages of earlier majors include only `ptxas` and
/// libNVVM, so code for these majors is compiled with NVRTC.
const FIRST_MAJOR_WITH_PACKAGED_NVCC: u32 = 13;

/// The first major in which code for Jetson boards and code for other GPUs of the same capability
/// major are interchangeable.
pub(crate) const JETSON_UNIFIED_SINCE: u32 = 13;

/// The first major whose `cuda_fp16.h` includes a header of CCCL.
pub const HALF_NEEDS_CCCL_SINCE: u32 = 13;

/// The first major of which NVIDIA's archives have libNVVM and the `crt` headers apart from nvcc.
pub const COMPILER_HAS_THREE_ARCHIVES_SINCE: u32 = 13;

/// Every CUDA major that the tables cover, oldest first.
pub fn majors() -> impl DoubleEndedIterator<Item = u32> + Clone {
    OLDEST_MAJOR..=NEWEST_MAJOR
}

/// The newest release in the tables. The tables do not have the capabilities of a newer toolkit, so those that its
/// compiler lists are used.
pub fn newest() -> ToolkitVersion {
    table::RELEASES[table::RELEASES.len() - 1].version
}

/// The newest release of a major; `None` for a major that the tables do not cover.
pub fn newest_of(major: u32) -> Option<ToolkitVersion> {
    let versions = table::RELEASES.iter().map(|row| row.version);
    versions.filter(|version| version.major == major).max()
}

/// What is known about a release; `None` if it is older than 11.0, newer than [`newest`], or never existed.
pub fn facts(toolkit: ToolkitVersion) -> Option<&'static Release> {
    table::RELEASES.iter().find(|row| row.version == toolkit)
}

/// Whether a toolkit of this release may exist. `false` only for a gap between releases: there never was a CUDA
/// 12.7.
pub fn was_released(toolkit: ToolkitVersion) -> bool {
    toolkit > newest() || toolkit.major < OLDEST_MAJOR || facts(toolkit).is_some()
}

/// The oldest Linux driver that runs SASS built by any toolkit of this major.
pub fn driver_floor(major: u32) -> Option<&'static str> {
    let floor = table::DRIVER_FLOORS
        .iter()
        .find(|(known, _)| *known == major);
    floor.map(|(_, driver)| *driver)
}

/// Whether the Python packages of a major include nvcc.
pub const fn is_nvcc_packaged(major: u32) -> bool {
    major >= FIRST_MAJOR_WITH_PACKAGED_NVCC
}

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
    let column = table::SELF_VERSIONED
        .iter()
        .position(|numbered| *numbered == component)?;
    // A test parses every version of the table, so parsing does not fail here.
    let parse = |text: &str| text.parse::<Version>().ok();
    if parse(table::NEWEST_PINNED[column]).is_none_or(|newest| *version > newest) {
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
    let column = table::SELF_VERSIONED
        .iter()
        .position(|numbered| *numbered == component)?;
    let is_new_enough = |first: &str| {
        first
            .parse::<Version>()
            .is_ok_and(|first| first >= *version)
    };
    table::RELEASES
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
        table::NVJPEG_EXCEPTIONS.as_slice()
    } else {
        &[]
    };
    let pinned = table::RELEASES
        .iter()
        .map(move |row| (row.first_versions[column], row.version))
        .filter(|(first, _)| !first.is_empty());
    pinned.chain(exceptions.iter().copied())
}

#[cfg(test)]
mod tests;

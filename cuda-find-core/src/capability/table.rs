//! The table of capabilities, and of the toolkits that build for each.
//!
//! The first and the last toolkit of a capability come from the values of `--gpu-name` that `ptxas --help` lists, for
//! every release from 11.7 to 13.5. Before 11.7 they follow
//! [CMake's list](https://github.com/Kitware/CMake/blob/master/Modules/Internal/CMakeCUDAArchitecturesAll.cmake)
//! and [Meson's](https://github.com/mesonbuild/meson/blob/master/mesonbuild/modules/cuda.py), except that 8.7
//! begins at 11.4, because [nvcc 11.4.152 lists it](https://github.com/mesonbuild/meson/issues/13692).
//! The families were measured: an architecture belongs to a family if `ptxas` 12.9.86 and 13.5.37 assemble PTX with
//! the family's `.target` for that architecture.

use super::number::{Capability, Suffix};
use crate::list::sorted_set;
use crate::version::ToolkitVersion;

/// What is known about one capability number.
pub struct CapabilityFacts {
    /// The number, without suffix.
    pub capability: Capability,
    /// The first toolkit that builds for it.
    pub min_cuda: ToolkitVersion,
    /// The first toolkit that no longer builds for it.
    pub removed_in: Option<ToolkitVersion>,
    /// The first toolkit with the `a` variant.
    pub arch_specific_since: Option<ToolkitVersion>,
    /// The first toolkit with the `f` variant.
    pub family_since: Option<ToolkitVersion>,
    /// The minors of the same major on which code for the `f` variant runs.
    pub family: &'static [u32],
    /// Whether Jetson boards have this capability; `None` if NVIDIA has not published this.
    pub jetson: Option<bool>,
    /// The name of the GPU generation.
    pub architecture: &'static str,
}

const fn v(major: u32, minor: u32) -> ToolkitVersion {
    ToolkitVersion::new(major, minor)
}

impl CapabilityFacts {
    const fn new(number: (u32, u32), architecture: &'static str, min_cuda: ToolkitVersion) -> Self {
        Self {
            capability: Capability::new(number.0, number.1),
            min_cuda,
            removed_in: None,
            arch_specific_since: None,
            family_since: None,
            family: &[],
            jetson: Some(false),
            architecture,
        }
    }

    const fn until(mut self, removed_in: ToolkitVersion) -> Self {
        self.removed_in = Some(removed_in);
        self
    }

    const fn jetson(mut self) -> Self {
        self.jetson = Some(true);
        self
    }

    const fn arch_specific(mut self, since: ToolkitVersion) -> Self {
        self.arch_specific_since = Some(since);
        self
    }

    const fn family(mut self, since: ToolkitVersion, family: &'static [u32]) -> Self {
        self.family_since = Some(since);
        self.family = family;
        self
    }

    /// The first toolkit that builds for the variant with this suffix; `None` if there is no such variant.
    pub fn since(&self, suffix: Option<Suffix>) -> Option<ToolkitVersion> {
        match suffix {
            None => Some(self.min_cuda),
            Some(Suffix::ArchSpecific) => self.arch_specific_since,
            Some(Suffix::Family) => self.family_since,
        }
    }

    /// Whether this toolkit builds for the variant with this suffix.
    pub fn built_by(&self, suffix: Option<Suffix>, toolkit: ToolkitVersion) -> bool {
        self.since(suffix).is_some_and(|since| since <= toolkit)
            && self.removed_in.is_none_or(|max| toolkit < max)
    }
}

#[rustfmt::skip]
static TABLE: &[CapabilityFacts] = &[
    CapabilityFacts::new((3, 5), "Kepler", v(5, 0)).until(v(12, 0)), // GK110
    CapabilityFacts::new((3, 7), "Kepler", v(6, 5)).until(v(12, 0)), // Tesla K80
    CapabilityFacts::new((5, 0), "Maxwell", v(6, 5)).until(v(13, 0)), // GM107
    CapabilityFacts::new((5, 2), "Maxwell", v(6, 5)).until(v(13, 0)), // GM20x
    CapabilityFacts::new((5, 3), "Maxwell", v(6, 5)).until(v(13, 0)).jetson(), // Jetson TX1, Nano
    CapabilityFacts::new((6, 0), "Pascal", v(8, 0)).until(v(13, 0)), // P100
    CapabilityFacts::new((6, 1), "Pascal", v(8, 0)).until(v(13, 0)), // GTX 10xx, P40
    CapabilityFacts::new((6, 2), "Pascal", v(8, 0)).until(v(13, 0)).jetson(), // Jetson TX2
    CapabilityFacts::new((7, 0), "Volta", v(9, 0)).until(v(13, 0)), // V100
    CapabilityFacts::new((7, 2), "Volta", v(9, 0)).until(v(13, 0)).jetson(), // Jetson Xavier
    CapabilityFacts::new((7, 5), "Turing", v(10, 0)), // RTX 20xx, T4
    CapabilityFacts::new((8, 0), "Ampere", v(11, 0)), // A100
    CapabilityFacts::new((8, 6), "Ampere", v(11, 1)), // RTX 30xx, A10
    CapabilityFacts::new((8, 7), "Ampere", v(11, 4)).jetson(), // Jetson Orin
    CapabilityFacts { jetson: None, ..CapabilityFacts::new((8, 8), "Ampere", v(13, 0)) }, // not documented
    CapabilityFacts::new((8, 9), "Ada", v(11, 8)), // RTX 40xx, L4, L40
    CapabilityFacts::new((9, 0), "Hopper", v(11, 8)).arch_specific(v(12, 0)), // H100, H200, GH200
    // B200, GB200
    CapabilityFacts::new((10, 0), "Blackwell", v(12, 8)).arch_specific(v(12, 8))
        .family(v(12, 9), &[0, 3, 7]),
    // 10.1 and 11.0 are the same hardware: see `renamed`.
    // Jetson Thor (with CUDA 12)
    CapabilityFacts::new((10, 1), "Blackwell", v(12, 8)).until(v(13, 0)).jetson()
        .arch_specific(v(12, 8)).family(v(12, 9), &[1]),
    // B300, GB300
    CapabilityFacts::new((10, 3), "Blackwell", v(12, 9)).arch_specific(v(12, 9))
        .family(v(12, 9), &[3, 7]),
    // Sources: pytorch/pytorch#190654, llvm/llvm-project#211677.
    CapabilityFacts::new((10, 7), "Rubin", v(13, 4)).arch_specific(v(13, 4)).family(v(13, 4), &[7]), // Rubin
    // Jetson Thor (with CUDA 13)
    CapabilityFacts::new((11, 0), "Blackwell", v(13, 0)).jetson()
        .arch_specific(v(13, 0)).family(v(13, 0), &[0]),
    // In Meson's list, 12.0a begins at CUDA 12.9, but ptxas 12.8.61 already lists it.
    // RTX 50xx, RTX PRO Blackwell
    CapabilityFacts::new((12, 0), "Blackwell", v(12, 8)).arch_specific(v(12, 8))
        .family(v(12, 9), &[0, 1]),
    // GB10 (DGX Spark)
    CapabilityFacts::new((12, 1), "Blackwell", v(12, 9)).arch_specific(v(12, 9))
        .family(v(12, 9), &[1]),
];

/// Every known capability, ascending.
pub fn all() -> impl Iterator<Item = &'static CapabilityFacts> {
    TABLE.iter()
}

/// What is known about a capability's number. The suffix is ignored.
pub fn facts(capability: Capability) -> Option<&'static CapabilityFacts> {
    TABLE
        .iter()
        .find(|facts| facts.capability == capability.base())
}

/// Every target that this toolkit is known to build for, with and without suffix, ascending.
///
/// For a toolkit newer than [`release::newest`](crate::release::newest), these are the targets of the newest known
/// toolkit.
///
/// ```
/// use cuda_find_core::version::ToolkitVersion;
/// use cuda_find_core::capability::supported;
/// let names: Vec<String> = supported(ToolkitVersion::new(12, 0)).iter().map(|c| c.digits()).collect();
/// assert_eq!(names.last().map(String::as_str), Some("90a"));
/// ```
pub fn supported(toolkit: ToolkitVersion) -> Vec<Capability> {
    let mut list = Vec::new();
    for facts in TABLE {
        for suffix in [None, Some(Suffix::ArchSpecific), Some(Suffix::Family)] {
            if facts.built_by(suffix, toolkit) {
                list.push(facts.capability.with_suffix(suffix));
            }
        }
    }
    list
}

/// The targets that `ptxas --help` lists as values of `--gpu-name`, ascending. Empty if the text
/// lists none.
///
/// ```
/// use cuda_find_core::capability::observed_from_ptxas_help;
/// let list = observed_from_ptxas_help("Allowed values: 'compute_90','lto_90','sm_90','sm_90a'.");
/// assert_eq!(list.iter().map(|c| c.sm()).collect::<Vec<_>>(), ["sm_90", "sm_90a"]);
/// ```
pub fn observed_from_ptxas_help(text: &str) -> Vec<Capability> {
    // In the help text, only the values of options are in single quotes.
    let quoted = text.split('\'').skip(1).step_by(2);
    let names = quoted.filter(|word| word.starts_with("sm_"));
    sorted_set(names.filter_map(|word| word.parse().ok()))
}

/// The other number of a capability that was renumbered, and the first toolkit that uses the new number: 10.1 is 11.0
/// from CUDA 13.0 on. The suffix is kept.
pub(super) fn renamed(capability: Capability) -> Option<(Capability, ToolkitVersion)> {
    let (old, new, at) = (Capability::new(10, 1), Capability::new(11, 0), v(13, 0));
    let other = match capability.base() {
        base if base == old => new,
        base if base == new => old,
        _ => return None,
    };
    Some((other.with_suffix(capability.suffix), at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release;

    /// The `sm_` targets that `ptxas --help` of that toolkit lists (CMake's and Meson's below 11.7).
    const PTXAS: &str = "
        11.0: 35 37 50 52 53 60 61 62 70 72 75 80
        11.1: 35 37 50 52 53 60 61 62 70 72 75 80 86
        11.3: 35 37 50 52 53 60 61 62 70 72 75 80 86
        11.4: 35 37 50 52 53 60 61 62 70 72 75 80 86 87
        11.7: 35 37 50 52 53 60 61 62 70 72 75 80 86 87
        11.8: 35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90
        12.0: 50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a
        12.6: 50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a
        12.8: 50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a 100 100a 101 101a 120 120a
        12.9: 50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a 100 100a 100f 101 101a 101f 103 103a 103f \
120 120a 120f 121 121a 121f
        13.0: 75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f
        13.3: 75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f
        13.5: 75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 107 107a 107f \
110 110a 110f 120 120a 120f 121 121a 121f
    ";

    #[test]
    fn supported_is_what_ptxas_lists() {
        for line in PTXAS.trim().lines() {
            let (toolkit, expected) = line.trim().split_once(": ").unwrap();
            let digits: Vec<String> = supported(toolkit.parse().unwrap())
                .iter()
                .map(|c| c.digits())
                .collect();
            assert_eq!(digits.join(" "), expected, "CUDA {toolkit}");
        }
    }

    #[test]
    fn rows_are_ordered_and_sane() {
        assert!(
            TABLE
                .windows(2)
                .all(|pair| pair[0].capability < pair[1].capability)
        );
        for row in all() {
            let name = row.capability;
            assert_eq!(name.suffix, None, "{name}");
            assert!(
                row.removed_in.is_none_or(|max| row.min_cuda < max),
                "{name}"
            );
            for since in [row.arch_specific_since, row.family_since]
                .into_iter()
                .flatten()
            {
                assert!(row.min_cuda <= since, "{name}");
                assert!(row.removed_in.is_none_or(|max| since < max), "{name}");
            }
            assert_eq!(row.family.is_empty(), row.family_since.is_none(), "{name}");
            for &minor in row.family {
                assert!(facts(Capability::new(name.major, minor)).is_some());
                assert!(minor >= name.minor, "{name}f on {minor}");
            }
            for bound in [Some(row.min_cuda), row.removed_in].into_iter().flatten() {
                assert!(
                    bound < v(11, 0) || release::facts(bound).is_some(),
                    "{name}: no CUDA {bound} exists"
                );
            }
        }
    }

    #[test]
    fn a_newer_toolkit_has_what_the_newest_known_one_has() {
        assert_eq!(supported(v(13, 9)), supported(release::newest()));
        assert_eq!(supported(v(99, 0)), supported(release::newest()));
    }

    #[test]
    fn help_of_ptxas() {
        let help = "\
--gpu-name <gpu name>                               (-arch)
        PTX for .target sm_XY can be compiled to all GPU targets sm_MN, sm_MNa.
        Allowed values for this option:  'compute_100','compute_100a',
        'compute_75','lto_100','lto_75','sm_100',
        'sm_100a','sm_100f','sm_75','sm_90a'.
        Default value:  'sm_75'.
--other
        Supported on
        sm_70 or higher.This is a deprecated option
";
        let digits: Vec<String> = observed_from_ptxas_help(help)
            .iter()
            .map(|c| c.digits())
            .collect();
        assert_eq!(digits.join(" "), "75 90a 100 100a 100f");
        assert_eq!(observed_from_ptxas_help(""), []);
    }
}

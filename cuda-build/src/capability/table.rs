//! Which toolkit builds for which capability.
//!
//! First and last toolkits are what the tools themselves say: the `--gpu-name` values in
//! `ptxas --help` of every release from 11.7 to 13.5. Below 11.7 they follow
//! [CMake's list](https://github.com/Kitware/CMake/blob/master/Modules/Internal/CMakeCUDAArchitecturesAll.cmake)
//! and [Meson's](https://github.com/mesonbuild/meson/blob/master/mesonbuild/modules/cuda.py), except that 8.7
//! begins at 11.4, [which nvcc 11.4.152 lists](https://github.com/mesonbuild/meson/issues/13692).
//! Families are the (`.target`, architecture) pairs that `ptxas` 12.9.86 and 13.5.37 assemble.

use super::{Capability, Suffix};
use crate::version::ToolkitVersion;

/// What is known about one capability number.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The number, without suffix.
    pub capability: Capability,
    /// The first toolkit that builds for it.
    pub min_cuda: ToolkitVersion,
    /// The first toolkit that no longer does.
    pub max_cuda: Option<ToolkitVersion>,
    /// The first toolkit with the `a` variant.
    pub arch_specific_since: Option<ToolkitVersion>,
    /// The first toolkit with the `f` variant.
    pub family_since: Option<ToolkitVersion>,
    /// The minors of the same major that its `f` variant runs on, and the toolkit that added each.
    pub family: &'static [(u32, ToolkitVersion)],
    /// Whether it is a Jetson module's; `None` where that is not public.
    pub jetson: Option<bool>,
    /// The generation's name.
    pub architecture: &'static str,
    /// Devices that have it.
    pub example: &'static str,
}

const fn v(major: u32, minor: u32) -> ToolkitVersion {
    ToolkitVersion::new(major, minor)
}

impl Facts {
    const fn new(
        number: (u32, u32),
        architecture: &'static str,
        min_cuda: ToolkitVersion,
        example: &'static str,
    ) -> Self {
        Self {
            capability: Capability::new(number.0, number.1),
            min_cuda,
            max_cuda: None,
            arch_specific_since: None,
            family_since: None,
            family: &[],
            jetson: Some(false),
            architecture,
            example,
        }
    }

    const fn until(self, max_cuda: ToolkitVersion) -> Self {
        Self {
            max_cuda: Some(max_cuda),
            ..self
        }
    }

    const fn jetson(self) -> Self {
        Self {
            jetson: Some(true),
            ..self
        }
    }

    const fn arch_specific(self, since: ToolkitVersion) -> Self {
        Self {
            arch_specific_since: Some(since),
            ..self
        }
    }

    const fn family(self, since: ToolkitVersion, family: &'static [(u32, ToolkitVersion)]) -> Self {
        Self {
            family_since: Some(since),
            family,
            ..self
        }
    }

    /// The first toolkit that has this variant; `None` where there is no such variant.
    #[must_use]
    pub fn since(&self, suffix: Option<Suffix>) -> Option<ToolkitVersion> {
        match suffix {
            None => Some(self.min_cuda),
            Some(Suffix::ArchSpecific) => self.arch_specific_since,
            Some(Suffix::Family) => self.family_since,
        }
    }

    /// Whether this toolkit builds for this variant.
    #[must_use]
    pub fn built_by(&self, suffix: Option<Suffix>, toolkit: ToolkitVersion) -> bool {
        self.since(suffix).is_some_and(|since| since <= toolkit)
            && self.max_cuda.is_none_or(|max| toolkit < max)
    }
}

static TABLE: &[Facts] = &[
    Facts::new((3, 0), "Kepler", v(5, 0), "GK10x").until(v(11, 0)),
    Facts::new((3, 2), "Kepler", v(6, 0), "Tegra K1")
        .until(v(11, 0))
        .jetson(),
    Facts::new((3, 5), "Kepler", v(5, 0), "GK110").until(v(12, 0)),
    Facts::new((3, 7), "Kepler", v(6, 5), "Tesla K80").until(v(12, 0)),
    Facts::new((5, 0), "Maxwell", v(6, 5), "GM107").until(v(13, 0)),
    Facts::new((5, 2), "Maxwell", v(6, 5), "GM20x").until(v(13, 0)),
    Facts::new((5, 3), "Maxwell", v(6, 5), "Jetson TX1, Nano")
        .until(v(13, 0))
        .jetson(),
    Facts::new((6, 0), "Pascal", v(8, 0), "P100").until(v(13, 0)),
    Facts::new((6, 1), "Pascal", v(8, 0), "GTX 10xx, P40").until(v(13, 0)),
    Facts::new((6, 2), "Pascal", v(8, 0), "Jetson TX2")
        .until(v(13, 0))
        .jetson(),
    Facts::new((7, 0), "Volta", v(9, 0), "V100").until(v(13, 0)),
    Facts::new((7, 2), "Volta", v(9, 0), "Jetson Xavier")
        .until(v(13, 0))
        .jetson(),
    Facts::new((7, 5), "Turing", v(10, 0), "RTX 20xx, T4"),
    Facts::new((8, 0), "Ampere", v(11, 0), "A100"),
    Facts::new((8, 6), "Ampere", v(11, 1), "RTX 30xx, A10"),
    Facts::new((8, 7), "Ampere", v(11, 4), "Jetson Orin").jetson(),
    Facts {
        jetson: None,
        ..Facts::new((8, 8), "Ampere", v(13, 0), "not documented")
    },
    Facts::new((8, 9), "Ada", v(11, 8), "RTX 40xx, L4, L40"),
    Facts::new((9, 0), "Hopper", v(11, 8), "H100, H200, GH200").arch_specific(v(12, 0)),
    Facts::new((10, 0), "Blackwell", v(12, 8), "B200, GB200")
        .arch_specific(v(12, 8))
        .family(v(12, 9), &[(0, v(12, 9)), (3, v(12, 9)), (7, v(13, 4))]),
    // The same silicon as 11.0, see `renamed`.
    Facts::new((10, 1), "Blackwell", v(12, 8), "Jetson Thor (with CUDA 12)")
        .until(v(13, 0))
        .jetson()
        .arch_specific(v(12, 8))
        .family(v(12, 9), &[(1, v(12, 9))]),
    Facts::new((10, 3), "Blackwell", v(12, 9), "B300, GB300")
        .arch_specific(v(12, 9))
        .family(v(12, 9), &[(3, v(12, 9)), (7, v(13, 4))]),
    // pytorch/pytorch#190654, llvm/llvm-project#211677
    Facts::new((10, 7), "Rubin", v(13, 4), "Rubin")
        .arch_specific(v(13, 4))
        .family(v(13, 4), &[(7, v(13, 4))]),
    Facts::new((11, 0), "Blackwell", v(13, 0), "Jetson Thor (with CUDA 13)")
        .jetson()
        .arch_specific(v(13, 0))
        .family(v(13, 0), &[(0, v(13, 0))]),
    // Meson gives 12.9 for 12.0a; ptxas 12.8.61 lists it.
    Facts::new(
        (12, 0),
        "Blackwell",
        v(12, 8),
        "RTX 50xx, RTX PRO Blackwell",
    )
    .arch_specific(v(12, 8))
    .family(v(12, 9), &[(0, v(12, 9)), (1, v(12, 9))]),
    Facts::new((12, 1), "Blackwell", v(12, 9), "GB10 (DGX Spark)")
        .arch_specific(v(12, 9))
        .family(v(12, 9), &[(1, v(12, 9))]),
];

/// Every known capability number, ascending.
pub fn all() -> impl Iterator<Item = &'static Facts> {
    TABLE.iter()
}

/// What is known about a capability's number; its suffix plays no part.
#[must_use]
pub fn facts(capability: Capability) -> Option<&'static Facts> {
    TABLE
        .iter()
        .find(|facts| facts.capability == capability.base())
}

/// Every target this toolkit is known to build for, suffix variants included, ascending.
///
/// For a toolkit newer than [`release::newest`](crate::release::newest) that is what the newest known
/// one builds for.
///
/// ```
/// use cuda_build::ToolkitVersion;
/// use cuda_build::internal::capability::supported;
/// let names: Vec<String> = supported(ToolkitVersion::new(12, 0)).iter().map(|c| c.digits()).collect();
/// assert_eq!(names.last().map(String::as_str), Some("90a"));
/// ```
#[must_use]
pub fn supported(toolkit: ToolkitVersion) -> Vec<Capability> {
    let variants = [None, Some(Suffix::ArchSpecific), Some(Suffix::Family)];
    TABLE
        .iter()
        .flat_map(|facts| variants.map(|suffix| (facts, suffix)))
        .filter(|(facts, suffix)| facts.built_by(*suffix, toolkit))
        .map(|(facts, suffix)| facts.capability.with_suffix(suffix))
        .collect()
}

/// Every target to accept: what the compiler itself was observed to list, else [`supported`].
///
/// A list without any suffix is `nvcc --list-gpu-code`'s, which names none: then the suffix
/// variants known of the listed numbers are accepted too.
#[must_use]
pub fn available(toolkit: ToolkitVersion, observed: Option<&[Capability]>) -> Vec<Capability> {
    let known = supported(toolkit);
    let Some(observed) = observed.filter(|list| !list.is_empty()) else {
        return known;
    };
    let mut list = observed.to_vec();
    if observed
        .iter()
        .all(|capability| capability.suffix.is_none())
    {
        list.extend(
            known
                .into_iter()
                .filter(|known| observed.contains(&known.base())),
        );
    }
    list.sort_unstable();
    list.dedup();
    list
}

/// The name that this capability's silicon has in another toolkit, where a toolkit renamed it:
/// 10.1 became 11.0 in CUDA 13.0. The suffix is kept.
///
/// ```
/// use cuda_build::Capability;
/// use cuda_build::internal::capability::renamed;
/// let (name, at) = renamed("10.1a".parse()?).unwrap();
/// assert_eq!((name.to_string(), at.to_string()), ("11.0a".to_owned(), "13.0".to_owned()));
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[must_use]
pub fn renamed(capability: Capability) -> Option<(Capability, ToolkitVersion)> {
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
    const PTXAS: &[(&str, &str)] = &[
        ("11.0", "35 37 50 52 53 60 61 62 70 72 75 80"),
        ("11.1", "35 37 50 52 53 60 61 62 70 72 75 80 86"),
        ("11.3", "35 37 50 52 53 60 61 62 70 72 75 80 86"),
        ("11.4", "35 37 50 52 53 60 61 62 70 72 75 80 86 87"),
        ("11.7", "35 37 50 52 53 60 61 62 70 72 75 80 86 87"),
        ("11.8", "35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90"),
        ("12.0", "50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a"),
        ("12.6", "50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a"),
        (
            "12.8",
            "50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a 100 100a 101 101a 120 120a",
        ),
        (
            "12.9",
            "50 52 53 60 61 62 70 72 75 80 86 87 89 90 90a 100 100a 100f 101 101a 101f 103 103a 103f \
             120 120a 120f 121 121a 121f",
        ),
        (
            "13.0",
            "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f \
             121 121a 121f",
        ),
        (
            "13.3",
            "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f \
             121 121a 121f",
        ),
        (
            "13.5",
            "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 107 107a 107f 110 110a 110f \
             120 120a 120f 121 121a 121f",
        ),
    ];

    #[test]
    fn supported_is_what_ptxas_lists() {
        for (toolkit, expected) in PTXAS {
            let digits: Vec<String> = supported(toolkit.parse().unwrap())
                .iter()
                .map(|c| c.digits())
                .collect();
            assert_eq!(digits.join(" "), *expected, "CUDA {toolkit}");
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
            assert!(row.max_cuda.is_none_or(|max| row.min_cuda < max), "{name}");
            for since in [row.arch_specific_since, row.family_since]
                .into_iter()
                .flatten()
            {
                assert!(row.min_cuda <= since, "{name}");
                assert!(row.max_cuda.is_none_or(|max| since < max), "{name}");
            }
            assert_eq!(row.family.is_empty(), row.family_since.is_none(), "{name}");
            for &(minor, since) in row.family {
                let member = facts(Capability::new(name.major, minor)).unwrap();
                assert!(
                    minor >= name.minor && since >= member.min_cuda,
                    "{name}f on {}",
                    member.capability
                );
            }
            for bound in [Some(row.min_cuda), row.max_cuda].into_iter().flatten() {
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
    fn what_the_compiler_lists_wins_over_the_table() {
        let list = |text: &str| -> Vec<Capability> {
            text.split(' ')
                .map(|digits| digits.parse().unwrap())
                .collect()
        };
        // With suffixes the list is complete, so a missing 75 is really gone.
        assert_eq!(
            available(v(14, 0), Some(&list("130f 80 130"))),
            list("80 130 130f")
        );
        // Without, it is `nvcc --list-gpu-code`'s, which leaves suffixes out.
        assert_eq!(
            available(v(14, 0), Some(&list("90 120 130"))),
            list("90 90a 120 120a 120f 130")
        );
        assert_eq!(available(v(13, 0), Some(&[])), supported(v(13, 0)));
        assert_eq!(available(v(13, 0), None), supported(v(13, 0)));
    }
}

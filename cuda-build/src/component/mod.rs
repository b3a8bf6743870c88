//! The components a toolkit is made of, and the facts known about each.

mod edges;
mod table;

use std::fmt;
use std::str::FromStr;

pub use edges::{EdgeKind, closure, edges};
pub use table::Component;

use crate::capability::Capability;
use crate::release::{MAJORS, OLDEST_MAJOR};
use crate::version::ToolkitVersion;

/// How close the versions of two components must be to work together.
#[derive(Clone, Copy, PartialEq)]
pub enum Class {
    /// The same CUDA `major.minor` as the compiler: nvcc, cicc and the compiler's headers.
    ExactMinor,
    /// The same CUDA major.
    Major,
    /// The same CUDA major, and at least as new as every user of it: nvJitLink.
    Provider,
    /// Versions of its own, each for a range of toolkits: CCCL.
    OwnRange,
    /// Versions of its own, each built once per CUDA major: cuDNN, NCCL and other products.
    Product,
    /// Installed with the GPU driver.
    Driver,
}

/// The macros in a header that define a version.
pub enum VersionMacros {
    /// Major, minor and patch.
    Parts([&'static str; 3]),
    /// One number, which is 300403 for 3.4.3.
    Number(&'static str),
}

/// What is known about a component. A list with one entry per major begins with the oldest major of
/// the table of releases.
pub struct Facts {
    /// The component.
    pub component: Component,
    /// Its name in manifests, messages and on the command line.
    pub id: &'static str,
    /// How close its version must be to the others'.
    pub class: Class,
    /// Whether its package version starts with the toolkit's `major.minor`.
    pub follows_toolkit: bool,
    /// Whether every fetched toolkit contains it, if the major has a package for it.
    pub in_every_toolkit: bool,
    /// Link names, the main one first: `-l<name>`.
    pub libraries: &'static [&'static str],
    /// Whether a toolkit has only one of `libraries`, so that the first that is found is the main one.
    pub libraries_are_alternatives: bool,
    /// Per major: the SONAMEs of `libraries`, in the same order.
    pub sonames: [&'static [&'static str]; MAJORS],
    /// Static archives.
    pub archives: &'static [&'static str],
    /// The header that proves that the component is present.
    pub header: Option<&'static str>,
    /// Programs.
    pub tools: &'static [&'static str],
    /// Per major: the Python package that carries it.
    pub packages: [Option<&'static str>; MAJORS],
    /// Per major: that package's directory in site-packages.
    pub package_dirs: [Option<&'static str>; MAJORS],
    /// The extra of the `cuda-toolkit` metapackage that requires it.
    pub extra: Option<&'static str>,
    /// Prefixes of the names of its headers, to find them in an `include` shared with other
    /// packages.
    pub header_prefixes: &'static [&'static str],
    /// The header, relative to the include directory, that has the component's own version, and the macros for it.
    pub version_macros: Option<(&'static str, VersionMacros)>,
    /// The index of the library whose SONAME ends with the CUDA release: NVRTC's builtins.
    pub library_with_release: Option<usize>,
    /// Environment variables that name its root.
    pub variables: &'static [&'static str],
    /// Its names among NVIDIA's redistributable archives, which nixpkgs uses too.
    pub redist: &'static [&'static str],
    /// Prefixes of its other names in nixpkgs.
    pub nix: &'static [&'static str],
    /// Spack packages that contain it.
    pub spack: &'static [&'static str],
    /// Libraries whose names in CMake's `FindCUDAToolkit` differ from their file names: the name in
    /// CMake, and the files below `lib`.
    pub cmake: &'static [(&'static str, &'static [&'static str])],
    /// Pairs of a component version and the oldest capability that the component has code for since
    /// then, newest version first.
    pub oldest_capabilities: &'static [((u64, u64), Capability)],
    /// A major of the component, and the oldest CUDA release that its headers accept since then.
    pub oldest_release: Option<(u64, ToolkitVersion)>,
}

const EMPTY_FACTS: Facts = Facts {
    component: Component::Cudart,
    id: "",

    class: Class::Major,
    follows_toolkit: false,
    in_every_toolkit: false,
    libraries: &[],
    libraries_are_alternatives: false,
    sonames: [&[]; MAJORS],
    archives: &[],
    header: None,
    tools: &[],
    packages: [None; MAJORS],
    package_dirs: [None; MAJORS],
    extra: None,
    header_prefixes: &[],
    version_macros: None,
    library_with_release: None,
    variables: &[],
    redist: &[],
    nix: &[],
    spack: &[],
    cmake: &[],
    oldest_capabilities: &[],
    oldest_release: None,
};

/// The index of a major in the lists per major; `None` for a major that the tables do not cover. SONAMEs of a newer
/// major are read from the files.
fn column(major: u32) -> Option<usize> {
    let index = major.checked_sub(OLDEST_MAJOR)? as usize;
    (index < MAJORS).then_some(index)
}

impl Facts {
    /// Whether it is a product with a release cycle of its own.
    pub fn is_product(&self) -> bool {
        self.class == Class::Product
    }

    /// Whether it is installed with the GPU driver.
    pub fn is_driver(&self) -> bool {
        self.class == Class::Driver
    }

    /// Whether it belongs to a toolkit, with one release for all of its components.
    pub fn is_part_of_toolkit(&self) -> bool {
        !self.is_product() && !self.is_driver()
    }

    /// SONAME of the library at `index` for a CUDA major, if one is known.
    pub fn soname(&self, index: usize, major: u32) -> Option<&'static str> {
        self.sonames[column(major)?].get(index).copied()
    }

    /// Every SONAME that the library at `index` is known under for a CUDA major.
    pub fn sonames_of(
        &self,
        index: usize,
        major: u32,
    ) -> impl DoubleEndedIterator<Item = &'static str> {
        let names = column(major).map_or(&[][..], |column| self.sonames[column]);
        let library = self.libraries.get(index).copied();
        // A search calls this a hundred times, and comparing prefixes is faster than a substring
        // search.
        let rest = move |name: &'static str| name.strip_prefix("lib")?.strip_prefix(library?);
        names
            .iter()
            .copied()
            .filter(move |name| rest(name).is_some_and(|rest| rest.starts_with(".so")))
    }

    /// Whether the SONAME of the main library at `major` is used for no other major. cuRAND's is not: it is
    /// `libcurand.so.10` for all of them.
    pub fn soname_tells_major(&self, major: u32) -> bool {
        let soname = self.soname(0, major);
        let same = self
            .sonames
            .iter()
            .filter(|names| names.first().copied() == soname);
        soname.is_some() && same.count() == 1
    }

    /// The Python package for a CUDA major.
    pub fn package(&self, major: u32) -> Option<&'static str> {
        self.packages[column(major)?]
    }

    /// That package's directory in site-packages.
    pub fn package_dir(&self, major: u32) -> Option<&'static str> {
        self.package_dirs[column(major)?]
    }
}

impl Component {
    /// The components whose release is that of a toolkit, most significant first: the compiler of
    /// device code decides, otherwise the runtime.
    pub(crate) const CORE: [Self; 3] = [Self::Nvcc, Self::Nvrtc, Self::Cudart];

    /// Whether it is one of [`Component::CORE`].
    pub(crate) fn is_core(self) -> bool {
        Self::CORE.contains(&self)
    }

    /// All components, toolkit first.
    pub fn all() -> impl Iterator<Item = Self> {
        table::TABLE.iter().map(|facts| facts.component)
    }

    /// What is known about it.
    #[doc(hidden)]
    pub fn facts(self) -> &'static Facts {
        // The enum and the table are generated from the same rows, so the index is valid.
        &table::TABLE[self as usize]
    }

    /// The component that NVIDIA's redistributable archives call `name`: `libcublas` is cuBLAS.
    #[doc(hidden)]
    pub fn of_redist(name: &str) -> Option<Self> {
        Self::all().find(|component| component.facts().redist.contains(&name))
    }

    /// Its name in manifests and messages.
    pub fn id(self) -> &'static str {
        self.facts().id
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Component {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::all();
        let found = all.find(|component| component.id().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::id).collect();
            format!(
                "`{text}` is not a CUDA component; known: {}",
                known.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_and_redist_name_is_parsed() {
        for component in Component::all() {
            assert_eq!(component.id().parse::<Component>().unwrap(), component);
            for name in component.facts().redist {
                assert_eq!(Component::of_redist(name), Some(component), "{name}");
            }
        }
    }

    /// A product without one of these could not be found in some layout.
    #[test]
    fn every_product_has_a_name_in_every_layout() {
        for facts in table::TABLE.iter().filter(|facts| facts.is_product()) {
            assert!(!facts.variables.is_empty(), "{}: variables", facts.id);
            assert!(
                !facts.redist.is_empty() || !facts.nix.is_empty(),
                "{}: Nix",
                facts.id
            );
            assert!(!facts.spack.is_empty(), "{}: Spack", facts.id);
            assert!(
                facts.version_macros.is_some(),
                "{}: version macros",
                facts.id
            );
            assert!(
                !facts.header_prefixes.is_empty(),
                "{}: header prefixes",
                facts.id
            );
            assert!(
                facts.package(crate::release::NEWEST_MAJOR).is_some(),
                "{}: package",
                facts.id
            );
        }
    }

    #[test]
    fn sonames_fit_their_libraries() {
        for facts in table::TABLE {
            for names in facts.sonames {
                let stem = |soname: &&'static str| {
                    soname
                        .strip_prefix("lib")
                        .unwrap()
                        .split(".so")
                        .next()
                        .unwrap()
                };
                let mut stems: Vec<&str> = names.iter().map(stem).collect();
                stems.dedup();
                assert_eq!(
                    stems,
                    facts.libraries[..stems.len()],
                    "{}: {names:?}",
                    facts.id
                );
            }
        }
    }

    #[test]
    fn some_sonames_are_the_same_for_several_majors() {
        let soname = |c: Component, major| c.facts().soname(0, major);
        assert_eq!(soname(Component::Curand, 11), soname(Component::Curand, 13));
        assert_eq!(
            soname(Component::Cusparse, 12),
            soname(Component::Cusparse, 13)
        );
        assert_eq!(
            soname(Component::Cusolver, 11),
            soname(Component::Cusolver, 12)
        );
        assert_ne!(soname(Component::Cudart, 12), soname(Component::Cudart, 13));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "cublass".parse::<Component>().unwrap_err();
        assert!(error.contains("cublas"), "{error}");
    }
}

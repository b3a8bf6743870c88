//! The components of CUDA, and the facts that are known about each of them.

mod edges;
mod table;

use std::fmt;
use std::str::FromStr;

pub use edges::{EdgeKind, closure, edges};
pub use table::Component;

use crate::capability::Capability;
use crate::release::{MAJORS, OLDEST_MAJOR};
use crate::suggestion::nearest;
use crate::version::ToolkitVersion;

/// The consistency class of a component: the rule by which its version fits a toolkit.
#[derive(Clone, Copy, PartialEq)]
pub enum Class {
    /// Has the same CUDA `major.minor` as the compiler: nvcc, cicc and the compiler's headers.
    ExactMinor,
    /// Has the same CUDA major as the toolkit.
    Major,
    /// Has the same CUDA major, and is at least as new as every component that uses it: nvJitLink.
    Provider,
    /// Has its own versions, each for a range of toolkits: CCCL.
    OwnRange,
    /// Has its own versions, each built once for every CUDA major: cuDNN, NCCL and other products.
    Product,
    /// Is installed with the GPU driver, not with a toolkit.
    Driver,
}

/// The macros in a header that define a version.
pub enum VersionMacros {
    /// Major, minor and patch.
    Parts([&'static str; 3]),
    /// One number for all parts: 300403 for version 3.4.3.
    Number(&'static str),
}

/// The facts about a component. An array "per major" has one entry for each CUDA major in the table of releases, from
/// the oldest to the newest.
pub struct Facts {
    /// The component.
    pub component: Component,
    /// Its name in manifests, messages and on the command line.
    pub id: &'static str,
    /// The rule by which its version fits a toolkit.
    pub class: Class,
    /// Whether its package version starts with the toolkit's `major.minor`.
    pub follows_toolkit: bool,
    /// Whether every fetched toolkit contains the component, provided that the major has a package for it.
    pub in_every_toolkit: bool,
    /// The names of its shared libraries as in `-l<name>`, the main library first.
    pub libraries: &'static [&'static str],
    /// Whether a toolkit has only one of `libraries`. Otherwise the other libraries are useless without the main one.
    pub libraries_are_alternatives: bool,
    /// Per major: the SONAMEs of `libraries`, in the same order.
    pub sonames: [&'static [&'static str]; MAJORS],
    /// The file names of its static libraries.
    pub archives: &'static [&'static str],
    /// The header that proves that the component is present.
    pub header: Option<&'static str>,
    /// The names of its programs, the main program first.
    pub tools: &'static [&'static str],
    /// Per major: the Python package that contains it.
    pub packages: [Option<&'static str>; MAJORS],
    /// Per major: the directory of that package in site-packages.
    pub package_dirs: [Option<&'static str>; MAJORS],
    /// The extra of the `cuda-toolkit` metapackage that requires it.
    pub extra: Option<&'static str>,
    /// Prefixes of the names of its headers. They identify the headers in an `include` that other packages use too.
    pub header_prefixes: &'static [&'static str],
    /// The header that defines the component's own version, relative to the include directory, and the macros that
    /// define the version.
    pub version_macros: Option<(&'static str, VersionMacros)>,
    /// The index in `libraries` of the library whose SONAME ends with the CUDA release: NVRTC's builtins.
    pub library_with_release: Option<usize>,
    /// Environment variables that contain the path of its root.
    pub variables: &'static [&'static str],
    /// Its names in NVIDIA's redistributable archives. nixpkgs uses the same names.
    pub redist: &'static [&'static str],
    /// Prefixes of its names in nixpkgs that are not in `redist`.
    pub nix: &'static [&'static str],
    /// Spack packages that contain it.
    pub spack: &'static [&'static str],
    /// Libraries whose names in CMake's `FindCUDAToolkit` differ from their file names. Each has its name in CMake, and
    /// its possible files below `lib`.
    pub cmake: &'static [(&'static str, &'static [&'static str])],
    /// The oldest capability that the component has code for. Each entry has a version of the component and the oldest
    /// capability from that version on. The newest version is first.
    pub oldest_capabilities: &'static [((u64, u64), Capability)],
    /// A major of the component, and the oldest CUDA release that its headers accept from that major on.
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

/// The index of a major in the arrays per major; `None` for a major that the tables do not cover. For a newer major,
/// the search takes the SONAMEs from the names of the files that it finds.
fn column(major: u32) -> Option<usize> {
    let index = major.checked_sub(OLDEST_MAJOR)? as usize;
    (index < MAJORS).then_some(index)
}

impl Facts {
    /// Whether it is a product, which has its own release cycle.
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

    /// Every known SONAME of the library at `index` for a CUDA major.
    pub fn sonames_of(
        &self,
        index: usize,
        major: u32,
    ) -> impl DoubleEndedIterator<Item = &'static str> {
        let names = column(major).map_or(&[][..], |column| self.sonames[column]);
        let library = self.libraries.get(index).copied();
        // A search for CUDA calls this a hundred times, so prefixes are compared, which is faster than to look for a
        // substring.
        let rest = move |name: &'static str| name.strip_prefix("lib")?.strip_prefix(library?);
        names
            .iter()
            .copied()
            .filter(move |name| rest(name).is_some_and(|rest| rest.starts_with(".so")))
    }

    /// Whether the SONAME of the main library identifies `major`, because no other major has the same SONAME. For
    /// cuRAND this is false: the SONAME is `libcurand.so.10` for every major.
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

    /// The directory in site-packages of the Python package for a CUDA major.
    pub fn package_dir(&self, major: u32) -> Option<&'static str> {
        self.package_dirs[column(major)?]
    }
}

impl Component {
    /// The components that determine the release of a toolkit. The first component that is present decides: a compiler
    /// of device code before the runtime.
    pub(crate) const CORE: [Self; 3] = [Self::Nvcc, Self::Nvrtc, Self::Cudart];

    /// Whether it is one of [`Component::CORE`].
    pub(crate) fn is_core(self) -> bool {
        Self::CORE.contains(&self)
    }

    /// All components, those of the toolkit before the products.
    pub fn all() -> impl Iterator<Item = Self> {
        table::TABLE.iter().map(|facts| facts.component)
    }

    /// The facts about the component.
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
            let advice = match nearest(text, known.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            format!("`{text}` is not a CUDA component; {advice}")
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
    fn an_unknown_name_suggests_or_lists_the_known_ones() {
        let error = |name: &str| name.parse::<Component>().unwrap_err();
        let suggestion = "`cublass` is not a CUDA component; did you mean `cublas`?";
        assert_eq!(error("cublass"), suggestion);
        assert!(error("tensorflow").contains("known: cudart, cuda-driver, nvcc"));
    }
}

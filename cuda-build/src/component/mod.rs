//! The components a toolkit is made of, and the facts known about each.

mod edges;
mod releases;
mod table;

use std::fmt;
use std::str::FromStr;

pub use edges::{EdgeKind, closure, edges};
pub use releases::release_of;

/// One part of CUDA that is packaged on its own.
///
/// ```
/// use cuda_build::Component;
/// let cudart: Component = "cudart".parse().unwrap();
/// assert_eq!(cudart.facts().soname(0, 12), Some("libcudart.so.12"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Component {
    /// CUDA runtime: `libcudart`, `cuda_runtime.h` and `cuda.h`.
    Cudart,
    /// Driver API: `libcuda`, installed with the GPU driver, never with a toolkit.
    Driver,
    /// Compiler driver, `ptxas`, `cudafe++`, `fatbinary`, `nvlink`.
    Nvcc,
    /// `cicc`, `libnvvm` and `libdevice`.
    Nvvm,
    /// The compiler's own headers, among them `crt/host_config.h`.
    Crt,
    /// CUB, Thrust and libcu++.
    Cccl,
    /// Thread helpers that static libraries need.
    Culibos,
    /// PTX compiler as a static library.
    Nvptxcompiler,
    /// Run-time compiler and its builtins.
    Nvrtc,
    /// Link-time optimisation at run time.
    Nvjitlink,
    /// Fat binary writer as a library.
    Nvfatbin,
    /// Dense linear algebra.
    Cublas,
    /// Fourier transforms.
    Cufft,
    /// Random numbers.
    Curand,
    /// Solvers.
    Cusolver,
    /// Sparse linear algebra.
    Cusparse,
    /// Image and signal primitives.
    Npp,
    /// JPEG codec.
    Nvjpeg,
    /// Profiling interface.
    Cupti,
    /// Annotations for profilers.
    Nvtx,
    /// Management library of the driver (the package has the header alone).
    Nvml,
    /// GPUDirect Storage.
    Cufile,
    /// OpenCL loader.
    Opencl,
    /// `cuda_profiler_api.h`.
    ProfilerApi,
    /// Compute Sanitizer.
    Sanitizer,
    /// Deep-learning accelerators of Jetson.
    Cudla,
    /// Reads fat binaries.
    Cuobjdump,
    /// Disassembler.
    Nvdisasm,
    /// Tile IR assembler.
    Tileiras,
    /// Demangler.
    CuxxFilt,
    /// Deep neural networks; own version line.
    Cudnn,
    /// Collectives; own version line.
    Nccl,
    /// Tensor contractions; own version line.
    Cutensor,
    /// Structured sparsity; own version line.
    Cusparselt,
    /// Shared memory over GPUs; own version line.
    Nvshmem,
    /// Direct sparse solvers; own version line.
    Cudss,
}

/// Who delivers a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// Part of the CUDA toolkit: one version set.
    Toolkit,
    /// Comes with the GPU driver.
    Driver,
    /// A product with a life and version line of its own (cuDNN, NCCL …).
    Product,
}

/// How close the versions of two components must be to work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The same CUDA `major.minor` as the compiler: nvcc, cicc and the compiler's headers.
    ExactMinor,
    /// The same CUDA major.
    Major,
    /// The same CUDA major, and at least as new as every user of it: nvJitLink exports one set
    /// of names per minor.
    Provider,
    /// A version line of its own that fits a range of toolkits: CCCL.
    OwnRange,
    /// A version line of its own, built once per CUDA major.
    Independent,
    /// Belongs to the driver, not to a toolkit.
    Driver,
}

/// What is known about a component, for CUDA 11, 12 and 13.
#[derive(Debug)]
pub struct Facts {
    /// Which one.
    pub component: Component,
    /// Its name in manifests, messages and on the command line.
    pub id: &'static str,
    /// Who delivers it.
    pub bundle: Bundle,
    /// How close its version must be to the others'.
    pub class: Class,
    /// Whether its package version starts with the toolkit's `major.minor`.
    pub follows_toolkit: bool,
    /// Link names, the main one first: `-l<name>`.
    pub libraries: &'static [&'static str],
    /// Whether one of `libraries` is there in place of another, so that the first that is found is
    /// the main one.
    pub libraries_are_alternatives: bool,
    /// For CUDA 11, 12 and 13: the SONAMEs of `libraries`, in the same order.
    pub sonames: [&'static [&'static str]; 3],
    /// Static archives.
    pub archives: &'static [&'static str],
    /// The header that proves it is there.
    pub header: Option<&'static str>,
    /// Programs.
    pub tools: &'static [&'static str],
    /// For CUDA 11, 12 and 13: the Python package that carries it.
    pub packages: [Option<&'static str>; 3],
    /// For CUDA 11, 12 and 13: that package's directory in site-packages.
    pub package_dirs: [Option<&'static str>; 3],
    /// The extra of the `cuda-toolkit` metapackage that pulls it in.
    pub extra: Option<&'static str>,
}

const NOTHING: Facts = Facts {
    component: Component::Cudart,
    id: "",
    bundle: Bundle::Toolkit,
    class: Class::Major,
    follows_toolkit: false,
    libraries: &[],
    libraries_are_alternatives: false,
    sonames: [&[], &[], &[]],
    archives: &[],
    header: None,
    tools: &[],
    packages: [None, None, None],
    package_dirs: [None, None, None],
    extra: None,
};

/// The oldest CUDA major that the tables know.
pub const OLDEST_MAJOR: u32 = 11;

fn column(major: u32) -> Option<usize> {
    // A newer major is expected to look like the newest known one; SONAMEs are then read from
    // the files themselves.
    let index = major.checked_sub(OLDEST_MAJOR)? as usize;
    (index < 3).then_some(index)
}

impl Facts {
    /// SONAME of the library at `index` for a CUDA major, where one is known.
    #[must_use]
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
        // Asked for a hundred times in a search: no search for a text in a text.
        let rest = move |name: &'static str| name.strip_prefix("lib")?.strip_prefix(library?);
        names
            .iter()
            .copied()
            .filter(move |name| rest(name).is_some_and(|rest| rest.starts_with(".so")))
    }

    /// The Python package for a CUDA major.
    #[must_use]
    pub fn package(&self, major: u32) -> Option<&'static str> {
        self.packages[column(major)?]
    }

    /// That package's directory in site-packages.
    #[must_use]
    pub fn package_dir(&self, major: u32) -> Option<&'static str> {
        self.package_dirs[column(major)?]
    }
}

impl Component {
    /// All components, toolkit first.
    pub fn all() -> impl Iterator<Item = Self> {
        table::TABLE.iter().map(|facts| facts.component)
    }

    /// What is known about it.
    #[must_use]
    pub fn facts(self) -> &'static Facts {
        // The table is in the order of the enum; a test holds it to that.
        &table::TABLE[self as usize]
    }

    /// Its name in manifests and messages.
    #[must_use]
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
    type Err = UnknownComponent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|c| c.id().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownComponent {
                name: text.to_owned(),
            })
    }
}

/// A name that is no component's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownComponent {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Component::all().map(Component::id).collect();
        write!(
            f,
            "no CUDA component is called `{}`; known: {}",
            self.name,
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownComponent {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum() {
        for (index, component) in Component::all().enumerate() {
            assert_eq!(component as usize, index, "{component}");
            assert_eq!(component.id().parse::<Component>().unwrap(), component);
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
    fn soname_alone_does_not_tell_the_major() {
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
    fn unknown_name_lists_near_ones() {
        let error = "cublass".parse::<Component>().unwrap_err().to_string();
        assert!(error.contains("cublas"), "{error}");
    }
}

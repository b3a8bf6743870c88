//! The names, files and packages of each component, per CUDA major.
//!
//! Sources: SONAMEs, package names and directories were read from the Python wheels of the sets
//! 11.8.0, 12.9.1 and 13.4.3 (`readelf -d`, `RECORD`), extras from the metadata of the
//! `cuda-toolkit` metapackage of the same versions, link names from CMake's `FindCUDAToolkit`. The names of products
//! were read from the newest wheel of each product for each CUDA major (cuDNN 9.27, but 9.10 for CUDA 11; NCCL 2.32,
//! but 2.21 for CUDA 11; cuTENSOR 2.8, but 2.2 for CUDA 11; cuSPARSELt 0.10 and 0.8; NVSHMEM 3.8; cuDSS 1.0; nvCOMP
//! 6.0, nvJPEG2000 0.11, nvTIFF 0.8, cuBLASMp 0.10, cuSOLVERMp 0.9, libmathdx 0.4). The names in `redist` and `nix`
//! come from the component lists of `redistrib_*.json` as nixpkgs and rules_cuda name them, the names in `spack` from
//! the packages of Spack's built-in repository, and header prefixes from `include` of CUDA 11.8, 12.9 and 13.4. Header
//! packages were read from `nvidia-cutlass` 3.8 and 4.2 and `nvidia-mathdx` 25.6.
//! The rows are ordered for readers: the toolkit first, then products and header packages.

use std::fmt;
use std::str::FromStr;

use crate::capability::Capability;
use crate::release::{MAJORS, OLDEST_MAJOR, majors};
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
    /// Libraries, headers and functions that NVIDIA has removed, with the first release without them. A toolkit has
    /// either a removed library or the main one; other libraries are useless without the main one.
    pub removed: &'static [(ToolkitVersion, &'static [&'static str])],
    /// Per major: the SONAMEs of `libraries`, in the same order; libraries at the end may have none.
    pub sonames: [&'static [&'static str]; MAJORS],
    /// The file names of its static libraries.
    pub archives: &'static [&'static str],
    /// The header that proves that the component is present.
    pub header: Option<&'static str>,
    /// A second include directory, relative to the parent of the directory that has `header`.
    pub more_headers: Option<&'static str>,
    /// The names of its programs, the main program first.
    pub tools: &'static [&'static str],
    /// Per major: the Python package that contains it, and the directory of that package in site-packages; empty if it
    /// is unknown.
    pub packages: [Option<(&'static str, &'static str)>; MAJORS],
    /// The extra of the `cuda-toolkit` metapackage that requires it.
    pub extra: Option<&'static str>,
    /// See [`Self::header_prefixes`]; empty if the only prefix is the id.
    named_header_prefixes: &'static [&'static str],
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
    removed: &[],
    sonames: [&[]; MAJORS],
    archives: &[],
    header: None,
    more_headers: None,
    tools: &[],
    packages: [None; MAJORS],
    extra: None,
    named_header_prefixes: &[],
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

const fn version_parts(
    header: &'static str,
    macros: [&'static str; 3],
) -> Option<(&'static str, VersionMacros)> {
    Some((header, VersionMacros::Parts(macros)))
}

/// The index of a major in the arrays per major; `None` for a major that the tables do not cover. For a newer major,
/// the search takes the SONAMEs from the names of the files that it finds.
fn column(major: u32) -> Option<usize> {
    let index = major.checked_sub(OLDEST_MAJOR)? as usize;
    (index < MAJORS).then_some(index)
}

impl Facts {
    /// Prefixes of the names of its headers, with a slash for a directory. They identify the headers in an `include`
    /// that other packages use too.
    pub fn header_prefixes(&self) -> &[&'static str] {
        match self.named_header_prefixes {
            [] => std::slice::from_ref(&self.id),
            named => named,
        }
    }

    /// Whether it is a product, which has its own release cycle.
    pub fn is_product(&self) -> bool {
        self.class == Class::Product
    }

    /// Whether it is a product that consists of headers: CUTLASS. One package fits every CUDA major.
    pub fn is_header_package(&self) -> bool {
        self.is_product() && self.libraries.is_empty()
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
        let rest = move |name: &&'static str| name.strip_prefix("lib")?.strip_prefix(library?);
        let is_of_library =
            move |name: &&'static str| rest(name).is_some_and(|it| it.starts_with(".so"));
        names.iter().copied().filter(is_of_library)
    }

    /// Whether the SONAME of the main library identifies `major`, because no other major has the same SONAME. For
    /// cuRAND this is false: the SONAME is `libcurand.so.10` for every major.
    pub fn soname_tells_major(&self, major: u32) -> bool {
        let soname = self.soname(0, major);
        let mut same = self.sonames.to_vec();
        same.retain(|names| names.first().copied() == soname);
        soname.is_some() && same.len() == 1
    }

    /// The Python package for a CUDA major.
    pub fn package(&self, major: u32) -> Option<&'static str> {
        Some(self.packages[column(major)?]?.0)
    }

    /// The directory in site-packages of the Python package for a CUDA major.
    pub fn package_dir(&self, major: u32) -> Option<&'static str> {
        let (_, directory) = self.packages[column(major)?]?;
        (!directory.is_empty()).then_some(directory)
    }

    /// The directories in site-packages of its Python packages for any CUDA major.
    pub fn package_dirs(&self) -> impl Iterator<Item = &'static str> {
        majors().filter_map(|major| self.package_dir(major))
    }
}

/// Packages with their directories: the last is for the newest CUDA major, and each other one for the major before.
const fn to_newest<const N: usize>(
    packages: [(&'static str, &'static str); N],
) -> [Option<(&'static str, &'static str)>; MAJORS] {
    let mut padded = [None; MAJORS];
    let mut index = 0;
    while index < N {
        padded[MAJORS - N + index] = Some(packages[index]);
        index += 1;
    }
    padded
}

/// Packages in one directory whose names end with the CUDA major, then those without an ending, each in a directory
/// that it shares with others.
macro_rules! wheels {
    ($name:literal, [$($ending:literal),*], $directory:literal $(, $shared:literal)*) => {
        to_newest([$((concat!($name, $ending), $directory),)* $(($name, $shared)),*])
    };
}

/// The SONAMEs of libraries with a common version: those of several versions, or of one.
macro_rules! sonames {
    ([$($version:literal),*], $libraries:tt) => { [$(sonames!($version, $libraries)),*] };
    ($version:literal, [$($library:literal),*]) => { &[$(concat!("lib", $library, ".so.", $version)),*] };
}

/// cuDNN 9 has the same names for every CUDA major. The last cuDNN for CUDA 11, 9.10, lacks the newest libraries.
#[rustfmt::skip]
const CUDNN_9: &[&str] = sonames!("9", [
    "cudnn", "cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv", "cudnn_heuristic", "cudnn_engines_precompiled",
    "cudnn_engines_runtime_compiled", "cudnn_engines_tensor_ir", "cudnn_ext"
]);

/// Defines [`Component`] and its table from the same rows.
macro_rules! components {
    ($($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $field:ident: $value:expr,)* })*) => {
        /// One part of CUDA that is packaged on its own.
        ///
        /// ```
        /// use cuda_find_core::component::Component;
        /// let cudart: Component = "cudart".parse().unwrap();
        /// assert_eq!(cudart.facts().soname(0, 12), Some("libcudart.so.12"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Component {
            $($(#[$doc])* $name,)*
        }

        const TABLE: &[Facts] = &[
            $(Facts { component: Component::$name, $($field: $value,)* ..EMPTY_FACTS },)*
        ];
    };
}

components! {
    /// CUDA runtime: `libcudart`, `cuda_runtime.h` and `cuda.h`.
    Cudart {
        id: "cudart", follows_toolkit: true, in_every_toolkit: true, extra: Some("cudart"),
        libraries: &["cudart"],
        sonames: [&["libcudart.so.11.0"], &["libcudart.so.12"], &["libcudart.so.13"]],
        archives: &["libcudart_static.a", "libcudadevrt.a"], header: Some("cuda_runtime.h"),
        packages: wheels!("nvidia-cuda-runtime", ["-cu11", "-cu12"], "nvidia/cuda_runtime", "nvidia/cu13"),
        named_header_prefixes: &[
            "cuda", "cuComplex.h", "cooperative_groups", "sm_", "builtin_types.h", "channel_descriptor.h",
            "common_functions.h", "device_", "driver_functions.h", "driver_types.h", "host_config.h",
            "host_defines.h", "library_types.h", "math_constants.h", "math_functions.h", "mma.h",
            "surface_functions.h", "surface_indirect_functions.h", "surface_types.h", "texture_fetch_functions.h",
            "texture_indirect_functions.h", "texture_types.h", "vector_functions.h", "vector_types.h",
        ],
        redist: &["cuda_cudart"], spack: &["cuda"],
        // Functions: `nm -D` of the libraries of 11.8, 12.9 and 13.4.
        removed: &[
            (ToolkitVersion::new(12, 0), &[
                "__cudaRegisterSurface", "__cudaRegisterTexture", "cudaBindSurfaceToArray", "cudaBindTexture",
                "cudaBindTexture2D", "cudaBindTextureToArray", "cudaBindTextureToMipmappedArray",
                "cudaGetSurfaceReference", "cudaGetTextureReference", "cudaProfilerInitialize", "cudaUnbindTexture",
            ]),
            (ToolkitVersion::new(13, 0), &[
                "cudaEventElapsedTime_v2", "cudaGetDeviceProperties_v2", "cudaGraphAddDependencies_v2",
                "cudaGraphAddNode_v2", "cudaGraphGetEdges_v2", "cudaLaunchCooperativeKernelMultiDevice",
                "cudaMemAdvise_v2", "cudaMemPrefetchAsync_v2", "cudaSignalExternalSemaphoresAsync_v2",
                "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3", "cudaStreamUpdateCaptureDependencies_v2",
                "cudaThreadExit", "cudaThreadGetCacheConfig", "cudaThreadGetLimit", "cudaThreadSetCacheConfig",
                "cudaThreadSetLimit", "cudaThreadSynchronize", "cudaWaitExternalSemaphoresAsync_v2",
                "surface_functions.h", "texture_fetch_functions.h",
            ]),
        ],
    }
    /// Driver API: `libcuda`, installed with the GPU driver, never with a toolkit.
    Driver {
        id: "cuda-driver", class: Class::Driver,
        libraries: &["cuda"],
        sonames: [&["libcuda.so.1"], &["libcuda.so.1"], &["libcuda.so.1"]],
        header: Some("cuda.h"), cmake: &[("cuda_driver", &["stubs/libcuda.so"])],
    }
    /// The compiler: `nvcc`, `ptxas`, `cudafe++`, `fatbinary`, `nvlink`.
    Nvcc {
        id: "nvcc", class: Class::ExactMinor, follows_toolkit: true, in_every_toolkit: true, extra: Some("nvcc"),
        header: Some("fatbinary_section.h"), tools: &["nvcc", "ptxas", "cudafe++", "fatbinary", "nvlink", "bin2c"],
        packages: wheels!("nvidia-cuda-nvcc", ["-cu11", "-cu12"], "nvidia/cuda_nvcc", "nvidia/cu13"),
        named_header_prefixes: &["fatbinary"],
        redist: &["cuda_nvcc"],
    }
    /// `cicc`, `libnvvm` and `libdevice`.
    Nvvm {
        id: "nvvm", class: Class::ExactMinor, follows_toolkit: true, in_every_toolkit: true, extra: Some("nvvm"),
        libraries: &["nvvm"],
        sonames: [&["libnvvm.so.4"], &["libnvvm.so.4"], &["libnvvm.so.4"]],
        header: Some("nvvm.h"), tools: &["cicc"],
        packages: to_newest([("nvidia-nvvm", "nvidia/cu13")]),
        redist: &["libnvvm"],
    }
    /// The compiler's own headers, among them `crt/host_config.h`.
    Crt {
        id: "crt", class: Class::ExactMinor, follows_toolkit: true, in_every_toolkit: true, extra: Some("crt"),
        header: Some("crt/host_config.h"),
        packages: to_newest([("nvidia-cuda-nvcc-cu12", "nvidia/cuda_nvcc"), ("nvidia-cuda-crt", "nvidia/cu13")]),
        named_header_prefixes: &["crt/"],
        redist: &["cuda_crt"],
    }
    /// CUB, Thrust and libcu++.
    Cccl {
        id: "cccl", class: Class::OwnRange, in_every_toolkit: true, extra: Some("cccl"),
        // CUB's header identifies CCCL, because every release has it. The wheel of 12.0 has no libcu++.
        // `CUB_VERSION` is used because old releases have no common version for all parts of CCCL.
        header: Some("cub/version.cuh"),
        version_macros: Some(("cub/version.cuh", VersionMacros::Number("CUB_VERSION"))),
        packages: wheels!("nvidia-cuda-cccl", ["-cu11", "-cu12"], "nvidia/cuda_cccl", "nvidia/cu13"),
        named_header_prefixes: &["cub/", "cuda/", "nv/", "thrust/"],
        redist: &["cuda_cccl", "cccl"],
        // Measured: CCCL 1.15 to 3.5 compile with CUDA 13.0 and 13.5, and CCCL 3.5 compiles with CUDA 12.0. No CCCL has
        // an upper bound for the CUDA release.
        oldest_release: Some((3, ToolkitVersion::new(12, 0))),
    }
    /// Thread helpers that static libraries need.
    Culibos {
        id: "culibos", follows_toolkit: true, in_every_toolkit: true, extra: Some("culibos"),
        archives: &["libculibos.a"],
        packages: to_newest([("nvidia-cuda-culibos", "nvidia/cu13")]),
        redist: &["cuda_culibos"],
    }
    /// PTX compiler as a static library.
    Nvptxcompiler {
        id: "nvptxcompiler", follows_toolkit: true, extra: Some("nvptxcompiler"),
        archives: &["libnvptxcompiler_static.a"], header: Some("nvPTXCompiler.h"),
        packages: to_newest([("nvidia-nvptxcompiler", "nvidia/cu13")]),
        named_header_prefixes: &["nvPTXCompiler"],
        redist: &["libnvptxcompiler"],
    }
    /// Run-time compiler and its builtins.
    Nvrtc {
        id: "nvrtc", follows_toolkit: true, in_every_toolkit: true, extra: Some("nvrtc"),
        libraries: &["nvrtc", "nvrtc-builtins"], library_with_release: Some(1),
        sonames: [
            &["libnvrtc.so.11.2", "libnvrtc-builtins.so.11.8"],
            &["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"],
            &["libnvrtc.so.13", "libnvrtc-builtins.so.13.4"],
        ],
        archives: &["libnvrtc_static.a", "libnvrtc-builtins_static.a"], header: Some("nvrtc.h"),
        packages: wheels!("nvidia-cuda-nvrtc", ["-cu11", "-cu12"], "nvidia/cuda_nvrtc", "nvidia/cu13"),
        redist: &["cuda_nvrtc"],
        cmake: &[
            ("nvrtc_builtins", &["libnvrtc-builtins.so"]),
            ("nvrtc_builtins_static", &["libnvrtc-builtins_static.a"]),
        ],
    }
    /// Link-time optimization at run time.
    Nvjitlink {
        id: "nvjitlink", class: Class::Provider, follows_toolkit: true, extra: Some("nvjitlink"),
        libraries: &["nvJitLink"],
        sonames: [&[], &["libnvJitLink.so.12"], &["libnvJitLink.so.13"]],
        archives: &["libnvJitLink_static.a"], header: Some("nvJitLink.h"),
        packages: wheels!("nvidia-nvjitlink", ["-cu12"], "nvidia/nvjitlink", "nvidia/cu13"),
        named_header_prefixes: &["nvJitLink"],
        redist: &["libnvjitlink"],
    }
    /// Fat binary writer as a library.
    Nvfatbin {
        id: "nvfatbin", follows_toolkit: true, extra: Some("nvfatbin"),
        libraries: &["nvfatbin"],
        sonames: [&[], &["libnvfatbin.so.12"], &["libnvfatbin.so.13"]],
        archives: &["libnvfatbin_static.a"], header: Some("nvFatbin.h"),
        packages: wheels!("nvidia-nvfatbin", ["-cu12"], "nvidia/nvfatbin", "nvidia/cu13"),
        named_header_prefixes: &["nvFatbin"],
        redist: &["libnvfatbin"],
    }
    /// Dense linear algebra.
    Cublas {
        id: "cublas", extra: Some("cublas"),
        libraries: &["cublas", "cublasLt", "nvblas"],
        sonames: sonames!(["11", "12", "13"], ["cublas", "cublasLt", "nvblas"]),
        archives: &["libcublas_static.a", "libcublasLt_static.a"], header: Some("cublas_v2.h"),
        packages: wheels!("nvidia-cublas", ["-cu11", "-cu12"], "nvidia/cublas", "nvidia/cu13"),
        named_header_prefixes: &["cublas", "nvblas"],
        redist: &["libcublas"],
    }
    /// Fourier transforms.
    Cufft {
        id: "cufft", extra: Some("cufft"),
        libraries: &["cufft", "cufftw"],
        sonames: sonames!(["10", "11", "12"], ["cufft", "cufftw"]),
        archives: &["libcufft_static.a", "libcufft_static_nocallback.a", "libcufftw_static.a"], header: Some("cufft.h"),
        packages: wheels!("nvidia-cufft", ["-cu11", "-cu12"], "nvidia/cufft", "nvidia/cu13"),
        named_header_prefixes: &["cufft", "cudalibxt.h"],
        redist: &["libcufft"],
    }
    /// Random numbers.
    Curand {
        id: "curand", extra: Some("curand"),
        libraries: &["curand"],
        sonames: [&["libcurand.so.10"], &["libcurand.so.10"], &["libcurand.so.10"]],
        archives: &["libcurand_static.a"], header: Some("curand.h"),
        packages: wheels!("nvidia-curand", ["-cu11", "-cu12"], "nvidia/curand", "nvidia/cu13"),
        redist: &["libcurand"],
    }
    /// Solvers.
    Cusolver {
        id: "cusolver", extra: Some("cusolver"),
        libraries: &["cusolver", "cusolverMg"],
        sonames: sonames!(["11", "11", "12"], ["cusolver", "cusolverMg"]),
        archives: &["libcusolver_static.a", "libcusolver_lapack_static.a", "libcusolver_metis_static.a"],
        header: Some("cusolverDn.h"),
        packages: wheels!("nvidia-cusolver", ["-cu11", "-cu12"], "nvidia/cusolver", "nvidia/cu13"),
        redist: &["libcusolver"],
        cmake: &[
            ("cusolver_metis_static", &["libcusolver_metis_static.a", "libmetis_static.a"]),
            ("cusolver_lapack_static", &["libcusolver_lapack_static.a", "liblapack_static.a"]),
        ],
    }
    /// Sparse linear algebra.
    Cusparse {
        id: "cusparse", extra: Some("cusparse"),
        libraries: &["cusparse"],
        sonames: [&["libcusparse.so.11"], &["libcusparse.so.12"], &["libcusparse.so.12"]],
        archives: &["libcusparse_static.a"], header: Some("cusparse.h"),
        packages: wheels!("nvidia-cusparse", ["-cu11", "-cu12"], "nvidia/cusparse", "nvidia/cu13"),
        redist: &["libcusparse"],
    }
    /// Image and signal primitives.
    Npp {
        id: "npp", extra: Some("npp"),
        libraries: &[
            "nppc", "nppial", "nppicc", "nppidei", "nppif", "nppig", "nppim", "nppist", "nppisu", "nppitc", "npps",
        ],
        sonames: sonames!(["11", "12", "13"], [
            "nppc", "nppial", "nppicc", "nppidei", "nppif", "nppig", "nppim", "nppist", "nppisu", "nppitc", "npps"
        ]),
        archives: &[
            "libnppc_static.a", "libnppial_static.a", "libnppicc_static.a", "libnppidei_static.a", "libnppif_static.a",
            "libnppig_static.a", "libnppim_static.a", "libnppist_static.a", "libnppisu_static.a", "libnppitc_static.a",
            "libnpps_static.a",
        ],
        header: Some("npp.h"),
        packages: wheels!("nvidia-npp", ["-cu11", "-cu12"], "nvidia/npp", "nvidia/cu13"),
        redist: &["libnpp"],
    }
    /// JPEG codec.
    Nvjpeg {
        id: "nvjpeg", extra: Some("nvjpeg"),
        libraries: &["nvjpeg"],
        sonames: [&["libnvjpeg.so.11"], &["libnvjpeg.so.12"], &["libnvjpeg.so.13"]],
        archives: &["libnvjpeg_static.a"], header: Some("nvjpeg.h"),
        packages: wheels!("nvidia-nvjpeg", ["-cu11", "-cu12"], "nvidia/nvjpeg", "nvidia/cu13"),
        redist: &["libnvjpeg"],
    }
    /// Profiling interface.
    Cupti {
        id: "cupti", follows_toolkit: true, extra: Some("cupti"),
        libraries: &["cupti", "nvperf_host", "nvperf_target", "pcsamplingutil", "checkpoint"],
        sonames: [&["libcupti.so.11.8"], &["libcupti.so.12"], &["libcupti.so.13"]],
        header: Some("cupti.h"),
        packages: wheels!("nvidia-cuda-cupti", ["-cu11", "-cu12"], "nvidia/cuda_cupti", "nvidia/cu13"),
        named_header_prefixes: &["cupti", "cuda_stdint.h", "generated_cuda", "generated_nv", "nvperf"],
        redist: &["cuda_cupti"],
    }
    /// Annotations for profilers.
    Nvtx {
        id: "nvtx", follows_toolkit: true, extra: Some("nvtx"),
        // `nvtx3interop` replaced `nvToolsExt` in CUDA 12.9.
        libraries: &["nvtx3interop", "nvToolsExt"],
        removed: &[
            (ToolkitVersion::new(12, 9), &[
                "nvToolsExt", "nvToolsExt.h", "nvToolsExtCuda.h", "nvToolsExtCudaRt.h", "nvToolsExtOpenCL.h",
                "nvToolsExtSync.h",
            ]),
        ],
        sonames: sonames!(["1", "1", "1"], ["nvtx3interop", "nvToolsExt"]),
        header: Some("nvtx3/nvToolsExt.h"),
        packages: wheels!("nvidia-nvtx", ["-cu11", "-cu12"], "nvidia/nvtx", "nvidia/cu13"),
        named_header_prefixes: &["nvtx", "nvToolsExt"],
        redist: &["cuda_nvtx"], cmake: &[("nvtx3_interop", &["libnvtx3interop.so"])],
    }
    /// Management library of the driver (the package contains only the header).
    Nvml {
        id: "nvml", class: Class::Driver, follows_toolkit: true, extra: Some("nvml"),
        libraries: &["nvidia-ml"],
        sonames: [&["libnvidia-ml.so.1"], &["libnvidia-ml.so.1"], &["libnvidia-ml.so.1"]],
        header: Some("nvml.h"),
        packages: wheels!("nvidia-nvml-dev", ["-cu11", "-cu12"], "nvidia/nvml_dev", "nvidia/cu13"),
        redist: &["cuda_nvml_dev"],
        cmake: &[("nvml", &["stubs/libnvidia-ml.so"]), ("nvml_static", &["libnvidia-ml.a", "libnvml.a"])],
    }
    /// GPUDirect Storage.
    Cufile {
        id: "cufile", extra: Some("cufile"),
        libraries: &["cufile", "cufile_rdma"],
        sonames: [&[], &["libcufile.so.0", "libcufile_rdma.so.1"], &["libcufile.so.0", "libcufile_rdma.so.1"]],
        archives: &["libcufile_static.a", "libcufile_rdma_static.a"], header: Some("cufile.h"),
        packages: wheels!("nvidia-cufile", ["-cu12"], "nvidia/cufile", "nvidia/cu13"),
        redist: &["libcufile"],
        cmake: &[
            ("cuFile", &["libcufile.so"]),
            ("cuFile_static", &["libcufile_static.a"]),
            ("cuFile_rdma", &["libcufile_rdma.so"]),
            ("cuFile_rdma_static", &["libcufile_rdma_static.a"]),
        ],
    }
    /// OpenCL loader.
    Opencl {
        id: "opencl", follows_toolkit: true, extra: Some("opencl"),
        libraries: &["OpenCL"],
        sonames: [&[], &["libOpenCL.so.1"], &["libOpenCL.so.1"]],
        header: Some("CL/cl.h"),
        packages: wheels!("nvidia-cuda-opencl", ["-cu12"], "nvidia/cuda_opencl", "nvidia/cu13"),
        redist: &["cuda_opencl"],
    }
    /// `cuda_profiler_api.h`.
    ProfilerApi {
        id: "profiler-api", follows_toolkit: true, extra: Some("profiler"),
        header: Some("cuda_profiler_api.h"),
        packages: wheels!("nvidia-cuda-profiler-api", ["-cu11", "-cu12"], "nvidia/cuda_profiler_api", "nvidia/cu13"),
        named_header_prefixes: &["cuda_profiler_api.h", "cudaProfiler.h"],
        redist: &["cuda_profiler_api"],
    }
    /// Compute Sanitizer.
    Sanitizer {
        id: "sanitizer", follows_toolkit: true, extra: Some("sanitizer"),
        libraries: &["sanitizer-public", "sanitizer-collection"],
        sonames: [
            &["libsanitizer-public.so", "libsanitizer-collection.so"],
            &[],
            &["libsanitizer-public.so", "libsanitizer-collection.so"],
        ],
        header: Some("sanitizer.h"), tools: &["compute-sanitizer"],
        packages: wheels!("nvidia-cuda-sanitizer-api", ["-cu11", "-cu12"], "nvidia/cuda_sanitizer_api", "nvidia/cu13"),
        named_header_prefixes: &["sanitizer.h", "sanitizer_"],
        redist: &["cuda_sanitizer_api"], cmake: &[("sanitizer", &["libsanitizer-public.so"])],
    }
    /// Deep-learning accelerators of Jetson boards.
    Cudla {
        id: "cudla", follows_toolkit: true,
        libraries: &["cudla"],
        sonames: [&[], &["libcudla.so.1"], &["libcudla.so.1"]],
        header: Some("cudla.h"),
        packages: to_newest([("nvidia-cudla", "")]),
        redist: &["libcudla"],
    }
    /// Reads fat binaries.
    Cuobjdump {
        id: "cuobjdump", follows_toolkit: true, extra: Some("cuobjdump"),
        tools: &["cuobjdump"],
        packages: to_newest([("nvidia-cuda-cuobjdump", "nvidia/cu13")]),
        redist: &["cuda_cuobjdump"],
    }
    /// Disassembler.
    Nvdisasm {
        id: "nvdisasm", follows_toolkit: true, extra: Some("nvdisasm"),
        tools: &["nvdisasm"],
        packages: to_newest([("nvidia-cuda-nvdisasm", "nvidia/cu13")]),
        redist: &["cuda_nvdisasm"],
    }
    /// Tile IR assembler.
    Tileiras {
        id: "tileiras", follows_toolkit: true, extra: Some("tileiras"),
        tools: &["tileiras"],
        packages: to_newest([("nvidia-cuda-tileiras", "nvidia/cu13")]),
        redist: &["cuda_tileiras"],
    }
    /// Demangler.
    CuxxFilt {
        id: "cuxxfilt", follows_toolkit: true, extra: Some("cuxxfilt"),
        archives: &["libcufilt.a"], header: Some("nv_decode.h"), tools: &["cu++filt"],
        packages: wheels!("nvidia-cuda-cuxxfilt", ["-cu11", "-cu12"], "nvidia/cuda_cuxxfilt", "nvidia/cu13"),
        named_header_prefixes: &["nv_decode.h"],
        redist: &["cuda_cuxxfilt"],
    }
    /// Deep neural networks. Has its own release cycle.
    Cudnn {
        id: "cudnn", class: Class::Product,
        libraries: &[
            "cudnn", "cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv", "cudnn_heuristic",
            "cudnn_engines_precompiled", "cudnn_engines_runtime_compiled", "cudnn_engines_tensor_ir", "cudnn_ext",
        ],
        sonames: [CUDNN_9, CUDNN_9, CUDNN_9],
        header: Some("cudnn.h"),
        packages: wheels!("nvidia-cudnn", ["-cu11", "-cu12", "-cu13"], "nvidia/cudnn"),
        version_macros: version_parts("cudnn_version.h", ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"]),
        variables: &["CUDNN_PATH"], redist: &["cudnn"], nix: &["libcudnn"], spack: &["cudnn"],
        // Read from `libcudnn_ops` (`libcudnn_ops_infer` before 9) of the wheels 8.5.0, 8.7.0, 8.8.0, 8.9.7, 9.0.0,
        // 9.10.2, 9.11.0, 9.12.0 and 9.28.0. The values are the same for every CUDA major. Other libraries of 9.11
        // still have code for 5.0, but every program needs `libcudnn_ops`. There is no rule for newer capabilities,
        // because cuDNN has PTX for them.
        oldest_capabilities: &[
            ((9, 11), Capability::new(7, 5)),
            ((8, 8), Capability::new(5, 0)),
            ((8, 5), Capability::new(3, 5)),
        ],
    }
    /// Collective communication. Has its own release cycle.
    Nccl {
        id: "nccl", class: Class::Product,
        libraries: &["nccl"],
        sonames: [&["libnccl.so.2"], &["libnccl.so.2"], &["libnccl.so.2"]],
        header: Some("nccl.h"),
        packages: wheels!("nvidia-nccl", ["-cu11", "-cu12", "-cu13"], "nvidia/nccl"),
        version_macros: version_parts("nccl.h", ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"]),
        variables: &["NCCL_HOME"], nix: &["nccl", "libnccl"], spack: &["nccl"],
    }
    /// Tensor contractions. Has its own release cycle.
    Cutensor {
        id: "cutensor", class: Class::Product,
        libraries: &["cutensor", "cutensorMg", "cutensorMp"],
        sonames: sonames!(["2", "2", "2"], ["cutensor", "cutensorMg", "cutensorMp"]),
        header: Some("cutensor.h"),
        packages: wheels!("cutensor", ["-cu11", "-cu12", "-cu13"], "cutensor"),
        version_macros: version_parts("cutensor.h", ["CUTENSOR_MAJOR", "CUTENSOR_MINOR", "CUTENSOR_PATCH"]),
        variables: &["CUTENSOR_PATH"], redist: &["libcutensor"], nix: &["cutensor"], spack: &["cutensor"],
    }
    /// Structured sparsity. Has its own release cycle.
    Cusparselt {
        id: "cusparselt", class: Class::Product,
        libraries: &["cusparseLt"],
        sonames: [&[], &["libcusparseLt.so.0"], &["libcusparseLt.so.0"]],
        header: Some("cusparseLt.h"),
        packages: to_newest([
            ("nvidia-cusparselt-cu12", "nvidia/cusparselt"), ("nvidia-cusparselt-cu13", "nvidia/cu13")
        ]),
        named_header_prefixes: &["cusparseLt"],
        version_macros: version_parts("cusparseLt.h", [
            "CUSPARSELT_VER_MAJOR", "CUSPARSELT_VER_MINOR", "CUSPARSELT_VER_PATCH"
        ]),
        variables: &["CUSPARSELT_PATH"], redist: &["libcusparse_lt"], nix: &["cusparselt"], spack: &["cusparselt"],
    }
    /// Shared memory over GPUs. Has its own release cycle.
    Nvshmem {
        id: "nvshmem", class: Class::Product,
        libraries: &["nvshmem_host"],
        sonames: [&[], &["libnvshmem_host.so.3"], &["libnvshmem_host.so.3"]],
        archives: &["libnvshmem_device.a"], header: Some("nvshmem.h"),
        packages: wheels!("nvidia-nvshmem", ["-cu12", "-cu13"], "nvidia/nvshmem"),
        version_macros: version_parts("non_abi/nvshmem_version.h", [
            "NVSHMEM_VENDOR_MAJOR_VERSION", "NVSHMEM_VENDOR_MINOR_VERSION", "NVSHMEM_VENDOR_PATCH_VERSION"
        ]),
        variables: &["NVSHMEM_HOME"], redist: &["libnvshmem"], nix: &["nvshmem"], spack: &["nvshmem"],
    }
    /// Direct sparse solvers. Has its own release cycle.
    Cudss {
        id: "cudss", class: Class::Product,
        libraries: &["cudss"],
        sonames: [&[], &["libcudss.so.1"], &["libcudss.so.1"]],
        header: Some("cudss.h"),
        packages: to_newest([("nvidia-cudss-cu12", "nvidia/cu12"), ("nvidia-cudss-cu13", "nvidia/cu13")]),
        version_macros: version_parts("cudss.h", ["CUDSS_VERSION_MAJOR", "CUDSS_VERSION_MINOR", "CUDSS_VERSION_PATCH"]),
        variables: &["CUDSS_DIR", "CUDSS_ROOT"], redist: &["libcudss"], nix: &["cudss"], spack: &["cudss"],
    }
    /// Compression.
    Nvcomp {
        id: "nvcomp", class: Class::Product,
        libraries: &["nvcomp", "nvcomp_cpu"],
        sonames: [&[], sonames!("6", ["nvcomp", "nvcomp_cpu"]), sonames!("6", ["nvcomp", "nvcomp_cpu"])],
        header: Some("nvcomp.h"),
        packages: wheels!("nvidia-libnvcomp", ["-cu12", "-cu13"], "nvidia/libnvcomp"),
        version_macros: version_parts("nvcomp/version.h", ["NVCOMP_VER_MAJOR", "NVCOMP_VER_MINOR", "NVCOMP_VER_PATCH"]),
        variables: &["nvcomp_ROOT"], redist: &["nvcomp"], nix: &["nvcomp"],
    }
    /// JPEG 2000 codec.
    Nvjpeg2k {
        id: "nvjpeg2k", class: Class::Product,
        libraries: &["nvjpeg2k"],
        sonames: [&[], &["libnvjpeg2k.so.0"], &["libnvjpeg2k.so.0"]],
        header: Some("nvjpeg2k.h"),
        packages: wheels!("nvidia-nvjpeg2k", ["-cu12", "-cu13"], "nvidia/nvjpeg2k"),
        version_macros: version_parts("nvjpeg2k_version.h", [
            "NVJPEG2K_VER_MAJOR", "NVJPEG2K_VER_MINOR", "NVJPEG2K_VER_PATCH"
        ]),
        variables: &["nvjpeg2k_ROOT"], redist: &["libnvjpeg_2k"], nix: &["libnvjpeg_2k"],
    }
    /// TIFF codec.
    Nvtiff {
        id: "nvtiff", class: Class::Product,
        libraries: &["nvtiff"],
        sonames: [&[], &["libnvtiff.so.0"], &["libnvtiff.so.0"]],
        header: Some("nvtiff.h"),
        packages: wheels!("nvidia-nvtiff", ["-cu12", "-cu13"], "nvidia/nvtiff"),
        version_macros: version_parts("nvtiff_version.h", ["NVTIFF_VER_MAJOR", "NVTIFF_VER_MINOR", "NVTIFF_VER_PATCH"]),
        variables: &["nvtiff_ROOT"], redist: &["libnvtiff"], nix: &["libnvtiff"],
    }
    /// Dense linear algebra over several processes.
    Cublasmp {
        id: "cublasmp", class: Class::Product,
        libraries: &["cublasmp"],
        sonames: [&[], &["libcublasmp.so.0"], &["libcublasmp.so.0"]],
        header: Some("cublasmp.h"),
        packages: to_newest([
            ("nvidia-cublasmp-cu12", "nvidia/cublasmp/cu12"), ("nvidia-cublasmp-cu13", "nvidia/cublasmp/cu13")
        ]),
        version_macros: version_parts("cublasmp.h", ["CUBLASMP_VER_MAJOR", "CUBLASMP_VER_MINOR", "CUBLASMP_VER_PATCH"]),
        variables: &["CUBLASMP_HOME"], redist: &["libcublasmp"], nix: &["libcublasmp"],
    }
    /// Solvers over several processes.
    Cusolvermp {
        id: "cusolvermp", class: Class::Product,
        libraries: &["cusolverMp"],
        sonames: [&[], &["libcusolverMp.so.0"], &["libcusolverMp.so.0"]],
        header: Some("cusolverMp.h"),
        packages: to_newest([("nvidia-cusolvermp-cu12", "nvidia/cu12"), ("nvidia-cusolvermp-cu13", "nvidia/cu13")]),
        named_header_prefixes: &["cusolverMp"],
        version_macros: version_parts("cusolverMp.h", [
            "CUSOLVERMP_VER_MAJOR", "CUSOLVERMP_VER_MINOR", "CUSOLVERMP_VER_PATCH"
        ]),
        variables: &["CUSOLVERMP_HOME"], redist: &["libcusolvermp"], nix: &["libcusolvermp"],
    }
    /// Device functions of the math libraries, compiled at run time.
    Libmathdx {
        id: "libmathdx", class: Class::Product,
        libraries: &["mathdx"],
        sonames: [&[], &["libmathdx.so.0"], &["libmathdx.so.0"]],
        header: Some("libmathdx.h"),
        packages: to_newest([("nvidia-libmathdx-cu12", "nvidia/cu12"), ("nvidia-libmathdx-cu13", "nvidia/cu13")]),
        named_header_prefixes: &[
            "libmathdx", "libcommondx", "libcublasdx", "libcufftdx", "libcuranddx", "libcusolverdx", "libnvcompdx",
        ],
        version_macros: version_parts("libmathdx.h", [
            "LIBMATHDX_VER_MAJOR", "LIBMATHDX_VER_MINOR", "LIBMATHDX_VER_PATCH"
        ]),
        variables: &["LIBMATHDX_HOME"], redist: &["libmathdx"], nix: &["libmathdx"],
    }
    /// Templates for linear algebra (CUTLASS and CuTe): a header package.
    Cutlass {
        id: "cutlass", class: Class::Product,
        header: Some("cutlass/version.h"), more_headers: Some("tools/util/include"),
        packages: [Some(("nvidia-cutlass", "cutlass_library/source")); MAJORS],
        named_header_prefixes: &["cutlass/", "cute/"],
        version_macros: version_parts("cutlass/version.h", ["CUTLASS_MAJOR", "CUTLASS_MINOR", "CUTLASS_PATCH"]),
        variables: &["CUTLASS_DIR", "CUTLASS_PATH", "CUTLASS_HOME"], nix: &["cutlass"], spack: &["cutlass"],
    }
    /// Device functions of the math libraries (cuBLASDx, cuFFTDx …): a header package, which includes CUTLASS.
    Mathdx {
        id: "mathdx", class: Class::Product,
        header: Some("cublasdx.hpp"),
        packages: [Some(("nvidia-mathdx", "nvidia/mathdx")); MAJORS],
        named_header_prefixes: &["commondx", "cublasdx", "cufftdx", "curanddx", "cusolverdx", "nvcompdx"],
        variables: &["MATHDX_ROOT", "mathdx_ROOT", "MATHDX_HOME"],
    }
}

impl Component {
    /// The components that determine the release of a toolkit. The first component that is present decides: a compiler
    /// of device code before the runtime.
    pub const CORE: [Self; 3] = [Self::Nvcc, Self::Nvrtc, Self::Cudart];

    /// Whether it is one of [`Component::CORE`].
    pub fn is_core(self) -> bool {
        Self::CORE.contains(&self)
    }

    /// All components, those of the toolkit before the products.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|facts| facts.component)
    }

    /// The facts about the component.
    #[doc(hidden)]
    pub fn facts(self) -> &'static Facts {
        // The enum and the table are generated from the same rows, so the index is valid.
        &TABLE[self as usize]
    }

    /// The component that NVIDIA's redistributable archives call `name`: `libcublas` is cuBLAS.
    #[doc(hidden)]
    pub fn of_redist(name: &str) -> Option<Self> {
        Self::all().find(|component| component.facts().redist.contains(&name))
    }

    /// The component with the header that is included as `name`: `curand_kernel.h`, `cub/cub.cuh`. The longest prefix
    /// decides, because `cublas_v2.h` starts with `cub`.
    #[doc(hidden)]
    pub fn of_header(name: &str) -> Option<Self> {
        let length = |component: &Self| {
            let facts = component.facts();
            // The directory of `CL/cl.h` has no prefix, because `include` directories of systems have another one.
            let directory = facts.header.and_then(|it| Some(&it[..=it.rfind('/')?]));
            let prefixes = facts.header_prefixes().iter().copied().chain(directory);
            let matching = prefixes.filter(|prefix| name.starts_with(prefix));
            matching.map(str::len).max().unwrap_or(0)
        };
        let matching = Self::all().filter(|component| length(component) > 0);
        // cuDNN's C++ interface has a package of its own.
        let component = matching.max_by_key(length);
        component.filter(|_| !name.starts_with("cudnn_frontend"))
    }

    /// The component with the library `lib<name>.so`, and the library's index in [`Facts::libraries`].
    #[doc(hidden)]
    pub fn of_library(name: &str) -> Option<(Self, usize)> {
        Self::all().find_map(|component| {
            let mut libraries = component.facts().libraries.iter();
            Some((component, libraries.position(|library| *library == name)?))
        })
    }

    /// The component that has a library with this SONAME for a CUDA major.
    #[doc(hidden)]
    pub fn of_soname(soname: &str, major: u32) -> Option<Self> {
        let (name, _) = soname.strip_prefix("lib")?.split_once(".so")?;
        let (component, index) = Self::of_library(name)?;
        let mut known = component.facts().sonames_of(index, major);
        known.any(|known| known == soname).then_some(component)
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

impl TryFrom<&str> for Component {
    type Error = String;

    fn try_from(name: &str) -> Result<Self, Self::Error> {
        name.parse()
    }
}

#[cfg(test)]
mod tests;

//! What each component is called and holds, per CUDA major.
//!
//! Sources: SONAMEs, package names and directories were read from the Python wheels of the sets
//! 11.8.0, 12.9.1 and 13.4.3 (`readelf -d`, `RECORD`), extras from the metadata of the
//! `cuda-toolkit` metapackage of the same versions, link names from CMake's `FindCUDAToolkit`. Those
//! of products were read from their newest wheel for each CUDA major (cuDNN 9.27, for 11 9.10;
//! NCCL 2.32, for 11 2.21; cuTENSOR 2.8, for 11 2.2; cuSPARSELt 0.10 and 0.8; NVSHMEM 3.8; cuDSS 1.0).
//! Order matters to nobody but readers: toolkit first, products after it.

use super::{Bundle, Class, Component, Facts, NOTHING};

/// cuDNN 9 has one set of names for every CUDA major (`nvidia-cudnn-cu11`'s 9.10 lacks the newest).
#[rustfmt::skip]
const CUDNN_9: &[&str] = &["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9", "libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9", "libcudnn_engines_tensor_ir.so.9", "libcudnn_ext.so.9"];

#[rustfmt::skip] // one line a fact
pub(super) const TABLE: &[Facts] = &[
    Facts {
        component: Component::Cudart,
        id: "cudart",
        follows_toolkit: true,
        libraries: &["cudart"],
        sonames: [&["libcudart.so.11.0"], &["libcudart.so.12"], &["libcudart.so.13"]],
        archives: &["libcudart_static.a", "libcudadevrt.a"],
        header: Some("cuda_runtime.h"),
        packages: [Some("nvidia-cuda-runtime-cu11"), Some("nvidia-cuda-runtime-cu12"), Some("nvidia-cuda-runtime")],
        package_dirs: [Some("nvidia/cuda_runtime"), Some("nvidia/cuda_runtime"), Some("nvidia/cu13")],
        extra: Some("cudart"),
        ..NOTHING
    },
    Facts {
        component: Component::Driver,
        id: "cuda-driver",
        bundle: Bundle::Driver,
        class: Class::Driver,
        libraries: &["cuda"],
        sonames: [&["libcuda.so.1"], &["libcuda.so.1"], &["libcuda.so.1"]],
        header: Some("cuda.h"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvcc,
        id: "nvcc",
        class: Class::ExactMinor,
        follows_toolkit: true,
        header: Some("fatbinary_section.h"),
        tools: &["nvcc", "ptxas", "cudafe++", "fatbinary", "nvlink", "bin2c"],
        packages: [Some("nvidia-cuda-nvcc-cu11"), Some("nvidia-cuda-nvcc-cu12"), Some("nvidia-cuda-nvcc")],
        package_dirs: [Some("nvidia/cuda_nvcc"), Some("nvidia/cuda_nvcc"), Some("nvidia/cu13")],
        extra: Some("nvcc"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvvm,
        id: "nvvm",
        class: Class::ExactMinor,
        follows_toolkit: true,
        libraries: &["nvvm"],
        sonames: [&["libnvvm.so.4"], &["libnvvm.so.4"], &["libnvvm.so.4"]],
        header: Some("nvvm.h"),
        tools: &["cicc"],
        packages: [None, None, Some("nvidia-nvvm")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("nvvm"),
        ..NOTHING
    },
    Facts {
        component: Component::Crt,
        id: "crt",
        class: Class::ExactMinor,
        follows_toolkit: true,
        header: Some("crt/host_config.h"),
        packages: [None, Some("nvidia-cuda-nvcc-cu12"), Some("nvidia-cuda-crt")],
        package_dirs: [None, Some("nvidia/cuda_nvcc"), Some("nvidia/cu13")],
        extra: Some("crt"),
        ..NOTHING
    },
    Facts {
        component: Component::Cccl,
        id: "cccl",
        class: Class::OwnRange,
        // In every release, unlike libcu++'s: the wheel of 12.0 holds CUB and Thrust alone.
        header: Some("cub/version.cuh"),
        packages: [Some("nvidia-cuda-cccl-cu11"), Some("nvidia-cuda-cccl-cu12"), Some("nvidia-cuda-cccl")],
        package_dirs: [Some("nvidia/cuda_cccl"), Some("nvidia/cuda_cccl"), Some("nvidia/cu13")],
        extra: Some("cccl"),
        ..NOTHING
    },
    Facts {
        component: Component::Culibos,
        id: "culibos",
        follows_toolkit: true,
        archives: &["libculibos.a"],
        packages: [None, None, Some("nvidia-cuda-culibos")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("culibos"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvptxcompiler,
        id: "nvptxcompiler",
        follows_toolkit: true,
        archives: &["libnvptxcompiler_static.a"],
        header: Some("nvPTXCompiler.h"),
        packages: [None, None, Some("nvidia-nvptxcompiler")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("nvptxcompiler"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvrtc,
        id: "nvrtc",
        follows_toolkit: true,
        libraries: &["nvrtc", "nvrtc-builtins"],
        sonames: [&["libnvrtc.so.11.2", "libnvrtc-builtins.so.11.8"], &["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"], &["libnvrtc.so.13", "libnvrtc-builtins.so.13.4"]],
        archives: &["libnvrtc_static.a", "libnvrtc-builtins_static.a"],
        header: Some("nvrtc.h"),
        packages: [Some("nvidia-cuda-nvrtc-cu11"), Some("nvidia-cuda-nvrtc-cu12"), Some("nvidia-cuda-nvrtc")],
        package_dirs: [Some("nvidia/cuda_nvrtc"), Some("nvidia/cuda_nvrtc"), Some("nvidia/cu13")],
        extra: Some("nvrtc"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvjitlink,
        id: "nvjitlink",
        class: Class::Provider,
        follows_toolkit: true,
        libraries: &["nvJitLink"],
        sonames: [&[], &["libnvJitLink.so.12"], &["libnvJitLink.so.13"]],
        archives: &["libnvJitLink_static.a"],
        header: Some("nvJitLink.h"),
        packages: [None, Some("nvidia-nvjitlink-cu12"), Some("nvidia-nvjitlink")],
        package_dirs: [None, Some("nvidia/nvjitlink"), Some("nvidia/cu13")],
        extra: Some("nvjitlink"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvfatbin,
        id: "nvfatbin",
        follows_toolkit: true,
        libraries: &["nvfatbin"],
        sonames: [&[], &["libnvfatbin.so.12"], &["libnvfatbin.so.13"]],
        archives: &["libnvfatbin_static.a"],
        header: Some("nvFatbin.h"),
        packages: [None, Some("nvidia-nvfatbin-cu12"), Some("nvidia-nvfatbin")],
        package_dirs: [None, Some("nvidia/nvfatbin"), Some("nvidia/cu13")],
        extra: Some("nvfatbin"),
        ..NOTHING
    },
    Facts {
        component: Component::Cublas,
        id: "cublas",
        libraries: &["cublas", "cublasLt", "nvblas"],
        sonames: [&["libcublas.so.11", "libcublasLt.so.11", "libnvblas.so.11"], &["libcublas.so.12", "libcublasLt.so.12", "libnvblas.so.12"], &["libcublas.so.13", "libcublasLt.so.13", "libnvblas.so.13"]],
        archives: &["libcublas_static.a", "libcublasLt_static.a"],
        header: Some("cublas_v2.h"),
        packages: [Some("nvidia-cublas-cu11"), Some("nvidia-cublas-cu12"), Some("nvidia-cublas")],
        package_dirs: [Some("nvidia/cublas"), Some("nvidia/cublas"), Some("nvidia/cu13")],
        extra: Some("cublas"),
        ..NOTHING
    },
    Facts {
        component: Component::Cufft,
        id: "cufft",
        libraries: &["cufft", "cufftw"],
        sonames: [&["libcufft.so.10", "libcufftw.so.10"], &["libcufft.so.11", "libcufftw.so.11"], &["libcufft.so.12", "libcufftw.so.12"]],
        archives: &["libcufft_static.a", "libcufft_static_nocallback.a", "libcufftw_static.a"],
        header: Some("cufft.h"),
        packages: [Some("nvidia-cufft-cu11"), Some("nvidia-cufft-cu12"), Some("nvidia-cufft")],
        package_dirs: [Some("nvidia/cufft"), Some("nvidia/cufft"), Some("nvidia/cu13")],
        extra: Some("cufft"),
        ..NOTHING
    },
    Facts {
        component: Component::Curand,
        id: "curand",
        libraries: &["curand"],
        sonames: [&["libcurand.so.10"], &["libcurand.so.10"], &["libcurand.so.10"]],
        archives: &["libcurand_static.a"],
        header: Some("curand.h"),
        packages: [Some("nvidia-curand-cu11"), Some("nvidia-curand-cu12"), Some("nvidia-curand")],
        package_dirs: [Some("nvidia/curand"), Some("nvidia/curand"), Some("nvidia/cu13")],
        extra: Some("curand"),
        ..NOTHING
    },
    Facts {
        component: Component::Cusolver,
        id: "cusolver",
        libraries: &["cusolver", "cusolverMg"],
        sonames: [&["libcusolver.so.11", "libcusolverMg.so.11"], &["libcusolver.so.11", "libcusolverMg.so.11"], &["libcusolver.so.12", "libcusolverMg.so.12"]],
        archives: &["libcusolver_static.a", "libcusolver_lapack_static.a", "libcusolver_metis_static.a"],
        header: Some("cusolverDn.h"),
        packages: [Some("nvidia-cusolver-cu11"), Some("nvidia-cusolver-cu12"), Some("nvidia-cusolver")],
        package_dirs: [Some("nvidia/cusolver"), Some("nvidia/cusolver"), Some("nvidia/cu13")],
        extra: Some("cusolver"),
        ..NOTHING
    },
    Facts {
        component: Component::Cusparse,
        id: "cusparse",
        libraries: &["cusparse"],
        sonames: [&["libcusparse.so.11"], &["libcusparse.so.12"], &["libcusparse.so.12"]],
        archives: &["libcusparse_static.a"],
        header: Some("cusparse.h"),
        packages: [Some("nvidia-cusparse-cu11"), Some("nvidia-cusparse-cu12"), Some("nvidia-cusparse")],
        package_dirs: [Some("nvidia/cusparse"), Some("nvidia/cusparse"), Some("nvidia/cu13")],
        extra: Some("cusparse"),
        ..NOTHING
    },
    Facts {
        component: Component::Npp,
        id: "npp",
        libraries: &["nppc", "nppial", "nppicc", "nppidei", "nppif", "nppig", "nppim", "nppist", "nppisu", "nppitc", "npps"],
        sonames: [&["libnppc.so.11", "libnppial.so.11", "libnppicc.so.11", "libnppidei.so.11", "libnppif.so.11", "libnppig.so.11", "libnppim.so.11", "libnppist.so.11", "libnppisu.so.11", "libnppitc.so.11", "libnpps.so.11"], &["libnppc.so.12", "libnppial.so.12", "libnppicc.so.12", "libnppidei.so.12", "libnppif.so.12", "libnppig.so.12", "libnppim.so.12", "libnppist.so.12", "libnppisu.so.12", "libnppitc.so.12", "libnpps.so.12"], &["libnppc.so.13", "libnppial.so.13", "libnppicc.so.13", "libnppidei.so.13", "libnppif.so.13", "libnppig.so.13", "libnppim.so.13", "libnppist.so.13", "libnppisu.so.13", "libnppitc.so.13", "libnpps.so.13"]],
        archives: &["libnppc_static.a", "libnppial_static.a", "libnppicc_static.a", "libnppidei_static.a", "libnppif_static.a", "libnppig_static.a", "libnppim_static.a", "libnppist_static.a", "libnppisu_static.a", "libnppitc_static.a", "libnpps_static.a"],
        header: Some("npp.h"),
        packages: [Some("nvidia-npp-cu11"), Some("nvidia-npp-cu12"), Some("nvidia-npp")],
        package_dirs: [Some("nvidia/npp"), Some("nvidia/npp"), Some("nvidia/cu13")],
        extra: Some("npp"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvjpeg,
        id: "nvjpeg",
        libraries: &["nvjpeg"],
        sonames: [&["libnvjpeg.so.11"], &["libnvjpeg.so.12"], &["libnvjpeg.so.13"]],
        archives: &["libnvjpeg_static.a"],
        header: Some("nvjpeg.h"),
        packages: [Some("nvidia-nvjpeg-cu11"), Some("nvidia-nvjpeg-cu12"), Some("nvidia-nvjpeg")],
        package_dirs: [Some("nvidia/nvjpeg"), Some("nvidia/nvjpeg"), Some("nvidia/cu13")],
        extra: Some("nvjpeg"),
        ..NOTHING
    },
    Facts {
        component: Component::Cupti,
        id: "cupti",
        follows_toolkit: true,
        libraries: &["cupti", "nvperf_host", "nvperf_target", "pcsamplingutil", "checkpoint"],
        sonames: [&["libcupti.so.11.8"], &["libcupti.so.12"], &["libcupti.so.13"]],
        header: Some("cupti.h"),
        packages: [Some("nvidia-cuda-cupti-cu11"), Some("nvidia-cuda-cupti-cu12"), Some("nvidia-cuda-cupti")],
        package_dirs: [Some("nvidia/cuda_cupti"), Some("nvidia/cuda_cupti"), Some("nvidia/cu13")],
        extra: Some("cupti"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvtx,
        id: "nvtx",
        follows_toolkit: true,
        // The first replaced the second in 12.9; a toolkit has one or the other.
        libraries: &["nvtx3interop", "nvToolsExt"],
        libraries_are_alternatives: true,
        sonames: [&["libnvtx3interop.so.1", "libnvToolsExt.so.1"], &["libnvtx3interop.so.1", "libnvToolsExt.so.1"], &["libnvtx3interop.so.1", "libnvToolsExt.so.1"]],
        header: Some("nvtx3/nvToolsExt.h"),
        packages: [Some("nvidia-nvtx-cu11"), Some("nvidia-nvtx-cu12"), Some("nvidia-nvtx")],
        package_dirs: [Some("nvidia/nvtx"), Some("nvidia/nvtx"), Some("nvidia/cu13")],
        extra: Some("nvtx"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvml,
        id: "nvml",
        bundle: Bundle::Driver,
        class: Class::Driver,
        follows_toolkit: true,
        libraries: &["nvidia-ml"],
        sonames: [&["libnvidia-ml.so.1"], &["libnvidia-ml.so.1"], &["libnvidia-ml.so.1"]],
        header: Some("nvml.h"),
        packages: [Some("nvidia-nvml-dev-cu11"), Some("nvidia-nvml-dev-cu12"), Some("nvidia-nvml-dev")],
        package_dirs: [Some("nvidia/nvml_dev"), Some("nvidia/nvml_dev"), Some("nvidia/cu13")],
        extra: Some("nvml"),
        ..NOTHING
    },
    Facts {
        component: Component::Cufile,
        id: "cufile",
        libraries: &["cufile", "cufile_rdma"],
        sonames: [&[], &["libcufile.so.0", "libcufile_rdma.so.1"], &["libcufile.so.0", "libcufile_rdma.so.1"]],
        archives: &["libcufile_static.a", "libcufile_rdma_static.a"],
        header: Some("cufile.h"),
        packages: [None, Some("nvidia-cufile-cu12"), Some("nvidia-cufile")],
        package_dirs: [None, Some("nvidia/cufile"), Some("nvidia/cu13")],
        extra: Some("cufile"),
        ..NOTHING
    },
    Facts {
        component: Component::Opencl,
        id: "opencl",
        follows_toolkit: true,
        libraries: &["OpenCL"],
        sonames: [&[], &["libOpenCL.so.1"], &["libOpenCL.so.1"]],
        header: Some("CL/cl.h"),
        packages: [None, Some("nvidia-cuda-opencl-cu12"), Some("nvidia-cuda-opencl")],
        package_dirs: [None, Some("nvidia/cuda_opencl"), Some("nvidia/cu13")],
        extra: Some("opencl"),
        ..NOTHING
    },
    Facts {
        component: Component::ProfilerApi,
        id: "profiler-api",
        follows_toolkit: true,
        header: Some("cuda_profiler_api.h"),
        packages: [Some("nvidia-cuda-profiler-api-cu11"), Some("nvidia-cuda-profiler-api-cu12"), Some("nvidia-cuda-profiler-api")],
        package_dirs: [Some("nvidia/cuda_profiler_api"), Some("nvidia/cuda_profiler_api"), Some("nvidia/cu13")],
        extra: Some("profiler"),
        ..NOTHING
    },
    Facts {
        component: Component::Sanitizer,
        id: "sanitizer",
        follows_toolkit: true,
        libraries: &["sanitizer-public", "sanitizer-collection"],
        sonames: [&["libsanitizer-public.so", "libsanitizer-collection.so"], &[], &["libsanitizer-public.so", "libsanitizer-collection.so"]],
        header: Some("sanitizer.h"),
        tools: &["compute-sanitizer"],
        packages: [Some("nvidia-cuda-sanitizer-api-cu11"), Some("nvidia-cuda-sanitizer-api-cu12"), Some("nvidia-cuda-sanitizer-api")],
        package_dirs: [Some("nvidia/cuda_sanitizer_api"), Some("nvidia/cuda_sanitizer_api"), Some("nvidia/cu13")],
        extra: Some("sanitizer"),
        ..NOTHING
    },
    Facts {
        component: Component::Cudla,
        id: "cudla",
        follows_toolkit: true,
        libraries: &["cudla"],
        sonames: [&[], &["libcudla.so.1"], &["libcudla.so.1"]],
        header: Some("cudla.h"),
        packages: [None, None, Some("nvidia-cudla")],
        ..NOTHING
    },
    Facts {
        component: Component::Cuobjdump,
        id: "cuobjdump",
        follows_toolkit: true,
        tools: &["cuobjdump"],
        packages: [None, None, Some("nvidia-cuda-cuobjdump")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("cuobjdump"),
        ..NOTHING
    },
    Facts {
        component: Component::Nvdisasm,
        id: "nvdisasm",
        follows_toolkit: true,
        tools: &["nvdisasm"],
        packages: [None, None, Some("nvidia-cuda-nvdisasm")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("nvdisasm"),
        ..NOTHING
    },
    Facts {
        component: Component::Tileiras,
        id: "tileiras",
        follows_toolkit: true,
        tools: &["tileiras"],
        packages: [None, None, Some("nvidia-cuda-tileiras")],
        package_dirs: [None, None, Some("nvidia/cu13")],
        extra: Some("tileiras"),
        ..NOTHING
    },
    Facts {
        component: Component::CuxxFilt,
        id: "cuxxfilt",
        follows_toolkit: true,
        archives: &["libcufilt.a"],
        header: Some("nv_decode.h"),
        tools: &["cu++filt"],
        packages: [Some("nvidia-cuda-cuxxfilt-cu11"), Some("nvidia-cuda-cuxxfilt-cu12"), Some("nvidia-cuda-cuxxfilt")],
        package_dirs: [Some("nvidia/cuda_cuxxfilt"), Some("nvidia/cuda_cuxxfilt"), Some("nvidia/cu13")],
        extra: Some("cuxxfilt"),
        ..NOTHING
    },
    Facts {
        component: Component::Cudnn,
        id: "cudnn",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["cudnn", "cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv", "cudnn_heuristic", "cudnn_engines_precompiled", "cudnn_engines_runtime_compiled", "cudnn_engines_tensor_ir", "cudnn_ext"],
        sonames: [CUDNN_9, CUDNN_9, CUDNN_9],
        header: Some("cudnn.h"),
        packages: [Some("nvidia-cudnn-cu11"), Some("nvidia-cudnn-cu12"), Some("nvidia-cudnn-cu13")],
        package_dirs: [Some("nvidia/cudnn"), Some("nvidia/cudnn"), Some("nvidia/cudnn")],
        ..NOTHING
    },
    Facts {
        component: Component::Nccl,
        id: "nccl",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["nccl"],
        sonames: [&["libnccl.so.2"], &["libnccl.so.2"], &["libnccl.so.2"]],
        header: Some("nccl.h"),
        packages: [Some("nvidia-nccl-cu11"), Some("nvidia-nccl-cu12"), Some("nvidia-nccl-cu13")],
        package_dirs: [Some("nvidia/nccl"), Some("nvidia/nccl"), Some("nvidia/nccl")],
        ..NOTHING
    },
    Facts {
        component: Component::Cutensor,
        id: "cutensor",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["cutensor", "cutensorMg", "cutensorMp"],
        sonames: [&["libcutensor.so.2", "libcutensorMg.so.2", "libcutensorMp.so.2"], &["libcutensor.so.2", "libcutensorMg.so.2", "libcutensorMp.so.2"], &["libcutensor.so.2", "libcutensorMg.so.2", "libcutensorMp.so.2"]],
        header: Some("cutensor.h"),
        packages: [Some("cutensor-cu11"), Some("cutensor-cu12"), Some("cutensor-cu13")],
        package_dirs: [Some("cutensor"), Some("cutensor"), Some("cutensor")],
        ..NOTHING
    },
    Facts {
        component: Component::Cusparselt,
        id: "cusparselt",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["cusparseLt"],
        sonames: [&[], &["libcusparseLt.so.0"], &["libcusparseLt.so.0"]],
        header: Some("cusparseLt.h"),
        packages: [None, Some("nvidia-cusparselt-cu12"), Some("nvidia-cusparselt-cu13")],
        package_dirs: [None, Some("nvidia/cusparselt"), Some("nvidia/cu13")],
        ..NOTHING
    },
    Facts {
        component: Component::Nvshmem,
        id: "nvshmem",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["nvshmem_host"],
        sonames: [&[], &["libnvshmem_host.so.3"], &["libnvshmem_host.so.3"]],
        archives: &["libnvshmem_device.a"],
        header: Some("nvshmem.h"),
        packages: [None, Some("nvidia-nvshmem-cu12"), Some("nvidia-nvshmem-cu13")],
        package_dirs: [None, Some("nvidia/nvshmem"), Some("nvidia/nvshmem")],
        ..NOTHING
    },
    Facts {
        component: Component::Cudss,
        id: "cudss",
        bundle: Bundle::Product,
        class: Class::Independent,
        libraries: &["cudss"],
        sonames: [&[], &["libcudss.so.1"], &["libcudss.so.1"]],
        header: Some("cudss.h"),
        packages: [None, Some("nvidia-cudss-cu12"), Some("nvidia-cudss-cu13")],
        package_dirs: [None, Some("nvidia/cu12"), Some("nvidia/cu13")],
        ..NOTHING
    },
];

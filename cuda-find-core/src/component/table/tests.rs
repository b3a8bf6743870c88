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

/// The files of the wheels of CUDA 13.4 and of products, and those of 11.8 and 12.9 that 13.4 lacks.
#[test]
fn headers_name_their_components() {
    let expected = "
        cudart: cuda.h cudaGL.h cudaProfilerTypedefs.h cuda_fp16.h cuda_runtime.h cooperative_groups/scan.h mma.h
        cccl: cub/cub.cuh cuda/std/atomic nv/target thrust/sort.h
        crt: crt/host_config.h
        nvrtc: nvrtc.h
        nvjitlink: nvJitLink.h
        nvfatbin: nvFatbin.h
        nvptxcompiler: nvPTXCompiler.h
        cublas: cublas.h cublas_v2.h cublasLt.h cublasXt.h cublas_api.h nvblas.h
        cufft: cufft.h cufftXt.h cufftw.h cufft_device.h cudalibxt.h
        curand: curand.h curand_kernel.h curand_mtgp32dc_p_11213.h
        cusolver: cusolverDn.h cusolverSp_LOWLEVEL_PREVIEW.h cusolver_common.h
        cusparse: cusparse.h cusparse_v2.h
        npp: npp.h nppi_filtering_functions.h npps.h
        nvjpeg: nvjpeg.h
        cupti: cupti.h cuda_stdint.h generated_nvtx_meta.h nvperf_host.h
        nvtx: nvtx3/nvToolsExt.h nvToolsExt.h nvtx3/nvtx3.hpp nvtxw3/nvtxw3.h
        nvml: nvml.h
        cufile: cufile.h
        opencl: CL/cl.h CL/opencl.hpp
        profiler-api: cuda_profiler_api.h cudaProfiler.h
        sanitizer: sanitizer.h sanitizer_callbacks.h
        cuxxfilt: nv_decode.h
        cudnn: cudnn.h cudnn_ops_v9.h
        nccl: nccl.h nccl_device/core.h
        cutensor: cutensor.h cutensorMg.h cutensor/types.h
        cusparselt: cusparseLt.h
        nvshmem: nvshmem.h nvshmemx.h
        cudss: cudss.h cudss_data_types.h
        nvcomp: nvcomp.h nvcomp/lz4.h
        nvjpeg2k: nvjpeg2k.h
        nvtiff: nvtiff.h
        cublasmp: cublasmp.h
        cusolvermp: cusolverMp.h
        libmathdx: libmathdx.h libcublasdx.h
        cutlass: cutlass/cutlass.h cute/tensor.hpp
        mathdx: cublasdx.hpp cufftdx.hpp commondx/commondx.hpp
        : stdio.h cubic.h cute.h thrust.h vector cudnn_frontend.h
    ";
    for line in expected.trim().lines() {
        let (component, headers) = line.split_once(':').unwrap();
        for header in headers.split_whitespace() {
            let found = Component::of_header(header).map_or("", Component::id);
            assert_eq!(found, component.trim(), "{header}");
        }
    }
}

/// A product without one of these could not be found in some layout.
#[test]
fn every_product_has_a_name_in_every_layout() {
    for facts in TABLE.iter().filter(|facts| facts.is_product()) {
        assert!(!facts.variables.is_empty(), "{}: variables", facts.id);
        if facts.is_header_package() {
            assert_eq!(facts.packages, [facts.packages[0]; MAJORS]);
            continue;
        }
        let newest = crate::release::NEWEST_MAJOR;
        for (has, what) in [
            (!facts.redist.is_empty() || !facts.nix.is_empty(), "Nix"),
            (facts.version_macros.is_some(), "version macros"),
            (facts.package(newest).is_some(), "package"),
        ] {
            assert!(has, "{}: {what}", facts.id);
        }
    }
}

#[test]
fn sonames_fit_their_libraries() {
    for facts in TABLE {
        for names in facts.sonames {
            let stems = names.iter().map(|soname| {
                let (stem, _) = soname.split_once(".so").unwrap();
                stem.strip_prefix("lib").unwrap()
            });
            let mut stems: Vec<&str> = stems.collect();
            stems.dedup();
            let libraries = &facts.libraries[..stems.len()];
            assert_eq!(stems, libraries, "{}: {names:?}", facts.id);
        }
    }
}

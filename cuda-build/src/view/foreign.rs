//! Directories that CUDA shares with other projects: `/usr/include`, a conda environment's `include`.
//!
//! A view takes only CUDA's headers from them: headers of the system in a view would precede the
//! compiler's own.

use std::ffi::OsStr;
use std::path::Path;

use crate::component::{Bundle, Component};
use crate::root::Root;

/// Whether the directory has headers of other projects.
pub(super) fn is_shared(root: &Root, include: &Path) -> bool {
    // Headers of the C library, some of which Debian has in a directory of the platform; or a conda
    // environment.
    ["stdio.h", "sys/cdefs.h"]
        .iter()
        .any(|header| root.is_file(&include.join(header)))
        || include
            .parent()
            .is_some_and(|prefix| root.is_dir(&prefix.join("conda-meta")))
}

/// Beginnings of the names in `include` of CUDA 11.8, 12.9 and 13.4 and of their libraries.
const TOOLKIT: &[&str] = &[
    "cuda",
    "cuComplex.h",
    "cublas",
    "cudalibxt.h",
    "cufft",
    "cufile",
    "cupti",
    "curand",
    "cusolver",
    "cusparse",
    "cudla",
    "cub",
    "crt",
    "cooperative_groups",
    "thrust",
    "nv",
    "npp",
    "sm_",
    "builtin_types.h",
    "channel_descriptor.h",
    "common_functions.h",
    "device_",
    "driver_functions.h",
    "driver_types.h",
    "fatbinary",
    "generated_cuda",
    "generated_nv",
    "host_config.h",
    "host_defines.h",
    "library_types.h",
    "math_constants.h",
    "math_functions.h",
    "mma.h",
    "surface_functions.h",
    "surface_indirect_functions.h",
    "surface_types.h",
    "texture_fetch_functions.h",
    "texture_indirect_functions.h",
    "texture_types.h",
    "vector_functions.h",
    "vector_types.h",
];

/// Of these, what begins like one and is another's: `nvme`, `cubeb`, products.
const OTHERS: &[&str] = &[
    "nvme",
    "nvpair",
    "cubeb",
    "nvtop",
    "nvshmem",
    "cudnn",
    "cudss",
    "cusparseLt",
];

/// Whether `name`, in a shared directory, belongs to this component.
pub(super) fn is_header_of(component: Component, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let facts = component.facts();
    if facts.bundle == Bundle::Product {
        return name.starts_with(component.id())
            || facts.header.is_some_and(|header| header == name);
    }
    TOOLKIT.iter().any(|start| name.starts_with(start))
        && !OTHERS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_headers_stay_out() {
        let is = |component, name: &str| is_header_of(component, OsStr::new(name));
        for name in [
            "cuda.h",
            "cub",
            "crt",
            "nv",
            "sm_20_intrinsics.h",
            "cublas_v2.h",
            "vector_functions.hpp",
        ] {
            assert!(is(Component::Cudart, name), "{name}");
        }
        for name in [
            "stdio.h", "curl", "cups", "curses.h", "nvme", "linux", "cudnn.h", "math.h",
        ] {
            assert!(!is(Component::Cudart, name), "{name}");
        }
        assert!(is(Component::Cudnn, "cudnn_ops.h") && is(Component::Nccl, "nccl.h"));
        assert!(!is(Component::Nccl, "cuda.h"));
    }
}

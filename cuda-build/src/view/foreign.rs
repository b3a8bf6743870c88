//! Directories that CUDA shares with other projects: `/usr/include`, a conda environment's `include`.
//!
//! A view takes only CUDA's headers from them: headers of the system in a view would precede the
//! compiler's own.

use std::ffi::OsStr;
use std::path::Path;

use crate::component::{Bundle, Component, Facts};
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

/// How the names of other projects' headers begin that begin like CUDA's.
const OTHERS: [&str; 4] = ["nvme", "nvpair", "cubeb", "nvtop"];

/// Whether `name`, in a shared directory, belongs to this component.
pub(super) fn is_header_of(component: Component, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let facts = component.facts();
    let begins = |facts: &Facts| {
        let mut prefixes = facts.header_prefixes.iter();
        prefixes.any(|prefix| name.starts_with(prefix))
    };
    if facts.bundle == Bundle::Product {
        return begins(facts);
    }
    let (products, toolkit): (Vec<_>, Vec<_>) = Component::all()
        .map(Component::facts)
        .partition(|facts| facts.bundle == Bundle::Product);
    toolkit.into_iter().any(begins)
        && !products.into_iter().any(begins)
        && !OTHERS.iter().any(|other| name.starts_with(other))
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

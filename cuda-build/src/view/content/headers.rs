//! Plans the headers of a view.
//!
//! `/usr/include` and the `include` of a conda environment hold headers of other projects too. From
//! these directories, a view takes only CUDA's headers, because a compiler would find the system's
//! headers in a view before its own headers.

use std::ffi::OsStr;
use std::path::Path;

use super::Planner;
use crate::component::{Component, Facts};
use crate::error::Error;
use crate::probe::Found;
use crate::root::Root;
use crate::view::plan::{Contents, Source, add_source, list};

impl Planner<'_, '_> {
    pub(super) fn headers(&mut self) -> Result<(), Error> {
        let mut contents = Contents::new();
        let mut listed: Vec<&Path> = Vec::new();
        for found in self.found {
            for directory in &found.include {
                let source = Source {
                    component: found.component,
                    path: directory.clone(),
                };
                if self.has_own_directory(found, directory) {
                    self.plan.add("compute-sanitizer/include", source)?;
                } else if directory.ends_with("cccl") {
                    add_source("cccl".into(), source, &mut contents);
                } else if is_shared(self.root, directory) {
                    let is_own = |name: &OsStr| is_header_of(found.component, name);
                    list(self.root, &source, &mut contents, &is_own);
                } else if !listed.contains(&&**directory) {
                    // Several components may share a directory: list it only once.
                    listed.push(directory);
                    list(self.root, &source, &mut contents, &|_| true);
                }
            }
        }
        self.plan.join(Path::new("include"), contents)
    }

    /// Whether `directory` has headers of the sanitizer only. NVIDIA's installers put these headers below
    /// `compute-sanitizer`, because some have the same names as CUPTI's headers but different contents.
    /// The wheels of CUDA 13 have the headers of both in one directory.
    fn has_own_directory(&self, found: &Found, directory: &Path) -> bool {
        let mut others = self
            .found
            .iter()
            .filter(|f| f.component != Component::Sanitizer);
        found.component == Component::Sanitizer
            && !others.any(|other| other.include.iter().any(|include| include == directory))
    }
}

/// Whether the directory contains headers of other projects.
fn is_shared(root: &Root, include: &Path) -> bool {
    // Both headers belong to the C library. Debian has `sys/cdefs.h` in `/usr/include/<multiarch>`. The directory
    // `conda-meta` marks a conda environment.
    ["stdio.h", "sys/cdefs.h"]
        .iter()
        .any(|header| root.is_file(&include.join(header)))
        || include
            .parent()
            .is_some_and(|prefix| root.is_dir(&prefix.join("conda-meta")))
}

/// Prefixes of other projects' headers. Each also starts with a prefix of CUDA's headers: `nvme` with `nv`.
const FOREIGN_PREFIXES: [&str; 4] = ["nvme", "nvpair", "cubeb", "nvtop"];

/// Whether the header `name` in a shared directory is taken for `component`. A product gets its own
/// headers. A component of the toolkit gets the headers of every component of the toolkit.
fn is_header_of(component: Component, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let facts = component.facts();
    let begins = |facts: &Facts| {
        let mut prefixes = facts.header_prefixes.iter();
        prefixes.any(|prefix| name.starts_with(prefix))
    };
    if facts.is_product() {
        return begins(facts);
    }
    let (products, toolkit): (Vec<_>, Vec<_>) = Component::all()
        .map(Component::facts)
        .partition(|facts| facts.is_product());
    toolkit.into_iter().any(begins)
        && !products.into_iter().any(begins)
        && !FOREIGN_PREFIXES.iter().any(|other| name.starts_with(other))
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

//! Views: one root, made of links, for consumers that expect all of CUDA below one directory.
//!
//! Most build scripts, CMake modules and makefiles look for `bin/nvcc`, `include/cuda.h`,
//! `lib64/libcudart.so` and `lib64/stubs/libcuda.so` below one root. In wheels, in Nix and in
//! redist archives, each component has a root of its own. A view joins them:
//!
//! ```text
//! bin/        nvcc, with an nvcc.profile that fits the view, and its tools
//! nvvm/       cicc, libdevice, libnvvm
//! include/    the headers of every component; crt, cccl, nv
//! lib/        libraries under their SONAME and their link name; archives, stubs, CMake, pkg-config
//! lib64, targets/<platform>/, extras/CUPTI/      links to the above
//! version.json
//! ```
//!
//! nvcc looks for `nvcc.profile` in the directory of the path by which it was started, and does not
//! resolve links. So if nvcc is started by the link `bin/nvcc`, it reads the view's profile.

mod cmake;
mod content;
mod marker;
mod place;
mod plan;
mod stub;
mod text;
mod write;

use std::path::{Path, PathBuf};

use crate::list::Set;

pub use place::ViewPlace;

/// A view that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    path: PathBuf,
    paths: Set<PathBuf>,
    made: bool,
}

impl View {
    /// The view's directory, for `CUDA_HOME` and similar variables.
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// The same view, with all paths below `link`, which is a symbolic link to the view's directory. These
    /// paths stay valid when the link is switched to the view of a changed toolkit.
    #[must_use]
    pub fn through(mut self, link: PathBuf) -> Self {
        self.path = link;
        self
    }

    /// The directory of the shared libraries and archives.
    pub fn lib(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// The directory of the headers. The headers of CCCL may be in `cccl` below this directory.
    pub fn include(&self) -> PathBuf {
        self.path.join("include")
    }

    /// The directory of stubs of the driver's libraries. It is for linking only: no rpath and no
    /// `LD_LIBRARY_PATH` may name it.
    pub fn stubs(&self) -> PathBuf {
        self.path.join("lib/stubs")
    }

    /// A file to declare with `cargo::rerun-if-changed` if the output of a build script depends on the
    /// view. [`Build::run`](crate::Build::run) declares it if the build used a view or if
    /// [`Build::view`](crate::Build::view) was called.
    ///
    /// The file's date is before any build, so writing a view does not make Cargo run the script again. At
    /// a path that the user named ([`ViewPlace::at`]), the file has the date at which the view was written,
    /// because another view may be written there later.
    pub fn marker(&self) -> PathBuf {
        self.path.join(marker::MARKER)
    }

    /// The compiler, if the view has one.
    pub fn nvcc(&self) -> Option<PathBuf> {
        self.contains("bin/nvcc")
            .then(|| self.path.join("bin/nvcc"))
    }

    /// Whether the view has a file or link at this path, relative to its root. The contents of
    /// linked directories are not listed.
    pub fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.paths.contains(path.as_ref())
    }

    /// Every file and link, relative to the root, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Whether the view was written; `false` if a complete view already existed.
    pub fn was_made(&self) -> bool {
        self.made
    }
}

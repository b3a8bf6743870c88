//! One root for consumers that know no other: a directory of links, closed and complete.
//!
//! Most build scripts, CMake modules and makefiles expect CUDA below one directory, with
//! `bin/nvcc`, `include/cuda.h`, `lib64/libcudart.so` and `lib64/stubs/libcuda.so`. In wheels, in
//! Nix and in redist archives it is nowhere like that. A view puts the pieces together:
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
//! nvcc looks for its profile beside the name it was called by, links not resolved: a link in
//! `bin` is all it takes.

mod cmake;
mod content;
mod foreign;
mod join;
mod materialize;
mod owner;
mod place;
mod plan;
mod stub;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use place::ViewPlace;

/// A view on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    path: PathBuf,
    paths: BTreeSet<PathBuf>,
    made: bool,
}

impl View {
    /// Its directory: what `CUDA_HOME` and the like may point at.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// The same view, reached by `link`, a symbolic link to its directory. The paths that it gives
    /// then stay valid when the link is switched to the view of a changed toolkit.
    #[must_use]
    pub fn through(mut self, link: PathBuf) -> Self {
        self.path = link;
        self
    }

    /// The shared libraries and archives.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// The headers, without those of CCCL where they are apart.
    #[must_use]
    pub fn include(&self) -> PathBuf {
        self.path.join("include")
    }

    /// Libraries to link against in the driver's place, and never to load: no rpath and no
    /// `LD_LIBRARY_PATH` may name this directory.
    #[must_use]
    pub fn stubs(&self) -> PathBuf {
        self.path.join("lib/stubs")
    }

    /// A file that is there as long as the view is: for `cargo::rerun-if-changed`, where a build
    /// script's output depends on the view. It is older than any build, but for a view at a place that
    /// was named ([`ViewPlace::at`]): there it has the date when the view was made, because another
    /// may take its place.
    /// [`Build::run`](crate::Build::run) prints that line for views that it or
    /// [`Build::view`](crate::Build::view) gave.
    #[must_use]
    pub fn marker(&self) -> PathBuf {
        self.path.join(materialize::MARKER)
    }

    /// The compiler, where the toolkit has one.
    #[must_use]
    pub fn nvcc(&self) -> Option<PathBuf> {
        self.contains("bin/nvcc")
            .then(|| self.path.join("bin/nvcc"))
    }

    /// Whether the view has this path, relative to its root, as a file or link of its own. What
    /// lies in a directory that is one link is not listed.
    #[must_use]
    pub fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.paths.contains(path.as_ref())
    }

    /// Every file and link, relative to the root, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Whether something had to be written; `false` for a view that was there and whole.
    #[must_use]
    pub fn was_made(&self) -> bool {
        self.made
    }
}

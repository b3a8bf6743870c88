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
//! lib/        libraries under their SONAME and their link name; archives, stubs, CMake
//! lib64, targets/<platform>/, extras/CUPTI/      links to the above
//! version.json
//! ```
//!
//! nvcc looks for `nvcc.profile` in the directory of the path by which it was started, and does not
//! resolve links. So if nvcc is started by the link `bin/nvcc`, it reads the view's profile.

mod cmake;
mod content;
mod place;
mod plan;
mod stub;
mod write;

use crate::error::Error;
use cuda_find_core::{env::Env, root::Root, toolkit::Toolkit};

pub use place::{VIEWS_VARIABLE, View, ViewPlace, WRAPPED_NVCC};

impl View {
    /// Writes the view of a toolkit. A complete view is not touched; a damaged view below [`ViewPlace::directory`] is
    /// written again.
    ///
    /// # Errors
    /// [`Error::ViewConflict`] if components have different files of the same name;
    /// [`Error::ViewNotCreated`] if another user may have changed the view; [`cuda_find_core::error::Error::Io`];
    /// [`cuda_find_core::error::Error::Program`] if the compiler cannot make a stub.
    #[doc(hidden)]
    pub fn create(
        toolkit: &Toolkit,
        place: &ViewPlace,
        root: &Root,
        env: &Env,
    ) -> Result<Self, Error> {
        let plan = content::plan(toolkit, root, place, env)?;
        let name = format!("{}-{}", toolkit.version(), plan.digest());
        let path = place.directory.join(name);
        let made = write::write(&plan, &path, env)?;
        Ok(Self {
            path,
            paths: plan.entries.into_keys().collect(),
            made,
            notes: plan.notes,
        })
    }
}

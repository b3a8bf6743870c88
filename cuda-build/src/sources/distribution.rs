//! What distributions install: `/opt/cuda` (Arch), `/usr` (Debian, Fedora).

use std::path::{Path, PathBuf};

use super::{Candidate, Layout, Sources, Step};
use crate::component::{Bundle, Component};
use crate::release::NEWEST_MAJOR;
use crate::root::Root;
use crate::target::Target;

pub(super) fn propose(root: &Root, found: &mut Sources) {
    let opt = root.locate("/opt/cuda");
    if root.is_dir(&opt) {
        // Arch has a package of its own for CCCL.
        let cccl = root.locate("/usr/include/cccl");
        let also = [cccl]
            .into_iter()
            .filter(|path| root.is_dir(path))
            .collect();
        let layout = Layout::Roots {
            more: also,
            nvcc: None,
        };
        found.candidates.push(Candidate::new(
            Step::System,
            "distribution's CUDA",
            opt,
            layout,
        ));
    }
    // `/usr` is a toolkit's root only if a compiler or CUDA's main header is in it.
    let telling = [
        "/usr/bin/nvcc",
        "/usr/lib/nvidia-cuda-toolkit/bin/nvcc",
        "/usr/include/cuda.h",
        "/usr/include/cuda/cuda.h",
    ];
    if telling.iter().any(|file| root.is_file(&root.locate(file))) {
        found.candidates.push(Candidate::root(
            Step::System,
            "distribution's CUDA",
            root.locate("/usr"),
        ));
    } else {
        // The search reads it only if a product is requested and [`holds_product`].
        found.candidates.push(Candidate::new(
            Step::System,
            "system directories",
            root.locate("/usr"),
            Layout::SystemProducts,
        ));
    }
}

/// Whether there is a product in `/usr`. NVIDIA's packages install cuDNN, NCCL and the like there, and CUDA in
/// `/usr/local`.
pub(crate) fn holds_product(root: &Root, target: &Target) -> bool {
    let (usr, multiarch) = (root.locate("/usr"), target.multiarch());
    let headers = [usr.join("include"), usr.join("include").join(multiarch)];
    let libraries = [
        usr.join("lib").join(multiarch),
        usr.join("lib64"),
        usr.join("lib"),
    ];
    let holds =
        |places: &[PathBuf], name: &str| places.iter().any(|place| root.is_file(&place.join(name)));
    let products = Component::all()
        .map(Component::facts)
        .filter(|facts| facts.bundle == Bundle::Product);
    products.into_iter().any(|facts| {
        facts.header.is_some_and(|header| holds(&headers, header))
            || facts
                .soname(0, NEWEST_MAJOR)
                .is_some_and(|soname| holds(&libraries, soname))
    })
}

/// `/usr` if `path` is one of Debian's `/usr/lib/cuda` and `/usr/lib/nvidia-cuda-toolkit`. These are made for consumers
/// that need a root, and almost empty.
pub(super) fn behind_facade(root: &Root, path: &Path) -> Option<PathBuf> {
    let facades = ["/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"];
    let facades = facades
        .map(|place| root.locate(place))
        .into_iter()
        .filter(|place| root.is_dir(place));
    let is_facade = |facade: PathBuf| root.place(&facade) == root.place(path);
    facades
        .into_iter()
        .any(is_facade)
        .then(|| root.locate("/usr"))
}

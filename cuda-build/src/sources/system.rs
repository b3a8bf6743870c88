//! Where NVIDIA's installers and distributions put CUDA: `/usr/local/cuda`, `/opt/cuda` (Arch), `/usr` (Debian, Fedora).

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::{Candidate, Layout, SearchStep, Sources};
use crate::component::Component;
use crate::list::sort_by_key;
use crate::release::NEWEST_MAJOR;
use crate::root::Root;
use crate::target::Target;
use crate::version::Version;

pub(super) fn propose(root: &Root, found: &mut Sources) {
    propose_installed(root, found);
    let label = "distribution's CUDA";
    let opt = root.locate("/opt/cuda");
    if root.is_dir(&opt) {
        // Arch has a package of its own for CCCL.
        let cccl = root.locate("/usr/include/cccl");
        let more = [cccl]
            .into_iter()
            .filter(|path| root.is_dir(path))
            .collect();
        let layout = Layout::Roots { more, nvcc: None };
        let candidate = Candidate::new(SearchStep::System, label, opt, layout);
        found.candidates.push(candidate);
    }
    // `/usr` is a toolkit's root only if a compiler or CUDA's main header is in it.
    let signs = [
        "/usr/bin/nvcc",
        "/usr/lib/nvidia-cuda-toolkit/bin/nvcc",
        "/usr/include/cuda.h",
        "/usr/include/cuda/cuda.h",
    ];
    let usr = root.locate("/usr");
    found.candidates.push(
        if signs.iter().any(|file| root.is_file(&root.locate(file))) {
            Candidate::root(SearchStep::System, label, usr)
        } else {
            // The search reads it only if a product is requested and `holds_product` is true.
            Candidate::new(
                SearchStep::System,
                "system directories",
                usr,
                Layout::SystemProducts,
            )
        },
    );
}

/// `/usr/local/cuda`, then versioned directories beside it, newest first.
fn propose_installed(root: &Root, found: &mut Sources) {
    let label = "default location";
    let link = root.locate("/usr/local/cuda");
    // A broken link, which removing a toolkit may leave behind, is proposed too, so that it is reported.
    let is_place = |path: &Path| root.is_dir(path) || root.is_link(path);
    if is_place(&link) {
        let candidate = Candidate::root(SearchStep::DefaultPlace, label, &link);
        found.candidates.push(candidate);
    }
    let parent = root.locate("/usr/local");
    let mut places = vec![root.place(&link)];
    let mut versioned: Vec<(Version, PathBuf)> = Vec::new();
    for name in root.names(&parent) {
        let version = name.to_str().and_then(|name| name.strip_prefix("cuda-"));
        let Some(Ok(version)) = version.map(str::parse) else {
            continue;
        };
        // If `cuda-12` and `cuda-12.4` exist, the first is a link to the second.
        let path = parent.join(&name);
        let place = root.place(&path);
        if is_place(&path) && !places.contains(&place) {
            places.push(place);
            versioned.push((version, path));
        }
    }
    sort_by_key(&mut versioned, |(version, _)| Reverse(version.clone()));
    for (_, path) in versioned {
        let candidate = Candidate::root(SearchStep::VersionedPlace, label, path);
        found.candidates.push(candidate);
    }
}

/// Whether there is a product in `/usr`. NVIDIA's packages install cuDNN, NCCL and the like there,
/// but CUDA in `/usr/local`.
pub(crate) fn holds_product(root: &Root, target: &Target) -> bool {
    let multiarch = target.multiarch();
    let [include, lib, lib64] = ["/usr/include", "/usr/lib", "/usr/lib64"].map(|p| root.locate(p));
    let headers = [include.join(multiarch), include];
    let libraries = [lib.join(multiarch), lib64, lib];
    let holds = |places: &[PathBuf], name: &str| {
        let mut places = places.iter();
        places.any(|place| root.is_file(&place.join(name)))
    };
    let facts = Component::all().map(Component::facts);
    let mut products = facts.filter(|facts| facts.is_product());
    products.any(|facts| {
        let soname = facts.soname(0, NEWEST_MAJOR);
        facts.header.is_some_and(|header| holds(&headers, header))
            || soname.is_some_and(|soname| holds(&libraries, soname))
    })
}

/// `/usr` if `path` is Debian's `/usr/lib/cuda` or `/usr/lib/nvidia-cuda-toolkit`. These
/// directories exist for consumers that need a root, and are almost empty.
pub(super) fn usr_of_debian_root(root: &Root, path: &Path) -> Option<PathBuf> {
    let facades = ["/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"];
    let mut facades = facades.iter().map(|place| root.locate(place));
    let is_facade =
        |facade: PathBuf| root.is_dir(&facade) && root.place(&facade) == root.place(path);
    facades.any(is_facade).then(|| root.locate("/usr"))
}

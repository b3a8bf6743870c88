//! Real CUDA components, fetched once into the user's cache by the project's own
//! `toolkit add`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cargo_cuda::store::{self, AddRequest};
use cuda_build::Component;
use cuda_find_core::{env::Env, sources::LOCK_VARIABLE};

/// The directory below the user's cache directory in which tests keep their downloads, so that
/// several checkouts share them and none is in the repository.
pub fn test_cache() -> PathBuf {
    let cache = cuda_find_core::cache::cache_dir(&Env::from_process());
    cache
        .expect("tests need a cache directory: set HOME or CUDA_BUILD_CACHE_DIR")
        .join("tests")
}

/// A site-packages directory with the components of CUDA 11.8, 12.9 or 13.4; `None` if tests of
/// real components are left out.
pub fn site_packages(major: u32) -> PathBuf {
    static STORED: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
    let stored = &STORED[(major - 11) as usize];
    stored.get_or_init(|| fetch(release(major))).clone()
}

/// The release of each major that the tests were written with: the index may have newer ones.
pub fn release(major: u32) -> &'static str {
    ["11.8", "12.9", "13.4"][(major - 11) as usize]
}

/// What `cargo cuda toolkit add <release>` fetches, and cuobjdump for 13.4: the exact packages of
/// the lock file beside this file, whatever is newest in the index. The lock file is written by
/// the same commands in a workspace.
pub fn fetch(release: &str) -> PathBuf {
    let mut request = AddRequest {
        release: release.parse().unwrap(),
        locked: true,
        ..AddRequest::default()
    };
    if release == "13.4" {
        request.components.push(Component::Cuobjdump);
    }
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/cuda-toolkits.lock");
    let env = Env::from_process().with(LOCK_VARIABLE, lock);
    match store::add(&request, &env) {
        Ok(added) => added.toolkit.path.into(),
        Err(error) => panic!("tests need real components of CUDA {release}: {error:?}"),
    }
}

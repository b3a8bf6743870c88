//! What the names in a directory show: whether it is a toolkit's root or a package, and which places belong to it.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::env::Env;
use crate::list::sort_by_key;
use crate::release::NEWEST_MAJOR;
use crate::root::Root;
use crate::target::Target;
use crate::version::Version;

/// Whether a directory is a toolkit's root, even if it also has site-packages or archives below it. A conda prefix and
/// `/usr` may be both.
pub fn looks_like_root(root: &Root, path: &Path) -> bool {
    let mut files = ["bin/nvcc", "include/cuda.h"].iter();
    files.any(|file| root.is_file(&path.join(file))) || root.is_dir(&path.join("targets"))
}

/// Directories outside a root that belong to it: `math_libs` of the HPC SDK for its CUDA root, `/usr` for Debian's
/// `/usr/lib/cuda`, and on Windows what cuDNN's installer made beside the toolkit's.
pub fn associated_roots(root: &Root, path: &Path) -> Vec<PathBuf> {
    let mut associated = companions(root, path);
    // Debian has these directories for consumers that need a root. They are almost empty, because CUDA is in `/usr`.
    let debian = ["/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"].map(|place| root.locate(place));
    let mut debian = debian.iter().filter(|place| root.is_dir(place));
    if debian.any(|place| root.place(place) == root.place(path)) {
        associated.push(root.locate("/usr"));
    }
    // cuDNN is in `Program Files/NVIDIA/CUDNN/v<version>`. The newest may be for another CUDA major.
    let parent = path.parent();
    if let Some(parent) = parent.filter(|it| it.ends_with("NVIDIA GPU Computing Toolkit/CUDA")) {
        let programs = parent.ancestors().nth(2).unwrap_or(parent);
        associated.extend(versions(root, &programs.join("NVIDIA/CUDNN"), "v"));
    }
    associated
}

/// Whether this is the root of a single NVIDIA package: a Nix output or an archive. Some of these packages contain no
/// component, which is no error.
pub fn is_package(path: &Path) -> bool {
    // The hook of a Nix shell lists all NVIDIA packages of the shell, with or without a component.
    let parent = path.parent();
    parent.is_some_and(|parent| parent.ends_with("nix/store")) || is_archive(path)
}

/// The redistributable archives that are unpacked in a directory, newest first: of several versions of a component, the
/// first is used.
pub fn archives_in(root: &Root, directory: &Path) -> Vec<PathBuf> {
    let names = root.names(directory).into_iter();
    let mut archives: Vec<PathBuf> = names.map(|name| directory.join(name)).collect();
    archives.retain(|path| is_archive(path) && root.is_dir(path));
    let version =
        |path: &PathBuf| -> Option<Version> { path.to_str()?.rsplit('-').nth(1)?.parse().ok() };
    sort_by_key(&mut archives, |path| Reverse(version(path)));
    archives
}

/// Whether this is the directory of an unpacked redistributable archive. NVIDIA publishes one archive for each
/// component, such as `cuda_cudart-linux-x86_64-13.0.96-archive`.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.ends_with("-archive"))
}

/// The first file on `PATH` that has one of these names. In one directory, earlier names are preferred.
pub fn on_path(root: &Root, env: &Env, names: &[&Path]) -> Option<PathBuf> {
    let directories = env.search_path().into_iter();
    let mut paths = directories.flat_map(|it| names.iter().map(move |name| it.join(name)));
    paths.find(|path| root.is_file(path))
}

/// Splits a list of paths at `:` (nixpkgs) and `;` (CMake).
pub fn split_list(value: &OsStr) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for path in std::env::split_paths(value) {
        match path.to_str() {
            Some(text) => paths.extend(text.split(';').map(PathBuf::from)),
            None => paths.push(path),
        }
    }
    paths.retain(|path| !path.as_os_str().is_empty());
    paths
}

/// The directories of math and communication libraries that belong to `cuda`, if `cuda` is in an SDK. It is in an SDK
/// if it is `<sdk>/cuda/<version>`, an unversioned `<sdk>/cuda`, or a link to either.
pub fn companions(root: &Root, cuda: &Path) -> Vec<PathBuf> {
    let companions = companions_of(root, cuda);
    let resolved = || companions_of(root, &root.resolve(cuda));
    companions.or_else(resolved).unwrap_or_default()
}

fn companions_of(root: &Root, cuda: &Path) -> Option<Vec<PathBuf>> {
    let parent = cuda.parent()?;
    let is_cuda = |path: &Path| path.file_name().is_some_and(|name| name == "cuda");
    let (sdk, version) = match cuda.file_name() {
        Some(version) if is_cuda(parent) => (parent.parent()?, Path::new(version)),
        _ if is_cuda(cuda) => (parent, Path::new("")),
        _ => return None,
    };
    if !root.is_dir(&sdk.join("math_libs")) {
        return None;
    }
    let libraries = sdk.join("comm_libs").join(version);
    let mut companions = vec![sdk.join("math_libs").join(version)];
    companions.extend(["nccl", "nvshmem"].map(|name| libraries.join(name)));
    companions.retain(|path| root.is_dir(path));
    (!companions.is_empty()).then_some(companions)
}

/// The directories in `parent` whose name is `prefix` with a version, newest first. Links that lead nowhere count too.
pub fn versions(root: &Root, parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let version = |path: &PathBuf| -> Option<Version> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(prefix)?.parse().ok()
    };
    let names = root.names(parent).into_iter();
    let mut paths: Vec<PathBuf> = names.map(|name| parent.join(name)).collect();
    paths.retain(|path| version(path).is_some() && (root.is_dir(path) || root.is_link(path)));
    sort_by_key(&mut paths, |path| Reverse(version(path)));
    paths
}

/// Whether site-packages contain any CUDA wheel.
pub fn has_cuda(root: &Root, path: &Path) -> bool {
    let mut names: Vec<&str> = Vec::new();
    for component in Component::all() {
        for directory in component.facts().package_dirs() {
            names.extend(directory.split('/').next());
        }
    }
    names.dedup();
    names.iter().any(|name| root.is_dir(&path.join(name)))
}

/// Every existing `lib/python3*/{site,dist}-packages` below a prefix, newest Python first.
pub fn site_packages_of(root: &Root, prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let names = root.names(&lib);
    let python = |name: &str| {
        let rest = name.strip_prefix("python3")?;
        // `lib/python3` without a minor version, which has Debian's dist-packages, comes last.
        let minor: u32 = rest
            .strip_prefix('.')
            .map_or(0, |minor| minor.parse().unwrap_or(0));
        Some((Reverse(minor), lib.join(name)))
    };
    let names = names.iter().filter_map(|name| name.to_str());
    let mut pythons: Vec<_> = names.filter_map(python).collect();
    sort_by_key(&mut pythons, Clone::clone);
    let mut packages = Vec::new();
    for (_, python) in pythons {
        packages.push(python.join("site-packages"));
        packages.push(python.join("dist-packages"));
    }
    // Windows. There, `lib` and `Lib` are the same directory, which has no `python3*`.
    packages.push(prefix.join("Lib/site-packages"));
    packages.retain(|path| root.is_dir(path));
    packages
}

/// Whether there is a product in `/usr`. NVIDIA's packages install cuDNN, NCCL and the like there,
/// but CUDA in `/usr/local`.
pub fn holds_product(root: &Root, target: &Target) -> bool {
    let multiarch = target.multiarch();
    let [include, lib, lib64] = ["/usr/include", "/usr/lib", "/usr/lib64"].map(|p| root.locate(p));
    let headers = [include.join(multiarch), include];
    let libraries = [lib.join(multiarch), lib64, lib];
    let holds =
        |places: &[PathBuf], name: &str| places.iter().any(|place| root.is_file(&place.join(name)));
    let facts = Component::all().map(Component::facts);
    let mut products = facts.filter(|facts| facts.is_product());
    products.any(|facts| {
        let soname = facts.soname(0, NEWEST_MAJOR);
        facts.header.is_some_and(|header| holds(&headers, header))
            || soname.is_some_and(|soname| holds(&libraries, soname))
    })
}

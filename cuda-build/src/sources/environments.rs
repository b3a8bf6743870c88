//! Active environments: conda, a Nix shell, Spack.

use std::path::{Path, PathBuf};

use super::{Candidate, SearchStep, Sources, on_path, python, split_list};
use crate::component::Component;
use crate::env::Env;
use crate::list::sort_by_key;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    propose_conda(root, env, found);
    found.candidates.extend(nix(root, env));
    found.candidates.extend(spack(root, env));
}

/// Proposes the prefix of the active conda environment, and the site-packages below it that contain CUDA wheels.
///
/// conda-forge installs CUDA's headers and libraries in `targets/<platform>`. It also links the libraries into `lib`,
/// beside every other library of the environment.
fn propose_conda(root: &Root, env: &Env, found: &mut Sources) {
    // conda-build has two environments: `PREFIX` has the libraries to link, and `BUILD_PREFIX` has the compilers.
    let (label, variables) = match env.get("CONDA_BUILD") {
        Some(_) => (
            "conda-build (`PREFIX`, `BUILD_PREFIX`)",
            ["PREFIX", "BUILD_PREFIX"].as_slice(),
        ),
        None => (
            "conda environment (`CONDA_PREFIX`)",
            ["CONDA_PREFIX"].as_slice(),
        ),
    };
    let prefixes: Vec<PathBuf> = variables.iter().filter_map(|name| env.path(name)).collect();
    let mut packages: Vec<PathBuf> = Vec::new();
    for prefix in &prefixes {
        packages.extend(python::site_packages_of(root, prefix));
    }
    packages.retain(|path| python::has_cuda(root, path));
    let candidates = &mut found.candidates;
    candidates.extend(Candidate::scattered(
        root,
        SearchStep::Conda,
        label,
        prefixes,
    ));
    for path in packages {
        candidates.push(Candidate::site_packages(SearchStep::Conda, label, path));
    }
}

/// The CUDA packages of a Nix development shell, where each output of each component has a Nix store path of its own.
/// nixpkgs sets `CUDAToolkit_ROOT` only while a derivation is built. In a shell, `NIX_CFLAGS_COMPILE` and `NIX_LDFLAGS`
/// list the outputs, and nvcc is on `PATH`.
fn nix(root: &Root, env: &Env) -> Option<Candidate> {
    let mut outputs: Vec<PathBuf> = Vec::new();
    for variable in ["NIX_CFLAGS_COMPILE", "NIX_LDFLAGS"] {
        for word in env.text(variable).unwrap_or_default().split_whitespace() {
            let path = word
                .strip_prefix("-L")
                .or(word.strip_prefix("-I"))
                .unwrap_or(word);
            // The output is the parent directory: `/nix/store/…-cuda_cudart-12.8.90-dev` of
            // `/nix/store/…-cuda_cudart-12.8.90-dev/include`.
            let output = Path::new(path).parent().filter(|_| path.starts_with('/'));
            let output = output.filter(|output| is_nix_cuda(output) && root.is_dir(output));
            if let Some(output) = output.filter(|output| !outputs.iter().any(|o| o == output)) {
                outputs.push(output.to_owned());
            }
        }
    }
    if outputs.is_empty() {
        return None;
    }
    let nvcc = on_path(root, env, &[Path::new("nvcc")]);
    let prefix = nvcc
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::parent);
    outputs.extend(prefix.map(Path::to_owned));
    let label = "Nix shell (`NIX_CFLAGS_COMPILE`, `NIX_LDFLAGS`)";
    Candidate::scattered(root, SearchStep::Nix, label, outputs)
}

/// Whether a Nix store path is an output of a CUDA component. A shell lists many other store paths.
fn is_nix_cuda(output: &Path) -> bool {
    let name = output.file_name().and_then(|name| name.to_str());
    let Some((_hash, name)) = name.and_then(|name| name.split_once('-')) else {
        return false;
    };
    let facts = Component::all().map(Component::facts);
    let mut known = facts.flat_map(|facts| facts.redist.iter().chain(facts.nix));
    // A name is `cuda_cudart-13.0.96`, or `cuda13.0-cudnn-9.12.0` in newer nixpkgs.
    name.starts_with("cuda") || known.any(|known| name.starts_with(known))
}

/// The view of an active Spack environment, and the prefixes that `spack load` lists.
fn spack(root: &Root, env: &Env) -> Option<Candidate> {
    let view = env
        .path("SPACK_ENV")
        .map(|path| path.join(".spack-env/view"));
    let mut prefixes: Vec<PathBuf> = view.into_iter().collect();
    // `spack load` sets `SPACK_LOADED_HASHES`, and adds the prefixes of the loaded packages to `CMAKE_PREFIX_PATH`.
    if env.get("SPACK_LOADED_HASHES").is_some()
        && let Some(list) = env.get("CMAKE_PREFIX_PATH")
    {
        prefixes.extend(
            split_list(list)
                .into_iter()
                .filter(|path| is_spack_cuda(path)),
        );
    }
    // Prefixes that do not exist are kept, so that they are reported. They come last.
    sort_by_key(&mut prefixes, |path| !root.is_dir(path));
    Candidate::scattered(root, SearchStep::Spack, "Spack", prefixes)
}

/// Whether a prefix belongs to a Spack package with a CUDA component: `…/cuda-12.4.0-<hash>`, or `…/cuda/12.4.0` if
/// Spack is configured to use `{name}/{version}`.
fn is_spack_cuda(prefix: &Path) -> bool {
    let last = prefix.iter().rev().take(2).filter_map(|part| part.to_str());
    let is_package = |name: &str, package: &str| {
        let rest = name.strip_prefix(package);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    last.into_iter().any(|name| {
        let mut packages = Component::all().flat_map(|component| component.facts().spack);
        packages.any(|package| is_package(name, package))
    })
}

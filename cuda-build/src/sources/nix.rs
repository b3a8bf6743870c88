//! A Nix development shell: every output of every component is a store path of its own.
//!
//! nixpkgs sets `CUDAToolkit_ROOT` only while a derivation is built. In a shell the outputs are in
//! what its compiler wrapper reads: `NIX_CFLAGS_COMPILE` and `NIX_LDFLAGS`, and nvcc is on `PATH`.

use std::path::{Path, PathBuf};

use super::{Candidate, Sources, Step};
use crate::component::Component;
use crate::env::Env;
use crate::root::Root;

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    let mut outputs: Vec<PathBuf> = Vec::new();
    for variable in ["NIX_CFLAGS_COMPILE", "NIX_LDFLAGS"] {
        let Some(text) = env.text(variable) else {
            continue;
        };
        for word in text.split_whitespace() {
            let path = word
                .strip_prefix("-L")
                .or_else(|| word.strip_prefix("-I"))
                .unwrap_or(word);
            // `…-cuda_cudart-12.8.90-dev/include` → the output.
            let Some(output) = Path::new(path).parent().filter(|_| path.starts_with('/')) else {
                continue;
            };
            if is_cuda(output)
                && root.is_dir(output)
                && !outputs.iter().any(|known| known == output)
            {
                outputs.push(output.to_owned());
            }
        }
    }
    if outputs.is_empty() {
        return;
    }
    let nvcc = env
        .search_path()
        .into_iter()
        .map(|dir| dir.join("nvcc"))
        .find(|path| root.is_file(path));
    outputs.extend(
        nvcc.as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent)
            .map(Path::to_owned),
    );
    let label = "Nix shell (`NIX_CFLAGS_COMPILE`, `NIX_LDFLAGS`)";
    found
        .candidates
        .extend(Candidate::scattered(root, Step::Nix, label, outputs));
}

/// Whether a store path is one of NVIDIA's components: a shell has many others.
pub(super) fn is_cuda(output: &Path) -> bool {
    let Some(name) = output.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let Some((_hash, name)) = name.split_once('-') else {
        return false;
    };
    // `cuda_cudart-13.0.96`, and `cuda13.0-cudnn-9.12.0` in newer nixpkgs.
    name.starts_with("cuda")
        || Component::all()
            .map(Component::facts)
            .flat_map(|facts| facts.redist.iter().chain(facts.nix))
            .any(|known| name.starts_with(known))
}

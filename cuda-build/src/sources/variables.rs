//! The variables that CUDA's users and packagers set.

use std::path::{Path, PathBuf};

use super::{Candidate, Sources, Step, named, split_list};
use crate::env::Env;
use crate::root::Root;

/// Variables that name the compiler. The root is two levels above it.
const COMPILERS: [&str; 2] = ["NVCC", "CUDACXX"];

/// Variables that name a root, or a list of roots.
const ROOTS: [&str; 6] =
    ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDA_TOOLKIT_PATH"];

/// Variables that name the root of one product.
const PRODUCTS: [&str; 5] = ["CUDNN_PATH", "NCCL_HOME", "CUTENSOR_PATH", "NVSHMEM_HOME", "CUSPARSELT_PATH"];

pub(super) fn propose(root: &Root, env: &Env, found: &mut Sources) {
    let mut roots: Vec<(&str, PathBuf)> = Vec::new();
    for variable in COMPILERS {
        if let Some(value) = env.get(variable) {
            let nvcc = compiler(root, env, Path::new(value));
            let path = root_of(&nvcc);
            push(root, found, Step::Variable, variable, std::slice::from_ref(&path), Some(&nvcc));
            roots.push((variable, path));
        }
    }
    for variable in ROOTS {
        let Some(value) = env.get(variable) else { continue };
        let paths = split_list(value);
        push(root, found, Step::Variable, variable, &paths, None);
        roots.extend(paths.into_iter().map(|path| (variable, path)));
    }
    for variable in PRODUCTS {
        if let Some(path) = env.path(variable) {
            push(root, found, Step::Product, variable, &[path], None);
        }
    }
    remark_disagreement(root, &roots, found);
}

fn push(
    root: &Root,
    found: &mut Sources,
    step: Step,
    variable: &str,
    paths: &[PathBuf],
    nvcc: Option<&PathBuf>,
) {
    let label = format!("environment variable `{variable}`");
    for mut candidate in named(root, step, &label, paths) {
        if !candidate.site_packages {
            candidate.nvcc = nvcc.cloned();
        }
        let known = |c: &Candidate| {
            c.step == step && c.also == candidate.also && root.place(&c.path) == root.place(&candidate.path)
        };
        if !found.candidates.iter().any(known) {
            found.candidates.push(candidate);
        }
    }
}

/// The directory that holds the `bin` that holds a program.
fn root_of(program: &Path) -> PathBuf {
    program.parent().and_then(Path::parent).unwrap_or(program).to_owned()
}

/// A bare name is looked up on `PATH`, as a shell and CMake do.
fn compiler(root: &Root, env: &Env, value: &Path) -> PathBuf {
    if value.components().count() > 1 {
        return value.to_owned();
    }
    let on_path = env.search_path().into_iter().map(|dir| dir.join(value)).find(|p| root.is_file(p));
    on_path.unwrap_or_else(|| value.to_owned())
}

fn remark_disagreement(root: &Root, roots: &[(&str, PathBuf)], found: &mut Sources) {
    let Some((first, path)) = roots.first() else { return };
    for (other, other_path) in &roots[1..] {
        if other != first && root.place(path) != root.place(other_path) {
            found.remarks.push(format!(
                "`{first}` ({}) and `{other}` ({}) name different places; `{first}` is read first",
                path.display(),
                other_path.display()
            ));
        }
    }
}

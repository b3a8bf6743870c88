//! The variables in which unmodified crates, makefiles and CMake projects look for CUDA.
//!
//! They are computed from a view and a list of capabilities. Variables that the user has set are
//! kept.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::{Plan, Toolkit, ToolkitVersion};
use cuda_find_core::{capability::Single, env::Env};

/// A variable with its complete value. A list of directories includes the user's directories.
pub type Variable = (String, OsString);

/// All variables for one toolkit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables to set, in a fixed order.
    pub variables: Vec<Variable>,
    /// Variables that the user has set to another value, each with the user's value.
    pub kept: Vec<Variable>,
    pub notes: Vec<String>,
}

/// The inputs of the variables besides the view and the user's environment.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Whether the view has an nvcc.
    pub has_nvcc: bool,
    pub version: ToolkitVersion,
    /// The host compiler, if nvcc has to be given another one than it would call.
    pub host_compiler: Option<PathBuf>,
    /// The capabilities to build for, if they are known.
    pub plan: Option<&'a Plan>,
    /// The capability for tools that accept only one.
    pub single: Option<&'a Single>,
    /// The value of `CUDARC_CUDA_VERSION`, such as 13040, if cudarc needs it.
    pub cudarc_version: Option<u32>,
    /// Whether everything is built for this machine, so that CMake's default compilers are the right ones.
    pub is_native_cmake: bool,
    /// The directory of the driver's own `libcuda.so`, if it is installed for linking.
    pub driver_link_path: Option<PathBuf>,
    /// The directory of the driver's libraries that programs need on the loader path (NixOS).
    pub driver_loader_path: Option<&'a str>,
}

impl Environment {
    /// The variables for `inputs` and a view at `root`, to be set on top of `env`.
    pub fn new(inputs: &Inputs<'_>, root: &Path, env: &Env) -> Self {
        let mut environment = Self {
            variables: path_lists(inputs, root, env),
            ..Self::default()
        };
        for (name, value) in overridable_variables(inputs, root, env) {
            let Some(user) = env.peek(name).filter(|user| **user != value) else {
                environment.variables.push((name.to_owned(), value));
                continue;
            };
            let (kept, other) = (user.display(), value.display());
            // Only this program understands a list of roots, and CMake in its own variable.
            let is_list = Path::new(&value) == root && user.as_encoded_bytes().contains(&b':');
            if is_list && name != "CUDAToolkit_ROOT" {
                let note = format!(
                    "note: build scripts get {name}={other}, because they may not understand the list {kept}"
                );
                environment.notes.push(note);
                environment.variables.push((name.to_owned(), value));
                continue;
            }
            let note = format!("note: {name} stays as you set it, {kept}, and is not {other}");
            environment.notes.push(note);
            environment.kept.push((name.to_owned(), user.to_owned()));
        }
        environment
    }

    /// The variables that a build may depend on: if one differs, the build needs another target
    /// directory. Lists such as `PATH` are excluded, because they also hold the user's directories.
    pub fn affecting_builds(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        let all = self.variables.iter().chain(&self.kept);
        let all = all.map(|(name, value)| (name.as_str(), value.as_os_str()));
        all.filter(|(name, _)| !is_path_list(name))
    }
}

/// Variables that a value of the user replaces. Several variables have the same value, because each tool reads a
/// different one.
fn overridable_variables(
    inputs: &Inputs<'_>,
    root: &Path,
    env: &Env,
) -> Vec<(&'static str, OsString)> {
    let nvcc = Some(root.join("bin/nvcc").into_os_string()).filter(|_| inputs.has_nvcc);
    let is_cmake_limited = inputs.is_native_cmake && overridden_by_toolchain_file(env).is_none();
    let toolchain = is_cmake_limited.then(|| root.join("cmake/toolchain.cmake").into());
    // Some crates read this variable as a list of roots, others as a list of library directories, so
    // it contains both.
    let libraries = std::env::join_paths([root, &root.join("lib"), &root.join("lib/stubs")]).ok();
    let single = inputs.single.map(|single| single.compute_cap().into());
    let cmake = inputs.plan.map(|plan| OsString::from(plan.cmake()));
    let torch = inputs.plan.map(|plan| plan.torch().into());
    let major = Some(inputs.version.major.to_string().into());
    let cudarc = inputs.cudarc_version.map(|it| it.to_string().into());
    let home = Some(OsString::from(root));
    let host_compiler = inputs.host_compiler.clone().map(PathBuf::into_os_string);
    let [ccbin, cmake_host] = HOST_COMPILER_VARIABLES;
    let values = [
        ("NVCC", nvcc.clone()),
        ("CUDACXX", nvcc),
        (ccbin, host_compiler.clone()),
        (cmake_host, host_compiler),
        ("CUDA_HOME", home.clone()),
        ("CUDA_PATH", home.clone()),
        ("CUDA_ROOT", home.clone()),
        ("CUDA_TOOLKIT_ROOT_DIR", home.clone()),
        ("CUDA_TOOLKIT_PATH", home.clone()),
        ("CUDAToolkit_ROOT", home),
        // Limits the search of CMake 3.21 and newer to the view.
        ("CMAKE_TOOLCHAIN_FILE", toolchain),
        ("CUDA_LIBRARY_PATH", libraries),
        ("CUDA_COMPUTE_CAP", single),
        ("CUDAARCHS", cmake.clone()),
        // For build scripts that pass `CMAKE_*` on.
        ("CMAKE_CUDA_ARCHITECTURES", cmake),
        ("TORCH_CUDA_ARCH_LIST", torch),
        ("ORT_CUDA_VERSION", major),
        ("CUDARC_CUDA_VERSION", cudarc),
    ];
    let is_set = |(name, value): (&'static str, Option<OsString>)| Some((name, value?));
    values.into_iter().filter_map(is_set).collect()
}

/// The variables that name nvcc's host compiler: to nvcc, and to CMake.
pub const HOST_COMPILER_VARIABLES: [&str; 2] = ["NVCC_CCBIN", "CUDAHOSTCXX"];

/// The variables of header packages, such as `CUTLASS_DIR`, unless the user has set one of the same package. They are
/// no part of the key of a target directory, so that the directory stays if the toolkit gains such a package.
pub fn header_packages(toolkit: &Toolkit, root: &Path, env: &Env) -> Vec<Variable> {
    let facts = toolkit.components().iter().map(|it| it.component.facts());
    let mut variables = Vec::new();
    for facts in facts.filter(|facts| facts.is_header_package()) {
        let names = facts.variables.iter();
        if names.clone().all(|name| env.peek(name).is_none()) {
            variables.extend(names.map(|name| ((*name).to_owned(), root.into())));
        }
    }
    variables
}

/// Variables with a list of directories: the user's directories, and directories of the view.
fn path_lists(inputs: &Inputs<'_>, root: &Path, env: &Env) -> Vec<Variable> {
    let (bin, lib, stubs) = (root.join("bin"), root.join("lib"), root.join("lib/stubs"));
    let directories_of_user = |name: &str| -> Vec<PathBuf> {
        let value = env.peek(name).map(std::env::split_paths);
        let directories = value.into_iter().flatten();
        directories.filter(|path| *path != stubs).collect()
    };
    let driver_link = Vec::from_iter(inputs.driver_link_path.clone());
    let driver_loader = Vec::from_iter(inputs.driver_loader_path.map(PathBuf::from));
    // The stubs come last, after every directory that may have the driver's real library.
    let of_user = directories_of_user("LIBRARY_PATH");
    let library_path = [vec![lib.clone()], of_user, driver_link, vec![stubs.clone()]];
    let loader_path = [directories_of_user(LOADER_PATH), vec![lib], driver_loader];
    let lists = [
        ("PATH", [vec![bin], directories_of_user("PATH")].concat()),
        ("LIBRARY_PATH", library_path.concat()),
        (LOADER_PATH, loader_path.concat()),
    ];
    // A list cannot have a path with a colon, which separates the paths.
    let joined = |(name, directories): (&str, Vec<PathBuf>)| {
        Some((name.to_owned(), std::env::join_paths(directories).ok()?))
    };
    lists.into_iter().filter_map(joined).collect()
}

/// The name of a variable that the user has set and that a CMake toolchain file would override.
///
/// If there is a toolchain file, the `cmake` crate leaves the choice of compilers to CMake, which reads only `CC` and
/// `CXX`. Projects use vcpkg's toolchain file only if there is no other.
pub fn overridden_by_toolchain_file(env: &Env) -> Option<String> {
    const PREFIXES: [&str; 5] = ["CC_", "CXX_", "HOST_CC", "HOST_CXX", "VCPKG_ROOT"];
    let (name, _) = env.variables().find(|(name, value)| {
        // `CC` and `CXX` count only if they have arguments, as in `ccache gcc`.
        let has_arguments = value.to_string_lossy().trim().contains(' ');
        let name = name.to_string_lossy();
        let is_overridden = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        !value.is_empty() && (is_overridden || has_arguments && (name == "CC" || name == "CXX"))
    })?;
    Some(name.to_string_lossy().into_owned())
}

pub const LOADER_PATH: &str = "LD_LIBRARY_PATH";

/// Whether a variable is a list to which the view's directories are added.
fn is_path_list(name: &str) -> bool {
    ["PATH", "LIBRARY_PATH", LOADER_PATH].contains(&name)
}

/// The value of `CUDARC_CUDA_VERSION`: the newest release of the toolkit's major that cudarc knows
/// and that is not newer than the toolkit. cudarc fails on a release that it does not know. An
/// older release works, because releases of one major only add to the interface.
///
/// `known` are the numbers in cudarc's feature names (`cuda-13040`), so that this program needs no table of the
/// releases that each cudarc knows.
pub fn cudarc_version(known: &[u32], toolkit: ToolkitVersion) -> Option<u32> {
    let newest = toolkit.cuda_version();
    let is_usable = |release: &u32| *release <= newest && release / 1000 == newest / 1000;
    known.iter().copied().filter(is_usable).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cudarc_gets_the_newest_release_that_it_knows() {
        for (known, minor, expected) in [
            (&[12090, 13030, 13040][..], 5, Some(13040)),
            (&[12090, 13030, 13040], 3, Some(13030)),
            (&[12090], 3, None),
        ] {
            let toolkit = ToolkitVersion::new(13, minor);
            assert_eq!(cudarc_version(known, toolkit), expected);
        }
    }
}

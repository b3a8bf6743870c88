//! The variables in which unmodified crates, makefiles and CMake projects look for CUDA.
//!
//! A pure function of a view and a list of capabilities, with the meaning of each variable. What
//! the user has set stays.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::internal::Env;
use cuda_build::internal::capability::Single;
use cuda_build::{Plan, ToolkitVersion};

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its whole value.
    pub value: OsString,
    /// Who reads it, and for what.
    pub meaning: &'static str,
}

/// A variable that the user has set to something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The user's value, which stays.
    pub value: OsString,
    /// The value that it would have had.
    pub instead_of: OsString,
}

/// All variables for one toolkit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What is set, in a fixed order.
    pub settings: Vec<Setting>,
    /// What is left as the user has it.
    pub kept: Vec<Kept>,
}

/// What the variables follow from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The root of the view.
    pub root: &'a Path,
    /// Whether the view has an nvcc.
    pub nvcc: bool,
    /// The CUDA release.
    pub version: ToolkitVersion,
    /// The capabilities to build for, if they are known.
    pub plan: Option<&'a Plan>,
    /// The one capability for consumers that take one.
    pub single: Option<&'a Single>,
    /// `CUDARC_CUDA_VERSION`, as in 13040, if cudarc needs it.
    pub cudarc: Option<u32>,
    /// The Rust triple, if it is this machine's own.
    pub native: Option<&'a str>,
    /// The Rust triple, if it is another machine's.
    pub cross: Option<&'a str>,
    /// The directory of the driver's own `libcuda.so`, if there is one to link with.
    pub driver: Option<&'a Path>,
    /// The directory of the driver's libraries that programs need on the loader path (NixOS).
    pub loaded_driver: Option<&'a str>,
}

/// The variables that name a root. No consumer reads all of them, and for each there is a consumer
/// that reads no other.
const ROOTS: [(&str, &str); 6] = [
    (
        "CUDA_HOME",
        "root of the toolkit: Python's extensions, cudarc, many makefiles",
    ),
    (
        "CUDA_PATH",
        "root of the toolkit: NVIDIA's samples, bindgen_cuda, find_cuda_helper",
    ),
    ("CUDA_ROOT", "root of the toolkit: cudarc, find_cuda_helper"),
    (
        "CUDA_TOOLKIT_ROOT_DIR",
        "root of the toolkit: CMake's old FindCUDA, find_cuda_helper",
    ),
    (
        "CUDA_TOOLKIT_PATH",
        "root of the toolkit: cuda-bindings, Bazel",
    ),
    (
        "CUDAToolkit_ROOT",
        "root of the toolkit: CMake's FindCUDAToolkit",
    ),
];

impl Environment {
    /// The variables for `inputs`, on top of what the user has set.
    #[must_use]
    pub fn new(inputs: &Inputs<'_>, env: &Env) -> Self {
        let mut environment = Self::default();
        let root = inputs.root;
        let (lib, stubs) = (root.join("lib"), root.join("lib/stubs"));
        environment.list(
            "PATH",
            [root.join("bin")].into_iter().chain(paths(env, "PATH")),
            "nvcc and its tools",
        );
        if inputs.nvcc {
            let nvcc = root.join("bin/nvcc");
            environment.set(
                env,
                "NVCC",
                &nvcc,
                "the compiler: the cc crate, cudaforge, makefiles",
            );
            environment.set(env, "CUDACXX", &nvcc, "the compiler: CMake");
        }
        for (name, meaning) in ROOTS {
            environment.set(env, name, root, meaning);
        }
        if let Some(triple) = inputs.native
            && overridden_by_toolchain_file(env, triple).is_none()
        {
            environment.set(
                env,
                "CMAKE_TOOLCHAIN_FILE",
                root.join("cmake/toolchain.cmake"),
                "a search that ends in the view: CMake 3.21 and newer, the cmake crate",
            );
        }
        // Some read it as a list of roots, others as a list of library directories.
        if let Ok(joined) = std::env::join_paths([root, &lib, &stubs]) {
            environment.set(
                env,
                "CUDA_LIBRARY_PATH",
                &joined,
                "roots and library directories: find_cuda_helper, cuda-sys",
            );
        }
        // The stub replaces the driver's library, so it comes after every directory that may have
        // the real one.
        let search = [lib.clone()]
            .into_iter()
            .chain(paths(env, "LIBRARY_PATH"))
            .chain(inputs.driver.map(Path::to_owned))
            .chain([stubs.clone()]);
        environment.list(
            "LIBRARY_PATH",
            search,
            "where the linker looks: `-lcudart` without a search path",
        );
        environment
            .settings
            .extend(pkg_config(root, inputs.cross, env));
        // rustup adds its toolchain for what cargo starts; a shell has no use for that.
        let toolchain = env
            .peek("RUSTUP_TOOLCHAIN")
            .map(|name| Path::new("toolchains").join(name).join("lib"));
        let is_toolchain = |directory: &Path| {
            toolchain
                .as_ref()
                .is_some_and(|toolchain| directory.ends_with(toolchain))
        };
        let loaded = paths(env, LOADER_PATH)
            .chain([lib])
            .chain(inputs.loaded_driver.map(PathBuf::from))
            .filter(|directory| *directory != stubs && !is_toolchain(directory));
        environment.list(
            LOADER_PATH,
            loaded,
            "where programs that are run find CUDA's libraries",
        );
        environment.capabilities(inputs, env);
        let major = inputs.version.major.to_string();
        environment.set(env, "ORT_CUDA_VERSION", &major, "the CUDA major: ort");
        if let Some(version) = inputs.cudarc {
            environment.set(
                env,
                "CUDARC_CUDA_VERSION",
                version.to_string(),
                "the newest CUDA release that cudarc knows",
            );
        }
        environment
    }

    fn capabilities(&mut self, inputs: &Inputs<'_>, env: &Env) {
        if let Some(single) = inputs.single {
            let meaning = "one capability: cudaforge, bindgen_cuda";
            self.set(env, "CUDA_COMPUTE_CAP", single.compute_cap(), meaning);
        }
        if let Some(plan) = inputs.plan {
            self.set(env, "CUDAARCHS", plan.cmake(), "capabilities: CMake");
            let meaning = "capabilities: build scripts that hand CMAKE_* on to CMake";
            self.set(env, "CMAKE_CUDA_ARCHITECTURES", plan.cmake(), meaning);
            self.set(
                env,
                "TORCH_CUDA_ARCH_LIST",
                plan.torch(),
                "capabilities: extensions of PyTorch",
            );
        }
    }

    /// Sets what the user has not set.
    fn set(&mut self, env: &Env, name: &str, value: impl AsRef<OsStr>, meaning: &'static str) {
        let value = value.as_ref().to_owned();
        match env.peek(name) {
            Some(own) if own != value => {
                self.kept.push(Kept {
                    name: name.to_owned(),
                    value: own.to_owned(),
                    instead_of: value,
                });
            }
            _ => self.settings.push(Setting {
                name: name.to_owned(),
                value,
                meaning,
            }),
        }
    }

    fn list(
        &mut self,
        name: &str,
        directories: impl Iterator<Item = PathBuf>,
        meaning: &'static str,
    ) {
        self.settings.extend(list(name, directories, meaning));
    }

    /// Everything that a build can depend on, besides lists of directories that hold more than
    /// the view's: if it differs, the build belongs into another directory.
    pub fn decisive(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        let settings = self
            .settings
            .iter()
            .map(|setting| (setting.name.as_str(), setting.value.as_os_str()));
        let kept = self
            .kept
            .iter()
            .map(|kept| (kept.name.as_str(), kept.value.as_os_str()));
        settings.chain(kept).filter(|(name, _)| !is_path_list(name))
    }

    /// A sentence for each variable that stays as the user has set it.
    pub fn conflicts(&self) -> impl Iterator<Item = String> {
        self.kept.iter().map(|kept| {
            format!(
                "note: {} stays as you set it, {}, and is not {}",
                kept.name,
                kept.value.display(),
                kept.instead_of.display()
            )
        })
    }
}

/// The variable by which the user has chosen what a toolchain file would take away.
///
/// If there is a toolchain file, the `cmake` crate leaves the choice of compilers to CMake, which
/// reads `CC` and `CXX` and no other variable; and projects use vcpkg's file only if there is none.
#[must_use]
pub fn overridden_by_toolchain_file(env: &Env, triple: &str) -> Option<String> {
    let underscored = triple.replace('-', "_");
    let compilers = ["CC", "CXX"].into_iter().flat_map(|kind| {
        [
            format!("{kind}_{triple}"),
            format!("{kind}_{underscored}"),
            format!("HOST_{kind}"),
        ]
    });
    let mut names = compilers.chain(["VCPKG_ROOT".to_owned()]);
    let wrapped = |name: &&str| {
        env.peek(name)
            .is_some_and(|own| own.to_string_lossy().trim().contains(' '))
    };
    names.find(|name| env.peek(name).is_some()).or_else(|| {
        ["CC", "CXX"]
            .iter()
            .find(|name| wrapped(name))
            .map(|name| (*name).to_owned())
    })
}

/// The loader's list of directories.
pub const LOADER_PATH: &str = "LD_LIBRARY_PATH";

/// pkg-config's list of directories.
const PKG_CONFIG: &str = "PKG_CONFIG_PATH";

/// Whether a variable is a list of directories that holds more than the view's.
#[must_use]
pub fn is_path_list(name: &str) -> bool {
    ["PATH", "LIBRARY_PATH", LOADER_PATH].contains(&name) || name.starts_with(PKG_CONFIG)
}

/// The directories in a variable.
fn paths<'a>(env: &'a Env, name: &str) -> impl Iterator<Item = PathBuf> + 'a {
    env.peek(name)
        .map(std::env::split_paths)
        .into_iter()
        .flatten()
}

/// Where pkg-config looks first. For another machine the `pkg-config` crate reads the first of
/// these variables that is set, and no other.
fn pkg_config(root: &Path, cross: Option<&str>, env: &Env) -> Option<Setting> {
    let names = match cross {
        None => vec![PKG_CONFIG.to_owned()],
        Some(triple) => vec![
            format!("{PKG_CONFIG}_{}", triple.replace('-', "_")),
            format!("{PKG_CONFIG}_{triple}"),
            format!("TARGET_{PKG_CONFIG}"),
            PKG_CONFIG.to_owned(),
        ],
    };
    let own = names.iter().find(|name| env.peek(name).is_some());
    let own = own.map(|name| paths(env, name)).into_iter().flatten();
    let directories = [root.join("lib").join("pkgconfig")].into_iter().chain(own);
    list(
        &names[0],
        directories,
        "where pkg-config finds CUDA's libraries",
    )
}

fn list(
    name: &str,
    directories: impl Iterator<Item = PathBuf>,
    meaning: &'static str,
) -> Option<Setting> {
    joined(directories).map(|value| Setting {
        name: name.to_owned(),
        value,
        meaning,
    })
}

/// The value of a list of directories, each once; `None` if it is empty. A path with a colon cannot
/// be in a list and is left out.
fn joined(directories: impl IntoIterator<Item = PathBuf>) -> Option<OsString> {
    let mut seen = BTreeSet::new();
    let once = directories
        .into_iter()
        .filter(|d| !d.as_os_str().is_empty() && seen.insert(d.clone()));
    let value = std::env::join_paths(once.filter(|d| !d.to_string_lossy().contains(':')))
        .unwrap_or_default();
    (!value.is_empty()).then_some(value)
}

/// The value of `CUDARC_CUDA_VERSION`: the newest release that cudarc knows and that is not newer
/// than the toolkit. cudarc fails on a release that came after it, and an older one is fine because
/// releases of one major only add to the interface.
///
/// `known` are the numbers in its features (`cuda-13040`), so that no table here has to follow
/// cudarc's releases.
///
/// ```
/// use cargo_cuda::environment::cudarc_version;
/// use cuda_build::ToolkitVersion;
/// assert_eq!(cudarc_version(&[12090, 13030, 13040], ToolkitVersion::new(13, 5)), Some(13040));
/// assert_eq!(cudarc_version(&[12090, 13030, 13040], ToolkitVersion::new(13, 3)), Some(13030));
/// assert_eq!(cudarc_version(&[12090], ToolkitVersion::new(13, 3)), None);
/// ```
#[must_use]
pub fn cudarc_version(known: &[u32], found: ToolkitVersion) -> Option<u32> {
    let found = found.cuda_version();
    known
        .iter()
        .copied()
        .filter(|known| *known <= found && known / 1000 == found / 1000)
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_reads_one_variable_and_looks_in_the_view_first() {
        let variable = |cross, pairs: &[(&str, &str)]| {
            let setting = pkg_config(
                Path::new("/v"),
                cross,
                &Env::from_pairs(pairs.iter().copied()),
            )
            .unwrap();
            (setting.name, setting.value.into_string().unwrap())
        };
        let own = (
            "PKG_CONFIG_PATH".to_owned(),
            "/v/lib/pkgconfig:/own".to_owned(),
        );
        assert_eq!(variable(None, &[("PKG_CONFIG_PATH", "/own")]), own);
        let arm = Some("aarch64-unknown-linux-gnu");
        let name = "PKG_CONFIG_PATH_aarch64_unknown_linux_gnu";
        let cross = |value: &str| (name.to_owned(), format!("/v/lib/pkgconfig{value}"));
        assert_eq!(variable(arm, &[]), cross(""));
        assert_eq!(
            variable(arm, &[("PKG_CONFIG_PATH", "/own")]),
            cross(":/own")
        );
        assert_eq!(
            variable(arm, &[("PKG_CONFIG_PATH", "/own"), (name, "/arm")]),
            cross(":/arm")
        );
        assert!(is_path_list(name));
    }

    #[test]
    fn a_name_that_no_list_can_hold_takes_nothing_from_the_others() {
        let all = |names: &[&str]| joined(names.iter().map(PathBuf::from));
        assert_eq!(all(&["/a", "/b:c", "", "/d", "/a"]).unwrap(), "/a:/d");
        assert_eq!(all(&["/b:c"]), None);
    }
}

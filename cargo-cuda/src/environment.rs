//! What crates, makefiles and CMake projects that nobody changed want to find in the environment.
//!
//! A pure function of a view and a list of capabilities, in one place, with the meaning of each
//! variable. What the user has set stays.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::capability::Single;
use cuda_build::{Env, Plan, ToolkitVersion, View};

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

/// A variable of the user's that says something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The user's value, which stays.
    pub value: OsString,
    /// What it would have been.
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
    /// The toolkit as one root.
    pub view: &'a View,
    /// Its release.
    pub version: ToolkitVersion,
    /// What is built for; `None` where nothing says.
    pub plan: Option<&'a Plan>,
    /// The one capability for those who take one.
    pub single: Option<&'a Single>,
    /// What cudarc is told, as in 13040; `None` where no cudarc asks.
    pub cudarc: Option<u32>,
    /// The Rust triple that is built for, where it is this machine's own and nothing but
    /// variables says which compilers C code gets.
    pub native: Option<&'a str>,
    /// The Rust triple that is built for, where it is another machine's.
    pub cross: Option<&'a str>,
    /// Directory of the driver's own `libcuda.so`, where there is one to link with.
    pub driver: Option<&'a Path>,
    /// Directories of shared libraries, for programs that are run.
    pub libraries: &'a [PathBuf],
}

/// What names a root. Nobody reads all of them, and each is all that somebody reads.
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
        let root = inputs.view.root();
        let (lib, stubs) = (inputs.view.lib(), inputs.view.stubs());
        let own = |name| {
            env.peek(name)
                .map(std::env::split_paths)
                .into_iter()
                .flatten()
        };
        environment.list(
            "PATH",
            [root.join("bin")].into_iter().chain(own("PATH")),
            "nvcc and its tools",
        );
        if let Some(nvcc) = inputs.view.nvcc() {
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
        environment.cmake(inputs, env);
        // Roots for some, directories of libraries for others.
        let both = [root.to_owned(), lib, stubs.clone()];
        if let Ok(joined) = std::env::join_paths(both) {
            environment.set(
                env,
                "CUDA_LIBRARY_PATH",
                &joined,
                "roots and library directories: find_cuda_helper, cuda-sys",
            );
        }
        environment
            .settings
            .extend(linker(inputs.view, inputs.driver, env));
        environment
            .settings
            .extend(pkg_config(root, inputs.cross, env));
        // rustup puts its toolchain there for what cargo starts; a shell has no use for that.
        let toolchain = env
            .peek("RUSTUP_TOOLCHAIN")
            .map(|name| Path::new("toolchains").join(name).join("lib"));
        let rustups = |d: &PathBuf| {
            toolchain
                .as_ref()
                .is_some_and(|toolchain| d.ends_with(toolchain))
        };
        let loaded = own("LD_LIBRARY_PATH").chain(inputs.libraries.iter().cloned());
        let loaded = loaded.filter(|d| *d != stubs && !rustups(d));
        environment.list(
            "LD_LIBRARY_PATH",
            loaded,
            "where programs that are run find CUDA's libraries",
        );
        environment.capabilities(inputs, env);
        let major = inputs.version.major.to_string();
        environment.set(env, "ORT_CUDA_VERSION", &major, "the CUDA major: ort");
        if let Some(version) = inputs.cudarc {
            let version = version.to_string();
            environment.set(
                env,
                "CUDARC_CUDA_VERSION",
                &version,
                "the newest CUDA release that cudarc knows",
            );
        }
        environment
    }

    /// What CMake is told besides the root: projects that nobody changed search past it else.
    fn cmake(&mut self, inputs: &Inputs<'_>, env: &Env) {
        if let Some(package) = inputs.view.cmake_components() {
            let meaning = "components where they are: CMake's find_package(CUDAComponents)";
            self.set(env, "CUDAComponents_DIR", package, meaning);
        }
        if inputs
            .native
            .is_some_and(|triple| Self::overridden_by_toolchain_file(env, triple).is_none())
        {
            let meaning = "a search that ends in the view: CMake 3.21 and newer, the cmake crate";
            self.set(
                env,
                "CMAKE_TOOLCHAIN_FILE",
                inputs.view.cmake_toolchain(),
                meaning,
            );
        }
    }

    /// The variable by which the user has chosen what a toolchain file would take away.
    ///
    /// With one the `cmake` crate leaves the choice of compilers to CMake, which chooses the same where
    /// `CC` or nothing says, and no other; and projects take vcpkg's only where there is none.
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

    /// The value of a variable, the user's where that stays.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let own = self
            .settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|s| s.value.as_os_str());
        own.or_else(|| {
            self.kept
                .iter()
                .find(|kept| kept.name == name)
                .map(|k| k.value.as_os_str())
        })
    }

    /// Everything that a build can depend on, besides lists of directories that hold more than
    /// ours: what has to be another directory of Cargo's where it differs.
    pub fn decisive(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        let settings = self
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_os_str()));
        let kept = self
            .kept
            .iter()
            .map(|k| (k.name.as_str(), k.value.as_os_str()));
        settings.chain(kept).filter(|(name, _)| !is_path_list(name))
    }

    /// A sentence for each variable that stays as the user has it.
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

/// pkg-config's list of directories.
const PKG_CONFIG: &str = "PKG_CONFIG_PATH";

/// Whether a variable is a list of directories that holds more than ours.
#[must_use]
pub fn is_path_list(name: &str) -> bool {
    ["PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH"].contains(&name) || name.starts_with(PKG_CONFIG)
}

/// The variable for the linker alone, which Cargo does not track.
#[must_use]
pub fn linker(view: &View, driver: Option<&Path>, env: &Env) -> Option<Setting> {
    let own = env
        .peek("LIBRARY_PATH")
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    // The stub stands in for the driver, so it comes after every place that may have the driver.
    let search = [view.lib()]
        .into_iter()
        .chain(own)
        .chain(driver.map(Path::to_owned))
        .chain([view.stubs()]);
    list(
        "LIBRARY_PATH",
        search,
        "where the linker looks: `-lcudart` without a search path",
    )
}

/// Where pkg-config looks first. For another machine the `pkg-config` crate reads a variable of that
/// machine's, and then none of the others.
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
    let own = names
        .iter()
        .find_map(|name| env.peek(name))
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
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

/// The value of a list of directories, each once; `None` for none. A name that no list can hold is
/// left out of it: what is set is what the others are found by.
#[must_use]
pub fn joined(directories: impl IntoIterator<Item = PathBuf>) -> Option<OsString> {
    let mut seen = BTreeSet::new();
    let once = directories
        .into_iter()
        .filter(|d| !d.as_os_str().is_empty() && seen.insert(d.clone()));
    let value = std::env::join_paths(once.filter(|d| !d.to_string_lossy().contains(':')))
        .unwrap_or_default();
    (!value.is_empty()).then_some(value)
}

/// What cudarc is told: the newest release among those it knows that is not newer than the
/// toolkit. It stops at a release that came after it, and one that is older will do: releases of a
/// major only add to the interface.
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

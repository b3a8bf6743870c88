//! The variables in which unmodified crates, makefiles and CMake projects look for CUDA.
//!
//! They are computed from a view and a list of capabilities. Variables that the user has set are
//! kept.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::internal::Env;
use cuda_build::internal::capability::Single;
use cuda_build::{Plan, ToolkitVersion};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    /// The complete value. A list of directories includes the user's directories.
    pub value: OsString,
    /// What the variable contains, and which tools read it.
    pub meaning: &'static str,
}

impl Setting {
    pub fn new(name: &str, value: impl Into<OsString>, meaning: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            meaning,
        }
    }
}

/// All variables for one toolkit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables to set, in a fixed order.
    pub settings: Vec<Setting>,
    /// Variables that the user has set to another value, each with the user's value.
    pub kept: Vec<(String, OsString)>,
    pub notes: Vec<String>,
}

/// What the variables depend on, besides the view and the user's environment.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Whether the view has an nvcc.
    pub nvcc: bool,
    pub version: ToolkitVersion,
    /// The capabilities to build for, if they are known.
    pub plan: Option<&'a Plan>,
    /// The capability for tools that accept only one.
    pub single: Option<&'a Single>,
    /// The value of `CUDARC_CUDA_VERSION`, such as 13040, if cudarc needs it.
    pub cudarc: Option<u32>,
    /// The Rust triple, if everything is built for this machine, so that CMake's default compilers
    /// are the right ones.
    pub native_cmake: Option<&'a str>,
    /// The Rust triple, if this is a cross build.
    pub cross: Option<&'a str>,
    /// The directory of the driver's own `libcuda.so`, if it is installed for linking.
    pub driver_link_path: Option<PathBuf>,
    /// The directory of the driver's libraries that programs need on the loader path (NixOS).
    pub driver_loader_path: Option<&'a str>,
}

/// The variables that name a root. All of them are set, because different tools read different
/// variables.
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
    /// The variables for `inputs` and a view at `root`, to be set on top of `env`.
    pub fn new(inputs: &Inputs<'_>, root: &Path, env: &Env) -> Self {
        let mut environment = Self {
            settings: lists(inputs, root, env),
            ..Self::default()
        };
        for setting in values(inputs, root, env) {
            match env.peek(&setting.name) {
                Some(own) if own != setting.value => environment.keep(setting, own),
                _ => environment.settings.push(setting),
            }
        }
        environment
    }

    fn keep(&mut self, Setting { name, value, .. }: Setting, own: &OsStr) {
        self.notes.push(format!(
            "note: {name} stays as you set it, {}, and is not {}",
            own.display(),
            value.display()
        ));
        self.kept.push((name, own.to_owned()));
    }

    /// The variables that a build may depend on: if one differs, the build needs another target
    /// directory. Lists such as `PATH` are excluded, because they also hold the user's directories.
    pub fn affecting_builds(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        let settings = self.settings.iter().map(|s| (s.name.as_str(), &*s.value));
        let kept = self.kept.iter().map(|(name, value)| (&**name, &**value));
        settings.chain(kept).filter(|(name, _)| !is_path_list(name))
    }
}

/// Variables for which the user's value, if there is one, is kept instead.
fn values(inputs: &Inputs<'_>, root: &Path, env: &Env) -> Vec<Setting> {
    let mut values = Vec::new();
    let mut set = |name: &str, value: OsString, meaning: &'static str| {
        values.push(Setting::new(name, value, meaning));
    };
    if inputs.nvcc {
        let nvcc = root.join("bin/nvcc");
        let meaning = "the compiler: the cc crate, cudaforge, makefiles";
        set("NVCC", nvcc.clone().into(), meaning);
        set("CUDACXX", nvcc.into(), "the compiler: CMake");
    }
    for (name, meaning) in ROOTS {
        set(name, root.into(), meaning);
    }
    if let Some(triple) = inputs.native_cmake
        && overridden_by_toolchain_file(env, triple).is_none()
    {
        set(
            "CMAKE_TOOLCHAIN_FILE",
            root.join("cmake/toolchain.cmake").into(),
            "limits the search to the view: CMake 3.21 and newer, the cmake crate",
        );
    }
    // Some crates read this variable as a list of roots, others as a list of library directories, so
    // it contains both.
    if let Ok(joined) = std::env::join_paths([root, &root.join("lib"), &root.join("lib/stubs")]) {
        let meaning = "roots and library directories: find_cuda_helper, cuda-sys";
        set("CUDA_LIBRARY_PATH", joined, meaning);
    }
    if let Some(single) = inputs.single {
        let meaning = "a single capability: cudaforge, bindgen_cuda";
        set("CUDA_COMPUTE_CAP", single.compute_cap().into(), meaning);
    }
    if let Some(plan) = inputs.plan {
        set("CUDAARCHS", plan.cmake().into(), "capabilities: CMake");
        let meaning = "capabilities: build scripts that pass CMAKE_* on to CMake";
        set("CMAKE_CUDA_ARCHITECTURES", plan.cmake().into(), meaning);
        let meaning = "capabilities: extensions of PyTorch";
        set("TORCH_CUDA_ARCH_LIST", plan.torch().into(), meaning);
    }
    let major = inputs.version.major.to_string();
    set("ORT_CUDA_VERSION", major.into(), "the CUDA major: ort");
    if let Some(version) = inputs.cudarc {
        let meaning = "the newest CUDA release that cudarc knows";
        set("CUDARC_CUDA_VERSION", version.to_string().into(), meaning);
    }
    values
}

/// Lists of directories: the user's directories, and those of the view.
fn lists(inputs: &Inputs<'_>, root: &Path, env: &Env) -> Vec<Setting> {
    let (lib, stubs) = (root.join("lib"), root.join("lib/stubs"));
    // rustup adds its toolchain's `lib` to the loader path of programs that cargo starts. It is left
    // out here, because a shell does not need it.
    let toolchain = env
        .peek("RUSTUP_TOOLCHAIN")
        .map(|name| Path::new("toolchains").join(name).join("lib"));
    let is_toolchain =
        |directory: &Path| toolchain.as_ref().is_some_and(|t| directory.ends_with(t));
    let lists = [
        list(
            "PATH",
            [root.join("bin")].into_iter().chain(paths(env, "PATH")),
            "nvcc and its tools",
        ),
        // The stubs come last, after every directory that may have the driver's real library.
        list(
            "LIBRARY_PATH",
            [lib.clone()]
                .into_iter()
                .chain(paths(env, "LIBRARY_PATH"))
                .chain(inputs.driver_link_path.clone())
                .chain([stubs.clone()]),
            "where the linker searches: `-lcudart` without `-L`",
        ),
        pkg_config(root, inputs.cross, env),
        list(
            LOADER_PATH,
            paths(env, LOADER_PATH)
                .chain([lib])
                .chain(inputs.driver_loader_path.map(PathBuf::from))
                .filter(|directory| *directory != stubs && !is_toolchain(directory)),
            "where running programs find CUDA's libraries",
        ),
    ];
    lists.into_iter().flatten().collect()
}

/// The name of a variable that the user has set and that a CMake toolchain file would override.
///
/// If there is a toolchain file, the `cmake` crate leaves the choice of compilers to CMake, which
/// reads only `CC` and `CXX`. And projects use vcpkg's toolchain file only if there is no other.
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
    // `CC` and `CXX` count only if they have arguments, as in `ccache gcc`.
    let has_arguments = |name: &&str| {
        env.peek(name)
            .is_some_and(|own| own.to_string_lossy().trim().contains(' '))
    };
    names.find(|name| env.peek(name).is_some()).or_else(|| {
        ["CC", "CXX"]
            .into_iter()
            .find(has_arguments)
            .map(String::from)
    })
}

pub const LOADER_PATH: &str = "LD_LIBRARY_PATH";

const PKG_CONFIG: &str = "PKG_CONFIG_PATH";

/// Whether a variable is a list to which the view's directories are added.
pub fn is_path_list(name: &str) -> bool {
    ["PATH", "LIBRARY_PATH", LOADER_PATH].contains(&name) || name.starts_with(PKG_CONFIG)
}

fn paths<'a>(env: &'a Env, name: &str) -> impl Iterator<Item = PathBuf> + 'a {
    let value = env.peek(name).map(std::env::split_paths);
    value.into_iter().flatten()
}

/// The variable with the directories that pkg-config searches first. In a cross build, there are four
/// variables, and the `pkg-config` crate reads only the first that is set.
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
    let meaning = "where pkg-config finds CUDA's libraries";
    list(&names[0], directories, meaning)
}

/// A variable with a list of directories without duplicates; `None` if the list is empty. A path with
/// a colon is left out, because the colon separates the paths.
fn list(
    name: &str,
    directories: impl IntoIterator<Item = PathBuf>,
    meaning: &'static str,
) -> Option<Setting> {
    let mut seen = BTreeSet::new();
    let fits = |d: &PathBuf| !d.as_os_str().is_empty() && !d.to_string_lossy().contains(':');
    let once = directories
        .into_iter()
        .filter(|directory| fits(directory) && seen.insert(directory.clone()));
    let value = std::env::join_paths(once).unwrap_or_default();
    (!value.is_empty()).then(|| Setting::new(name, value, meaning))
}

/// The value of `CUDARC_CUDA_VERSION`: the newest release of the toolkit's major that cudarc knows
/// and that is not newer than the toolkit. cudarc fails on a release that it does not know. An
/// older release works, because releases of one major only add to the interface.
///
/// `known` are the numbers in cudarc's feature names (`cuda-13040`). So this program needs no table
/// of the releases that each cudarc knows.
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
        let all = |names: &[&str]| Some(list("X", names.iter().map(PathBuf::from), "")?.value);
        assert_eq!(all(&["/a", "/b:c", "", "/d", "/a"]).unwrap(), "/a:/d");
        assert_eq!(all(&["/b:c"]), None);
    }
}

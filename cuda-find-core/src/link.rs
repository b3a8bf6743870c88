//! Makes the directives that link the declared components of a crate.

use std::path::{Path, PathBuf};

use crate::component::{Component, windows};
use crate::directive::{Directive, Directives};
use crate::found::Found;
use crate::root::Root;
use crate::toolkit::Toolkit;

/// How the CUDA runtime is linked.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Cudart {
    /// `libcudart_static.a`, nvcc's own default.
    #[default]
    Static,
    /// `libcudart.so.<major>`.
    Shared,
}

impl Cudart {
    /// The value that a manifest uses for this variant.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Shared => "shared",
        }
    }
}

/// Adds directives that link `components`. `cudart` selects the static or the shared runtime.
///
/// Shared libraries are linked by their file name (`+verbatim`), because wheels contain
/// `libcudart.so.13` and no `libcudart.so`. These libraries are outside Cargo's target directory, so
/// Cargo does not add their directory to the loader path of the programs that it runs; `cargo cuda run` does.
///
/// On Windows, the linker reads an import library (`cublas.lib`) instead of a shared library, and also instead of a
/// stub.
///
/// For the driver's libraries, the linker reads the stubs in the directory `stubs`. This directory must not be
/// on any loader path, because a stub contains no code.
pub fn directives(
    toolkit: &Toolkit,
    components: &[Component],
    cudart: Cudart,
    stubs: Option<&Path>,
    into: &mut Directives,
) {
    for component in components {
        if (*component, cudart) == (Component::Cudart, Cudart::Static) {
            link_static_cudart(toolkit, into);
            continue;
        }
        let is_linked = shared_library(toolkit, *component, None, into);
        if component.facts().is_driver() && !is_linked {
            // At run time, the loader finds the real library in its default directories; on NixOS,
            // `add_nixos_driver_rpath` is needed.
            if let Some(stubs) = stubs {
                into.push(Directive::LinkSearch(stubs.to_owned()));
            }
            into.link("dylib", component.facts().libraries[0]);
        }
    }
}

/// The stub of a library of the driver (`cuda`, `nvidia-ml`) that is shipped with these components. It is in the
/// directory `stubs` beside their libraries.
pub fn shipped_stub<'f>(
    root: &Root,
    found: impl Iterator<Item = &'f Found> + Clone,
    library: &str,
) -> Option<PathBuf> {
    let files = (found.clone()).flat_map(|found| found.libraries.iter().chain(&found.archives));
    let beside = files.filter_map(|file| file.parent()).map(Path::to_owned);
    // Packages of headers may have no library.
    let siblings = found.flat_map(|found| &found.include);
    let siblings = siblings.flat_map(|include| ["../lib", "../lib64"].map(|it| include.join(it)));
    let name = format!("stubs/lib{library}.so");
    let mut stubs = beside
        .chain(siblings)
        .map(|directory| directory.join(&name));
    stubs.find(|path| root.exists(path))
}

/// The directory of the driver's libraries on NixOS; `None` on other systems.
///
/// Programs need this directory in their run-time search path, because the loader does not search it by
/// default. In nixpkgs, `addDriverRunpath` adds it to the programs of a package.
pub fn nixos_driver_directory(root: &Root) -> Option<&'static str> {
    root.is_file(&root.locate("/etc/NIXOS"))
        .then_some("/run/opengl-driver/lib")
}

/// On NixOS, adds the driver's directory to the run-time search path of programs. A package with a `cdylib` does not
/// get it, because native modules are `cdylib`s and their wheels are installed on other machines.
pub fn add_nixos_driver_rpath(root: &Root, has_cdylib: bool, into: &mut Directives) {
    if let Some(place) = nixos_driver_directory(root).filter(|_| !has_cdylib) {
        into.push(Directive::LinkArg(format!("-Wl,-rpath,{place}")));
    }
}

/// Links one shared library of a component, such as `cublasLt`, or the main one; on Windows its import library, which
/// may be in the package of another component. Returns false if it was not found.
pub fn shared_library(
    toolkit: &Toolkit,
    component: Component,
    library: Option<&str>,
    into: &mut Directives,
) -> bool {
    let main = component.facts().libraries.first().copied();
    let import = library.or(main).map(windows::import_library);
    let mut components = toolkit.components().iter();
    if let Some(import) = import.and_then(|name| components.find_map(|it| it.archive(&name))) {
        if let (Some(directory), Some(name)) = (import.parent(), import.file_stem()) {
            into.push(Directive::LinkSearch(directory.to_owned()));
            into.link("dylib", name);
        }
        return true;
    }
    let found = toolkit.get(component).into_iter();
    let files = found.flat_map(|found| &found.libraries);
    let mut named = files.filter_map(|file| Some((file.file_name()?.to_str()?, file.parent()?)));
    let start = library.map_or("lib".to_owned(), |library| format!("lib{library}.so"));
    let Some((name, directory)) = named.find(|(name, _)| name.starts_with(&start)) else {
        return false;
    };
    if !toolkit.is_default_search_dir(directory) {
        into.push(Directive::LinkSearch(directory.to_owned()));
    }
    into.link("dylib:+verbatim", name);
    true
}

/// The device runtime, `libcudadevrt.a`: functions that device code can call after nvcc has linked it.
pub fn device_runtime(toolkit: &Toolkit) -> Option<&PathBuf> {
    toolkit.get(Component::Cudart)?.archive("libcudadevrt.a")
}

/// Links the device runtime, if the toolkit has it.
pub fn link_device_runtime(toolkit: &Toolkit, into: &mut Directives) {
    if let Some(archive) = device_runtime(toolkit) {
        link_archive(toolkit, archive, "cudadevrt", into);
    }
}

fn link_archive(toolkit: &Toolkit, archive: &Path, name: &str, into: &mut Directives) {
    let Some(directory) = archive.parent() else {
        return;
    };
    // By default, rustc bundles a static library into the crate. It then looks for the library only in
    // directories that a directive names. With `-bundle`, the linker looks for the library instead, also in
    // the default directories.
    let kind = if toolkit.is_default_search_dir(directory) {
        "static:-bundle"
    } else {
        into.push(Directive::LinkSearch(directory.to_owned()));
        "static"
    };
    into.link(kind, name);
}

/// Links the archives of a component: of the runtime `libcudart_static.a`, of any other all, in the order of the table.
pub fn archives(toolkit: &Toolkit, component: Component, into: &mut Directives) {
    if component == Component::Cudart {
        return link_static_cudart(toolkit, into);
    }
    let found = toolkit.get(component).into_iter();
    for archive in found.flat_map(|found| &found.archives) {
        let stem = archive.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.strip_prefix("lib").unwrap_or(&stem);
        link_archive(toolkit, archive, name, into);
    }
}

/// `libcudart_static.a` needs the C library's `libdl`, `librt` and `libpthread`; `cudart_static.lib` needs nothing
/// more.
fn link_static_cudart(toolkit: &Toolkit, into: &mut Directives) {
    let archive = |name| toolkit.get(Component::Cudart)?.archive(name);
    if let Some(archive) = archive("cudart_static.lib") {
        link_archive(toolkit, archive, "cudart_static", into);
    } else if let Some(archive) = archive("libcudart_static.a") {
        link_archive(toolkit, archive, "cudart_static", into);
        for name in ["dl", "rt", "pthread"] {
            into.link("dylib", name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "tests write the file that is then looked for"
    )]
    #[test]
    fn only_programs_get_the_nixos_driver_rpath() {
        let top = tempfile::tempdir().unwrap();
        let root = Root::below(top.path());
        let printed = |cdylib| {
            let mut directives = Directives::default();
            add_nixos_driver_rpath(&root, cdylib, &mut directives);
            directives.to_lines().unwrap().join(" ")
        };
        assert_eq!(printed(false), "", "no other system has that place");
        std::fs::create_dir(top.path().join("etc")).unwrap();
        std::fs::write(top.path().join("etc/NIXOS"), "").unwrap();
        assert!(printed(false).ends_with("=-Wl,-rpath,/run/opengl-driver/lib"));
        assert_eq!(printed(true), "");
    }
}

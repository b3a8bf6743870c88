//! The version of a product, and which CUDA it is for. A cuDNN for CUDA 12 and one for 13 have files of the same names,
//! and no file that is quick to read differs.

use std::path::Path;

use super::Prober;
use super::files::Skipped;
use super::prefix::Prefix;
use super::versions::number_macro;
use crate::component::{Bundle, Component};
use crate::release;
use crate::version::Version;

/// The version that a product's headers name.
pub(super) fn header_version(
    prober: &Prober<'_>,
    component: Component,
    include: &Path,
) -> Option<Version> {
    let (header, macros) = component.facts().version_macros?;
    let text = prober.root.head(&include.join(header)).ok()?;
    let [major, minor, patch] = macros.map(|name| number_macro(&text, name));
    format!("{}.{}.{}", major?, minor?, patch?).parse().ok()
}

/// The CUDA majors of products in a root, as far as Python's or Debian's packages name them, or the name of the root. The
/// name does not count for the root of a toolkit.
pub(super) fn named_majors(
    prober: &Prober<'_>,
    path: &Path,
    prefix: &Prefix,
    is_toolkit: bool,
) -> Vec<(Component, u32)> {
    let name = |path: &Path| named_major(path.file_name()?.to_str()?);
    let by_name = || name(path).or_else(|| name(&prober.root.resolve(path)));
    let by_name = if is_toolkit { None } else { by_name() };
    let installed = if prober.root.place(path) == prober.root.place(&prober.root.locate("/usr")) {
        debian_packages(prober, prefix)
    } else {
        Vec::new()
    };
    let named = |product: Component| {
        let installed = installed
            .iter()
            .find(|(known, _)| *known == product)
            .map(|(_, major)| *major);
        installed
            .or_else(|| python_package(prober, path, product))
            .or(by_name)
    };
    let products = Component::all().filter(|c| c.facts().bundle == Bundle::Product);
    products
        .filter_map(|product| Some((product, named(product)?)))
        .collect()
}

/// The CUDA major in a name or version of NVIDIA's packages: `…-9.5.0.50_cuda13-archive`,
/// `libcudnn9-cuda-12`, `2.22.3-1+cuda12.6`, `…-cuda12.8-cudnn-9.8.0.87-lib` in a Nix store.
fn named_major(name: &str) -> Option<u32> {
    name.match_indices("cuda").find_map(|(at, word)| {
        let apart = name[..at].ends_with(['_', '+', '~', '-']);
        let rest = &name[at + word.len()..];
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..digits]
            .parse()
            .ok()
            .filter(|major| apart && (8..100).contains(major))
    })
}

/// The major of the wheel that a directory such as `<site-packages>/nvidia/cudnn` is of; nothing
/// where wheels for two of them claim it.
fn python_package(prober: &Prober<'_>, path: &Path, product: Component) -> Option<u32> {
    let facts = product.facts();
    let installed = |major: &u32| -> Option<bool> {
        let directory = Path::new(facts.package_dir(*major)?);
        let site = path
            .ancestors()
            .nth(directory.components().count())
            .filter(|_| path.ends_with(directory))?;
        let start = format!("{}-", facts.package(*major)?.replace('-', "_"));
        let is_of = |name: &str| name.starts_with(&start) && name.ends_with(".dist-info");
        Some(
            prober
                .root
                .names(site)
                .iter()
                .filter_map(|name| name.to_str())
                .any(is_of),
        )
    };
    let mut majors = release::majors().filter(|major| installed(major) == Some(true));
    let major = majors.next()?;
    majors.next().is_none().then_some(major)
}

/// The majors of the products in `/usr`, where Debian's package manager knows them. Its list has
/// megabytes, so it is read only where a product is there.
fn debian_packages(prober: &Prober<'_>, prefix: &Prefix) -> Vec<(Component, u32)> {
    let products = Component::all().filter(|c| c.facts().bundle == Bundle::Product);
    let there: Vec<Component> = products
        .filter(|product| {
            let header = product
                .facts()
                .header
                .and_then(|header| prefix.header(prober, header));
            header.is_some()
                || release::majors().any(|major| {
                    prefix
                        .component(prober, *product, major, &mut Skipped::default())
                        .is_ok()
                })
        })
        .collect();
    if there.is_empty() {
        return Vec::new();
    }
    let status = prober.root.locate("/var/lib/dpkg/status");
    let text = prober.root.text(&status).unwrap_or_default();
    there
        .into_iter()
        .filter_map(|product| Some((product, debian_major(&text, product)?)))
        .collect()
}

/// What the list of installed packages says; nothing where two of them disagree.
fn debian_major(status: &str, product: Component) -> Option<u32> {
    let start = format!("lib{}", product.id());
    let packages = status.split("\n\n").filter_map(|stanza| {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let package = field("Package:").filter(|name| name.starts_with(&start))?;
        field("Status:").filter(|status| status.ends_with(" installed"))?;
        named_major(package).or_else(|| named_major(field("Version:")?))
    });
    let majors: Vec<u32> = packages.collect();
    majors
        .first()
        .copied()
        .filter(|first| majors.iter().all(|major| major == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives_packages_and_store_paths_tell_a_major() {
        for (name, expected) in [
            ("cudnn-linux-x86_64-9.5.0.50_cuda13-archive", Some(13)),
            ("libcutensor-linux-x86_64-2.3.1.0_cuda12-archive", Some(12)),
            ("libcudnn9-dev-cuda-12", Some(12)),
            ("2.22.3-1+cuda12.6", Some(12)),
            ("8.9.2.26~cuda12+1", Some(12)),
            ("7a0l8c9k-cuda12.8-cudnn-9.8.0.87-lib", Some(12)),
            ("libcudnn5-dev_5.1.10-1+cuda8.0", Some(8)),
            ("nccl_2.22.3-1+cuda12.4_x86_64", Some(12)),
            ("tools-cuda2", None),
            ("cuda12", None),
            ("cuda-12.4", None),
            ("my-cuda-toolkit", None),
            ("cudnn-linux-x86_64-cuda20240101", None),
            ("libcutensor-linux-x86_64-2.0.2.5-archive", None),
            ("cudnn", None),
        ] {
            assert_eq!(named_major(name), expected, "{name}");
        }
    }

    #[test]
    fn the_package_managers_list_tells_a_major() {
        let status = "Package: libcudnn9-cuda-12\nStatus: install ok installed\nVersion: 9.7.0.66-1\n\n\
                      Package: libcudnn9-dev-cuda-12\nStatus: install ok installed\nVersion: 9.7.0.66-1\n\n\
                      Package: libcudnn8\nStatus: deinstall ok config-files\nVersion: 8.9.7.29-1+cuda11.8\n\n\
                      Package: libnccl2\nStatus: hold ok installed\nVersion: 2.25.1-1+cuda12.8\n\n\
                      Package: libcutensor2\nStatus: install ok installed\nVersion: 2.0.2.5-1\n";
        assert_eq!(debian_major(status, Component::Cudnn), Some(12));
        assert_eq!(debian_major(status, Component::Nccl), Some(12));
        assert_eq!(debian_major(status, Component::Cutensor), None);
        let two = format!(
            "{status}\nPackage: libnccl-dev\nStatus: install ok installed\nVersion: 2+cuda13.0\n"
        );
        assert_eq!(debian_major(&two, Component::Nccl), None);
    }
}

//! Finds the CUDA major of products. It is read from package managers and directory names, because the files do
//! not show it: cuDNN's builds for CUDA 12 and 13 have the same file names, and only large files differ, which
//! would take too long to read.

use std::path::Path;

use super::Prober;
use super::searched::SearchedDirectories;
use crate::component::Component;
use crate::release;

/// The CUDA majors of products in a root, according to Debian packages, Python packages or the name of the root.
/// The name of the root is ignored if `is_toolkit`.
pub(super) fn named_majors(
    prober: &Prober<'_>,
    path: &Path,
    searched: &SearchedDirectories<'_>,
    is_toolkit: bool,
) -> Vec<(Component, u32)> {
    let in_name = |path: &Path| named_major(path.file_name()?.to_str()?);
    let by_name = match is_toolkit {
        true => None,
        false => in_name(path).or_else(|| in_name(&prober.root.resolve(path))),
    };
    let is_usr = prober.root.place(path) == prober.root.place(&prober.root.locate("/usr"));
    let debian = if is_usr {
        debian_packages(prober, searched)
    } else {
        Vec::new()
    };
    let named = |product: Component| {
        let debian = debian.iter().find(|(known, _)| *known == product);
        debian
            .map(|(_, major)| *major)
            .or_else(|| python_package(prober, path, product))
            .or(by_name)
    };
    let mut majors = Vec::new();
    for product in products() {
        majors.extend(named(product).map(|major| (product, major)));
    }
    majors
}

pub(super) fn products() -> impl Iterator<Item = Component> {
    Component::all().filter(|component| component.facts().is_product())
}

/// The name of a file's directory, if the name is a number: `12` for `lib/12/libcutensor.so.2`.
pub(super) fn directory_number(path: &Path) -> Option<u32> {
    path.parent()?.file_name()?.to_str()?.parse().ok()
}

/// The CUDA major in a name or version of NVIDIA's packages: `…-9.5.0.50_cuda13-archive`, `libcudnn9-cuda-12`,
/// `2.22.3-1+cuda12.6`, `…-cuda12.8-cudnn-9.8.0.87-lib` in a Nix store.
fn named_major(name: &str) -> Option<u32> {
    name.match_indices("cuda").find_map(|(at, word)| {
        let is_separate = name[..at].ends_with(['_', '+', '~', '-']);
        let rest = &name[at + word.len()..];
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let major = digits.parse().ok()?;
        (is_separate && (8..100).contains(&major)).then_some(major)
    })
}

/// The major of the wheel that a directory such as `<site-packages>/nvidia/cudnn` belongs to;
/// `None` if wheels for two majors share it.
fn python_package(prober: &Prober<'_>, path: &Path, product: Component) -> Option<u32> {
    let facts = product.facts();
    let is_installed = |major: &u32| {
        let installed = || {
            let directory = Path::new(facts.package_dir(*major)?);
            let site = path.ancestors().nth(directory.iter().count())?;
            let start = format!("{}-", facts.package(*major)?.replace('-', "_"));
            let names = prober.root.names(site);
            let mut names = names.iter().filter_map(|name| name.to_str());
            let has = names.any(|name| name.starts_with(&start) && name.ends_with(".dist-info"));
            Some(has && path.ends_with(directory))
        };
        installed() == Some(true)
    };
    let mut majors = release::majors().filter(is_installed);
    majors.next().filter(|_| majors.next().is_none())
}

/// The majors of the products in `/usr` according to Debian's list of packages. The list is several
/// megabytes long, so it is read only if a product is found.
fn debian_packages(
    prober: &Prober<'_>,
    searched: &SearchedDirectories<'_>,
) -> Vec<(Component, u32)> {
    let has_header = |product: Component| {
        let header = product.facts().header;
        header.is_some_and(|header| searched.first(&searched.include, header).is_some())
    };
    let has_files =
        |product| release::majors().any(|major| searched.component(product, major).is_ok());
    let mut present: Vec<Component> = products().collect();
    present.retain(|product| has_header(*product) || has_files(*product));
    if present.is_empty() {
        return Vec::new();
    }
    let status = prober.root.locate("/var/lib/dpkg/status");
    let text = prober.root.text(&status).unwrap_or_default();
    let mut majors = Vec::new();
    for product in present {
        majors.extend(debian_major(&text, product).map(|major| (product, major)));
    }
    majors
}

/// The CUDA major of a product according to Debian's list of packages; `None` if two installed packages of the
/// product are for different majors.
fn debian_major(status: &str, product: Component) -> Option<u32> {
    let start = format!("lib{}", product.id());
    let packages = status.split("\n\n").filter_map(|stanza| {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name));
        let package = field("Package:")?.trim();
        field("Status:").filter(|status| status.ends_with(" installed"))?;
        let major = named_major(package).or_else(|| named_major(field("Version:")?));
        major.filter(|_| package.starts_with(&start))
    });
    let majors: Vec<u32> = packages.collect();
    let first = majors.first().copied();
    first.filter(|first| majors.iter().all(|major| major == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_show_a_major() {
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
    fn debians_list_shows_a_major() {
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

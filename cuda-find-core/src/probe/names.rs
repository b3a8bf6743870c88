//! What the names of packages show: platform and CUDA major.
//!
//! NVIDIA's archives for several platforms may be unpacked side by side. Only those for the platform are used:
//! `cuda_cudart-linux-x86_64-13.0.96-archive`, not `cuda_cudart-linux-sbsa-13.0.96-archive`.
//!
//! The CUDA major of a product is read from package managers and directory names, because the files do not show it:
//! cuDNN's builds for CUDA 12 and 13 have the same file names, and only large files differ, which would take too long
//! to read.

use std::path::{Path, PathBuf};

use super::prober::Prober;
use crate::component::Component;
use crate::release;
use crate::sources::holds_product;
use crate::target::Target;

/// The platform directory that the name of an archive shows, such as `x86_64-linux`; `None` for an archive for all
/// platforms and for other directories.
fn archive_platform(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix("-archive")?;
    let platform = ["linux", "windows"].into_iter().find_map(|system| {
        let (_component, rest) = name.split_once(&format!("-{system}-"))?;
        let (machine, _version) = rest.split_once('-')?;
        Some((machine, system))
    });
    // `sbsa` means ARM servers and `aarch64` means Jetson boards.
    let (machine, system) = platform.filter(|(machine, _)| *machine != "all")?;
    Some(format!("{machine}-{system}"))
}

/// Removes archives for other platforms from `paths`, and returns the remaining paths and a remark about the removed
/// ones.
///
/// In a cross build, archives for the build machine are kept at the end of the list, for their programs.
pub(super) fn without_foreign_archives(
    target: &Target,
    paths: Vec<PathBuf>,
) -> (Vec<PathBuf>, Option<String>) {
    let is_for_target = |path: &PathBuf| {
        archive_platform(path).is_none_or(|platform| platform == target.directory())
    };
    let has_programs = |path: &PathBuf| {
        archive_platform(path).is_some_and(|name| target.runs_in_cross_build(&name))
    };
    let (mut roots, others): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(is_for_target);
    let (programs, foreign): (Vec<PathBuf>, Vec<PathBuf>) =
        others.into_iter().partition(has_programs);
    roots.extend(programs);
    let remark = foreign.first().map(|first| {
        let and_more = match foreign.len() {
            1 => "is".to_owned(),
            count => format!("and {} more are", count - 1),
        };
        let platforms = foreign.iter().filter_map(|path| archive_platform(path));
        let hints = platforms.map(|platform| target.jetson_hint(&platform));
        format!(
            "{} {and_more} not for {target}, and will not be used{}",
            first.display(),
            hints.max().unwrap_or_default()
        )
    });
    (roots, remark)
}

/// The CUDA majors of products in a root, according to Debian packages, Python packages or the name of the root.
/// The name of the root is ignored if `is_toolkit`.
pub(super) fn named_majors(
    prober: &Prober<'_>,
    path: &Path,
    is_toolkit: bool,
) -> Vec<(Component, u32)> {
    let root = prober.root;
    let in_name = |path: &Path| major_in_name(path.file_name()?.to_str()?);
    let by_name = if is_toolkit {
        None
    } else {
        in_name(path).or_else(|| in_name(&root.resolve(path)))
    };
    // Debian's list of packages is several megabytes long, so it is read only if there is a product.
    let is_usr = root.place(path) == root.place(&root.locate("/usr"));
    let has_product = is_usr && holds_product(root, prober.target);
    let dpkg_status = has_product.then(|| root.text(&root.locate("/var/lib/dpkg/status")));
    let dpkg_status = dpkg_status.and_then(Result::ok);
    let major = |product: Component| {
        let debian = dpkg_status
            .as_ref()
            .and_then(|it| major_of_debian_package(it, product));
        let package = debian.or_else(|| major_of_python_package(prober, path, product));
        Some((product, package.or(by_name)?))
    };
    products().filter_map(major).collect()
}

pub(super) fn products() -> impl Iterator<Item = Component> {
    Component::all().filter(|component| component.facts().is_product())
}

/// The CUDA major in a name or version of NVIDIA's packages: `…-9.5.0.50_cuda13-archive`, `libcudnn9-cuda-12`,
/// `2.22.3-1+cuda12.6`, `…-cuda12.8-cudnn-9.8.0.87-lib` in a Nix store.
fn major_in_name(name: &str) -> Option<u32> {
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
fn major_of_python_package(prober: &Prober<'_>, path: &Path, product: Component) -> Option<u32> {
    let facts = product.facts();
    let installed = |major: u32| {
        let directory = Path::new(facts.package_dir(major)?);
        let site = path.ancestors().nth(directory.iter().count())?;
        let start = format!("{}-", facts.package(major)?.replace('-', "_"));
        let names = prober.root.names(site);
        let mut names = names.iter().filter_map(|name| name.to_str());
        let has = names.any(|name| name.starts_with(&start) && name.ends_with(".dist-info"));
        (has && path.ends_with(directory)).then_some(major)
    };
    let mut majors = release::majors().filter_map(installed);
    majors.next().filter(|_| majors.next().is_none())
}

/// The CUDA major of a product according to Debian's list of packages; `None` if two installed packages of the
/// product are for different majors.
fn major_of_debian_package(dpkg_status: &str, product: Component) -> Option<u32> {
    let start = format!("lib{}", product.id());
    let packages = dpkg_status.split("\n\n").filter_map(|stanza| {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name));
        let package = field("Package:")?.trim();
        field("Status:").filter(|status| status.ends_with(" installed"))?;
        let major = major_in_name(package).or_else(|| major_in_name(field("Version:")?));
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
    fn archives_for_other_machines_are_not_used() {
        let names = [
            "linux-sbsa",
            "linux-x86_64",
            "linux-aarch64",
            "windows-x86_64",
            "linux-ppc64le",
            "linux-all",
        ];
        let paths: Vec<PathBuf> = names
            .iter()
            .map(|name| PathBuf::from(format!("/r/cuda_nvcc-{name}-13.5.37-archive")))
            .collect();
        let here = std::env::consts::ARCH;
        let linux = format!("{here}-unknown-linux-gnu");
        let target = |triple| Target::from_triple(triple).unwrap().built_on(&linux);
        for (target, machine) in [
            (target("x86_64-unknown-linux-gnu"), "linux-x86_64"),
            (target("aarch64-unknown-linux-gnu"), "linux-sbsa"),
            (
                target("aarch64-unknown-linux-gnu").on_jetson(),
                "linux-aarch64",
            ),
        ] {
            let (roots, remark) = without_foreign_archives(&target, paths.clone());
            let remark = remark.unwrap();
            let shown: Vec<String> = roots
                .iter()
                .map(|root| root.display().to_string())
                .collect();
            let mut expected = vec![machine, "linux-all"];
            expected.sort_by_key(|name| names.iter().position(|known| known == name));
            // In a cross build, archives for the build machine come last.
            match (target.is_native(), here) {
                (false, "x86_64") => expected.push("linux-x86_64"),
                (false, "aarch64") => expected.extend(["linux-sbsa", "linux-aarch64"]),
                _ => {}
            }
            let expected: Vec<String> = expected
                .iter()
                .map(|name| format!("/r/cuda_nvcc-{name}-13.5.37-archive"))
                .collect();
            assert_eq!(shown, expected);
            assert!(
                remark.contains(&format!("are not for {target}, and will not be used")),
                "{remark}"
            );
            assert_eq!(
                remark.contains("jetson"),
                target.triple().starts_with("aarch64"),
                "{remark}"
            );
        }
    }

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
            assert_eq!(major_in_name(name), expected, "{name}");
        }
    }

    #[test]
    fn debians_list_shows_a_major() {
        let status = "Package: libcudnn9-cuda-12\nStatus: install ok installed\nVersion: 9.7.0.66-1\n\n\
                      Package: libcudnn9-dev-cuda-12\nStatus: install ok installed\nVersion: 9.7.0.66-1\n\n\
                      Package: libcudnn8\nStatus: deinstall ok config-files\nVersion: 8.9.7.29-1+cuda11.8\n\n\
                      Package: libnccl2\nStatus: hold ok installed\nVersion: 2.25.1-1+cuda12.8\n\n\
                      Package: libcutensor2\nStatus: install ok installed\nVersion: 2.0.2.5-1\n";
        assert_eq!(major_of_debian_package(status, Component::Cudnn), Some(12));
        assert_eq!(major_of_debian_package(status, Component::Nccl), Some(12));
        assert_eq!(major_of_debian_package(status, Component::Cutensor), None);
        let two = format!(
            "{status}\nPackage: libnccl-dev\nStatus: install ok installed\nVersion: 2+cuda13.0\n"
        );
        assert_eq!(major_of_debian_package(&two, Component::Nccl), None);
    }
}

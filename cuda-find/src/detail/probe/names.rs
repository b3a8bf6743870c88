//! What the names of packages show: platform, version and CUDA major.
//!
//! NVIDIA's archives may be unpacked side by side. Those for the platform are used, and of these only the newest version
//! of each: `cuda_cudart-linux-x86_64-13.0.96-archive`, `cudnn-linux-sbsa-9.12.0.46_cuda13-archive`.
//!
//! The CUDA major of a product is read from package managers and directory names, because the files do not show it:
//! cuDNN's builds for CUDA 12 and 13 have the same file names, and only large files differ, which would take too long to
//! read.

use std::path::{Path, PathBuf};

use super::files::SearchedDirectories;
use super::prober::Prober;
use crate::detail::component::{Component, release_of};
use crate::detail::release;
use crate::detail::target::Target;
use crate::detail::version::{ToolkitVersion, Version};

/// The highest number of unused archives that a remark names.
const LISTED: usize = 4;

/// What the name of an archive shows.
#[derive(Clone, PartialEq)]
struct Archive {
    name: String,
    component: Option<Component>,
    /// The platform directory, such as `x86_64-linux`; `None` for an archive for all platforms.
    platform: Option<String>,
    version: Version,
    /// `cuda13`, for a product that has one build per CUDA major.
    built_for: Option<String>,
    /// The CUDA release that the archive belongs to, if known.
    release: Option<ToolkitVersion>,
}

impl Archive {
    fn parse(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix("-archive")?;
        let (name, system, rest) = ["linux", "windows"].into_iter().find_map(|system| {
            let (name, rest) = name.split_once(&format!("-{system}-"))?;
            Some((name, system, rest))
        })?;
        let (machine, version) = rest.split_once('-')?;
        let (version, built_for) = match version.split_once('_') {
            Some((version, major)) => (version, Some(major.to_owned())),
            None => (version, None),
        };
        let version: Version = version.parse().ok()?;
        let component = Component::of_redist(name);
        let release = if name.starts_with("cuda_") {
            // Every archive called `cuda_…` has the toolkit's version, even one that is not a component here
            // (`cuda_gdb`).
            version.release()
        } else {
            component.and_then(|component| release_of(component, &version))
        };
        Some(Self {
            name: name.to_owned(),
            component,
            // In names of archives, `sbsa` means ARM servers and `aarch64` means Jetson.
            platform: (machine != "all").then(|| format!("{machine}-{system}")),
            version,
            built_for,
            release,
        })
    }

    fn major(&self) -> Option<u32> {
        self.release.map(|release| release.major)
    }

    /// Whether both are versions of the same archive for the same CUDA major.
    fn is_other_version_of(&self, other: &Self) -> bool {
        let is_product = |component: Component| component.facts().is_product();
        self.name == other.name
            && self.platform == other.platform
            && self.built_for == other.built_for
            && self.major() == other.major()
            // If the release of a toolkit library is unknown, it may be for any major. Versions are then not
            // compared.
            && (self.release.is_some() || self.component.is_none_or(is_product))
    }
}

/// Removes archives for other machines and older versions of archives from `paths`. Returns the remaining paths,
/// and a remark for each of the two reasons. Directories that are not archives are kept.
///
/// In a cross build, archives for the build machine are kept at the end of the list, for their programs.
pub(super) fn select_archives(target: &Target, paths: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let platform = |path: &PathBuf| Archive::parse(path)?.platform;
    let is_other = |platform: &String| platform != target.directory();
    let is_foreign = |platform: String| is_other(&platform) && !target.runs_here(&platform);
    let (foreign, mut roots): (Vec<PathBuf>, Vec<PathBuf>) = paths
        .into_iter()
        .partition(|path| platform(path).is_some_and(is_foreign));
    let mut remarks = Vec::new();
    if let [first, rest @ ..] = foreign.as_slice() {
        let are = match rest.len() {
            0 => "is".to_owned(),
            more => format!("and {more} more are"),
        };
        let hints = foreign
            .iter()
            .filter_map(platform)
            .map(|p| target.jetson_hint(&p));
        let (first, hint) = (first.display(), hints.max().unwrap_or_default());
        remarks.push(format!(
            "{first} {are} not for {target}, and will not be used{hint}"
        ));
    }
    roots.sort_by_key(|path| platform(path).as_ref().is_some_and(is_other));
    let archives: Vec<Archive> = roots
        .iter()
        .filter_map(|path| Archive::parse(path))
        .collect();
    let is_older = |archive: &Archive| {
        let mut others = archives.iter();
        others.any(|other| archive.is_other_version_of(other) && other.version > archive.version)
    };
    let older: Vec<Archive> = archives.iter().filter(|a| is_older(a)).cloned().collect();
    if !older.is_empty() {
        remarks.push(older_remark(&older));
        roots.retain(|path| Archive::parse(path).is_none_or(|archive| !older.contains(&archive)));
    }
    (roots, remarks)
}

/// The remark about archives of which a newer version was found.
fn older_remark(older: &[Archive]) -> String {
    let listed = older.iter().take(LISTED);
    let mut listed: Vec<String> = listed
        .map(|a| format!("{} {}", a.name, a.version))
        .collect();
    if older.len() > LISTED {
        listed.push(format!("{} more", older.len() - LISTED));
    }
    format!(
        "several versions of the same archive were found, and the newest is used; not used: {}; to use another \
         release, name only its archives",
        listed.join(", ")
    )
}

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
mod archives_tests {
    use super::*;

    /// The names that stay, and all remarks, for `x86_64`.
    fn kept(names: &[&str]) -> (Vec<String>, String) {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let path = |name: &&str| PathBuf::from(format!("/r/{name}-archive"));
        let (roots, remarks) = select_archives(&target, names.iter().map(path).collect());
        let name = |path: &PathBuf| {
            path.display()
                .to_string()
                .replace("/r/", "")
                .replace("-archive", "")
        };
        (roots.iter().map(name).collect(), remarks.join("\n"))
    }

    #[test]
    fn the_newest_release_is_used() {
        let set = |minor: &str| -> Vec<String> {
            [
                "cuda_crt",
                "cuda_cudart",
                "cuda_nvcc",
                "cuda_nvrtc",
                "libnvvm",
            ]
            .iter()
            .map(|name| format!("{name}-linux-x86_64-13.{minor}-archive"))
            .collect()
        };
        let all: Vec<PathBuf> = [set("4.92"), set("5.37")]
            .concat()
            .into_iter()
            .map(PathBuf::from)
            .collect();
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        for order in [all.clone(), all.into_iter().rev().collect()] {
            let (roots, remarks) = select_archives(&target, order);
            assert_eq!(roots.len(), 5);
            assert!(
                roots
                    .iter()
                    .all(|root| root.display().to_string().contains("13.5.37")),
                "{roots:?}"
            );
            assert!(
                remarks[0].contains("the newest is used; not used: ")
                    && remarks[0].contains("13.4.92, 1 more")
            );
        }
    }

    #[test]
    fn older_archives_are_not_used() {
        for (names, stay, remark) in [
            // One of each: there is no choice, whatever the releases are.
            (
                &[
                    "cuda_nvcc-linux-x86_64-13.5.37",
                    "libnvvm-linux-x86_64-13.0.88",
                ][..],
                &[0, 1][..],
                "",
            ),
            // A newer runtime beside a complete toolkit: the mismatch is refused later.
            (
                &[
                    "cuda_cudart-linux-x86_64-13.4.92",
                    "cuda_cudart-linux-x86_64-13.5.37",
                    "cuda_nvcc-linux-x86_64-13.4.92",
                ],
                &[1, 2],
                "newest is used; not used: cuda_cudart 13.4.92;",
            ),
            // Majors are not each other's rivals, nor are products for each of them.
            (
                &[
                    "cuda_nvcc-linux-x86_64-12.4.131",
                    "cuda_nvcc-linux-x86_64-13.0.88",
                    "cudnn-linux-x86_64-9.12.0.46_cuda12",
                    "cudnn-linux-x86_64-9.12.0.46_cuda13",
                    "libcurand-linux-x86_64-10.3.5.147",
                    "libcurand-linux-x86_64-10.4.0.35",
                ],
                &[0, 1, 2, 3, 4, 5],
                "",
            ),
            // An update within one release; versions are numbers.
            (
                &[
                    "cuda_nvcc-linux-x86_64-12.6.100",
                    "cuda_nvcc-linux-x86_64-12.6.85",
                ],
                &[0],
                "newest is used; not used: cuda_nvcc 12.6.85",
            ),
            (
                &[
                    "libcudss-linux-x86_64-0.7.1.4_cuda13",
                    "libcudss-linux-x86_64-0.10.0.1_cuda13",
                ],
                &[1],
                "not used: libcudss 0.7.1.4",
            ),
            // Not archives by their names.
            (&["cuda", "cuda_nvcc-linux-x86_64-later"], &[0, 1], ""),
        ] {
            let (kept, remarks) = kept(names);
            let stay: Vec<&str> = stay.iter().map(|index| names[*index]).collect();
            assert_eq!(kept, stay, "{remarks}");
            assert!(
                if remark.is_empty() {
                    remarks.is_empty()
                } else {
                    remarks.contains(remark)
                },
                "{remarks}"
            );
        }
    }

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
        let target = |triple| Target::from_triple(triple).unwrap();
        for (target, machine) in [
            (target("x86_64-unknown-linux-gnu"), "linux-x86_64"),
            (target("aarch64-unknown-linux-gnu"), "linux-sbsa"),
            (
                target("aarch64-unknown-linux-gnu").on_jetson(),
                "linux-aarch64",
            ),
        ] {
            let (roots, remarks) = select_archives(&target, paths.clone());
            let shown: Vec<String> = roots
                .iter()
                .map(|root| root.display().to_string())
                .collect();
            let mut expected = vec![machine, "linux-all"];
            expected.sort_by_key(|name| names.iter().position(|known| known == name));
            // Programs of the machine that builds stay, behind what is for the target.
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
                remarks[0].contains(&format!("are not for {target}, and will not be used")),
                "{remarks:?}"
            );
            assert_eq!(
                remarks[0].contains("jetson"),
                target.triple().starts_with("aarch64"),
                "{remarks:?}"
            );
        }
    }
}

#[cfg(test)]
mod products_tests {
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

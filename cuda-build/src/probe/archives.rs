//! Selects from NVIDIA's archives that are unpacked side by side: those for the platform, and of these only the
//! newest version of each. The name of an archive shows its platform and version:
//! `cuda_cudart-linux-x86_64-13.0.96-archive`, `cudnn-linux-sbsa-9.12.0.46_cuda13-archive`.

use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::list::sort_by_key;
use crate::release::release_of;
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};

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
    sort_by_key(&mut roots, |path| {
        platform(path).as_ref().is_some_and(is_other)
    });
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

#[cfg(test)]
mod tests {
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

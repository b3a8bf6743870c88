//! Which of NVIDIA's archives that lie side by side belong together: those for the platform, of one
//! release. Their names tell: `cuda_cudart-linux-x86_64-13.0.96-archive`,
//! `cudnn-linux-sbsa-9.12.0.46_cuda13-archive`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::component::{Bundle, Class, Component};
use crate::release::release_of;
use crate::target::Target;
use crate::version::{ToolkitVersion, Version};

/// The parts of a compiler. A release that lacks one of them is incomplete if a release beside it has it.
const COMPILER: [Component; 4] = [
    Component::Crt,
    Component::Cudart,
    Component::Nvcc,
    Component::Nvvm,
];

/// Names of left-out archives that a remark lists.
const LISTED: usize = 4;

/// One archive, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Archive {
    name: String,
    component: Option<Component>,
    /// As below `targets`: `x86_64-linux`; `None` for what is for all of them.
    platform: Option<String>,
    version: Version,
    /// `cuda13`, of a product that is built once per major.
    built_for: Option<String>,
    /// The CUDA release it belongs to.
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
        let platform = match machine {
            "all" => None,
            // The Rust triple's `aarch64` is `sbsa` in archives, and theirs is Jetson's.
            machine => Some(format!("{machine}-{system}")),
        };
        let component = Component::of_redist(name);
        let release = release(name, component, &version);
        Some(Self {
            name: name.to_owned(),
            component,
            platform,
            version,
            built_for,
            release,
        })
    }

    /// Whether `other` is the same thing in another version: what is for another major is not.
    fn rivals(&self, other: &Self) -> bool {
        let major = |archive: &Self| archive.release.map(|release| release.major);
        self.name == other.name
            && self.platform == other.platform
            && self.built_for == other.built_for
            && major(self) == major(other)
            // A library of the toolkit whose release is not known may be for any major.
            && (self.release.is_some() || self.component.is_none_or(|c| c.facts().bundle == Bundle::Product))
    }

    /// Whether the compiler and this component have to be of one release to work together.
    fn is_tied(&self) -> bool {
        self.component.is_some_and(|component| {
            component.facts().class == Class::ExactMinor
                || matches!(component, Component::Cudart | Component::Nvrtc)
        })
    }

    fn shown(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// The CUDA release of an archive. Everything called `cuda_…` has the toolkit's version, also what is no component
/// (`cuda_gdb`).
fn release(name: &str, component: Option<Component>, version: &Version) -> Option<ToolkitVersion> {
    if name.starts_with("cuda_") {
        return version.to_string().parse().ok();
    }
    release_of(component?, version)
}

/// The roots without archives that are for another machine or of another release than the rest,
/// and a remark for each reason. What is no archive stays where it is.
///
/// Archives for the machine that builds, where that is another one than the target, come last: they
/// are there for their programs.
pub(super) fn belonging(target: &Target, paths: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let mut remarks = Vec::new();
    let mut foreign: Vec<PathBuf> = Vec::new();
    let mut kept: Vec<(bool, PathBuf, Option<Archive>)> = Vec::new();
    for path in paths {
        let archive = Archive::parse(&path);
        let platform = archive
            .as_ref()
            .and_then(|archive| archive.platform.as_deref());
        let for_target = platform.is_none_or(|platform| platform == target.directory());
        if for_target || platform.is_some_and(|platform| runs_here(target, platform)) {
            kept.push((!for_target, path, archive));
        } else {
            foreign.push(path);
        }
    }
    remarks.extend(remark_foreign(target, &foreign));
    kept.sort_by_key(|(last, ..)| *last);
    let archives: Vec<&Archive> = kept
        .iter()
        .filter_map(|(.., archive)| archive.as_ref())
        .collect();
    let left_out = left_out(&archives, &mut remarks);
    let stays = |archive: &Option<Archive>| {
        archive
            .as_ref()
            .is_none_or(|archive| !left_out.contains(archive))
    };
    let roots = kept
        .iter()
        .filter(|(.., archive)| stays(archive))
        .map(|(_, path, _)| path.clone())
        .collect();
    (roots, remarks)
}

/// Whether programs of this platform run on the machine that builds, for a target that is another
/// one.
fn runs_here(target: &Target, platform: &str) -> bool {
    !target.is_native()
        && match std::env::consts::ARCH {
            "aarch64" => matches!(platform, "sbsa-linux" | "aarch64-linux"),
            machine => platform == format!("{machine}-linux"),
        }
}

fn remark_foreign(target: &Target, foreign: &[PathBuf]) -> Option<String> {
    let more = match foreign {
        [] => return None,
        [_] => " is".to_owned(),
        [_, rest @ ..] => format!(" and {} more are", rest.len()),
    };
    let first = foreign.first()?;
    let arm = foreign
        .iter()
        .filter_map(|path| Archive::parse(path)?.platform);
    let arm = target.elf_machine() == 183
        && arm
            .into_iter()
            .any(|p| p == "sbsa-linux" || p == "aarch64-linux");
    let hint = if arm {
        "; SBSA servers and Jetson boards differ: `jetson = true` in `[package.metadata.cuda]` says which"
    } else {
        ""
    };
    Some(format!(
        "{}{more} not for {target} and left out{hint}",
        first.display()
    ))
}

/// Archives that stand back: those of another release than the chosen one where two toolkits of one
/// major lie side by side, and older ones of the same name.
fn left_out(archives: &[&Archive], remarks: &mut Vec<String>) -> Vec<Archive> {
    let majors: BTreeSet<u32> = archives
        .iter()
        .filter_map(|a| a.release)
        .map(|r| r.major)
        .collect();
    let mut left_out: Vec<Archive> = Vec::new();
    for major in majors {
        let of_major = |archive: &&&Archive| {
            archive
                .release
                .is_some_and(|release| release.major == major)
        };
        let here: Vec<&Archive> = archives.iter().filter(of_major).copied().collect();
        let chosen = chosen(&here);
        let stands_back = |archive: &Archive| {
            let other = chosen.is_some() && archive.is_tied() && archive.release != chosen;
            let rank = |archive: &Archive| (archive.release == chosen, archive.version.clone());
            other
                || here
                    .iter()
                    .any(|rival| archive.rivals(rival) && rank(rival) > rank(archive))
        };
        let back: Vec<Archive> = here
            .iter()
            .filter(|a| stands_back(a))
            .map(|a| (*a).clone())
            .collect();
        if !back.is_empty() {
            remarks.push(match chosen {
                Some(chosen) => format!(
                    "archives of several releases of CUDA {major} are there; {chosen} is used{}, left out: {}; name the \
                     archives of another release alone to use it",
                    why_not_newest(&here, chosen),
                    listed(&back)
                ),
                None => format!("of several versions of one archive the newest is used, left out: {}", listed(&back)),
            });
        }
        left_out.extend(back);
    }
    let others = archives.iter().filter(|archive| archive.release.is_none());
    let newer = |archive: &Archive| {
        archives
            .iter()
            .any(|a| archive.rivals(a) && a.version > archive.version)
    };
    let back: Vec<Archive> = others
        .filter(|archive| newer(archive))
        .map(|a| (*a).clone())
        .collect();
    if !back.is_empty() {
        remarks.push(format!(
            "of several versions of one archive the newest is used, left out: {}",
            listed(&back)
        ));
    }
    left_out.extend(back);
    left_out
}

/// The release to use where several toolkits of one major are there: the newest whole one. `None`
/// where there are not several, or none is whole.
fn chosen(archives: &[&Archive]) -> Option<ToolkitVersion> {
    let tied: Vec<&&Archive> = archives
        .iter()
        .filter(|archive| archive.is_tied())
        .collect();
    let twice = |archive: &&&&Archive| {
        tied.iter()
            .any(|other| archive.rivals(other) && archive.release != other.release)
    };
    tied.iter().find(twice)?;
    let releases: BTreeSet<ToolkitVersion> =
        tied.iter().filter_map(|archive| archive.release).collect();
    releases
        .into_iter()
        .rev()
        .find(|release| lacks(archives, *release).is_empty())
}

/// Parts of a compiler that other releases have and this one has not.
fn lacks<'a>(archives: &[&'a Archive], release: ToolkitVersion) -> BTreeSet<&'a str> {
    let parts = archives
        .iter()
        .filter(|archive| archive.component.is_some_and(|c| COMPILER.contains(&c)));
    let has = |part: &Archive| {
        let same = |a: &&Archive| a.name == part.name && a.platform == part.platform;
        archives
            .iter()
            .any(|archive| same(archive) && archive.release == Some(release))
    };
    parts
        .filter(|part| !has(part))
        .map(|part| part.name.as_str())
        .collect()
}

fn why_not_newest(archives: &[&Archive], chosen: ToolkitVersion) -> String {
    let tied = archives.iter().filter(|archive| archive.is_tied());
    match tied
        .filter_map(|archive| archive.release)
        .max()
        .filter(|newest| *newest > chosen)
    {
        Some(newest) => {
            let lacks: Vec<&str> = lacks(archives, newest).into_iter().collect();
            format!(", because {newest} has no {}", lacks.join(", "))
        }
        None => String::new(),
    }
}

fn listed(archives: &[Archive]) -> String {
    let names: Vec<String> = archives.iter().take(LISTED).map(Archive::shown).collect();
    match archives.len().checked_sub(LISTED).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", names.join(", ")),
        None => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that stay, and all remarks, for `x86_64`.
    fn kept(names: &[&str]) -> (Vec<String>, String) {
        let target = Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap();
        let path = |name: &&str| PathBuf::from(format!("/r/{name}-archive"));
        let (roots, remarks) = belonging(&target, names.iter().map(path).collect());
        let name = |path: &PathBuf| {
            path.display()
                .to_string()
                .replace("/r/", "")
                .replace("-archive", "")
        };
        (roots.iter().map(name).collect(), remarks.join("\n"))
    }

    #[test]
    fn the_newest_whole_release_stays() {
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
        let target = Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap();
        for order in [all.clone(), all.into_iter().rev().collect()] {
            let (roots, remarks) = belonging(&target, order);
            assert_eq!(roots.len(), 5);
            assert!(
                roots
                    .iter()
                    .all(|root| root.display().to_string().contains("13.5.37")),
                "{roots:?}"
            );
            assert!(
                remarks[0].contains("13.5 is used, left out: ")
                    && remarks[0].contains("13.4.92 and 1 more")
            );
        }
    }

    #[test]
    fn what_stays_and_what_is_said() {
        for (names, stay, said) in [
            // One of each: nothing to choose, whatever the releases are.
            (
                &[
                    "cuda_nvcc-linux-x86_64-13.5.37",
                    "libnvvm-linux-x86_64-13.0.88",
                ][..],
                &[0, 1][..],
                "",
            ),
            // A newer runtime beside a whole toolkit.
            (
                &[
                    "cuda_cudart-linux-x86_64-13.4.92",
                    "cuda_cudart-linux-x86_64-13.5.37",
                    "cuda_nvcc-linux-x86_64-13.4.92",
                ],
                &[0, 2],
                "13.4 is used, because 13.5 has no cuda_nvcc, left out: cuda_cudart 13.5.37;",
            ),
            // Neither is whole: the newest of each, and what does not fit is refused later.
            (
                &[
                    "cuda_crt-linux-x86_64-13.5.37",
                    "cuda_cudart-linux-x86_64-13.4.92",
                    "cuda_cudart-linux-x86_64-13.5.37",
                    "cuda_nvcc-linux-x86_64-13.4.92",
                ],
                &[0, 2, 3],
                "newest is used, left out: cuda_cudart 13.4.92",
            ),
            // Libraries of the release that is used come first, whatever number they have.
            (
                &[
                    "cuda_cudart-linux-x86_64-13.3.29",
                    "cuda_cudart-linux-x86_64-13.4.92",
                    "cuda_nvcc-linux-x86_64-13.3.29",
                    "libcublas-linux-x86_64-13.5.1.27",
                    "libcublas-linux-x86_64-13.7.0.27",
                ],
                &[0, 2, 3],
                "13.3 is used",
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
                "newest is used, left out: cuda_nvcc 12.6.85",
            ),
            (
                &[
                    "libcudss-linux-x86_64-0.7.1.4_cuda13",
                    "libcudss-linux-x86_64-0.10.0.1_cuda13",
                ],
                &[1],
                "left out: libcudss 0.7.1.4",
            ),
            // No archive by its name: none of ours to judge.
            (&["cuda", "cuda_nvcc-linux-x86_64-later"], &[0, 1], ""),
        ] {
            let (kept, remarks) = kept(names);
            let stay: Vec<&str> = stay.iter().map(|index| names[*index]).collect();
            assert_eq!(kept, stay, "{remarks}");
            assert!(
                if said.is_empty() {
                    remarks.is_empty()
                } else {
                    remarks.contains(said)
                },
                "{remarks}"
            );
        }
    }

    #[test]
    fn machines() {
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
        for (triple, jetson, machine) in [
            ("x86_64-unknown-linux-gnu", false, "linux-x86_64"),
            ("aarch64-unknown-linux-gnu", false, "linux-sbsa"),
            ("aarch64-unknown-linux-gnu", true, "linux-aarch64"),
        ] {
            let target = Target::from_triple(triple, jetson).unwrap();
            let (roots, remarks) = belonging(&target, paths.clone());
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
                remarks[0].contains(&format!("are not for {triple} and left out")),
                "{remarks:?}"
            );
            assert_eq!(
                remarks[0].contains("jetson"),
                triple.starts_with("aarch64"),
                "{remarks:?}"
            );
        }
    }
}

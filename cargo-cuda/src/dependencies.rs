//! What the packages that a command builds reveal about CUDA.

use std::fmt;

use cargo_metadata::Metadata;
use cuda_build::diagnosis::ORDINARY_NAMES;
use cuda_build::{Component, ToolkitVersion};
use cuda_find_core::release;

use crate::selection::Selection;

/// What the packages with their enabled features reveal.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// The CUDA releases (13040 is CUDA 13.4) that every version of cudarc in the dependencies supports. A cudarc whose
    /// features select a release is not counted; `None` if each cudarc selects a release, or there is none.
    pub cudarc: Option<Vec<u32>>,
    /// The features of cudarc that select a release: `cuda-12080`.
    pub selected: Vec<SelectedRelease>,
    /// Components that dependencies probably need, each once, in the order of [`Component::all`].
    pub guesses: Vec<Guess>,
}

/// A component that a package probably needs: the package has an enabled feature with the name of the component or of
/// one of its libraries, or its build failed without the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    pub component: Component,
    /// "feature `cublaslt` of cudarc"
    pub reason: String,
    /// Whether programs probably load the component when they run, so that a build does not need it.
    pub is_loaded: bool,
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.component, self.reason)
    }
}

impl Dependencies {
    /// `metadata` describes the packages of the selection.
    pub fn new(selection: &Selection, metadata: &Metadata) -> Self {
        let mut features = Vec::new();
        for package in &selection.packages {
            let linkage = Linkage::of(&package.features);
            for feature in &package.features {
                features.push((feature.as_str(), package.name.as_str(), linkage));
            }
        }
        let packages = selection.packages.iter();
        let cudarc = packages.filter(|package| package.name == "cudarc");
        Self {
            cudarc: releases_of_cudarc(selection, metadata),
            selected: cudarc
                .filter_map(|package| SelectedRelease::of(&package.features))
                .collect(),
            guesses: [guesses(&features), programs_of(selection)].concat(),
        }
    }
}

impl Dependencies {
    /// The newest CUDA release that every cudarc supports.
    pub fn newest_for_cudarc(&self) -> Option<ToolkitVersion> {
        let known = self.cudarc.iter().flatten().copied();
        let newest = known.max().and_then(ToolkitVersion::from_cuda_version);
        let is_bound = |it: &&SelectedRelease| {
            let mut used = it.components.iter().map(|component| component.facts());
            it.is_linked && used.any(|facts| facts.soname_tells_major(it.release.major))
        };
        let selected = self.selected.iter().filter(is_bound);
        let of_majors = selected.filter_map(|it| release::newest_of(it.release.major));
        of_majors.chain(newest).min()
    }
}

/// A CUDA release that a feature of cudarc selects.
#[derive(Clone, Debug)]
pub struct SelectedRelease {
    /// 12.8 for the feature `cuda-12080`.
    pub release: ToolkitVersion,
    /// The components that cudarc uses.
    components: Vec<Component>,
    /// Whether their libraries are linked. Otherwise, they are loaded when the program runs.
    pub is_linked: bool,
}

impl SelectedRelease {
    fn of(features: &[String]) -> Option<Self> {
        let releases = features.iter().filter_map(|it| release_of_feature(it));
        let release = releases.max()?;
        let uses = |component: Component| {
            let names = component.facts().libraries.iter().copied();
            let name = (component == Component::Cudart).then_some("runtime");
            let mut names = names.chain(name);
            names.any(|name| features.iter().any(|it| it.eq_ignore_ascii_case(name)))
        };
        Some(Self {
            release: ToolkitVersion::from_cuda_version(release)?,
            components: Component::all().filter(|it| uses(*it)).collect(),
            is_linked: Linkage::of(features) == Linkage::Linked,
        })
    }

    /// The first component whose library has another interface in another major.
    pub fn component_of_another(&self, major: u32) -> Option<Component> {
        let differs = |component: &&Component| {
            let facts = component.facts();
            let soname = facts.soname(0, self.release.major);
            soname.is_some() && soname != facts.soname(0, major)
        };
        self.components.iter().find(differs).copied()
    }
}

/// The release of a feature such as `cuda-13040`.
fn release_of_feature(feature: &str) -> Option<u32> {
    feature.strip_prefix("cuda-")?.parse().ok()
}

/// How a package uses CUDA's libraries, as its enabled features suggest: `dynamic-linking`, `static-link`,
/// `dynamic-loading`. Crates that have both kinds prefer linking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Linked,
    Loaded,
    Unknown,
}

impl Linkage {
    fn of(features: &[impl AsRef<str>]) -> Self {
        let mut linkage = Self::Unknown;
        for feature in features {
            let words = feature.as_ref().split(['-', '_']);
            let has = |names: &[&str]| words.clone().any(|word| names.contains(&word));
            if has(&["link", "linked", "linking"]) {
                return Self::Linked;
            }
            if has(&["load", "loaded", "loading"]) {
                linkage = Self::Loaded;
            }
        }
        linkage
    }
}

/// Programs of CUDA that packages start when they run.
fn programs_of(selection: &Selection) -> Vec<Guess> {
    let mut packages = selection.packages.iter();
    let has_cutile = packages.any(|package| package.name == "cutile");
    let tileiras = has_cutile.then(|| Guess {
        component: Component::Tileiras,
        reason: "package cutile".to_owned(),
        is_loaded: true,
    });
    Vec::from_iter(tileiras)
}

/// One guess for each component that a feature names. `features` has each feature with its package.
fn guesses(features: &[(&str, &str, Linkage)]) -> Vec<Guess> {
    let guess = |component: Component| {
        let mut matching = features.to_vec();
        matching.retain(|(feature, ..)| is_named(component, feature));
        let (feature, package, _) = matching.first()?;
        let is_any = |kind: Linkage| matching.iter().any(|(.., linkage)| *linkage == kind);
        Some(Guess {
            component,
            reason: format!("feature `{feature}` of {package}"),
            is_loaded: is_any(Linkage::Loaded) && !is_any(Linkage::Linked),
        })
    };
    Component::all().filter_map(guess).collect()
}

/// Whether a feature has the name of a component or of one of its libraries. The driver's components are not fetched,
/// components of every toolkit need no guess, and no feature names the version of a header package.
fn is_named(component: Component, feature: &str) -> bool {
    let facts = component.facts();
    let mut names = std::iter::once(&facts.id).chain(facts.libraries);
    !facts.is_driver()
        && !facts.in_every_toolkit
        && !facts.is_header_package()
        && !ORDINARY_NAMES.contains(&component)
        && names.any(|name| name.eq_ignore_ascii_case(feature))
}

/// The value of [`Dependencies::cudarc`]. cudarc has one feature for each CUDA release that it supports, such as
/// `cuda-13040`. If no such feature is selected, cudarc detects the release, and its build fails if that release is
/// newer than all supported releases.
fn releases_of_cudarc(selection: &Selection, metadata: &Metadata) -> Option<Vec<u32>> {
    let mut supported_by_all: Option<Vec<u32>> = None;
    for package in &selection.packages {
        let mut features = package.features.iter();
        if package.name != "cudarc" || features.any(|feature| release_of_feature(feature).is_some())
        {
            continue;
        }
        let Some(described) = metadata.packages.iter().find(|it| package.is(it)) else {
            continue;
        };
        let features = described.features.keys();
        let supported: Vec<u32> = features.filter_map(|it| release_of_feature(it)).collect();
        match &mut supported_by_all {
            Some(releases) => releases.retain(|release| supported.contains(release)),
            None => supported_by_all = Some(supported),
        }
    }
    supported_by_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_name_components_are_guesses() {
        let features = [
            ("std", "cudarc"),
            ("cudnn", "cudarc"),
            ("cublaslt", "cudarc"),
            ("cuda", "candle-core"),
            ("driver", "cudarc"),
            ("cuda-driver", "app"),
            ("nvrtc", "cudarc"),
            ("cudnn", "candle-core"),
            ("nccl", "cudarc"),
            ("cutensor", "cudarc"),
            ("CURAND", "app"),
            ("cublas-sys", "app"),
            ("opencl", "app"),
            ("sanitizer", "app"),
        ];
        let features = features.map(|(feature, package)| (feature, package, Linkage::Unknown));
        let shown: Vec<String> = guesses(&features).iter().map(Guess::to_string).collect();
        let expected = [
            "cublas (feature `cublaslt` of cudarc)",
            "curand (feature `CURAND` of app)",
            "cudnn (feature `cudnn` of cudarc)",
            "nccl (feature `nccl` of cudarc)",
            "cutensor (feature `cutensor` of cudarc)",
        ];
        assert_eq!(shown, expected);
        assert_eq!(guesses(&[]), []);
    }

    #[test]
    fn features_tell_linking_from_loading() {
        let is_loaded = |features: &[(&str, &[&str])]| {
            let all = features
                .iter()
                .flat_map(|(feature, all)| [(*feature, "p", Linkage::of(all))]);
            guesses(&all.collect::<Vec<_>>())[0].is_loaded
        };
        let loading: &[&str] = &["cublas", "fallback-dynamic-loading"];
        let both: &[&str] = &["cublas", "fallback-dynamic-loading", "dynamic-linking"];
        for (features, expected) in [
            (&[("cublas", &["cublas"][..])][..], false),
            (&[("cublas", loading)], true),
            (&[("cublas", both)], false),
            (&[("cublas", &["cublas"]), ("cublas", loading)], true),
            (&[("nvjitlink", &["nvjitlink", "dynamic-loading"])], true),
        ] {
            assert_eq!(is_loaded(features), expected, "{features:?}");
        }
    }
}

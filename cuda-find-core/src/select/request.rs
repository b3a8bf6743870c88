//! What a build needs.

use std::fmt;
use std::str::FromStr;

use crate::component::{Component, EdgeKind, closure};
use crate::env::Env;
use crate::error::Error;
use crate::found::{ComponentSet, Found};
use crate::release::{self, OLDEST_MAJOR};
use crate::target::Target;
use crate::version::ToolkitVersion;

/// The part of a component that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Headers to compile with.
    Headers,
    /// The shared library to link or load.
    Shared,
    /// Static archives.
    Archive,
    /// Programs to run.
    Tools,
    /// The library with which Windows' linker links the shared library. NVIDIA's Python packages lack many of these.
    Import,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Headers, Self::Shared, Self::Archive, Self::Tools];

    /// What `components = ["x"]` requests: the shared library, otherwise programs, static archives or headers; headers
    /// for the driver.
    pub fn main(component: Component) -> Self {
        let facts = component.facts();
        if facts.is_driver() {
            Self::Headers
        } else if !facts.libraries.is_empty() {
            Self::Shared
        } else if !facts.tools.is_empty() {
            Self::Tools
        } else if !facts.archives.is_empty() {
            Self::Archive
        } else {
            Self::Headers
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::Shared => "shared libraries",
            Self::Archive => "static archives",
            Self::Tools => "programs",
            Self::Import => "an import library (`.lib`), which Windows' linker needs",
        }
    }
}

/// How much a component is needed. The stronger of two needs is the smaller value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Strength {
    /// The search fails without it.
    Required,
    /// The build works without it. If it is chosen, it has to fit the other components, or the search fails.
    Optional,
    /// Used if it is found and fits the other components. If it does not fit, it is not used, and the search
    /// still succeeds.
    Extra,
}

/// Which CUDA release to use: any of one major (`13`), or exactly one (`13.4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestedRelease {
    /// The CUDA major.
    pub major: u32,
    /// The minor, if only one release is accepted; `None` accepts every release of the major.
    pub minor: Option<u32>,
}

impl RequestedRelease {
    /// The environment variable that sets the release to build for.
    pub const VARIABLE: &'static str = "CUDA_BUILD_RELEASE";

    /// Reads [`RequestedRelease::VARIABLE`].
    pub fn from_env(env: &Env) -> Result<Option<Self>, Error> {
        let release = env.text(Self::VARIABLE).map(|text| text.parse());
        let release = release.transpose();
        release.map_err(|reason| Error::variable(Self::VARIABLE, reason))
    }

    /// The requirement that only this minor meets, such as `~13.4`; `None` if every minor is accepted.
    pub fn comparator(self) -> Option<semver::Comparator> {
        self.minor?;
        format!("~{self}").parse().ok()
    }
}

impl FromStr for RequestedRelease {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = match text.split_once('.') {
            Some((major, minor)) => (major, Some(minor.parse::<u32>())),
            None => (text, None),
        };
        match (major.parse(), minor.transpose()) {
            (Ok(major), Ok(minor)) if major >= OLDEST_MAJOR => Ok(Self { major, minor }),
            (Ok(_), Ok(_)) => Err(format!(
                "CUDA `{text}` is not supported; the oldest supported major is {OLDEST_MAJOR}"
            )),
            _ => Err(format!(
                "`{text}` is not a CUDA release such as `13` or `13.4`"
            )),
        }
    }
}

impl fmt::Display for RequestedRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}.{minor}", self.major),
            None => write!(f, "{}", self.major),
        }
    }
}

/// A component that is needed, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The component.
    pub component: Component,
    /// The part of it that is used.
    pub part: Part,
    /// The accepted versions of the component.
    pub version: Option<semver::VersionReq>,
    /// Why it is needed, to be printed in parentheses: `needed to compile 2 .cu files`.
    pub why: String,
    /// How much it is needed.
    pub strength: Strength,
}

impl Need {
    /// A required part.
    pub fn new(component: Component, part: Part, why: impl Into<String>) -> Self {
        Self {
            component,
            part,
            version: None,
            why: why.into(),
            strength: Strength::Required,
        }
    }

    /// The same need with this strength.
    #[must_use]
    pub fn with(mut self, strength: Strength) -> Self {
        self.strength = strength;
        self
    }

    /// The dependencies of a needed shared library. A dependency that is linked gets the strength of this need, and
    /// a dependency that is opened with `dlopen` is optional. If the library also works without the dependency, it
    /// is an extra.
    fn dependencies(&self, major: u32) -> Vec<Self> {
        if !matches!(self.part, Part::Shared | Part::Import) || self.strength == Strength::Extra {
            return Vec::new();
        }
        let need = |(component, kind)| {
            let strength = match kind {
                EdgeKind::Link => self.strength,
                EdgeKind::Load => Strength::Optional,
                EdgeKind::LoadIfPresent => Strength::Extra,
                EdgeKind::Build => return None,
            };
            let why = format!("`{}` needs it", self.component);
            Some(Self::new(component, Part::Shared, why).with(strength))
        };
        let dependencies = closure(&[self.component], major).into_iter();
        dependencies.filter_map(need).collect()
    }

    /// Whether the component is a product.
    pub fn is_product(&self) -> bool {
        self.component.facts().is_product()
    }

    /// Whether `found` meets the need.
    pub fn is_met_by(&self, found: &Found) -> bool {
        let has_part = match self.part {
            Part::Headers => !found.include.is_empty(),
            Part::Shared => !found.libraries.is_empty(),
            Part::Archive => !found.archives.is_empty(),
            Part::Tools => !found.tools.is_empty(),
            Part::Import => found.import_library().is_some(),
        };
        let mut versions = self.version.iter().zip(&found.version);
        let is_accepted = versions.all(|(accepted, version)| version.matches(accepted));
        found.component == self.component && has_part && is_accepted
    }
}

/// What the caller of a search requests.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Needed with every CUDA major that `by_major` does not list.
    pub needs: Vec<Need>,
    /// Needed instead of `needs` with the listed CUDA majors.
    pub by_major: Vec<(u32, Vec<Need>)>,
    /// Groups of needs, in order of preference, such as one group for each engine that is accepted. At least one
    /// group has to be met.
    pub alternatives: Vec<Vec<Need>>,
    /// The CUDA major, if it is fixed; otherwise the newest that is found.
    pub major: Option<u32>,
    /// The majors that the manifest declares, which decide whether the lock file applies: see
    /// [`Request::is_locked_by`].
    pub declared_majors: Vec<u32>,
    /// The accepted CUDA releases.
    pub toolkit: semver::VersionReq,
    /// Whether to take every other component that is found and fits, as if each part of it were
    /// [`Strength::Extra`].
    pub take_everything: bool,
}

impl Request {
    /// What is needed with a CUDA major, without the alternatives.
    pub fn needs_of(&self, major: u32) -> &[Need] {
        let listed = self.by_major.iter().find(|(listed, _)| *listed == major);
        listed.map_or(&self.needs, |(_, needs)| needs)
    }

    /// Every list of needs, without the alternatives.
    pub fn lists_of_needs(&mut self) -> impl Iterator<Item = &mut Vec<Need>> {
        let by_major = self.by_major.iter_mut().map(|(_, needs)| needs);
        [&mut self.needs].into_iter().chain(by_major)
    }

    /// The same request, if the shared libraries in it are linked, and not only loaded.
    #[must_use]
    pub fn linked_for(mut self, target: &Target) -> Self {
        let needs = self.lists_of_needs().flatten();
        for need in needs.filter(|need| target.is_windows() && need.part == Part::Shared) {
            need.part = Part::Import;
        }
        self
    }

    /// Adds what another request needs, and its accepted releases.
    pub fn require(&mut self, other: &Self) {
        for (major, _) in &other.by_major {
            if !self.by_major.iter().any(|(listed, _)| listed == major) {
                self.by_major.push((*major, self.needs.clone()));
            }
        }
        let add = |needs: &mut Vec<Need>, more: &[Need]| {
            for need in more {
                if !needs.contains(need) {
                    needs.push(need.clone());
                }
            }
        };
        add(&mut self.needs, &other.needs);
        for (major, needs) in &mut self.by_major {
            add(needs, other.needs_of(*major));
        }
        let comparators = other.toolkit.comparators.iter().cloned();
        self.toolkit.comparators.extend(comparators);
    }

    /// Whether a product is needed with this strength or a stronger one, with any CUDA major.
    pub(crate) fn needs_product(&self, least: Strength) -> bool {
        let by_major = self.by_major.iter().flat_map(|(_, needs)| needs);
        let mut needs = self.needs.iter().chain(by_major);
        needs.any(|need| need.is_product() && need.strength <= least)
    }

    /// Whether this release is accepted.
    pub fn admits_release(&self, release: ToolkitVersion) -> bool {
        self.major.is_none_or(|fixed| fixed == release.major) && release.matches(&self.toolkit)
    }

    /// Whether a lock file's entry for this release applies. An entry for one major decides nothing about another, so
    /// it has to be for the requested major, otherwise for the newest declared one.
    pub fn is_locked_by(&self, release: ToolkitVersion) -> bool {
        let wanted = self.wanted_major();
        self.admits_release(release) && wanted.is_none_or(|major| major == release.major)
    }

    /// The requested major, otherwise the newest declared one that is accepted.
    pub fn wanted_major(&self) -> Option<u32> {
        let declared = self.declared_majors.iter().copied();
        let newest = declared.filter(|major| self.admits_major(*major)).max();
        self.major.or(newest)
    }

    /// Whether some release of this major is accepted.
    pub fn admits_major(&self, major: u32) -> bool {
        (0..100).any(|minor| self.admits_release(ToolkitVersion::new(major, minor)))
    }

    /// The needs for the major that `--fetch` would fetch.
    pub fn needs_to_fetch(&self) -> &[Need] {
        let major = self.wanted_major().or_else(|| self.newest_major());
        self.needs_of(major.unwrap_or_default())
    }

    /// The newest known major that is accepted. `None` if `major` and `toolkit` contradict each other.
    pub fn newest_major(&self) -> Option<u32> {
        let mut majors = release::majors().rev().chain(self.major);
        majors.find(|major| self.admits_major(*major))
    }

    /// Whether a set is of an accepted release.
    pub(super) fn admits(&self, set: &ComponentSet) -> bool {
        let admits = |toolkit: ToolkitVersion| toolkit.matches(&self.toolkit);
        self.major.is_none_or(|major| major == set.major) && set.release().is_none_or(admits)
    }

    /// Whether a component meets one of the required needs.
    pub(super) fn requires(&self, found: &Found) -> bool {
        let needs = self.needs_of(found.major).iter();
        let mut needs = needs.chain(self.alternatives.iter().flatten());
        needs.any(|need| need.strength == Strength::Required && need.is_met_by(found))
    }

    /// One group for each alternative; at least one group has to be met. A group has `needs`, the needs of its
    /// alternative, and the dependencies of every library in these needs for a toolkit of this major.
    pub(super) fn groups(&self, major: u32) -> Vec<Vec<Need>> {
        let group = |more: &[Need]| -> Vec<Need> {
            // Requested components come first: the rest has to fit them.
            let mut needs = [self.needs_of(major), more].concat();
            for index in 0..needs.len() {
                needs.extend(needs[index].dependencies(major));
            }
            needs
        };
        if self.alternatives.is_empty() {
            return vec![group(&[])];
        }
        self.alternatives.iter().map(|more| group(more)).collect()
    }
}

//! What a build needs.

use crate::component::{Component, EdgeKind, closure};
use crate::probe::{ComponentSet, Found};
use crate::release;
use crate::version::ToolkitVersion;

/// The part of a component that is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Headers to compile with.
    Headers,
    /// The shared library to link or load.
    Shared,
    /// Static archives.
    Archive,
    /// Programs to run.
    Tools,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Headers, Self::Shared, Self::Archive, Self::Tools];

    /// The part of a component that a declaration without further detail means: its shared library, otherwise its
    /// programs, its static archives or its headers.
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
        }
    }
}

/// How much a component is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strength {
    /// The search fails without it.
    Required,
    /// The build works without it. If it is chosen, it has to fit the other components, or the search fails.
    Optional,
    /// Used if it is found and fits the other components. If it does not fit, it is not used, and the search
    /// still succeeds.
    Extra,
}

/// [`Need::why`] of a component that the manifest declares.
pub const DECLARED: &str = "declared in `[package.metadata.cuda]`";

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
        if self.part != Part::Shared || self.strength == Strength::Extra {
            return Vec::new();
        }
        let mut dependencies = closure(&[self.component], major);
        dependencies.retain(|(_, kind)| kind.is_run_time());
        let mut needs = Vec::new();
        for (component, kind) in dependencies {
            let strength = match kind {
                EdgeKind::Link => self.strength,
                EdgeKind::Load => Strength::Optional,
                EdgeKind::LoadIfPresent | EdgeKind::Build => Strength::Extra,
            };
            let why = format!("`{}` needs it", self.component);
            needs.push(Self::new(component, Part::Shared, why).with(strength));
        }
        needs
    }

    pub(crate) fn is_product(&self) -> bool {
        self.component.facts().is_product()
    }

    pub(super) fn is_required(&self) -> bool {
        self.strength == Strength::Required
    }

    /// Whether `found` meets the need.
    pub fn is_met_by(&self, found: &Found) -> bool {
        let paths = match self.part {
            Part::Headers => &found.include,
            Part::Shared => &found.libraries,
            Part::Archive => &found.archives,
            Part::Tools => &found.tools,
        };
        let is_accepted = match (&self.version, &found.version) {
            (Some(accepted), Some(version)) => {
                let [major, minor, patch] = [0, 1, 2].map(|index| version.part(index));
                accepted.matches(&semver::Version::new(major, minor, patch))
            }
            _ => true,
        };
        found.component == self.component && !paths.is_empty() && is_accepted
    }
}

/// What the caller of a search requests.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Needed in any case.
    pub needs: Vec<Need>,
    /// Groups of needs, in order of preference, such as one group for each engine that is accepted. At least one
    /// group has to be met.
    pub alternatives: Vec<Vec<Need>>,
    /// The CUDA major, if it is fixed; otherwise the newest that is found.
    pub major: Option<u32>,
    /// The accepted CUDA releases.
    pub toolkit: semver::VersionReq,
    /// Whether to take every other component that is found and fits, as if each part of it were
    /// [`Strength::Extra`].
    pub take_everything: bool,
}

impl Request {
    /// Whether this release is accepted.
    pub fn admits_release(&self, release: ToolkitVersion) -> bool {
        self.major.is_none_or(|fixed| fixed == release.major) && release.matches(&self.toolkit)
    }

    /// Whether some release of this major is accepted.
    pub fn admits_major(&self, major: u32) -> bool {
        (0..100).any(|minor| self.admits_release(ToolkitVersion::new(major, minor)))
    }

    /// The major to fetch if nothing is found: the newest known major that is accepted. `None` if `major` and
    /// `toolkit` contradict each other.
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
        let mut needs = self.needs.iter().chain(self.alternatives.iter().flatten());
        needs.any(|need| need.is_required() && need.is_met_by(found))
    }

    /// One group for each alternative; at least one group has to be met. A group has `needs`, the needs of its
    /// alternative, and the dependencies of every library in these needs for a toolkit of this major.
    pub(super) fn groups(&self, major: u32) -> Vec<Vec<Need>> {
        let group = |more: &[Need]| -> Vec<Need> {
            // Requested components come first: the rest has to fit them.
            let mut needs = [self.needs.as_slice(), more].concat();
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

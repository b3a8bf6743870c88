//! What a build needs.

use crate::component::{Bundle, Component, EdgeKind, closure};
use crate::probe::{Found, Set};
use crate::release;
use crate::version::ToolkitVersion;

/// The part of a component that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::Shared => "shared library",
            Self::Archive => "static archives",
            Self::Tools => "programs",
        }
    }
}

/// How much a component is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The search fails without it.
    Required,
    /// The build does without it if it is not found. If it is found, it has to fit.
    Optional,
    /// Taken if it is found and fits.
    Extra,
}

/// A component that is needed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The component.
    pub component: Component,
    /// The part of it that is used.
    pub part: Part,
    /// The accepted versions of the component.
    pub version: Option<semver::VersionReq>,
    /// Fit for parentheses: `needed to compile 2 .cu files`.
    pub why: String,
    /// How much.
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

    /// What a needed library needs in turn. A library that it links is needed as much as itself. A library that it
    /// opens by name is optional.
    fn dependencies(&self, major: u32) -> Vec<Self> {
        if self.part != Part::Shared || self.strength == Strength::Extra {
            return Vec::new();
        }
        let run_time = closure(&[self.component], major)
            .into_iter()
            .filter(|(_, kind)| kind.is_run_time());
        run_time
            .map(|(component, kind)| {
                let strength = match kind {
                    EdgeKind::Link => self.strength,
                    EdgeKind::Load => Strength::Optional,
                    EdgeKind::LoadIfThere | EdgeKind::Build => Strength::Extra,
                };
                let why = format!("`{}` needs it", self.component);
                Self::new(component, Part::Shared, why).with(strength)
            })
            .collect()
    }

    pub(crate) fn is_product(&self) -> bool {
        self.component.facts().bundle == Bundle::Product
    }

    pub(super) fn is_required(&self) -> bool {
        self.strength == Strength::Required
    }

    /// Whether `found` meets the need.
    #[must_use]
    pub fn is_met_by(&self, found: &Found) -> bool {
        let part = match self.part {
            Part::Headers => !found.include.is_empty(),
            Part::Shared => !found.libraries.is_empty(),
            Part::Archive => !found.archives.is_empty(),
            Part::Tools => !found.tools.is_empty(),
        };
        let version = match (&self.version, &found.version) {
            (Some(accepted), Some(version)) => accepted.matches(&semver::Version::new(
                version.part(0),
                version.part(1),
                version.part(2),
            )),
            _ => true,
        };
        found.component == self.component && part && version
    }
}

/// What the caller requests of a search.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Needed in any case.
    pub needs: Vec<Need>,
    /// One of these groups is needed, the first that is found: the accepted engines.
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
    #[must_use]
    pub fn admits_release(&self, release: ToolkitVersion) -> bool {
        self.major.is_none_or(|fixed| fixed == release.major) && release.matches(&self.toolkit)
    }

    /// Whether some release of this major is accepted.
    #[must_use]
    pub fn admits_major(&self, major: u32) -> bool {
        let minors = 0..100;
        minors
            .map(|minor| ToolkitVersion::new(major, minor))
            .any(|release| self.admits_release(release))
    }

    /// The major to fetch if nothing is found: the newest accepted one of the tables; `None` if major and requirement
    /// contradict each other.
    #[must_use]
    pub fn newest_major(&self) -> Option<u32> {
        release::majors()
            .rev()
            .chain(self.major)
            .find(|major| self.admits_major(*major))
    }

    /// Whether a set is of an accepted release.
    pub(super) fn admits(&self, set: &Set) -> bool {
        self.major.is_none_or(|major| major == set.major)
            && set
                .toolkit()
                .is_none_or(|toolkit| toolkit.matches(&self.toolkit))
    }

    /// The groups of which one has to be met: the needs with each alternative in turn, and what the libraries among
    /// them need in a toolkit of this major.
    pub(super) fn groups(&self, major: u32) -> Vec<(Option<usize>, Vec<Need>)> {
        let group = |more: &[Need]| -> Vec<Need> {
            let own: Vec<Need> = self.needs.iter().chain(more).cloned().collect();
            let dependencies = own
                .iter()
                .flat_map(|need| need.dependencies(major))
                .collect::<Vec<_>>();
            // What is requested by itself comes first: the rest has to fit it.
            own.into_iter().chain(dependencies).collect()
        };
        if self.alternatives.is_empty() {
            return vec![(None, group(&[]))];
        }
        self.alternatives
            .iter()
            .enumerate()
            .map(|(index, more)| (Some(index), group(more)))
            .collect()
    }
}

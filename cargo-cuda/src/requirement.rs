//! A requirement on a Python package, as in `Requires-Dist`: its versions, and the CUDA major that it is for.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use cuda_build::Component;
use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use pep440_rs::{Operator, Version, VersionSpecifiers};

use crate::wheel::metadata::normalized_name;
use crate::wheel::needs::has_metapackage;

/// NVIDIA's package with one extra for each component of the toolkit. It has the version of the toolkit.
const METAPACKAGE: &str = "cuda-toolkit";

/// One value of `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The line as it was written.
    pub text: String,
    /// The normalised name.
    pub name: String,
    /// The normalised names of the extras that it requires, sorted.
    pub extras: Vec<String>,
    /// The accepted versions, such as `>=13.0,<14`; `None` for a URL.
    pub versions: Option<VersionSpecifiers>,
    /// The environment marker after `;`, or an empty string.
    pub marker: String,
}

impl Requirement {
    /// Parses a line; the error is the reason why it is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (requirement, marker) = text.split_once(';').unwrap_or((text, ""));
        let requirement = requirement.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name_end = requirement
            .find(|c| !is_name(c))
            .unwrap_or(requirement.len());
        let (name, rest) = requirement.split_at(name_end);
        if name.is_empty() {
            return Err("no name".to_owned());
        }
        let rest = rest.trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("`[` without `]`")?,
            None => ("", rest),
        };
        let mut extras: Vec<String> = extras
            .split(',')
            .map(normalized_name)
            .filter(|extra| !extra.is_empty())
            .collect();
        extras.sort();
        let versions = rest.trim().trim_start_matches('(').trim_end_matches(')');
        let versions = match versions.starts_with('@') {
            true => None,
            false => Some(
                versions
                    .parse()
                    .map_err(|_| format!("`{versions}` is not a list of versions"))?,
            ),
        };
        Ok(Self {
            text: text.to_owned(),
            name: normalized_name(name),
            extras,
            versions,
            marker: marker.trim().to_owned(),
        })
    }

    /// Whether it holds only for an extra of the distribution.
    pub fn is_optional(&self) -> bool {
        self.marker.contains("extra")
    }

    /// The extra for which it holds: `cu12` of `extra == 'cu12'`.
    pub fn of_extra(&self) -> Option<String> {
        let (_, rest) = self.marker.split_once("extra")?;
        let rest = rest.trim_start().strip_prefix("==")?.trim_start();
        let quote = rest.chars().next().filter(|c| "'\"".contains(*c))?;
        Some(normalized_name(rest[1..].split(quote).next()?))
    }

    /// Whether there is a version that is too new.
    pub fn has_upper_bound(&self) -> bool {
        use Operator::{Equal, EqualStar, ExactEqual, LessThan, LessThanEqual, TildeEqual};
        let bounding = [
            Equal,
            EqualStar,
            ExactEqual,
            LessThan,
            LessThanEqual,
            TildeEqual,
        ];
        match &self.versions {
            Some(versions) => versions.iter().any(|s| bounding.contains(s.operator())),
            None => true,
        }
    }

    /// Whether a version satisfies the bounds. The version at a URL is not known.
    fn accepts(&self, version: &[u64]) -> bool {
        let version = Version::new(version.iter().copied());
        self.versions
            .as_ref()
            .is_some_and(|versions| versions.contains(&version))
    }

    /// The lowest version that the bounds name; `None` if there is no lower bound.
    pub fn lowest(&self) -> Option<Vec<u64>> {
        let bounds = self.versions.iter().flat_map(|versions| versions.iter());
        let lower = bounds.filter(|bound| {
            !matches!(
                bound.operator(),
                Operator::LessThan
                    | Operator::LessThanEqual
                    | Operator::NotEqual
                    | Operator::NotEqualStar
            )
        });
        lower.map(|bound| bound.version().release().to_vec()).max()
    }

    /// The majors that the accepted versions have.
    fn majors_of_versions(&self) -> RangeInclusive<u32> {
        let (mut first, mut last) = (OLDEST_MAJOR, u32::MAX);
        for specifier in self.versions.iter().flat_map(|versions| versions.iter()) {
            let release = specifier.version().release();
            let major = release.first().and_then(|major| u32::try_from(*major).ok());
            let Some(major) = major else { continue };
            match specifier.operator() {
                Operator::NotEqual | Operator::NotEqualStar => {}
                Operator::GreaterThan | Operator::GreaterThanEqual => first = first.max(major),
                // `<14` excludes 14, and `<14.1` does not.
                Operator::LessThan if release.iter().skip(1).all(|part| *part == 0) => {
                    last = last.min(major.saturating_sub(1));
                }
                Operator::LessThan | Operator::LessThanEqual => last = last.min(major),
                _ => (first, last) = (first.max(major), last.min(major)),
            }
        }
        first..=last
    }

    /// The CUDA majors that it is for; `None` if it does not depend on the major.
    pub fn cuda_majors(&self) -> Option<RangeInclusive<u32>> {
        if self.is_metapackage() {
            return Some(self.majors_of_versions());
        }
        if let Some(oldest) = self.oldest_unsuffixed_major() {
            return Some(oldest..=NEWEST_MAJOR);
        }
        let major = self.major_in_name()?;
        Some(major..=major)
    }

    /// The CUDA major that it is for; `None` if it is for several majors or does not depend on the major.
    pub fn cuda_major(&self) -> Option<u32> {
        let majors = self.cuda_majors()?;
        (majors.start() == majors.end()).then_some(*majors.start())
    }

    /// The 12 of `cupy-cuda12x`.
    pub fn major_in_name(&self) -> Option<u32> {
        self.name.split('-').find_map(major_of_word)
    }

    /// The first major whose toolkit has a package of this name without a suffix: 13 for `nvidia-cublas`.
    fn oldest_unsuffixed_major(&self) -> Option<u32> {
        let is_of = |major: &u32| {
            let mut all = Component::all().map(Component::facts);
            all.any(|facts| {
                facts.package(*major) == Some(&self.name) && has_metapackage(facts, *major)
            })
        };
        release::majors().find(is_of)
    }

    /// Whether it requires the metapackage `cuda-toolkit`, whose version is that of the toolkit.
    pub fn is_metapackage(&self) -> bool {
        self.name == METAPACKAGE
    }

    /// Whether it is one of NVIDIA's packages for a component, or the metapackage.
    pub fn is_known(&self) -> bool {
        self.is_metapackage() || self.components_named().next().is_some()
    }

    /// The components whose package has this name for some CUDA major.
    fn components_named(&self) -> impl Iterator<Item = Component> {
        Component::all().filter(|component| {
            release::majors().any(|major| component.facts().package(major) == Some(&self.name))
        })
    }

    /// Whether it is the package of a component for a CUDA major, or has the component's extra.
    pub fn names(&self, component: Component, major: u32) -> bool {
        let facts = component.facts();
        match self.is_metapackage() {
            true => facts
                .extra
                .is_some_and(|extra| self.extras.iter().any(|e| e == extra || e == "all")),
            false => facts.package(major) == Some(self.name.as_str()),
        }
    }

    /// The components that it brings for a CUDA major.
    pub fn components(&self, major: u32) -> BTreeSet<Component> {
        let named: Vec<Component> = Component::all().filter(|c| self.names(*c, major)).collect();
        // NVIDIA's packages require each other. The package of cuTENSOR does not.
        let requires: Vec<Component> = named
            .iter()
            .copied()
            .filter(|c| *c != Component::Cutensor)
            .collect();
        let more = closure(&requires, major).into_iter();
        let more = more.filter(|(_, kind)| matches!(kind, EdgeKind::Link | EdgeKind::Load));
        named
            .into_iter()
            .chain(more.map(|(component, _)| component))
            .collect()
    }

    /// Whether an environment that satisfies `self` has the package and the extras of `other`, in versions that the
    /// author has limited.
    pub fn covers(&self, other: &Self, major: u32) -> bool {
        self.name == other.name
            && self.marker.is_empty()
            && other.extras.iter().all(|e| self.extras.contains(e))
            && self.has_upper_bound()
            && self
                .cuda_majors()
                .is_none_or(|majors| majors == (major..=major))
    }

    /// What is wrong with the bound on the CUDA major; `None` if it is bounded, or not one of NVIDIA's packages.
    pub fn unbounded(&self) -> Option<String> {
        if let Some(unsuffixed) = self.placeholder() {
            return Some(format!(
                "requires `{}`, a placeholder without files; the package is `{unsuffixed}`",
                self.text
            ));
        }
        let next = match self.is_metapackage() {
            true => self.cuda_major().unwrap_or(NEWEST_MAJOR) + 1,
            false => self.oldest_unsuffixed_major()? + 1,
        };
        // The versions of some components are independent of the toolkit, so any upper bound is accepted for them.
        let next = match self.follows_toolkit() {
            true => u64::from(next),
            false => 999,
        };
        self.accepts(&[next, 0])
            .then(|| match self.follows_toolkit() {
                true => format!("requires `{}`, which CUDA {next} satisfies too", self.text),
                false => format!("requires `{}`, which has no upper bound", self.text),
            })
    }

    fn follows_toolkit(&self) -> bool {
        let mut named = self.components_named();
        self.is_metapackage() || named.any(|component| component.facts().follows_toolkit)
    }

    /// The real package, if this is one of the placeholders (`nvidia-cublas-cu13`) that only reserve a name.
    fn placeholder(&self) -> Option<&'static str> {
        let (base, major) = self.name.rsplit_once("-cu")?;
        let major: u32 = major.parse().ok()?;
        let mut packages = Component::all().filter_map(|c| c.facts().package(major));
        packages.find(|package| *package == base)
    }
}

/// The CUDA major that one part of a package's name stands for: 12 of `cu12`, `cu121`, `cuda12` and `cuda12x`.
pub fn major_of_word(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("cuda").or(word.strip_prefix("cu"))?;
    let digits = digits.strip_suffix('x').unwrap_or(digits);
    let is_release = (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let major = is_release.then(|| digits[..2].parse().ok())??;
    (major >= OLDEST_MAJOR).then_some(major)
}

#[cfg(test)]
#[path = "requirement_tests.rs"]
mod tests;

//! A requirement on a Python package, as in `Requires-Dist`: its versions, and the CUDA major that it is for.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use cuda_build::{Component, Version};
use cuda_find_core::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use pep440_rs::{Operator, VersionSpecifiers};

use super::metadata::normalized_name;
use super::nvidia::{has_metapackage, with_dependencies};
use crate::output::joined;

/// NVIDIA's package with one extra for each component of the toolkit. It has the version of the toolkit.
pub const METAPACKAGE: &str = "cuda-toolkit";

/// One value of `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The line as it was written.
    pub text: String,
    /// The normalised name.
    pub name: String,
    /// The normalised names of the extras that it requires, sorted.
    pub extras: Vec<String>,
    /// The lowest version that the bounds name, if there is a lower bound.
    pub lowest: Option<Version>,
    /// The major of the newest accepted version, if there is an upper bound; 13 of `<14`.
    last_major: Option<u32>,
    /// Whether the package at a URL is required, of whatever version.
    is_url: bool,
    /// The environment marker after `;`, or an empty string.
    pub marker: String,
}

impl Requirement {
    /// Parses a line; the error is the reason why it is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (requirement, marker) = text.split_once(';').unwrap_or((text, ""));
        let requirement = requirement.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name_end = requirement.find(|c| !is_name(c));
        let (name, rest) = requirement.split_at(name_end.unwrap_or(requirement.len()));
        if name.is_empty() {
            return Err("no name".to_owned());
        }
        let rest = rest.trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("`[` without `]`")?,
            None => ("", rest),
        };
        let mut extras: Vec<String> = extras.split(',').map(normalized_name).collect();
        extras.retain(|extra| !extra.is_empty());
        extras.sort();
        let versions = rest.trim().trim_start_matches('(').trim_end_matches(')');
        let is_url = versions.starts_with('@');
        let specifiers = if is_url { "" } else { versions };
        let Ok(specifiers) = specifiers.parse() else {
            return Err(format!("`{versions}` is not a list of versions"));
        };
        let (lowest, last_major) = bounds(&specifiers);
        Ok(Self {
            text: text.to_owned(),
            name: normalized_name(name),
            extras,
            lowest,
            last_major,
            is_url,
            marker: marker.trim().to_owned(),
        })
    }

    /// The extra for which it holds: `cu12` of `extra == 'cu12'`, as all tools write it.
    pub fn of_extra(&self) -> Option<String> {
        let (_, after) = self.marker.split_once("extra")?;
        let quoted = after.trim_start().strip_prefix("==")?;
        quoted.split(['\'', '"']).nth(1).map(normalized_name)
    }

    /// Whether there is a version that is too new. The version at a URL is the only one.
    pub fn has_upper_bound(&self) -> bool {
        self.is_url || self.last_major.is_some()
    }

    /// The CUDA majors that it is for; `None` if it does not depend on the major.
    pub fn cuda_majors(&self) -> Option<RangeInclusive<u32>> {
        if self.is_metapackage() {
            let lowest = self.lowest.as_ref().map(|lowest| lowest.part(0));
            let first = lowest.and_then(|major| u32::try_from(major).ok());
            let last = self.last_major.unwrap_or(u32::MAX);
            return Some(first.unwrap_or(OLDEST_MAJOR)..=last);
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
        release::majors().find(|major: &u32| {
            Component::all().map(Component::facts).any(|facts| {
                facts.package(*major) == Some(&self.name) && has_metapackage(facts, *major)
            })
        })
    }

    /// Whether it requires the metapackage `cuda-toolkit`, whose version is that of the toolkit.
    pub fn is_metapackage(&self) -> bool {
        self.name == METAPACKAGE
    }

    /// Whether it is one of NVIDIA's packages for a component, or the metapackage.
    pub fn is_nvidias(&self) -> bool {
        let is_of = |component: Component| {
            release::majors().any(|major| component.facts().package(major) == Some(&self.name))
        };
        self.is_metapackage() || Component::all().any(is_of)
    }

    /// Whether it is the package of a component for a CUDA major, or has the component's extra.
    pub fn names(&self, component: Component, major: u32) -> bool {
        let facts = component.facts();
        if !self.is_metapackage() {
            return facts.package(major) == Some(self.name.as_str());
        }
        let has = |extra: &str| self.extras.iter().any(|own| own == extra || own == "all");
        facts.extra.is_some_and(has)
    }

    /// The components that it brings for a CUDA major.
    pub fn components(&self, major: u32) -> BTreeSet<Component> {
        let named = Component::all().filter(|component| self.names(*component, major));
        let named = BTreeSet::from_iter(named);
        // NVIDIA's packages require each other. The package of cuTENSOR does not.
        let mut requiring = named.clone();
        requiring.remove(&Component::Cutensor);
        &named | &with_dependencies(&requiring, major)
    }

    /// Whether an environment that satisfies `self` has the package and the extras of `other`, in versions that the
    /// author has limited.
    pub fn covers(&self, other: &Self, major: u32) -> bool {
        self.name == other.name
            && self.marker.is_empty()
            && other.extras.iter().all(|e| self.extras.contains(e))
            && self.has_upper_bound()
            && [None, Some(major..=major)].contains(&self.cuda_majors())
    }

    /// What is wrong with the bound on the CUDA major; `None` if it is bounded, or not one of NVIDIA's packages.
    pub fn unbounded(&self) -> Option<String> {
        let text = &self.text;
        if let Some(unsuffixed) = self.placeholder() {
            return Some(format!(
                "requires `{text}`, a placeholder without files; the package is `{unsuffixed}`"
            ));
        }
        let is_bounded = match self.is_metapackage() {
            true => self.cuda_major().is_some(),
            false => self.oldest_unsuffixed_major().is_none() || self.has_upper_bound(),
        };
        (!is_bounded).then(|| format!("requires `{text}`, which newer CUDA majors satisfy too"))
    }

    /// The real package, if this is one of the placeholders (`nvidia-cublas-cu13`) that only reserve a name.
    fn placeholder(&self) -> Option<&'static str> {
        let (base, major) = self.name.rsplit_once("-cu")?;
        let major: u32 = major.parse().ok()?;
        let mut packages = Component::all().filter_map(|c| c.facts().package(major));
        packages.find(|package| *package == base)
    }
}

/// The lowest version that a list of bounds names, and the major of the newest.
fn bounds(specifiers: &VersionSpecifiers) -> (Option<Version>, Option<u32>) {
    let (mut lowest, mut last) = (None, None);
    for specifier in specifiers.iter() {
        let release = specifier.version().release();
        let version: Option<Version> = joined(release, ".").parse().ok();
        let mut major = release.first().and_then(|major| u32::try_from(*major).ok());
        let (is_lower, is_upper) = match specifier.operator() {
            Operator::NotEqual | Operator::NotEqualStar => (false, false),
            Operator::GreaterThan | Operator::GreaterThanEqual => (true, false),
            Operator::LessThan => {
                // `<14` excludes 14, and `<14.1` does not.
                let is_whole = release.iter().skip(1).all(|part| *part == 0);
                major = major.map(|major| major.saturating_sub(u32::from(is_whole)));
                (false, true)
            }
            Operator::LessThanEqual => (false, true),
            _ => (true, true),
        };
        if is_lower {
            lowest = lowest.max(version);
        }
        if is_upper {
            last = last.into_iter().chain(major).min();
        }
    }
    (lowest, last)
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

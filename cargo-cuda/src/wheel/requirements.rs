//! The requirements of the wheel of one major: those that its author wrote, and those on CUDA's packages.
//!
//! pyproject.toml has one list of dependencies for the wheels of all majors. So a dependency that belongs to one major is
//! an error, unless it is in an extra: `[project.optional-dependencies]` may have extras such as `cu12` and `cu13`,
//! and the wheel of a major keeps only what belongs to it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use cuda_build::Component;
use cuda_build::internal::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use pep440_rs::{Operator, VersionSpecifiers};

use super::dependencies::BuiltWith;
use super::metadata::{Metadata, normalized_name};
use super::needs::{Needs, has_metapackage};
use crate::failure::Failure;

/// NVIDIA's package with one extra for each component of the toolkit.
const METAPACKAGE: &str = "cuda-toolkit";

/// One value of `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
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
    pub fn parse(text: &str) -> Self {
        let (text, marker) = text.split_once(';').unwrap_or((text, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name_end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_end);
        let rest = rest.trim_start();
        let brackets = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (extras, rest) = brackets.unwrap_or(("", rest));
        let mut extras: Vec<String> = extras
            .split(',')
            .map(normalized_name)
            .filter(|extra| !extra.is_empty())
            .collect();
        extras.sort();
        let versions = rest.trim().trim_start_matches('(').trim_end_matches(')');
        Self {
            name: normalized_name(name),
            extras,
            versions: versions.parse().ok(),
            marker: marker.trim().to_owned(),
        }
    }

    /// The extra for which the requirement holds: `cu12` of `extra == 'cu12'`.
    fn of_extra(&self) -> Option<String> {
        let (_, rest) = self.marker.split_once("extra")?;
        let rest = rest.trim_start().strip_prefix("==")?.trim_start();
        let quote = rest.chars().next().filter(|c| "'\"".contains(*c))?;
        Some(normalized_name(rest[1..].split(quote).next()?))
    }

    /// Whether there is a version that is too new.
    fn has_upper_bound(&self) -> bool {
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

    /// The majors that the accepted versions have.
    fn majors(&self) -> RangeInclusive<u32> {
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

    /// The CUDA majors that the requirement is for; `None` if it does not depend on the major.
    pub fn cuda_majors(&self) -> Option<RangeInclusive<u32>> {
        if self.name == METAPACKAGE {
            return Some(self.majors());
        }
        if let Some(oldest) = oldest_major_of_package(&self.name) {
            return Some(oldest..=NEWEST_MAJOR);
        }
        let major = self.major_in_name()?;
        Some(major..=major)
    }

    fn major_in_name(&self) -> Option<u32> {
        self.name.split('-').find_map(major_of_word)
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
}

/// The 12 of `cu12`, `cu121`, `cuda12` and `cuda12x`.
fn major_of_word(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("cuda").or(word.strip_prefix("cu"))?;
    let digits = digits.strip_suffix('x').unwrap_or(digits);
    let is_release = (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_release.then(|| digits[..2].parse().ok())?
}

/// The first major whose toolkit has a package of this name without a suffix: 13 for `nvidia-cublas`.
fn oldest_major_of_package(name: &str) -> Option<u32> {
    let is_of = |major: &u32| {
        let mut all = Component::all().map(Component::facts);
        all.any(|facts| facts.package(*major) == Some(name) && has_metapackage(facts, *major))
    };
    release::majors().find(is_of)
}

/// The requirements of a distribution, and the extras that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The values of `Requires-Dist`.
    pub requires: Vec<String>,
    /// The values of `Provides-Extra`.
    pub extras: Vec<String>,
}

impl Requirements {
    /// The author's requirements.
    pub fn of(metadata: &Metadata) -> Self {
        let all = |header| metadata.all(header).map(str::to_owned).collect();
        Self {
            requires: all("Requires-Dist"),
            extras: all("Provides-Extra"),
        }
    }

    /// Writes them into the metadata.
    pub fn write(&self, metadata: &mut Metadata) {
        metadata.set_all("Requires-Dist", &self.requires);
        metadata.set_all("Provides-Extra", &self.extras);
    }

    /// Replaces the author's requirements in the metadata by those for one major, and returns them. `names` are the old
    /// and the new name of the distribution, and `dependencies` the author's requirements for this major alone.
    pub fn update(
        metadata: &mut Metadata,
        names: [&str; 2],
        needs: &Needs,
        dependencies: &[String],
        (major, built_with): (u32, &BuiltWith),
    ) -> Result<Vec<String>, Failure> {
        let mut requirements = Self::of(metadata);
        requirements.requires.extend(dependencies.iter().cloned());
        let [old_name, new_name] = names;
        requirements.limit_to(major, old_name, new_name)?;
        requirements.add(&needs.requirements(major, built_with)?, major);
        for component in needs.extras(major) {
            requirements.add_extra(component.id());
        }
        requirements.write(metadata);
        Ok(requirements.requires)
    }

    /// Keeps what belongs to one major, and renames the distribution, which its own extras may require
    /// (`saxpy[plot]; extra == 'all'`).
    ///
    /// Fails if a dependency without an extra belongs to another major, or if the packages of the next CUDA major
    /// would satisfy a dependency.
    pub fn limit_to(&mut self, major: u32, old_name: &str, new_name: &str) -> Result<(), Failure> {
        let mut of_other_majors = BTreeSet::new();
        let mut kept = Vec::new();
        let mut used = BTreeSet::new();
        for line in &self.requires {
            let requirement = Requirement::parse(line);
            let extra = requirement.of_extra();
            if let Some(majors) = requirement.cuda_majors() {
                if !majors.contains(&major) {
                    let extra = extra.ok_or_else(|| of_another_major(line, major, &majors))?;
                    of_other_majors.insert(extra);
                    continue;
                }
                if requirement.major_in_name().is_none() && !requirement.has_upper_bound() {
                    return Err(unbounded(line, major));
                }
            }
            used.extend(extra);
            kept.push(line.clone());
        }
        let is_dropped = |extra: &String| of_other_majors.contains(extra) && !used.contains(extra);
        self.extras
            .retain(|extra| !is_dropped(&normalized_name(extra)));
        let old_name = normalized_name(old_name);
        kept.retain_mut(|line| {
            let requirement = Requirement::parse(line);
            if requirement.name != old_name {
                return true;
            }
            let extras = requirement.extras.iter().filter(|extra| !is_dropped(extra));
            let names: Vec<&str> = extras.map(String::as_str).collect();
            let brackets = if names.is_empty() {
                String::new()
            } else {
                format!("[{}]", names.join(","))
            };
            let end = line
                .find(|c: char| "(<>=!~@;".contains(c))
                .unwrap_or(line.len());
            *line = format!("{new_name}{brackets}{}", &line[end..]);
            requirement.extras.is_empty() || !names.is_empty()
        });
        self.requires = kept;
        Ok(())
    }

    /// Adds requirements on CUDA's packages. One that the author wrote with other bounds is left out.
    pub fn add(&mut self, lines: &[String], major: u32) {
        let own: Vec<Requirement> = self
            .requires
            .iter()
            .map(|line| Requirement::parse(line))
            .collect();
        for line in lines {
            let added = Requirement::parse(line);
            if !own.iter().any(|have| have.covers(&added, major)) && !self.requires.contains(line) {
                self.requires.push(line.clone());
            }
        }
    }

    /// Adds an extra.
    pub fn add_extra(&mut self, extra: &str) {
        if !self
            .extras
            .iter()
            .any(|have| normalized_name(have) == normalized_name(extra))
        {
            self.extras.push(extra.to_owned());
        }
    }
}

fn of_another_major(line: &str, major: u32, majors: &RangeInclusive<u32>) -> Failure {
    let other = if majors.start() > &major {
        majors.start()
    } else {
        majors.end()
    };
    Failure::wheel(format!(
        "the project requires `{line}`, but the wheel is for CUDA {major}"
    ))
    .hint(format!(
        "move it from `[project].dependencies` to `dependencies` in `[package.metadata.cuda.major.{other}]` of Cargo.toml"
    ))
}

fn unbounded(line: &str, major: u32) -> Failure {
    Failure::wheel(format!(
        "the project requires `{line}` without an upper bound, so the packages of the next CUDA major would satisfy it"
    ))
    .hint(format!(
        "remove it, and list its component in `components` of `[package.metadata.cuda]`: each wheel then requires the \
         packages of its own major; or limit it, as in `cuda-toolkit[cudart]>={major}.0,<{}`",
        major + 1
    ))
}

#[cfg(test)]
#[path = "requirements_tests.rs"]
mod tests;

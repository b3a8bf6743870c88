//! The requirements of the wheel of one major: those that its author wrote, and those on CUDA's packages.
//!
//! pyproject.toml has one list of dependencies for the wheels of all majors. So a dependency that belongs to one major is
//! an error, unless it is in an extra: `[project.optional-dependencies]` may have extras such as `cu12` and `cu13`,
//! and the wheel of a major keeps only what belongs to it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::dependencies::BuiltWith;
use super::metadata::{Metadata, normalized_name};
use super::needs::Needs;
use crate::failure::Failure;
use crate::requirement::Requirement;

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
            // The audit reports a requirement that is not valid.
            let Ok(requirement) = Requirement::parse(line) else {
                kept.push(line.clone());
                continue;
            };
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
            let Some(requirement) = Requirement::parse(line).ok().filter(|r| r.name == old_name)
            else {
                return true;
            };
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
        let parse = |line: &String| Requirement::parse(line).ok();
        let own: Vec<Requirement> = self.requires.iter().filter_map(parse).collect();
        for line in lines {
            let is_covered =
                parse(line).is_some_and(|added| own.iter().any(|have| have.covers(&added, major)));
            if !is_covered && !self.requires.contains(line) {
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

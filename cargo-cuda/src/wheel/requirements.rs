//! The requirements of the wheel of one major: those that its author wrote, and those on CUDA's packages.

use std::ops::RangeInclusive;

use super::needs::Needs;
use crate::failure::{Failure, Result};
use crate::package::metadata::{Metadata, normalized_name};
use crate::package::requirement::Requirement;

/// Replaces the author's requirements in the metadata by those for one major, and returns them. `names` are the old and
/// the new name of the distribution, and `dependencies` the author's requirements for this major alone.
pub fn update(
    metadata: &mut Metadata,
    names: [&str; 2],
    needs: &Needs,
    dependencies: &[String],
) -> Result<Vec<String>> {
    let major = needs.built_with.major();
    let mut lines: Vec<String> = metadata.all("Requires-Dist").map(str::to_owned).collect();
    lines.extend(dependencies.iter().cloned());
    check(&lines, major)?;
    rename(&mut lines, names);
    add(&mut lines, &needs.requirements()?, major);
    metadata.set_all("Requires-Dist", &lines);
    for component in needs.extras() {
        let extra = normalized_name(component.id());
        let is_same = |name: &str| normalized_name(name) == extra;
        if !metadata.all("Provides-Extra").any(is_same) {
            metadata.add("Provides-Extra", component.id());
        }
    }
    Ok(lines)
}

/// The requirements that can be parsed, with their lines. The audit reports the others.
fn parsed(lines: &[String]) -> impl Iterator<Item = (&String, Requirement)> {
    let lines = lines.iter();
    lines.filter_map(|line| Some((line, Requirement::parse(line).ok()?)))
}

/// Fails if a dependency without an extra belongs to another major, or if the packages of the next CUDA major would
/// satisfy a dependency: pyproject.toml has one list for the wheels of all majors.
fn check(lines: &[String], major: u32) -> Result<()> {
    for (line, requirement) in parsed(lines) {
        let Some(majors) = requirement.cuda_majors() else {
            continue;
        };
        if !majors.contains(&major) {
            if requirement.of_extra().is_none() {
                return Err(of_another_major(line, major, &majors));
            }
        } else if requirement.major_in_name().is_none() && !requirement.has_upper_bound() {
            return Err(unbounded(line, major));
        }
    }
    Ok(())
}

/// Renames the distribution, which its own extras may require: `saxpy[plot]; extra == 'all'`.
fn rename(lines: &mut [String], [old_name, new_name]: [&str; 2]) {
    let old_name = normalized_name(old_name);
    for line in lines {
        if Requirement::parse(line).is_ok_and(|requirement| requirement.name == old_name) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let rest = line.trim_start().trim_start_matches(is_name);
            *line = format!("{new_name}{rest}");
        }
    }
}

/// Adds requirements on CUDA's packages. One that the author wrote with other bounds is left out.
fn add(lines: &mut Vec<String>, added: &[String], major: u32) {
    let authors: Vec<Requirement> = parsed(lines).map(|(_, requirement)| requirement).collect();
    for (line, requirement) in parsed(added) {
        if !authors.iter().any(|have| have.covers(&requirement, major)) && !lines.contains(line) {
            lines.push(line.clone());
        }
    }
}

fn of_another_major(line: &str, major: u32, majors: &RangeInclusive<u32>) -> Failure {
    let is_newer = majors.start() > &major;
    let other = if is_newer {
        majors.start()
    } else {
        majors.end()
    };
    let text = format!("the project requires `{line}`, but the wheel is for CUDA {major}");
    Failure::wheel(text).hint(format!(
        "move it from `[project].dependencies` to `dependencies` in `[package.metadata.cuda.major.{other}]` of \
         Cargo.toml"
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

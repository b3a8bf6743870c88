//! The requirements of the wheel of one major: those that its author wrote, and those on CUDA's packages.

use super::needs::Needs;
use crate::failure::Result;
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

#[cfg(test)]
#[path = "requirements_tests.rs"]
mod tests;

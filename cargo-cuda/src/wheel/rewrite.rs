//! Rewrites maturin's wheel into the wheel of one CUDA major.
//!
//! `saxpy-0.1.0-….whl` becomes `saxpy_cu12-0.1.0-….whl`. Only the distribution gets another name
//! and more requirements: the package is imported as `saxpy` for every major, so an environment can
//! have the wheel of only one major.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::archive::{self, Entry, Wheel};
use super::dependencies::{self, BuiltWith};
use super::elf::{self, ElfFacts};
use super::filename::{FileName, with_local_platform};
use super::foreign;
use super::metadata::{
    IN_MANIFEST, Metadata, Requirement, check_name, check_version, file_name_component,
    normalized_name,
};
use super::programs;
use super::runpath::SearchPathPlan;
use super::sbom;
use crate::failure::Failure;

/// How a wheel is rewritten.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The distribution's name without `-cu12`; `None` for the name in maturin's wheel.
    pub name: Option<String>,
    /// The CUDA major.
    pub major: u32,
    /// The search path of the native modules.
    pub runpath: SearchPathPlan,
    /// The component versions with which the wheel was built.
    pub built_with: BuiltWith,
    /// Components that the code loads with `dlopen`, which an ELF file does not list.
    pub dlopened: BTreeSet<Component>,
    /// Libraries that the user expects on every machine, as in [`foreign::is_excluded`].
    pub excluded: Vec<String>,
}

/// A wheel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltWheel {
    /// The file.
    pub path: PathBuf,
    /// The requirements on CUDA packages that were added.
    pub requires: Vec<String>,
    /// The oldest glibc that it runs on, as maturin computed it.
    pub glibc: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine. The wheel has no manylinux tag then.
    pub expected_on_system: Vec<String>,
}

/// A rewritten wheel that is not written yet.
struct Rewritten {
    wheel: Wheel,
    name: String,
    requires: Vec<String>,
    expected_on_system: Vec<String>,
    /// Whether the wheel may have a manylinux tag.
    is_portable: bool,
}

impl Rewrite {
    /// Rewrites the wheel at `input` into `out_dir`. Writes nothing on failure.
    pub fn apply(&self, input: &Path, out_dir: &Path) -> Result<BuiltWheel, Failure> {
        let wheel = archive::read(input)?;
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        let mut file_name = FileName::parse(&name).ok_or_else(|| {
            Failure::wheel("not a wheel's file name (`name-version-python-abi-platform.whl`)")
                .in_file(&name)
        })?;
        let rewritten = self
            .rewrite(wheel, &file_name)
            .map_err(|failure| failure.in_file(&name))?;
        file_name.distribution = file_name_component(&rewritten.name);
        if !rewritten.is_portable {
            file_name.rest = with_local_platform(&file_name.rest);
        }
        let path = out_dir.join(file_name.to_string());
        let size = archive::write(&rewritten.wheel, &path)?;
        Ok(BuiltWheel {
            path,
            requires: rewritten.requires,
            glibc: file_name.glibc(),
            size,
            expected_on_system: rewritten.expected_on_system,
        })
    }

    fn rewrite(&self, wheel: Wheel, file_name: &FileName) -> Result<Rewritten, Failure> {
        let Wheel {
            dist_info,
            mut entries,
        } = wheel;
        elf::reject_bundled_libraries(&entries, &dist_info)?;
        let mut metadata =
            Metadata::parse(&take_text(&mut entries, &format!("{dist_info}/METADATA"))?);
        let old_name = metadata.one("Name")?.to_owned();
        check_version(metadata.one("Version")?, &file_name.version)?;
        let (base, origin) = match &self.name {
            Some(name) => (name, IN_MANIFEST),
            None => (&old_name, "`Name` in METADATA"),
        };
        check_name(base, origin)?;
        let name = with_cuda_suffix(base, self.major)?;

        programs::move_below_site_packages(&mut entries, &name, self.major)?;
        let needed = self.needed_libraries(&entries, &dist_info)?;
        let needed: BTreeSet<&str> = needed.iter().map(String::as_str).collect();
        let mut components = dependencies::components(needed.iter().copied(), self.major)?;
        components.extend(&self.dlopened);
        let requires = dependencies::requirements(&components, self.major, &self.built_with)?;
        let expected_on_system =
            foreign::libraries(needed.iter().copied(), entries.keys(), self.major)?;
        let is_portable = expected_on_system
            .iter()
            .all(|soname| foreign::is_excluded(soname, &self.excluded));
        if !is_portable {
            let path = format!("{dist_info}/WHEEL");
            let text = take_text(&mut entries, &path)?;
            entries.insert(path, text_entry(without_portable_tags(&text)));
        }
        self.rewrite_metadata(&mut metadata, &old_name, &name, &requires)?;

        let old_stem = dist_info.trim_end_matches(".dist-info");
        let new_stem = format!("{}-{}", file_name_component(&name), file_name.version);
        let moved = |path: String| match path.strip_prefix(old_stem) {
            Some(rest) if rest.starts_with(".dist-info/") || rest.starts_with(".data/") => {
                format!("{new_stem}{rest}")
            }
            _ => path,
        };
        let mut entries: BTreeMap<String, Entry> = entries
            .into_iter()
            .map(|(path, entry)| (moved(path), entry))
            .collect();
        let dist_info = format!("{new_stem}.dist-info");
        for (path, entry) in &mut entries {
            if path.starts_with(&format!("{dist_info}/sboms/")) {
                entry.content = sbom::reproducible(&entry.content);
            }
        }
        entries.insert(
            format!("{dist_info}/METADATA"),
            text_entry(metadata.to_string()),
        );
        Ok(Rewritten {
            wheel: Wheel { dist_info, entries },
            name,
            requires,
            expected_on_system,
            is_portable,
        })
    }

    /// The SONAMEs that the native modules need. Fails if a module has a wrong search path.
    fn needed_libraries(
        &self,
        entries: &BTreeMap<String, Entry>,
        dist_info: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        let modules: BTreeMap<&String, ElfFacts> = entries
            .iter()
            .filter(|(path, entry)| !path.starts_with(dist_info) && elf::is_elf(&entry.content))
            .map(|(path, entry)| {
                let facts = ElfFacts::parse(&entry.content).map_err(|f| f.in_file(path))?;
                Ok((path, facts))
            })
            .collect::<Result<_, Failure>>()?;
        if modules.is_empty() {
            return Err(Failure::wheel(
                "contains no native module: a pure Python wheel is the same for every CUDA major",
            ));
        }
        for (path, facts) in &modules {
            // Check the majors before the search path: if both are wrong, the error about the major is clearer.
            dependencies::components(facts.needed.iter().map(String::as_str), self.major)?;
            let is_inside = |directory: &str| {
                let directory = format!("{directory}/");
                entries.keys().any(|path| path.starts_with(&directory))
            };
            self.runpath.check(path, facts, is_inside)?;
        }
        Ok(modules.into_values().flat_map(|m| m.needed).collect())
    }

    fn rewrite_metadata(
        &self,
        metadata: &mut Metadata,
        old_name: &str,
        name: &str,
        requires: &[String],
    ) -> Result<(), Failure> {
        let old = normalized_name(old_name);
        for old in metadata.all_mut("Name") {
            *old = name.to_owned();
        }
        for requirement in metadata.all_mut("Requires-Dist") {
            let parsed = Requirement::parse(requirement);
            // A requirement on the package itself, such as `saxpy[plot]` in saxpy's extra `all`.
            if parsed.name == old {
                let end =
                    requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
                let rest = end.map_or("", |end| &requirement[end..]);
                *requirement = format!("{name}{rest}");
            }
            if cuda_suffix(&parsed.name)
                .is_some_and(|other| parsed.name.starts_with("nvidia-") && other != self.major)
            {
                return Err(Failure::wheel(format!(
                    "the project requires `{requirement}`, but the wheel is for CUDA {}",
                    self.major
                ))
                .hint("remove it from `[project].dependencies`: each wheel gets the packages for its own major"));
            }
        }
        let present: Vec<Requirement> = metadata
            .all("Requires-Dist")
            .map(Requirement::parse)
            .collect();
        for line in requires {
            let wanted = Requirement::parse(line);
            if !present.iter().any(|have| have.covers(&wanted)) {
                metadata.add("Requires-Dist", line);
            }
        }
        metadata.add(
            "Classifier",
            &format!("Environment :: GPU :: NVIDIA CUDA :: {}", self.major),
        );
        Ok(())
    }
}

/// The `WHEEL` file with tags that promise nothing about the libraries of a machine.
fn without_portable_tags(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = match line.strip_prefix("Tag: ") {
            Some(tag) => format!("Tag: {}", with_local_platform(tag.trim())),
            None => line.to_owned(),
        };
        // Several tags may become the same one.
        if !line.starts_with("Tag: ") || !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

fn text_entry(text: String) -> Entry {
    Entry {
        content: text.into_bytes(),
        executable: false,
    }
}

fn take_text(entries: &mut BTreeMap<String, Entry>, path: &str) -> Result<String, Failure> {
    let entry = entries
        .remove(path)
        .ok_or_else(|| Failure::wheel(format!("`{path}` is missing")))?;
    String::from_utf8(entry.content).map_err(|_| Failure::wheel(format!("`{path}` is not UTF-8")))
}

/// `saxpy-cu12` of `saxpy`.
fn with_cuda_suffix(name: &str, major: u32) -> Result<String, Failure> {
    let normalized = normalized_name(name);
    match cuda_suffix(&normalized) {
        Some(other) => Err(Failure::wheel(format!(
            "the name `{name}` already ends with a CUDA major ({other})"
        ))),
        None => Ok(format!("{normalized}-cu{major}")),
    }
}

/// The `12` of `saxpy-cu12`.
fn cuda_suffix(normalized: &str) -> Option<u32> {
    normalized.rsplit_once("-cu")?.1.parse().ok()
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;

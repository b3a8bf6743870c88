//! From a builder's wheel to the wheel of one CUDA major.
//!
//! `saxpy-0.1.0-….whl` with `saxpy/saxpy.abi3.so` becomes `saxpy_cu12-0.1.0-….whl` with
//! `saxpy_cu12/saxpy.abi3.so`. The module keeps its own name, so that Python still finds
//! `PyInit_saxpy` in it; and the wheels of two majors share no file, so that installing or
//! removing one leaves the other alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::Component;
use serde_json::json;

use super::archive::{self, Entry, Wheel};
use super::dependencies::{self, BuiltWith, Origin};
use super::elf::{self, ElfFacts};
use super::filename::FileName;
use super::metadata::{
    IN_MANIFEST, Metadata, Requirement, check_name, check_version, file_name_component,
    normalized_name,
};
use super::runpath::RunpathPlan;
use super::{WheelError, python, sbom};

/// How a wheel is rewritten.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The distribution's name without `-cu12`; `None` for the name in the builder's wheel.
    pub name: Option<String>,
    /// The CUDA major.
    pub major: u32,
    /// The search path of its native modules.
    pub runpath: RunpathPlan,
    /// The versions of the components that it was built with.
    pub built_with: BuiltWith,
    /// Components that the code loads with `dlopen`, which an ELF file does not list.
    pub loaded_at_run_time: BTreeSet<Component>,
    /// The capabilities with SASS, such as `9.0a`.
    pub capabilities: Vec<String>,
    /// The capabilities with PTX.
    pub ptx: Vec<String>,
}

/// A wheel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltWheel {
    /// The file.
    pub path: PathBuf,
    /// The name of the distribution: `saxpy-cu12`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The import package: `saxpy_cu12`.
    pub package: String,
    /// The requirements on CUDA packages that were added.
    pub requires: Vec<String>,
    /// Its compatibility tags, as the builder computed them.
    pub tags: Vec<String>,
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine.
    pub expected_on_system: Vec<String>,
}

impl Rewrite {
    /// Reads the wheel at `input`, and writes the new one into `out_dir`.
    pub fn apply(&self, input: &Path, out_dir: &Path) -> Result<BuiltWheel, WheelError> {
        let invalid = |reason: &str| WheelError::InvalidWheel {
            path: input.to_owned(),
            reason: reason.to_owned(),
        };
        let mut file_name = input
            .file_name()
            .and_then(|name| FileName::parse(name.to_str()?))
            .ok_or_else(|| {
                invalid("not named as a wheel (`name-version-python-abi-platform.whl`)")
            })?;
        let rewritten =
            self.rewrite(archive::read(input)?, &file_name)
                .map_err(|error| match error {
                    // `rewrite` does not know the path of the wheel.
                    WheelError::InvalidWheel { path, reason } if path.as_os_str().is_empty() => {
                        invalid(&reason)
                    }
                    other => other,
                })?;
        file_name.distribution = file_name_component(&rewritten.name);
        let path = out_dir.join(file_name.to_string());
        let size = archive::write(&rewritten.wheel, &path)?;
        Ok(BuiltWheel {
            path,
            name: rewritten.name,
            version: file_name.version.clone(),
            package: rewritten.package,
            requires: rewritten.requires,
            tags: file_name.tags(),
            size,
            expected_on_system: rewritten.expected_on_system,
        })
    }

    fn rewrite(&self, wheel: Wheel, file_name: &FileName) -> Result<Rewritten, WheelError> {
        let Wheel {
            dist_info,
            mut entries,
        } = wheel;
        elf::refuse_grafted(&entries, &dist_info)?;
        let mut metadata =
            Metadata::parse(&take_text(&mut entries, &format!("{dist_info}/METADATA"))?);
        let old_name = metadata.one("Name")?.to_owned();
        check_name(&old_name, "`Name` in METADATA")?;
        check_version(metadata.one("Version")?, &file_name.version)?;
        if let Some(name) = &self.name {
            check_name(name, IN_MANIFEST)?;
        }
        let name = suffixed(self.name.as_deref().unwrap_or(&old_name), self.major)?;
        let package = python::import_package(&entries, &dist_info)?;
        let renamed = format!("{package}_cu{}", self.major);
        python::refuse_absolute_imports(&entries, &package)?;

        let modules = self.native_modules(&entries, &dist_info)?;
        let needed: BTreeSet<&str> = modules
            .values()
            .flat_map(|m| m.needed.iter().map(String::as_str))
            .collect();
        let mut components = dependencies::components(needed.iter().copied(), self.major)?;
        components.extend(&self.loaded_at_run_time);
        let requires = dependencies::requirements(&components, self.major, &self.built_with)?;
        let expected_on_system = self.expected_on_system(&needed, &entries)?;

        self.rewrite_metadata(&mut metadata, &old_name, &name, &requires)?;
        for value in metadata.all_mut("Import-Name") {
            if let Some(import) = python::rename_module(value, &package, &renamed) {
                *value = import;
            }
        }

        let stem = format!("{}-{}", file_name_component(&name), file_name.version);
        let places = Places {
            dist_info: (dist_info.clone(), format!("{stem}.dist-info")),
            data: (
                dist_info.replace(".dist-info", ".data"),
                format!("{stem}.data"),
            ),
            package: (package, renamed.clone()),
        };
        let mut moved: BTreeMap<String, Entry> = entries
            .into_iter()
            .map(|(path, mut entry)| {
                rewrite_text(&path, &mut entry, &places);
                (places.moved(&path), entry)
            })
            .collect();
        moved.insert(
            format!("{}/METADATA", places.dist_info.1),
            text_entry(metadata.to_string()),
        );
        moved.insert(
            format!("{renamed}/_build.json"),
            text_entry(self.build_info(&components, &requires)),
        );
        let wheel = Wheel {
            dist_info: places.dist_info.1,
            entries: moved,
        };
        Ok(Rewritten {
            wheel,
            name,
            package: renamed,
            requires,
            expected_on_system,
        })
    }

    /// The ELF files of the wheel, their search paths checked.
    fn native_modules(
        &self,
        entries: &BTreeMap<String, Entry>,
        dist_info: &str,
    ) -> Result<BTreeMap<String, ElfFacts>, WheelError> {
        let mut modules = BTreeMap::new();
        for (path, entry) in entries {
            if path.starts_with(dist_info) || !elf::is_elf(&entry.content) {
                continue;
            }
            let facts = ElfFacts::parse(&entry.content).map_err(|error| match error {
                WheelError::InvalidElf { reason } => WheelError::InvalidElf {
                    reason: format!("{path}: {reason}"),
                },
                other => other,
            })?;
            // First the needed libraries: a library of another major is the clearer message.
            dependencies::components(facts.needed.iter().map(String::as_str), self.major)?;
            self.runpath.check(path, &facts)?;
            modules.insert(path.clone(), facts);
        }
        if modules.is_empty() {
            return Err(invalid(
                "holds no native module: a pure Python wheel is the same for every CUDA major",
            ));
        }
        Ok(modules)
    }

    fn expected_on_system(
        &self,
        needed: &BTreeSet<&str>,
        entries: &BTreeMap<String, Entry>,
    ) -> Result<Vec<String>, WheelError> {
        let inside = |soname: &str| {
            entries
                .keys()
                .any(|path| path.rsplit('/').next() == Some(soname))
        };
        let mut expected = Vec::new();
        for &soname in needed {
            let foreign = dependencies::origin(soname, self.major)? == Origin::Foreign;
            if foreign && !elf::MANYLINUX.contains(&soname) && !inside(soname) {
                expected.push(soname.to_owned());
            }
        }
        Ok(expected)
    }

    fn rewrite_metadata(
        &self,
        metadata: &mut Metadata,
        old_name: &str,
        name: &str,
        requires: &[String],
    ) -> Result<(), WheelError> {
        let old = normalized_name(old_name);
        metadata.set("Name", name);
        for requirement in metadata.all_mut("Requires-Dist") {
            let parsed = Requirement::parse(requirement);
            // A requirement on itself, such as `saxpy[plot]` in saxpy's extra `all`.
            if parsed.name == old {
                let end =
                    requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
                let rest = end.map_or("", |end| &requirement[end..]);
                *requirement = format!("{name}{rest}");
            }
            if cuda_suffix(&parsed.name)
                .is_some_and(|other| parsed.name.starts_with("nvidia-") && other != self.major)
            {
                let requirement = requirement.clone();
                return Err(WheelError::ForeignRequirement {
                    requirement,
                    major: self.major,
                });
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

    /// `_build.json`: how the wheel was built.
    fn build_info(&self, components: &BTreeSet<Component>, requires: &[String]) -> String {
        let versions: BTreeMap<&str, String> = components
            .iter()
            .filter_map(|c| Some((c.id(), self.built_with.components.get(c)?.to_string())))
            .collect();
        let document = json!({
            "format_version": 1,
            "cuda_major": self.major,
            "toolkit": self.built_with.toolkit.to_string(),
            "components": versions,
            "capabilities": self.capabilities,
            "ptx": self.ptx,
            "requires": requires,
        });
        format!("{document:#}\n")
    }
}

fn rewrite_text(path: &str, entry: &mut Entry, places: &Places) {
    let Some(inside) = path
        .strip_prefix(&places.dist_info.0)
        .and_then(|p| p.strip_prefix('/'))
    else {
        return;
    };
    let (old, new) = &places.package;
    let text = |entry: &Entry| String::from_utf8_lossy(&entry.content).into_owned();
    match inside {
        "entry_points.txt" => {
            entry.content = python::rename_entry_points(&text(entry), old, new).into_bytes();
        }
        "top_level.txt" => {
            entry.content = python::rename_top_level(&text(entry), old, new).into_bytes();
        }
        _ if inside.starts_with("sboms/") => {
            entry.content = sbom::reproducible(&entry.content);
        }
        _ => {}
    }
}

struct Rewritten {
    wheel: Wheel,
    name: String,
    package: String,
    requires: Vec<String>,
    expected_on_system: Vec<String>,
}

/// The directories that are renamed: (old, new).
struct Places {
    dist_info: (String, String),
    data: (String, String),
    package: (String, String),
}

impl Places {
    fn moved(&self, path: &str) -> String {
        let (top, rest) = path.split_once('/').unwrap_or((path, ""));
        let renamed = [&self.dist_info, &self.data, &self.package]
            .into_iter()
            .find(|(old, _)| old == top);
        match renamed {
            Some((_, new)) => format!("{new}/{rest}"),
            None => path.to_owned(),
        }
    }
}

/// An error about the wheel as a whole; its path is filled in by [`Rewrite::apply`].
pub(super) fn invalid(reason: &str) -> WheelError {
    WheelError::InvalidWheel {
        path: PathBuf::new(),
        reason: reason.to_owned(),
    }
}

fn text_entry(text: String) -> Entry {
    Entry {
        content: text.into_bytes(),
        executable: false,
    }
}

fn take_text(entries: &mut BTreeMap<String, Entry>, path: &str) -> Result<String, WheelError> {
    let entry = entries
        .remove(path)
        .ok_or_else(|| invalid(&format!("`{path}` is missing")))?;
    String::from_utf8(entry.content).map_err(|_| invalid(&format!("`{path}` is not UTF-8")))
}

/// `saxpy-cu12` of `saxpy`.
fn suffixed(name: &str, major: u32) -> Result<String, WheelError> {
    let normalized = normalized_name(name);
    match cuda_suffix(&normalized) {
        Some(other) => Err(invalid(&format!(
            "`{name}` is a wheel of one CUDA major ({other}) already"
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

//! Rewrites maturin's wheel into the wheel of one CUDA major.
//!
//! `saxpy-0.1.0-….whl` becomes `saxpy_cu12-0.1.0-….whl`. Only the distribution gets another name
//! and more requirements: the package is imported as `saxpy` for every major, so an environment can
//! have the wheel of only one major.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::archive::Wheel;
use super::archive_writer;
use super::dependencies::{self, BuiltWith, Origin};
use super::distribution_lookups::{self, Lookup};
use super::elf;
use super::filename::FileName;
use super::metadata::{
    IN_MANIFEST, Metadata, Requirement, check_name, check_version, file_name_component,
    normalized_name,
};
use super::runpath::SearchPathPlan;
use super::sbom;
use super::static_runtime;
use crate::failure::Failure;

/// The start of the classifier for a CUDA major.
pub const CLASSIFIER: &str = "Environment :: GPU :: NVIDIA CUDA :: ";

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
}

/// A wheel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltWheel {
    /// The file.
    pub path: PathBuf,
    /// The distribution's name, such as `saxpy-cu12`.
    pub name: String,
    /// The name without `-cu12`.
    pub base_name: String,
    pub version: String,
    /// The CUDA major.
    pub major: u32,
    /// The requirements on CUDA packages that were added.
    pub requires: Vec<String>,
    /// The oldest glibc that it runs on, as maturin computed it.
    pub glibc: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine.
    pub expected_on_system: Vec<String>,
    /// Needed libraries of the GPU driver.
    pub needed_driver: Vec<String>,
    /// Whether a module contains the static CUDA runtime.
    pub static_runtime: bool,
    /// The files with their compressed sizes, the largest first.
    pub files: Vec<(String, u64)>,
    /// Python code that looks up the distribution by the name without `-cu12`.
    pub lookups: Vec<Lookup>,
}

/// A rewritten wheel that is not written yet.
struct Rewritten {
    wheel: Wheel,
    name: String,
    base_name: String,
    requires: Vec<String>,
    foreign: Foreign,
    static_runtime: bool,
    lookups: Vec<Lookup>,
}

/// Needed libraries that are neither CUDA components, nor in the wheel, nor on every manylinux
/// system.
#[derive(Default)]
struct Foreign {
    driver: Vec<String>,
    system: Vec<String>,
}

impl Rewrite {
    /// Rewrites the wheel at `input` into `out_dir`. Writes nothing on failure.
    pub fn apply(&self, input: &Path, out_dir: &Path) -> Result<BuiltWheel, Failure> {
        self.apply_to(Wheel::open(input)?, input, out_dir)
    }

    /// The same for a wheel that is open.
    pub fn apply_to(
        &self,
        wheel: Wheel,
        input: &Path,
        out_dir: &Path,
    ) -> Result<BuiltWheel, Failure> {
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        let mut file_name = FileName::parse(&name).ok_or_else(|| {
            Failure::wheel("not a wheel's file name (`name-version-python-abi-platform.whl`)")
                .in_file(&name)
        })?;
        let rewritten = self
            .rewrite(wheel, &file_name)
            .map_err(|failure| failure.in_file(&name))?;
        file_name.distribution = file_name_component(&rewritten.name);
        let path = out_dir.join(file_name.to_string());
        let size = archive_writer::write(&rewritten.wheel, &path)?;
        let entries = rewritten.wheel.entries.into_iter();
        let mut files: Vec<(String, u64)> = entries
            .map(|(path, entry)| (path, entry.compressed_size()))
            .collect();
        files.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        Ok(BuiltWheel {
            path,
            name: rewritten.name,
            base_name: rewritten.base_name,
            version: file_name.version.clone(),
            major: self.major,
            requires: rewritten.requires,
            glibc: file_name.glibc(),
            size,
            expected_on_system: rewritten.foreign.system,
            needed_driver: rewritten.foreign.driver,
            static_runtime: rewritten.static_runtime,
            files,
            lookups: rewritten.lookups,
        })
    }

    fn rewrite(&self, mut wheel: Wheel, file_name: &FileName) -> Result<Rewritten, Failure> {
        elf::reject_bundled_libraries(&wheel.entries, &wheel.dist_info)?;
        let mut metadata = Metadata::parse(&wheel.text(&format!("{}/METADATA", wheel.dist_info))?);
        let old_name = metadata.one("Name")?.to_owned();
        check_version(metadata.one("Version")?, &file_name.version)?;
        let (base, origin) = match &self.name {
            Some(name) => (name, IN_MANIFEST),
            None => (&old_name, "`Name` in METADATA"),
        };
        check_name(base, origin)?;
        let base_name = normalized_name(base);
        let name = with_cuda_suffix(base, self.major)?;

        let needed = self.needed_libraries(&wheel)?;
        let needed: BTreeSet<&str> = needed.iter().map(String::as_str).collect();
        let mut components = dependencies::components(needed.iter().copied(), self.major)?;
        components.extend(&self.dlopened);
        let requires = dependencies::requirements(&components, self.major, &self.built_with)?;
        let foreign = self.foreign_libraries(&needed, &wheel)?;
        let lookups = lookups(&wheel, &old_name);
        self.rewrite_metadata(&mut metadata, &old_name, &name, &requires)?;

        let old_stem = wheel.dist_info.trim_end_matches(".dist-info").to_owned();
        let new_stem = format!("{}-{}", file_name_component(&name), file_name.version);
        let moved = |path: String| match path.strip_prefix(&old_stem) {
            Some(rest) if rest.starts_with(".dist-info/") || rest.starts_with(".data/") => {
                format!("{new_stem}{rest}")
            }
            _ => path,
        };
        let entries = std::mem::take(&mut wheel.entries).into_iter();
        wheel.entries = entries.map(|(path, entry)| (moved(path), entry)).collect();
        wheel.dist_info = format!("{new_stem}.dist-info");
        let bills: Vec<String> = wheel
            .entries
            .keys()
            .filter(|path| path.starts_with(&format!("{}/sboms/", wheel.dist_info)))
            .cloned()
            .collect();
        for path in bills {
            let bill = sbom::reproducible(&wheel.bytes(&path)?);
            wheel.set_text(path, bill)?;
        }
        let cudart = self.built_with.components.get(&Component::Cudart);
        let static_runtime =
            static_runtime::add_notice(&mut wheel, &mut metadata, self.major, cudart)?;
        let path = format!("{}/METADATA", wheel.dist_info);
        wheel.set_text(path, metadata.to_string())?;
        Ok(Rewritten {
            wheel,
            name,
            base_name,
            requires,
            foreign,
            static_runtime,
            lookups,
        })
    }

    /// The SONAMEs that the native modules need. Fails if a module has a wrong search path.
    fn needed_libraries(&self, wheel: &Wheel) -> Result<BTreeSet<String>, Failure> {
        let mut needed = BTreeSet::new();
        let mut is_native = false;
        for (path, facts) in wheel.modules() {
            is_native = true;
            // Check the majors before the search path: if both are wrong, the error about the major is clearer.
            dependencies::components(facts.needed.iter().map(String::as_str), self.major)?;
            self.runpath.check(path, facts)?;
            needed.extend(facts.needed.iter().cloned());
        }
        if !is_native {
            return Err(Failure::wheel(
                "contains no native module: a pure Python wheel is the same for every CUDA major",
            ));
        }
        Ok(needed)
    }

    fn foreign_libraries(
        &self,
        needed: &BTreeSet<&str>,
        wheel: &Wheel,
    ) -> Result<Foreign, Failure> {
        let inside = |soname: &str| {
            let mut paths = wheel.entries.keys();
            paths.any(|path| path.rsplit('/').next() == Some(soname))
        };
        let mut foreign = Foreign::default();
        for &soname in needed {
            match dependencies::origin(soname, self.major)? {
                Origin::Driver => foreign.driver.push(soname.to_owned()),
                Origin::Foreign if !elf::MANYLINUX.contains(&soname) && !inside(soname) => {
                    foreign.system.push(soname.to_owned());
                }
                Origin::Foreign | Origin::Component(_) => {}
            }
        }
        Ok(foreign)
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
        metadata.add("Classifier", &format!("{CLASSIFIER}{}", self.major));
        Ok(())
    }
}

/// Calls in the Python files that fail under another name of the distribution. A file that is not
/// readable as text is left out.
fn lookups(wheel: &Wheel, old_name: &str) -> Vec<Lookup> {
    let files = wheel.entries.keys().filter(|path| path.ends_with(".py"));
    let texts = files.filter_map(|path| Some((path, wheel.text(path).ok()?)));
    texts
        .flat_map(|(path, text)| distribution_lookups::find(path, &text, old_name))
        .collect()
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

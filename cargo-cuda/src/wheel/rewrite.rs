//! Rewrites maturin's wheel into the wheel of one CUDA major.
//!
//! `saxpy-0.1.0-….whl` becomes `saxpy_cu12-0.1.0-….whl`. Only the distribution gets another name
//! and more requirements: the package is imported as `saxpy` for every major, so an environment can
//! have the wheel of only one major.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::Component;

use super::archive::Wheel;
use super::archive_writer::{self, Written};
use super::dependencies::{self, BuiltWith, Origin};
use super::distribution_lookups::{self, Lookup};
use super::elf::{self, ElfFacts};
use super::filename::{FileName, with_local_platform};
use super::foreign;
use super::metadata::{
    IN_MANIFEST, Metadata, check_name, check_version, file_name_component, normalized_name,
};
use super::needs::Needs;
use super::programs;
use super::requirements::Requirements;
use super::runpath::SearchPathPlan;
use super::sbom;
use super::static_runtime;
use crate::audit::check::{Code, Severity};
use crate::audit::input;
use crate::audit::report::Audited;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::requirement::Requirement;

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
    /// The components that the manifest declares.
    pub declared: Needs,
    /// The Python packages that only the wheel of this major requires.
    pub dependencies: Vec<String>,
    /// Libraries that the user expects on every machine, as in [`foreign::is_excluded`].
    pub excluded: Vec<String>,
    /// Checks of the audit whose errors do not count.
    pub allow: Vec<Code>,
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
    /// All requirements in its metadata.
    pub requires: Vec<String>,
    /// The oldest glibc that it runs on, as maturin computed it.
    pub glibc: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine. The wheel has no manylinux tag then.
    pub expected_on_system: Vec<String>,
    /// Needed libraries of the GPU driver.
    pub needed_driver: Vec<String>,
    /// Whether a module contains the static CUDA runtime.
    pub static_runtime: bool,
    /// The files with their compressed sizes, the largest first.
    pub files: Vec<(String, u64)>,
    /// Python code that looks up the distribution by the name without `-cu12`.
    pub lookups: Vec<Lookup>,
    /// What the audit found in the file.
    pub audited: Audited,
}

impl BuiltWheel {
    /// The requirements that depend on the CUDA major.
    pub fn cuda_requirements(&self) -> impl Iterator<Item = &String> {
        let depends_on_major = |line: &&String| {
            Requirement::parse(line).is_ok_and(|required| required.cuda_majors().is_some())
        };
        self.requires.iter().filter(depends_on_major)
    }
}

/// A rewritten wheel that is not written yet.
struct Rewritten {
    wheel: Wheel,
    name: String,
    base_name: String,
    requires: Vec<String>,
    needed_driver: Vec<String>,
    expected_on_system: Vec<String>,
    /// Whether the wheel may have a manylinux tag.
    is_portable: bool,
    static_runtime: bool,
    lookups: Vec<Lookup>,
}

impl Rewrite {
    /// Rewrites the wheel at `input` into `out_dir`. Writes nothing on failure, and if the audit finds an error.
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
                .hint("give the file the name that its builder gave it")
                .in_file(&name)
        })?;
        let rewritten = self
            .rewrite(wheel, &file_name)
            .map_err(|failure| failure.in_file(&name))?;
        file_name.distribution = file_name_component(&rewritten.name);
        if !rewritten.is_portable {
            file_name.rest = with_local_platform(&file_name.rest);
        }
        output::make_directory(out_dir)?;
        let place = output::temporary_directory(out_dir)?;
        // The audit checks the name of the file too.
        let unchecked = place.path().join(file_name.to_string());
        let Written { size, files } = archive_writer::write(&rewritten.wheel, &unchecked)?;
        let audited = self.audit(&unchecked, &file_name)?;
        let path = out_dir.join(file_name.to_string());
        output::rename(&unchecked, &path)?;
        Ok(BuiltWheel {
            path,
            name: rewritten.name,
            base_name: rewritten.base_name,
            version: file_name.version.clone(),
            major: self.major,
            requires: rewritten.requires,
            glibc: file_name.glibc(),
            size,
            expected_on_system: rewritten.expected_on_system,
            needed_driver: rewritten.needed_driver,
            static_runtime: rewritten.static_runtime,
            files,
            lookups: rewritten.lookups,
            audited,
        })
    }

    /// Audits a finished wheel. Its size is checked later, because the manifest can change the limit.
    fn audit(&self, path: &Path, file_name: &FileName) -> Result<Audited, Failure> {
        let allow = [self.allow.as_slice(), &[Code("W17")]].concat();
        let audited = Audited::new(&input::read(path)?, &allow);
        let errors = audited.of_severity(Severity::Error);
        if errors.is_empty() {
            return Ok(audited);
        }
        let lines = errors.iter().map(|finding| format!("\n  {finding}"));
        let failure = Failure::new(
            exit_code::AUDIT,
            format!(
                "{file_name} was not written, because the audit found errors in it:{}",
                lines.collect::<String>()
            ),
        );
        let codes: BTreeSet<&str> = errors.iter().map(|finding| finding.code).collect();
        let hints: BTreeSet<&str> = errors.iter().map(|finding| finding.hint).collect();
        let failure = hints.into_iter().fold(failure, Failure::hint);
        let codes = Vec::from_iter(codes).join(",");
        Err(failure.hint(format!(
            "to write the wheel nevertheless: `--allow {codes}`"
        )))
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

        programs::move_below_site_packages(&mut wheel, &name, self.major)?;
        let modules = self.native_modules(&wheel)?;
        let mut needs = self.declared.clone();
        for facts in &modules {
            needs.add_module(facts, self.major, &self.built_with)?;
        }
        let needed = modules.iter().flat_map(|facts| &facts.needed);
        let needed: BTreeSet<&str> = needed.map(String::as_str).collect();
        let mut needed_driver = Vec::new();
        for &soname in &needed {
            if dependencies::origin(soname, self.major)? == Origin::Driver {
                needed_driver.push(soname.to_owned());
            }
        }
        let expected_on_system =
            foreign::libraries(needed.iter().copied(), wheel.entries.keys(), self.major)?;
        let is_portable = expected_on_system
            .iter()
            .all(|soname| foreign::is_excluded(soname, &self.excluded));
        if !is_portable {
            let path = format!("{}/WHEEL", wheel.dist_info);
            let text = without_portable_tags(&wheel.text(&path)?);
            wheel.set_text(path, text)?;
        }
        let lookups = lookups(&wheel, &old_name);
        for value in metadata.all_mut("Name") {
            value.clone_from(&name);
        }
        let requires = Requirements::update(
            &mut metadata,
            [&old_name, &name],
            &needs,
            &self.dependencies,
            (self.major, &self.built_with),
        )?;
        metadata.add("Classifier", &format!("{CLASSIFIER}{}", self.major));

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
            needed_driver,
            expected_on_system,
            is_portable,
            static_runtime,
            lookups,
        })
    }

    /// The native modules. Fails if one has a wrong search path.
    fn native_modules(&self, wheel: &Wheel) -> Result<Vec<ElfFacts>, Failure> {
        let mut modules = Vec::new();
        for (path, facts) in wheel.modules() {
            // Check the majors before the search path: if both are wrong, the error about the major is clearer.
            dependencies::components(facts.needed.iter().map(String::as_str), self.major)?;
            let is_inside = |directory: &str| {
                let directory = format!("{directory}/");
                let mut paths = wheel.entries.keys();
                paths.any(|path| path.starts_with(&directory))
            };
            self.runpath.check(path, facts, is_inside)?;
            modules.push(facts.clone());
        }
        if modules.is_empty() {
            return Err(Failure::wheel(
                "contains no native module: a pure Python wheel is the same for every CUDA major",
            )
            .hint("publish it as it is"));
        }
        Ok(modules)
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

/// `saxpy-cu12` of `saxpy`.
fn with_cuda_suffix(name: &str, major: u32) -> Result<String, Failure> {
    let normalized = normalized_name(name);
    match cuda_suffix(&normalized) {
        Some(other) => Err(Failure::wheel(format!(
            "the name `{name}` already ends with a CUDA major ({other})"
        ))
        .hint("remove the ending from `name` in pyproject.toml: `cargo cuda wheel` adds it")),
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

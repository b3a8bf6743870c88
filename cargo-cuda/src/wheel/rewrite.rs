//! Rewrites the wheel of a builder, usually maturin, into the wheel of one CUDA major.
//!
//! `saxpy-0.1.0-….whl` becomes `saxpy_cu12-0.1.0-….whl`. Only the distribution gets another name
//! and more requirements: the package is imported as `saxpy` for every major, so an environment can
//! have the wheel of only one major.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::Version;

use super::needs::{BuiltWith, Needs};
use super::{requirements, sbom};
use crate::audit::artifact::Artifact;
use crate::audit::check::Severity;
use crate::audit::report::Audited;
use crate::failure::{Failure, Result};
use crate::output::{self, joined};
use crate::package::archive::{WheelArchive, WheelFile};
use crate::package::archive_writer;
use crate::package::metadata::{FileName, IN_MANIFEST, Metadata, with_local_platform};
use crate::package::metadata::{check_name, file_name_component, is_on_manylinux, normalized_name};
use crate::package::nvidia::{self, LibraryOrigin};
use crate::package::requirement::Requirement;

/// How a wheel is rewritten.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The distribution's name without `-cu12`; `None` for the name in the builder's wheel.
    pub name: Option<String>,
    /// The components that the manifest declares, and those that dependencies probably load by name.
    pub needs: Needs,
    /// The Python packages that only the wheel of this major requires.
    pub dependencies: Vec<String>,
    /// The oldest driver that the manifest accepts.
    pub driver: Option<Version>,
    /// The patterns of `--exclude`.
    pub excluded: Vec<String>,
    /// The codes of the checks whose errors do not count.
    pub allow: Vec<String>,
}

/// A rewritten wheel.
#[derive(Clone, Debug, Default)]
pub struct BuiltWheel {
    /// The file.
    pub path: PathBuf,
    /// All requirements in its metadata.
    pub requires: Vec<String>,
    /// The oldest glibc that it runs on, as maturin computed it.
    pub glibc: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine. The wheel has no manylinux tag then.
    pub expected_on_system: Vec<String>,
    /// The files with their compressed sizes, the largest first.
    pub files: Vec<(String, u64)>,
    /// What the audit found in the file.
    pub audited: Audited,
}

impl BuiltWheel {
    /// The requirements that depend on the CUDA major.
    pub fn cuda_requirements(&self) -> impl Iterator<Item = &String> {
        self.requires.iter().filter(|line| {
            Requirement::parse(line).is_ok_and(|required| required.cuda_majors().is_some())
        })
    }
}

impl Rewrite {
    /// For the wheel of a builder that is not known. Its components are those that the native modules need, because
    /// there is no manifest that could declare more.
    pub fn of_other_builder(major: u32, allow: Vec<String>) -> Self {
        Self {
            name: None,
            needs: Needs::new(BuiltWith::newest(major)),
            dependencies: Vec::new(),
            driver: None,
            excluded: Vec::new(),
            allow,
        }
    }

    /// Rewrites the wheel that was opened at `input` into `out_dir`. Writes nothing on failure, nor if the audit
    /// finds an error.
    pub fn apply(
        &self,
        mut wheel: WheelArchive,
        input: &Path,
        out_dir: &Path,
    ) -> Result<BuiltWheel> {
        let old_name = output::file_name(input);
        let mut file_name = FileName::parse(&old_name).ok_or_else(|| {
            Failure::wheel("not a wheel's file name (`name-version-python-abi-platform.whl`)")
                .hint("give the file the name that its builder gave it")
                .in_file(&old_name)
        })?;
        let rewritten = self.rewrite(&mut wheel, &mut file_name);
        let mut built = rewritten.map_err(|failure| failure.in_file(&old_name))?;
        output::create_directory(out_dir)?;
        built.path = out_dir.join(file_name.to_string());
        built.audited = self.audit(&wheel, &built.path, &file_name)?;
        let written = archive_writer::write(&wheel, &built.path)?;
        built.size = written.size;
        built.files = written.files;
        Ok(built)
    }

    /// Audits a wheel before it is written. Its size is checked later, because the manifest can change the limit.
    fn audit(&self, wheel: &WheelArchive, path: &Path, file: &FileName) -> Result<Audited> {
        let mut artifact = Artifact::of_wheel(wheel, path, 0)?;
        artifact.driver.clone_from(&self.driver);
        let audited = Audited::new(&artifact, &self.allow);
        let errors = audited.of_severity(Severity::Error);
        if errors.is_empty() {
            return Ok(audited);
        }
        let lines = joined(&errors, "\n  ");
        let text =
            format!("{file} was not written, because the audit found errors in it:\n  {lines}");
        let hints: BTreeSet<&str> = errors.iter().map(|finding| finding.hint).collect();
        let codes: BTreeSet<&str> = errors.iter().map(|finding| finding.code).collect();
        let failure = hints.into_iter().fold(Failure::audit(text), Failure::hint);
        let allow = joined(codes, ",");
        Err(failure.hint(format!(
            "to write the wheel nevertheless: `--allow {allow}`"
        )))
    }

    /// Rewrites a wheel and its file's name in memory. The result lacks what only the finished file has.
    fn rewrite(&self, wheel: &mut WheelArchive, file_name: &mut FileName) -> Result<BuiltWheel> {
        wheel.reject_nvidia_libraries()?;
        let metadata_path = format!("{}/METADATA", wheel.dist_info);
        let mut metadata = Metadata::parse(&wheel.text(&metadata_path)?);
        let old_name = metadata.one("Name")?.to_owned();
        let (base, origin) = match &self.name {
            Some(name) => (name, IN_MANIFEST),
            None => (&old_name, "`Name` in METADATA"),
        };
        check_name(base, origin)?;
        let name = with_cuda_suffix(base, self.needs.built_with.major())?;

        move_programs(wheel, &name)?;
        let mut needs = self.needs.clone();
        for (_, facts) in wheel.modules() {
            needs.add_module(facts)?;
        }
        if wheel.modules().next().is_none() {
            let text =
                "contains no native module: a pure Python wheel is the same for every CUDA major";
            return Err(Failure::wheel(text).hint("publish it as it is"));
        }
        let mut built = BuiltWheel {
            expected_on_system: third_party([&*wheel]),
            ..BuiltWheel::default()
        };
        let mut expected = built.expected_on_system.iter();
        if !expected.all(|soname| is_excluded(soname, &self.excluded)) {
            let path = format!("{}/WHEEL", wheel.dist_info);
            let text = without_portable_tags(&wheel.text(&path)?);
            wheel.set_text(path, text)?;
            file_name.rest = with_local_platform(&file_name.rest);
        }
        built.glibc = file_name.glibc();

        metadata.set_all("Name", std::slice::from_ref(&name));
        built.requires = requirements::update(
            &mut metadata,
            [&old_name, &name],
            &needs,
            &self.dependencies,
        )?;
        let major = self.needs.built_with.major();
        let classifier = format!("Environment :: GPU :: NVIDIA CUDA :: {major}");
        metadata.add("Classifier", &classifier);
        wheel.set_text(metadata_path, metadata.to_string())?;
        let mut bills = Vec::from_iter(wheel.entries.keys().cloned());
        bills.retain(|path| path.starts_with(&format!("{}/sboms/", wheel.dist_info)));
        for path in bills {
            let bill = sbom::reproducible(&wheel.bytes(&path)?);
            wheel.set_text(path, bill)?;
        }
        file_name.distribution = file_name_component(&name);
        let stem = format!("{}-{}", file_name.distribution, file_name.version);
        rename_directories(wheel, &stem);
        Ok(built)
    }
}

/// The needed libraries of some wheels that are neither NVIDIA's, nor in the wheels, nor on every manylinux system,
/// sorted.
pub fn third_party<'a>(wheels: impl IntoIterator<Item = &'a WheelArchive>) -> Vec<String> {
    let mut needed = BTreeSet::new();
    let mut inside = BTreeSet::new();
    for wheel in wheels {
        needed.extend(wheel.modules().flat_map(|(_, facts)| &facts.needed));
        let paths = wheel.entries.keys();
        inside.extend(paths.filter_map(|path| path.rsplit('/').next()));
    }
    needed.retain(|soname| {
        !inside.contains(soname.as_str())
            && !is_on_manylinux(soname)
            && nvidia::origin(soname) == LibraryOrigin::Foreign
    });
    needed.into_iter().cloned().collect()
}

/// Whether `--exclude` names a library: by its name, or by the start of its name and a `*`.
pub fn is_excluded(soname: &str, excluded: &[String]) -> bool {
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => soname.starts_with(start),
        None => soname == pattern,
    };
    excluded.iter().any(matches)
}

/// Gives the metadata and data directories of a wheel another name and version.
fn rename_directories(wheel: &mut WheelArchive, new_stem: &str) {
    let old_stem = wheel.dist_info.trim_end_matches(".dist-info").to_owned();
    let renamed = |path: String| match path.strip_prefix(&old_stem) {
        Some(rest) if rest.starts_with(".dist-info/") || rest.starts_with(".data/") => {
            format!("{new_stem}{rest}")
        }
        _ => path,
    };
    let entries = std::mem::take(&mut wheel.entries).into_iter();
    let renamed = entries.map(|(path, entry)| (renamed(path), entry));
    wheel.entries = renamed.collect();
    wheel.dist_info = format!("{new_stem}.dist-info");
}

/// The `WHEEL` file with `linux_*` instead of manylinux tags.
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
fn with_cuda_suffix(name: &str, major: u32) -> Result<String> {
    let normalized = normalized_name(name);
    let suffix = normalized.rsplit_once("-cu").map(|(_, suffix)| suffix);
    let Some(other) = suffix.and_then(|suffix| suffix.parse::<u32>().ok()) else {
        return Ok(format!("{normalized}-cu{major}"));
    };
    let text = format!("the name `{name}` already ends with a CUDA major ({other})");
    let hint = "remove the ending from `name` in pyproject.toml: `cargo cuda wheel` adds it";
    Err(Failure::wheel(text).hint(hint))
}

/// Moves the programs (maturin's `bindings = "bin"`) that have a search path or need a library of NVIDIA's.
///
/// Installers put a program into the environment's `bin`, from where no search path leads to site-packages for every
/// Python version. So it is moved to `<name>.scripts` below site-packages, as auditwheel does, and a script in its old
/// place starts it. `name` is the name of the distribution.
fn move_programs(wheel: &mut WheelArchive, name: &str) -> Result<()> {
    let mut programs = Vec::new();
    for (path, facts) in wheel.modules() {
        let needs_path = !facts.has_no_search_path() || facts.needs_component();
        if needs_path && path.contains(".data/scripts/") {
            programs.push(path.to_owned());
        }
    }
    for path in programs {
        let program = path.rsplit('/').next().unwrap_or(&path);
        let moved = format!("{}.scripts/{program}", file_name_component(name));
        // Installers replace `#!python` by the path of the environment's Python.
        let script = format!(
            "#!python\n\
             import os\n\
             import sys\n\
             from importlib.metadata import distribution\n\
             \n\
             program = str(distribution({name:?}).locate_file({moved:?}))\n\
             os.execv(program, [program, *sys.argv[1:]])\n"
        );
        let script = WheelFile::new(script.into_bytes(), true)?;
        if let Some(entry) = wheel.entries.insert(path, script) {
            wheel.entries.insert(moved, entry);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;

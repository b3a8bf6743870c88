//! Rewrites the wheel of a builder, usually maturin, into a wheel that requires NVIDIA's packages. Every wheel that
//! `cargo cuda` writes comes through here; its [`Purpose`] decides the name.
//!
//! For an index, `saxpy-0.1.0-….whl` becomes `saxpy_cu12-0.1.0-….whl`. Only the distribution gets another name
//! and more requirements: the package is imported as `saxpy` for every major, so an environment can
//! have the wheel of only one major.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::Plan;
use cuda_find_core::list::{self, sorted_set};

use super::needs::{BuiltWith, Needs};
use super::requirements;
use crate::audit::artifact::Artifact;
use crate::audit::check::{Severity, W02};
use crate::audit::report::Audited;
use crate::failure::{Failure, Result};
use crate::output::{self, joined};
use crate::package::archive::{WheelArchive, WheelFile};
use crate::package::archive_writer;
use crate::package::device::DeviceCode;
use crate::package::elf::ElfFacts;
use crate::package::metadata::{FileName, Metadata, with_local_platform};
use crate::package::metadata::{check_name, file_name_component, is_on_manylinux, normalized_name};
use crate::package::nvidia::{self, LibraryOrigin};
use crate::package::requirement::Requirement;
use crate::package::variant::{self, Properties, VariantMetadata};

/// What a wheel is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An index, with one wheel for each CUDA major.
    Index,
    /// The same for the wheel of another builder, who has decided the tags.
    OtherBuilder,
    /// An index, with one package of which installers choose a variant.
    Variant {
        /// `None` for the wheel that installers take that read no variants.
        label: Option<String>,
        /// Of a thin wheel, what it was built for.
        plan: Option<Plan>,
        /// The address of the schema of its metadata.
        schema: String,
    },
    /// An installation from the source, under the builder's name.
    Installation,
    /// The same, and the modules stay in the source tree, so their search path is absolute: below this site-packages,
    /// or if `None` in the view.
    Editable(Option<PathBuf>),
}

/// The classifier of a CUDA major, without the major.
const CUDA_CLASSIFIER: &str = "Environment :: GPU :: NVIDIA CUDA ::";

/// How a wheel is rewritten.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub purpose: Purpose,
    /// The components that the manifest declares, and those that dependencies probably load by name.
    pub needs: Needs,
    /// The Python packages that only the wheel of this major requires.
    pub dependencies: Vec<String>,
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
    /// The size in bytes.
    pub size: u64,
    /// Needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system:
    /// they must be installed on the user's machine. Unless `--exclude` names them or another builder
    /// chose the tag, the wheel has no manylinux tag then.
    pub expected_on_system: Vec<String>,
    /// The libraries that a program that copies libraries into the wheel has to leave out: those of NVIDIA and of the
    /// driver that modules need, and those that `--exclude` names.
    pub not_to_copy: Vec<String>,
    /// What the audit found in the file.
    pub audited: Audited,
    /// The properties of a variant.
    pub properties: Option<Properties>,
    /// How long it took to build.
    pub seconds: u64,
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
            purpose: Purpose::OtherBuilder,
            needs: Needs::new(BuiltWith::newest(major)),
            dependencies: Vec::new(),
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
        built.path = out_dir.join(file_name.to_string());
        if !self.is_editable() {
            built.audited = self.audit(&wheel, &built.path, &file_name)?;
        }
        built.size = archive_writer::write(&wheel, &built.path)?;
        Ok(built)
    }

    /// Audits a wheel before it is written. Its size is checked later, because the manifest can change the limit.
    fn audit(&self, wheel: &WheelArchive, path: &Path, file: &FileName) -> Result<Audited> {
        let artifact = Artifact::of_wheel(wheel, path, 0)?;
        let audited = Audited::new(&artifact, &self.allow);
        // A tool may have changed a copy of NVIDIA's libraries, and the wheel requires the package with the original.
        let mut errors = Vec::from_iter(&audited.findings);
        errors.retain(|finding| finding.severity == Severity::Error || finding.code == W02.code);
        if errors.is_empty() {
            return Ok(audited);
        }
        let lines = joined(&errors, "\n  ");
        let text =
            format!("{file} was not written, because the audit found errors in it:\n  {lines}");
        let hints: BTreeSet<&str> = errors.iter().map(|finding| finding.hint).collect();
        let codes: BTreeSet<&str> = errors.iter().map(|finding| finding.code).collect();
        let failure = hints.into_iter().fold(Failure::audit(text), Failure::hint);
        let codes = joined(codes, ",");
        let allow = match self.purpose {
            Purpose::Installation => format!("-C allow={codes}"),
            _ => format!("--allow {codes}"),
        };
        Err(failure.hint(format!("to write the wheel nevertheless: `{allow}`")))
    }

    /// Rewrites a wheel and its file's name in memory. The result lacks what only the finished file has.
    fn rewrite(&self, wheel: &mut WheelArchive, file_name: &mut FileName) -> Result<BuiltWheel> {
        let [metadata_path, wheel_path] =
            ["METADATA", "WHEEL"].map(|file| format!("{}/{file}", wheel.dist_info));
        let old_metadata = wheel.text(&metadata_path)?;
        let old_name = Metadata::parse(&old_metadata).one("Name")?.to_owned();
        let name = self.name(&old_name)?;
        let mut needs = self.needs.clone();
        if !self.is_editable() {
            move_programs(wheel, &name)?;
        }
        for (path, facts) in wheel.modules() {
            needs.add_module(facts)?;
            if !self.is_for_index() {
                self.check_known(path, facts)?;
            }
        }
        if self.is_for_index() && wheel.modules().next().is_none() {
            let text =
                "contains no native module: a pure Python wheel is the same for every CUDA major";
            return Err(Failure::wheel(text).hint("publish it as it is"));
        }
        let needed = wheel.modules().flat_map(|(_, facts)| &facts.needed);
        let of_nvidia = needed.filter(|soname| nvidia::is_nvidia_library(soname));
        let mut built = BuiltWheel {
            expected_on_system: third_party(wheel),
            not_to_copy: sorted_set(of_nvidia.chain(&self.excluded).cloned()),
            ..BuiltWheel::default()
        };
        let mut tags = Metadata::parse(&wheel.text(&wheel_path)?);
        let mut expected = built.expected_on_system.iter();
        if self.purpose != Purpose::OtherBuilder
            && !expected.all(|soname| is_excluded(soname, &self.excluded))
        {
            // Several tags may become the same one.
            let local: BTreeSet<String> = tags.all("Tag").map(with_local_platform).collect();
            tags.set_all("Tag", &Vec::from_iter(local));
            file_name.rest = with_local_platform(&file_name.rest);
        }
        // NVIDIA's packages are installed into purelib, which is another directory than platlib in the Pythons of RHEL,
        // Fedora, openSUSE and Amazon Linux. No search path leads from one to the other.
        if !self.is_editable() && needs.requires_packages() {
            tags.set_all("Root-Is-Purelib", &["true".to_owned()]);
        }
        wheel.set_text(wheel_path, tags.to_string())?;

        let (metadata, requires) = self.metadata(&old_metadata, &needs)?;
        built.requires = requires;
        wheel.set_text(metadata_path, metadata)?;
        if self.is_renamed() {
            file_name.distribution = file_name_component(&name);
            let stem = format!("{}-{}", file_name.distribution, file_name.version);
            rename_directories(wheel, &stem);
        }
        if let Purpose::Variant {
            label: Some(label),
            plan,
            schema,
        } = &self.purpose
        {
            let entries = wheel.entries.values();
            let code = DeviceCode::of_files(entries.map(WheelFile::device_code));
            let properties = Properties::of(&code, plan.as_ref(), needs.built_with.toolkit)?;
            let metadata = VariantMetadata::new(label, &properties, schema);
            wheel.set_text(
                format!("{}/{}", wheel.dist_info, variant::FILE),
                metadata.to_json(),
            )?;
            file_name.label = Some(label.clone());
            built.properties = Some(properties);
        }
        Ok(built)
    }

    fn is_editable(&self) -> bool {
        matches!(self.purpose, Purpose::Editable(_))
    }

    /// Whether the wheel is for other machines, not an installation from the source.
    fn is_for_index(&self) -> bool {
        self.is_renamed() || matches!(self.purpose, Purpose::Variant { .. })
    }

    /// Whether the distribution gets the name of a CUDA major.
    fn is_renamed(&self) -> bool {
        matches!(self.purpose, Purpose::Index | Purpose::OtherBuilder)
    }

    /// The name of the distribution.
    fn name(&self, old: &str) -> Result<String> {
        check_name(old)?;
        match self.is_renamed() {
            true => with_cuda_suffix(old, self.needs.built_with.major()),
            false => Ok(old.to_owned()),
        }
    }

    /// The builder's metadata with the new name and the requirements for `needs`, and all requirements.
    pub fn metadata(&self, old: &str, needs: &Needs) -> Result<(String, Vec<String>)> {
        let mut metadata = Metadata::parse(old);
        let old_name = metadata.one("Name")?.to_owned();
        let name = self.name(&old_name)?;
        metadata.set_all("Name", std::slice::from_ref(&name));
        let names = [old_name.as_str(), &name];
        let requires = requirements::update(&mut metadata, names, needs, &self.dependencies)?;
        let classifiers = metadata.all("Classifier").map(str::to_owned);
        let classifiers: Vec<String> = classifiers
            .filter(|classifier| !classifier.starts_with(CUDA_CLASSIFIER))
            .chain([format!("{CUDA_CLASSIFIER} {}", needs.built_with.major())])
            .collect();
        metadata.set_all("Classifier", &classifiers);
        Ok((metadata.to_string(), requires))
    }

    /// Fails if the requirements were read before the build, and a native module needs more.
    fn check_known(&self, path: &str, facts: &ElfFacts) -> Result<()> {
        let declared = &self.needs;
        let mut needs = declared.clone();
        needs.add_module(facts)?;
        let mut lines = needs.requirements()?;
        let known = declared.requirements()?;
        lines.retain(|line| !known.contains(line));
        if lines.is_empty() {
            return Ok(());
        }
        let undeclared = needs.required.difference(&declared.required);
        let names = joined(undeclared.map(|component| format!("\"{component}\"")), ", ");
        let hint = match names.as_str() {
            "" => "raise the lower bound in `components` of `[package.metadata.cuda]` in Cargo.toml, as in \
                   `{ name = \"cudart\", version = \">=13.2\" }`"
                .to_owned(),
            names => format!("add {names} to `components` in `[package.metadata.cuda]` of Cargo.toml"),
        };
        let text = format!(
            "{path} needs {}, which does not follow from the declared `components`; pip and uv read the \
             requirements before the build",
            lines.join(", ")
        );
        Err(Failure::wheel(text).hint(hint))
    }
}

/// The needed libraries of a wheel that are neither NVIDIA's, nor in the wheel, nor on every manylinux system, sorted.
fn third_party(wheel: &WheelArchive) -> Vec<String> {
    let paths = wheel.entries.keys();
    let inside: BTreeSet<&str> = paths.filter_map(|path| path.rsplit('/').next()).collect();
    let needed = wheel.modules().flat_map(|(_, facts)| &facts.needed);
    let needed = needed.filter(|soname| {
        !inside.contains(soname.as_str())
            && !is_on_manylinux(soname)
            // The interpreter's own library: a copy would be a second interpreter.
            && !soname.starts_with("libpython")
            && nvidia::origin(soname) == LibraryOrigin::Foreign
    });
    sorted_set(needed.cloned())
}

/// Whether `--exclude` names a library. A `*` stands for any text, as for auditwheel.
fn is_excluded(soname: &str, excluded: &[String]) -> bool {
    excluded.iter().any(|it| list::matches(it, soname))
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
        let needs_path = !facts.has_no_search_path() || facts.components().next().is_some();
        if needs_path && path.contains(".data/scripts/") {
            programs.push(path.to_owned());
        }
    }
    for path in programs {
        let program = path.rsplit('/').next().unwrap_or(&path);
        let moved = format!("{}.scripts/{program}", file_name_component(name));
        // Installers replace `#!python` by the path of the environment's Python. With `--target`, the program is in the
        // directory above the script, where Python does not look.
        let script = format!(
            "#!python\n\
             import os\n\
             import sys\n\
             \n\
             here = os.path.dirname(os.path.abspath(__file__))\n\
             for directory in [os.path.join(here, \"..\"), *sys.path]:\n\
             \x20   program = os.path.join(directory, {moved:?})\n\
             \x20   if os.path.exists(program):\n\
             \x20       os.execv(program, sys.argv)\n\
             sys.exit({moved:?} + \" is in no directory of sys.path: install the package again\")\n"
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

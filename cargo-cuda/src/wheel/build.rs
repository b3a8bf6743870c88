//! Builds the wheel of one CUDA major, from the search for a toolkit to the finished file.
//!
//! maturin gets the variables that `cargo cuda build --cuda` sets for cargo, so that unmodified
//! crates find the same toolkit. The target directory is separate, because cargo does not rebuild
//! crates that were built without the rustc wrapper.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::internal::config::Cudart;
use cuda_build::internal::{Config, RequestedRelease};
use cuda_build::{Capability, Component, Plan, Toolkit};

use super::compile::Compiled;
use super::dependencies::BuiltWith;
use super::foreign::{self, Auditwheel};
use super::maturin::Maturin;
use super::metadata::{IN_MANIFEST, check_name};
use super::needs::Needs;
use super::pyproject::Pyproject;
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{SearchPathKind, SearchPathPlan};
use super::source::Source;
use crate::audit::check::Code;
use crate::build::{Build, Purpose};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{self, TemporaryDirectory};
use crate::project::Project;
use crate::workspace::Package;

/// What the wheels of all majors have in common.
#[derive(Debug)]
pub struct Job {
    pub source: Source,
    pub maturin: Maturin,
    /// Cargo's profile; `None` for the one in maturin's arguments or `pyproject.toml`, otherwise `release`.
    pub profile: Option<String>,
    /// The directory for the wheels.
    pub out: PathBuf,
    /// The kind of search path.
    pub kind: SearchPathKind,
    /// Libraries that are not copied into the wheel, as in [`foreign::is_excluded`].
    pub excluded: Vec<String>,
    /// Checks of the audit whose errors do not count.
    pub allow: Vec<Code>,
}

/// What was built for one major: a wheel for each Python interpreter.
#[derive(Debug, Default)]
pub struct Built {
    pub wheels: Vec<BuiltWheel>,
    /// The source distribution, if the user's arguments for maturin have `--sdist`.
    pub sdists: Vec<PathBuf>,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    pub(super) major: u32,
    pub(super) build: Build,
    pub(super) plan: Plan,
    /// The declared components that are linked as shared libraries.
    pub(super) linked: BTreeSet<Component>,
}

impl Prepared {
    /// Whether the build can compile with nvcc. A build without nvcc fails if a build script needs it.
    pub fn has_nvcc(&self) -> bool {
        self.build.toolkit.get(Component::Nvcc).is_some()
    }
}

impl Job {
    /// Finds maturin for a crate. The other fields have their defaults.
    pub fn new(source: Source, out: &Path) -> Result<Self, Failure> {
        let accepted = source
            .pyproject
            .as_ref()
            .and_then(Pyproject::maturin_versions);
        let Project { env, fetch, .. } = &source.project;
        Ok(Self {
            maturin: Maturin::find(env, *fetch, accepted.as_ref())?,
            source,
            profile: None,
            out: out.to_owned(),
            kind: SearchPathKind::default(),
            excluded: Vec::new(),
            allow: Vec::new(),
        })
    }

    pub(super) fn package(&self) -> &Package {
        &self.source.package
    }

    pub(super) fn project(&self) -> &Project {
        &self.source.project
    }

    /// Finds the toolkit for a release and creates its view.
    pub fn prepare(
        &self,
        release: RequestedRelease,
        gpus: &[Capability],
    ) -> Result<Prepared, Failure> {
        if let Some(name) = &self.package().config.wheel.name {
            check_name(name, IN_MANIFEST)?;
        }
        let major = release.major;
        let declared = self.package().config.for_major(major);
        let project = self.project().for_release(release);
        let build = Build::prepare(&project, Purpose::Wheel, gpus, None)?;
        if declared.capabilities.is_none() {
            return Err(undeclared());
        }
        let plan = build.plan.clone().ok_or_else(undeclared)?;
        let used: Vec<Component> = declared
            .components
            .iter()
            .map(|wanted| wanted.component)
            .collect();
        build.toolkit.check_plan(&plan, &used)?;
        let linked = linked_components(&self.package().config, &build.toolkit);
        // Checked before compiling: each linked component must have a library directory in
        // NVIDIA's packages.
        SearchPathPlan::new(&linked, major, self.kind)?;
        Ok(Prepared {
            major,
            build,
            plan,
            linked,
        })
    }

    /// Builds the wheels of one major.
    pub fn build(&self, prepared: &Prepared) -> Result<Built, Failure> {
        let Prepared { major, build, .. } = prepared;
        let (major, toolkit) = (*major, &build.toolkit);
        let package = self.package();
        let text = format!("{} {} for CUDA {major}", package.name, package.version);
        output::status("Building", &text);
        build.print_notes(&self.project().root)?;
        let (compiled, linked) = self.link(prepared)?;
        let mut rewrite = Rewrite {
            name: package.config.wheel.name.clone(),
            major,
            runpath: SearchPathPlan::new(&linked, major, self.kind)?,
            built_with: built_with(toolkit),
            declared: Needs::declared(&package.config, major),
            dependencies: package.config.for_major(major).dependencies.to_vec(),
            excluded: self.excluded.clone(),
            allow: self.allow.clone(),
        };
        let mut built = Built::default();
        let foreign = self.foreign(&compiled, major)?;
        let auditwheel = match foreign.is_empty() {
            true => None,
            false => Auditwheel::find(&self.project().env, self.project().fetch)?,
        };
        if auditwheel.is_some() {
            if self.kind == SearchPathKind::Runpath {
                output::message(
                    "note: the search path is an RPATH, which `LD_LIBRARY_PATH` does not override, because auditwheel \
                     copies libraries into the wheel, and it writes no RUNPATH",
                );
            }
            rewrite.runpath = rewrite.runpath.with_kind(SearchPathKind::Rpath);
        }
        for wheel in &compiled.wheels {
            let built_wheel = match &auditwheel {
                Some(auditwheel) => {
                    let grafted = TemporaryDirectory::below(&build.directory.path)?;
                    let user = &self.project().user;
                    let excluded = &self.excluded;
                    let wheel =
                        auditwheel.graft(wheel, grafted.path(), &foreign, excluded, user)?;
                    rewrite.apply(&wheel, &self.out)?
                }
                None => rewrite.apply(wheel, &self.out)?,
            };
            built.wheels.push(built_wheel);
        }
        for sdist in &compiled.sdists {
            built.sdists.push(output::copy_into(sdist, &self.out)?);
        }
        let is_expected = |wheel: &BuiltWheel| {
            wheel.expected_on_system.is_empty() && wheel.cuda_requirements().next().is_some()
        };
        if foreign.is_empty() && built.wheels.iter().all(is_expected) {
            output::message(
                "note: maturin's warning about external libraries is expected: the wheel requires NVIDIA's packages instead \
                 of copying their libraries",
            );
        }
        Ok(built)
    }

    /// The libraries that auditwheel has to copy into the wheels.
    fn foreign(&self, compiled: &Compiled, major: u32) -> Result<Vec<String>, Failure> {
        let needed = compiled.modules.values().flat_map(|facts| &facts.needed);
        let needed = needed.map(String::as_str);
        let mut foreign = foreign::libraries(needed, compiled.modules.keys(), major)?;
        foreign.retain(|soname| !foreign::is_excluded(soname, &self.excluded));
        Ok(foreign)
    }
}

/// The declared components that are linked as shared libraries, and the optional ones for which the major has a package:
/// code opens them by name if users install them, whether or not the toolkit of the build has them.
pub(super) fn linked_components(config: &Config, toolkit: &Toolkit) -> BTreeSet<Component> {
    let major = toolkit.version().major;
    let declared = config.for_major(major).components.iter();
    declared
        .filter(|wanted| {
            let component = wanted.component;
            let has_package = component.facts().package(major).is_some();
            toolkit.get(component).is_some() || wanted.optional && has_package
        })
        .map(|wanted| wanted.component)
        .filter(|c| *c != Component::Cudart || config.cudart == Cudart::Shared)
        .collect()
}

/// The versions of a toolkit and its components.
pub(super) fn built_with(toolkit: &Toolkit) -> BuiltWith {
    let components = toolkit.components().iter();
    BuiltWith {
        toolkit: toolkit.version(),
        components: components
            .filter_map(|c| Some((c.found.component, c.found.version.clone()?)))
            .collect(),
    }
}

fn undeclared() -> Failure {
    let text =
        "no compute capability is declared, and a wheel is built for other machines than this one";
    Failure::new(exit_code::CAPABILITY, text)
        .hint("declare capabilities in Cargo.toml:\n[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undeclared_capabilities_are_an_error_with_or_without_a_gpu() {
        let error = undeclared().to_string();
        assert!(!error.contains("no GPU"), "{error}");
        assert!(error.contains("capabilities = [\"8.0\""), "{error}");
    }
}

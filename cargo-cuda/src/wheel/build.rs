//! Builds the wheel of one CUDA major, from the search for a toolkit to the finished file.
//!
//! maturin gets the variables that `cargo cuda build --cuda` sets for cargo, so that unmodified
//! crates find the same toolkit. The target directory is separate, because cargo does not rebuild
//! crates that were built without the rustc wrapper.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;
use cuda_build::internal::config::Cudart;
use cuda_build::internal::{Config, RequestedRelease};
use cuda_build::{Capability, Component, Plan, Toolkit};

use super::archive::Wheel;
use super::dependencies::{self, BuiltWith, Origin};
use super::elf::ElfFacts;
use super::foreign::{self, Auditwheel};
use super::maturin::{Maturin, Mode, NO_WARNING, Request};
use super::metadata::{IN_MANIFEST, check_name};
use super::needs::Needs;
use super::pyproject::Pyproject;
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{SearchPathKind, SearchPathPlan};
use super::source::Source;
use crate::build::{Build, LoaderPath, Purpose};
use crate::exit_code;
use crate::failure::Failure;
use crate::lacking;
use crate::output::{self, TemporaryDirectory};
use crate::process;
use crate::project::Project;
use crate::rustc_wrapper::{self, Scope};
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
}

/// What was built for one major: a wheel for each Python interpreter.
#[derive(Debug, Default)]
pub struct Built {
    pub wheels: Vec<BuiltWheel>,
    /// The source distribution, if the user's arguments for maturin have `--sdist`.
    pub sdists: Vec<PathBuf>,
}

/// What maturin has built.
pub(super) struct Compiled {
    pub(super) wheels: Vec<PathBuf>,
    sdists: Vec<PathBuf>,
    /// The native modules of all wheels, by their paths in the wheel.
    modules: BTreeMap<String, ElfFacts>,
    /// The directory of the files, which is removed on drop.
    _directory: TemporaryDirectory,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    pub(super) major: u32,
    pub(super) build: Build,
    plan: Plan,
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
        })
    }

    fn package(&self) -> &Package {
        &self.source.package
    }

    fn project(&self) -> &Project {
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
        output::message(&format!(
            "building {} {} for CUDA {major}",
            package.name, package.version
        ));
        output::messages(&build.notes);
        let (compiled, linked) = self.link(prepared)?;
        let mut rewrite = Rewrite {
            name: package.config.wheel.name.clone(),
            major,
            runpath: SearchPathPlan::new(&linked, major, self.kind)?,
            built_with: built_with(toolkit),
            declared: Needs::declared(&package.config, major),
            dependencies: package.config.for_major(major).dependencies.to_vec(),
            excluded: self.excluded.clone(),
        };
        output::make_directory(&self.out)?;
        let mut built = Built::default();
        let foreign = self.foreign(&compiled, major)?;
        let auditwheel = match foreign.is_empty() {
            true => None,
            false => Auditwheel::find(&self.project().env, self.project().fetch)?,
        };
        if auditwheel.is_some() {
            // auditwheel writes no other kind.
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
                "maturin's warning about external libraries is expected: the wheel requires NVIDIA's packages instead \
                 of copying their libraries",
            );
        }
        Ok(built)
    }

    /// Compiles, and returns the components that the search path covers. The final crate is linked again if the first
    /// search path was wrong: dependencies may link libraries that no manifest declares, and the depth of the module
    /// is known only from the wheel.
    pub(super) fn link(
        &self,
        prepared: &Prepared,
    ) -> Result<(Compiled, BTreeSet<Component>), Failure> {
        let Prepared { major, build, .. } = prepared;
        let variables = self.variables(build)?;
        let mut linked = prepared.linked.clone();
        let pyproject = self.source.pyproject.as_ref();
        let mut depth = pyproject.map_or(1, Pyproject::module_depth);
        loop {
            let runpath = SearchPathPlan::new(&linked, *major, self.kind)?;
            let arguments = runpath.rustc_arguments(depth);
            let compiled = self.compile(build, &variables, &arguments, Mode::Wheel)?;
            let more = undeclared_components(&compiled.modules, *major, &linked, &build.toolkit);
            let found = runpath.depth_of_linked(&compiled.modules, depth);
            if more.is_empty() && found == depth {
                return Ok((compiled, linked));
            }
            let names: Vec<&str> = more.iter().map(|component| component.id()).collect();
            let reason = match names.as_slice() {
                [] => format!("the module is {found} directories below site-packages, not {depth}"),
                names => format!(
                    "the module needs {}, which `components` does not list",
                    names.join(", ")
                ),
            };
            output::message(&format!(
                "note: {reason}; linking again with another search path"
            ));
            depth = found;
            linked.extend(more);
            let used: Vec<Component> = linked.iter().copied().collect();
            build.toolkit.check_plan(&prepared.plan, &used)?;
        }
    }

    /// The libraries that auditwheel has to copy into the wheels.
    fn foreign(&self, compiled: &Compiled, major: u32) -> Result<Vec<String>, Failure> {
        let needed = compiled.modules.values().flat_map(|facts| &facts.needed);
        let needed = needed.map(String::as_str);
        let mut foreign = foreign::libraries(needed, compiled.modules.keys(), major)?;
        foreign.retain(|soname| !foreign::is_excluded(soname, &self.excluded));
        Ok(foreign)
    }

    pub(super) fn variables(&self, build: &Build) -> Result<Vec<(String, OsString)>, Failure> {
        let target = &build.directory.path;
        // maturin starts no program that loads CUDA's libraries.
        let mut variables = build.variables(LoaderPath::Unset, &self.project().user);
        variables.push((NO_WARNING.0.to_owned(), NO_WARNING.1.into()));
        variables.push(("CARGO_TARGET_DIR".to_owned(), target.into()));
        if self.project().has_separate_build_directory() {
            variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), target.into()));
        }
        let project = self.project();
        variables.extend(rustc_wrapper::variables(
            project,
            build,
            Scope::Reproducible,
        )?);
        Ok(variables)
    }

    /// Runs maturin.
    pub(super) fn compile(
        &self,
        build: &Build,
        variables: &[(String, OsString)],
        rustc_args: &[String],
        mode: Mode,
    ) -> Result<Compiled, Failure> {
        let directory = TemporaryDirectory::below(&build.directory.path)?;
        let arguments = &self.source.arguments;
        let profile = match mode {
            Mode::Wheel => self
                .profile
                .as_deref()
                .or_else(|| arguments.default_profile()),
            // `release`, unless `editable-profile` or `profile` in `pyproject.toml` names another.
            Mode::Editable => None,
        };
        let invocation = self.maturin.build(&Request {
            manifest: &self.package().manifest,
            directory: self.source.directory(),
            out: directory.path(),
            mode,
            profile,
            arguments,
            rustc_args,
            env: variables,
        });
        let code = process::run(&invocation, &self.project().user)?;
        // The variables are left out: they fill a screen, and `cargo cuda env` prints them.
        let command = Invocation {
            variables: Vec::new(),
            ..invocation
        };
        if code != 0 {
            let mut failure = Failure::wheel(format!(
                "maturin ended with code {code}; its own messages are above\n  command: {command}"
            ));
            failure.hints = lacking::hints(build);
            return Err(failure);
        }
        let files = output::files(directory.path())?;
        let (wheels, sdists): (Vec<PathBuf>, Vec<PathBuf>) = files
            .into_iter()
            .partition(|file| file.extension().is_some_and(|e| e == "whl"));
        if wheels.is_empty() {
            return Err(no_wheel(&command));
        }
        Ok(Compiled {
            modules: modules(&wheels)?,
            wheels,
            sdists,
            _directory: directory,
        })
    }
}

/// The native modules of some wheels.
fn modules(wheels: &[PathBuf]) -> Result<BTreeMap<String, ElfFacts>, Failure> {
    let mut modules = BTreeMap::new();
    for wheel in wheels {
        let wheel = Wheel::open(wheel)?;
        let owned = wheel.modules();
        modules.extend(owned.map(|(path, facts)| (path.to_owned(), facts.clone())));
    }
    Ok(modules)
}

/// The toolkit's components that modules need, without those in `known`. Other libraries are checked when the wheel is
/// rewritten.
fn undeclared_components(
    modules: &BTreeMap<String, ElfFacts>,
    major: u32,
    known: &BTreeSet<Component>,
    toolkit: &Toolkit,
) -> BTreeSet<Component> {
    let needed = modules.values().flat_map(|facts| &facts.needed);
    let component = |soname: &String| match dependencies::origin(soname, major) {
        Ok(Origin::Component(component)) => Some(component),
        _ => None,
    };
    let has_library = |component: &Component| {
        let found = toolkit.get(*component);
        found.is_some_and(|found| !found.libraries.is_empty())
    };
    needed
        .filter_map(component)
        .filter(|component| !known.contains(component) && has_library(component))
        .collect()
}

/// The declared components that are linked as shared libraries.
pub(super) fn linked_components(config: &Config, toolkit: &Toolkit) -> BTreeSet<Component> {
    let declared = config.for_major(toolkit.version().major).components.iter();
    declared
        .map(|wanted| wanted.component)
        .filter(|c| *c != Component::Cudart || config.cudart == Cudart::Shared)
        .filter(|c| toolkit.get(*c).is_some())
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

fn no_wheel(command: &Invocation) -> Failure {
    Failure::wheel(format!(
        "maturin succeeded, but built no wheel\n  command: {command}"
    ))
    .hint(
        "remove the maturin options that make it do something else than write a wheel: look after `--`, and in \
         `[tool.maturin]` of pyproject.toml",
    )
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

//! Compiles the wheels of one CUDA major with maturin.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

use cuda_build::internal::command::Invocation;
use cuda_build::{Component, Toolkit};

use super::archive::Wheel;
use super::build::{Job, Prepared};
use super::dependencies::{self, Origin};
use super::elf::ElfFacts;
use super::maturin::{Mode, NO_WARNING, Request};
use super::pyproject::Pyproject;
use super::runpath::SearchPathPlan;
use crate::build::{Build, LoaderPath};
use crate::failure::Failure;
use crate::lacking;
use crate::output::{self, TemporaryDirectory};
use crate::process;
use crate::rustc_wrapper::{self, Scope};

/// What maturin has built.
pub(super) struct Compiled {
    pub(super) wheels: Vec<PathBuf>,
    pub(super) sdists: Vec<PathBuf>,
    /// The native modules of all wheels, by their paths in the wheel.
    pub(super) modules: BTreeMap<String, ElfFacts>,
    /// The directory of the files, which is removed on drop.
    _directory: TemporaryDirectory,
}

impl Job {
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
        let began = SystemTime::now();
        let code = process::run(&invocation, &self.project().user)?;
        // The variables are left out: they fill a screen, and `cargo cuda env` prints them.
        let command = Invocation {
            variables: Vec::new(),
            ..invocation
        };
        if code != 0 {
            let hints = lacking::hints(build, self.project(), began);
            let failure = maturin_failed(code, &command);
            return Err(hints.into_iter().fold(failure, Failure::hint));
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

/// The error if maturin fails.
pub(super) fn maturin_failed(code: u8, command: &Invocation) -> Failure {
    Failure::wheel(format!(
        "maturin ended with code {code}\n  command: {command}"
    ))
    .hint("correct what maturin's messages above name")
}

/// The error if maturin succeeds without the expected result.
pub(super) fn no_output(what: &str) -> Failure {
    Failure::wheel(format!("maturin succeeded, but wrote {what}")).hint(OPTIONS_HINT)
}

const OPTIONS_HINT: &str = "remove the maturin options that make it do something else: look at the arguments for maturin, \
                            and in `[tool.maturin]` of pyproject.toml";

fn no_wheel(command: &Invocation) -> Failure {
    no_output(&format!("no wheel\n  command: {command}"))
}

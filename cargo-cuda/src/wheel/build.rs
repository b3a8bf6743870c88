//! Builds the wheels of one CUDA major, from the search for a toolkit to the finished files.
//!
//! maturin gets the variables that `cargo cuda build --cuda` sets for cargo, so that unmodified
//! crates find the same toolkit. Wheels have a target directory of their own: they have more rustflags, and cargo
//! rebuilds everything if they change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::config::{Config, Cudart};
use cuda_build::{Capability, Component, Plan, Toolkit};
use cuda_find_core::command::Invocation;
use cuda_find_core::select::RequestedRelease;

use super::needs::{BuiltWith, Needs, component_of};
use super::programs;
use super::rewrite::{BuiltWheel, Rewrite, is_excluded, third_party};
use super::runpath::{ModuleSearchPath, SearchPathKind, link_arguments};
use super::source::WheelSource;
use crate::cargo_arguments::check_profile;
use crate::failure::{Failure, Result};
use crate::isolated_build::{IsolatedBuild, Purpose};
use crate::missing_components::MissingComponents;
use crate::output::{self, TemporaryDirectory, joined};
use crate::package::archive::WheelArchive;
use crate::package::elf::ElfFacts;
use crate::package::metadata::{IN_MANIFEST, check_name};
use crate::process;

/// Omits maturin's warning about a build backend with another name than `maturin`.
pub const NO_WARNING: (&str, &str) = ("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1");

/// What the wheels of all majors have in common.
#[derive(Debug)]
pub struct WheelBuild {
    pub source: WheelSource,
    /// The command that starts maturin. Arguments for maturin are added at the end.
    pub maturin: Invocation,
    /// Cargo's profile; `None` for the one in maturin's arguments or `pyproject.toml`, otherwise `release`.
    pub profile: Option<String>,
    /// The directory for the wheels.
    pub out: PathBuf,
    pub kind: SearchPathKind,
    /// Libraries that are not copied into the wheel, as in [`is_excluded`].
    pub excluded: Vec<String>,
    /// Checks of the audit whose errors do not count.
    pub allow: Vec<String>,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    pub build: IsolatedBuild,
    plan: Plan,
    /// The declared components that are linked as shared libraries, and those that are loaded by name.
    pub linked: BTreeSet<Component>,
}

impl Prepared {
    /// Whether the build can compile with nvcc. A build without nvcc fails if a build script needs it.
    pub fn has_nvcc(&self) -> bool {
        self.build.toolkit.get(Component::Nvcc).is_some()
    }

    pub fn major(&self) -> u32 {
        self.build.toolkit.version().major
    }
}

/// What maturin builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Wheels with all files.
    Wheel,
    /// A wheel that refers to the source tree, for development.
    Editable,
}

/// What maturin has built.
pub struct CompiledWheels {
    /// A wheel for each Python interpreter.
    pub wheels: Vec<(PathBuf, WheelArchive)>,
    /// The source distribution, if the user's arguments for maturin have `--sdist`.
    sdists: Vec<PathBuf>,
    /// The directory of the files, which is removed on drop.
    _directory: TemporaryDirectory,
}

impl CompiledWheels {
    /// The native modules of all wheels, by their paths in the wheels.
    fn modules(&self) -> impl Iterator<Item = (&str, &ElfFacts)> {
        self.wheels.iter().flat_map(|(_, wheel)| wheel.modules())
    }
}

impl WheelBuild {
    /// Finds maturin for a crate. The other fields have their defaults.
    pub fn new(source: WheelSource, out: &Path) -> Result<Self> {
        Ok(Self {
            maturin: programs::maturin(&source.project.env, source.project.fetch)?,
            source,
            profile: None,
            out: out.to_owned(),
            kind: SearchPathKind::default(),
            excluded: Vec::new(),
            allow: Vec::new(),
        })
    }

    /// Finds the toolkit for a release and creates its view.
    pub fn prepare(&self, release: RequestedRelease, gpus: &[Capability]) -> Result<Prepared> {
        let config = &self.source.package.config;
        if let Some(name) = &config.wheel.name {
            check_name(name, IN_MANIFEST)?;
        }
        let declared = config.for_major(release.major);
        let project = self.source.project.for_release(release);
        let build = IsolatedBuild::prepare(&project, Purpose::Wheel, gpus, None)?;
        let is_declared = declared.capabilities.is_some();
        let plan = build.plan.clone().filter(|_| is_declared);
        let plan = plan.ok_or_else(undeclared)?;
        let wanted = declared.components.iter();
        let used: Vec<Component> = wanted.map(|wanted| wanted.component).collect();
        build.toolkit.check_plan(&plan, &used)?;
        let mut linked = linked_components(config, &build.toolkit);
        linked.extend(self.needs(&build.toolkit).0.required);
        // Checked before compiling: each linked component must have a library directory in NVIDIA's packages.
        ModuleSearchPath::new(&linked, release.major)?;
        Ok(Prepared {
            build,
            plan,
            linked,
        })
    }

    /// What the manifest declares and dependencies probably load by name, with a note about the latter.
    pub fn needs(&self, toolkit: &Toolkit) -> (Needs, Option<String>) {
        let config = &self.source.package.config;
        let mut needs = Needs::declared(config, BuiltWith::of(toolkit));
        let note = needs.add_loaded(self.source.project.finder().guesses(), config);
        (needs, note)
    }

    /// Builds the wheels of one major: a wheel for each Python interpreter, and the source distribution.
    pub fn build(&self, prepared: &Prepared) -> Result<(Vec<BuiltWheel>, Vec<PathBuf>)> {
        let (project, package) = (&self.source.project, &self.source.package);
        let (major, build) = (prepared.major(), &prepared.build);
        let text = format!("{} {} for CUDA {major}", package.name, package.version);
        output::status("Building", &text);
        build.print_notes();
        let _lock = build.enter(project)?;
        let (needs, note) = self.needs(&build.toolkit);
        output::messages(&Vec::from_iter(note));
        let compiled = self.link(prepared)?;
        let rewrite = Rewrite {
            name: package.config.wheel.name.clone(),
            needs,
            dependencies: package.config.for_major(major).dependencies.to_vec(),
            driver: package.config.driver.clone(),
            excluded: self.excluded.clone(),
            allow: self.allow.clone(),
        };
        let third_party = third_party(compiled.wheels.iter().map(|(_, wheel)| wheel));
        let is_copied = |soname: &&String| !is_excluded(soname, &self.excluded);
        let libraries = joined(third_party.iter().filter(is_copied), ", ");
        let mut auditwheel = None;
        if !libraries.is_empty() {
            auditwheel = programs::auditwheel(&project.env, project.fetch)?;
        }
        if auditwheel.is_some() && self.kind == SearchPathKind::Runpath {
            output::message(
                "note: the search path is an RPATH, which `LD_LIBRARY_PATH` does not override, because auditwheel \
                 copies libraries into the wheel, and it writes no RUNPATH",
            );
        }
        let requires_cuda = |wheel: &BuiltWheel| wheel.cuda_requirements().next().is_some();
        let mut wheels = Vec::new();
        for (path, wheel) in compiled.wheels {
            wheels.push(match &auditwheel {
                Some(auditwheel) => {
                    let grafted = TemporaryDirectory::below(&build.directory.path)?;
                    let (out, user) = (grafted.path(), &project.env);
                    let path =
                        programs::graft(auditwheel, &path, out, &libraries, &self.excluded, user)?;
                    rewrite.apply(WheelArchive::open(&path)?, &path, &self.out)?
                }
                None => rewrite.apply(wheel, &path, &self.out)?,
            });
        }
        let sdists = compiled.sdists.iter();
        let sdists = sdists.map(|sdist| output::copy_into(sdist, &self.out));
        let sdists = sdists.collect::<Result<_, _>>()?;
        if third_party.is_empty() && wheels.iter().any(requires_cuda) {
            output::message(
                "note: maturin's warning about external libraries is expected: the wheel requires NVIDIA's packages \
                 instead of copying their libraries",
            );
        }
        Ok((wheels, sdists))
    }

    /// Compiles. The final crate is linked again if the first search path was wrong: dependencies may link libraries
    /// that no manifest declares, and the depth of the module is known only from the wheel.
    pub fn link(&self, prepared: &Prepared) -> Result<CompiledWheels> {
        let (major, build) = (prepared.major(), &prepared.build);
        let mut linked = prepared.linked.clone();
        let mut depth = self.source.maturin.module_depth();
        loop {
            let search_path = ModuleSearchPath::new(&linked, major)?;
            let arguments = link_arguments(self.kind, &search_path.entries(depth));
            let compiled = self.compile(build, &arguments, Mode::Wheel)?;
            let mut more = BTreeSet::new();
            for soname in compiled.modules().flat_map(|(_, facts)| &facts.needed) {
                // Libraries that the toolkit lacks are checked when the wheel is rewritten.
                let component = component_of(soname, major).ok().flatten();
                let found = component.and_then(|component| build.toolkit.get(component));
                let has_library = found.is_some_and(|found| !found.libraries.is_empty());
                more.extend(component.filter(|c| has_library && !linked.contains(c)));
            }
            let found = search_path.depth_of_linked(compiled.modules(), depth);
            if more.is_empty() && found == depth {
                return Ok(compiled);
            }
            let mut reason = format!("is {found} directories below site-packages, not {depth}");
            if !more.is_empty() {
                let names = joined(&more, ", ");
                reason = format!("needs {names}, which `components` does not list");
            }
            let text = format!("note: the module {reason}; linking again with another search path");
            output::message(&text);
            depth = found;
            linked.extend(more);
            let used: Vec<Component> = linked.iter().copied().collect();
            build.toolkit.check_plan(&prepared.plan, &used)?;
        }
    }

    /// Runs maturin. `rustc_args` are for the final crate only, not for its dependencies.
    pub fn compile(
        &self,
        build: &IsolatedBuild,
        rustc_args: &[String],
        mode: Mode,
    ) -> Result<CompiledWheels> {
        let (project, package) = (&self.source.project, &self.source.package);
        let directory = TemporaryDirectory::below(&build.directory.path)?;
        let (words, mut profile): (&[&str], _) = match mode {
            Mode::Wheel => (&["build"], self.profile.as_deref()),
            // maturin takes `editable-profile` or `profile` of `pyproject.toml`, otherwise `release`.
            Mode::Editable => (&["pep517", "build-wheel", "--editable"], None),
        };
        if mode == Mode::Wheel {
            profile = profile.or_else(|| self.source.default_profile());
        }
        let mut call = self.maturin.clone().args(words);
        call = call.args(["--auditwheel", "warn"]);
        let named = [profile, self.source.maturin.profile.as_deref()];
        named.into_iter().flatten().try_for_each(check_profile)?;
        if let Some(profile) = profile {
            call = call.args(["--profile", profile]);
        }
        call = call.args(["--out".as_ref(), directory.path()]);
        match self.source.directory() {
            Some(directory) => call.directory = Some(directory.to_owned()),
            None => call = call.args(["--manifest-path".as_ref(), package.manifest.as_path()]),
        }
        call = call.args(self.source.options.iter().cloned());
        let users = self.source.rustc_args.iter().cloned();
        let rustc_args: Vec<OsString> = users.chain(rustc_args.iter().map(Into::into)).collect();
        if !rustc_args.is_empty() {
            call = call.args(["--"]).args(rustc_args);
        }

        let with_variables = Invocation {
            variables: self.variables(build),
            ..call.clone()
        };
        let (code, messages) = process::run_with_messages(&with_variables, &project.env)?;
        if code != 0 {
            let hints = MissingComponents::of(build, &project.root, &messages).hints;
            return Err(hints.into_iter().fold(failed(code, &call), Failure::hint));
        }
        let (mut wheels, mut sdists) = (Vec::new(), Vec::new());
        for path in output::files(directory.path())? {
            match path.extension().is_some_and(|it| it == "whl") {
                true => wheels.push((path.clone(), WheelArchive::open(&path)?)),
                false => sdists.push(path),
            }
        }
        if wheels.is_empty() {
            return Err(no_output(&format!("no wheel\n  command: {call}")));
        }
        Ok(CompiledWheels {
            wheels,
            sdists,
            _directory: directory,
        })
    }

    /// The variables for maturin. It starts no program that loads CUDA's libraries.
    fn variables(&self, build: &IsolatedBuild) -> Vec<(String, OsString)> {
        let project = &self.source.project;
        let target = &build.directory.path;
        let mut variables = build.variables_without_loader_path();
        variables.push((NO_WARNING.0.to_owned(), NO_WARNING.1.into()));
        variables.push(("CARGO_TARGET_DIR".to_owned(), target.into()));
        if project.has_separate_build_directory() {
            variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), target.into()));
        }
        variables.extend(build.reproducible_rustflags(project));
        variables
    }
}

/// The declared components that are linked as shared libraries, and the optional ones for which the major has a
/// package: code opens them by name if users install them, whether or not the toolkit of the build has them.
fn linked_components(config: &Config, toolkit: &Toolkit) -> BTreeSet<Component> {
    let major = toolkit.version().major;
    let mut linked = BTreeSet::new();
    for wanted in config.for_major(major).components {
        let component = wanted.component;
        let is_optional = wanted.optional && component.facts().package(major).is_some();
        let is_shared = component != Component::Cudart || config.cudart == Cudart::Shared;
        if is_shared && (is_optional || toolkit.get(component).is_some()) {
            linked.insert(component);
        }
    }
    linked
}

fn undeclared() -> Failure {
    let text =
        "no compute capability is declared, and a wheel is built for other machines than this one";
    Failure::capability(text).hint(
        "declare capabilities in Cargo.toml:\n[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]",
    )
}

/// The error if maturin fails. The command is shown without its variables, which `cargo cuda env` prints.
pub fn failed(code: u8, command: &Invocation) -> Failure {
    let text = format!("maturin ended with code {code}\n  command: {command}");
    Failure::wheel(text).hint("correct what maturin's messages above name")
}

/// The error if maturin succeeds without the expected result.
pub fn no_output(what: &str) -> Failure {
    Failure::wheel(format!("maturin succeeded, but wrote {what}")).hint(
        "remove the maturin options that make it do something else: look at the arguments for maturin, and in \
         `[tool.maturin]` of pyproject.toml",
    )
}

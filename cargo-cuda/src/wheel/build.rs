//! Builds the wheels of one CUDA major, from the search for a toolkit to the finished files.
//!
//! maturin gets the variables that `cargo cuda build --cuda` sets for cargo, so that unmodified
//! crates find the same toolkit. Wheels have a target directory of their own: they have more rustflags, and cargo
//! rebuilds everything if they change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuda_build::{Capability, Component, Plan, Toolkit, View};
use cuda_find_core::command::Invocation;
use cuda_find_core::select::RequestedRelease;
use tempfile::TempDir;

use super::needs::{BuiltWith, Needs, component_of};
use super::rewrite::{BuiltWheel, Purpose, Rewrite};
use super::runpath::{MOST_LINKS, ModuleSearchPath, link_arguments, needed_by_runpath, no_end};
use super::source::WheelSource;
use super::{programs, sdist};
use crate::diagnosis::diagnose;
use crate::failure::{Failure, Result};
use crate::isolated_build::{self, IsolatedBuild};
use crate::output::{self, joined};
use crate::package::archive::WheelArchive;
use crate::package::elf::ElfFacts;
use crate::process;
use crate::project::Project;
use crate::toolkits;

/// Omits maturin's warning about a build backend with another name than `maturin`.
pub const NO_WARNING: (&str, &str) = ("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1");

/// What the wheels of all majors have in common.
#[derive(Clone, Debug)]
pub struct WheelBuild {
    pub source: WheelSource,
    pub purpose: Purpose,
    /// A second purpose of the same build.
    pub also: Option<Purpose>,
    /// The command that starts maturin. Arguments for maturin are added at the end.
    pub maturin: Invocation,
    /// The directory for the wheels.
    pub out: PathBuf,
    /// Libraries that the wheel may need from the user's machine, as in `libtorch*`.
    pub excluded: Vec<String>,
    /// Checks of the audit whose errors do not count.
    pub allow: Vec<String>,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    pub build: IsolatedBuild,
    /// The capabilities to build for.
    pub plan: Plan,
    /// The declared components that are linked as shared libraries, and those that are loaded by name.
    linked: BTreeSet<Component>,
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

/// What maturin has built.
struct CompiledWheels {
    /// A wheel for each Python interpreter.
    wheels: Vec<(PathBuf, WheelArchive)>,
    /// The source distribution, if the user's arguments for maturin have `--sdist`.
    sdists: Vec<PathBuf>,
    /// The directory of the files, which is removed on drop.
    _directory: TempDir,
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
            purpose: Purpose::Index,
            also: None,
            source,
            out: out.to_owned(),
            excluded: Vec::new(),
            allow: Vec::new(),
        })
    }

    /// Finds the toolkit for a release and creates its view.
    pub fn prepare(&self, release: RequestedRelease, gpus: &[Capability]) -> Result<Prepared> {
        let declared = self.source.package.config.for_major(release.major);
        let project = self.source.project.for_release(release);
        let build = IsolatedBuild::prepare(&project, isolated_build::Purpose::Wheel, gpus, None)?;
        let is_declared = declared.capabilities.is_some();
        let plan = build.plan.clone().filter(|_| is_declared);
        let plan = plan.ok_or_else(undeclared)?;
        let wanted = declared.components.iter();
        let used: Vec<Component> = wanted.map(|wanted| wanted.component).collect();
        build.toolkit.check_plan(&plan, &used)?;
        let needs = self.rewrite(&build.toolkit).0.needs;
        let linked = &needs.required | &needs.extras();
        // Checked before compiling: each linked component must have a library directory in NVIDIA's packages.
        ModuleSearchPath::new(&linked, release.major)?;
        Ok(Prepared {
            build,
            plan,
            linked,
        })
    }

    /// How the wheels are rewritten, and a note about the components that dependencies probably load by name.
    pub fn rewrite(&self, toolkit: &Toolkit) -> (Rewrite, Option<String>) {
        let config = &self.source.package.config;
        let mut needs = Needs::declared(config, BuiltWith::of(toolkit));
        let note = needs.add_loaded(self.source.project.finder().guesses(), config);
        let dependencies = config.for_major(toolkit.version().major).dependencies;
        let rewrite = Rewrite {
            purpose: self.purpose.clone(),
            needs,
            dependencies: dependencies.to_vec(),
            excluded: self.excluded.clone(),
            allow: self.allow.clone(),
        };
        (rewrite, note)
    }

    /// Builds the wheels of one major: a wheel for each Python interpreter, and the source distribution.
    pub fn build(&self, prepared: &Prepared) -> Result<(Vec<BuiltWheel>, Vec<PathBuf>)> {
        let (project, package) = (&self.source.project, &self.source.package);
        let started = Instant::now();
        let (major, build) = (prepared.major(), &prepared.build);
        let of_label = match &self.purpose {
            Purpose::Variant { label: Some(_), .. } => format!(" and {}", prepared.plan),
            _ => String::new(),
        };
        let text = format!(
            "{} {} for CUDA {major}{of_label}",
            package.name, package.version
        );
        output::status("Building", &text);
        build.print_notes();
        build.enter(project)?;
        let (rewrite, note) = self.rewrite(&build.toolkit);
        output::messages(&Vec::from_iter(note));
        let compiled = match &self.purpose {
            Purpose::Editable(site_packages) => {
                let search_path = ModuleSearchPath::new(&prepared.linked, major)?;
                let entries = match site_packages {
                    Some(site) => search_path.below(&site.display().to_string()),
                    None => vec![self.lasting_view(build)?.lib().display().to_string()],
                };
                self.compile(build, &link_arguments(&entries, []))?
            }
            _ => self.link(prepared)?,
        };
        let is_for_index = matches!(self.purpose, Purpose::Index | Purpose::Variant { .. });
        let tags_manylinux = is_for_index && !self.source.maturin.skips_auditwheel();
        if tags_manylinux
            && compiled
                .modules()
                .any(|(_, elf)| elf.components().next().is_some())
        {
            output::message(
                "note: the wheel requires packages with NVIDIA's libraries, so maturin's warning about these external \
                 libraries is expected",
            );
        }
        let mut wheels = Vec::new();
        for (path, wheel) in compiled.wheels {
            wheels.push(rewrite.apply(wheel, &path, &self.out)?);
            if let Some(purpose) = &self.also {
                let purpose = purpose.clone();
                let rewrite = Rewrite {
                    purpose,
                    ..rewrite.clone()
                };
                wheels.push(rewrite.apply(WheelArchive::open(&path)?, &path, &self.out)?);
            }
        }
        wheels
            .iter_mut()
            .for_each(|wheel| wheel.seconds = started.elapsed().as_secs());
        let sdists = compiled.sdists.iter().map(|sdist| self.sdist(sdist));
        Ok((wheels, sdists.collect::<Result<_>>()?))
    }

    /// A view of the same toolkit that stays when target directories are removed: an installed module uses it.
    fn lasting_view(&self, build: &IsolatedBuild) -> Result<View> {
        let Project {
            env, root, target, ..
        } = &self.source.project;
        let workspace = self.source.project.workspace.as_ref();
        let place = toolkits::view_place(env, root, workspace, target)?;
        Ok(View::create(&build.toolkit, &place, root, env)?)
    }

    /// Copies a source distribution of maturin's to the output, and returns its path there.
    pub fn sdist(&self, file: &Path) -> Result<PathBuf> {
        let root = &self.source.project.root;
        let path = self.out.join(file.file_name().unwrap_or_default());
        let pyproject = self.source.pyproject.as_ref();
        let Some(backend) = pyproject.and_then(|pyproject| pyproject.backend_file(root)) else {
            let text = format!(
                "note: whoever installs {} builds it with maturin alone, without the requirements on NVIDIA's packages \
                 and without a search path to them; a build backend that calls `cargo cuda` adds both",
                output::file_name(file)
            );
            output::message(&text);
            output::copy(file, &path)?;
            return Ok(path);
        };
        let sdist = root.bytes(file).map_err(Failure::io("read", file))?;
        let sdist = sdist::with_dynamic_requirements(&sdist, &backend)?;
        output::write(&path, &sdist)?;
        Ok(path)
    }

    /// Compiles. The final crate is linked again if the first search path was wrong: dependencies may link libraries
    /// that no manifest declares, and the depth of the module is known only from the wheel.
    fn link(&self, prepared: &Prepared) -> Result<CompiledWheels> {
        let (major, build) = (prepared.major(), &prepared.build);
        let mut linked = prepared.linked.clone();
        let mut depth = self.source.maturin.module_depth();
        let mut direct = BTreeMap::new();
        let mut reason = String::new();
        for _ in 0..MOST_LINKS {
            let search_path = ModuleSearchPath::new(&linked, major)?;
            let entries = search_path.entries(depth);
            let arguments = link_arguments(&entries, direct.keys());
            let compiled = self.compile(build, &arguments)?;
            let mut more = BTreeSet::new();
            let needed = Vec::from_iter(compiled.modules().flat_map(|(_, facts)| &facts.needed));
            let needed_directly = needed_by_runpath(needed.iter().copied(), &build.toolkit)?;
            for soname in needed {
                // Libraries that the toolkit lacks are checked when the wheel is rewritten.
                let component = component_of(soname, major).ok().flatten();
                let found = component.and_then(|component| build.toolkit.get(component));
                let has_library = found.is_some_and(|found| !found.libraries.is_empty());
                more.extend(component.filter(|c| has_library && !linked.contains(c)));
            }
            let found = search_path.depth_of_linked(compiled.modules(), depth);
            reason = format!("is {found} directories below site-packages, not {depth}");
            if !more.is_empty() {
                let names = joined(&more, ", ");
                reason = format!("needs {names}, which `components` does not list");
            }
            if !more.is_empty() || found != depth {
                let note =
                    format!("note: the module {reason}; linking again with another search path");
                output::message(&note);
            } else if needed_directly.keys().all(|it| direct.contains_key(it)) {
                return Ok(compiled);
            } else {
                reason = format!("needs {} directly", joined(needed_directly.keys(), ", "));
            }
            depth = found;
            linked.extend(more);
            linked.extend(needed_directly.values());
            direct.extend(needed_directly);
            let used: Vec<Component> = linked.iter().copied().collect();
            build.toolkit.check_plan(&prepared.plan, &used)?;
        }
        Err(no_end(&format!("the module {reason}")))
    }

    /// Runs maturin. `rustc_args` are for the final crate only, not for its dependencies.
    fn compile(&self, build: &IsolatedBuild, rustc_args: &[String]) -> Result<CompiledWheels> {
        let (project, package) = (&self.source.project, &self.source.package);
        let directory = output::temporary_directory(&build.directory.path)?;
        let (words, profile): (&[&str], _) = match self.purpose {
            // maturin takes `editable-profile` or `profile` of `pyproject.toml`, otherwise `release`.
            Purpose::Editable(_) => (&["pep517", "build-wheel", "--editable"], None),
            _ => (&["build"], self.source.default_profile()),
        };
        let mut call = self.maturin.clone().args(words);
        let auditwheel = match self.source.maturin.skips_auditwheel() {
            true => "skip",
            false => "warn",
        };
        call = call.args(["--auditwheel", auditwheel]);
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
            let hint = diagnose(project, build, &messages).hint;
            return Err(hint.into_iter().fold(failed(code, &call), Failure::hint));
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

    /// The variables for maturin.
    fn variables(&self, build: &IsolatedBuild) -> Vec<(String, OsString)> {
        let project = &self.source.project;
        let target = &build.directory.path;
        let mut variables = build.variables.clone();
        variables.push((NO_WARNING.0.to_owned(), NO_WARNING.1.into()));
        variables.push(("CARGO_TARGET_DIR".to_owned(), target.into()));
        if project.has_build_directory() {
            variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), target.into()));
        }
        variables.push(build.reproducible_rustflags(project));
        variables
    }
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

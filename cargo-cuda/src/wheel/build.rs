//! The wheel of one CUDA major, from the search for its toolkit to the file.
//!
//! maturin gets what `cargo cuda build --cuda` gives to cargo, so that unmodified crates find the
//! same toolkit. The target directory has a key of its own, because cargo does not rebuild what it
//! built without the wrapper of rustc.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;
use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::config::Cudart;
use cuda_build::internal::{Env, ReleaseReq, Root, capability};
use cuda_build::{Component, Plan, Toolkit};

use super::WheelError;
use super::archive;
use super::dependencies::{self, BuiltWith, Origin};
use super::elf::{self, ElfFacts};
use super::maturin::{Maturin, Request};
use super::metadata::{IN_MANIFEST, check_name};
use super::reproducible::{self, Scope};
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{Kind, RunpathPlan};
use crate::build::{Build, Purpose, Request as BuildRequest};
use crate::cargo_config::Configured;
use crate::exit_code;
use crate::failure::Failure;
use crate::lacking;
use crate::output::{self, FreshDirectory};
use crate::previous;
use crate::process;
use crate::rustc_wrapper;
use crate::workspace::{Package, Workspace};

/// What all majors have in common.
#[derive(Debug)]
pub struct Job<'a> {
    /// The variables.
    pub env: &'a Env,
    /// The disk.
    pub root: &'a Root,
    /// The workspace.
    pub workspace: &'a Workspace,
    /// The package that makes the module.
    pub package: &'a Package,
    /// Whether toolkits may be fetched.
    pub fetch: bool,
    /// The Rust triple, where it is not this machine's.
    pub triple: Option<&'a str>,
    /// What Cargo's configuration says.
    pub config: &'a Configured,
    /// Cargo's profile.
    pub profile: &'a str,
    /// The user's own arguments for maturin.
    pub passthrough: &'a [OsString],
    /// Where the wheels go.
    pub out: &'a Path,
    /// The kind of search path.
    pub kind: Kind,
    /// The builder.
    pub maturin: Maturin,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    major: u32,
    build: Build,
    plan: Plan,
    /// Components whose shared library the manifest has linked.
    linked: BTreeSet<Component>,
}

impl Job<'_> {
    /// Finds the toolkit of a major and makes its view.
    ///
    /// # Errors
    /// Where there is none, or it can't do what is declared.
    pub fn prepare(&self, release: ReleaseReq) -> Result<Prepared, Failure> {
        if let Some(name) = &self.package.config.wheel.name {
            check_name(name, IN_MANIFEST)?;
        }
        let major = release.major;
        let declared = self.package.config.for_major(major);
        let env = &self
            .env
            .clone()
            .with(ReleaseReq::VARIABLE, release.to_string());
        let build = Build::prepare(&BuildRequest {
            env,
            root: self.root,
            workspace: Some(self.workspace),
            config: self.config,
            triple: self.triple,
            fetch: self.fetch,
            package: Some(&self.package.name),
            target_directory: None,
            purpose: Purpose::Wheel,
        })?;
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
        let linked = used.into_iter();
        let linked = linked
            .filter(|c| *c != Component::Cudart || self.package.config.cudart == Cudart::Shared);
        let linked: BTreeSet<Component> =
            linked.filter(|c| build.toolkit.get(*c).is_some()).collect();
        // What has no search path is an error before anything is compiled.
        RunpathPlan::new(&linked, major, self.kind)?;
        Ok(Prepared {
            major,
            build,
            plan,
            linked,
        })
    }

    /// Builds the wheel.
    ///
    /// # Errors
    /// Where maturin fails, or what it made is no wheel of this major.
    pub fn build(&self, prepared: &Prepared) -> Result<BuiltWheel, Failure> {
        let Prepared { major, build, .. } = prepared;
        output::say(&format!(
            "building {} {} for CUDA {major}",
            self.package.name, self.package.version
        ));
        build.notes.iter().for_each(|note| output::say(note));
        let (target, variables) = self.variables(prepared)?;
        output::make_directory(&target)?;

        let mut linked = prepared.linked.clone();
        let mut runpath = RunpathPlan::new(&linked, *major, self.kind)?;
        let (mut fresh, mut wheel) = self.compile(prepared, &target, &variables, &runpath)?;
        let more = undeclared_components(&wheel, *major, &linked, &build.toolkit)?;
        if !more.is_empty() {
            // Crates below link what they like, and no manifest says so. The module alone is linked
            // again, with a search path for what it turned out to need.
            let names: Vec<&str> = more.iter().map(|component| component.id()).collect();
            output::say(&format!(
                "note: the module needs {}, which `components` does not name: linked again with a search path for it",
                names.join(", ")
            ));
            linked.extend(more);
            let used: Vec<Component> = linked.iter().copied().collect();
            build.toolkit.check_plan(&prepared.plan, &used)?;
            runpath = RunpathPlan::new(&linked, *major, self.kind)?;
            (fresh, wheel) = self.compile(prepared, &target, &variables, &runpath)?;
        }
        output::make_directory(self.out)?;
        let components = build.toolkit.components().iter();
        let rewrite = Rewrite {
            name: self.package.config.wheel.name.clone(),
            major: *major,
            runpath,
            built_with: BuiltWith {
                toolkit: build.toolkit.version(),
                components: components
                    .filter_map(|c| Some((c.found.component, c.found.version.clone()?)))
                    .collect::<BTreeMap<_, _>>(),
            },
            loaded_at_run_time: loaded(&linked, &build.toolkit),
            capabilities: prepared.plan.real.iter().map(ToString::to_string).collect(),
            ptx: prepared.plan.ptx.iter().map(ToString::to_string).collect(),
        };
        let built = rewrite.apply(&wheel, self.out)?;
        drop(fresh);
        if !built.requires.is_empty() {
            output::say(
                "maturin's warning about external libraries is expected here: the wheel requires NVIDIA's packages \
                 and copies nothing of theirs",
            );
        }
        Ok(built)
    }

    /// Where cargo builds, and the variables for maturin.
    fn variables(
        &self,
        prepared: &Prepared,
    ) -> Result<(PathBuf, Vec<(String, OsString)>), Failure> {
        let build = &prepared.build;
        let target = build.directory.path.clone();
        // maturin starts nothing that needs CUDA's libraries to run.
        let mut settings: Vec<_> = build.settings_without_loader_path().cloned().collect();
        settings.push(previous::record(&settings, self.env));
        let mut variables: Vec<(String, OsString)> = settings
            .into_iter()
            .map(|setting| (setting.name, setting.value))
            .collect();
        variables.push(("CARGO_TARGET_DIR".to_owned(), target.clone().into()));
        if self.workspace.has_build_directory {
            variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), target.clone().into()));
        }
        variables.extend(reproducible::environment(
            &process::own_program()?,
            Scope::Place,
            &rustc_wrapper::search(build),
            self.config.wrapper.as_deref(),
            self.env,
        ));
        Ok((target, variables))
    }

    /// Has maturin build the module; the wheel lies in a directory that is removed when dropped.
    fn compile(
        &self,
        prepared: &Prepared,
        target: &Path,
        variables: &[(String, OsString)],
        runpath: &RunpathPlan,
    ) -> Result<(FreshDirectory, PathBuf), Failure> {
        let fresh = FreshDirectory::below(target)?;
        let invocation = self.maturin.build(&Request {
            manifest: &self.package.manifest,
            out: fresh.path(),
            profile: self.profile,
            passthrough: self.passthrough,
            // The module lies in one import package.
            rustc_args: &runpath.rustc_arguments(1),
            env: variables,
        });
        let code = process::run(&invocation, self.env)?;
        if code != 0 {
            let text = "its own messages are above";
            let message =
                format!("maturin ended with code {code}; {text}\n  command: {invocation}");
            let hints = lacking::hints(&prepared.build);
            return Err(Failure {
                code: exit_code::WHEEL,
                message,
                hints,
            });
        }
        let wheel = one_wheel(&output::files(fresh.path())?, &invocation)?;
        Ok((fresh, wheel))
    }
}

/// Components of the toolkit that a wheel's modules need, without those that are known already.
/// Anything else that they need is judged when the wheel is rewritten.
fn undeclared_components(
    wheel: &Path,
    major: u32,
    known: &BTreeSet<Component>,
    toolkit: &Toolkit,
) -> Result<BTreeSet<Component>, WheelError> {
    let mut found = BTreeSet::new();
    for entry in archive::read(wheel)?
        .entries
        .values()
        .filter(|entry| elf::is_elf(&entry.content))
    {
        let needed = ElfFacts::parse(&entry.content)
            .map(|facts| facts.needed)
            .unwrap_or_default();
        for soname in needed {
            if let Ok(Origin::Component(component)) = dependencies::origin(&soname, major)
                && !known.contains(&component)
                && toolkit
                    .get(component)
                    .is_some_and(|found| !found.libraries.is_empty())
            {
                found.insert(component);
            }
        }
    }
    Ok(found)
}

/// What linked libraries open by name while they run, which no ELF file tells. NVIDIA's packages
/// name these too, but any version of them.
fn loaded(linked: &BTreeSet<Component>, toolkit: &Toolkit) -> BTreeSet<Component> {
    let linked: Vec<Component> = linked.iter().copied().collect();
    let needed = closure(&linked, toolkit.version().major).into_iter();
    let loaded = needed
        .filter(|(component, kind)| *kind == EdgeKind::Load && toolkit.get(*component).is_some());
    loaded.map(|(component, _)| component).collect()
}

fn one_wheel(files: &[PathBuf], invocation: &Invocation) -> Result<PathBuf, Failure> {
    match files {
        [wheel] if wheel.extension().is_some_and(|e| e == "whl") => Ok(wheel.clone()),
        other => Err(Failure::new(
            exit_code::WHEEL,
            format!(
                "expected maturin to make one wheel, it made {}: one interpreter at a time, or an abi3 module\n  \
                 command: {invocation}",
                other.len()
            ),
        )),
    }
}

fn undeclared() -> Failure {
    Failure::from(capability::undeclared())
        .hint("a wheel runs on other machines than this one, so `native` does not do")
}

//! One build: the toolkit, its view, the variables, and the directory that cargo builds in.
//!
//! A build script that does not tell Cargo which variables it has read never runs again when one
//! changes. So every toolkit with its variables has a target directory of its own (see
//! [`directory`]), and plain `cargo` has another.

mod capabilities;
pub mod directory;

use std::path::{Path, PathBuf};

use cuda_build::internal::capability::Single;
use cuda_build::internal::{Env, ReleaseReq, Root, Target, ViewPlace, driver};
use cuda_build::{Component, Plan, Toolkit, View};

use self::capabilities::{Capabilities, Choice};
use crate::cargo_config::{self, Configured};
use crate::environment::{self, Environment, Inputs, Setting, overridden_by_toolchain_file};
use crate::failure::Failure;
use crate::output;
use crate::toolkits::{self, Finder};
use crate::workspace::{Package, Workspace};

pub use directory::{Directory, Purpose};

/// What a build is requested for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The variables, with `[env]` of Cargo's configuration.
    pub env: &'a Env,
    /// The disk.
    pub root: &'a Root,
    /// The workspace, if there is one here.
    pub workspace: Option<&'a Workspace>,
    /// What Cargo's configuration says.
    pub config: &'a Configured,
    /// `--target`
    pub triple: Option<&'a str>,
    /// `--fetch`
    pub fetch: bool,
    /// The package whose declarations count; those of all packages if unset.
    pub package: Option<&'a str>,
    /// `--target-dir`
    pub target_directory: Option<&'a Path>,
    /// What is built.
    pub purpose: Purpose,
}

/// Everything that is decided before cargo, maturin or a program is started.
#[derive(Debug)]
pub struct Build {
    /// The toolkit.
    pub toolkit: Toolkit,
    /// The platform.
    pub target: Target,
    /// The name of the directory that cargo has for a target that is named.
    pub target_name: Option<String>,
    /// The capabilities to build for, if they are known.
    pub plan: Option<Plan>,
    /// The toolkit as one root, at a path that stays.
    pub view: View,
    /// Cargo's target directory, and what belongs to it.
    pub directory: Directory,
    /// The variables.
    pub settings: Vec<Setting>,
    /// Variables that are left as the user has set them.
    pub kept: Vec<String>,
    /// Sentences that the user should read.
    pub notes: Vec<String>,
}

impl Build {
    /// Finds the toolkit, and makes view and directory.
    ///
    /// # Errors
    /// If no toolkit is found, it cannot do what is requested, or a file cannot be written.
    pub fn prepare(request: &Request<'_>) -> Result<Self, Failure> {
        let packages = request.packages();
        let jetson = packages.iter().any(|package| package.config.jetson);
        let named = request.config.build_target.as_deref();
        let target = toolkits::target(request.triple, named, jetson)?;
        let target_name = request
            .triple
            .or(named)
            .map(cargo_config::target_directory_name);
        let toolkit = Finder {
            env: &toolkits::with_lock(request.env.clone(), request.workspace),
            root: request.root,
            target: &target,
            workspace: request.workspace,
            fetch: request.fetch,
            partial: false,
        }
        .find()?;
        let gpus = driver::driver()
            .map(|driver| driver.gpus)
            .unwrap_or_default();
        let mut chosen = Choice {
            env: request.env,
            version: toolkit.version(),
            observed: toolkit
                .observed_capabilities(request.root, request.env)
                .as_deref(),
            packages: &packages,
            gpus: &gpus,
        }
        .make()?;
        chosen
            .notes
            .extend(toolkit.warnings().iter().map(|w| format!("warning: {w}")));
        let facts = Facts {
            request,
            target: &target,
            toolkit: &toolkit,
            chosen: &chosen,
            driver: driver_directory(request.root, &target),
        };
        // The directory's name follows from the variables, and the view's path is part of those.
        let nowhere = facts.environment(Path::new("/view"));
        let mut variables: Vec<_> = nowhere
            .decisive()
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        let list = request.list(&packages, toolkit.version().major);
        variables.extend(list.iter().map(|list| (CAPABILITIES, list.into())));
        let directory = Directory::open(request, &target, &toolkit, &variables)?;
        let view = facts.view(&directory)?;
        let environment = facts.environment(view.root());
        let mut notes = chosen.notes.clone();
        notes.extend(directory.notes.iter().cloned());
        notes.extend(facts.notes(&view, &environment));
        let kept = environment.kept.iter().map(|kept| kept.name.clone());
        let kept = kept.collect();
        let mut settings = environment.settings;
        settings.extend(request.settings(&toolkit, list));
        if request.is_for_scripts() {
            settings.extend(directory.settings(request.env, &toolkit)?);
        }
        let plan = chosen.plan;
        Ok(Self {
            toolkit,
            target,
            target_name,
            plan,
            view,
            directory,
            settings,
            kept,
            notes,
        })
    }

    /// The variables of a build that starts no programs with CUDA's libraries.
    pub fn settings_without_loader_path(&self) -> impl Iterator<Item = &Setting> {
        self.settings
            .iter()
            .filter(|setting| setting.name != environment::LOADER_PATH)
    }
}

impl<'a> Request<'a> {
    /// The packages whose declarations count.
    fn packages(&self) -> Vec<&'a Package> {
        let packages = self.workspace.into_iter().flat_map(|w| &w.packages);
        packages
            .filter(|package| self.package.is_none_or(|name| package.name == *name))
            .collect()
    }

    fn is_for_scripts(&self) -> bool {
        self.purpose != Purpose::Program
    }

    /// The capabilities for build scripts of dependencies: what all packages of the workspace
    /// declare.
    fn list(&self, packages: &[&Package], major: u32) -> Option<String> {
        let mut lists = packages
            .iter()
            .filter_map(|package| package.config.for_major(major).capabilities);
        let first = lists.next()?;
        lists.all(|list| list == first).then(|| first.join(", "))
    }

    /// Build scripts get the release that was found: then `--cuda 13` and no option are one
    /// build. A shell gets what was requested: other workspaces may accept another release.
    fn settings(&self, toolkit: &Toolkit, list: Option<String>) -> Vec<Setting> {
        let version = toolkit.version().to_string();
        let values = [
            (
                ReleaseReq::VARIABLE,
                Some(version),
                "the CUDA release: build scripts with cuda-build",
            ),
            (
                CAPABILITIES,
                list,
                "capabilities: build scripts with cuda-build",
            ),
        ];
        let values = values.into_iter().filter_map(|(name, value, meaning)| {
            let requested = self.env.peek(name).map(ToOwned::to_owned);
            let value = match self.is_for_scripts() {
                true => value.map(Into::into).or(requested)?,
                false => requested?,
            };
            let name = name.to_owned();
            Some(Setting {
                name,
                value,
                meaning,
            })
        });
        values.collect()
    }
}

/// Replaces the capabilities that packages declare.
pub const CAPABILITIES: &str = "CUDA_BUILD_CAPABILITIES";

/// What the variables follow from.
struct Facts<'a> {
    request: &'a Request<'a>,
    target: &'a Target,
    toolkit: &'a Toolkit,
    chosen: &'a Capabilities,
    driver: Option<PathBuf>,
}

impl Facts<'_> {
    fn environment(&self, root: &Path) -> Environment {
        let is_native = self.target.is_native();
        let triple = self.target.triple();
        let single: Option<&Single> = self.chosen.single.as_ref();
        let inputs = Inputs {
            root,
            nvcc: self.toolkit.get(Component::Nvcc).is_some(),
            version: self.toolkit.version(),
            plan: self.chosen.plan.as_ref(),
            single,
            cudarc: self.cudarc(),
            native: self.has_native_cmake().then_some(triple),
            cross: (!is_native).then_some(triple),
            driver: self.driver.as_deref(),
            loaded_driver: cuda_build::internal::link::nixos_directory(self.request.root),
        };
        Environment::new(&inputs, self.request.env)
    }

    fn cudarc(&self) -> Option<u32> {
        let known = self.request.workspace?.cudarc.as_deref()?;
        environment::cudarc_version(known, self.toolkit.version())
    }

    /// Whether CMake, left alone, chooses the compilers that the other C code of the build gets.
    fn has_native_cmake(&self) -> bool {
        let triple = self.target.triple();
        self.target.is_native()
            && triple.ends_with("-gnu")
            && !self.request.config.other_target(triple)
    }

    /// The view, reached by a link whose path stays the same when the toolkit gains a component.
    fn view(&self, directory: &Directory) -> Result<View, Failure> {
        let place = match self.request.env.peek(toolkits::VIEWS) {
            Some(_) => ViewPlace::from_env(self.request.env, self.target)?,
            None => ViewPlace::below(&directory.views(), self.target),
        };
        // A crate that links a static library finds it there; a link costs nothing.
        let view = self
            .toolkit
            .view(&place.archives(true), self.request.root)?;
        output::link(view.root(), &directory.view())?;
        Ok(view.through(directory.view()))
    }

    fn notes(&self, view: &View, environment: &Environment) -> Vec<String> {
        let env = self.request.env;
        let version = self.toolkit.version();
        let mut notes = Vec::new();
        if let (Some(newest), None) = (self.cudarc(), env.peek("CUDARC_CUDA_VERSION"))
            && newest != version.cuda_version()
        {
            notes.push(format!(
                "note: the cudarc in Cargo.lock does not know CUDA {version}: \
                 CUDARC_CUDA_VERSION={newest} is set, the newest release that it knows"
            ));
        }
        notes.extend(environment.conflicts());
        let triple = Some(self.target.triple()).filter(|_| self.has_native_cmake());
        if env.peek("CMAKE_TOOLCHAIN_FILE").is_none()
            && let Some(name) = triple.and_then(|triple| overridden_by_toolchain_file(env, triple))
        {
            notes.push(format!(
                "note: CMAKE_TOOLCHAIN_FILE is not set, because {name} is set and would have no effect: CMake may \
                 find libraries of another CUDA; `cmake -C {}` prevents that",
                view.cmake_cache().display()
            ));
        }
        notes
    }
}

/// The directory of the driver's own library, if there is one to link with.
fn driver_directory(root: &Root, target: &Target) -> Option<PathBuf> {
    let multiarch = format!("/usr/lib/{}", target.multiarch());
    let places = [
        multiarch.as_str(),
        "/usr/lib64",
        "/usr/lib",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    ];
    let mut places = places
        .into_iter()
        .filter(|_| target.is_native())
        .map(|place| root.locate(place));
    places.find(|place| root.is_file(&place.join("libcuda.so")))
}

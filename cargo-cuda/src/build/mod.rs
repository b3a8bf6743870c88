//! One build: the toolkit, its view, the variables, and Cargo's target directory.
//!
//! If a build script does not emit `rerun-if-env-changed`, Cargo does not run it again when a
//! variable changes. So each combination of toolkit and variables has its own target directory (see
//! [`directory`]). Plain `cargo` uses none of these directories.

mod capabilities;
pub mod directory;
mod scripts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, RequestedRelease, Root, Target, ViewPlace, driver, link};
use cuda_build::{Capability, Component, Plan, Toolkit, View};

use self::capabilities::Capabilities;
use crate::environment::{self, Environment, Inputs, Setting, overridden_by_toolchain_file};
use crate::failure::Failure;
use crate::output;
use crate::previous;
use crate::project::{CAPABILITIES, Project};
use crate::toolkits::VIEWS;
use crate::workspace::Package;

pub use directory::{Directory, Purpose};
pub use scripts::Scripts;

/// Everything that is decided before cargo, maturin or a program is started.
#[derive(Debug)]
pub struct Build {
    pub toolkit: Toolkit,
    /// The capabilities to build for, if they are known.
    pub plan: Option<Plan>,
    /// The toolkit as one root, at a stable path.
    pub view: View,
    /// Cargo's target directory.
    pub directory: Directory,
    pub settings: Vec<Setting>,
    /// The names of variables that keep the user's value.
    pub kept: Vec<String>,
    pub notes: Vec<String>,
}

/// The GPUs of this machine. A command calls this only once, because the driver answers slowly.
pub fn gpus() -> Vec<Capability> {
    driver::driver()
        .map(|driver| driver.gpus)
        .unwrap_or_default()
}

/// Whether a driver is installed on this machine, even one that does not work.
pub fn has_driver() -> bool {
    driver::driver().map_or_else(|reason| reason.is_installed, |_| true)
}

impl Build {
    /// Finds the toolkit, and creates its view and target directory. `target_directory` is the
    /// value of `--target-dir`.
    pub fn prepare(
        project: &Project,
        purpose: Purpose,
        gpus: &[Capability],
        target_directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        let Project {
            root, env, target, ..
        } = project;
        let toolkit = project.finder().find()?;
        let version = toolkit.version();
        let packages: Vec<&Package> = project.packages().collect();
        let chosen = Capabilities::choose(root, env, &packages, &toolkit, gpus)?;
        let mut notes = chosen.notes;
        notes.extend(toolkit.warnings().iter().map(|w| format!("warning: {w}")));

        let triple = target.triple();
        let native_cmake = (target.is_native()
            && triple.ends_with("-gnu")
            && !project.config.other_target(triple))
        .then_some(triple);
        let cudarc = project.workspace.as_ref();
        let cudarc = cudarc.and_then(|workspace| workspace.dependencies.cudarc.as_deref());
        let cudarc = cudarc.and_then(|known| environment::cudarc_version(known, version));
        let inputs = Inputs {
            nvcc: toolkit.get(Component::Nvcc).is_some(),
            version,
            plan: chosen.plan.as_ref(),
            single: chosen.single.as_ref(),
            cudarc,
            native_cmake,
            cross: (!target.is_native()).then_some(triple),
            driver_link_path: driver_directory(root, target),
            driver_loader_path: link::nixos_driver_directory(root),
        };
        let list = common_capabilities(&packages, version.major);
        // The name of the target directory contains a hash of the variables, some variables contain
        // the path of the view, and the view is in the target directory. A placeholder for the path
        // of the view breaks this cycle.
        let placeholder = Environment::new(&inputs, Path::new("/view"), env);
        let mut variables: Vec<(&str, OsString)> = placeholder
            .affecting_builds()
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        variables.extend(list.iter().map(|list| (CAPABILITIES, list.into())));
        let directory = match target_directory {
            Some(path) => Directory::named(root, path, &toolkit, &mut notes)?,
            None => Directory::choose(project, purpose, &toolkit, &variables)?,
        };
        let view = view(project, &toolkit, &directory)?;
        let environment = Environment::new(&inputs, view.root(), env);
        notes.extend(notes_about_variables(&inputs, env, &view));
        notes.extend(environment.notes);
        let kept = environment.kept.into_iter().map(|(name, _)| name).collect();
        let mut settings = environment.settings;
        settings.extend(cuda_build_settings(env, purpose, &toolkit, list));
        if purpose != Purpose::Program {
            settings.extend(directory.settings(env, &toolkit)?);
        }
        Ok(Self {
            toolkit,
            plan: chosen.plan,
            view,
            directory,
            settings,
            kept,
            notes,
        })
    }

    /// Prints the warnings, and the notes that were not printed by the last build in the same target
    /// directory. With `--verbose`, all notes are printed.
    pub fn print_notes(&self, root: &Root) -> Result<(), Failure> {
        let new = match output::is_quiet() {
            true => Vec::new(),
            false => self.directory.new_notes(root, &self.notes)?,
        };
        for text in &self.notes {
            let is_note = text.starts_with("note:");
            if !is_note || output::is_verbose() || new.contains(&text.as_str()) {
                output::message(text);
            }
        }
        Ok(())
    }

    /// The variables to set on top of `user` for a program, and one more variable that records
    /// their names and values.
    pub fn variables(&self, loader: LoaderPath, user: &Env) -> Vec<(String, OsString)> {
        let keep = |setting: &&Setting| {
            loader == LoaderPath::Set || setting.name != environment::LOADER_PATH
        };
        let mut settings: Vec<Setting> = self.settings.iter().filter(keep).cloned().collect();
        settings.push(previous::record(&settings, user));
        settings.into_iter().map(|s| (s.name, s.value)).collect()
    }
}

/// Whether to set `LD_LIBRARY_PATH`, with which programs find CUDA's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoaderPath {
    Set,
    Unset,
}

/// Notes about variables that are omitted, or whose value does not match the toolkit.
fn notes_about_variables(inputs: &Inputs<'_>, env: &Env, view: &View) -> Vec<String> {
    let mut notes = Vec::new();
    let version = inputs.version;
    if let Some(newest) = inputs.cudarc
        && newest != version.cuda_version()
        && env.peek("CUDARC_CUDA_VERSION").is_none()
    {
        notes.push(format!(
            "note: the cudarc in Cargo.lock does not know CUDA {version}: \
             CUDARC_CUDA_VERSION={newest} is set, the newest release that it knows"
        ));
    }
    let native = inputs.native_cmake;
    if let Some(name) = native.and_then(|triple| overridden_by_toolchain_file(env, triple))
        && env.peek("CMAKE_TOOLCHAIN_FILE").is_none()
    {
        notes.push(format!(
            "note: CMAKE_TOOLCHAIN_FILE is not set, because {name} is set and would have no effect: CMake may \
             find libraries of another CUDA; `cmake -C {}` prevents that",
            view.cmake_cache().display()
        ));
    }
    notes
}

/// The capabilities for build scripts of dependencies. `None` if the packages of the workspace
/// declare different lists, or no list.
fn common_capabilities(packages: &[&Package], major: u32) -> Option<String> {
    let mut lists = packages
        .iter()
        .filter_map(|package| package.config.for_major(major).capabilities);
    let first = lists.next()?;
    lists.all(|list| list == first).then(|| first.join(", "))
}

/// Variables that cuda-build reads. Build scripts get the release that was found, so that builds
/// with and without `--cuda 13` share a directory. A shell gets the requested release instead,
/// because it may build other workspaces, for which another release may be found.
fn cuda_build_settings(
    env: &Env,
    purpose: Purpose,
    toolkit: &Toolkit,
    list: Option<String>,
) -> impl Iterator<Item = Setting> {
    let values = [
        (
            RequestedRelease::VARIABLE,
            Some(toolkit.version().to_string()),
            "the CUDA release: build scripts that use cuda-build",
        ),
        (
            CAPABILITIES,
            list,
            "capabilities: build scripts that use cuda-build",
        ),
    ];
    values
        .into_iter()
        .filter_map(move |(name, value, meaning)| {
            let found = value.filter(|_| purpose != Purpose::Program);
            let requested = || env.peek(name).map(ToOwned::to_owned);
            Some(Setting {
                name: name.to_owned(),
                value: found.map(OsString::from).or_else(requested)?,
                meaning,
            })
        })
}

/// The view. Its root is a link, whose path stays the same when the toolkit gains a component.
fn view(project: &Project, toolkit: &Toolkit, directory: &Directory) -> Result<View, Failure> {
    let Project { env, target, .. } = project;
    let mut place = match env.peek(VIEWS) {
        Some(_) => ViewPlace::from_env(env, target)?,
        None => ViewPlace::below(&directory.views(), target),
    };
    // Some crates link static libraries, and a symbolic link to each of them costs nothing.
    place.archives = true;
    let view = toolkit.view(&place, &project.root)?;
    output::link(view.root(), &directory.view())?;
    Ok(view.through(directory.view()))
}

/// The directory of the driver's own `libcuda.so`. `None` in a cross build, or if the driver has no
/// file of this name, which the linker needs.
fn driver_directory(root: &Root, target: &Target) -> Option<PathBuf> {
    if !target.is_native() {
        return None;
    }
    let multiarch = format!("/usr/lib/{}", target.multiarch());
    [
        &multiarch,
        "/usr/lib64",
        "/usr/lib",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    ]
    .into_iter()
    .map(|place| root.locate(place))
    .find(|place| root.is_file(&place.join("libcuda.so")))
}

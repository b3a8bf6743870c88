//! One build: the toolkit, its view, the variables, and Cargo's target directory.
//!
//! If a build script does not emit `rerun-if-env-changed`, Cargo does not run it again when a variable changes. So there
//! is a target directory for each set of variables (see `directory`). Plain `cargo` does not use these directories.

mod capabilities;
mod directory;
pub mod nvcc_script;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::compile::output_store;
use cuda_build::config::{Config, capabilities_variable};
use cuda_build::{Capability, Component, Plan, Toolkit, ToolkitVersion, View};
use cuda_build::{
    driver, host_compiler,
    view::{VIEWS_VARIABLE, ViewPlace},
};
use cuda_find_core::cache::cache_dir;
use cuda_find_core::capability::{Declared, Spelling};
use cuda_find_core::link;
use cuda_find_core::{
    env::Env, root::Root, select::RequestedRelease, target::Target, trust::Trust,
};

pub(crate) use self::capabilities::Capabilities;
pub use self::capabilities::split;
use crate::cargo_config::cargo_home;
use crate::environment::{
    self, Environment, HOST_COMPILER_VARIABLES, Inputs, Variable, overridden_by_toolchain_file,
};
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::project::{CAPABILITIES, Project};
use crate::rustflags;
use crate::toolkits::builds_directory;
use crate::workspace::Package;

use self::directory::Record;
pub use directory::{Purpose, TargetDirectory};

/// Everything that is decided before cargo, maturin or a program is started.
#[derive(Debug)]
pub struct IsolatedBuild {
    pub toolkit: Toolkit,
    /// The capabilities to build for, if they are known.
    pub plan: Option<Plan>,
    /// The toolkit as one root, at a path that stays if the toolkit gains a component.
    pub view: View,
    /// The directory of the view, without links in its path.
    pub view_directory: PathBuf,
    /// Cargo's target directory.
    pub directory: TargetDirectory,
    pub variables: Vec<Variable>,
    /// The names of variables that keep the user's value.
    pub kept: Vec<String>,
    pub notes: Vec<String>,
    record: Record,
    /// Whether `latest` is a link to the target directory after the build.
    is_latest: bool,
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

impl IsolatedBuild {
    /// Finds the toolkit, and creates its view. `target_directory` is the value of `--target-dir`.
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
        let packages = &project.packages;
        let has_nvcc = toolkit.get(Component::Nvcc).is_some();
        let is_off = (env.peek(nvcc_script::VARIABLE)).is_some_and(|value| value == "0");
        let wraps_nvcc = has_nvcc && purpose != Purpose::Program && !is_off;
        let chosen = Capabilities::choose(project, purpose, &toolkit, gpus, wraps_nvcc)?;
        let mut notes = chosen.notes;
        notes.extend(toolkit.warnings().iter().map(|w| format!("warning: {w}")));
        notes.extend(note_about_cudarc(project, version)?);
        notes.extend(note_about_outputs(root, env));

        let triple = target.triple();
        let is_native_build = target.is_native() && !project.config.has_other_target(triple);
        let cudarc = project.needs.dependencies.cudarc.as_deref();
        let inputs = Inputs {
            has_nvcc,
            version,
            host_compiler: other_host_compiler(project, &toolkit, has_nvcc),
            plan: chosen.plan.as_ref(),
            single: chosen.single.as_ref(),
            cudarc_version: cudarc
                .and_then(|releases| environment::cudarc_version(releases, version)),
            is_native_cmake: is_native_build && triple.ends_with("-gnu"),
            driver_link_path: driver_directory(root, target),
            driver_loader_path: link::nixos_driver_directory(root),
        };
        let list = common_capabilities(packages, version.major);
        // Every package of the workspace has read the same table.
        let of_packages = packages.first().map(|package| &package.config.packages);
        let of_packages = of_packages.into_iter().flatten();
        let mut of_packages: Vec<(String, OsString)> = of_packages
            .map(|(name, list)| (capabilities_variable(name), in_one_spelling(list).into()))
            .collect();
        if let (Some(package), Some(plan)) = (packages.first(), &chosen.plan) {
            of_packages.extend(variables_of_scripts(&package.config, plan));
        }
        of_packages.retain(|(variable, _)| env.peek(variable).is_none());
        // The record decides about the target directory, some variables contain the path of the view, and the view is
        // in the target directory. A placeholder for the path of the view breaks this cycle.
        let placeholder = Environment::new(&inputs, Path::new("/view"), env);
        let mut affecting: Vec<(&str, &OsStr)> = placeholder.affecting_builds().collect();
        affecting.extend(list.iter().map(|list| (CAPABILITIES, OsStr::new(list))));
        // Lists for one package, from the manifest and from the user.
        let of_manifest = of_packages
            .iter()
            .map(|(name, list)| (name.as_str(), &**list));
        let variables = env
            .variables()
            .filter_map(|(name, value)| Some((name.to_str()?, value)));
        let prefix = capabilities_variable("");
        let of_user = variables.filter(|(name, _)| name.starts_with(&prefix));
        let lists_of_packages: Vec<(&str, &OsStr)> = of_manifest.chain(of_user).collect();
        affecting.extend(&lists_of_packages);
        // The others are variables that a manifest names for scripts.
        let mut lists_of_packages = lists_of_packages;
        lists_of_packages.retain(|(name, _)| name.starts_with(&prefix));
        // A crate that was compiled without the wrapper has other device code.
        affecting.extend(wraps_nvcc.then_some((nvcc_script::VARIABLE, OsStr::new("1"))));
        let record = Record::new(project, purpose, &toolkit, &affecting);
        let directory =
            TargetDirectory::choose(project, purpose, target_directory, version, &record)?;
        let wrapper = wraps_nvcc.then(|| {
            // With a value of the user, which differs from the lowest declared capability, calls stay as they are.
            let is_kept = chosen.is_native || env.peek("CUDA_COMPUTE_CAP").is_some();
            let plan = chosen.plan.as_ref().filter(|_| !is_kept);
            let single = chosen
                .single
                .as_ref()
                .map(|single| single.capability.number());
            nvcc_script::script(&nvcc_script::Settings {
                directory: &directory,
                compiler_identity: record.compiler_identity(),
                release: version,
                single: single.unwrap_or_default(),
                list: plan.map_or(String::new(), Plan::to_string),
                lists_of_packages: &lists_of_packages,
            })
        });
        let created = view(project, &toolkit, &directory, wrapper)?;
        let view_directory = created.root().to_owned();
        let view = created.through(directory.view());
        let environment = Environment::new(&inputs, view.root(), env);
        notes.extend(notes_about_variables(&inputs, env, &view));
        notes.extend(environment.notes);
        let mut variables = environment.variables;
        variables.extend(directory.variables(env));
        variables.extend(environment::header_packages(&toolkit, view.root(), env));
        // Builds with and without `--cuda 13` share a directory. A shell gets the requested values instead of those
        // that were found, because it may build other workspaces.
        let found = [
            (RequestedRelease::VARIABLE, Some(version.to_string())),
            (CAPABILITIES, list),
        ];
        for (name, value) in found {
            let value = value.filter(|_| purpose != Purpose::Program);
            let requested = || env.peek(name).map(ToOwned::to_owned);
            let value = value.map(OsString::from).or_else(requested);
            variables.extend(value.map(|value| (name.to_owned(), value)));
        }
        variables.extend(of_packages);
        Ok(Self {
            toolkit,
            plan: chosen.plan,
            view,
            view_directory,
            directory,
            variables,
            kept: environment.kept.into_iter().map(|(name, _)| name).collect(),
            notes,
            record,
            is_latest: purpose == Purpose::Cargo && target_directory.is_none(),
        })
    }

    /// Prepares the target directory for this build.
    pub fn enter(&self, project: &Project) -> Result<(), Failure> {
        let (_lock, is_current) = self.directory.lock_for(project, &self.record)?;
        // The view of a build with more components serves this one, too.
        if is_current || !project.root.exists(&self.directory.toolkit_file()) {
            output::link(&self.view_directory, &self.directory.view())?;
            let text = self.toolkit.to_toml()?;
            output::write_if_changed(&self.directory.toolkit_file(), text.as_bytes())?;
        }
        if self.is_latest {
            let base = builds_directory(&project.env, project.workspace.as_ref())?;
            let name = self.directory.path.strip_prefix(&base);
            output::link(name.unwrap_or(&self.directory.path), &base.join("latest"))?;
        }
        Ok(())
    }

    pub fn print_notes(&self) {
        output::messages(&self.notes);
    }

    /// rustc's options for the view's directories: when rustc compiles a library crate, it reads static libraries itself,
    /// and only from `-L` directories. A cross linker does not read `LIBRARY_PATH`.
    pub fn search_flags(&self, project: &Project) -> Vec<String> {
        let stubs = (!project.target.is_native()).then(|| self.view.stubs());
        let directories = [self.view.lib()].into_iter().chain(stubs);
        directories
            .map(|directory| format!("-Lnative={}", directory.display()))
            .collect()
    }

    /// The variable with rustflags that make two checkouts of a commit produce the same native module.
    ///
    /// A module contains absolute paths: panics in generated code name a file below `OUT_DIR`, and those in crates from
    /// a registry a file below `CARGO_HOME`. Cargo leaves `--remap-path-prefix` out of the hashes in symbols and file
    /// names (measured with cargo 1.95, release and dev profile, with fat LTO and debug information). The identity of a
    /// path package outside the workspace contains its absolute path, so a module with such a package still differs.
    pub fn reproducible_rustflags(&self, project: &Project) -> Variable {
        let workspace = project.workspace.as_ref();
        // rustc uses the last prefix that matches.
        let prefixes = [
            (cargo_home(&project.env), "/cargo"),
            (workspace.map(|workspace| workspace.root.clone()), "/source"),
            (Some(self.directory.path.clone()), "/target"),
        ];
        let prefixes = prefixes
            .into_iter()
            .filter_map(|(from, to)| Some((from?, to)));
        let flags =
            prefixes.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
        let flags = flags.chain(self.search_flags(project)).collect();
        let Project {
            config,
            env,
            target,
            ..
        } = project;
        rustflags::variable(flags, config, env, target.triple())
    }
}

/// The variables that the manifest names for build scripts of single packages. Cargo gives all scripts the same.
fn variables_of_scripts(config: &Config, plan: &Plan) -> Vec<Variable> {
    let variable = |(package, variable, spelling): &(String, String, Spelling)| {
        let list = config.packages.iter().find(|(name, _)| name == package);
        let declared = list.and_then(|(_, list)| Declared::parse(list).ok());
        let own = declared.map(|declared| declared.named_capabilities());
        let value = spelling(own.as_ref().unwrap_or(plan));
        (variable.clone(), value.into())
    };
    config.variables.iter().map(variable).collect()
}

/// A note if what compilers make is not kept for other builds, because another user could change it.
fn note_about_outputs(root: &Root, env: &Env) -> Option<String> {
    let trust = Trust::from_env(env);
    let directories = [output_store(env), cache_dir(env)].into_iter().flatten();
    let distrust = directories
        .filter_map(|it| trust.problem(root, &it))
        .next()?;
    Some(format!(
        "note: outputs and answers of compilers are not kept for other builds: {}; {}",
        distrust.reason, distrust.remedy
    ))
}

/// A note if a feature of cudarc selects a release of another major, whose library cudarc loads when the program runs.
/// If the library is linked, the program would call functions with other arguments: an error.
pub fn note_about_cudarc(
    project: &Project,
    version: ToolkitVersion,
) -> Result<Option<String>, Failure> {
    let mut selected = project.needs.dependencies.selected.iter();
    let of_another = selected.find_map(|it| Some((it, it.component_of_another(version.major)?)));
    let Some((selected, component)) = of_another else {
        return Ok(None);
    };
    let (feature, major) = (selected.release.cuda_version(), selected.release.major);
    let text = format!("the feature `cuda-{feature}` of cudarc is for {component} of CUDA {major}");
    if !selected.is_linked {
        return Ok(Some(format!(
            "note: {text}, which has to be on the system where the program runs; this toolkit is CUDA {version}"
        )));
    }
    Err(Failure::new(
        exit_code::INCONSISTENT,
        format!("{text}, and this toolkit is CUDA {version}, whose functions have other arguments"),
    )
    .hint(format!(
        "build with `--cuda {major}`, or enable the feature of cudarc for CUDA {}",
        version.major
    )))
}

/// Notes about variables that are omitted, or whose value does not match the toolkit.
fn notes_about_variables(inputs: &Inputs<'_>, env: &Env, view: &View) -> Vec<String> {
    let mut notes = Vec::new();
    let version = inputs.version;
    if let Some(newest) = inputs.cudarc_version
        && newest != version.cuda_version()
        && env.peek("CUDARC_CUDA_VERSION").is_none()
    {
        notes.push(format!(
            "note: the cudarc in Cargo.lock does not know CUDA {version}: \
             CUDARC_CUDA_VERSION={newest} is set, the newest release that it knows"
        ));
    }
    if inputs.is_native_cmake
        && let Some(name) = overridden_by_toolchain_file(env)
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
fn common_capabilities(packages: &[Package], major: u32) -> Option<String> {
    let configs = packages
        .iter()
        .map(|package| package.config.for_major(major));
    let mut lists = configs.filter_map(|config| config.capabilities);
    let first = lists.next()?;
    lists
        .all(|list| list == first)
        .then(|| in_one_spelling(first))
}

/// The list in one spelling, so that another spelling changes nothing. `native` and `all` stay as they are.
fn in_one_spelling(list: &[String]) -> String {
    let joined = list.join(", ");
    let Ok(declared) = Declared::parse(list) else {
        return joined;
    };
    let named = declared.named_capabilities().to_string();
    match Declared::parse([&named]).is_ok_and(|same| same == declared) {
        true => named,
        false => joined,
    }
}

/// The view.
fn view(
    project: &Project,
    toolkit: &Toolkit,
    directory: &TargetDirectory,
    nvcc_wrapper: Option<String>,
) -> Result<View, Failure> {
    let Project { env, target, .. } = project;
    let mut place = match env.peek(VIEWS_VARIABLE) {
        Some(_) => ViewPlace::from_env(env, target, &project.root)?,
        None => ViewPlace::below(&directory.views(), target),
    };
    place.nvcc_wrapper = nvcc_wrapper;
    Ok(View::create(toolkit, &place, &project.root, env)?)
}

/// The host compiler to name to nvcc, if the toolkit does not accept the one that nvcc would call, and the user names
/// none.
fn other_host_compiler(project: &Project, toolkit: &Toolkit, has_nvcc: bool) -> Option<PathBuf> {
    let Project {
        env, root, target, ..
    } = project;
    let mut variables = HOST_COMPILER_VARIABLES.into_iter();
    if !has_nvcc || !target.is_native() || variables.any(|name| env.peek(name).is_some()) {
        return None;
    }
    // If there is no compiler, the build script's own error comes first.
    host_compiler::choose(env, root, toolkit, target)
        .ok()?
        .option
}

/// The directory of the driver's own `libcuda.so`. `None` in a cross build, or if the driver has no
/// file of this name, which the linker needs.
fn driver_directory(root: &Root, target: &Target) -> Option<PathBuf> {
    let multiarch = format!("/usr/lib/{}", target.multiarch());
    let directories = [
        &multiarch,
        "/usr/lib64",
        "/usr/lib",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    ];
    let mut directories = directories.map(|path| root.locate(path)).into_iter();
    directories.find(|path| target.is_native() && root.is_file(&path.join("libcuda.so")))
}

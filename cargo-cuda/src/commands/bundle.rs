//! `cargo cuda bundle`: a program with the libraries of NVIDIA's that it needs, and their licences.
//!
//! Everything is checked before the directory gets its name. Components of the driver are never
//! requested, so neither its libraries nor stubs of them are copied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::{Component, Toolkit, config::Config};
use cuda_find_core::release::{NEWEST_MAJOR, driver_floor};
use cuda_find_core::{env::Env, root::Root, select::RequestedRelease};

use super::build;
use crate::cargo_arguments::{CargoOptions, SplitArguments};
use crate::cargo_config::target_directory_name;
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::output::{self, file_name, human_size};
use crate::package::archive;
use crate::package::elf::ElfFacts;
use crate::package::licence::Licence;
use crate::package::metadata::is_on_manylinux;
use crate::package::nvidia::{
    LibraryOrigin, component_of, majors_of_soname, origin, with_dependencies,
};
use crate::project::{BuildOptions, Project, WorkspaceOptions};
use crate::toolkits::release_of;
use crate::wheel::needs::{BuiltWith, Needs};
use crate::wheel::runpath::{SearchPathKind, link_arguments, needed_by_runpath};
use crate::workspace::Package;

/// The search path of a program in `bin`, and of a library in `lib`.
const SEARCH_PATH: &str = "$ORIGIN/../lib";

/// The file that describes a bundle. Only a directory with this file is replaced.
const DESCRIPTION: &str = "bundle.txt";

/// Write a program with the libraries of NVIDIA's that it needs, for machines with a driver alone
#[derive(Args, Clone, Debug)]
pub struct BundleArgs {
    /// A finished program or shared library, instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The directory; by default `dist/<name>-<version>-<target>`
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Leave NVIDIA's libraries out, and print what the target system has to install
    #[arg(long)]
    no_libraries: bool,
    /// Add NVRTC with its headers, for programs that compile when they run
    #[arg(long)]
    nvrtc: bool,
    #[command(flatten)]
    build: BuildOptions,
}

/// Component, path and ELF facts of each library, by SONAME, and of the program, which has no component.
type BundledFiles = BTreeMap<String, (Option<Component>, PathBuf, ElfFacts)>;

type Licences = BTreeMap<Component, Licence>;

/// The size in bytes of each file of a bundle.
type Sizes = BTreeMap<String, u64>;

/// Returns the report with the exit code, which is cargo's if the build fails.
pub fn run(
    arguments: &BundleArgs,
    split: &SplitArguments,
    user_env: &Env,
    root: &Root,
) -> Result<(String, u8)> {
    let cargo = CargoOptions::parse(&split.for_cargo);
    let options = WorkspaceOptions {
        target: cargo.value("--target"),
        manifest_path: cargo.value("--manifest-path").map(PathBuf::from),
        cargo: cargo.clone(),
        ..WorkspaceOptions::default()
    };
    let project = Project::open(user_env, root, &arguments.build, &options)?;
    project.check_not_skipped()?;
    let named = cargo.value("--package").or(cargo.value("-p"));
    let package = match (&project.workspace, named) {
        (Some(workspace), Some(name)) => Some(workspace.package(&name)?),
        (Some(workspace), None) => workspace.package_at(root, options.manifest_path.as_deref()),
        (None, _) => None,
    };
    let name = match &arguments.program {
        Some(file) => file_name(file),
        None => built_file(&cargo, package)?,
    };
    let version = package.map_or(String::new(), |package| format!("-{}", package.version));
    let stem = name.trim_end_matches(".so");
    let default = format!("dist/{stem}{version}-{}", project.target.triple());
    let output = arguments.output.clone().unwrap_or(default.into());
    output::check_replaceable(&output, DESCRIPTION)?;

    let (file, release) = if let Some(file) = &arguments.program {
        (file.clone(), RequestedRelease::from_env(&project.env)?)
    } else {
        let profile = cargo.value("--profile").unwrap_or("release".to_owned());
        let mut direct = BTreeMap::new();
        loop {
            let call = rustc_call(split, &cargo, &name, direct.keys());
            let (code, build) = build::run(&arguments.build, &call, user_env, root)?;
            if code != exit_code::SUCCESS {
                return Ok((String::new(), code));
            }
            let triple = options.target.as_deref().or(project.config.build_target());
            let mut file = build.directory.path;
            file.extend(triple.map(target_directory_name));
            file.push(if profile == "dev" { "debug" } else { &profile });
            file.push(&name);
            let program = ElfFacts::read_tables(archive::open(&file)?.0)?;
            let needed = needed_by_runpath(&program.needed, &build.toolkit)?;
            if needed == direct {
                break (file, Some(release_of(build.toolkit.version())));
            }
            direct = needed;
        }
    };
    let program = ElfFacts::read_tables(archive::open(&file)?.0)?;
    let mut majors = program.needed.iter().map(|soname| majors_of_soname(soname));
    let only = majors.find(|majors| majors.len() == 1);
    let major = only.map_or(NEWEST_MAJOR, |majors| majors[0]);
    let release = release.unwrap_or(RequestedRelease { major, minor: None });
    let project = project.for_release(release);

    let config = package.map_or_else(Config::default, |package| package.config.clone());
    let mut needs = Needs::declared(&config, BuiltWith::newest(release.major));
    let sonames = program.needed.iter();
    let linked: BTreeSet<Component> = sonames.filter_map(|soname| component_of(soname)).collect();
    let guesses = project.finder().guesses().iter();
    for guess in guesses.filter(|guess| guess.is_loaded) {
        if guess.component.facts().libraries.is_empty() {
            let text = format!(
                "note: {guess} is not copied: it has to be on the systems that run the program"
            );
            output::message(&text);
        } else {
            needs.required.insert(guess.component);
        }
    }
    needs.required.extend(&linked);
    if arguments.nvrtc {
        needs.required.insert(Component::Nvrtc);
    }
    needs.required = with_dependencies(&needs.required, release.major);
    let mut searched = needs.required.clone();
    // cudart's package has the headers that programs include when they compile.
    searched.extend(arguments.nvrtc.then_some(Component::Cudart));
    let mut toolkit = None;
    if !searched.is_empty() {
        let found = project.finder().find_libraries(&searched)?;
        needs.built_with = BuiltWith::of(&found);
        toolkit = Some(found);
    }
    needs.add_module(&program)?;

    let bundled = toolkit.as_ref().filter(|_| !arguments.no_libraries);
    let mut files = BundledFiles::new();
    for found in bundled.into_iter().flat_map(Toolkit::components) {
        let is_needed = needs.required.contains(&found.component);
        for path in found.libraries.iter().filter(|_| is_needed) {
            let elf = ElfFacts::read_tables(archive::open(path)?.0)?;
            let soname = elf.soname.clone().unwrap_or_else(|| file_name(path));
            files.insert(soname, (Some(found.component), path.clone(), elf));
        }
    }
    files = selected(&program, &linked, files);
    files.insert(name.clone(), (None, file, program));
    let installation = if arguments.no_libraries {
        installation(&needs)?
    } else {
        check(&name, &files, &needs)?;
        String::new()
    };
    let licences = licences(&mut files, root, release.major)?;
    let with_headers = bundled.filter(|_| arguments.nvrtc);
    let headers = with_headers.map_or(Vec::new(), |toolkit| headers(toolkit, root));
    let fill = |directory: &Path| {
        let sizes = copy_all(&files, &headers, &licences, directory)?;
        Ok(description(&sizes, &files, release.major) + &installation)
    };
    let text = write(&output, fill)?;
    Ok((format!("{}\n{text}", output.display()), exit_code::SUCCESS))
}

/// Writes the directory in another place, and renames it when it is complete. Returns its description.
fn write(output: &Path, fill: impl FnOnce(&Path) -> Result<String>) -> Result<String> {
    let parent = output::parent(output);
    output::create_directory(parent)?;
    let beside = output::temporary_directory(parent)?;
    let directory = beside.path().join("new");
    let text = fill(&directory)?;
    output::write(&directory.join(DESCRIPTION), text.as_bytes())?;
    if !output.is_dir() {
        output::rename(&directory, output)?;
        return Ok(text);
    }
    let old = beside.path().join(".old");
    output::rename(output, &old)?;
    if let Err(failure) = output::rename(&directory, output) {
        output::rename(&old, output)?;
        return Err(failure.into());
    }
    Ok(text)
}

/// The file that cargo builds: a program, or the package's `cdylib`.
fn built_file(cargo: &CargoOptions, package: Option<&Package>) -> Result<String> {
    let programs = package.map_or(&[][..], |package| &package.programs);
    let library = package.and_then(|package| package.cdylib.as_ref());
    let library = library.map(|name| format!("lib{name}.so"));
    let wants_library = cargo.has(&["--lib"]);
    let text = match (cargo.value("--bin"), programs, library) {
        _ if cargo.has(&["--example", "--test", "--bench"]) => {
            "`bundle` builds programs and `cdylib` libraries alone"
        }
        (Some(name), ..) => return Ok(name),
        (None, [name], _) if !wants_library => return Ok(name.clone()),
        (None, [], Some(library)) => return Ok(library),
        (None, _, Some(library)) if wants_library => return Ok(library),
        (None, ..) => "`bundle` needs one program or `cdylib`, and none or several are here",
    };
    let hint =
        "name one with `--package` and `--bin` or `--lib`, or a finished one with `--program`";
    Err(Failure::usage(text).hint(hint))
}

/// The headers that may be redistributed with NVRTC.
fn headers(toolkit: &Toolkit, root: &Root) -> Vec<(String, PathBuf)> {
    let mut headers = Vec::new();
    for found in toolkit.components() {
        let library = found.libraries.first();
        let licence = library.map(|file| Licence::of(root, file, found.component, found.major));
        for name in licence.iter().flat_map(Licence::headers) {
            let mut files = found.include.iter().map(|directory| directory.join(name));
            let file = files.find(|file| root.is_file(file));
            headers.extend(file.map(|file| (name.to_owned(), file)));
        }
    }
    headers
}

/// The licence of each component. A library that must not be redistributed is an error if the program needs it.
/// Otherwise it is left out, such as `libcusolverMg.so` beside `libcusolver.so`.
fn licences(files: &mut BundledFiles, root: &Root, major: u32) -> Result<Licences> {
    let mut messages = Vec::new();
    let mut licences = Licences::new();
    let mut left_out = Vec::new();
    let linked = sonames(files);
    for (name, (component, path, _)) in &*files {
        let Some(component) = *component else {
            continue;
        };
        let read = || Licence::of(root, path, component, major);
        let licence = licences.entry(component).or_insert_with(read);
        let Some(file) = licence.files.first().filter(|_| !licence.permits(name)) else {
            continue;
        };
        let reason = format!("its licence does not name it ({})", file.display());
        let main = format!("lib{}.so", component.facts().libraries[0]);
        if linked.contains(name) || name.starts_with(&main) {
            let text = format!("{name} must not be redistributed: {reason}");
            let hint = "let users install it: `--no-libraries`";
            return Err(Failure::audit(text).hint(hint));
        }
        messages.push(format!("note: {name} is left out: {reason}"));
        left_out.push(name.clone());
    }
    files.retain(|name, _| !left_out.contains(name));
    for (component, _) in licences.iter().filter(|(_, it)| it.files.is_empty()) {
        messages.push(format!(
            "warning: no licence of {component} was found near its libraries, so whether they may be redistributed was \
             not checked"
        ));
    }
    output::messages(&messages);
    Ok(licences)
}

/// Copies the program, the libraries, the headers and the licence files, and returns their sizes.
fn copy_all(
    files: &BundledFiles,
    headers: &[(String, PathBuf)],
    licences: &Licences,
    directory: &Path,
) -> Result<Sizes> {
    let mut sizes = BTreeMap::new();
    let mut copy = |file: &Path, to: String| {
        output::copy(file, &directory.join(&to)).map(|size| sizes.insert(to, size))
    };
    for (name, (component, path, _)) in files {
        let place = if name.contains(".so") { "lib" } else { "bin" };
        copy(path, format!("{place}/{name}"))?;
        // cudarc opens `libnccl.so`, and no `libnccl.so.2`.
        if let (Some(_), Some((stem, _))) = (component, name.split_once(".so.")) {
            output::link(name.as_ref(), &directory.join(format!("lib/{stem}.so")))?;
        }
    }
    for (component, licence) in licences {
        for file in &licence.files {
            copy(file, format!("licenses/{component}/{}", file_name(file)))?;
        }
    }
    for (name, file) in headers {
        copy(file, format!("include/{name}"))?;
    }
    Ok(sizes)
}

/// The command line of `cargo rustc`. The search path is for the final crate alone, so that dependencies of an earlier
/// `cargo cuda build --release` are not compiled again.
fn rustc_call<'a>(
    users: &SplitArguments,
    cargo: &CargoOptions,
    name: &str,
    direct: impl IntoIterator<Item = &'a String>,
) -> SplitArguments {
    let mut call = users.clone();
    call.command = "rustc".to_owned();
    match name.ends_with(".so") {
        _ if cargo.has(&["--bin", "--lib"]) => {}
        true => call.for_cargo.push("--lib".into()),
        false => call.for_cargo.extend(["--bin".into(), name.into()]),
    }
    if !cargo.has(&["--release", "-r", "--profile"]) {
        call.for_cargo.push("--release".into());
    }
    if call.for_program.is_empty() {
        call.for_program.push("--".into());
    }
    let search = link_arguments(SearchPathKind::Rpath, &[SEARCH_PATH.to_owned()], direct);
    call.for_program.extend(search.into_iter().map(Into::into));
    call
}

/// Of the libraries of needed components, those that the program or another library links, and every library of a
/// component that is opened by name. cuDNN opens its engines by name, and NVRTC its builtins.
fn selected(
    program: &ElfFacts,
    linked: &BTreeSet<Component>,
    mut all: BundledFiles,
) -> BundledFiles {
    let mut open = program.needed.clone();
    for (soname, (component, ..)) in &all {
        let Some(component) = *component else {
            continue;
        };
        let facts = component.facts();
        let opens_siblings = facts.is_product() || facts.library_with_release.is_some();
        if opens_siblings || !linked.contains(&component) {
            open.push(soname.clone());
        }
    }
    let mut selected = BundledFiles::new();
    while let Some(soname) = open.pop() {
        if let Some(library) = all.remove(&soname) {
            open.extend(library.2.needed.iter().cloned());
            selected.insert(soname, library);
        }
    }
    selected
}

/// The SONAMEs that files need.
fn sonames(files: &BundledFiles) -> BTreeSet<&String> {
    files.values().flat_map(|(.., elf)| &elf.needed).collect()
}

/// Fails if the loader would not find a library for the program `name`, or a symbol in it.
fn check(name: &str, files: &BundledFiles, needs: &Needs) -> Result<()> {
    let (_, path, program) = &files[name];
    let file = path.display();
    let failed = |text: String| Failure::audit(format!("{file} {text}"));
    let mut missing = sonames(files);
    missing.retain(|soname| matches!(origin(soname), LibraryOrigin::Component(_)));
    missing.retain(|soname| !files.contains_key(*soname));
    let mut missing: Vec<String> = missing.into_iter().cloned().collect();
    for (component, oldest) in &needs.raised {
        let version = needs.built_with.components.get(component);
        if version.is_some_and(|version| version < oldest) {
            missing.push(format!("{component} {oldest}"));
        }
    }
    if !missing.is_empty() {
        let (version, missing) = (needs.built_with.toolkit, missing.join(", "));
        let text = format!("needs {missing}, which CUDA {version} does not have");
        let hint = "name the release that the program was built with: `--cuda 13.4`";
        return Err(failed(text).hint(hint));
    }
    let is_beside = name.contains(".so") && program.searches("$ORIGIN");
    if files.len() == 1 || is_beside || program.searches(SEARCH_PATH) {
        return Ok(());
    }
    let hint = format!("run `patchelf --force-rpath --set-rpath '{SEARCH_PATH}' {file}`");
    Err(failed(format!("does not search for libraries in `{SEARCH_PATH}`")).hint(hint))
}

/// A table of sizes, and what the target system must have.
fn description(sizes: &Sizes, files: &BundledFiles, major: u32) -> String {
    let width = sizes.keys().map(String::len).max().unwrap_or_default();
    let row = |name: &str, size: u64| format!("  {name:width$} {:>9}\n", human_size(size));
    let mut text: String = sizes.iter().map(|(name, size)| row(name, *size)).collect();
    text += &row("total", sizes.values().sum());
    let glibcs = files.values().filter_map(|(.., elf)| elf.glibc.as_ref());
    if let Some(glibc) = glibcs.max() {
        text += &format!("  needs glibc {glibc} or newer\n");
    }
    if let Some(driver) = driver_floor(major) {
        text += &format!("  needs NVIDIA's driver {driver} or newer, for CUDA {major}\n");
    }
    if sizes.keys().any(|name| name.starts_with("include/")) {
        text += "  headers for code that is compiled at run time are in `include`: pass it to NVRTC with\n  \
                 `--include-path`, or set `CUDA_HOME` to the bundle if the program reads it\n";
    }
    for soname in sonames(files) {
        if origin(soname) == LibraryOrigin::Driver {
            text += &format!("  {soname} is left out, because it belongs to the driver\n");
        } else if origin(soname) == LibraryOrigin::Foreign && !is_on_manylinux(soname) {
            text += &format!("  {soname} must be on the system\n");
        }
    }
    text
}

/// What installs the libraries on the target system.
fn installation(needs: &Needs) -> Result<String> {
    let pip = needs.requirements()?.join("' '");
    if pip.is_empty() {
        return Ok("  needs no library of NVIDIA's but the driver's\n".to_owned());
    }
    Ok(format!(
        "  install with: pip install --target /opt/cuda '{pip}'\n"
    ))
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;

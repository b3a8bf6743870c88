//! `cargo cuda view`: the toolkit as one directory.

use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::select::Note;
use cuda_build::{Component, Env, Root, Toolkit, View, ViewPlace};
use serde_json::json;

use crate::cargo_config;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::toolkits::{self, Finder, Wish};
use crate::workspace::Workspace;

/// Of the `--json` report.
const FORMAT_VERSION: u32 = 1;

/// Put the components together below one directory, and print where
///
/// With --cmake-package nothing is put together: the components stay where they are, and a CMake
/// package says where that is.
#[derive(Args, Clone, Debug)]
pub struct ViewArgs {
    /// Make it exactly here, in place of a view that is there
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only these components and what they need
    #[arg(long, value_delimiter = ',', value_name = "COMPONENT")]
    components: Vec<Component>,
    /// Also the static archives of the libraries
    #[arg(long)]
    archives: bool,
    /// Copy the files instead of linking to them
    #[arg(long)]
    copy: bool,
    /// Instead of a view, write a CMake package into this directory that points at the components
    /// where they are: find_package(CUDAComponents CONFIG COMPONENTS cudart cublas)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "archives", "copy"])]
    cmake_package: Option<PathBuf>,
    /// The CUDA major; the newest that is found where not given
    #[arg(long, value_name = "N")]
    major: Option<u32>,
    /// The Rust triple that is built for
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Fetch a toolkit where none is found
    #[arg(long)]
    fetch: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Makes the view and returns what belongs on standard output.
///
/// # Errors
/// Where no toolkit is found or the view can't be made.
pub fn run(arguments: &ViewArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    for directory in [&arguments.output, &arguments.cmake_package]
        .into_iter()
        .flatten()
    {
        in_json(arguments, &absolute(directory), exit_code::USAGE)?;
    }
    let workspace = Workspace::load_optional(root, env)?;
    let jetson = workspace
        .iter()
        .flat_map(|w| &w.packages)
        .any(|p| p.config.jetson);
    let named = cargo_config::build_target(root, env, &[]);
    let target = toolkits::target(arguments.target.as_deref(), named.as_deref(), jetson)?;
    let mut place = match &arguments.output {
        Some(directory) => ViewPlace::at(directory, &target),
        None => toolkits::view_place(env, workspace.as_ref(), &target)?,
    };
    if arguments.cmake_package.is_none() {
        in_json(arguments, place.directory(), exit_code::CONFIGURATION)?;
    }
    place = place.archives(arguments.archives).copy(arguments.copy);
    if !arguments.components.is_empty() {
        place = place.components(arguments.components.iter().copied());
    }
    let finder = Finder {
        env,
        root,
        target,
        workspace: workspace.as_ref(),
    };
    let toolkit = finder.find(&Wish {
        major: arguments.major,
        fetch: arguments.fetch,
        partial: true,
        compiler: true,
    })?;
    // A whole view is asked for everything; one of some components for these.
    let incompatible = toolkit
        .notes()
        .iter()
        .filter(|note| matches!(note, Note::Incompatible { .. }))
        .filter(|_| arguments.components.is_empty())
        .map(ToString::to_string);
    for warning in toolkit.warnings().iter().cloned().chain(incompatible) {
        output::say(&format!("warning: {warning}"));
    }
    if let Some(missing) = arguments
        .components
        .iter()
        .find(|c| toolkit.get(**c).is_none())
    {
        return Err(Failure::new(
            exit_code::NOT_FOUND,
            format!(
                "CUDA {} that was found has no component `{missing}`",
                toolkit.version()
            ),
        )
        .hint("`cargo cuda doctor` shows what was found where"));
    }
    if let Some(directory) = &arguments.cmake_package {
        return package(&toolkit, directory, arguments);
    }
    let view = toolkit.view(&place, root)?;
    Ok(if arguments.json {
        report(&toolkit, &view)
    } else {
        format!("{}\n", view.root().display())
    })
}

/// Refuses a path that JSON can't hold: asked before anything is written.
fn in_json(arguments: &ViewArgs, path: &Path, code: u8) -> Result<(), Failure> {
    if !arguments.json || path.to_str().is_some() {
        return Ok(());
    }
    Err(Failure::new(
        code,
        format!(
            "the path {} is not UTF-8, and --json can't write it",
            path.display()
        ),
    )
    .hint("choose a directory whose path is UTF-8, or leave out --json"))
}

fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

/// Writes the package and says where.
fn package(toolkit: &Toolkit, directory: &Path, arguments: &ViewArgs) -> Result<String, Failure> {
    let package = toolkit.cmake_package_of(&arguments.components)?;
    let directory = absolute(directory);
    for (name, text) in package.files() {
        output::write_if_changed(&directory.join(name), text.as_bytes())?;
    }
    if !arguments.json {
        return Ok(format!("{}\n", directory.display()));
    }
    let components: Vec<&str> = package
        .components()
        .iter()
        .map(|component| component.id())
        .collect();
    let value = json!({
        "format_version": FORMAT_VERSION,
        "name": package.name(),
        "directory": directory,
        "version": toolkit.version().to_string(),
        "files": package.files().iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "components": components,
    });
    Ok(format!("{value:#}\n"))
}

fn report(toolkit: &Toolkit, view: &View) -> String {
    let components: Vec<_> = toolkit
        .components()
        .iter()
        .map(|chosen| json!({ "name": chosen.found.component.id(), "version": chosen.found.shown_version(), "origin": chosen.origin }))
        .collect();
    // A toolkit's own names; what is not UTF-8 among them is nothing of NVIDIA's.
    let paths: Vec<_> = view.paths().map(Path::to_string_lossy).collect();
    let value = json!({
        "format_version": FORMAT_VERSION,
        "root": view.root(),
        "version": toolkit.version().to_string(),
        "nvcc": view.nvcc(),
        "lib": view.lib(),
        "stubs": view.stubs(),
        "made": view.was_made(),
        "paths": paths,
        "components": components,
    });
    format!("{value:#}\n")
}

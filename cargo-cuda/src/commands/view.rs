//! `cargo cuda view`: the toolkit as one directory.

use std::path::Path;

use clap::Args;
use cuda_build::{Component, View};
use cuda_find_core::{env::Env, root::Root, toolkit::Note};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output;
use crate::project::{Project, SearchOptions, WorkspaceOptions};
use crate::report;
use crate::toolkits;

/// Join the components in one directory, and print its path
#[derive(Args, Clone, Debug)]
pub struct ViewArgs {
    /// Include only these components and those that they need
    #[arg(long, value_delimiter = ',', value_name = "COMPONENT")]
    components: Vec<Component>,
    /// Include the static libraries
    #[arg(long)]
    archives: bool,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Makes the view and returns the text for standard output.
pub fn run(arguments: &ViewArgs, user_env: &Env, root: &Root) -> Result<String> {
    let build = arguments.search.clone().into();
    let project = Project::open(user_env, root, &build, &arguments.workspace)?;
    let mut place =
        toolkits::view_place(&project.env, project.workspace.as_ref(), &project.target)?;
    place.archives = arguments.archives;
    place.components = Some(arguments.components.clone()).filter(|names| !names.is_empty());
    let mut finder = project.finder();
    finder.accept_without_compiler = true;
    let toolkit = finder.find()?;
    let mut warnings = toolkit.warnings().to_vec();
    // An incompatible component that `--components` names is an error below.
    if arguments.components.is_empty() {
        let is_shown = |note: &&Note| matches!(note, Note::Incompatible { .. });
        warnings.extend(toolkit.notes().iter().filter(is_shown).map(Note::to_string));
    }
    for warning in warnings {
        output::message(&format!("warning: {warning}"));
    }
    let mut requested = arguments.components.iter();
    if let Some(missing) = requested.find(|component| toolkit.get(**component).is_none()) {
        let version = toolkit.version();
        let message = format!("CUDA {version} has no component `{missing}`");
        return Err(Failure::not_found(message).hint(format!(
            "fetch it with `cargo cuda toolkit add {} --components {missing}`; `cargo cuda doctor` shows what was \
             found",
            version.major
        )));
    }
    let view = View::create(&toolkit, &place, root, &project.env)?;
    for note in view.notes() {
        output::message(&format!("note: {note}"));
    }
    if !arguments.json {
        return Ok(format!("{}\n", view.root().display()));
    }
    let components = toolkit.components().iter().map(|chosen| {
        json!({
            "name": chosen.component.id(),
            "version": chosen.shown_version(),
            "origin": chosen.origin,
        })
    });
    // JSON is UTF-8, and a path need not be.
    let shown = |path: &Path| path.display().to_string();
    Ok(report::json(&json!({
        "root": shown(view.root()),
        "version": toolkit.version().to_string(),
        "nvcc": view.nvcc().map(|nvcc| shown(&nvcc)),
        "lib": shown(&view.lib()),
        "stubs": shown(&view.stubs()),
        "created": view.was_made(),
        "paths": view.paths().map(shown).collect::<Vec<_>>(),
        "components": components.collect::<Vec<_>>(),
    })))
}

//! `cargo cuda view`: the toolkit as one directory.

use clap::Args;
use cuda_build::{Component, View};
use cuda_find_core::{env::Env, root::Root, toolkit::Note};

use crate::failure::Result;
use crate::project::{Project, SearchOptions, WorkspaceOptions};
use crate::toolkits;
use crate::{exit_code, output};

/// Join the components in one directory, and print its path
#[derive(Args, Clone, Debug)]
pub struct ViewArgs {
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

/// Makes the view and returns the text for standard output.
pub fn run(arguments: &ViewArgs, user_env: &Env, root: &Root) -> Result<String> {
    let build = arguments.search.clone().into();
    let project = Project::open(user_env, root, &build, &arguments.workspace)?;
    let place = toolkits::view_place(
        &project.env,
        root,
        project.workspace.as_ref(),
        &project.target,
    )?;
    // A view without a compiler serves what links libraries.
    let finder = project.finder();
    let toolkit = finder.find().or_else(|failure| match failure.code {
        exit_code::NOT_FOUND => finder
            .find_libraries(&[Component::Cudart].into())
            .map_err(|_| failure),
        _ => Err(failure),
    })?;
    let is_shown = |note: &&Note| matches!(note, Note::Incompatible { .. });
    let incompatible = toolkit.notes().iter().filter(is_shown).map(Note::to_string);
    for warning in toolkit.warnings().iter().cloned().chain(incompatible) {
        output::message(&format!("warning: {warning}"));
    }
    let view = View::create(&toolkit, &place, root, &project.env)?;
    for note in view.notes() {
        output::message(&format!("note: {note}"));
    }
    Ok(format!("{}\n", view.root().display()))
}

//! `cargo cuda toolkit add|list|remove`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::Failure;
use crate::report;
use crate::store::{self, AddRequest, Added, Context, Listed, human_size};

/// Add, list or remove toolkits in the user's cache directory
#[derive(Args, Clone, Debug)]
pub struct ToolkitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Fetch one consistent set of components with uv or pip
    Add {
        #[command(flatten)]
        request: AddRequest,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// List the toolkits that have been fetched
    #[command(visible_alias = "ls")]
    List {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a toolkit
    #[command(visible_alias = "rm")]
    Remove {
        /// The toolkit's name, or a release that only one toolkit has: `13` or `13.4`
        toolkit: String,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the action and returns the text for standard output.
pub fn run(arguments: &ToolkitArgs, context: &Context) -> Result<String, Failure> {
    Ok(match &arguments.action {
        Action::Add { request, json } => {
            let added = store::add(request, context)?;
            match json {
                true => report::json(&added),
                false => added_text(&added),
            }
        }
        Action::List { json } => {
            let toolkits = store::list(context)?;
            match json {
                true => report::json(&ListReport { toolkits }),
                false => list_text(&toolkits),
            }
        }
        Action::Remove { toolkit, json } => {
            let removed = store::remove(toolkit, context)?;
            match json {
                true => report::json(&removed),
                false => format!("removed {}, {}\n", removed.name, human_size(removed.bytes)),
            }
        }
    })
}

/// The text report about an added toolkit.
pub(super) fn added_text(added: &Added) -> String {
    let what = format!("CUDA {} ({})", added.version, added.components.join(", "));
    let (path, bytes) = (added.path.display(), human_size(added.bytes));
    if !added.new {
        return format!("{what} is already fetched, {bytes}\n  {path}\n");
    }
    format!(
        "added {what}: fetched {} in {}.{} s, {bytes} in total\n  {path}\n",
        human_size(added.bytes_added),
        added.milliseconds / 1000,
        added.milliseconds % 1000 / 100,
    )
}

fn list_text(listed: &[Listed]) -> String {
    let mut text = String::new();
    for toolkit in listed {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{}  CUDA {}, {}: {}\n  {}",
            toolkit.name,
            toolkit.version,
            human_size(toolkit.bytes),
            toolkit.components.join(", "),
            toolkit.path.display()
        );
        if let Some(problem) = &toolkit.problem {
            let repair = match toolkit.requests.first() {
                Some(request) => format!("`cargo cuda toolkit add {request}` repairs it"),
                None => format!("`cargo cuda toolkit remove {}` removes it", toolkit.name),
            };
            let _ = writeln!(text, "  cannot be used: {problem}; {repair}");
        }
    }
    if text.is_empty() {
        text.push_str("no toolkits; add one with `cargo cuda toolkit add 13`\n");
    }
    text
}

/// The report of `list --json`.
#[derive(Serialize)]
struct ListReport {
    toolkits: Vec<Listed>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use cuda_build::Component;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        toolkit: ToolkitArgs,
    }

    fn request(arguments: &[&str]) -> Result<AddRequest, String> {
        let cli = Cli::try_parse_from([&["toolkit", "add"], arguments].concat())
            .map_err(|e| e.to_string())?;
        match cli.toolkit.action {
            Action::Add { request, .. } => Ok(request),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn arguments_become_a_request() {
        let both = request(&["13.4", "--components", "cublas,cufft"]).unwrap();
        assert_eq!(both.components, [Component::Cublas, Component::Cufft]);
        assert_eq!(
            (both.release.to_string(), both.only),
            ("13.4".to_owned(), Vec::new())
        );
        let only = request(&["12", "--only", "cudart", "--locked"]).unwrap();
        assert_eq!(only.only, [Component::Cudart]);
        assert!(only.locked && !only.upgrade);
    }

    #[test]
    fn bad_arguments_are_named() {
        for (arguments, word) in [
            (&["new"][..], "expected a CUDA release"),
            (&["10.2"], "not supported"),
            (
                &["13", "--components", "cublass"],
                "`cublass` is not a CUDA component",
            ),
            (&["13", "--locked", "--upgrade"], "cannot be used with"),
            (
                &["13", "--only", "cudart", "--components", "cublas"],
                "cannot be used with",
            ),
        ] {
            let error = request(arguments).unwrap_err();
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn reports_carry_a_format_version() {
        let text = report::json(&ListReport {
            toolkits: Vec::new(),
        });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["format_version"], 1);
        assert_eq!(value["toolkits"], serde_json::json!([]));
    }
}

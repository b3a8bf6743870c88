//! `cargo cuda toolkit add|list|remove`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use cuda_build::Component;
use serde::Serialize;

use crate::report::{self, shown};
use crate::store::{
    self, AddRequest, Added, Context, Listed, Package, ReleaseSpec, Removed, StoreError, human_size,
};

/// Fetch CUDA components into the user's cache directory, list and remove them.
#[derive(Args, Clone, Debug)]
pub struct ToolkitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Fetch one consistent set of components with uv or pip
    Add(Add),
    /// Show what has been added
    List {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a toolkit
    Remove {
        /// Its name, or its version as far as that tells it apart
        toolkit: String,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Debug)]
struct Add {
    /// CUDA version: `13`, `13.4` or `13.4.3`
    version: ReleaseSpec,
    /// Components beside the default set, with what they need
    #[arg(long, value_delimiter = ',', value_name = "COMPONENT")]
    components: Vec<Component>,
    /// Exactly these components, without a default set and without what they need
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "COMPONENT",
        conflicts_with = "components"
    )]
    only: Vec<Component>,
    /// Take newer versions than the lock file or the store hold
    #[arg(long)]
    upgrade: bool,
    /// Fail where the lock file does not pin everything
    #[arg(long, conflicts_with = "upgrade")]
    locked: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say and returns what belongs on standard output, with a newline at
/// its end.
///
/// # Errors
/// Any [`StoreError`]; its text belongs on standard error, and it has an exit code.
pub fn run(arguments: &ToolkitArgs, context: &Context) -> Result<String, StoreError> {
    match &arguments.action {
        Action::Add(add) => {
            let added = store::add(&add.request(), context)?;
            Ok(if add.json {
                report::json(&AddReport::new(&added))
            } else {
                added_text(&added)
            })
        }
        Action::List { json } => {
            let listed = store::list(context)?;
            Ok(if *json {
                report::json(&ListReport::new(&listed))
            } else {
                list_text(&listed)
            })
        }
        Action::Remove { toolkit, json } => {
            let removed = store::remove(toolkit, context)?;
            Ok(if *json {
                report::json(&RemoveReport::new(&removed))
            } else {
                removed_text(&removed)
            })
        }
    }
}

impl Add {
    fn request(&self) -> AddRequest {
        let set = |list: &[Component]| list.iter().copied().collect::<BTreeSet<_>>();
        AddRequest {
            release: self.version.clone(),
            components: set(&self.components),
            only: (!self.only.is_empty()).then(|| set(&self.only)),
            upgrade: self.upgrade,
            locked: self.locked,
        }
    }
}

fn ids(components: &[Component]) -> Vec<&'static str> {
    components.iter().map(|component| component.id()).collect()
}

fn added_text(added: &Added) -> String {
    let what = format!(
        "CUDA {} ({})",
        added.version,
        ids(&added.components).join(", ")
    );
    let path = added.path.display();
    if !added.new {
        return format!("{what} is there, {}\n  {path}\n", human_size(added.bytes));
    }
    let seconds = added.took.as_millis();
    format!(
        "added {what}: {} new in {}.{} s, {} in all\n  {path}\n",
        human_size(added.bytes_added),
        seconds / 1000,
        seconds % 1000 / 100,
        human_size(added.bytes),
    )
}

/// The report of `add --json`.
#[derive(Serialize)]
struct AddReport<'a> {
    name: &'a str,
    path: String,
    version: String,
    components: Vec<&'static str>,
    new: bool,
    fetched: &'a [String],
    bytes_added: u64,
    bytes: u64,
    milliseconds: u64,
}

impl<'a> AddReport<'a> {
    fn new(added: &'a Added) -> Self {
        Self {
            name: &added.name,
            path: shown(&added.path),
            version: added.version.to_string(),
            components: ids(&added.components),
            new: added.new,
            fetched: &added.fetched,
            bytes_added: added.bytes_added,
            bytes: added.bytes,
            milliseconds: u64::try_from(added.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
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
            ids(&toolkit.components).join(", "),
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
struct ListReport<'a> {
    toolkits: Vec<ListedReport<'a>>,
}

#[derive(Serialize)]
struct ListedReport<'a> {
    name: &'a str,
    path: String,
    version: String,
    platform: &'a str,
    components: Vec<&'static str>,
    packages: &'a [Package],
    bytes: u64,
    requests: &'a [String],
    problem: Option<&'a str>,
}

impl<'a> ListReport<'a> {
    fn new(listed: &'a [Listed]) -> Self {
        let toolkit = |toolkit: &'a Listed| ListedReport {
            name: &toolkit.name,
            path: shown(&toolkit.path),
            version: toolkit.version.to_string(),
            platform: &toolkit.platform,
            components: ids(&toolkit.components),
            packages: &toolkit.packages,
            bytes: toolkit.bytes,
            requests: &toolkit.requests,
            problem: toolkit.problem.as_deref(),
        };
        Self {
            toolkits: listed.iter().map(toolkit).collect(),
        }
    }
}

fn removed_text(removed: &Removed) -> String {
    format!("removed {}, {}\n", removed.name, human_size(removed.bytes))
}

/// The report of `remove --json`.
#[derive(Serialize)]
struct RemoveReport<'a> {
    name: &'a str,
    path: String,
    bytes: u64,
}

impl<'a> RemoveReport<'a> {
    fn new(removed: &'a Removed) -> Self {
        Self {
            name: &removed.name,
            path: shown(&removed.path),
            bytes: removed.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
            Action::Add(add) => Ok(add.request()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn arguments_become_a_request() {
        let both = request(&["13.4", "--components", "cublas,cufft"]).unwrap();
        assert_eq!(
            both.components,
            BTreeSet::from([Component::Cublas, Component::Cufft])
        );
        assert_eq!(
            (both.release.to_string(), both.only),
            ("13.4".to_owned(), None)
        );
        let only = request(&["12", "--only", "cudart", "--locked"]).unwrap();
        assert_eq!(only.only, Some(BTreeSet::from([Component::Cudart])));
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
        let text = report::json(&ListReport::new(&[]));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["format_version"], 1);
        assert_eq!(value["toolkits"], serde_json::json!([]));
    }
}

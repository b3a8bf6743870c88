//! `cargo cuda toolkit add|list|remove`.

use std::path::Path;

use clap::{Args, Subcommand};
use cuda_build::Component;
use cuda_find_core::{env::Env, release::NEWEST_MAJOR, target::Target};

use crate::failure::Result;
use crate::output::human_size;
use crate::report;
use crate::store::ReleaseToFetch;
use crate::store::{self, AddRequest, AddedToolkit, FetchFrom, ListedToolkit};

/// Add or list toolkits in the user's cache directory
#[derive(Args, Clone, Debug)]
pub struct ToolkitArgs {
    #[command(subcommand)]
    action: Action,
    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Fetch a consistent set of components for each release, with uv, pip or curl
    Add(AddArgs),
    /// List the toolkits that have been fetched
    #[command(visible_alias = "ls")]
    List,
}

#[derive(Args, Clone, Debug)]
struct AddArgs {
    /// CUDA releases: `13`, `13.4` or `13.4.3`
    #[arg(required = true, value_name = "RELEASE")]
    releases: Vec<ReleaseToFetch>,
    /// Components in addition to the default set, with those that they need
    #[arg(long, value_delimiter = ',', value_name = "COMPONENT")]
    components: Vec<Component>,
    /// Exactly these components, without the default set and without those that they need
    #[arg(long, value_delimiter = ',', value_name = "COMPONENT")]
    #[arg(conflicts_with = "components")]
    only: Vec<Component>,
    /// Fetch Python packages (`wheels`), or NVIDIA's archives (`redist`), which have nvcc for every release
    #[arg(long, value_name = "SOURCE", hide_possible_values = true)]
    from: Option<FetchFrom>,
    /// Fetch the libraries for this platform, for cross compilation, instead of those for this machine
    #[arg(long, value_name = "TRIPLE", value_parser = target)]
    target: Option<Target>,
    /// Look for newer versions than those in the lock file and in the store
    #[arg(long)]
    upgrade: bool,
    /// Fail if the lock file would change
    #[arg(long, conflicts_with = "upgrade")]
    locked: bool,
}

fn target(text: &str) -> Result<Target, String> {
    Target::from_triple(text).map_err(|error| error.to_string())
}

impl AddArgs {
    fn requests(&self) -> Vec<AddRequest> {
        let request = |release: &ReleaseToFetch| AddRequest {
            whole_lock: true,
            release: release.clone(),
            components: self.components.clone(),
            only: self.only.clone(),
            from: self.from,
            upgrade: self.upgrade,
            locked: self.locked,
            target: self.target.clone().filter(|target| !target.is_native()),
            ..AddRequest::default()
        };
        self.releases.iter().map(request).collect()
    }
}

/// Runs the action and returns the text for standard output.
pub fn run(arguments: &ToolkitArgs, env: &Env) -> Result<String> {
    let (json, text) = match &arguments.action {
        Action::Add(add) => {
            let requests = add.requests().into_iter();
            let added = requests.map(|request| store::add(&request, env));
            let added = added.collect::<Result<Vec<AddedToolkit>>>()?;
            let json = match &added[..] {
                [toolkit] => report::json(toolkit),
                several => report::json_list("toolkits", several),
            };
            (json, added.iter().map(added_text).collect())
        }
        Action::List => {
            let toolkits = store::list(env)?;
            (
                report::json_list("toolkits", &toolkits),
                list_text(&toolkits),
            )
        }
    };
    Ok(if arguments.json { json } else { text })
}

/// The text report about an added toolkit.
pub(super) fn added_text(added: &AddedToolkit) -> String {
    let stored = &added.toolkit;
    let toolkit = format!("CUDA {} ({})", stored.version, stored.components.join(", "));
    let (path, size) = (&stored.path, human_size(stored.bytes));
    match added.new {
        true => format!("added {toolkit}, {size}\n  {path}\n"),
        false => format!("{toolkit} is already fetched, {size}\n  {path}\n"),
    }
}

/// A table of the toolkits, and where they are.
fn list_text(listed: &[ListedToolkit]) -> String {
    if listed.is_empty() {
        return format!("no toolkits; add one with `cargo cuda toolkit add {NEWEST_MAJOR}`\n");
    }
    let names = listed.iter().map(|toolkit| toolkit.name.len());
    let width = names.max().unwrap_or_default();
    let mut text = format!("{:width$}  {:>8}  components\n", "toolkit", "size");
    for toolkit in listed {
        let size = human_size(toolkit.bytes);
        let (name, components) = (&toolkit.name, toolkit.components.join(", "));
        text += &format!("{name:width$}  {size:>8}  {components}\n");
        if let Some(problem) = &toolkit.problem {
            text += &format!("  cannot be used: {problem}; remove {}\n", toolkit.path);
        }
    }
    let store = Path::new(&listed[0].path).parent();
    let store = store.map(|path| format!("in {}\n", path.display()));
    text + &store.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        toolkit: ToolkitArgs,
    }

    fn requests(arguments: &[&str]) -> Result<Vec<AddRequest>, String> {
        let cli = TestCli::try_parse_from([&["toolkit", "add"], arguments].concat())
            .map_err(|e| e.to_string())?;
        match cli.toolkit.action {
            Action::Add(add) => Ok(add.requests()),
            other => Err(format!("{other:?}")),
        }
    }

    fn request(arguments: &[&str]) -> Result<AddRequest, String> {
        requests(arguments).map(|mut requests| requests.remove(0))
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
        let several = requests(&["12", "13", "--locked"]).unwrap();
        let releases: Vec<String> = several.iter().map(|it| it.release.to_string()).collect();
        assert_eq!(releases, ["12", "13"]);
        assert!(several.iter().all(|request| request.locked));
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
        ] {
            let error = request(arguments).unwrap_err();
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }
}

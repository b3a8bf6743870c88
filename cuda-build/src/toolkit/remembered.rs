//! The toolkit of one target directory: one file that `cargo cuda` and build scripts agree on.
//!
//! A variable would do for `cargo cuda`, but a variable that plain `cargo` does not set makes the
//! two undo each other's work: Cargo remembers the last run alone. So the answer lies at a path
//! that both know, is declared as a file, and is written again only when it is another one. What
//! it does not do is to decide: where a variable or the components have changed since, a build
//! script searches as if there were no file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::{Search, Toolkit, file};
use crate::cache;
use crate::env::Env;
use crate::error::Error;
use crate::hash::Fnv;
use crate::probe::{Attempt, Found, Set};
use crate::root::Root;
use crate::select::{self, Request, Strength};
use crate::sources::{self, Candidate, Layout, Step};
use crate::target::Target;

/// Where a workspace's toolkit is remembered below Cargo's build directory (`target`, where
/// nothing says otherwise). Workspaces that share the directory have a file each.
///
/// ```
/// use std::path::Path;
/// use cuda_build::{Target, toolkit_file};
/// let target = Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap();
/// let file = toolkit_file(Path::new("/w/target"), Path::new("/w"), &target);
/// assert!(file.starts_with("/w/target/cuda"));
/// assert_ne!(file, toolkit_file(Path::new("/w/target"), Path::new("/v"), &target));
/// ```
#[must_use]
pub fn toolkit_file(build_directory: &Path, workspace: &Path, target: &Target) -> PathBuf {
    let mut hash = Fnv::default();
    hash.field(workspace.as_os_str().as_encoded_bytes());
    hash.field(target.triple().as_bytes());
    build_directory
        .join("cuda")
        .join(format!("toolkit-{}.toml", hash.hex()))
}

/// The file for a build script, from its `OUT_DIR`: below the directory that Cargo has marked as
/// its own. `None` where that can't be told.
pub(crate) fn beside_out(
    root: &Root,
    out: &Path,
    workspace: &Path,
    target: &Target,
) -> Option<PathBuf> {
    let marked = |directory: &&Path| root.is_file(&directory.join("CACHEDIR.TAG"));
    Some(toolkit_file(
        out.ancestors().find(marked)?,
        workspace,
        target,
    ))
}

/// Searches as [`Search::find`] does, but takes what `file` remembers as long as that is what a
/// search would find. Where there is no file yet, this answer becomes it.
///
/// # Errors
/// As [`Search::find`].
pub(crate) fn find(search: &Search<'_>, request: &Request, file: &Path) -> Result<Toolkit, Error> {
    let named = !search.places.is_empty() || search.env.get("CUDA_BUILD_TOOLKIT").is_some();
    let inputs = Inputs::of(search.root, search.env, search.target)?;
    if named || inputs.explicit {
        return search.find(request);
    }
    let text = search.root.text(file).ok();
    if let Some(found) = text
        .as_deref()
        .and_then(|text| still_true(text, &inputs, search.root))
    {
        // The search would have asked for these.
        for name in &inputs.names {
            let _ = search.env.get(name);
        }
        let attempt = attempt(found, file);
        // An optional product that the first script had no use for may be there all the same.
        if let Ok(selection) = select::select(request, &[&attempt])
            && !selection.lacks_product(request, Strength::Optional)
            && let Ok(toolkit) = Toolkit::from_selection(selection)
        {
            return Ok(toolkit.with_default_search_dirs(
                search.root.default_search_dirs(search.target.multiarch()),
            ));
        }
    }
    let toolkit = search.find(request)?;
    if text.is_none() {
        // Not written as of now: Cargo would take it for newer than this run of the script, and
        // run it again. That it can't be written is no reason to fail: nothing depends on it.
        let _ = remembered(&toolkit, &inputs, search.root)
            .and_then(|text| cache::write_first(file, text.as_bytes()));
    }
    Ok(toolkit)
}

/// What `file` has to say from now on, to remember `toolkit`; `None` where it says nothing else
/// already. It may say less: a build script that wrote it looked for what it needs alone.
///
/// # Errors
/// [`Error::Format`] for a path that is not Unicode.
pub fn remember(
    file: &Path,
    toolkit: &Toolkit,
    search: &Search<'_>,
) -> Result<Option<String>, Error> {
    let inputs = Inputs::of(search.root, search.env, search.target)?;
    let text = search.root.text(file).unwrap_or_default();
    let agrees = |found: &Found| {
        toolkit
            .get(found.component)
            .is_some_and(|own| same(own, found))
    };
    if still_true(&text, &inputs, search.root).is_some_and(|found| found.iter().all(agrees)) {
        return Ok(None);
    }
    remembered(toolkit, &inputs, search.root).map(Some)
}

/// What a search depends on besides the disk.
struct Inputs {
    explicit: bool,
    names: Vec<String>,
    values: Vec<(String, String)>,
}

impl Inputs {
    fn of(root: &Root, env: &Env, target: &Target) -> Result<Self, Error> {
        let fresh = Env::from_pairs(env.variables());
        let sources = sources::candidates(root, &fresh, target, &[])?;
        let names = fresh.asked();
        let values = names
            .iter()
            .filter_map(|name| Some((name.clone(), env.peek(name)?.to_string_lossy().into_owned())))
            .collect();
        Ok(Self {
            explicit: sources.candidates.iter().any(|c| c.step.is_explicit())
                || !sources.locked.is_empty(),
            names,
            values,
        })
    }
}

fn same(own: &Found, found: &Found) -> bool {
    own.include == found.include
        && own.libraries == found.libraries
        && own.archives == found.archives
        && own.tools == found.tools
}

fn remembered(toolkit: &Toolkit, inputs: &Inputs, root: &Root) -> Result<String, Error> {
    let mut text = toolkit.to_toml()?;
    let found = toolkit.components().iter().map(|chosen| &chosen.found);
    let quoted = file::quoted(&identity(root, found));
    let _ = write!(
        text,
        "\n[remembered]\nidentity = {quoted}\n\n[remembered.variables]\n"
    );
    for (name, value) in &inputs.values {
        let _ = writeln!(text, "{} = {}", file::quoted(name), file::quoted(value));
    }
    Ok(text)
}

/// Size and time of change of every file: a component replaced in place is another one, even
/// where its files carry an old date.
fn identity<'a>(root: &Root, found: impl Iterator<Item = &'a Found>) -> String {
    let paths: BTreeSet<&PathBuf> = found.flat_map(Found::paths).collect();
    let mut hash = Fnv::default();
    for path in paths {
        hash.field(path.as_os_str().as_encoded_bytes());
        hash.field(root.identity(path).as_bytes());
    }
    hash.hex()
}

/// The remembered components, where variables and files are as they were.
fn still_true(text: &str, inputs: &Inputs, root: &Root) -> Option<Vec<Found>> {
    let found = file::parse(text).ok()?;
    let table = DeTable::parse(text).ok()?.into_inner();
    let remembered = table.get("remembered")?.get_ref().as_table()?;
    let recorded = remembered.get("identity")?.get_ref().as_str()?;
    let variables = remembered.get("variables")?.get_ref().as_table()?;
    let unchanged = variables.len() == inputs.values.len()
        && inputs.values.iter().all(|(name, value)| {
            variables
                .get(name.as_str())
                .and_then(|v| v.get_ref().as_str())
                == Some(value)
        });
    (unchanged && recorded == identity(root, found.iter())).then_some(found)
}

fn attempt(found: Vec<Found>, file: &Path) -> Attempt {
    let label = "the toolkit of this target directory";
    let candidate = Candidate::new(Step::Argument, label, file, Layout::ToolkitFile);
    let major = found.first().map_or(0, |found| found.major);
    Attempt {
        candidate,
        sets: vec![Set { major, found }],
        unusable: Vec::new(),
        remarks: Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests;

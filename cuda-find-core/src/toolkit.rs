//! A set of components that belong together, ready to compile and link with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cache::CachedAnswer;
use crate::capability::{self, Capability, Plan};
use crate::command::Invocation;
use crate::component::Component;
use crate::consistency::capability_conflicts;
use crate::env::Env;
use crate::error::{Conflict, Error};
use crate::found::Found;
use crate::list::each_once;
use crate::release;
use crate::root::Root;
use crate::sources::SearchStep;
use crate::toml::{self, Table, quoted};
use crate::version::ToolkitVersion;

const FORMAT_VERSION: i64 = 1;

/// Something to report about a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The components come from several steps of the search: from these places.
    Combined(Vec<String>),
    /// The locked toolkit that the request admits has not been fetched, so it is not used. The text is that of
    /// [`LockedToolkit::not_fetched`](crate::sources::LockedToolkit::not_fetched).
    LockNotFetched(String),
    /// A component that was found but not requested is not used, because it does not fit.
    Incompatible {
        /// The component.
        found: Box<Found>,
        /// Why the component does not fit.
        conflict: Conflict,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Combined(origins) => write!(f, "combined from {}", origins.join(" and ")),
            Self::LockNotFetched(reason) => write!(
                f,
                "{reason}, so components from other places are used: run `cargo cuda fetch`"
            ),
            Self::Incompatible { found, conflict } => {
                let Conflict { reason, fix } = conflict;
                write!(f, "{found} is not used: {reason}; {fix}")
            }
        }
    }
}

/// The components that a search chose.
///
/// A toolkit can be written to a file and read back. `cargo cuda` searches once and sets `CUDA_BUILD_TOOLKIT` to
/// the path of such a file, so all build scripts of one run use the same toolkit.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// The release that nvcc shows, otherwise NVRTC, otherwise cudart, otherwise the newest that any other chosen
    /// component shows, otherwise that of the place that `step` proposed.
    version: ToolkitVersion,
    /// The step of the search that proposed the first place. Components are taken from this place first, and from
    /// other places if it does not have them.
    pub(crate) step: SearchStep,
    components: Vec<Found>,
    notes: Vec<Note>,
    pub(crate) warnings: Vec<String>,
    /// The directories that the machine's compiler or linker searches by default.
    pub(crate) default_search_dirs: Vec<PathBuf>,
}

impl Toolkit {
    pub(crate) fn new(
        version: ToolkitVersion,
        step: SearchStep,
        components: Vec<Found>,
        notes: Vec<Note>,
    ) -> Self {
        Self {
            version,
            step,
            components,
            notes,
            warnings: Vec::new(),
            default_search_dirs: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether the machine's compiler or linker searches `directory` by default.
    pub fn is_default_search_dir(&self, directory: &Path) -> bool {
        self.default_search_dirs.iter().any(|dir| dir == directory)
    }

    /// The place that the user has named, for a sentence; `None` if the search has found the toolkit by itself.
    pub fn named_place(&self) -> Option<&str> {
        let first = self.components.first()?;
        self.step.is_explicit().then_some(first.origin.as_str())
    }

    /// Whether `cargo cuda` has fetched the toolkit.
    pub fn is_fetched(&self) -> bool {
        matches!(self.step, SearchStep::Locked | SearchStep::Stored)
    }

    /// Whether every component comes from the toolkit that the lock file pins, except for products of the system.
    pub fn is_locked(&self) -> bool {
        self.step == SearchStep::Locked && !self.is_combined()
    }

    /// The CUDA release.
    pub fn version(&self) -> ToolkitVersion {
        self.version
    }

    /// Every component that was chosen, in the order of the component table.
    pub fn components(&self) -> &[Found] {
        &self.components
    }

    /// Whether the components come from more than one step of the search.
    pub fn is_combined(&self) -> bool {
        let mut notes = self.notes.iter();
        notes.any(|note| matches!(note, Note::Combined(_)))
    }

    /// What to report about the choice.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Warnings that a build has to print, such as variables that name different places.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A component, if it was chosen.
    pub fn get(&self, component: Component) -> Option<&Found> {
        self.components.iter().find(|it| it.component == component)
    }

    /// Checks that the products among `used` have code for every capability of the plan. New versions of cuDNN, for
    /// example, have no code for old capabilities.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] that names the product and the capabilities.
    pub fn check_plan(&self, plan: &Plan, used: &[Component]) -> Result<(), Error> {
        let components = self.components.iter();
        let used = components.filter(|found| used.contains(&found.component));
        Error::if_inconsistent(capability_conflicts(used, plan))
    }

    /// The capabilities that the toolkit's own `ptxas` lists, for [`capability::Declared::plan`]. The output of `ptxas`
    /// is cached.
    ///
    /// `None` if this crate's tables cover the release, in which case `ptxas` is not started. Also `None` if `ptxas` is
    /// missing or lists nothing.
    pub fn capabilities_of_ptxas(&self, root: &Root, env: &Env) -> Option<Vec<Capability>> {
        if self.version <= release::newest() {
            return None;
        }
        let ptxas = self.tool(Component::Nvcc, "ptxas")?;
        let identity = root.fingerprint(ptxas)?;
        let cached = CachedAnswer::new(env, "ptxas", [ptxas.as_os_str()]);
        if let Some((_, text)) = cached.read(root).filter(|(known, _)| *known == identity) {
            return Some(capability::observed_from_ptxas_help(&text));
        }
        let help = Invocation::new(ptxas).args(["--help"]).query(env).ok()?;
        let observed = capability::observed_from_ptxas_help(&help.output());
        if observed.is_empty() {
            return None;
        }
        cached.write(&identity, &help.output());
        Some(observed)
    }

    /// A program of a chosen component.
    pub fn tool(&self, component: Component, name: &str) -> Option<&Path> {
        self.get(component)?.tool(name).map(PathBuf::as_path)
    }

    /// The directories with the headers of the components, each once. Directories that a compiler searches by
    /// default, such as `/usr/include`, are left out: with `-I`, their headers would hide other headers.
    pub fn include_dirs(&self) -> Vec<PathBuf> {
        let directories = self.components.iter().flat_map(|found| &found.include);
        let mut directories = each_once(directories.cloned());
        directories.retain(|directory| !self.is_default_search_dir(directory));
        directories
    }

    /// The components as TOML. If `CUDA_BUILD_TOOLKIT` names a file with this text,
    /// the search reads the components from the file. The output is deterministic.
    ///
    /// # Errors
    /// [`Error::Format`] if a path is not UTF-8.
    pub fn to_toml(&self) -> Result<String, Error> {
        let mut lines = vec![
            format!("format_version = {FORMAT_VERSION}"),
            format!("version = {}", quoted(&self.version.to_string())),
        ];
        for found in &self.components {
            lines.push("\n[[component]]".to_owned());
            let mut line = |key: &str, value: String| lines.push(format!("{key} = {value}"));
            line("name", quoted(found.component.id()));
            line("major", found.major.to_string());
            if let Some(version) = &found.version {
                line("version", quoted(&version.to_string()));
            }
            if let Some(toolkit) = found.release {
                line("toolkit", quoted(&toolkit.to_string()));
            }
            line("include", path_list(&found.include)?);
            line("libraries", path_list(&found.libraries)?);
            line("archives", path_list(&found.archives)?);
            line("tools", path_list(&found.tools)?);
            line("evidence", quoted(&found.evidence));
            line("origin", quoted(&found.origin));
        }
        Ok(lines.join("\n") + "\n")
    }
}

fn path_list(paths: &[PathBuf]) -> Result<String, Error> {
    let mut items = Vec::new();
    for path in paths {
        let text = path.to_str().map(quoted);
        items.push(text.ok_or_else(|| Error::Format {
            what: "toolkit file",
            reason: format!("{} is not UTF-8", path.display()),
            hint: "move the toolkit to a path that is UTF-8, or name another toolkit in `CUDA_BUILD_ROOTS`",
        })?);
    }
    Ok(format!("[{}]", items.join(", ")))
}

fn format_error(reason: impl Into<String>) -> Error {
    Error::Format {
        what: "toolkit file",
        reason: reason.into(),
        hint: "run the build through `cargo cuda` again, which writes the file",
    }
}

/// Reads the components from the output of [`Toolkit::to_toml`]. Unknown components are skipped, because
/// a newer `cargo cuda` may have written the file.
pub(crate) fn parse_file(text: &str) -> Result<Vec<Found>, Error> {
    let table = toml::parse(text, FORMAT_VERSION).map_err(format_error)?;
    let mut found: Vec<Found> = Vec::new();
    for entry in toml::tables(&table, "component").map_err(format_error)? {
        let name = toml::string(entry, "name").map_err(format_error)?;
        let Ok(component) = name.parse::<Component>() else {
            continue;
        };
        if found.iter().any(|known| known.component == component) {
            return Err(format_error(format!("it lists `{component}` twice")));
        }
        let new = read(entry, component);
        found.push(new.map_err(|reason| format_error(format!("`{name}`: {reason}")))?);
    }
    if found.is_empty() {
        return Err(format_error("it lists no component"));
    }
    Ok(found)
}

fn read(entry: &Table, component: Component) -> Result<Found, String> {
    let major = toml::number(entry, "major")?;
    let major = u32::try_from(major).map_err(|_| format!("`major` is {major}"))?;
    let paths = |key| toml::strings(entry, key).map(|it| it.iter().map(PathBuf::from).collect());
    Ok(Found {
        version: parsed(entry, "version")?,
        release: parsed(entry, "toolkit")?,
        include: paths("include")?,
        libraries: paths("libraries")?,
        archives: paths("archives")?,
        tools: paths("tools")?,
        evidence: toml::string(entry, "evidence")?.to_owned(),
        ..Found::new(component, major)
    })
}

/// The parsed string at `key`; `None` if the key is absent. A string that cannot be parsed is an error.
fn parsed<T: FromStr>(entry: &Table, key: &str) -> Result<Option<T>, String> {
    let text = toml::string(entry, key).ok();
    let parse = |text: &str| text.parse().map_err(|_| format!("`{key}` is `{text}`"));
    text.map(parse).transpose()
}

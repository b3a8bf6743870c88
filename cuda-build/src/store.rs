//! The store of fetched toolkits, and the check whether another user may have changed a file of the cache
//! ([`distrust`]).
//!
//! `cargo cuda toolkit add` writes the store, and the search reads it:
//!
//! ```text
//! <cache>/toolkits/
//!   13.4.3-1f0c9a2e/          one consistent set of components, never changed
//!     toolkit.toml            the manifest, written last; a directory without it is not a toolkit
//!     nvidia/…                site-packages, as an installer left them
//!     nvidia_cuda_runtime-13.4.92.dist-info/ …
//!   resolved.toml, .lock, .part-*/     used only by `cargo cuda toolkit`
//! ```

use std::io;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::document;
use crate::env::Env;
use crate::error::Error;
use crate::probe::{Attempt, Prober};
use crate::root::Root;
use crate::sources::{Candidate, Label, Layout, SearchStep};
use crate::target::Target;
use crate::toml::Table;
use crate::version::Version;

/// The name of the manifest. A directory without this file is not a stored toolkit.
pub const MANIFEST: &str = "toolkit.toml";

/// The directory in a stored toolkit that was unpacked from NVIDIA's redistributable archives. It is a root with `bin`,
/// `include` and `lib`.
pub const ARCHIVES: &str = "root";

/// The newest `format_version` of [`MANIFEST`] that this crate reads.
pub const FORMAT_VERSION: i64 = 1;

/// One package of a stored toolkit or of a lock file.
#[derive(Debug)]
pub(crate) struct Package {
    name: String,
    version: String,
    /// The hashes of its files, one for each platform.
    hashes: Vec<String>,
}

impl Package {
    /// Whether both are the same package at the same version and have a file in common.
    fn shares_a_file_with(&self, other: &Self) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
            && self.hashes.iter().any(|hash| other.hashes.contains(hash))
    }
}

/// The packages in the array `packages` of a table; none if the table has no such key.
pub(crate) fn packages(table: &Table) -> Result<Vec<Package>, String> {
    let package = |package| {
        let hashes = document::strings(package, "hashes")?.into_iter();
        Ok(Package {
            name: document::string(package, "name")?.to_owned(),
            version: document::string(package, "version")?.to_owned(),
            hashes: hashes.map(str::to_owned).collect(),
        })
    };
    let packages = document::tables(table, "packages")?.into_iter();
    packages.map(package).collect()
}

/// The user's cache directory: `CUDA_BUILD_CACHE_DIR`, otherwise `$XDG_CACHE_HOME/cuda-build`, otherwise
/// `~/.cache/cuda-build`. A relative `XDG_CACHE_HOME` is ignored, as the XDG base directory specification requires.
/// `None` if none of these variables is set.
pub fn cache_dir(env: &Env) -> Option<PathBuf> {
    if let Some(directory) = env.path("CUDA_BUILD_CACHE_DIR") {
        return Some(directory);
    }
    let xdg = env.path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| Some(env.path("HOME")?.join(".cache")))?;
    Some(cache.join("cuda-build"))
}

/// [`cache_dir`], for a caller that cannot work without a cache directory.
///
/// # Errors
/// [`Error::Usage`] if no variable names a cache directory.
pub fn required_cache_dir(env: &Env) -> Result<PathBuf, Error> {
    cache_dir(env).ok_or_else(|| Error::Usage {
        reason: "there is no cache directory: `CUDA_BUILD_CACHE_DIR`, `XDG_CACHE_HOME` and `HOME` are all unset"
            .to_owned(),
        hint: "set `CUDA_BUILD_CACHE_DIR` to the absolute path of a directory".to_owned(),
    })
}

/// The directory below [`cache_dir`] that has one directory for each toolkit.
pub fn toolkits_dir(env: &Env) -> Option<PathBuf> {
    cache_dir(env).map(|cache| cache.join("toolkits"))
}

/// A toolkit in the store.
#[derive(Debug)]
pub struct StoredToolkit {
    /// The directory.
    pub path: PathBuf,
    /// Whether it has a root below [`ARCHIVES`]. Otherwise the directory has the layout of site-packages.
    pub is_archives: bool,
    /// The toolkit's version: `13.4.3`, or only the release, `13.5`, if the set was resolved without the metapackage.
    pub version: Version,
    /// The platform directory of its files, such as `x86_64-linux`.
    pub platform: String,
    /// The components that were found when the toolkit was added. Names that this crate does not know are left
    /// out.
    pub components: Vec<Component>,
    /// The packages that were installed into the directory.
    pub(crate) packages: Vec<Package>,
}

impl StoredToolkit {
    /// Reads `<path>/toolkit.toml`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Format`] if it is not a manifest of a known format.
    pub fn read(root: &Root, path: &Path) -> Result<Self, Error> {
        let file = path.join(MANIFEST);
        let text = root.text(&file).map_err(Error::io("read", &file))?;
        Self::parse(path, &text).map_err(|reason| Error::Format {
            what: "toolkit manifest",
            reason: format!("{}: {reason}", file.display()),
            hint: "remove the toolkit with `cargo cuda toolkit remove`, or delete its directory; `cargo cuda fetch` fetches \
                   it again",
        })
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let table = document::parse(text, FORMAT_VERSION)?;
        let version = document::string(&table, "version")?;
        let components = document::strings(&table, "components")?.into_iter();
        Ok(Self {
            path: path.to_owned(),
            is_archives: document::string(&table, "source").is_ok_and(|source| source == "redist"),
            version: version.parse().map_err(|e| format!("`version`: {e}"))?,
            platform: document::string(&table, "platform")?.to_owned(),
            components: components.filter_map(|name| name.parse().ok()).collect(),
            packages: packages(&table)?,
        })
    }

    /// Whether the toolkit has this version and each of these packages, perhaps with others.
    pub(crate) fn contains(&self, version: &Version, packages: &[Package]) -> bool {
        let has = |package: &Package| {
            self.packages
                .iter()
                .any(|own| own.shares_a_file_with(package))
        };
        self.version == *version && !packages.is_empty() && packages.iter().all(has)
    }

    /// The place that the search reads.
    pub(crate) fn candidate(&self, step: SearchStep, label: Label) -> Candidate {
        candidate(&self.path, self.is_archives, step, label)
    }
}

fn candidate(path: &Path, is_archives: bool, step: SearchStep, label: Label) -> Candidate {
    match is_archives {
        true => Candidate::root(step, label, path.join(ARCHIVES)),
        false => Candidate::new(step, label, path, Layout::SitePackages),
    }
}

/// All toolkits below `directory`, sorted by name. A toolkit that cannot be used is an `Err` with
/// the reason. A directory without a manifest is skipped: another process may still be writing it.
pub fn stored_toolkits(root: &Root, directory: &Path) -> Vec<Result<StoredToolkit, Error>> {
    let mut toolkits = Vec::new();
    for name in root.names(directory) {
        let path = directory.join(&name);
        if name.as_encoded_bytes().starts_with(b".") || !root.exists(&path.join(MANIFEST)) {
            continue;
        }
        toolkits.push(match distrust(root, &path) {
            Some(reason) => Err(Error::io("use", &path)(io::Error::other(format!(
                "{reason}; delete it and fetch it again, or name it in `CUDA_BUILD_ROOTS` if you trust it"
            )))),
            None => StoredToolkit::read(root, &path),
        });
    }
    toolkits
}

/// Probes the directory of a stored toolkit as the search does, but without starting nvcc. `is_archives` is
/// [`StoredToolkit::is_archives`].
pub fn probe(root: &Root, target: &Target, directory: &Path, is_archives: bool) -> Attempt {
    let label = Label::from("fetched packages");
    let candidate = candidate(directory, is_archives, SearchStep::Stored, label);
    let query_nvcc = |nvcc: &Path| {
        Err(Error::Format {
            what: "nvcc",
            reason: format!("{} was not queried", nvcc.display()),
            hint: "run `cargo cuda doctor`, which queries it",
        })
    };
    Prober::new(root, target, &query_nvcc).probe(&candidate)
}

/// The reason not to trust `path`, a file or directory that this program wrote; `None` if it can be trusted.
///
/// `path` and its parent directory must belong to the current user or to root, and must not be writable by every
/// user. Only the parent may be writable by every user if it has the sticky bit, as `/tmp` has. Write permission for
/// a group is accepted.
#[cfg(unix)]
pub fn distrust(root: &Root, path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    // The owner of this directory is the user of this process.
    let user = root.metadata(Path::new("/proc/self")).ok()?.uid();
    let parent = path.parent().unwrap_or(path);
    let mut places = [(path, 0), (parent, STICKY)].into_iter();
    places.find_map(|(path, harmless_if)| {
        let metadata = root.metadata(path).ok()?;
        let reason = ownership_problem(metadata.uid(), metadata.mode(), user, harmless_if)?;
        Some(format!("{} {reason}", path.display()))
    })
}

/// Owners and modes exist only on Unix.
#[cfg(not(unix))]
pub fn distrust(_: &Root, _: &Path) -> Option<String> {
    None
}

/// In a directory with this bit, only the owner of a file can replace it.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

/// Why a file or directory with this owner and mode is not trusted, as the end of a sentence. `harmless_if` is the
/// mode bit with which write permission for every user is accepted; zero if there is none.
#[cfg(unix)]
fn ownership_problem(owner: u32, mode: u32, user: u32, harmless_if: u32) -> Option<String> {
    if owner != user && owner != 0 {
        return Some(format!(
            "belongs to user {owner}, neither to you (user {user}) nor to root"
        ));
    }
    let is_open = mode & 0o002 != 0 && mode & harmless_if == 0;
    is_open.then(|| "can be written by every user".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_named_by_own_variable_then_xdg_then_home() {
        let home = Env::from_pairs([("HOME", "/home/a")]);
        let xdg = home.clone().with("XDG_CACHE_HOME", "/var/cache/a");
        let own = xdg.clone().with("CUDA_BUILD_CACHE_DIR", "/data/cuda");
        let text = |env: &Env| cache_dir(env).map(|p| p.display().to_string());
        assert_eq!(text(&home).as_deref(), Some("/home/a/.cache/cuda-build"));
        assert_eq!(text(&xdg).as_deref(), Some("/var/cache/a/cuda-build"));
        assert_eq!(text(&own).as_deref(), Some("/data/cuda"));
        assert_eq!(
            text(&home.with("XDG_CACHE_HOME", "relative")).as_deref(),
            Some("/home/a/.cache/cuda-build")
        );
        assert_eq!(text(&Env::from_pairs([("PATH", "/bin")])), None);
    }

    const GOOD: &str = r#"
        format_version = 1
        version = "13.4.3"
        platform = "x86_64-linux"
        components = ["cudart", "nvrtc", "from-the-future"]
    "#;

    #[test]
    fn unknown_components_of_a_manifest_are_ignored() {
        let toolkit = StoredToolkit::parse(Path::new("/s/13.4.3-0"), GOOD).unwrap();
        assert_eq!(toolkit.version.to_string(), "13.4.3");
        assert_eq!(toolkit.components, [Component::Cudart, Component::Nvrtc]);
    }

    #[test]
    fn a_newer_format_and_a_broken_manifest_are_refused() {
        let parse = |text: &str| StoredToolkit::parse(Path::new("/s"), text).unwrap_err();
        assert!(parse(&GOOD.replace("= 1", "= 2")).contains("format_version 2"));
        assert!(
            parse(&GOOD.replace("format_version", "x")).contains("`format_version` is missing")
        );
        assert!(
            parse(&GOOD.replace("version = \"13.4.3\"", "version = \"new\"")).contains("`version`")
        );
        assert!(!parse("=").is_empty());
    }

    #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
    fn put(directory: &Path, name: &str, manifest: Option<&str>) -> PathBuf {
        let path = directory.join(name);
        std::fs::create_dir_all(&path).unwrap();
        if let Some(text) = manifest {
            std::fs::write(path.join(MANIFEST), text).unwrap();
        }
        path
    }

    #[test]
    fn a_directory_being_written_is_not_a_toolkit() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "13.4.3-a", Some(GOOD));
        put(directory.path(), "13.4.3-b", None);
        put(directory.path(), ".13.4.3-c.7.part", Some(GOOD));
        put(directory.path(), "13.4.3-d", Some("format_version = 9"));
        let found = stored_toolkits(&Root::system(), directory.path());
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok() && found[1].is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_in_place_of_a_manifest_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let toolkit = put(directory.path(), "13.4.3-a", None);
        let made = crate::command::Invocation::new("mkfifo").args([toolkit.join(MANIFEST)]);
        assert!(made.run().unwrap().success);
        let found = stored_toolkits(&Root::system(), directory.path());
        assert!(
            found[0]
                .as_ref()
                .unwrap_err()
                .to_string()
                .contains("not a regular file"),
            "{found:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_every_user_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let toolkit = put(directory.path(), "13.4.3-a", Some(GOOD));
        #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let reason = || {
            let found = stored_toolkits(&Root::system(), directory.path()).remove(0);
            found.err().map(|error| error.to_string())
        };
        for (store, own, used) in [
            (0o755, 0o755, true),
            (0o775, 0o775, true),
            (0o1777, 0o755, true),
            (0o777, 0o755, false),
            (0o755, 0o777, false),
            (0o755, 0o1777, false),
        ] {
            mode(directory.path(), store);
            mode(&toolkit, own);
            let reason = reason();
            assert_eq!(reason.is_none(), used, "{store:o} {own:o}: {reason:?}");
            assert!(reason.is_none_or(|reason| reason.contains("every user")));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_of_another_user_is_not_trusted() {
        assert_eq!(ownership_problem(1000, 0o755, 1000, 0), None);
        assert_eq!(ownership_problem(0, 0o755, 1000, 0), None);
        for user in [0, 1000] {
            let reason = ownership_problem(65534, 0o755, user, STICKY).unwrap();
            assert!(reason.contains("user 65534") && reason.contains(&format!("user {user}")));
        }
    }
}

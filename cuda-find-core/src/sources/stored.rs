//! Fetched toolkits and the lock file.
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

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

use super::candidate::{Candidate, CandidateKind, SearchStep};
use crate::cache::cache_dir;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::list::{matches, sort_by_key};
use crate::root::Root;
use crate::target::Target;
use crate::toml::{self, Table, Value};
use crate::trust::{Distrust, Trust};
use crate::version::{ToolkitVersion, Version};

/// The name of the manifest. A directory without this file is not a stored toolkit.
pub const MANIFEST: &str = "toolkit.toml";

/// The directory in a stored toolkit that was unpacked from NVIDIA's redistributable archives. It is a root with `bin`,
/// `include` and `lib`.
pub const ARCHIVES: &str = "root";

/// The newest `format_version` of [`MANIFEST`] that this crate reads.
pub const FORMAT_VERSION: i64 = 1;

/// One package of a stored toolkit or of a lock file.
#[derive(Debug)]
pub struct StoredPackage {
    name: String,
    version: String,
    /// The hashes of its files, one for each platform.
    hashes: Vec<String>,
}

impl StoredPackage {
    /// Whether both are the same package at the same version and have a file in common.
    fn shares_a_file_with(&self, other: &Self) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
            && self.hashes.iter().any(|hash| other.hashes.contains(hash))
    }
}

/// Whether each package of `some` is among `all`.
fn has_all(all: &[StoredPackage], some: &[StoredPackage]) -> bool {
    some.iter()
        .all(|package| all.iter().any(|it| it.shares_a_file_with(package)))
}

/// The packages in the array `packages` of a table; none if the table has no such key.
pub fn packages(table: &Table) -> Result<Vec<StoredPackage>, String> {
    let package = |package| {
        let hashes = toml::strings(package, "hashes")?.into_iter();
        Ok(StoredPackage {
            name: toml::string(package, "name")?.to_owned(),
            version: toml::string(package, "version")?.to_owned(),
            hashes: hashes.map(str::to_owned).collect(),
        })
    };
    let packages = toml::tables(table, "packages")?.into_iter();
    packages.map(package).collect()
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
    pub packages: Vec<StoredPackage>,
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
            hint: "delete its directory; `cargo cuda fetch` fetches it again",
        })
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let table = toml::parse(text, FORMAT_VERSION)?;
        let version = toml::string(&table, "version")?;
        let components = toml::strings(&table, "components")?.into_iter();
        Ok(Self {
            path: path.to_owned(),
            is_archives: toml::string(&table, "source").is_ok_and(|source| source == "redist"),
            version: version.parse().map_err(|e| format!("`version`: {e}"))?,
            platform: toml::string(&table, "platform")?.to_owned(),
            components: components.filter_map(|name| name.parse().ok()).collect(),
            packages: packages(&table)?,
        })
    }

    /// Whether the toolkit has this version and each of these packages, perhaps with others.
    pub fn contains(&self, version: &Version, packages: &[StoredPackage]) -> bool {
        self.version == *version && !packages.is_empty() && has_all(&self.packages, packages)
    }

    /// Whether the toolkit has this version and some of these packages, and no other: those that one build needed.
    fn is_part_of(&self, version: &Version, packages: &[StoredPackage]) -> bool {
        self.version == *version && !self.packages.is_empty() && has_all(packages, &self.packages)
    }

    /// The place that the search reads.
    fn candidate(&self, step: SearchStep, label: &str) -> Candidate {
        if self.is_archives {
            return Candidate::root(step, label, self.path.join(ARCHIVES));
        }
        Candidate::new(step, label, &self.path, CandidateKind::SitePackages)
    }
}

/// All toolkits below `directory`, sorted by name. A toolkit that cannot be used is an `Err` with
/// the reason. A directory without a manifest is skipped: another process may still be writing it.
pub fn stored_toolkits(
    root: &Root,
    trust: &Trust,
    directory: &Path,
) -> Vec<Result<StoredToolkit, Error>> {
    let mut toolkits = Vec::new();
    let mut reported = Vec::new();
    for name in root.names(directory) {
        let path = directory.join(&name);
        if name.as_encoded_bytes().starts_with(b".") || !root.exists(&path.join(MANIFEST)) {
            continue;
        }
        let Some(Distrust { reason, remedy }) = trust.problem(root, &path) else {
            toolkits.push(StoredToolkit::read(root, &path));
            continue;
        };
        // A directory above all toolkits is reported once.
        if !reported.contains(&reason) {
            let error = io::Error::other(format!("{reason}; {remedy}"));
            toolkits.push(Err(Error::io("use", &path)(error)));
            reported.push(reason);
        }
    }
    toolkits
}

/// The name of the lock file, which is beside the workspace's `Cargo.toml`.
pub const LOCK_FILE: &str = "cuda-toolkits.lock";

/// The variable that names the lock file.
pub const LOCK_VARIABLE: &str = "CUDA_BUILD_LOCK";

/// The newest `format_version` of a lock file that this crate reads.
pub const LOCK_FORMAT_VERSION: i64 = 1;

/// One toolkit of a lock file.
pub struct LockedToolkit {
    /// The lock file.
    pub file: PathBuf,
    /// The version that the lock file pins: `13.4.3`.
    pub version: Version,
    /// Its CUDA release.
    pub release: ToolkitVersion,
    /// The stored toolkits with locked packages, for the target: the smallest one with all of them, then those with a
    /// part of them. In a cross build, those for this machine follow. Empty if nothing has been fetched for the target.
    pub paths: Vec<PathBuf>,
    /// Whether a stored toolkit for the target has all locked packages.
    pub is_complete: bool,
}

impl LockedToolkit {
    /// What has not been fetched: "/a/cuda-toolkits.lock locks CUDA 13.4.3, which has not been fetched".
    pub fn not_fetched(&self) -> String {
        let (file, version) = (self.file.display(), &self.version);
        match self.paths.is_empty() {
            true => format!("{file} locks CUDA {version}, which has not been fetched"),
            false => format!(
                "{file} locks CUDA {version}, of which some components have not been fetched"
            ),
        }
    }
}

/// The store as a search sees it.
pub(super) struct StoredToolkits {
    /// The toolkits for the target's platform and, in a cross build, those for this machine, for their programs.
    toolkits: Vec<StoredToolkit>,
    /// The target's platform directory.
    platform: &'static str,
    /// Why some toolkits cannot be used.
    pub(super) unusable: Vec<String>,
}

impl StoredToolkits {
    pub(super) fn read(root: &Root, env: &Env, target: &Target) -> Self {
        let mut store = Self {
            toolkits: Vec::new(),
            platform: target.directory(),
            unusable: Vec::new(),
        };
        let is_used =
            |platform: &str| platform == store.platform || target.runs_in_cross_build(platform);
        let directory = toolkits_dir(env).into_iter();
        let trust = Trust::from_env(env);
        for toolkit in directory.flat_map(|directory| stored_toolkits(root, &trust, &directory)) {
            match toolkit {
                Ok(toolkit) if is_used(&toolkit.platform) => store.toolkits.push(toolkit),
                Ok(_) => {}
                Err(error) => store.unusable.push(error.to_string()),
            }
        }
        // The newest first. Of two toolkits of the same version, the toolkit with more components comes first.
        let size = |it: &StoredToolkit| (it.version.clone(), it.components.len());
        sort_by_key(&mut store.toolkits, |it| Reverse(size(it)));
        store
    }

    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.toolkits.iter().map(|toolkit| {
            let label = format!("fetched toolkit {}", toolkit.version);
            toolkit.candidate(SearchStep::Stored, &label)
        })
    }

    /// The toolkits for the target, or, in a cross build, those for this machine.
    fn of_platform(&self, for_target: bool) -> impl Iterator<Item = &StoredToolkit> {
        let toolkits = self.toolkits.iter();
        toolkits.filter(move |it| (it.platform == self.platform) == for_target)
    }

    /// The smallest toolkit with all locked packages. A larger one serves, because a user may remove a toolkit of which
    /// another one has every package.
    fn complete(
        &self,
        version: &Version,
        packages: &[StoredPackage],
        for_target: bool,
    ) -> Option<&StoredToolkit> {
        let toolkits = self.of_platform(for_target);
        let holders = toolkits.filter(|toolkit| toolkit.contains(version, packages));
        holders.min_by_key(|toolkit| (toolkit.packages.len(), toolkit.path.clone()))
    }

    /// The toolkits with a part of the locked packages, the largest first.
    fn parts(
        &self,
        version: &Version,
        packages: &[StoredPackage],
        for_target: bool,
    ) -> Vec<&StoredToolkit> {
        let toolkits = self.of_platform(for_target);
        let is_part = |toolkit: &&StoredToolkit| {
            toolkit.is_part_of(version, packages) && !toolkit.contains(version, packages)
        };
        let mut parts: Vec<&StoredToolkit> = toolkits.filter(is_part).collect();
        sort_by_key(&mut parts, |it| {
            (Reverse(it.packages.len()), it.path.clone())
        });
        parts
    }

    /// The toolkits of the lock file, newest first, and the candidates for those that have been fetched.
    pub(super) fn locked(
        &self,
        root: &Root,
        env: &Env,
    ) -> Result<(Vec<LockedToolkit>, Vec<Candidate>), Error> {
        let Some(file) = lock_file(root, env).filter(|file| root.exists(file)) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let text = root.text(&file).map_err(|error| error.to_string());
        let mut entries = text.and_then(|text| parse_lock(&text)).map_err(|reason| {
            Error::Format {
                what: "lock file",
                reason: format!("{}: {reason}", file.display()),
                hint: "if a newer version wrote it, update cuda-build and cargo-cuda; otherwise restore or delete it, \
                       and run `cargo cuda fetch`",
            }
        })?;
        sort_by_key(&mut entries, |(version, ..)| Reverse(version.clone()));
        let (mut locked, mut candidates) = (Vec::new(), Vec::new());
        for (version, release, packages) in entries {
            let complete = self.complete(&version, &packages, true);
            let is_complete = complete.is_some();
            let mut fetched = Vec::from_iter(complete);
            fetched.extend(self.parts(&version, &packages, true));
            if !fetched.is_empty() {
                fetched.extend(self.complete(&version, &packages, false));
                fetched.extend(self.parts(&version, &packages, false));
            }
            let label = format!("CUDA {version} of `{LOCK_FILE}`");
            let candidate = |it: &StoredToolkit| it.candidate(SearchStep::Locked, &label);
            let fetched: Vec<Candidate> = fetched.into_iter().map(candidate).collect();
            locked.push(LockedToolkit {
                file: file.clone(),
                version,
                release,
                paths: fetched.iter().map(|place| place.path.clone()).collect(),
                is_complete,
            });
            candidates.extend(fetched);
        }
        Ok((locked, candidates))
    }
}

/// The path of the lock file to use, which may not exist: the file that `CUDA_BUILD_LOCK` names, otherwise the file
/// beside the `Cargo.toml` of the package's workspace. A dependency from a registry, from git or from a vendor directory
/// has no lock file of its own. Where the target directory lies does not matter.
pub fn lock_file(root: &Root, env: &Env) -> Option<PathBuf> {
    if let Some(named) = env.path(LOCK_VARIABLE) {
        return Some(named);
    }
    let package = Path::new(env.peek("CARGO_MANIFEST_DIR")?);
    if is_dependency(root, env, package) {
        return None;
    }
    Some(workspace_root(root, package)?.join(LOCK_FILE))
}

/// Whether Cargo downloaded the package. If so, the package is below `CARGO_HOME`, or contains the file that
/// `cargo vendor` adds to each package.
fn is_dependency(root: &Root, env: &Env, package: &Path) -> bool {
    let cargo_home = env.peek("CARGO_HOME").map(PathBuf::from);
    let default = || Some(Path::new(env.peek("HOME")?).join(".cargo"));
    let is_below = |home: PathBuf| root.resolve(package).starts_with(root.resolve(&home));
    cargo_home.or_else(default).is_some_and(is_below)
        || root.is_file(&package.join(".cargo-checksum.json"))
}

fn parse_lock(text: &str) -> Result<Vec<(Version, ToolkitVersion, Vec<StoredPackage>)>, String> {
    let table = toml::parse(text, LOCK_FORMAT_VERSION)?;
    let mut locked = Vec::new();
    for toolkit in toml::tables(&table, "toolkit")? {
        let text = toml::string(toolkit, "version")?;
        // `Version` keeps any text after the numbers, and messages print it. A lock file must not put other text
        // into messages, so only digits and dots are accepted.
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let version: Option<Version> = text.parse().ok().filter(|_| is_plain);
        let release = version.as_ref().and_then(Version::release);
        let Some((version, release)) = version.zip(release) else {
            return Err(format!("`version` {text:?} is not a CUDA release"));
        };
        if toolkit.get("packages").is_none() {
            return Err("`packages` is missing or not an array".to_owned());
        }
        locked.push((version, release, packages(toolkit)?));
    }
    Ok(locked)
}

/// The root directory of the workspace that `directory` is in. As in Cargo, the nearest package at or above
/// `directory` determines the workspace; a package without a workspace is its own root. `None` if there
/// is no such package, or if a manifest cannot be read.
pub fn workspace_root(root: &Root, directory: &Path) -> Option<PathBuf> {
    let mut above = directory.ancestors();
    let package = above.find(|directory| root.is_file(&directory.join("Cargo.toml")))?;
    match workspace_manifest(root, package).ok()? {
        Some(workspace) => workspace.parent().map(Path::to_owned),
        None => Some(package.to_owned()),
    }
}

/// The manifest of the workspace that the package in `directory` belongs to: the manifest that
/// `package.workspace` names, otherwise the nearest manifest at or above `directory` with a
/// `[workspace]` table.
///
/// `None` if there is no such manifest, or if its `[workspace]` table excludes the package and does not name it as a
/// member. As in Cargo, a vendored package (with `.cargo-checksum.json`) or a registry package (with `.cargo-ok`)
/// belongs to no workspace.
pub fn workspace_manifest(root: &Root, directory: &Path) -> Result<Option<PathBuf>, Error> {
    let is_published = |name| root.is_file(&directory.join(name));
    if is_published(".cargo-checksum.json") || is_published(".cargo-ok") {
        return Ok(None);
    }
    let package = read_manifest(root, &directory.join("Cargo.toml"))?;
    let named = match package.get("package") {
        Some(Value::Table(package)) => package.get("workspace").and_then(Value::as_str),
        _ => None,
    };
    if let Some(named) = named {
        return Ok(Some(directory.join(named).join("Cargo.toml")));
    }
    for ancestor in directory.ancestors() {
        let path = ancestor.join("Cargo.toml");
        if !root.is_file(&path) {
            continue;
        }
        let manifest = read_manifest(root, &path)?;
        let Some(workspace) = manifest.get("workspace") else {
            continue;
        };
        let listed = |key: &str| match workspace {
            Value::Table(workspace) => toml::strings(workspace, key).unwrap_or_default(),
            _ => Vec::new(),
        };
        let below = directory.strip_prefix(ancestor).unwrap_or(directory);
        let is_member = listed("members").iter().any(|it| is_below(below, it));
        let is_excluded = listed("exclude").iter().any(|it| below.starts_with(it));
        return Ok((is_member || !is_excluded).then_some(path));
    }
    Ok(None)
}

/// Whether `path` is a directory that a member of a workspace names, or one below it. A member may be a pattern, as in
/// `crates/*`.
fn is_below(path: &Path, member: &str) -> bool {
    let mut parts = path.components();
    let mut patterns = Path::new(member).components();
    patterns.all(|pattern| match pattern {
        std::path::Component::CurDir => true,
        pattern => parts.next().is_some_and(|part| {
            let [pattern, part] = [pattern, part].map(|it| it.as_os_str().to_string_lossy());
            matches(&pattern, &part)
        }),
    })
}

fn read_manifest(root: &Root, path: &Path) -> Result<Table, Error> {
    let text = root.text(path).map_err(Error::io("read", path))?;
    Table::parse(&text).map_err(|reason| Error::Format {
        what: "Cargo manifest",
        reason: format!("{}: invalid TOML: {reason}", path.display()),
        hint: "correct its syntax",
    })
}

#[cfg(test)]
mod store_tests {
    use super::*;

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

    #[cfg(unix)]
    #[test]
    fn a_directory_being_written_is_not_a_toolkit() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "13.4.3-a", Some(GOOD));
        put(directory.path(), "13.4.3-b", None);
        put(directory.path(), ".13.4.3-c.7.part", Some(GOOD));
        put(directory.path(), "13.4.3-d", Some("format_version = 9"));
        let found = stored_toolkits(&Root::system(), &Trust::default(), directory.path());
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
        let found = stored_toolkits(&Root::system(), &Trust::default(), directory.path());
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
            let found =
                stored_toolkits(&Root::system(), &Trust::default(), directory.path()).remove(0);
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
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod stored_tests {
    use super::*;
    use std::fs;

    fn file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_lock_is_that_of_the_packages_workspace() {
        let top = tempfile::tempdir().unwrap();
        let top = &top.path().canonicalize().unwrap();
        for package in ["ws", "dep", "home/registry/dep", "vendor/dep"].map(|name| top.join(name)) {
            let manifest = "[package]\nname = \"p\"\n[workspace]\n";
            file(&package.join("Cargo.toml"), manifest);
            file(&package.join(LOCK_FILE), "");
        }
        file(&top.join("bare/Cargo.toml"), "[workspace]\n");
        let workspace =
            "[workspace]\nmembers = [\"m\", \"./crates/*\"]\nexclude = [\"crates\", \"other\"]\n";
        file(&top.join("members/Cargo.toml"), workspace);
        for member in ["m", "crates/a", "crates/a/inner", "other/b"] {
            let manifest = top.join("members").join(member).join("Cargo.toml");
            file(&manifest, "[package]\nname = \"m\"\n");
        }
        file(&top.join("vendor/dep/.cargo-checksum.json"), "{}");
        file(&top.join("named.lock"), "");
        let found = |variables: &str| {
            let variables = variables.split_whitespace();
            let pairs = variables.filter_map(|text| text.split_once('='));
            let env = Env::from_pairs(pairs.map(|(name, below)| (name, top.join(below))));
            let lock = lock_file(&Root::system(), &env.with("CARGO_HOME", top.join("home")));
            lock.map_or_else(String::new, |lock| {
                lock.strip_prefix(top).unwrap().display().to_string()
            })
        };
        // A dependency has no lock, and a target directory below another workspace changes nothing.
        for case in "\
OUT_DIR=ws/target/debug/out CARGO_MANIFEST_DIR=home/registry/dep ->
OUT_DIR=ws/target/debug/out CARGO_MANIFEST_DIR=vendor/dep ->
OUT_DIR=ws/target/debug/out CUDA_BUILD_LOCK=named.lock -> named.lock
OUT_DIR=ws/target/debug/out CUDA_BUILD_LOCK=absent.lock -> absent.lock
OUT_DIR=bare/target/out CARGO_MANIFEST_DIR=dep -> dep/cuda-toolkits.lock
OUT_DIR=ws/target/out CARGO_MANIFEST_DIR=members/m -> members/cuda-toolkits.lock
CARGO_MANIFEST_DIR=members/crates/a -> members/cuda-toolkits.lock
CARGO_MANIFEST_DIR=members/crates/a/inner -> members/cuda-toolkits.lock
CARGO_MANIFEST_DIR=members/other/b -> members/other/b/cuda-toolkits.lock
 ->"
        .lines()
        {
            let (variables, expected) = case.split_once(" ->").unwrap();
            assert_eq!(found(variables), expected.trim(), "{variables}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_source_that_is_not_listed_is_not_read() {
        let top = tempfile::tempdir().unwrap();
        let [lock, cache] = [LOCK_FILE, "cache"].map(|name| top.path().join(name));
        file(&lock, "broken");
        file(&cache.join("toolkits/13.4.3-a").join(MANIFEST), "broken");
        let root = Root::below(top.path());
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let found = |listed: &str| {
            let env = Env::from_pairs([(LOCK_VARIABLE, &lock), ("CUDA_BUILD_CACHE_DIR", &cache)]);
            let env = env.with("CUDA_BUILD_SOURCES", listed);
            super::super::candidates(&root, &env, &target, &[])
        };
        assert!(found("lock").is_err());
        assert_eq!(found("stored").unwrap().remarks.len(), 1);
        assert!(found("system").unwrap().remarks.is_empty());
    }

    #[test]
    fn broken_lock_files_are_refused() {
        for (text, reason) in [
            ("<<<<<<< HEAD\n", "invalid"),
            ("", "`format_version` is missing or not a number"),
            ("format_version = 2\n", "format_version 2 is not supported"),
            (
                "format_version = 2\nreadable_since = \"0.7\"\n",
                "reads up to 1, and 0.7 and newer read this format",
            ),
            (
                "format_version = 2\nreadable_since = \"\\u001b[31m\"\n",
                "reads up to 1",
            ),
        ] {
            let error = parse_lock(text).unwrap_err();
            assert!(reason == "invalid" || error.contains(reason), "{error}");
        }
        for (toolkit, reason) in [
            ("", "`version` is missing or not a string"),
            (r#"version = "new""#, "is not a CUDA release"),
            (r#"version = "13.4\u001b[31m""#, "is not a CUDA release"),
            (r#"version = "13.4.3""#, "`packages` is missing or not"),
        ] {
            let lock = format!("format_version = 1\n[[toolkit]]\n{toolkit}\n");
            let error = parse_lock(&lock).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}

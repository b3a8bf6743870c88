//! NVIDIA's redistributable archives: an index `redistrib_<version>.json`, and one `.tar.xz` for each component.
//!
//! The archives are read from a directory, or fetched with `curl`, to which the user's proxy and certificates apply.
//! They are unpacked into one root, [`sources::ARCHIVES`] of the toolkit, and each gets a `RECORD` with its files, like a
//! Python package, so that the store checks and shares files in one way. An archive is unpacked after its hash has been
//! checked: nothing is written outside the root, and no symbolic link leads out of it.
#![allow(
    clippy::disallowed_methods,
    reason = "archives are unpacked only in this module"
)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component as Part, Path, PathBuf};

use cuda_build::Version;
use cuda_find::detail::sources;
use cuda_find::detail::{command::Invocation, env::Env, root::Root};
use lzma_rust2::XzReader;
use serde_json::Value;
use sha2::Digest as _;
use tar::{Archive, Entry, EntryType};

use super::directory::{StagingDirectory, failed};
use super::installer::run_visibly;
use super::package::{
    FetchFrom, PackageSet, PinnedPackage, ReleaseToFetch, Sha256, hash_mismatch, normal_name,
};
use super::resolve::SetSpec;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::process;

/// The variable that names the directory or URL of the archives.
pub const VARIABLE: &str = "CUDA_BUILD_REDIST";

/// Where NVIDIA publishes the archives.
const NVIDIA: &str = "https://developer.download.nvidia.com/compute/cuda/redist";

/// Ends a connection that is not made, or that transfers nothing, after a minute.
const CURL_LIMITS: [&str; 6] = [
    "--connect-timeout",
    "60",
    "--speed-limit",
    "1",
    "--speed-time",
    "60",
];

/// The archives of a platform as NVIDIA calls it.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "linux-sbsa",
        _ => "linux-x86_64",
    }
}

/// A directory or a server with archives.
#[derive(Debug)]
pub(super) struct Mirror<'a> {
    place: Place,
    env: &'a Env,
    /// The lock of the store, which curl inherits, so that no other process writes the same file.
    lock: &'a File,
}

#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    /// Without a slash at its end.
    Url(String),
}

/// An archive of an index, with its path relative to the index.
type Indexed = (PinnedPackage, String);

impl<'a> Mirror<'a> {
    pub fn new(env: &'a Env, lock: &'a File) -> Result<Self, Failure> {
        let named = env.peek(VARIABLE).filter(|value| !value.is_empty());
        let named = named.unwrap_or(OsStr::new(NVIDIA));
        let url = named.to_str().and_then(|text| text.split_once("://"));
        let directory = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
            match Root::system().exists(&path) {
                true => Ok(Place::Directory(path)),
                false => Err(lacking(format!("{} does not exist", path.display()))),
            }
        };
        let place = match url {
            Some(("http" | "https", _)) => {
                Place::Url(named.to_string_lossy().trim_end_matches('/').to_owned())
            }
            Some(("file", path)) => directory(Path::new(path))?,
            None => directory(Path::new(named))?,
            Some((scheme, _)) => {
                let text = format!("`{VARIABLE}` has the scheme `{}`", printable(scheme));
                return Err(Failure::new(exit_code::USAGE, text)
                    .hint("use a directory, or a URL with `file`, `http` or `https`"));
            }
        };
        Ok(Self { place, env, lock })
    }

    fn shown(&self) -> String {
        match &self.place {
            Place::Directory(path) => path.display().to_string(),
            Place::Url(url) => without_user(url),
        }
    }

    /// The exact archives for a release and components, and for those that an earlier set has.
    pub fn resolve(&self, spec: &SetSpec, part: &StagingDirectory) -> Result<PackageSet, Failure> {
        let major = spec.release.major();
        let version = match &spec.base {
            Some(base) => base.version.clone(),
            None => self.newest(&spec.release, part)?,
        };
        let archives = self.archives(&version, part)?;
        let mut packages = BTreeSet::new();
        for &component in &spec.components {
            let contains = |(it, _): &&Indexed| it.contains(FetchFrom::Redist, component, major);
            let Some((package, _)) = archives.iter().find(contains) else {
                let (place, platform) = (self.shown(), platform());
                return Err(lacking(format!(
                    "redistrib_{version}.json of {place} has no `{component}` for {platform}"
                )));
            };
            packages.insert(package.clone());
        }
        let set = PackageSet {
            version,
            from: FetchFrom::Redist,
            packages: packages.into_iter().collect(),
        };
        if let Some(base) = &spec.base {
            base.check_files(&set, "the mirror has")?;
        }
        set.check()
            .map_err(|reason| lacking(format!("{}: {reason}", self.shown())))?;
        Ok(set)
    }

    /// The newest version of a release that the mirror has an index of.
    fn newest(&self, release: &ReleaseToFetch, part: &StagingDirectory) -> Result<String, Failure> {
        let listing = match &self.place {
            Place::Directory(path) => {
                let names = Root::system().names(path).into_iter();
                names.map(|name| format!("{}\n", name.display())).collect()
            }
            Place::Url(_) if !release.is_exact() => self.text("", part)?,
            Place::Url(_) => return Ok(release.to_string()),
        };
        let versions = listing.split("redistrib_").skip(1);
        let versions = versions.filter_map(|rest| rest.split_once(".json")?.0.parse().ok());
        let newest: Option<Version> = versions.filter(|version| release.admits(version)).max();
        newest
            .map(|version| version.to_string())
            .ok_or_else(|| lacking(format!("{} has no redistrib_{release}*.json", self.shown())))
    }

    /// The archives for this platform in the index of a version.
    fn archives(&self, version: &str, part: &StagingDirectory) -> Result<Vec<Indexed>, Failure> {
        let name = format!("redistrib_{version}.json");
        let index: Value = serde_json::from_str(&self.text(&name, part)?)
            .map_err(|error| lacking(format!("{name} of {}: {error}", self.shown())))?;
        let entries = index.as_object().into_iter().flatten();
        let archives = entries.filter_map(|(name, entry)| archive(name, entry));
        Ok(archives.collect())
    }

    fn text(&self, below: &str, part: &StagingDirectory) -> Result<String, Failure> {
        let file = self.file(below, part)?;
        Root::system()
            .text(&file)
            .map_err(Failure::io("read", &file))
    }

    /// A file of the mirror. One from a server is in the staging directory, until the next one replaces it.
    fn file(&self, below: &str, part: &StagingDirectory) -> Result<PathBuf, Failure> {
        match &self.place {
            Place::Directory(directory) if !Root::system().exists(&directory.join(below)) => {
                Err(lacking(format!("{} has no {below}", self.shown())))
            }
            Place::Directory(directory) => Ok(directory.join(below)),
            Place::Url(url) => {
                let file = part.path("download");
                self.curl(&format!("{url}/{below}"), &file)?;
                Ok(file)
            }
        }
    }

    /// Fetches a URL into a file.
    fn curl(&self, url: &str, file: &Path) -> Result<(), Failure> {
        let shown = without_user(url);
        let Some(program) = process::on_path(self.env, "curl") else {
            let text = format!("cannot fetch {shown}: `curl` is not on `PATH`");
            return Err(Failure::new(exit_code::NO_INSTALLER, text).hint(format!(
                "install curl, or set `{VARIABLE}` to a directory with the files"
            )));
        };
        let redirections = match url.starts_with("https:") {
            true => "=https",
            false => "=http,https",
        };
        let call = |url: &str| {
            Invocation::new(&program)
                .args(["--fail", "--silent", "--show-error", "--location"])
                .args(["--proto", "=http,https", "--proto-redir", redirections])
                .args(["--globoff", "--retry", "3"])
                .args(CURL_LIMITS)
                .args(["--output".as_ref(), file.as_os_str()])
                .args([url])
        };
        process::print_call(&call(&shown));
        let status = run_visibly(&call(url), self.env, self.lock)?;
        if status.success() {
            return Ok(());
        }
        let text = format!("could not fetch {shown}: curl ended with {status}");
        Err(Failure::new(exit_code::INSTALLER, text).hint("correct what curl reports above"))
    }

    /// Unpacks the archives of packages into a staging directory, after their hashes have been checked.
    pub fn install(
        &self,
        packages: &[&PinnedPackage],
        set: &PackageSet,
        part: &StagingDirectory,
    ) -> Result<(), Failure> {
        let archives = self.archives(&set.version, part)?;
        for &package in packages {
            let (name, version) = (&package.name, &package.version);
            let Some((_, path)) = archives.iter().find(|(it, _)| it.is(package)) else {
                return Err(lacking(format!("{} has no {name} {version}", self.shown())));
            };
            output::status("Fetching", &format!("{name} {version}"));
            self.install_one(path, package, part)?;
        }
        Ok(())
    }

    fn install_one(
        &self,
        path: &str,
        package: &PinnedPackage,
        part: &StagingDirectory,
    ) -> Result<(), Failure> {
        let (name, version, hashes) = (&package.name, &package.version, &package.hashes);
        let file = self.file(path, part)?;
        let found = sha256(&file).map_err(Failure::io("read", &file))?;
        if !hashes.contains(&found) {
            let place = self.shown();
            let text = format!("{name} {version}: pinned {hashes:?}, {place} has {found:?}");
            return Err(hash_mismatch(&text));
        }
        let root = part.site().join(sources::ARCHIVES);
        let files = unpack(&file, name, &root).map_err(|error| match error.raw_os_error() {
            Some(_) => failed("unpack into", &root)(error),
            // Only errors of the system have a number; the others are about the archive.
            None => {
                let reason = printable(&error.to_string());
                let text = format!("the archive of {name} {version} cannot be used: {reason}");
                Failure::new(exit_code::INSTALLER, text).hint(format!(
                    "check where the archive comes from: `{VARIABLE}` names the place"
                ))
            }
        })?;
        part.record(package, &files)
    }
}

/// An entry of an index: `"cuda_nvcc": {"version": "12.4.131", "linux-x86_64": {"relative_path": …, "sha256": …}}`.
/// `None` if it has no archive for this platform, or a path that leads elsewhere.
fn archive(name: &str, entry: &Value) -> Option<Indexed> {
    let file = entry.get(platform())?;
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let path = text(file, "relative_path")?;
    let is_plain = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains([':', '?', '#', '\\'])
    };
    let package = PinnedPackage {
        name: normal_name(name),
        version: text(entry, "version")?,
        hashes: vec![Sha256::from_hex(&text(file, "sha256")?)?],
    };
    path.split('/').all(is_plain).then_some((package, path))
}

/// A URL without user name and password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

fn lacking(message: String) -> Failure {
    Failure::new(exit_code::NOT_RELEASED, message).hint(format!(
        "`{VARIABLE}` names the directory or URL that has `redistrib_<version>.json`, by default {NVIDIA}"
    ))
}

/// The SHA-256 of a file.
fn sha256(path: &Path) -> io::Result<Sha256> {
    let (mut file, mut digest) = (File::open(path)?, sha2::Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Sha256(digest.finalize().into())),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Paths with sizes. A symbolic link has no size.
type Files = Vec<(PathBuf, Option<u64>)>;

/// Unpacks the archive of the package `name` into `root`, without the directory that contains everything in the archive.
/// Returns the paths of the files below `root` with their sizes. A file that another archive has unpacked before is
/// kept.
fn unpack(archive: &Path, name: &str, root: &Path) -> io::Result<Files> {
    let stream = XzReader::new(io::BufReader::new(File::open(archive)?), true);
    let mut archive = Archive::new(stream);
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let in_entry = |error: io::Error| match error.raw_os_error() {
            Some(_) => error,
            None => io::Error::other(format!("`{}`: {error}", path.display())),
        };
        let Some(below) = below_top(&path).map_err(in_entry)? else {
            continue;
        };
        // Every archive has a licence at its top.
        let below = match below.to_str() {
            Some("LICENSE") => PathBuf::from(format!("LICENSE-{name}")),
            _ => below,
        };
        if let Some(size) = write_entry(&mut entry, root, &below).map_err(in_entry)? {
            files.push((below, size));
        }
    }
    Ok(files)
}

/// The path below the archive's top directory; `None` for that directory itself.
fn below_top(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Part::Normal(name) => names.push(name),
            Part::CurDir => {}
            _ => return Err(io::Error::other("the path leads out of the archive")),
        }
    }
    let below: PathBuf = names.iter().skip(1).collect();
    Ok((names.len() > 1).then_some(below))
}

/// Writes one entry. Returns the size of a file, `Some(None)` for a link, and `None` for a directory or if there is
/// something else in its place.
fn write_entry(
    entry: &mut Entry<'_, impl Read>,
    root: &Path,
    below: &Path,
) -> io::Result<Option<Option<u64>>> {
    let target = root.join(below);
    // No entry is written through a link of an earlier entry.
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let above = below
        .ancestors()
        .skip(1)
        .filter(|path| !path.as_os_str().is_empty());
    if above.map(|path| root.join(path)).any(|path| is_link(&path)) {
        return Err(io::Error::other(
            "a directory of the path is a symbolic link",
        ));
    }
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory {
        fs::create_dir_all(&target)?;
        return Ok(None);
    }
    fs::create_dir_all(target.parent().unwrap_or(root))?;
    let existing = fs::symlink_metadata(&target).ok();
    match kind {
        EntryType::Regular => {
            if let Some(existing) = existing {
                let same = existing.is_file() && existing.len() == entry.size();
                return Ok(same.then_some(Some(existing.len())));
            }
            entry.unpack(&target)?;
            Ok(Some(Some(entry.size())))
        }
        EntryType::Symlink => {
            let link = entry.link_name()?.unwrap_or_default();
            if !stays_inside(below, &link) {
                let text = format!("it links to `{}`, outside the archive", link.display());
                return Err(io::Error::other(text));
            }
            if existing.is_some() {
                let same = fs::read_link(&target).is_ok_and(|existing| existing == *link);
                return Ok(same.then_some(None));
            }
            std::os::unix::fs::symlink(&link, &target)?;
            Ok(Some(None))
        }
        _ => Err(io::Error::other(
            "it is neither a file, a directory nor a symbolic link",
        )),
    }
}

/// Whether a link at `below` with this target leads to a path below the root. `..` is accepted only at the start of the
/// target: after the name of another link, it would mean the parent of that link's target.
fn stays_inside(below: &Path, link: &Path) -> bool {
    let depth = below.components().count().saturating_sub(1);
    let mut parts = link
        .components()
        .filter(|part| *part != Part::CurDir)
        .peekable();
    let mut parents = 0;
    while parts.next_if_eq(&Part::ParentDir).is_some() {
        parents += 1;
    }
    !link.as_os_str().is_empty()
        && parents <= depth
        && parts.all(|part| matches!(part, Part::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_an_index_is_read() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let entry = |path: &str, hash: &str| {
            let file = serde_json::json!({"relative_path": path, "sha256": hash, "size": "12"});
            archive(
                "cuda_nvcc",
                &serde_json::json!({"version": "12.4.131", platform(): file}),
            )
        };
        let (found, _) = entry("cuda_nvcc/linux-x86_64/a.tar.xz", hash).unwrap();
        assert_eq!(found.name, "cuda-nvcc");
        for path in ["../a", "/etc/a", "a/../b", "http://a", "a?b", ""] {
            assert!(entry(path, hash).is_none(), "{path}");
        }
        assert!(entry("a", "e3").is_none());
        let windows = serde_json::json!({"version": "1", "windows-x86_64": {}});
        assert!(archive("a", &windows).is_none());
    }

    #[test]
    fn users_are_not_shown() {
        for (url, shown) in [
            ("https://a:b@c/d", "https://c/d"),
            ("https://a:b@c", "https://c"),
            ("http://c:1/d@e?f", "http://c:1/d@e?f"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }

    #[test]
    fn links_stay_inside() {
        let inside = |below: &str, link: &str| stays_inside(Path::new(below), Path::new(link));
        assert!(inside("lib/a.so", "a.so.1") && inside("lib/stubs/a.so", "../a.so"));
        for (below, link) in [
            ("a", "../b"),
            ("lib/a", "../../b"),
            ("lib/a", "/etc"),
            ("lib/a", ""),
            // On the way, the path is outside.
            ("lib/a", "../../cuda/lib/b"),
            // `a/b/c/l` may be a link to `../../..`.
            ("m", "a/b/c/l/../../x"),
            ("lib/m", "./../../x"),
        ] {
            assert!(!inside(below, link), "{below} -> {link}");
        }
    }
}

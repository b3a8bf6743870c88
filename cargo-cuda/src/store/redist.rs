//! NVIDIA's redistributable archives: an index `redistrib_<version>.json`, and one `.tar.xz` for each component.
//!
//! The archives are read from a directory, or fetched with `curl`, to which the user's proxy and certificates apply.
//! Their files get one root, [`cuda_find_core::sources::ARCHIVES`] of the toolkit, and each archive gets a `RECORD`
//! with its files, like a Python package, so that the store checks and shares files in one way. An archive is unpacked
//! after its hash has been checked.
#![allow(clippy::disallowed_methods, reason = "archives are unpacked here")]

use std::collections::BTreeSet;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cuda_build::Version;
use cuda_find_core::{command::Invocation, env::Env, root::Root, target::Target};
use lzma_rust2::XzReader;
use serde_json::Value;
use tar::Archive;

use super::directory::StagingDirectory;
use super::installer::run_visibly;
use super::package::{FetchFrom, PackageSet, PinnedPackage, ReleaseToFetch, Sha256, hash_mismatch};
use super::resolve::SetSpec;
use crate::failure::{Failure, Result};
use crate::output::{self, printable};
use crate::package::metadata::Hasher;
use crate::process;

/// The variable that names the directory or URL of the archives.
pub const VARIABLE: &str = "CUDA_BUILD_REDIST";

/// Where NVIDIA publishes the archives.
const NVIDIA: &str = "https://developer.download.nvidia.com/compute/cuda/redist";

/// Ends a connection that is not made, or that transfers nothing, after a minute.
const CURL_LIMITS: &str = "--connect-timeout 60 --speed-limit 1 --speed-time 60";

/// A directory or a server with archives.
#[derive(Debug)]
pub(super) struct Mirror<'a> {
    place: MirrorPlace,
    env: &'a Env,
    /// The lock of the store, which curl inherits, so that no other process writes the same file.
    lock: &'a File,
    /// The platform as the index calls it: `linux-sbsa`.
    platform: String,
}

#[derive(Debug)]
enum MirrorPlace {
    Directory(PathBuf),
    /// Without a slash at its end.
    Url(String),
}

/// An archive of an index, with its path relative to the index.
type Indexed = (PinnedPackage, String);

/// The path in a URL such as `file:///a%20b`, of which this is the part after `://`.
fn path_of_file_url(rest: &str) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        let text = format!(
            "`{VARIABLE}` names a file on another machine: {}",
            printable(rest)
        );
        let hint = "write three slashes before a path on this machine, as in `file:///mirror`";
        return Err(Failure::configuration(text).hint(hint));
    }
    let bytes = percent_encoding::percent_decode_str(path).collect();
    Ok(OsString::from_vec(bytes).into())
}

impl<'a> Mirror<'a> {
    pub fn new(env: &'a Env, lock: &'a File, target: &Target) -> Result<Self> {
        let named = env.peek(VARIABLE).filter(|value| !value.is_empty());
        let named = named.unwrap_or(OsStr::new(NVIDIA));
        let url = named.to_str().and_then(|text| text.split_once("://"));
        let directory = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
            match Root::system().exists(&path) {
                true => Ok(MirrorPlace::Directory(path)),
                false => Err(lacking(format!("{} does not exist", path.display()))),
            }
        };
        let place = match url {
            Some(("http" | "https", _)) => {
                MirrorPlace::Url(named.to_string_lossy().trim_end_matches('/').to_owned())
            }
            Some(("file", path)) => directory(&path_of_file_url(path)?)?,
            None => directory(Path::new(named))?,
            Some((scheme, _)) => {
                let text = format!("`{VARIABLE}` has the scheme `{}`", printable(scheme));
                let hint = "use a directory, or a URL with `file`, `http` or `https`";
                return Err(Failure::configuration(text).hint(hint));
            }
        };
        let (machine, system) = target.directory().split_once('-').unwrap_or_default();
        Ok(Self {
            place,
            env,
            lock,
            platform: format!("{system}-{machine}"),
        })
    }

    fn shown(&self) -> String {
        match &self.place {
            MirrorPlace::Directory(path) => path.display().to_string(),
            MirrorPlace::Url(url) => without_user(url),
        }
    }

    /// The exact archives for a release and components, and for those that an earlier set has.
    pub fn resolve(&self, spec: &SetSpec<'_>, part: &StagingDirectory) -> Result<PackageSet> {
        let major = spec.request.release.major();
        let version = match &spec.base {
            Some(base) => base.version.clone(),
            None => self.newest(&spec.request.release, part)?,
        };
        let archives = self.archives(&version, part)?;
        let mut packages = BTreeSet::new();
        for &component in &spec.components {
            let contains =
                |(it, _): &&Indexed| FetchFrom::Redist.contains(&it.name, component, major);
            let Some((package, _)) = archives.iter().find(contains) else {
                let (place, platform) = (self.shown(), &self.platform);
                return Err(lacking(format!(
                    "redistrib_{version}.json of {place} has no `.tar.xz` with `{component}` for {platform}"
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
    fn newest(&self, release: &ReleaseToFetch, part: &StagingDirectory) -> Result<String> {
        let listing = match &self.place {
            MirrorPlace::Directory(path) => {
                let names = Root::system().names(path).into_iter();
                names.map(|name| format!("{}\n", name.display())).collect()
            }
            MirrorPlace::Url(_) if !release.is_exact() => self.text("", part)?,
            MirrorPlace::Url(_) => return Ok(release.to_string()),
        };
        let versions = listing.split("redistrib_").skip(1);
        let versions = versions.filter_map(|rest| rest.split_once(".json")?.0.parse().ok());
        let newest: Option<Version> = versions.filter(|version| release.admits(version)).max();
        newest
            .map(|version| version.to_string())
            .ok_or_else(|| lacking(format!("{} has no redistrib_{release}*.json", self.shown())))
    }

    /// The archives for the platform in the index of a version.
    fn archives(&self, version: &str, part: &StagingDirectory) -> Result<Vec<Indexed>> {
        let name = format!("redistrib_{version}.json");
        let index: Value = serde_json::from_str(&self.text(&name, part)?)
            .map_err(|error| lacking(format!("{name} of {}: {error}", self.shown())))?;
        let entries = index.as_object().into_iter().flatten();
        let archives = entries.filter_map(|(name, entry)| archive(name, entry, &self.platform));
        Ok(archives.collect())
    }

    fn text(&self, below: &str, part: &StagingDirectory) -> Result<String> {
        let file = self.file(below, part)?;
        let text = Root::system().text(&file);
        text.map_err(Failure::io("read", &file))
    }

    /// A file of the mirror. One from a server is in the staging directory, until the next one replaces it.
    fn file(&self, below: &str, part: &StagingDirectory) -> Result<PathBuf> {
        match &self.place {
            MirrorPlace::Directory(directory) if !Root::system().exists(&directory.join(below)) => {
                Err(lacking(format!("{} has no {below}", self.shown())))
            }
            MirrorPlace::Directory(directory) => Ok(directory.join(below)),
            MirrorPlace::Url(url) => {
                let file = part.path("download");
                self.curl(&format!("{url}/{below}"), &file)?;
                Ok(file)
            }
        }
    }

    /// Fetches a URL into a file.
    fn curl(&self, url: &str, file: &Path) -> Result<()> {
        let shown = without_user(url);
        let Some(program) = process::on_path(self.env, "curl") else {
            let text = format!("cannot fetch {shown}: `curl` is not on `PATH`");
            let hint = format!("install curl, or set `{VARIABLE}` to a directory with the files");
            return Err(Failure::no_installer(text).hint(hint));
        };
        let is_secure = url.starts_with("https:");
        let redirections = if is_secure { "=https" } else { "=http,https" };
        let call = |url: &str| {
            Invocation::new(&program)
                .args(["--fail", "--silent", "--show-error", "--location"])
                .args(["--proto", "=http,https", "--proto-redir", redirections])
                .args(["--globoff", "--retry", "3"])
                .args(CURL_LIMITS.split(' '))
                .args(["--output".as_ref(), file.as_os_str()])
                .args([url])
        };
        process::print_call(&call(&shown));
        let status = run_visibly(&call(url), self.env, self.lock)?;
        if status.success() {
            return Ok(());
        }
        let text = format!("could not fetch {shown}: curl ended with {status}");
        Err(Failure::installer(text).hint("correct what curl reports above"))
    }

    /// Unpacks the archives of a set into a staging directory, after their hashes have been checked.
    pub fn install(&self, set: &PackageSet, part: &StagingDirectory) -> Result<()> {
        let archives = self.archives(&set.version, part)?;
        for package in &set.packages {
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
    ) -> Result<()> {
        let (name, version) = (&package.name, &package.version);
        let file = self.file(path, part)?;
        let found = sha256(&file).map_err(Failure::io("read", &file))?;
        if !package.hashes.contains(&found) {
            let origin = format!("{} has", self.shown());
            return Err(hash_mismatch(package, &origin, &[found]));
        }
        let directory = part.path(&format!("unpacked-{name}"));
        let top = unpack(&file, &directory).map_err(|error| {
            // The cause, such as a full disk, is not in the text of an error of `tar`.
            let cause = error.source().map(|cause| format!(": {cause}"));
            let reason = printable(&format!("{error}{}", cause.unwrap_or_default()));
            let text = format!("could not unpack the archive of {name} {version}: {reason}");
            Failure::installer(text).hint(format!(
                "check the free space, and where the archive comes from: `{VARIABLE}` names the place"
            ))
        })?;
        part.add_archive(package, &top)
    }
}

/// An entry of an index: `"cuda_nvcc": {"version": "12.4.131", "linux-x86_64": {"relative_path": …, "sha256": …}}`.
/// `None` if it has no archive for the platform.
fn archive(name: &str, entry: &Value, platform: &str) -> Option<Indexed> {
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let path = text(entry.get(platform)?, "relative_path")?;
    let path = Some(path).filter(|path| path.ends_with(".tar.xz"))?;
    // One set is fetched for several platforms, as with uv.
    let files = entry.as_object()?.iter();
    let files = files.filter(|(key, _)| key.starts_with("linux-"));
    let hashes = files.map(|(_, file)| Sha256::from_hex(&text(file, "sha256")?));
    let mut hashes: Vec<Sha256> = hashes.collect::<Option<_>>()?;
    hashes.sort();
    let version = text(entry, "version")?;
    Some((PinnedPackage::new(name, &version, hashes), path))
}

/// A URL without user name and password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

fn lacking(message: String) -> Failure {
    Failure::not_released(message).hint(format!(
        "`{VARIABLE}` names the directory or URL that has `redistrib_<version>.json`, by default {NVIDIA}"
    ))
}

/// The SHA-256 of a file.
fn sha256(path: &Path) -> io::Result<Sha256> {
    let mut hasher = Hasher::default();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(Sha256(hasher.finish().sha256))
}

/// Unpacks an archive into a directory, and returns the one directory at the top of the archive. Nothing is written
/// outside of `directory`: [`Archive::unpack`] follows neither `..` nor a link that leads there.
fn unpack(archive: &Path, directory: &Path) -> io::Result<PathBuf> {
    let stream = XzReader::new(io::BufReader::new(File::open(archive)?), true);
    Archive::new(stream).unpack(directory)?;
    match Root::system().names(directory).as_slice() {
        [top] => Ok(directory.join(top)),
        _ => Err(io::Error::other(
            "it does not have one directory at its top",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_url_names_a_path_of_this_machine() {
        let path = |url: &str| path_of_file_url(url.strip_prefix("file://").unwrap());
        assert_eq!(
            path("file:///a%20b/%C3%A9%25").unwrap(),
            Path::new("/a b/é%")
        );
        assert_eq!(
            path("file://localhost/mirror").unwrap(),
            Path::new("/mirror")
        );
        let error = path("file://server/share").unwrap_err().to_string();
        assert!(error.contains("three slashes"), "{error}");
    }

    #[test]
    fn an_entry_of_an_index_is_read() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let entry = |path: &str, hash: &str| {
            let file = serde_json::json!({"relative_path": path, "sha256": hash, "size": "12"});
            archive(
                "cuda_nvcc",
                &serde_json::json!({"version": "12.4.131", "linux-x86_64": file, "linux-sbsa": file}),
                "linux-sbsa",
            )
        };
        let (found, _) = entry("cuda_nvcc/linux-x86_64/a.tar.xz", hash).unwrap();
        assert_eq!((found.name.as_str(), found.hashes.len()), ("cuda-nvcc", 2));
        assert!(entry("a.tar.xz", "e3").is_none());
        let windows = serde_json::json!({"version": "1", "windows-x86_64": {}});
        assert!(archive("a", &windows, "linux-sbsa").is_none());
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
}

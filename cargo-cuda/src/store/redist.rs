//! NVIDIA's redistributable archives: an index `redistrib_<version>.json`, and one `.tar.xz` for each component.
//!
//! The archives are read from a directory, or fetched with `curl`, to which the user's proxy and certificates apply. An
//! interrupted download is resumed. Archives are unpacked into one root, [`store::ARCHIVES`] of the toolkit, and each
//! gets a `RECORD` with its files, like a Python package, so that the store checks and shares files in one way.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, Root, release, store};
use cuda_build::{Component, Version};
use serde_json::Value;

use super::ReleaseToFetch;
use super::directory::{StagingDirectory, Store, failed, file_size, remove_file, write};
use super::package::{Package, PackageSet, Sha256, Source, normal_name};
use super::progress::Progress;
use super::refusal::hash_mismatch;
use super::resolve::SetSpec;
use super::settings::search_path;
use super::unpack::{Problem, sha256, unpack};
use super::{Context, human_size};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;
use crate::{process, signals};

/// The variable that names the directory or URL of the archives.
pub const VARIABLE: &str = "CUDA_BUILD_REDIST";

/// Where NVIDIA publishes the archives.
const NVIDIA: &str = "https://developer.download.nvidia.com/compute/cuda/redist";

/// The exit code of curl if it cannot write the file.
const NOT_WRITTEN: u8 = 23;

/// The exit code of curl if the server does not resume downloads.
const NOT_RESUMED: u8 = 33;

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

/// One archive of an index.
#[derive(Debug)]
struct Archive {
    package: Package,
    /// Its path, relative to the index.
    path: String,
    size: Option<u64>,
}

impl<'a> Mirror<'a> {
    pub fn new(context: &'a Context, lock: &'a File) -> Result<Self, Failure> {
        let named = context.env.peek(VARIABLE).filter(|value| !value.is_empty());
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
            Some(("file", path)) => directory(Path::new(&without_escapes(path)))?,
            None => directory(Path::new(named))?,
            Some((scheme, _)) => {
                let text = format!("`{VARIABLE}` has the scheme `{}`", printable(scheme));
                return Err(Failure::new(exit_code::USAGE, text)
                    .hint("use a directory, or a URL with `file`, `http` or `https`"));
            }
        };
        Ok(Self {
            place,
            env: &context.env,
            lock,
        })
    }

    fn shown(&self) -> String {
        match &self.place {
            Place::Directory(path) => path.display().to_string(),
            Place::Url(url) => without_user(url),
        }
    }

    /// The exact archives for a release and components, and for those that an earlier set has.
    pub fn resolve(&self, spec: &SetSpec, store: &Store) -> Result<PackageSet, Failure> {
        let major = spec.release.major();
        let version = match &spec.base {
            Some(base) => base.version.clone(),
            None => self.newest(&spec.release, store)?,
        };
        let archives = self.archives(&version, store)?;
        let mut packages = BTreeSet::new();
        for &component in &spec.components {
            let has = |archive: &&Archive| archive.package.contains(component, major);
            match archives.iter().find(has) {
                Some(archive) => _ = packages.insert(archive.package.clone()),
                None => {
                    return Err(lacking(format!(
                        "redistrib_{version}.json of {} has no `{component}` for {}",
                        self.shown(),
                        platform()
                    )));
                }
            }
        }
        let set = PackageSet {
            version,
            source: Source::Redist,
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
    fn newest(&self, release: &ReleaseToFetch, store: &Store) -> Result<String, Failure> {
        let listing = match &self.place {
            Place::Directory(path) => {
                let names = Root::system().names(path).into_iter();
                names.map(|name| format!("{}\n", name.display())).collect()
            }
            Place::Url(url) if !release.is_exact() => self.text(&format!("{url}/"), store)?,
            Place::Url(_) => return Ok(release.to_string()),
        };
        let mut versions: Vec<Version> = listing
            .split("redistrib_")
            .skip(1)
            .filter_map(|rest| rest.split_once(".json")?.0.parse().ok())
            .filter(|version| release.admits(version))
            .collect();
        versions.sort();
        versions
            .pop()
            .map(|version| version.to_string())
            .ok_or_else(|| lacking(format!("{} has no redistrib_{release}*.json", self.shown())))
    }

    /// The archives for this platform in the index of a version.
    fn archives(&self, version: &str, store: &Store) -> Result<Vec<Archive>, Failure> {
        let name = format!("redistrib_{version}.json");
        let text = match &self.place {
            Place::Directory(path) => {
                let file = path.join(&name);
                if !Root::system().exists(&file) {
                    return Err(lacking(format!("{} has no {name}", self.shown())));
                }
                Root::system()
                    .text(&file)
                    .map_err(Failure::io("read", &file))?
            }
            Place::Url(url) => self.text(&format!("{url}/{name}"), store)?,
        };
        let wrong = |reason: String| lacking(format!("{name} of {}: {reason}", self.shown()));
        let index: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let entries = index.as_object().into_iter().flatten();
        let archives = entries
            .filter_map(|(name, entry)| archive(name, entry))
            .collect();
        Ok(archives)
    }

    /// A small file of a server.
    fn text(&self, url: &str, store: &Store) -> Result<String, Failure> {
        let file = store.archives_dir()?.join("index");
        remove_file(&file);
        self.curl(url, &file)?;
        Root::system()
            .text(&file)
            .map_err(Failure::io("read", &file))
    }

    /// Fetches a URL into a file, and continues a file that an earlier call has begun.
    fn curl(&self, url: &str, file: &Path) -> Result<(), Failure> {
        let shown = without_user(url);
        let path = search_path(self.env);
        let mut found = which::which_in_global("curl", Some(&path))
            .into_iter()
            .flatten();
        let Some(program) = found.next() else {
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
                .args(["--globoff", "--retry", "3", "--continue-at", "-"])
                .args(CURL_LIMITS)
                .args(["--output".as_ref(), file.as_os_str()])
                .args([url])
        };
        process::report(&call(&shown));
        let fetch = || {
            let lock = self.lock.try_clone().map_err(failed("lock", file))?;
            process::run_with_input(&call(url), self.env, lock)
        };
        let mut code = fetch()?;
        if code == NOT_RESUMED {
            remove_file(file);
            code = fetch()?;
        }
        if let Some(signal) = signals::received() {
            let text = format!("interrupted by signal {signal}");
            return Err(Failure::new(exit_code::FAILURE, text)
                .hint("run the same command again: it continues the download"));
        }
        if code == NOT_WRITTEN {
            // curl does not report why, so the reason is found by writing another file.
            let probe = file.with_extension("probe");
            let written = write(&probe, &" ".repeat(1 << 16));
            remove_file(&probe);
            written?;
        }
        match code {
            0 => Ok(()),
            NOT_WRITTEN => Err(Failure::new(
                exit_code::DISK,
                format!("curl could not write {}", file.display()),
            )
            .hint("free some space on its disk, and check who may write there")),
            _ => Err(Failure::new(
                exit_code::INDEX,
                format!("could not fetch {shown}: curl ended with code {code}"),
            )
            .hint("check the URL and the network; the same command continues the download")),
        }
    }

    /// Unpacks the archives of packages into a staging directory, after their hashes have been checked. Returns the
    /// bytes of the archives.
    pub fn install(
        &self,
        packages: &[&Package],
        set: &PackageSet,
        part: &StagingDirectory,
        store: &Store,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let archives = self.archives(&set.version, store)?;
        let mut bytes = 0;
        for package in packages {
            let same = |archive: &&Archive| archive.package.is(package);
            let Some(archive) = archives.iter().find(same) else {
                return Err(lacking(format!(
                    "{} has no {} {}",
                    self.shown(),
                    package.name,
                    package.version
                )));
            };
            bytes += self.install_one(archive, package, part, store, progress)?;
        }
        Ok(bytes)
    }

    fn install_one(
        &self,
        archive: &Archive,
        package: &Package,
        part: &StagingDirectory,
        store: &Store,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let Package {
            name,
            version,
            hashes,
        } = package;
        let size = archive.size.map(human_size).unwrap_or_default();
        progress.step("Fetching", &format!("{name} {version} ({size})"));
        let file = match &self.place {
            Place::Directory(directory) => directory.join(&archive.path),
            Place::Url(url) => {
                let file = store.archives_dir()?.join(hashes[0].hex());
                let there = file_size(&file);
                if there.is_none() || there != archive.size {
                    self.curl(&format!("{url}/{}", archive.path), &file)?;
                }
                file
            }
        };
        let found = sha256(&file).map_err(Failure::io("read", &file))?;
        if !hashes.contains(&found) {
            if matches!(self.place, Place::Url(_)) {
                remove_file(&file);
            }
            let text = format!(
                "{name} {version}: pinned {hashes:?}, {} has {found:?}",
                self.shown()
            );
            return Err(hash_mismatch(&text));
        }
        progress.step("Unpacking", &format!("{name} {version}"));
        let root = part.site().join(store::ARCHIVES);
        let files = unpack(&file, name, &root).map_err(|problem| match problem {
            Problem::Disk(error) => failed("write", &root)(error),
            Problem::Archive(reason) => {
                let reason = printable(&reason);
                let text = format!("the archive of {name} {version} cannot be used: {reason}");
                Failure::new(exit_code::INSTALLER, text).hint(format!(
                    "check where the archive comes from: `{VARIABLE}` names the place"
                ))
            }
        })?;
        part.record(name, version, &files)?;
        let bytes = file_size(&file).unwrap_or_default();
        if matches!(self.place, Place::Url(_)) {
            remove_file(&file);
        }
        Ok(bytes)
    }
}

/// An entry of an index: `"cuda_nvcc": {"version": "12.4.131", "linux-x86_64": {"relative_path": …, "sha256": …}}`.
/// `None` if it has no archive for this platform, or a path that leads elsewhere.
fn archive(name: &str, entry: &Value) -> Option<Archive> {
    let file = entry.get(platform())?;
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let path = text(file, "relative_path")?;
    let is_plain = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains([':', '?', '#', '\\'])
    };
    let size = file.get("size");
    Some(Archive {
        package: Package {
            name: normal_name(name),
            version: text(entry, "version")?,
            hashes: vec![Sha256::from_hex(&text(file, "sha256")?)?],
        },
        size: size.and_then(|size| size.as_u64().or_else(|| size.as_str()?.parse().ok())),
        path: Some(path).filter(|path| path.split('/').all(is_plain))?,
    })
}

/// Whether the archive called `name` in its normal form contains a component.
pub(super) fn contains(name: &str, component: Component, major: u32) -> bool {
    let holder = match component {
        Component::Nvvm | Component::Crt if major < release::COMPILER_HAS_THREE_ARCHIVES_SINCE => {
            Component::Nvcc
        }
        other => other,
    };
    Component::of_redist(&name.replace('-', "_")) == Some(holder)
}

/// A URL without user name and password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

/// The path in a `file` URL, in which `%20` is a space.
fn without_escapes(path: &str) -> OsString {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let is_escape = |digits: &&[u8]| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit);
        let escaped = after.get(..2).filter(is_escape);
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    OsString::from_vec(plain)
}

fn lacking(message: String) -> Failure {
    Failure::new(exit_code::NOT_RELEASED, message).hint(format!(
        "`{VARIABLE}` names the directory or URL that has `redistrib_<version>.json`, by default {NVIDIA}"
    ))
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
        let found = entry("cuda_nvcc/linux-x86_64/a.tar.xz", hash).unwrap();
        assert_eq!(
            (found.package.name.as_str(), found.size),
            ("cuda-nvcc", Some(12))
        );
        for path in ["../a", "/etc/a", "a/../b", "http://a", "a?b", ""] {
            assert!(entry(path, hash).is_none(), "{path}");
        }
        assert!(entry("a", "e3").is_none());
        assert!(
            archive(
                "a",
                &serde_json::json!({"version": "1", "windows-x86_64": {}})
            )
            .is_none()
        );
    }

    #[test]
    fn users_are_not_shown_and_paths_are_decoded() {
        for (url, shown) in [
            ("https://a:b@c/d", "https://c/d"),
            ("https://a:b@c", "https://c"),
            ("http://c:1/d@e?f", "http://c:1/d@e?f"),
        ] {
            assert_eq!(without_user(url), shown);
        }
        for (path, decoded) in [
            ("/a%20b/%c3%BC", "/a b/ü"),
            ("/100%", "/100%"),
            ("/%zz%+1%2", "/%zz%+1%2"),
        ] {
            assert_eq!(without_escapes(path), OsString::from(decoded));
        }
    }

    #[test]
    fn the_archive_of_the_compiler_depends_on_the_major() {
        assert!(
            contains("cuda-nvcc", Component::Nvvm, 12) && contains("libnvvm", Component::Nvvm, 13)
        );
        assert!(
            contains("cuda-cccl", Component::Cccl, 12)
                && !contains("cuda-nvcc", Component::Nvvm, 13)
        );
        assert!(!contains("cuda-demo-suite", Component::Nvcc, 12));
    }
}

//! The store on the disk. Each change takes effect as a whole or not at all.
//!
//! ```text
//! <cache>/toolkits/            <cache> is `cuda_find_core::cache::cache_dir`
//!   13.4.3-1f0c9a2e/           a toolkit: site-packages as installed, and
//!     toolkit.toml             its manifest, written before the directory gets this name
//!   .part-x7Qa2c/              a toolkit that is being written: site/, tmp/, requirements.txt
//!   .lock                      locked while a command changes the store; never deleted
//! <cache>/tools/               the same for programs
//! ```
//!
//! A toolkit is never changed: adding components creates a new directory. An installer inherits the
//! lock from the command that starts it. The system releases the lock when both have ended, even if
//! the installer outlives the command. If the lock is free, every `.part-*` directory is a leftover
//! of an interrupted command, and the next command that takes the lock removes it.
#![allow(clippy::disallowed_methods, reason = "the store writes only here")]

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cuda_find_core::sources;
use cuda_find_core::trust::{Distrust, Trust};
use cuda_find_core::{cache, env::Env, root::Root};
use tempfile::TempDir;

use super::lock::{Manifest, read};
use super::package::{PackageSet, PinnedPackage};
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::output;
use crate::package::metadata::normalized_name;

const PART: &str = ".part-";

/// The user's cache directory.
pub fn cache_dir(env: &Env) -> Result<PathBuf> {
    cache::required_cache_dir(env).map_err(|error| Failure {
        code: exit_code::NO_STORE,
        ..error.into()
    })
}

/// A directory of toolkits or of programs.
#[derive(Clone, Debug)]
pub(super) struct StoreDirectory {
    pub directory: PathBuf,
    trust: Trust,
}

impl StoreDirectory {
    /// The directory of this name in the cache, which need not exist.
    pub fn open(env: &Env, name: &str) -> Result<Self> {
        let cache = cache_dir(env)?;
        if !cache.is_absolute() {
            let text = format!("the cache directory {} is not absolute", cache.display());
            return Err(
                Failure::no_store(text).hint("set `CUDA_BUILD_CACHE_DIR` to an absolute path")
            );
        }
        let directory = cache.join(name);
        let trust = Trust::from_env(env);
        let store = Self { directory, trust };
        store.check_trust(&store.directory)?;
        Ok(store)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Fails if another user can change a directory of the store.
    pub fn check_trust(&self, directory: &Path) -> Result<()> {
        let problem = self.trust.problem(&Root::system(), directory);
        let Some(Distrust { reason, remedy }) = problem else {
            return Ok(());
        };
        let hint = format!("{remedy}; `CUDA_BUILD_CACHE_DIR` names another cache directory");
        Err(Failure::no_store(format!("the store is not safe to use: {reason}")).hint(hint))
    }

    /// The manifest of a toolkit; `None` if there is no toolkit of that name.
    pub fn manifest(&self, name: &str) -> Result<Option<Manifest>, String> {
        let path = self.path(name);
        if let Some(distrust) = self.trust.problem(&Root::system(), &path) {
            return Err(distrust.to_string());
        }
        let file = path.join(sources::MANIFEST);
        let failed = |reason: String| format!("{}: {reason}", file.display());
        let text = read(&file).map_err(|error| failed(error.to_string()))?;
        let manifest = text.map(|text| Manifest::parse(&text).map_err(failed));
        manifest.transpose()
    }

    /// The names of all toolkits, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = names(&self.directory);
        names.retain(|name| !name.starts_with('.') && self.path(name).is_dir());
        names.sort();
        names
    }

    /// The directories of all toolkits with a valid manifest.
    pub fn manifests(&self) -> Vec<(PathBuf, Manifest)> {
        let read = |name: String| Some((self.path(&name), self.manifest(&name).ok()??));
        self.names().into_iter().filter_map(read).collect()
    }

    /// Waits until no other command changes the store, locks it, and removes what interrupted commands have left. The
    /// lock is held as long as the returned file, or a copy of it in another process, is open.
    pub fn lock(&self) -> Result<File> {
        let file = output::lock(&self.directory).map_err(in_store)?;
        let leftovers = names(&self.directory).into_iter();
        for name in leftovers.filter(|name| name.starts_with(PART)) {
            // If it cannot be removed, the next command retries.
            let _ = fs::remove_dir_all(self.path(&name));
        }
        Ok(file)
    }

    /// An empty directory to write a toolkit in. The caller holds the lock.
    pub fn part(&self) -> Result<StagingDirectory> {
        let directory = TempDir::with_prefix_in(PART, &self.directory)
            .map_err(failed("create a directory in", &self.directory))?;
        let part = StagingDirectory { directory };
        output::create_directory(&part.site())?;
        output::create_directory(&part.path("tmp"))?;
        Ok(part)
    }

    /// Writes the manifest, and moves the prepared toolkit to its final path. The caller holds the lock.
    pub fn commit(&self, part: &StagingDirectory, name: &str, manifest: &Manifest) -> Result<()> {
        let path = part.site().join(sources::MANIFEST);
        let text = toml::to_string(manifest).map_err(io::Error::other);
        text.and_then(|text| fs::write(&path, text))
            .map_err(failed("write", &path))?;
        self.put(part, name)
    }

    /// Moves what was prepared in a staging directory to its final path. The caller holds the lock.
    pub fn put(&self, part: &StagingDirectory, name: &str) -> Result<()> {
        let path = self.path(name);
        if fs::symlink_metadata(&path).is_ok() {
            // The existing directory is damaged: no caller replaces an intact one.
            self.discard(name)?;
        }
        fs::rename(part.site(), &path).map_err(failed("rename into", &path))
    }

    /// Removes a toolkit. The rename takes effect at once for readers; the files are deleted when `part`
    /// is dropped. The caller holds the lock.
    pub fn discard(&self, name: &str) -> Result<()> {
        let part = self.part()?;
        let path = self.path(name);
        fs::rename(&path, part.path("removed")).map_err(failed("remove", &path))
    }
}

/// A `.part-*` directory, in which a toolkit is prepared. Files that are still in it are removed on
/// drop.
#[derive(Debug)]
pub(super) struct StagingDirectory {
    directory: TempDir,
}

impl StagingDirectory {
    /// The directory that becomes the toolkit.
    pub fn site(&self) -> PathBuf {
        self.path("site")
    }

    /// A file or directory in the staging directory, such as `tmp`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds the files of an unpacked archive below [`sources::ARCHIVES`], and writes the archive's `RECORD`, which
    /// lists itself, as in Python packages. A file that another archive has added before is kept.
    pub fn add_archive(&self, package: &PinnedPackage, unpacked: &Path) -> Result<()> {
        let info = format!("{}-{}.dist-info", package.name, package.version);
        let mut lines = format!("{info}/RECORD,,\n");
        let archives = self.site().join(sources::ARCHIVES);
        for (file, _) in files_below(unpacked).map_err(failed("read", unpacked))? {
            let below = match file.strip_prefix(unpacked).unwrap_or(&file) {
                // Every archive has a licence at its top.
                below if below == Path::new("LICENSE") => format!("LICENSE-{}", package.name),
                below => below.display().to_string(),
            };
            let mut above = Path::new(&below).ancestors().skip(1);
            // The link may lead out of the store.
            if above.any(|directory| Root::system().is_link(&archives.join(directory))) {
                let name = &package.name;
                let text = format!("`{below}` of {name} is below a link of another archive");
                return Err(Failure::installer(text).hint("check where the archives come from"));
            }
            let target = archives.join(&below);
            link(&file, &target)?;
            let metadata = fs::symlink_metadata(&target).map_err(failed("read", &target))?;
            // A link has no size.
            let size = metadata.is_file().then(|| metadata.len().to_string());
            let (directory, size) = (sources::ARCHIVES, size.unwrap_or_default());
            lines += &format!("{directory}/{below},,{size}\n");
        }
        let info = self.site().join(info);
        output::create_directory(&info)?;
        write(&info.join("RECORD"), &lines)
    }
}

/// Links a file or a symbolic link into `target`, or copies it if the file system has no hard links.
fn link(source: &Path, target: &Path) -> Result<()> {
    output::create_directory(target.parent().unwrap_or(target))?;
    match fs::hard_link(source, target) {
        // A target that exists is no error: several archives contain `lib64`.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => match fs::read_link(source) {
            Ok(path) => std::os::unix::fs::symlink(path, target),
            Err(_) => fs::copy(source, target).map(drop),
        }
        .map_err(failed("copy to", target)),
        _ => Ok(()),
    }
}

/// An I/O error in the store.
pub(super) fn failed(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let failure = Failure::io(action, path);
    move |error| in_store(failure(error))
}

fn in_store(mut failure: Failure) -> Failure {
    failure.code = exit_code::NO_STORE;
    failure.hint("`CUDA_BUILD_CACHE_DIR` names another directory for what is fetched")
}

/// Bytes of all files below a directory. A file with several hard links is counted once.
pub(super) fn disk_usage(directory: &Path) -> u64 {
    let files = files_below(directory).unwrap_or_default().into_iter();
    let sizes = files.map(|(_, file)| ((file.dev(), file.ino()), file.len()));
    sizes.collect::<BTreeMap<_, _>>().into_values().sum()
}

/// The files and links below a directory. Links are not followed.
fn files_below(directory: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut directories = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            match metadata.is_dir() {
                true => directories.push(entry.path()),
                false => files.push((entry.path(), metadata)),
            }
        }
    }
    Ok(files)
}

/// Removes a file that may not exist. If that fails, the next write to the file reports it.
pub(super) fn remove_file(path: &Path) {
    let _ = fs::remove_file(path);
}

fn names(directory: &Path) -> Vec<String> {
    let names = Root::system().names(directory).into_iter();
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// Writes a file in place, so no other process may read it yet.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(failed("write", path))
}

/// The files of an installed package, relative to `site`, with their sizes. Paths that lead out of
/// `site` are skipped. `None` if the package is not installed there.
fn files_of(site: &Path, package: &PinnedPackage) -> Option<BTreeMap<String, Option<u64>>> {
    let info = names(site).into_iter().find(|name| {
        let stem = name.strip_suffix(".dist-info");
        let parts = stem.and_then(|stem| stem.rsplit_once('-'));
        parts.is_some_and(|(name, version)| {
            normalized_name(name) == package.name && version == package.version
        })
    })?;
    let record = site.join(info).join("RECORD");
    let record = Root::system().text(&record).ok()?;
    let inside = |path: &str| !path.starts_with('/') && path.split('/').all(|part| part != "..");
    let files = record.lines().filter_map(parse_line);
    Some(files.filter(|(path, _)| inside(path)).collect())
}

/// Path and size of a line of `RECORD`: `a/b.h,sha256=…,12`. A path with a comma would be quoted;
/// NVIDIA's packages have none.
fn parse_line(line: &str) -> Option<(String, Option<u64>)> {
    let (path, rest) = line.split_once(',')?;
    let size = rest.rsplit(',').next()?.trim().parse().ok();
    (!path.is_empty()).then(|| (path.to_owned(), size))
}

/// Describes the first package of a set that is not installed, or the first file that is missing or
/// has the wrong size.
pub(super) fn damage(site: &Path, set: &PackageSet) -> Option<String> {
    let mut packages = set.packages.iter();
    packages.find_map(|package| damage_of(site, package))
}

/// [`damage`] for one package.
fn damage_of(site: &Path, package: &PinnedPackage) -> Option<String> {
    let (name, version) = (&package.name, &package.version);
    let files = files_of(site, package).filter(|files| !files.is_empty());
    let Some(files) = files else {
        return Some(format!("package {name} {version} is not installed"));
    };
    files.iter().find_map(|(path, size)| {
        let place = site.join(path);
        let problem = match (size, Root::system().metadata(&place)) {
            (Some(size), Ok(found)) if found.is_file() && *size == found.len() => return None,
            // A link to a directory, or to a file of a package that the set does not have.
            (None, found) if found.is_ok() || Root::system().is_link(&place) => return None,
            (_, Ok(_)) => "is damaged",
            (_, Err(_)) => "is missing",
        };
        Some(format!("`{path}` of {name} {version} {problem}"))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::package::tests::package;

    fn store(directory: &Path) -> StoreDirectory {
        StoreDirectory::open(
            &Env::from_pairs([("CUDA_BUILD_CACHE_DIR", directory)]),
            "toolkits",
        )
        .unwrap()
    }

    fn manifest() -> Manifest {
        let set = PackageSet {
            version: "13.4.3".to_owned(),
            ..PackageSet::default()
        };
        Manifest::new(set, "x86_64-linux", &[], 0)
    }

    fn entries(store: &StoreDirectory) -> Vec<String> {
        let mut entries = names(&store.directory);
        entries.retain(|name| name != ".lock");
        entries.sort();
        entries
    }

    #[test]
    fn a_part_becomes_a_toolkit_or_disappears() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let _lock = store.lock().unwrap();
        drop(store.part().unwrap());
        assert!(entries(&store).is_empty());

        let part = store.part().unwrap();
        fs::write(part.site().join("file"), "new").unwrap();
        // A directory without a manifest is replaced.
        fs::create_dir_all(store.path("13.4.3-a").join("old")).unwrap();
        store.commit(&part, "13.4.3-a", &manifest()).unwrap();
        drop(part);
        assert_eq!(entries(&store), ["13.4.3-a"]);
        assert!(store.manifest("13.4.3-a").unwrap().is_some());
        assert!(store.path("13.4.3-a/file").exists() && !store.path("13.4.3-a/old").exists());

        store.discard("13.4.3-a").unwrap();
        assert!(entries(&store).is_empty());
    }

    #[test]
    fn leftovers_are_removed_if_no_command_is_at_work() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let lock = store.lock().unwrap();
        for name in [".other", ".part-killed"] {
            fs::create_dir_all(store.path(name)).unwrap();
        }
        // A lock belongs to the open file: an installer's copy is as good as the command's.
        let installers = lock.try_clone().unwrap();
        drop(lock);
        let file = File::open(store.path(".lock")).unwrap();
        assert!(file.try_lock().is_err());
        drop(installers);
        drop(store.lock().unwrap());
        assert_eq!(entries(&store), [".other"]);
    }

    #[test]
    fn a_store_that_every_user_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let toolkits = directory.path().join("toolkits");
        fs::create_dir(&toolkits).unwrap();
        fs::set_permissions(&toolkits, fs::Permissions::from_mode(0o777)).unwrap();
        let cache = [("CUDA_BUILD_CACHE_DIR", directory.path())];
        let error = StoreDirectory::open(&Env::from_pairs(cache), "toolkits").unwrap_err();
        assert_eq!(error.code, exit_code::NO_STORE);
        assert!(error.message.contains("every user"), "{error}");
    }

    /// cuFFT 12 as a wheel that contains these files.
    pub(in crate::store) fn site(files: &[(&str, &str)]) -> (TempDir, PackageSet) {
        let site = tempfile::tempdir().unwrap();
        let info = "nvidia_cufft_cu12-11.4.1.4.dist-info";
        fs::create_dir_all(site.path().join(info)).unwrap();
        let mut record = format!("{info}/RECORD,,\n../../bin/x,,1\n/etc/hosts,,1\n");
        for (path, text) in files {
            let file = site.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            record.push_str(&format!("{path},,{}\n", text.len()));
        }
        fs::write(site.path().join(info).join("RECORD"), record).unwrap();
        let set = PackageSet {
            version: "12.9.2".to_owned(),
            packages: vec![package("nvidia-cufft-cu12", "11.4.1.4", '0')],
            ..PackageSet::default()
        };
        (site, set)
    }

    const LIBRARY: &str = "nvidia/cufft/lib/libcufft.so.11";
    pub(in crate::store) const WHOLE: [(&str, &str); 2] = [
        (LIBRARY, "library"),
        ("nvidia/cufft/include/cufft.h", "header"),
    ];
}

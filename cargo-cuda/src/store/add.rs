//! `toolkit add`: chooses the exact packages of a toolkit, and fetches the packages that the store
//! does not have.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuda_build::Component;
use cuda_build::internal::Root;
use cuda_build::internal::sources::LOCK_FILE;
use serde::Serialize;

use super::directory::{StagingDirectory, Store, link, size, trusted};
use super::installer::{Cache, Installer};
use super::lock::Lock;
use super::package::{Manifest, PackageSet, Source};
use super::redist::Mirror;
use super::request::with_needed;
use super::resolve::{SetSpec, resolve};
use super::stored::{components, damage, damage_of, files_of, lossy};
use super::{AddRequest, Context, Progress, human_size};
use crate::exit_code;
use crate::failure::Failure;

/// The result of [`add`].
#[derive(Clone, Debug, Serialize)]
pub struct Added {
    /// The name of the toolkit's directory in the store.
    pub name: String,
    /// The toolkit's directory, which has the layout of site-packages.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The release: `13.4.3`, or `13.5` if it was resolved without a metapackage.
    pub version: String,
    /// The components that were found in the directory.
    pub components: Vec<String>,
    /// Whether this call wrote the toolkit.
    pub new: bool,
    /// The packages that an installer fetched. The store already had the others.
    pub fetched: Vec<String>,
    /// The size of the files of the fetched packages.
    pub bytes_added: u64,
    /// The size of all files of the toolkit.
    pub bytes: u64,
    /// The duration of the call.
    pub milliseconds: u64,
    /// The optional components that could not be fetched.
    #[serde(skip)]
    pub unavailable: Vec<Component>,
}

/// Adds a toolkit to the store. If the store already has it, this takes milliseconds and needs
/// neither the network nor another program. A damaged toolkit is replaced.
///
/// The versions are those in the workspace's lock file, else those to which an earlier call resolved
/// the same release. Only components that are not pinned yet are resolved, unless the request is to
/// upgrade. The lock file is written if the set has changed.
pub fn add(request: &AddRequest, context: &Context) -> Result<Added, Failure> {
    let started = Instant::now();
    let run = Run {
        request,
        context,
        store: Store::open(&context.env, "toolkits")?,
        progress: Progress::new(),
    };
    let lock = match &context.lock_file {
        Some(path) => Lock::read(path)?,
        None => Lock::default(),
    };
    let locked = lock.find(&request.release);
    let known = locked.map(|set| set.source);
    let source = request.source.or(known).unwrap_or_default();
    // A request for another source than that of the locked set replaces the set.
    let locked = locked.filter(|set| set.source == source);
    let wanted = request.wanted(source)?;
    if source == Source::Redist && request.target.is_some() {
        let text = "NVIDIA's archives are fetched for this machine only";
        return Err(
            Failure::new(exit_code::USAGE, text).hint("leave out `--target` or `--from redist`")
        );
    }
    if request.locked {
        check_locked(locked, &wanted, request, context)?;
    }
    let set = run.decide_with_optional(source, locked, &wanted)?;
    let fetched = run.ensure(&set, &wanted)?;
    // A set that the lock file already pins is not recorded, so that it does not affect other
    // workspaces.
    if locked != Some(&set) {
        run.remember(&set)?;
    }
    let name = set.name(&request.platform());
    let path = run.store.path(&name);
    let manifest = run.store.manifest(&name).ok().flatten();
    let (components, bytes) = manifest
        .map(|it| (it.components, it.bytes))
        .unwrap_or_default();
    let is_unavailable = |component: &Component| !components.iter().any(|id| id == component.id());
    let unavailable = request.optional.iter().copied().filter(is_unavailable);
    let unavailable = unavailable.collect();
    let new = fetched.is_some();
    let fetched = fetched.unwrap_or_default();
    Ok(Added {
        name,
        path,
        version: set.version,
        components,
        new,
        fetched: fetched.packages,
        bytes_added: fetched.bytes,
        bytes,
        milliseconds: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        unavailable,
    })
}

/// Fails if the lock file would have to change.
fn check_locked(
    locked: Option<&PackageSet>,
    wanted: &BTreeSet<Component>,
    request: &AddRequest,
    context: &Context,
) -> Result<(), Failure> {
    let release = &request.release;
    let reason = match locked.map(|set| lacking(set, wanted)) {
        Some(None) => return Ok(()),
        Some(Some(component)) => format!("for CUDA {release} it does not pin `{component}`"),
        None => format!("it does not pin CUDA {release}"),
    };
    let path = context.lock_file.as_deref().unwrap_or(Path::new(LOCK_FILE));
    let message = format!("{} would have to change: {reason}", path.display());
    Err(Failure::new(exit_code::LOCK, message)
        .hint("run without `--locked` and commit the lock file"))
}

struct Run<'a> {
    request: &'a AddRequest,
    context: &'a Context,
    store: Store,
    progress: Progress,
}

/// The packages that were fetched.
#[derive(Debug, Default)]
struct Fetched {
    /// Their names.
    packages: Vec<String>,
    /// The bytes that the installer downloaded. It may have some packages in its own cache.
    downloaded: u64,
    /// The bytes of their files.
    bytes: u64,
}

impl Run<'_> {
    /// [`Run::decide`] with every optional component for which the index has a consistent set. If the lock file may not
    /// change, these are the components that it pins.
    fn decide_with_optional(
        &self,
        source: Source,
        locked: Option<&PackageSet>,
        wanted: &BTreeSet<Component>,
    ) -> Result<PackageSet, Failure> {
        let request = self.request;
        let optional = request.optional.iter();
        let mut optional: Vec<BTreeSet<Component>> = optional
            .map(|component| with_needed([*component], request.release.major(), source))
            .collect();
        let can_pin = |components: &BTreeSet<Component>, set: Option<&PackageSet>| match set {
            Some(set) => lacking(set, components).is_none(),
            None => components
                .iter()
                .all(|it| source.has_package(*it, request.release.major())),
        };
        optional.retain(|components| can_pin(components, locked.filter(|_| request.locked)));
        let all = optional.iter().flatten().chain(wanted).copied().collect();
        match self.decide(source, locked, &all) {
            Err(failure) if failure.code == exit_code::NOT_RELEASED && !optional.is_empty() => {}
            decided => return decided,
        }
        let mut wanted = wanted.clone();
        let mut decided = self.decide(source, locked, &wanted)?;
        for components in optional {
            let more = components.into_iter().chain(wanted.clone()).collect();
            match self.decide(source, locked, &more) {
                Ok(set) => (wanted, decided) = (more, set),
                Err(failure) if failure.code == exit_code::NOT_RELEASED => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(decided)
    }

    /// The set in the lock file, else the set to which the same request was resolved earlier, else
    /// a newly resolved set.
    fn decide(
        &self,
        source: Source,
        locked: Option<&PackageSet>,
        wanted: &BTreeSet<Component>,
    ) -> Result<PackageSet, Failure> {
        let AddRequest {
            release, upgrade, ..
        } = self.request;
        let index = self.index();
        let earlier = index.find(release).filter(|set| set.source == source);
        let known = locked.or(earlier);
        if let Some(set) = known.filter(|set| !upgrade && lacking(set, wanted).is_none()) {
            return Ok(set.clone());
        }
        // Components of the known set are kept. `--upgrade` only raises their versions.
        let before = known.into_iter().flat_map(PackageSet::components);
        let spec = SetSpec {
            release: release.clone(),
            components: wanted.iter().copied().chain(before).collect(),
            exact: !self.request.only.is_empty(),
            base: known.filter(|_| !upgrade).cloned(),
        };
        if source == Source::Redist {
            let lock = self.store.lock(&self.progress)?;
            return Mirror::new(self.context, &lock)?.resolve(&spec, &self.store);
        }
        let installer = Installer::find(&self.context.env)?;
        let name = installer.name();
        self.progress
            .step("Resolving", &format!("CUDA {release} with {name}"));
        resolve(&spec, &mut |lines| installer.resolve(lines))
    }

    /// The sets to which releases were resolved earlier, for this user.
    fn index(&self) -> Lock {
        Lock::read(&self.store.index()).unwrap_or_default()
    }

    /// Makes sure that the store has the complete set. Returns `None` if nothing had to be fetched.
    fn ensure(
        &self,
        set: &PackageSet,
        wanted: &BTreeSet<Component>,
    ) -> Result<Option<Fetched>, Failure> {
        if self.problem(set)?.is_none() {
            return Ok(None);
        }
        let started = Instant::now();
        let lock = self.store.lock(&self.progress)?;
        // Another process may have added the set before this one got the lock.
        let platform = self.request.platform();
        let Some(problem) = self.problem(set)? else {
            return Ok(None);
        };
        if Root::system().exists(&self.store.path(&set.name(&platform))) {
            let version = &set.version;
            self.progress
                .step("Repairing", &format!("CUDA {version}: {problem}"));
        }
        let (mut part, mut fetched) = self.fetch(set, &lock, Cache::Use)?;
        // An archive was compared with its hash, so unpacking it again would give the same files.
        if set.source == Source::Wheels
            && let Some(reason) = damage(&part.site(), set)
        {
            self.progress
                .step("Fetching", &format!("again, because {reason}"));
            (part, fetched) = self.fetch(set, &lock, Cache::Bypass)?;
        }
        self.progress.step("Checking", "what was fetched");
        if let Some(reason) = damage(&part.site(), set) {
            return Err(incomplete(&reason));
        }
        let found = components(&part.site(), set, wanted, self.request.target.as_ref())?;
        let manifest = Manifest::new(set.clone(), &platform, &found, size(&part.site()));
        self.store.commit(&part, &set.name(&platform), &manifest)?;
        let size = match fetched.downloaded {
            _ if fetched.packages.is_empty() => "all packages were in the store".to_owned(),
            0 => format!("{} unpacked", human_size(fetched.bytes)),
            downloaded => human_size(downloaded),
        };
        let (version, seconds) = (&set.version, started.elapsed().as_secs());
        let place = self.store.shown(&self.context.env);
        let text = format!("CUDA {version} ({size}) in {seconds} s to {place}");
        self.progress.summary("Fetched", &text);
        Ok(Some(fetched))
    }

    /// Why the set in the store is missing or damaged; `None` if it is complete.
    fn problem(&self, set: &PackageSet) -> Result<Option<String>, Failure> {
        let name = set.name(&self.request.platform());
        let path = self.store.path(&name);
        trusted(&path)?;
        match self.store.manifest(&name) {
            Ok(Some(manifest)) => {
                set.check_files(&manifest.set, "the store has")?;
                Ok(damage(&path, set))
            }
            Ok(None) => Ok(Some("it has no manifest".to_owned())),
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Prepares the files of a set in a staging directory: fetches the packages that the store lacks,
    /// and hard-links the files of the packages that the store has.
    fn fetch(
        &self,
        set: &PackageSet,
        lock: &File,
        cache: Cache,
    ) -> Result<(StagingDirectory, Fetched), Failure> {
        let part = self.store.part()?;
        let site = part.site();
        let names = self.store.names().into_iter();
        let stored: Vec<(PathBuf, Manifest)> = names
            .filter_map(|name| Some((self.store.path(&name), self.store.manifest(&name).ok()??)))
            .filter(|(_, manifest)| manifest.platform == self.request.platform())
            .collect();
        let (mut held, mut missing) = (Vec::new(), Vec::new());
        for package in &set.packages {
            let has = |(path, manifest): &&(PathBuf, Manifest)| {
                let mut packages = manifest.set.packages.iter();
                packages.any(|other| other.shares_a_file_with(package))
                    && damage_of(path, package).is_none()
            };
            match stored.iter().find(has) {
                Some((holder, _)) => held.push((package, holder)),
                None => missing.push(package),
            }
        }
        let mut downloaded = 0;
        // Installers require an empty directory, so packages are fetched before files are linked.
        if !missing.is_empty() && set.source == Source::Redist {
            let mirror = Mirror::new(self.context, lock)?;
            downloaded = mirror.install(&missing, set, &part, &self.store, &self.progress)?;
        } else if !missing.is_empty() {
            let installer = Installer::find(&self.context.env)?;
            let (count, plural) = (missing.len(), if missing.len() == 1 { "" } else { "s" });
            let text = format!("{count} package{plural} with {}", installer.name());
            self.progress.step("Fetching", &text);
            let installer = installer.for_target(self.request.target.as_ref())?;
            downloaded = installer.install(&missing, &part, lock, cache, &self.progress)?;
        }
        let bytes = size(&site);
        for (package, holder) in held {
            for file in files_of(holder, package).unwrap_or_default().keys() {
                link(&holder.join(file), &site.join(file))?;
            }
        }
        let names = missing.iter().map(|package| package.name.clone());
        let fetched = Fetched {
            packages: names.collect(),
            downloaded,
            bytes,
        };
        Ok((part, fetched))
    }

    /// Records the set to which the request was resolved: in the store's index for this user, and in the
    /// workspace's lock file for everyone. Both files are read again under the lock, so that entries
    /// that another process has added are kept.
    fn remember(&self, set: &PackageSet) -> Result<(), Failure> {
        let release = &self.request.release;
        if self.context.lock_file.is_none() && self.index().find(release) == Some(set) {
            return Ok(());
        }
        let _lock = self.store.lock(&self.progress)?;
        let mut index = self.index();
        index.record(release, set);
        index.write(&self.store.index())?;
        if let Some(path) = &self.context.lock_file {
            let mut lock = Lock::read(path)?;
            lock.record(release, set);
            lock.write(path)?;
            let file = path.file_name().unwrap_or_default().display();
            let text = format!("CUDA {} in {file}; commit this file", set.version);
            self.progress.summary("Locked", &text);
        }
        Ok(())
    }
}

/// The first component that the set has no package for.
fn lacking(set: &PackageSet, wanted: &BTreeSet<Component>) -> Option<Component> {
    let mut wanted = wanted.iter().copied();
    wanted.find(|component| set.package_for(*component).is_none())
}

/// The error if files are missing although the installer reported success.
pub(super) fn incomplete(reason: &str) -> Failure {
    let message = format!("the installer reported success, but {reason}");
    Failure::new(exit_code::INSTALLER, message).hint(
        "remove damaged files from the installer's cache: `uv cache clean`, or `pip cache purge`",
    )
}

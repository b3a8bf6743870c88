//! `toolkit add`: decides which exact packages are meant, and fetches those that are missing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use cuda_build::Component;
use cuda_build::internal::{Root, store};

use super::directory::{Guard, Store, link, size};
use super::installer::{Cache, Installer};
use super::lock::{Index, Lock};
use super::package::{Manifest, Package, PackageSet, package_of, platform};
use super::progress::{Progress, human_size};
use super::resolve::{SetSpec, resolve};
use super::stored::{components, damage, damage_of, files_of};
use super::{AddRequest, Added, Context, StoreError};

/// Adds a toolkit to the store. If it is there and whole, this takes milliseconds and needs
/// neither the network nor another program; if it is damaged, it is replaced.
///
/// In a workspace the lock file decides the versions, and is written if it does not pin them yet.
/// Components that an earlier call for the same release did not name are added to its set, at
/// the same versions.
///
/// # Errors
/// Any [`StoreError`]. The store and the lock file are then as they were.
pub fn add(request: &AddRequest, context: &Context) -> Result<Added, StoreError> {
    let started = Instant::now();
    let store = Store::locate(&context.env)?;
    store.clean();
    let mut run = Run {
        request,
        context,
        store,
        progress: Progress::new(context.messages),
        root: Root::system(),
        installer: None,
    };
    let wanted = request.wanted()?;
    let decided = run.decide(&wanted)?;
    let set = &decided.set;
    let fetched = run.ensure(set, &wanted)?;
    run.remember(&decided)?;
    let name = set.name();
    let manifest = run.store.manifest(&name).ok().flatten();
    Ok(Added {
        path: run.store.path(&name),
        name,
        version: decided.set.version,
        components: manifest
            .as_ref()
            .map(Manifest::components)
            .unwrap_or_default(),
        bytes: manifest.map_or(0, |manifest| manifest.bytes),
        new: fetched.is_some(),
        bytes_added: fetched.as_ref().map_or(0, |fetched| fetched.bytes),
        fetched: fetched.map(|fetched| fetched.packages).unwrap_or_default(),
        took: started.elapsed(),
    })
}

struct Run<'a> {
    request: &'a AddRequest,
    context: &'a Context,
    store: Store,
    progress: Progress,
    root: Root,
    /// Searched when it is first needed.
    installer: Option<Installer>,
}

/// The exact packages, and whether the lock file pins them.
struct Decided {
    set: PackageSet,
    locked: bool,
}

#[derive(Debug)]
struct Fetched {
    packages: Vec<String>,
    bytes: u64,
}

/// What the store has under the name of a set.
enum State {
    Whole,
    Absent,
    /// With the reason.
    Damaged(String),
}

impl Run<'_> {
    fn installer(&mut self) -> Result<&Installer, StoreError> {
        let installer = match self.installer.take() {
            Some(installer) => installer,
            None => Installer::find(&self.context.env)?,
        };
        Ok(self.installer.insert(installer))
    }

    /// The set of the lock file, or else the set that the same request was resolved to earlier,
    /// or else the answer of the index.
    fn decide(&mut self, wanted: &BTreeSet<Component>) -> Result<Decided, StoreError> {
        let release = &self.request.release;
        let locked = match &self.context.lock_file {
            Some(path) => Lock::read(path)?.find(release),
            None => None,
        };
        if self.request.locked {
            let reason = match locked.as_ref().map(|set| lacking(set, wanted)) {
                Some(None) => None,
                Some(Some(component)) => {
                    Some(format!("for CUDA {release} it does not pin `{component}`"))
                }
                None => Some(format!("it does not pin CUDA {release}")),
            };
            if let Some(reason) = reason {
                let path = self.context.lock_file.clone();
                let path = path.unwrap_or_else(|| super::LOCK_FILE.into());
                return Err(StoreError::LockOutdated { path, reason });
            }
        }
        let is_locked = locked.is_some();
        let known = locked.or_else(|| {
            let name = Index::read(&self.store).name(release)?.to_owned();
            Some(self.store.manifest(&name).ok()??.set())
        });
        let base = match known {
            Some(set) if !self.request.upgrade && lacking(&set, wanted).is_none() => {
                return Ok(Decided {
                    set,
                    locked: is_locked,
                });
            }
            base => base,
        };
        Ok(Decided {
            set: self.resolve(wanted, base)?,
            locked: false,
        })
    }

    /// Resolves the request. The components of `base` stay, at the same versions or, with
    /// `--upgrade`, at newer ones.
    fn resolve(
        &mut self,
        wanted: &BTreeSet<Component>,
        base: Option<PackageSet>,
    ) -> Result<PackageSet, StoreError> {
        let release = self.request.release.clone();
        let before = base.iter().flat_map(PackageSet::components);
        let spec = SetSpec {
            release: release.clone(),
            components: wanted.iter().copied().chain(before).collect(),
            exact: self.request.only.is_some(),
            base: base.filter(|_| !self.request.upgrade),
        };
        let name = self.installer()?.name();
        self.progress
            .step(&format!("resolving CUDA {release} with {name}"));
        let installer = self.installer()?;
        resolve(&spec, &mut |lines| installer.resolve(lines))
    }

    /// Makes sure that the store has the set, whole. `None` if it had.
    fn ensure(
        &mut self,
        set: &PackageSet,
        wanted: &BTreeSet<Component>,
    ) -> Result<Option<Fetched>, StoreError> {
        let name = set.name();
        if matches!(self.state(set)?, State::Whole) {
            return Ok(None);
        }
        let guard = self.store.lock(&name, &self.progress)?;
        // Another process may have added it meanwhile.
        match self.state(set)? {
            State::Whole => return Ok(None),
            State::Absent => {}
            State::Damaged(reason) => {
                let version = &set.version;
                self.progress
                    .step(&format!("repairing CUDA {version}: {reason}"));
            }
        }
        match self.write(set, wanted, &guard, Cache::Use) {
            Err(StoreError::Incomplete { reason, .. }) => {
                self.progress
                    .step(&format!("fetching again, because {reason}"));
                self.write(set, wanted, &guard, Cache::Bypass).map(Some)
            }
            result => result.map(Some),
        }
    }

    fn state(&self, set: &PackageSet) -> Result<State, StoreError> {
        let name = set.name();
        let path = self.store.path(&name);
        if let Some(reason) = store::distrust(&self.root, &path) {
            return Err(StoreError::NotTrusted { reason });
        }
        Ok(match self.store.manifest(&name) {
            Ok(None) => State::Absent,
            Ok(Some(manifest)) => {
                same_files(set, &manifest)?;
                damage(&path, set, &self.root).map_or(State::Whole, State::Damaged)
            }
            Err(reason) => State::Damaged(reason),
        })
    }

    /// Writes a set beside its place, checks it, and moves it there.
    fn write(
        &mut self,
        set: &PackageSet,
        wanted: &BTreeSet<Component>,
        guard: &Guard,
        cache: Cache,
    ) -> Result<Fetched, StoreError> {
        let name = set.name();
        let part = self.store.part(&name)?;
        let site = part.site();
        let (held, missing) = self.split(set);
        // Installers require an empty directory, so what is missing comes first.
        if !missing.is_empty() {
            let installer = self.installer()?.name();
            let plural = if missing.len() == 1 { "" } else { "s" };
            self.progress.step(&format!(
                "fetching {} package{plural} with {installer}",
                missing.len()
            ));
            let progress = Progress::new(self.context.messages);
            self.installer()?
                .install(&missing, &part, guard, cache, &progress)?;
        }
        let bytes = size(&site);
        self.progress
            .detail(&format!("{} unpacked", human_size(bytes)));
        for (package, from) in held {
            let files = files_of(&from, package, &self.root).unwrap_or_default();
            for file in files.keys() {
                link(&from.join(file), &site.join(file))?;
            }
        }
        self.progress.step("checking what was fetched");
        if let Some(reason) = damage(&site, set, &self.root) {
            let installer = self.installer()?.name();
            return Err(StoreError::Incomplete { installer, reason });
        }
        let found = components(&site, set, wanted.iter().copied(), &self.root)?;
        let manifest = Manifest::new(set, &found, size(&site));
        if let Some(installer) = &self.installer {
            installer.check_signals()?;
        }
        self.store.commit(&part, &name, &manifest)?;
        let packages = missing.iter().map(|package| package.name.clone()).collect();
        Ok(Fetched { packages, bytes })
    }

    /// The packages that a toolkit in the store has, with its directory, and the others.
    #[allow(
        clippy::type_complexity,
        reason = "two lists, named where they are used"
    )]
    fn split<'s>(&self, set: &'s PackageSet) -> (Vec<(&'s Package, PathBuf)>, Vec<&'s Package>) {
        let stored: Vec<(PathBuf, Manifest)> = self
            .store
            .names()
            .into_iter()
            .filter_map(|name| Some((self.store.path(&name), self.store.manifest(&name).ok()??)))
            .filter(|(_, manifest)| manifest.platform == platform())
            .collect();
        let (mut held, mut missing) = (Vec::new(), Vec::new());
        for package in &set.packages {
            let holder = stored.iter().find(|(path, manifest)| {
                let mut packages = manifest.packages.iter();
                packages.any(|other| other.shares_a_file_with(package))
                    && damage_of(path, package, &self.root).is_none()
            });
            match holder {
                Some((path, _)) => held.push((package, path.clone())),
                None => missing.push(package),
            }
        }
        (held, missing)
    }

    /// Records what the request was resolved to: in the store for this user, in the workspace for
    /// everyone. The set of a lock file is used in its workspace only.
    fn remember(&self, decided: &Decided) -> Result<(), StoreError> {
        if decided.locked {
            return Ok(());
        }
        let (release, set) = (&self.request.release, &decided.set);
        let name = set.name();
        if Index::read(&self.store).name(release) != Some(&name) {
            Index::change(&self.store, &self.progress, |requests| {
                requests.insert(release.to_string(), name);
            })?;
        }
        let Some(path) = &self.context.lock_file else {
            return Ok(());
        };
        let _guard = Index::guard(&self.store, &self.progress)?;
        Lock::read(path)?.record(release, set, path)
    }
}

/// The first component that the set has no package for.
fn lacking(set: &PackageSet, wanted: &BTreeSet<Component>) -> Option<Component> {
    wanted.iter().copied().find(|&component| {
        package_of(component, set.major()).is_none_or(|package| set.find(package).is_none())
    })
}

/// The files in the store must be the pinned ones, and not only of the same version.
fn same_files(set: &PackageSet, manifest: &Manifest) -> Result<(), StoreError> {
    for pinned in &set.packages {
        let stored = manifest.packages.iter().find(|package| package.is(pinned));
        if let Some(stored) = stored.filter(|stored| !stored.shares_a_file_with(pinned)) {
            let message = format!(
                "{} {}: pinned {:?}, the store has {:?}",
                pinned.name, pinned.version, pinned.hashes, stored.hashes
            );
            return Err(StoreError::HashMismatch { message });
        }
    }
    Ok(())
}

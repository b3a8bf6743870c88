//! `toolkit add`: what is known already, what has to be asked, what has to be fetched.

use std::collections::BTreeSet;
use std::time::Instant;

use cuda_build::{Component, Root};

use super::index::Index;
use super::installer::{Installer, requirements_file};
use super::lock::Lock;
use super::manifest::Manifest;
use super::package::{Package, PackageSet, package_of};
use super::place::{Store, size};
use super::probe::probe;
use super::progress::{Progress, human_size};
use super::resolve::{Wish, resolve};
use super::wanted::wanted;
use super::{AddRequest, Added, Context, StoreError, reuse};

/// Puts a toolkit into the store, unless it is there: then this takes milliseconds, and neither
/// the network nor another program.
///
/// In a workspace the lock file decides the versions, and is written where it told none yet.
/// Components beyond those of an earlier call for the same version are added to its set, at the
/// same versions.
///
/// # Errors
/// Any [`StoreError`]; the store and the lock file are then as they were.
pub fn add(request: &AddRequest, context: &Context) -> Result<Added, StoreError> {
    let started = Instant::now();
    let store = Store::locate(&context.env)?;
    let progress = Progress::new(context.messages);
    let mut run = Run {
        request,
        context,
        store,
        progress,
        installer: None,
    };
    let wanted = wanted(request)?;
    let set = run.decide(&wanted)?;
    let fetched = run.ensure(&set, &wanted)?;
    let (name, version) = (set.name(), set.version.clone());
    run.remember(&set, &name)?;
    let manifest = run.store.manifest(&name);
    Ok(Added {
        path: run.store.path(&name),
        name,
        version,
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

#[derive(Debug)]
struct Fetched {
    packages: Vec<String>,
    bytes: u64,
}

struct Run<'a> {
    request: &'a AddRequest,
    context: &'a Context,
    store: Store,
    progress: Progress,
    /// Looked for when first needed.
    installer: Option<Installer>,
}

impl Run<'_> {
    fn installer(&mut self) -> Result<Installer, StoreError> {
        if self.installer.is_none() {
            self.installer = Some(Installer::find(&self.context.env)?);
        }
        self.installer
            .clone()
            .ok_or(StoreError::NoInstaller { tried: Vec::new() })
    }

    /// The exact set: the lock file's, else the store's answer to the same request, else what
    /// the index says.
    fn decide(&mut self, wanted: &BTreeSet<Component>) -> Result<PackageSet, StoreError> {
        let request = &self.request.version;
        let locked = match &self.context.lock_file {
            Some(path) => Lock::read(path)?.find(request),
            None => None,
        };
        if self.request.locked {
            let missing = |set: &PackageSet| lacking(set, wanted);
            let reason = match locked.as_ref().map(missing) {
                Some(None) => None,
                Some(Some(component)) => {
                    Some(format!("for CUDA {request} it does not pin `{component}`"))
                }
                None => Some(format!("it does not pin CUDA {request}")),
            };
            if let Some(reason) = reason {
                let path = self
                    .context
                    .lock_file
                    .clone()
                    .unwrap_or_else(|| super::LOCK_FILE.into());
                return Err(StoreError::LockOutdated { path, reason });
            }
        }
        let known = locked.or_else(|| {
            let name = Index::read(&self.store).name(request)?.to_owned();
            Some(self.store.manifest(&name)?.set())
        });
        let base = match known {
            Some(set) if !self.request.upgrade && lacking(&set, wanted).is_none() => {
                return Ok(set);
            }
            base => base,
        };
        self.ask(wanted, base.as_ref())
    }

    fn ask(
        &mut self,
        wanted: &BTreeSet<Component>,
        base: Option<&PackageSet>,
    ) -> Result<PackageSet, StoreError> {
        let request = &self.request.version;
        let installer = self.installer()?;
        // What was there stays there, at the same version or at a newer one.
        let before = base.into_iter().flat_map(PackageSet::components);
        let wish = Wish {
            request: request.clone(),
            components: wanted.iter().copied().chain(before).collect(),
            exact: self.request.only.is_some(),
            base: base.filter(|_| !self.request.upgrade).cloned(),
        };
        self.progress.step(&format!(
            "resolving CUDA {request} with {}",
            installer.name()
        ));
        resolve(&wish, &mut |lines| {
            installer.resolve(lines, &self.context.env, self.store.directory())
        })
    }

    /// Makes sure that the store holds the set; `None` where it did.
    fn ensure(
        &mut self,
        set: &PackageSet,
        wanted: &BTreeSet<Component>,
    ) -> Result<Option<Fetched>, StoreError> {
        let name = set.name();
        if let Some(manifest) = self.store.manifest(&name) {
            same_files(set, &manifest)?;
            return Ok(None);
        }
        let _guard = self.store.lock(&name, &self.progress)?;
        // Another process may have been faster.
        if let Some(manifest) = self.store.manifest(&name) {
            same_files(set, &manifest)?;
            return Ok(None);
        }
        let root = Root::system();
        let part = self.store.part(&name)?;
        let (held, missing) = reuse::plan(&self.store, set, &root);
        // Installers want an empty directory, so what is missing comes first.
        self.fetch(&missing, &part)?;
        let bytes = size(&part.site());
        let fetched = missing.iter().map(|package| package.name.clone()).collect();
        for (package, from) in held {
            reuse::link(package, &from, &part.site(), &root)?;
        }
        self.progress.step("checking what was fetched");
        for &component in wanted {
            probe(&part.site(), set, component, &root)?;
        }
        // Pulled in by others: recorded where it proves to be there.
        let proved: Vec<Component> = set
            .components()
            .filter(|&component| probe(&part.site(), set, component, &root).is_ok())
            .collect();
        let manifest = Manifest::new(set, &proved, size(&part.site()));
        self.store.commit(&part, &name, &manifest)?;
        Ok(Some(Fetched {
            packages: fetched,
            bytes,
        }))
    }

    fn fetch(&mut self, missing: &[&Package], part: &super::place::Part) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        let installer = self.installer()?;
        let plural = if missing.len() == 1 { "" } else { "s" };
        self.progress.step(&format!(
            "fetching {} package{plural} with {}",
            missing.len(),
            installer.name()
        ));
        let requirements = part.requirements(&requirements_file(missing))?;
        installer.install(
            &requirements,
            &part.site(),
            &part.temporary(),
            &self.context.env,
            &self.progress,
        )?;
        part.tidy();
        self.progress
            .detail(&format!("{} unpacked", human_size(size(&part.site()))));
        Ok(())
    }

    /// Writes down what the request came to: in the store for speed, in the workspace for all.
    fn remember(&self, set: &PackageSet, name: &str) -> Result<(), StoreError> {
        let request = &self.request.version;
        if Index::read(&self.store).name(request) != Some(name) {
            Index::change(&self.store, &self.progress, |requests| {
                requests.insert(request.to_string(), name.to_owned());
            })?;
        }
        let Some(path) = &self.context.lock_file else {
            return Ok(());
        };
        if Lock::read(path)?.find(request).as_ref() == Some(set) {
            return Ok(());
        }
        let _guard = Index::guard(&self.store, &self.progress)?;
        Lock::read(path)?.record(request, set, path)
    }
}

/// The first component that the set has no package for.
fn lacking(set: &PackageSet, wanted: &BTreeSet<Component>) -> Option<Component> {
    wanted.iter().copied().find(|&component| {
        package_of(component, set.major()).is_none_or(|package| set.find(package).is_none())
    })
}

/// What lies in the store must be what is pinned, not only of the same version.
fn same_files(set: &PackageSet, manifest: &Manifest) -> Result<(), StoreError> {
    for pinned in &set.packages {
        let stored = manifest.packages.iter().find(|package| package.is(pinned));
        if let Some(stored) = stored.filter(|stored| !stored.shares_a_file_with(pinned)) {
            let message = format!(
                "{} {}: pinned {:?}, the store holds {:?}",
                pinned.name, pinned.version, pinned.hashes, stored.hashes
            );
            return Err(StoreError::HashMismatch { message });
        }
    }
    Ok(())
}

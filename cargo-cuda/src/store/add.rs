//! Chooses the exact packages of a toolkit, and fetches the packages that the store does not have.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use cuda_build::{Component, Version};
use cuda_find_core::component::{EdgeKind, closure};
use cuda_find_core::{env::Env, root::Root, target::Target};
use cuda_find_core::{release::is_nvcc_packaged, sources::LOCK_FILE};
use serde::Serialize;

use super::directory::{StoreDirectory, damage, disk_usage};
use super::installer::Installer;
use super::lock::{Lock, Manifest, lock_file};
use super::package::{AcceptedVersions, FetchFrom, PackageSet, ReleaseToFetch, no_package};
use super::redist::Mirror;
use super::resolve::{SetSpec, resolve};
use super::stored::{ListedToolkit, components, listed};
use crate::cargo_config;
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::output::{self, human_size};

/// A toolkit to fetch.
#[derive(Clone, Debug, Default)]
pub struct AddRequest {
    /// The release.
    pub release: ReleaseToFetch,
    /// Components in addition to the default set, with those that they need.
    pub components: Vec<Component>,
    /// If not empty: exactly these components, without the default set and without those that they need.
    pub only: Vec<Component>,
    /// The accepted versions of products.
    pub accepted: AcceptedVersions,
    /// Components to fetch as well, with those that they need, if that is possible.
    pub optional: Vec<Component>,
    /// Components to lock as well, with those that they need, if that is possible. They are not fetched.
    pub only_locked: Vec<Component>,
    /// Fetch everything that the lock file pins for the release, not only what this request needs.
    pub whole_lock: bool,
    /// Where the components come from; by default where the lock file says, else Python packages.
    pub from: Option<FetchFrom>,
    /// Look for newer versions than those in the lock file and in the store.
    pub upgrade: bool,
    /// Fail if the lock file would change.
    pub locked: bool,
    /// The platform whose files to fetch; `None` for this machine.
    pub target: Option<Target>,
}

impl AddRequest {
    /// The components to fetch.
    fn wanted(&self, from: FetchFrom) -> Result<BTreeSet<Component>> {
        let major = self.release.major();
        let mut named = self.only.iter().chain(&self.components).copied();
        if let Some(component) = named.find(|it| !from.has_package(*it, major)) {
            return Err(no_package(component, major, from));
        }
        if !self.only.is_empty() {
            return Ok(self.only.iter().copied().collect());
        }
        let mut components = self.components.clone();
        components.extend(default_set(major, from, self.target.as_ref()));
        Ok(with_needed(&components, major, from))
    }
}

/// The components and those that they need. A needed component without a package of its own, as there are some in
/// CUDA 11 and 12, is skipped.
fn with_needed(components: &[Component], major: u32, from: FetchFrom) -> BTreeSet<Component> {
    let needed = closure(components, major).into_iter();
    let fetched = needed.filter_map(|(component, kind)| {
        let is_needed = kind != EdgeKind::LoadIfPresent && from.has_package(component, major);
        is_needed.then_some(component)
    });
    fetched.chain(components.iter().copied()).collect()
}

/// The components that are fetched by default, which compile device code. If the wheels of a major
/// contain no nvcc, as in CUDA 12 (`nvidia-cuda-nvcc-cu12` has only `ptxas` and libNVVM), nvcc and its
/// parts are left out, and NVRTC is the compiler. The same holds for Windows, where libraries are not supported.
fn default_set(
    major: u32,
    from: FetchFrom,
    target: Option<&Target>,
) -> impl Iterator<Item = Component> {
    let has_nvcc = from == FetchFrom::Redist || is_nvcc_packaged(major);
    let has_libraries = has_nvcc && !target.is_some_and(Target::is_windows);
    let is_for_libraries = |it: Component| {
        use Component::{Crt, Culibos, Nvcc, Nvvm};
        [Nvcc, Nvvm, Crt, Culibos].contains(&it)
    };
    Component::all().filter(move |&component| {
        component.facts().in_every_toolkit
            && (has_libraries || !is_for_libraries(component))
            && from.has_package(component, major)
    })
}

/// The result of [`add`].
#[derive(Clone, Debug, Serialize)]
pub struct AddedToolkit {
    #[serde(flatten)]
    pub toolkit: ListedToolkit,
    /// Whether this call wrote the toolkit.
    pub new: bool,
    /// The packages that were fetched; none if the store had the toolkit.
    pub fetched: Vec<String>,
    /// The optional components that could not be fetched.
    #[serde(skip)]
    pub unavailable: Vec<Component>,
}

/// Adds a toolkit to the store. If the store already has it, this takes milliseconds and needs
/// neither the network nor another program. A damaged toolkit is replaced.
///
/// The versions are those in the workspace's lock file, else those of the newest stored toolkit of the
/// release. Only components that are not pinned yet are resolved, unless the request is to
/// upgrade. The lock file is written if the set has changed.
pub fn add(request: &AddRequest, env: &Env) -> Result<AddedToolkit> {
    let run = Run::new(request, env)?;
    let decision = run.decide()?;
    let (name, fetched) = run.ensure(&decision)?;
    // A set that the lock file already pins is not recorded, so that it does not affect other
    // workspaces.
    if !decision.is_locked {
        run.remember(&decision.set)?;
    }
    let toolkit = listed(&run.store, name).unwrap_or_default();
    let mut unavailable = request.optional.clone();
    unavailable.retain(|it| !toolkit.components.contains(&it.to_string()));
    Ok(AddedToolkit {
        toolkit,
        new: fetched.is_some(),
        fetched: fetched.unwrap_or_default(),
        unavailable,
    })
}

/// Pins the set to which a request is resolved, without fetching it.
pub fn lock(request: &AddRequest, env: &Env) -> Result<()> {
    let run = Run::new(request, env)?;
    let decision = run.decide()?;
    match decision.is_locked {
        true => Ok(()),
        false => run.remember(&decision.set),
    }
}

/// The packages to which a request was resolved.
struct Decision {
    /// The whole set, which the lock file pins.
    set: PackageSet,
    /// Whether the lock file pins it already.
    is_locked: bool,
    /// The packages of the set that the request needs.
    to_fetch: PackageSet,
    /// The components that have to be found in what is fetched.
    wanted: BTreeSet<Component>,
}

struct Run<'a> {
    request: &'a AddRequest,
    env: &'a Env,
    /// The platform whose files are fetched.
    target: Target,
    store: StoreDirectory,
}

impl<'a> Run<'a> {
    fn new(request: &'a AddRequest, env: &'a Env) -> Result<Self> {
        // Python's packages for 64-bit ARM are for servers.
        let host = || Target::from_triple(&cargo_config::host());
        Ok(Self {
            request,
            env,
            target: request.target.clone().map_or_else(host, Ok)?,
            store: StoreDirectory::open(env, "toolkits")?,
        })
    }

    /// Fails if the lock file would have to change.
    fn check_locked<'c>(
        &self,
        locked: Option<&PackageSet>,
        wanted: impl IntoIterator<Item = &'c Component>,
    ) -> Result<()> {
        let (release, accepted) = (&self.request.release, &self.request.accepted);
        let lacking = |set: &PackageSet| set.lacking(wanted.into_iter().copied(), accepted);
        let reason = match locked.map(lacking) {
            Some(None) => return Ok(()),
            Some(Some(component)) => {
                let version = accepted.iter().find(|(it, _)| *it == component);
                let version = version.map_or_else(String::new, |(_, it)| format!(" {it}"));
                format!("for CUDA {release} it does not pin `{component}`{version}")
            }
            None => format!("it does not pin CUDA {release}"),
        };
        let path = lock_file(self.env).unwrap_or(Path::new(LOCK_FILE));
        let message = format!("{} would have to change: {reason}", path.display());
        Err(Failure::lock(message).hint(
            "run `cargo cuda fetch`, or this command without `--locked`, and commit the lock file",
        ))
    }

    /// The set that the request needs. It has the optional components, and those that are only locked, if there is such
    /// a set; if the lock file may not change, those that it pins.
    fn decide(&self) -> Result<Decision> {
        let request = self.request;
        let lock = Lock::of(self.env)?;
        let locked = lock.find(&request.release);
        let from = request.from.or(locked.map(|set| set.from));
        let from = from.unwrap_or_default();
        // A request for another source than that of the locked set replaces the set.
        let locked = locked.filter(|set| set.from == from);
        let wanted = request.wanted(from)?;
        let major = request.release.major();
        if request.locked {
            self.check_locked(locked, &wanted)?;
        }

        // Each component with those that it needs.
        let possible = |components: &[Component]| -> BTreeSet<Component> {
            let groups = components.iter().map(|it| with_needed(&[*it], major, from));
            let is_possible = |group: &BTreeSet<Component>| match (request.locked, locked) {
                (true, Some(set)) => set.lacking(group.clone(), &request.accepted).is_none(),
                (true, None) => false,
                (false, _) => group.iter().all(|it| from.has_package(*it, major)),
            };
            groups.filter(is_possible).flatten().collect()
        };
        let needed = &wanted | &possible(&request.optional);
        let all = &needed | &possible(&request.only_locked);
        // There may be no consistent set with all of them, or the index does not have them.
        let mut set = self.set_for(from, locked, &all);
        for fewer in [&needed, &wanted] {
            if set.as_ref().is_err_and(is_unavailable) && *fewer != all {
                set = self.set_for(from, locked, fewer);
            }
        }
        let set = set?;

        // Without a lock file, the versions are those of a toolkit in the store, which is used as a whole.
        let is_part = !request.whole_lock && lock_file(self.env).is_some();
        let to_fetch = match is_part {
            true => set.only(&needed),
            false => set.clone(),
        };
        Ok(Decision {
            is_locked: locked == Some(&set),
            set,
            to_fetch,
            wanted,
        })
    }

    /// The set in the lock file, with what is missing there. A new set has the newest versions of the index, so that
    /// other machines get the same. Without a lock file, the versions of the store come first.
    fn set_for(
        &self,
        from: FetchFrom,
        locked: Option<&PackageSet>,
        wanted: &BTreeSet<Component>,
    ) -> Result<PackageSet> {
        let (release, accepted) = (&self.request.release, &self.request.accepted);
        let is_complete =
            |set: &PackageSet| set.lacking(wanted.iter().copied(), accepted).is_none();
        let stored = || {
            let version = |set: &PackageSet| set.version.parse::<Version>().ok();
            let manifests = self.store.manifests().into_iter();
            let mut sets = Vec::from_iter(manifests.map(|(_, manifest)| manifest.set));
            sets.retain(|it| it.from == from && version(it).is_some_and(|it| release.admits(&it)));
            let newest = sets.into_iter();
            newest.max_by_key(|it| (is_complete(it), version(it), it.packages.len()))
        };
        let base = match lock_file(self.env) {
            _ if self.request.upgrade => None,
            Some(_) => locked.cloned(),
            None => stored(),
        };
        if let Some(set) = base.as_ref().filter(|set| is_complete(set)) {
            return Ok(set.clone());
        }
        self.resolve(from, base, wanted)
    }

    /// Resolves the exact packages. Those of `base` stay.
    fn resolve(
        &self,
        from: FetchFrom,
        base: Option<PackageSet>,
        wanted: &BTreeSet<Component>,
    ) -> Result<PackageSet> {
        let (release, accepted) = (&self.request.release, &self.request.accepted);
        let before = base.iter().flat_map(PackageSet::components);
        let spec = SetSpec {
            request: self.request,
            components: wanted.iter().copied().chain(before).collect(),
            base: base.map(|set| set.with_accepted_only(accepted)),
        };
        if from == FetchFrom::Redist {
            let lock = self.store.lock()?;
            let part = self.store.part()?;
            return Mirror::new(self.env, &lock, &self.target)?.resolve(&spec, &part);
        }
        let installer = Installer::find(self.env)?;
        let name = installer.name();
        output::status("Resolving", &format!("CUDA {release} with {name}"));
        resolve(&spec, &mut |lines, recursive| {
            installer.resolve(lines, recursive)
        })
    }

    /// Makes sure that the store has a toolkit with the packages to fetch. Returns its name, and the names of the
    /// packages that were fetched; `None` if the store had the toolkit.
    fn ensure(&self, decision: &Decision) -> Result<(String, Option<Vec<String>>)> {
        let (set, wanted) = (&decision.to_fetch, &decision.wanted);
        let name = set.name(self.target.directory());
        if let Some(larger) = self.larger(decision)? {
            return Ok((larger, None));
        }
        if self.problem(set)?.is_none() {
            return Ok((name, None));
        }
        let started = Instant::now();
        let lock = self.store.lock()?;
        // Another process may have added the set before this one got the lock.
        let Some(problem) = self.problem(set)? else {
            return Ok((name, None));
        };
        let (version, platform) = (&set.version, self.target.directory());
        let is_repair = Root::system().exists(&self.store.path(&name));
        if is_repair {
            output::status("Repairing", &format!("CUDA {version}: {problem}"));
        }
        let part = self.store.part()?;
        let site = part.site();
        if set.from == FetchFrom::Redist {
            let mirror = Mirror::new(self.env, &lock, &self.target)?;
            mirror.install(set, &part)?;
        } else {
            let installer = Installer::find(self.env)?;
            let count = set.packages.len();
            let plural = if count == 1 { "" } else { "s" };
            let text = format!("{count} package{plural} with {}", installer.name());
            output::status("Fetching", &text);
            let target = self.request.target.as_ref();
            installer.install(&set.packages, &part, &lock, target, !is_repair)?;
        }
        if let Some(reason) = damage(&site, set) {
            return Err(incomplete(&reason));
        }
        let found = components(&site, set, wanted, &self.target)?;
        let bytes = disk_usage(&site);
        let manifest = Manifest::new(set.clone(), platform, &found, bytes);
        self.store.commit(&part, &name, &manifest)?;
        let (size, seconds) = (human_size(bytes), started.elapsed().as_secs());
        let place = self.store.directory.display();
        let text = format!("CUDA {version} ({size}) in {seconds} s to {place}");
        output::status("Fetched", &text);
        let names = set.packages.iter().map(|package| package.name.clone());
        Ok((name, Some(names.collect())))
    }

    /// The toolkit of the store that has the whole set, if only a part of the set is needed.
    fn larger(&self, decision: &Decision) -> Result<Option<String>> {
        let whole = decision.set.name(self.target.directory());
        let is_there = Root::system().exists(&self.store.path(&whole));
        let is_usable = is_there && self.problem(&decision.set)?.is_none();
        Ok(is_usable.then_some(whole))
    }

    /// Why the set in the store is missing or damaged; `None` if it is complete.
    fn problem(&self, set: &PackageSet) -> Result<Option<String>> {
        let name = set.name(self.target.directory());
        let path = self.store.path(&name);
        self.store.check_trust(&path)?;
        match self.store.manifest(&name) {
            Ok(Some(manifest)) => {
                set.check_files(&manifest.set, "the store has")?;
                Ok(damage(&path, set))
            }
            Ok(None) => Ok(Some("it has no manifest".to_owned())),
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Records the set in the workspace's lock file, which is read again under the lock of the store, so that entries
    /// that another process has added are kept.
    fn remember(&self, set: &PackageSet) -> Result<()> {
        let Some(path) = lock_file(self.env) else {
            return Ok(());
        };
        let _lock = self.store.lock()?;
        let mut lock = Lock::read(path)?;
        lock.record(&self.request.release, set);
        lock.write(path)?;
        let file = path.file_name().unwrap_or_default().display();
        let text = format!("CUDA {} in {file}; commit this file", set.version);
        output::status("Locked", &text);
        Ok(())
    }
}

/// Whether a set does not exist, or an installer could not resolve it, for example because there is no such package.
fn is_unavailable(failure: &Failure) -> bool {
    [exit_code::NOT_RELEASED, exit_code::INSTALLER].contains(&failure.code)
}

/// The error if files are missing although the installer reported success.
pub(super) fn incomplete(reason: &str) -> Failure {
    let message = format!("the installer reported success, but {reason}");
    Failure::installer(message).hint(
        "remove damaged files from the installer's cache: `uv cache clean`, or `pip cache purge`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(release: &str, components: &[Component]) -> Vec<&'static str> {
        let request = AddRequest {
            release: release.parse().unwrap(),
            components: components.to_vec(),
            ..AddRequest::default()
        };
        let wanted = request.wanted(FetchFrom::Wheels).unwrap();
        wanted.into_iter().map(Component::id).collect()
    }

    #[test]
    fn the_default_set_can_compile() {
        assert_eq!(
            ids("13", &[]).join(" "),
            "cudart nvcc nvvm crt cccl culibos nvrtc"
        );
        assert_eq!(ids("12", &[]), ["cudart", "cccl", "nvrtc"]);
        assert_eq!(ids("11.8", &[]), ["cudart", "cccl", "nvrtc"]);
        let of_archives = default_set(12, FetchFrom::Redist, None).map(Component::id);
        let expected = ["cudart", "nvcc", "nvvm", "crt", "cccl", "nvrtc"];
        assert!(of_archives.eq(expected));
        let windows = Target::from_triple("x86_64-pc-windows-msvc").unwrap();
        let for_windows = default_set(13, FetchFrom::Wheels, Some(&windows)).map(Component::id);
        assert!(for_windows.eq(["cudart", "cccl", "nvrtc"]));
    }

    #[test]
    fn named_components_bring_what_they_need() {
        let cusolver = "cudart cccl nvrtc nvjitlink cublas cusolver cusparse";
        assert_eq!(ids("12", &[Component::Cusolver]).join(" "), cusolver);
        // CUDA 11 has no nvJitLink.
        let cufft = ["cudart", "cccl", "nvrtc", "cufft"];
        assert_eq!(ids("11", &[Component::Cufft]), cufft);
    }
}

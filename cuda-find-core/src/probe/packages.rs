//! Probes CUDA in Python wheels. In CUDA 11 and 12, each component has its own directory; in CUDA 13, the
//! toolkit's components share one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::files::{Absent, SearchedDirectories};
use super::prober::Prober;
use crate::component::{Class, Component};
use crate::found::{Attempt, ComponentSet, Found, Unusable};
use crate::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};
use crate::version::Version;

/// A `site-packages` directory.
struct SitePackages<'p> {
    prober: &'p Prober<'p>,
    path: PathBuf,
    installed: Installed,
    /// The searched directories for each directory below `path`. They are kept for reuse, because many components
    /// share a directory, and each component is looked up for several majors.
    by_directory: Vec<(String, SearchedDirectories<'p>)>,
}

/// The normalized names and the versions of installed packages, read from the names of `dist-info` directories.
struct Installed(Vec<(String, Version)>);

/// The name and version of a component's package.
type PackageVersion<'a> = (&'static str, &'a Version);

impl Installed {
    fn read(prober: &Prober<'_>, path: &Path) -> Self {
        let names = prober.root.names(path);
        let package = |name: &str| {
            let (name, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
            let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
            Some((name, version.parse().ok()?))
        };
        let names = names.iter().filter_map(|name| name.to_str());
        Self(names.filter_map(package).collect())
    }

    /// The package of a component, if it is installed.
    fn package(&self, component: Component, major: u32) -> Option<PackageVersion<'_>> {
        let name = component.facts().package(major.min(NEWEST_MAJOR))?;
        let mut installed = self.0.iter();
        let (_, version) = installed.find(|(known, _)| known == name)?;
        Some((name, version))
    }
}

pub(super) fn probe(prober: &Prober<'_>, attempt: &mut Attempt) {
    let path = attempt.candidate.path.clone();
    let mut packages = SitePackages {
        installed: Installed::read(prober, &path),
        prober,
        path,
        by_directory: Vec::new(),
    };
    for major in OLDEST_MAJOR..=packages.newest_major() {
        let found = Component::all().filter_map(|it| packages.component(it, major, attempt));
        let found: Vec<Found> = found.collect();
        if !found.is_empty() {
            let set = ComponentSet::new(&attempt.candidate, major, found);
            attempt.sets.push(set);
        }
    }
    attempt.remarks.extend(packages.missing_metadata_remark());
}

impl<'p> SitePackages<'p> {
    /// The newest major of the tables, or a newer one that a directory such as `nvidia/cu14` names.
    fn newest_major(&self) -> u32 {
        let names = self.prober.root.names(&self.path.join("nvidia"));
        let majors = names.iter().filter_map(|name| common_major(name));
        majors
            .filter(|major| *major < 100)
            .fold(NEWEST_MAJOR, u32::max)
    }

    fn searched(&mut self, directory: &str) -> &SearchedDirectories<'p> {
        let mut known = self.by_directory.iter();
        let position = known.position(|(known, _)| known == directory);
        let position = position.unwrap_or_else(|| {
            let path = self.path.join(directory);
            let searched = SearchedDirectories::new(self.prober, &[&path], &[]);
            self.by_directory.push((directory.to_owned(), searched));
            self.by_directory.len() - 1
        });
        &self.by_directory[position].1
    }

    fn component(
        &mut self,
        component: Component,
        major: u32,
        attempt: &mut Attempt,
    ) -> Option<Found> {
        let searches = self.prober.searches(component);
        let directory = directory_of(component, major).filter(|_| searches)?;
        let is_installed = self.installed.package(component, major).is_some();
        let searched = self.searched(&directory);
        // Wheels for CUDA 11 and 12 share directories. If the files do not show their major, the installed package
        // decides.
        if !is_installed && !shows_major(searched, component, major, &directory) {
            return None;
        }
        let files = searched.component(component, major);
        let header = searched.header_release();
        let package = self.installed.package(component, major);
        let unusable = |absent: Absent| {
            let reason = unusable(component, major, package, &directory, &absent);
            attempt.unusable.extend(reason.map(|reason| Unusable {
                component,
                major,
                reason,
            }));
        };
        let mut found = files.map_err(unusable).ok()?;
        if component == Component::Nvcc {
            let mut tools = component.facts().tools.iter();
            let missing = tools.find(|tool| found.tool(tool).is_none());
            let remark = missing.map(|tool| format!("{directory}/bin contains nvcc but no {tool}"));
            attempt.remarks.extend(remark);
        }
        if let Some(package) = package {
            let release_from_files = found.release;
            set_version_of_package(package, &mut found);
            found.release = release_from_files.or(found.release);
        }
        if let (Component::Cudart, Some((release, header))) = (component, header) {
            // Compilers read the header, so the header's release is used instead of the package's.
            if let Some(claimed) = found.release.filter(|claimed| *claimed != release) {
                attempt.remarks.push(format!(
                    "the cudart package is from CUDA {claimed}, but {} is from CUDA {release}; the header's release is \
                     used",
                    header.display()
                ));
            }
            found.release = Some(release);
        }
        Some(found)
    }

    /// A remark if the directory `nvidia` was copied without the `*.dist-info` directories beside it.
    fn missing_metadata_remark(&self) -> Option<String> {
        let mut installed = self.installed.0.iter().map(|(name, _)| name);
        let has_metadata = installed.any(|name| name.starts_with("nvidia-"));
        let names = self.prober.root.names(&self.path.join("nvidia"));
        let shows_no_major = names.iter().any(|name| common_major(name).is_none());
        (!has_metadata && shows_no_major).then(|| {
            "there are no `*.dist-info` directories beside `nvidia`, so components whose files do not show their CUDA \
             major are not used"
                .to_owned()
        })
    }
}

/// The major of a directory that the packages for one major share: 13 for `cu13`.
fn common_major(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("cu")?.parse().ok()
}

/// The directory of a component's package. A major newer than the tables is expected to keep the newest layout.
fn directory_of(component: Component, major: u32) -> Option<String> {
    let facts = component.facts();
    let directory = facts.package_dir(major.min(NEWEST_MAJOR))?;
    if major <= NEWEST_MAJOR {
        return Some(directory.to_owned());
    }
    Some(directory.replace(&format!("cu{NEWEST_MAJOR}"), &format!("cu{major}")))
}

/// Whether the files show the major, without package metadata.
fn shows_major(
    searched: &SearchedDirectories<'_>,
    component: Component,
    major: u32,
    directory: &str,
) -> bool {
    let facts = component.facts();
    let has = |soname| searched.library(soname, major).is_some();
    let header_shows = || {
        let release = searched.header_release();
        release.is_some_and(|(release, _)| release.major == major)
    };
    directory.ends_with(&format!("cu{major}"))
        || (facts.soname_tells_major(major) && facts.soname(0, major).is_some_and(has))
        || (component == Component::Cudart && header_shows())
}

/// Gives a component the version and release of its package.
fn set_version_of_package((name, version): PackageVersion<'_>, found: &mut Found) {
    let facts = found.component.facts();
    if facts.class != Class::OwnRange {
        found.version = Some(version.clone());
        let is_followed = facts.follows_toolkit && version.part(0) == u64::from(found.major);
        found.release = version.release().filter(|_| is_followed);
    }
    found.evidence = format!("{name} {version}: {}", found.evidence);
}

/// Why a component whose files are incomplete cannot be used; `None` if it is not installed.
fn unusable(
    component: Component,
    major: u32,
    package: Option<PackageVersion<'_>>,
    directory: &str,
    absent: &Absent,
) -> Option<String> {
    let missing = &absent.missing;
    let installed = package.map(|(name, version)| format!("{name} {version}"));
    let is_placeholder = component == Component::Nvcc && !release::is_nvcc_packaged(major);
    if let Some(installed) = installed.as_ref().filter(|_| is_placeholder) {
        return Some(format!(
            "{installed} has ptxas and libnvvm but no nvcc: no CUDA {major} wheel contains nvcc"
        ));
    }
    if absent.has_other_files && component == Component::Nvrtc {
        let place = installed.as_deref().unwrap_or(directory);
        return Some(format!(
            "{place} has no {missing}, so its NVRTC cannot be used"
        ));
    }
    Some(format!(
        "{} is installed but has no {missing} (an incomplete or damaged package, or a placeholder)",
        installed?
    ))
}

/// A directory of Python packages that the user named as a root, as in
/// `CUDA_HOME=<site-packages>/nvidia/cu13`. Several packages share the directory, each with its own version.
/// The packages' metadata is two levels above, in `site-packages`.
pub(super) struct PackageDirectory {
    /// `nvidia/cu13`.
    name: String,
    installed: Installed,
}

impl PackageDirectory {
    /// Reads the metadata for `path` or, if `path` is a link, for its target. `None` if neither is in a directory
    /// `nvidia` with metadata beside it.
    pub(super) fn at(prober: &Prober<'_>, path: &Path) -> Option<Self> {
        let at = |path: &Path| {
            let parent = path.parent().filter(|parent| parent.ends_with("nvidia"))?;
            let installed = Installed::read(prober, parent.parent()?);
            (!installed.0.is_empty()).then_some(Self {
                name: format!("nvidia/{}", path.file_name()?.to_str()?),
                installed,
            })
        };
        let linked = || prober.root.is_link(path).then(|| prober.root.resolve(path));
        at(path).or_else(|| at(&linked()?))
    }

    /// Gives a component of this directory the version of its package.
    pub(super) fn set_version(&self, found: &mut Found) {
        let (component, major) = (found.component, found.major);
        let is_here = directory_of(component, major).as_ref() == Some(&self.name);
        let package = self.installed.package(component, major);
        if let Some(package) = package.filter(|_| is_here) {
            // For a core component, a release from its files is preferred to the package's release.
            let release_from_files = found.release.filter(|_| component.is_core());
            set_version_of_package(package, found);
            found.release = release_from_files.or(found.release);
        }
    }
}

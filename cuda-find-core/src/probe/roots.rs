//! Probes CUDA in roots: from NVIDIA's installers, distributions and conda, and candidates with several roots (Nix
//! outputs, unpacked archives side by side, the HPC SDK).

use std::path::{Path, PathBuf};

use super::files::{SearchedDirectories, file_name_version};
use super::names::{named_majors, products, without_foreign_archives};
use super::packages::PackageDirectory;
use super::prober::Prober;
use crate::component::{Class, Component};
use crate::found::{Attempt, ComponentSet, Found, Unusable};
use crate::list::{joined, sorted_set};
use crate::nvcc::NvccAnswer;
use crate::release;
use crate::sources::{Candidate, CandidateKind, SearchStep, companions};
use crate::version::{ToolkitVersion, Version};

/// One root of a candidate.
pub(super) struct OneRoot<'p> {
    pub(super) path: PathBuf,
    /// The answer of the root's nvcc.
    pub(super) answer: Option<NvccAnswer>,
    /// Why the root's nvcc could not be queried.
    pub(super) query_error: Option<String>,
    /// The release according to nvcc, `cuda.h`, `version.json` or the directory's name.
    pub(super) release: Option<ToolkitVersion>,
    /// The CUDA majors that the root's files show; empty if the files have the same names for every major (cuRAND).
    pub(super) majors: Vec<u32>,
    /// The version in the directory's name, if the directory is named after a package.
    pub(super) package_version: Option<Version>,
    /// The metadata of its packages, if the root is a directory of Python packages.
    pub(super) packages: Option<PackageDirectory>,
    /// Products whose major is known from a package manager or the directory's name.
    pub(super) named_majors: Vec<(Component, u32)>,
    pub(super) searched: SearchedDirectories<'p>,
}

impl<'p> OneRoot<'p> {
    fn read(
        prober: &'p Prober<'p>,
        path: PathBuf,
        answer: Option<NvccAnswer>,
        query_error: Option<String>,
    ) -> Self {
        let searched = SearchedDirectories::new(prober, &[&path], answer.as_ref().as_slice());
        let package_version = package_version(&path);
        let release = answer
            .as_ref()
            .and_then(|answer| answer.version.release())
            .or_else(|| searched.header_release().map(|(release, _)| release))
            .or_else(|| version_json(prober, &path))
            .or_else(|| package_version.as_ref()?.release());
        let majors = release.map_or_else(|| searched.majors(), |release| vec![release.major]);
        Self {
            packages: PackageDirectory::at(prober, &path),
            named_majors: named_majors(prober, &path, !majors.is_empty()),
            path,
            answer,
            query_error,
            release,
            majors,
            package_version,
            searched,
        }
    }

    /// Whether components of this root may be for a major.
    pub(super) fn serves(&self, major: u32) -> bool {
        if !self.majors.is_empty() {
            return self.majors.contains(&major);
        }
        products().any(|product| self.named_major(product).is_none_or(|named| named == major))
    }

    /// The major of a product according to a package manager or the directory's name.
    pub(super) fn named_major(&self, product: Component) -> Option<u32> {
        let mut named = self.named_majors.iter();
        named
            .find(|(named, _)| *named == product)
            .map(|(_, major)| *major)
    }

    /// Whether a component was found in this root.
    pub(super) fn holds(&self, found: &Found) -> bool {
        let first = found.paths().next();
        first.is_some_and(|path| path.starts_with(&self.path))
    }
}

/// Reads the roots at `paths`. If the nvcc of a root reports another root as its toolkit, the other root is
/// read too. For example, the HPC SDK's nvcc is in `compilers/bin`, and its toolkit is not below `compilers`.
pub(super) fn read_roots<'p>(
    prober: &'p Prober<'p>,
    candidate: &Candidate,
    paths: &[PathBuf],
) -> Vec<OneRoot<'p>> {
    let mut roots: Vec<OneRoot<'_>> = Vec::new();
    let mut proposed = candidate.nvcc.clone();
    proposed.take_if(|nvcc| !prober.root.is_file(nvcc));
    for path in paths {
        let proposed = proposed.take();
        let named = proposed.clone().filter(|_| candidate.step.is_explicit());
        let nvcc = proposed.or_else(|| prober.file(path, "bin/nvcc"));
        let queried = nvcc.and_then(|nvcc| Some(prober.query_nvcc?(&nvcc)));
        let (answer, query_error) = match queried.transpose() {
            Ok(answer) => (answer.map(|answer| NvccAnswer { named, ..answer }), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let top = answer.as_ref().and_then(|answer| answer.top.as_ref());
        let top = top.map(|top| prober.root.tidy(top));
        let mut root = OneRoot::read(prober, path.clone(), answer, query_error);
        if candidate.kind == CandidateKind::SystemProducts {
            root.majors.clear();
        }
        roots.push(root);
        let is_elsewhere = |top: &PathBuf| {
            let real = prober.root.resolve(top);
            top != path && !real.starts_with(prober.root.resolve(path))
        };
        let Some(top) = top.filter(is_elsewhere) else {
            continue;
        };
        let beside = companions(prober.root, &top);
        for path in [top].into_iter().chain(beside) {
            if !roots.iter().any(|root| root.path == path) {
                roots.push(OneRoot::read(prober, path, None, None));
            }
        }
    }
    roots
}

/// The version in the name of an archive (`cuda_crt-linux-x86_64-13.0.88-archive`) or a store path
/// (`…-cuda_crt-13.0.88`).
///
/// The name is needed for cicc and the compiler's headers: no file that is quick to read has their version.
fn package_version(path: &Path) -> Option<Version> {
    let mut parts = path.file_name()?.to_str()?.split('-');
    parts.find(|part| {
        part.starts_with("cuda_")
            || Component::of_redist(part).is_some_and(|c| c.facts().follows_toolkit)
    })?;
    let version = parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    version.split('.').nth(2)?;
    version.parse().ok()
}

/// The release in `version.json` of NVIDIA's installers:
/// `{"cuda": {"name": …, "version": "12.4.1"}, …}`. The first `version` after `"cuda"` is
/// read, so no JSON parser is needed.
fn version_json(prober: &Prober<'_>, path: &Path) -> Option<ToolkitVersion> {
    let text = prober.root.text(&path.join("version.json")).ok()?;
    let (_, cuda) = text.split_once("\"cuda\"")?;
    let (_, version) = cuda.split_once("\"version\"")?;
    version.split('"').nth(1)?.parse().ok()
}

pub(super) fn probe(prober: &Prober<'_>, attempt: &mut Attempt) {
    let candidate = attempt.candidate.clone();
    let (paths, foreign) =
        without_foreign_archives(prober.target, candidate.roots().cloned().collect());
    let roots = read_roots(prober, &candidate, &paths);
    let query_error = roots.first().and_then(|first| first.query_error.clone());
    if candidate.named_nvcc().is_some() && query_error.is_some() {
        attempt.remarks.extend(query_error);
        return;
    }
    for path in candidate.roots().filter(|path| !prober.root.is_dir(path)) {
        // A single root that does not exist is reported by the caller.
        if !candidate.more_roots.is_empty() {
            attempt.remark(format!("{} does not exist", path.display()));
        }
    }
    attempt.remarks.extend(foreign);
    let majors = sorted_set(roots.iter().flat_map(|root| root.majors.clone()));
    // The files of cuRAND's archive have the same names for every CUDA major. If the other roots are for one
    // major, the archive is assumed to be for this major. If they are for several, the archive is not used.
    let is_unclear = |root: &OneRoot<'_>| {
        majors.len() > 1 && root.majors.is_empty() && root.named_majors.is_empty()
    };
    let (unclear, roots): (Vec<_>, Vec<_>) = roots.into_iter().partition(is_unclear);
    attempt.remarks.extend(unclear_roots(&majors, &unclear));
    for major in majors.iter().rev() {
        let set = component_set(&roots, *major, attempt);
        attempt.sets.extend(set);
    }
    let products = sets_of_products(&candidate, &roots, &majors);
    attempt.sets.extend(products);
    if majors.is_empty() {
        let remarks = products_of_unknown_major(&attempt.sets);
        attempt.remarks.extend(remarks);
    }
    if attempt.sets.is_empty() {
        // If all files are for another machine, no file shows a major, and `component_set` was never called. Report
        // here which files were skipped.
        for root in &roots {
            let _ = root.searched.tool(Component::Nvcc, "nvcc");
            root.searched.add_remarks(attempt);
        }
    }
}

fn unclear_roots(majors: &[u32], unclear: &[OneRoot<'_>]) -> Option<String> {
    let paths = unclear.iter().map(|root| &root.path);
    let existing = paths.filter(|path| unclear[0].searched.prober.root.is_dir(path));
    let names = joined(existing.map(|path| path.display()), ", ");
    (!names.is_empty()).then(|| {
        format!(
            "CUDA {} were found, and these roots may be for any of them, so they are not used: {names}; name only the \
             roots of one major",
            joined(majors, " and ")
        )
    })
}

/// A remark for each product whose CUDA major is unknown: several sets have the same files of it.
fn products_of_unknown_major(sets: &[ComponentSet]) -> Vec<String> {
    let Some((first, others)) = sets.split_first() else {
        return Vec::new();
    };
    let is_offered_again = |product: &&Found| {
        let mut offered = others.iter().filter_map(|set| set.get(product.component));
        let facts = product.component.facts();
        facts.is_product()
            && !facts.is_header_package()
            && offered.any(|other| other.libraries == product.libraries)
    };
    let remark = |Found { component, .. }: &Found| {
        format!("the CUDA major of this {component} is unknown; it is assumed to be compatible")
    };
    let again = first.found.iter().filter(is_offered_again);
    again.map(remark).collect()
}

/// Sets for majors for which no toolkit was found.
///
/// The sets contain products of known major. If no toolkit was found for any major, they also contain:
///
/// - products of unknown major, if the user named the candidate, if the variable of a product named it, or if
///   it is the system's directories;
/// - CCCL, which has no major, if the user named the candidate.
///
/// Other components are left out, because their major is unknown.
fn sets_of_products(
    candidate: &Candidate,
    roots: &[OneRoot<'_>],
    majors_of_toolkits: &[u32],
) -> Vec<ComponentSet> {
    let is_explicit = candidate.step.is_explicit();
    let no_toolkit = majors_of_toolkits.is_empty();
    let is_for_products =
        candidate.step == SearchStep::Product || candidate.kind == CandidateKind::SystemProducts;
    let any_product = no_toolkit && (is_explicit || is_for_products);
    let find = |root: &OneRoot<'_>, component: Component, major: u32| -> Option<Found> {
        let facts = component.facts();
        let is_wanted = match (facts.is_product(), root.named_major(component)) {
            (true, Some(named)) => named == major,
            (true, None) => any_product,
            _ => no_toolkit && is_explicit && facts.class == Class::OwnRange,
        };
        let mut found = is_wanted.then(|| root.searched.component(component, major).ok())??;
        set_version_and_release(root.searched.prober, &mut found, Releases::default());
        Some(found)
    };
    let named = roots
        .iter()
        .flat_map(|root| root.named_majors.iter().map(|(_, major)| major));
    let mut majors = sorted_set(release::majors().chain(named.copied()));
    majors.retain(|major| !majors_of_toolkits.contains(major));
    let mut sets = Vec::new();
    for major in majors.into_iter().rev() {
        let first = |component| roots.iter().find_map(|root| find(root, component, major));
        let found = Component::all().filter_map(first).collect();
        sets.push(ComponentSet::new(candidate, major, found));
    }
    sets.retain(|set| !set.found.is_empty());
    sets
}

/// The components for one CUDA major, from the roots for that major and from the roots whose files do not show a major.
/// Adds to `attempt` what cannot be used, and why.
fn component_set(roots: &[OneRoot<'_>], major: u32, attempt: &mut Attempt) -> Option<ComponentSet> {
    let of_major: Vec<&OneRoot<'_>> = roots.iter().filter(|root| root.serves(major)).collect();
    let prober = of_major.first()?.searched.prober;
    let answers = of_major.iter().filter_map(|root| root.answer.as_ref());
    let answers: Vec<&NvccAnswer> = answers.collect();
    let joined;
    let searched = if let [single] = of_major.as_slice() {
        &single.searched
    } else {
        let paths: Vec<&Path> = of_major.iter().map(|root| root.path.as_path()).collect();
        joined = SearchedDirectories::new(prober, &paths, &answers);
        &joined
    };
    let compiler = answers.first().and_then(|answer| answer.version.release());
    let header = searched.header_release().map(|(release, _)| release);
    let of_roots = of_major.iter().find_map(|root| root.release);
    let mut unusable = |component: Component, reason: String| {
        attempt.unusable.push(Unusable {
            component,
            major,
            reason,
        });
    };
    let mut found: Vec<Found> = Vec::new();
    for component in Component::all().filter(|component| prober.searches(*component)) {
        let mut new = match searched.component(component, major) {
            Ok(new) => new,
            Err(absent) => {
                if absent.has_other_files && component.facts().is_part_of_toolkit() {
                    let reason = format!("{component} is incomplete: no {}", absent.missing);
                    unusable(component, reason);
                }
                continue;
            }
        };
        let root = of_major.iter().find(|root| root.holds(&new));
        let named_major = root.and_then(|root| root.named_major(component));
        if named_major.is_some_and(|named| named != major) {
            continue;
        }
        let releases = Releases {
            compiler: root.and_then(|root| root.release).or(compiler),
            header,
            any: compiler.or(header).or(of_roots),
        };
        set_version_and_release(prober, &mut new, releases);
        if let Some(root) = root {
            // The root's release comes from its nvcc. If the component belongs to another package, the version
            // of this package is used.
            if let Some(packages) = &root.packages {
                packages.set_version(&mut new);
            } else if component.facts().follows_toolkit && new.version.is_none() {
                new.version = root.package_version.clone();
            }
        }
        if component == Component::Nvcc && prober.query_nvcc.is_some() {
            let Some(answer) = answers.first() else {
                let query_error = of_major.iter().find_map(|root| root.query_error.clone());
                let elsewhere =
                    || format!("{} is not in the `bin` directory of a root", new.evidence);
                unusable(component, query_error.unwrap_or_else(elsewhere));
                continue;
            };
            new.version = Some(answer.version.clone());
        }
        found.push(new);
    }
    if let Some((compiler, header)) = compiler.zip(header).filter(|(a, b)| a != b) {
        attempt.remark(format!(
            "nvcc is from CUDA {compiler}, but cuda.h is from CUDA {header}"
        ));
    }
    searched.add_remarks(attempt);
    (!found.is_empty()).then(|| ComponentSet::new(&attempt.candidate, major, found))
}

/// The CUDA releases that the root of a component shows.
#[derive(Clone, Copy, Default)]
struct Releases {
    /// According to nvcc.
    compiler: Option<ToolkitVersion>,
    /// According to `cuda.h`.
    header: Option<ToolkitVersion>,
    /// The first release that is known: from nvcc, from `cuda.h`, or from another file or the name of a root.
    any: Option<ToolkitVersion>,
}

/// Sets the version and release of a component from its file names and its root.
fn set_version_and_release(prober: &Prober<'_>, found: &mut Found, releases: Releases) {
    let facts = found.component.facts();
    if facts.class == Class::OwnRange {
        return;
    }
    let library = found.libraries.first();
    if let Some(version) = library.and_then(|library| file_name_version(prober, library)) {
        found.version = Some(version);
    }
    if !facts.follows_toolkit {
        return;
    }
    // A number that does not start with the CUDA major is not a package version: `libnvvm.so.4.0.0`,
    // `libcupti.so.2024.1.1`.
    let major = u64::from(found.major);
    found.version.take_if(|version| version.part(0) != major);
    // The roots of one candidate may be of different releases, so the release in a library's own file name is
    // preferred to the root's.
    let in_file_name = found.version.as_ref().and_then(Version::release);
    found.release = match found.component {
        Component::Cudart => releases.header,
        _ if facts.class == Class::ExactMinor => releases.compiler,
        _ => found.release.or(in_file_name),
    }
    .or(releases.any);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_toolkit_packages_have_a_release() {
        for (name, expected) in [
            ("cuda_crt-linux-x86_64-13.0.88-archive", Some((13, 0))),
            ("libnvvm-linux-sbsa-13.5.37-archive", Some((13, 5))),
            ("7a0l8c9k-cuda_nvcc-12.4.131", Some((12, 4))),
            ("7a0l8c9k-cuda12.8-cuda_cudart-12.8.90-lib", Some((12, 8))),
            ("libcurand-linux-x86_64-10.3.5.147-archive", None),
            ("cuda-12.4.0-abcdefgh", None),
            ("cuda_nvcc", None),
            ("cuda", None),
        ] {
            let expected = expected.map(|(major, minor)| ToolkitVersion::new(major, minor));
            let named = package_version(Path::new(name));
            assert_eq!(
                named.as_ref().and_then(Version::release),
                expected,
                "{name}"
            );
        }
    }
}

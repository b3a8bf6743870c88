//! Probes CUDA in roots: from NVIDIA's installers, distributions and conda, and candidates with several roots (Nix
//! outputs, unpacked archives side by side, the HPC SDK).

use std::path::Path;

use super::one_root::{OneRoot, read_roots};
use super::products::directory_number;
use super::searched::SearchedDirectories;
use super::versions::file_name_version;
use super::{Attempt, ComponentSet, Found, Prober, Unusable, archives};
use crate::component::{Class, Component};
use crate::list::sorted_set;
use crate::nvcc::NvccAnswer;
use crate::release;
use crate::sources::{Candidate, Layout, SearchStep};
use crate::version::{ToolkitVersion, Version};

pub(super) fn probe(prober: &Prober<'_>, attempt: &mut Attempt) {
    let candidate = attempt.candidate.clone();
    let (paths, remarks) =
        archives::select_archives(prober.target, candidate.roots().cloned().collect());
    let roots = read_roots(prober, &candidate, &paths);
    let query_error = roots.first().and_then(|first| first.query_error.clone());
    if candidate.nvcc().is_some() && candidate.step.is_explicit() && query_error.is_some() {
        attempt.remarks.extend(query_error);
        return;
    }
    // A single root that does not exist is reported by the caller.
    if !candidate.more_roots().is_empty() {
        let absent = candidate.roots().filter(|path| !prober.root.is_dir(path));
        let absent = absent.map(|path| format!("{} does not exist", path.display()));
        attempt.remarks.extend(absent);
    }
    attempt.remarks.extend(remarks);
    let majors = sorted_set(roots.iter().flat_map(|root| root.majors.clone()));
    // The files of cuRAND's archive have the same names for every CUDA major. If the other roots are for one
    // major, the archive is assumed to be for this major. If they are for several, the archive is not used.
    let (unclear, roots): (Vec<OneRoot<'_>>, Vec<OneRoot<'_>>) = roots
        .into_iter()
        .partition(|root| majors.len() > 1 && root.is_of_unknown_major());
    attempt.remarks.extend(unclear_roots(&majors, &unclear));
    let mut remarks: Vec<String> = Vec::new();
    for major in majors.iter().rev() {
        let set = set(prober, &roots, *major, &mut attempt.unusable, &mut remarks);
        attempt.sets.extend(set);
    }
    attempt
        .sets
        .extend(sets_of_products(&candidate, &roots, &majors));
    if majors.is_empty() {
        attempt
            .remarks
            .extend(products_of_unknown_major(&roots, &attempt.sets));
    }
    if attempt.sets.is_empty() {
        // If all files are for another machine, no file shows a major, and `set` was never called. Report here
        // which files were skipped.
        for root in &roots {
            root.searched.record_unusable_nvcc();
            remarks.extend(root.searched.skipped_remarks());
            remarks.extend(root.searched.remarks.iter().cloned());
        }
    }
    for remark in remarks {
        if !attempt.remarks.contains(&remark) {
            attempt.remarks.push(remark);
        }
    }
}

fn unclear_roots(majors: &[u32], unclear: &[OneRoot<'_>]) -> Option<String> {
    let names: Vec<String> = unclear
        .iter()
        .filter(|root| root.searched.prober.root.is_dir(&root.path))
        .map(|root| root.path.display().to_string())
        .collect();
    let majors: Vec<String> = majors.iter().map(u32::to_string).collect();
    (!names.is_empty()).then(|| {
        format!(
            "CUDA {} were found, and these roots may be for any of them, so they are not used: {}; name only the \
             roots of one major",
            majors.join(" and "),
            names.join(", ")
        )
    })
}

/// A remark for each product whose CUDA major is unknown and which is therefore offered for every major.
fn products_of_unknown_major(roots: &[OneRoot<'_>], sets: &[ComponentSet]) -> Vec<String> {
    let is_unknown = |found: &Found| {
        let offered = sets.iter().filter(|set| set.get(found.component).is_some());
        found.component.facts().is_product()
            && named_major(roots, found).is_none()
            && found
                .libraries
                .iter()
                .all(|path| directory_number(path).is_none())
            && offered.count() > 1
    };
    let mut remarks = Vec::new();
    for found in sets.first().map_or(&[][..], |set| &set.found) {
        if is_unknown(found) {
            let product = found.component;
            remarks.push(format!(
                "the CUDA major of this {product} is unknown; it is assumed to be compatible"
            ));
        }
    }
    remarks
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
    known: &[u32],
) -> Vec<ComponentSet> {
    let (is_explicit, step) = (candidate.step.is_explicit(), candidate.step);
    let any_product = known.is_empty()
        && (is_explicit
            || step == SearchStep::Product
            || candidate.layout == Layout::SystemProducts);
    let find = |root: &OneRoot<'_>, component: Component, major: u32| -> Option<Found> {
        let facts = component.facts();
        let is_wanted = match (facts.is_product(), root.named_major(component)) {
            (true, Some(named)) => named == major,
            (true, None) => any_product,
            _ => known.is_empty() && is_explicit && facts.class == Class::OwnRange,
        };
        let mut found = is_wanted.then(|| root.searched.component(component, major).ok())??;
        settle_versions(root.searched.prober, &mut found, Releases::default());
        Some(found)
    };
    let named = roots.iter().flat_map(|root| &root.named_majors);
    let majors = release::majors().chain(named.map(|(_, major)| *major));
    let majors = sorted_set(majors.filter(|major| !known.contains(major)));
    let set = |major: u32| {
        let first = |component| roots.iter().find_map(|root| find(root, component, major));
        let found = Component::all().filter_map(first).collect();
        ComponentSet { major, found }
    };
    let sets = majors.into_iter().rev().map(set);
    sets.filter(|set| !set.found.is_empty()).collect()
}

/// The major of a product according to a package manager or the name of its root.
fn named_major(roots: &[OneRoot<'_>], found: &Found) -> Option<u32> {
    let root = roots.iter().find(|root| root.holds(found))?;
    root.named_major(found.component)
}

/// The components for one CUDA major, from the roots for that major and from the roots whose files
/// do not show a major.
fn set(
    prober: &Prober<'_>,
    roots: &[OneRoot<'_>],
    major: u32,
    unusable: &mut Vec<Unusable>,
    remarks: &mut Vec<String>,
) -> Option<ComponentSet> {
    let of_major: Vec<&OneRoot<'_>> = roots.iter().filter(|root| root.serves(major)).collect();
    let answers: Vec<&NvccAnswer> = of_major
        .iter()
        .filter_map(|root| root.answer.as_ref())
        .collect();
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
    let mut names = of_major.iter().filter_map(|root| root.release);
    let any = compiler.or(header).or_else(|| names.next());
    let mut found: Vec<Found> = Vec::new();
    for component in Component::all() {
        // The driver's header comes with the runtime, so the driver is not found as a component.
        if component == Component::Driver {
            continue;
        }
        let mut new = match searched.component(component, major) {
            Ok(new) => new,
            Err(absent) => {
                if absent.has_other_files && component.facts().is_part_of_toolkit() {
                    unusable.push(Unusable {
                        component,
                        major,
                        reason: format!("{component} is incomplete: no {}", absent.missing),
                    });
                }
                continue;
            }
        };
        if named_major(roots, &new).is_some_and(|named| named != major) {
            continue;
        }
        let root = of_major.iter().find(|root| root.holds(&new));
        let compiler = root.and_then(|root| root.release).or(compiler);
        settle_versions(
            prober,
            &mut new,
            Releases {
                compiler,
                header,
                any,
            },
        );
        if let Some(root) = root {
            let facts = component.facts();
            // The root's release comes from its nvcc. If the component belongs to another package, the version
            // of this package is used.
            if let Some(packages) = &root.packages {
                packages.settle(&mut new);
            } else if facts.follows_toolkit && new.version.is_none() {
                new.version = root.package_version.clone();
            }
        }
        if component == Component::Nvcc {
            let Some(answer) = answers.first() else {
                let reason = of_major.iter().find_map(|root| root.query_error.clone());
                unusable.push(Unusable {
                    component,
                    major,
                    reason: reason.unwrap_or_else(|| {
                        format!("{} is not in the `bin` directory of a root", new.evidence)
                    }),
                });
                continue;
            };
            new.version = Some(answer.version.clone());
        }
        found.push(new);
    }
    if let (Some(compiler), Some(header)) = (compiler, header)
        && compiler != header
    {
        remarks.push(format!(
            "nvcc is from CUDA {compiler}, but cuda.h is from CUDA {header}"
        ));
    }
    remarks.extend(searched.skipped_remarks());
    remarks.extend(searched.remarks.iter().cloned());
    (!found.is_empty()).then_some(ComponentSet { major, found })
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
fn settle_versions(prober: &Prober<'_>, found: &mut Found, releases: Releases) {
    let facts = found.component.facts();
    if facts.class == Class::OwnRange {
        return;
    }
    let library = found.libraries.first();
    let own = library.and_then(|library| file_name_version(prober, library));
    found.version = own.or(found.version.take());
    if !facts.follows_toolkit {
        return;
    }
    // A number that does not start with the CUDA major is not a package version: `libnvvm.so.4.0.0`,
    // `libcupti.so.2024.1.1`.
    let is_of_major = |version: &Version| version.part(0) == u64::from(found.major);
    found.version = found.version.take().filter(is_of_major);
    // The roots of one candidate may be of different releases, so the release in a library's own file name is
    // preferred to the root's.
    let own = found.version.as_ref().and_then(Version::release);
    found.release = match found.component {
        Component::Cudart => releases.header.or(releases.any),
        _ if facts.class == Class::ExactMinor => releases.compiler.or(releases.any),
        _ => found.release.or(own).or(releases.any),
    };
}

//! CUDA in roots: NVIDIA's installers, distributions, conda, and several roots of one candidate (Nix outputs, redist
//! archives side by side, the HPC SDK).

use std::path::{Path, PathBuf};

use super::archives;
use super::files::Skipped;
use super::one_root::{OneRoot, compiler_release, read_roots};
use super::prefix::Prefix;
use super::versions::file_name_version;
use super::{Found, Prober, Seen, Set, Unusable};
use crate::component::{Bundle, Class, Component};
use crate::nvcc::NvccAnswer;
use crate::release;
use crate::sources::{Candidate, Layout, Step};
use crate::version::ToolkitVersion;

pub(super) fn probe(prober: &Prober<'_>, candidate: &Candidate) -> Seen {
    let paths = candidate.roots().cloned().collect();
    let (paths, left_out) = archives::belonging(prober.target, paths);
    let roots = read_roots(prober, candidate, &paths);
    if candidate.nvcc().is_some()
        && candidate.step.is_explicit()
        && let Some(reason) = roots.first().and_then(|first| first.query_error.clone())
    {
        return Seen {
            remarks: vec![reason],
            ..Seen::default()
        };
    }
    let mut remarks = absent_roots(prober, candidate);
    remarks.extend(left_out);
    let majors = descending(roots.iter().flat_map(|root| root.majors.iter().copied()));
    // cuRAND's archive looks the same for every CUDA. Beside one CUDA it belongs to it; beside two it is unknown.
    let several = majors.len() > 1;
    let (unclear, roots): (Vec<OneRoot>, Vec<OneRoot>) = roots
        .into_iter()
        .partition(|root| several && root.is_of_unknown_major());
    remarks.extend(unclear_roots(prober, &majors, &unclear));
    let mut seen = Seen::default();
    for major in &majors {
        let set = set(prober, &roots, *major, &mut seen);
        seen.sets.extend(set);
    }
    seen.sets
        .extend(sets_of_products(prober, candidate, &roots, &majors));
    if majors.is_empty() {
        remarks.extend(products_of_unknown_major(&roots, &seen.sets));
    }
    remarks.append(&mut seen.remarks);
    if seen.sets.is_empty() {
        // If everything is for another machine, no file shows a major.
        for root in &roots {
            let mut skipped = root.skipped.clone();
            root.prefix.skip_nvcc(prober, &mut skipped);
            remarks.extend(skipped.remarks(prober));
        }
    }
    if seen.sets.is_empty() && seen.unusable.is_empty() && remarks.is_empty() {
        let paths: Vec<&Path> = roots.iter().map(|root| root.path.as_path()).collect();
        remarks.extend(Prefix::new(prober, &paths, &[]).remarks);
    }
    if let [root] = roots.as_slice()
        && root.majors.len() > 1
    {
        remarks.push(format!(
            "libraries of several CUDA majors below one root: {:?}",
            root.majors
        ));
    }
    Seen { remarks, ..seen }
}

fn descending(majors: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut majors: Vec<u32> = majors.collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    majors
}

/// Roots of a list that do not exist. A single root that does not exist is reported by the caller.
fn absent_roots(prober: &Prober<'_>, candidate: &Candidate) -> Vec<String> {
    candidate
        .roots()
        .filter(|_| !candidate.more_roots().is_empty())
        .filter(|path| !prober.root.is_dir(path))
        .map(|path| format!("{} does not exist", path.display()))
        .collect()
}

fn unclear_roots(prober: &Prober<'_>, majors: &[u32], unclear: &[OneRoot]) -> Option<String> {
    let names: Vec<String> = unclear
        .iter()
        .filter(|root| prober.root.is_dir(&root.path))
        .map(|root| root.path.display().to_string())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "CUDA {majors:?} are there, and nothing tells which of them these are for, so they are left out: {}; name \
             the roots of one CUDA alone",
            names.join(", ")
        )
    })
}

/// Reports products that are offered for every major because nothing shows theirs.
fn products_of_unknown_major(roots: &[OneRoot], sets: &[Set]) -> Vec<String> {
    let count = |component| {
        sets.iter()
            .filter(|set| set.get(component).is_some())
            .count()
    };
    let in_directory_of_major = |path: &PathBuf| {
        let directory = path.parent().and_then(Path::file_name);
        let name = directory.and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    let is_unknown = |found: &&Found| {
        found.component.facts().bundle == Bundle::Product
            && named_major(roots, found).is_none()
            && !found.libraries.iter().any(in_directory_of_major)
            && count(found.component) > 1
    };
    let found = sets.first().into_iter().flat_map(|set| &set.found);
    found
        .filter(is_unknown)
        .map(|found| {
            format!(
                "nothing tells which CUDA this {} is for: taken to fit",
                found.component
            )
        })
        .collect()
}

/// Sets for majors of which no toolkit was found.
///
/// They have products whose major is named. If no toolkit was found at all and the user named the candidate, they also
/// have products of unknown major, and CCCL, which has no major. Nothing shows the major of other components.
fn sets_of_products(
    prober: &Prober<'_>,
    candidate: &Candidate,
    roots: &[OneRoot],
    known: &[u32],
) -> Vec<Set> {
    let is_named = candidate.step.is_explicit() || candidate.step == Step::Product;
    let any_product = known.is_empty() && (is_named || candidate.layout == Layout::SystemProducts);
    let any_range = known.is_empty() && candidate.step.is_explicit();
    let find = |root: &OneRoot, component: Component, major: u32| -> Option<Found> {
        let facts = component.facts();
        let wanted = match (facts.bundle, root.named_major(component)) {
            (Bundle::Product, Some(named)) => named == major,
            (Bundle::Product, None) => any_product,
            _ => any_range && facts.class == Class::OwnRange,
        };
        if !wanted {
            return None;
        }
        let skipped = &mut Skipped::default();
        let mut found = root
            .prefix
            .component(prober, component, major, skipped)
            .ok()?;
        settle_versions(prober, &mut found, Releases::default());
        Some(found)
    };
    let named = roots.iter().flat_map(|root| &root.named_majors);
    descending(release::majors().chain(named.map(|(_, major)| *major)))
        .into_iter()
        .filter(|major| !known.contains(major))
        .map(|major| {
            let first = |component| roots.iter().find_map(|root| find(root, component, major));
            Set {
                major,
                found: Component::all().filter_map(first).collect(),
            }
        })
        .filter(|set| !set.found.is_empty())
        .collect()
}

/// The major of a product, if something other than its files names it.
fn named_major(roots: &[OneRoot], found: &Found) -> Option<u32> {
    roots
        .iter()
        .find(|root| root.holds(found))?
        .named_major(found.component)
}

/// The components for one CUDA major: of every root that is for it, and of those whose files do not show a major.
fn set(prober: &Prober<'_>, roots: &[OneRoot], major: u32, seen: &mut Seen) -> Option<Set> {
    let own: Vec<&OneRoot> = roots.iter().filter(|root| root.serves(major)).collect();
    let answers: Vec<&NvccAnswer> = own.iter().filter_map(|root| root.answer.as_ref()).collect();
    let joined;
    let mut skipped = Skipped::default();
    let prefix = if let [single] = own.as_slice() {
        skipped = single.skipped.clone();
        &single.prefix
    } else {
        let paths: Vec<&Path> = own.iter().map(|root| root.path.as_path()).collect();
        joined = Prefix::new(prober, &paths, &answers);
        &joined
    };
    let compiler = answers.first().and_then(|answer| compiler_release(answer));
    let header = prefix.header_release(prober).map(|(release, _)| release);
    let releases = Releases {
        compiler,
        header,
        root: compiler
            .or(header)
            .or_else(|| own.iter().find_map(|root| root.release)),
    };
    let mut found: Vec<Found> = Vec::new();
    for component in Component::all() {
        // Its library is the driver's. The header is part of the runtime.
        if component == Component::Driver {
            continue;
        }
        match prefix.component(prober, component, major, &mut skipped) {
            Ok(other) if named_major(roots, &other).is_some_and(|named| named != major) => {}
            Ok(mut component) => {
                let root = own.iter().find(|root| root.holds(&component));
                let compiler = root.and_then(|root| root.release).or(compiler);
                let releases = Releases {
                    compiler,
                    ..releases
                };
                settle_versions(prober, &mut component, releases);
                if let Some(root) = root {
                    root.settle_by_package(&mut component);
                }
                if component.component == Component::Nvcc {
                    let Some(answer) = answers.first() else {
                        seen.unusable.push(without_answer(&own, &component));
                        continue;
                    };
                    component.version = Some(answer.version.clone());
                }
                found.push(component);
            }
            Err(absent) if absent.something && component.facts().bundle == Bundle::Toolkit => {
                let reason = format!("{component} is not whole: no {}", absent.missing);
                seen.unusable.push(Unusable {
                    component,
                    major,
                    reason,
                });
            }
            Err(_) => {}
        }
    }
    if let (Some(compiler), Some(header)) = (compiler, header)
        && compiler != header
    {
        seen.remarks
            .push(format!("nvcc says {compiler}, cuda.h says {header}"));
    }
    seen.remarks.extend(skipped.remarks(prober));
    let packages = own.iter().filter_map(|root| root.packages.as_ref());
    seen.remarks
        .extend(packages.filter_map(|packages| packages.wrong_profile(prober)));
    for remark in &prefix.remarks {
        if !seen.remarks.contains(remark) {
            seen.remarks.push(remark.clone());
        }
    }
    (!found.is_empty()).then_some(Set { major, found })
}

/// An nvcc that did not answer, or was not queried.
fn without_answer(roots: &[&OneRoot], nvcc: &Found) -> Unusable {
    let reason = roots.iter().find_map(|root| root.query_error.clone());
    Unusable {
        component: nvcc.component,
        major: nvcc.major,
        reason: reason
            .unwrap_or_else(|| format!("{} is in no `bin` directory of a root", nvcc.evidence)),
    }
}

/// The releases that are known about the root of a component.
#[derive(Clone, Copy, Default)]
struct Releases {
    /// According to nvcc.
    compiler: Option<ToolkitVersion>,
    /// According to `cuda.h`.
    header: Option<ToolkitVersion>,
    /// According to the first of nvcc, `cuda.h` and names that has one.
    root: Option<ToolkitVersion>,
}

/// Sets the version and release of a component from its file names and its root.
fn settle_versions(prober: &Prober<'_>, found: &mut Found, releases: Releases) {
    if found.component.facts().class == Class::OwnRange {
        return;
    }
    let own = found
        .libraries
        .first()
        .and_then(|library| file_name_version(prober, library));
    found.version = own.or(found.version.take());
    if !found.component.facts().follows_toolkit {
        return;
    }
    // The numbers of `libnvvm.so.4.0.0` and `libcupti.so.2024.1.1` are not those of their packages.
    found.version = found
        .version
        .take()
        .filter(|version| version.part(0) == u64::from(found.major));
    // The roots of one candidate may be of different releases, so a library's own file name comes first.
    let own = found
        .version
        .as_ref()
        .and_then(|version| version.to_string().parse::<ToolkitVersion>().ok());
    found.toolkit = match found.component {
        Component::Nvcc | Component::Nvvm | Component::Crt => releases.compiler.or(releases.root),
        Component::Cudart => releases.header.or(releases.root),
        _ => found.toolkit.or(own).or(releases.root),
    };
}

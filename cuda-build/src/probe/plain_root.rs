//! CUDA in roots: NVIDIA's installers, distributions, conda, and several roots that make one place
//! (Nix outputs, redist archives side by side, the HPC SDK).

use std::path::{Path, PathBuf};

use super::archives;
use super::files::Skipped;
use super::package_directory::PackageDirectory;
use super::prefix::{Prefix, tidy};
use super::products::told_majors;
use super::versions::file_name_version;
use super::{Found, Prober, Seen, Set, Unusable};
use crate::component::{Bundle, Class, Component};
use crate::nvcc::NvccAnswer;
use crate::release;
use crate::sources::{Candidate, Layout, Step, companions};
use crate::version::{ToolkitVersion, Version};

/// One root of a place, and which CUDA it is for.
struct Piece {
    path: PathBuf,
    /// The answer of its nvcc.
    answer: Option<NvccAnswer>,
    /// Why its nvcc has no answer.
    query_error: Option<String>,
    /// The release that nvcc, `cuda.h`, `version.json` or the directory's name tells.
    release: Option<ToolkitVersion>,
    /// Majors that its files show; none where they are the same for every major (cuRAND).
    majors: Vec<u32>,
    /// The version in the directory's name, where that is the name of a package.
    named: Option<Version>,
    /// What the metadata beside it says, where it is a directory of Python packages.
    packages: Option<PackageDirectory>,
    /// Products of which something else than their files tells the major.
    told: Vec<(Component, u32)>,
    /// Its directories.
    prefix: Prefix,
    /// Files that were skipped while its majors were looked for.
    skipped: Skipped,
}

impl Piece {
    fn serves(&self, major: u32) -> bool {
        if self.majors.is_empty() {
            self.may_be_for(major)
        } else {
            self.majors.contains(&major)
        }
    }

    /// Whether what is told lets any product of it be for this major.
    fn may_be_for(&self, major: u32) -> bool {
        let mut products = Component::all().filter(|c| c.facts().bundle == Bundle::Product);
        products.any(|product| self.told(product).is_none_or(|told| told == major))
    }

    fn told(&self, component: Component) -> Option<u32> {
        self.told
            .iter()
            .find(|(known, _)| *known == component)
            .map(|(_, major)| *major)
    }

    /// Nothing tells which CUDA it is for.
    fn is_silent(&self) -> bool {
        self.majors.is_empty() && self.told.is_empty()
    }
}

pub(super) fn probe(prober: &Prober<'_>, candidate: &Candidate) -> Seen {
    let paths = candidate.roots().cloned().collect();
    let (roots, left_out) = archives::belonging(prober.target, paths);
    let pieces = pieces(prober, candidate, &roots);
    if candidate.nvcc().is_some()
        && candidate.step.is_explicit()
        && let Some(reason) = pieces.first().and_then(|first| first.query_error.clone())
    {
        return Seen {
            remarks: vec![reason],
            ..Seen::default()
        };
    }
    let mut majors: Vec<u32> = pieces
        .iter()
        .flat_map(|piece| piece.majors.iter().copied())
        .collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    // Of one root that is wrong the caller says so; among several it would go unnoticed.
    let missing = |path: &&PathBuf| !prober.root.is_dir(path);
    let mut remarks: Vec<String> = candidate
        .roots()
        .filter(|_| !candidate.more_roots().is_empty())
        .filter(missing)
        .map(|path| format!("{} does not exist", path.display()))
        .collect();
    remarks.extend(left_out);
    let mut seen = Seen::default();
    // cuRAND's archive looks the same for every CUDA. Where one CUDA is there it belongs to it;
    // between two it would be a guess.
    let several = majors.len() > 1;
    let unclear = |piece: &&Piece| several && piece.is_silent() && prober.root.is_dir(&piece.path);
    if pieces.iter().any(|piece| unclear(&piece)) {
        let names: Vec<String> = pieces
            .iter()
            .filter(unclear)
            .map(|piece| piece.path.display().to_string())
            .collect();
        remarks.push(format!(
            "CUDA {majors:?} are there, and nothing tells which of them these are for, so they are left out: \
             {}; name the roots of one CUDA alone",
            names.join(", ")
        ));
    }
    let pieces: Vec<Piece> = pieces
        .into_iter()
        .filter(|piece| !(several && piece.is_silent()))
        .collect();
    for major in &majors {
        let set = set(prober, &pieces, *major, &mut seen);
        seen.sets.extend(set);
    }
    seen.sets.extend(alone(prober, candidate, &pieces, &majors));
    // One that is found for a single major is in a directory of that major.
    let sets = |component| {
        seen.sets
            .iter()
            .filter(|set| set.get(component).is_some())
            .count()
    };
    let by_directory = |path: &PathBuf| {
        let name = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    let silent = |found: &&Found| {
        let is_product = found.component.facts().bundle == Bundle::Product;
        let is_told = told(&pieces, found).is_some() || found.libraries.iter().any(by_directory);
        is_product && majors.is_empty() && !is_told && sets(found.component) > 1
    };
    let found = seen.sets.first().into_iter().flat_map(|set| &set.found);
    let silent: Vec<Component> = found.filter(silent).map(|found| found.component).collect();
    for component in silent {
        remarks.push(format!(
            "nothing tells which CUDA this {component} is for: taken to fit"
        ));
    }
    remarks.append(&mut seen.remarks);
    if seen.sets.is_empty() {
        // If everything is for another machine, no file shows a major.
        for piece in &pieces {
            let mut skipped = piece.skipped.clone();
            piece.prefix.skip_nvcc(prober, &mut skipped);
            remarks.extend(skipped.remarks(prober));
        }
    }
    if seen.sets.is_empty() && seen.unusable.is_empty() && remarks.is_empty() {
        let prefix = Prefix::new(prober, &places(&pieces), &[]);
        remarks.extend(prefix.remarks);
    }
    if let [piece] = pieces.as_slice()
        && piece.majors.len() > 1
    {
        remarks.push(format!(
            "libraries of several CUDA majors below one root: {:?}",
            piece.majors
        ));
    }
    Seen { remarks, ..seen }
}

/// What is there for majors of which nothing else is: products that something tells the major of,
/// and, of a place without any CUDA that was named, those that nothing tells anything of, and CCCL,
/// which has no major. Of all else in such a place nothing tells which CUDA it is for.
fn alone(prober: &Prober<'_>, candidate: &Candidate, pieces: &[Piece], known: &[u32]) -> Vec<Set> {
    let named = candidate.step.is_explicit() || candidate.step == Step::Product;
    let product = known.is_empty() && (named || candidate.layout == Layout::SystemProducts);
    let ranged = known.is_empty() && candidate.step.is_explicit();
    let mut majors: Vec<u32> = release::majors().collect();
    majors.extend(
        pieces
            .iter()
            .flat_map(|piece| &piece.told)
            .map(|(_, major)| *major),
    );
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    majors.retain(|major| !known.contains(major));
    let of = |piece: &Piece, component: Component, major: u32| -> Option<Found> {
        let facts = component.facts();
        let wanted = match (facts.bundle, piece.told(component)) {
            (Bundle::Product, Some(told)) => told == major,
            (Bundle::Product, None) => product,
            _ => ranged && facts.class == Class::OwnRange,
        };
        if !wanted {
            return None;
        }
        let mut found = piece
            .prefix
            .component(prober, component, major, &mut Skipped::default())
            .ok()?;
        settle_versions(prober, &mut found, None, None, None);
        Some(found)
    };
    let found = |major| -> Vec<Found> {
        let first = |component| pieces.iter().find_map(|piece| of(piece, component, major));
        Component::all().filter_map(first).collect()
    };
    majors
        .into_iter()
        .map(|major| Set {
            major,
            found: found(major),
        })
        .filter(|s| !s.found.is_empty())
        .collect()
}

/// The major that something else than its files tells of a product, where it was found.
fn told(pieces: &[Piece], found: &Found) -> Option<u32> {
    pieces
        .iter()
        .find(|piece| holds(piece, found))?
        .told(found.component)
}

fn places(pieces: &[Piece]) -> Vec<&Path> {
    pieces.iter().map(|piece| piece.path.as_path()).collect()
}

/// The roots of the place that count, and those that an nvcc in it names.
fn pieces(prober: &Prober<'_>, candidate: &Candidate, roots: &[PathBuf]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let own_nvcc = candidate
        .nvcc()
        .filter(|nvcc| prober.root.is_file(nvcc))
        .map(Path::to_owned);
    for (index, path) in roots.iter().enumerate() {
        let nvcc = match &own_nvcc {
            Some(nvcc) if index == 0 => Some(nvcc.clone()),
            _ => Some(path.join("bin/nvcc")).filter(|nvcc| prober.root.is_file(nvcc)),
        };
        let answer = nvcc.map(|nvcc| (prober.query_nvcc)(&nvcc)).transpose();
        let (answer, query_error) = match answer {
            Ok(answer) => (answer, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let named = own_nvcc
            .clone()
            .filter(|_| index == 0 && candidate.step.is_explicit());
        let answer = answer.map(|answer| NvccAnswer { named, ..answer });
        let top = answer
            .as_ref()
            .and_then(|answer| answer.top.as_ref())
            .map(|top| tidy(prober, top));
        push(prober, &mut pieces, path.clone(), answer);
        if let Some(piece) = pieces.last_mut() {
            piece.query_error = query_error;
        }
        if candidate.layout == Layout::SystemProducts {
            pieces.iter_mut().for_each(|piece| piece.majors.clear());
        }
        // A root elsewhere: the HPC SDK's nvcc is in `compilers/bin`.
        let outside = |top: &PathBuf| {
            top != path
                && !prober
                    .root
                    .resolve(top)
                    .starts_with(prober.root.resolve(path))
        };
        let Some(top) = top.filter(outside) else {
            continue;
        };
        for path in [top.clone()]
            .into_iter()
            .chain(companions(prober.root, &top))
        {
            if !pieces.iter().any(|piece| piece.path == path) {
                push(prober, &mut pieces, path, None);
            }
        }
    }
    pieces
}

fn push(prober: &Prober<'_>, pieces: &mut Vec<Piece>, path: PathBuf, answer: Option<NvccAnswer>) {
    let prefix = Prefix::new(prober, &[&path], answer.as_ref().as_slice());
    let compiler = answer.as_ref().and_then(compiler_release);
    let header = prefix.header_release(prober).map(|(release, _)| release);
    let named = named_version(&path);
    let by_name = || named.as_ref().and_then(release_of_package);
    let release = compiler
        .or(header)
        .or_else(|| version_json(prober, &path))
        .or_else(by_name);
    let mut skipped = Skipped::default();
    let majors = match release {
        Some(release) => vec![release.major],
        None => prefix.majors(prober, &mut skipped),
    };
    let packages = PackageDirectory::at(prober, &path);
    let told = told_majors(prober, &path, &prefix, !majors.is_empty());
    pieces.push(Piece {
        path,
        answer,
        query_error: None,
        release,
        majors,
        named,
        packages,
        told,
        prefix,
        skipped,
    });
}

fn compiler_release(answer: &NvccAnswer) -> Option<ToolkitVersion> {
    release_of_package(&answer.version)
}

fn release_of_package(version: &Version) -> Option<ToolkitVersion> {
    version.to_string().parse().ok()
}

/// The components for one CUDA major: of every root that is for it, and of those whose files don't
/// tell.
fn set(prober: &Prober<'_>, pieces: &[Piece], major: u32, seen: &mut Seen) -> Option<Set> {
    let mine: Vec<&Piece> = pieces.iter().filter(|piece| piece.serves(major)).collect();
    let roots: Vec<&Path> = mine.iter().map(|piece| piece.path.as_path()).collect();
    let answers: Vec<&NvccAnswer> = mine
        .iter()
        .filter_map(|piece| piece.answer.as_ref())
        .collect();
    let joined;
    let mut skipped = Skipped::default();
    let prefix = match mine.as_slice() {
        [alone] => {
            skipped = alone.skipped.clone();
            &alone.prefix
        }
        _ => {
            joined = Prefix::new(prober, &roots, &answers);
            &joined
        }
    };
    let compiler = answers.first().and_then(|answer| compiler_release(answer));
    let header = prefix.header_release(prober).map(|(release, _)| release);
    let release = compiler
        .or(header)
        .or_else(|| mine.iter().find_map(|piece| piece.release));
    let mut found: Vec<Found> = Vec::new();
    for component in Component::all() {
        // Its library is the driver's; the header alone is part of the runtime.
        if component == Component::Driver {
            continue;
        }
        match prefix.component(prober, component, major, &mut skipped) {
            Ok(component) if told(pieces, &component).is_some_and(|told| told != major) => {}
            Ok(mut component) => {
                let here = mine.iter().find(|piece| holds(piece, &component));
                let own = here.and_then(|piece| piece.release).or(compiler);
                settle_versions(prober, &mut component, own, header, release);
                if let Some(piece) = here {
                    settle_by_package(piece, &mut component);
                }
                if component.component == Component::Nvcc {
                    let Some(answer) = answers.first() else {
                        let reason = mine.iter().find_map(|piece| piece.query_error.clone());
                        let reason = reason.unwrap_or_else(|| {
                            format!("{} is in no `bin` directory of a root", component.evidence)
                        });
                        seen.unusable.push(Unusable {
                            component: Component::Nvcc,
                            major,
                            reason,
                        });
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
    let packages = mine.iter().filter_map(|piece| piece.packages.as_ref());
    seen.remarks
        .extend(packages.filter_map(|packages| packages.wrong_profile(prober)));
    for remark in &prefix.remarks {
        if !seen.remarks.contains(remark) {
            seen.remarks.push(remark.clone());
        }
    }
    (!found.is_empty()).then_some(Set { major, found })
}

/// Whether a component was found in this root.
fn holds(piece: &Piece, found: &Found) -> bool {
    found
        .paths()
        .next()
        .is_some_and(|path| path.starts_with(&piece.path))
}

/// Of cicc and the compiler's headers no file that could be read in each search tells a version:
/// the headers have none, and cicc has it among 60 MB of program, and prints none. An archive's
/// directory (`cuda_crt-linux-x86_64-13.0.88-archive`) and a store path (`…-cuda_crt-13.0.88`) tell
/// by name.
fn named_version(path: &Path) -> Option<Version> {
    let mut parts = path.file_name()?.to_str()?.split('-');
    parts.find(|part| {
        part.starts_with("cuda_")
            || Component::of_redist(part).is_some_and(|c| c.facts().follows_toolkit)
    })?;
    let version = parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    version.split('.').nth(2)?;
    version.parse().ok()
}

fn settle_versions(
    prober: &Prober<'_>,
    found: &mut Found,
    compiler: Option<ToolkitVersion>,
    header: Option<ToolkitVersion>,
    release: Option<ToolkitVersion>,
) {
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
    // `libnvvm.so.4.0.0` and `libcupti.so.2024.1.1` number something else than their package.
    found.version = found
        .version
        .take()
        .filter(|version| version.part(0) == u64::from(found.major));
    // Roots of one place may be of different releases: a library's own file name knows better.
    let own = found
        .version
        .as_ref()
        .and_then(|version| version.to_string().parse::<ToolkitVersion>().ok());
    found.toolkit = match found.component {
        Component::Nvcc | Component::Nvvm | Component::Crt => compiler.or(release),
        Component::Cudart => header.or(release),
        _ => found.toolkit.or(own).or(release),
    };
}

/// What a package's name or metadata says of a component, where it says more than the root does:
/// a root's release is that of its nvcc, which another package may have brought.
fn settle_by_package(piece: &Piece, found: &mut Found) {
    if let Some(packages) = &piece.packages {
        packages.settle(found);
    } else if found.component.facts().follows_toolkit
        && found.component.facts().class != Class::OwnRange
    {
        found.version = found.version.take().or_else(|| piece.named.clone());
    }
}

/// `version.json` of NVIDIA's installers: `{"cuda": {"name": …, "version": "12.4.1"}, …}`. Read
/// without a JSON library: the first `version` after `"cuda"` is all that is wanted.
fn version_json(prober: &Prober<'_>, path: &Path) -> Option<ToolkitVersion> {
    let text = prober.root.text(&path.join("version.json")).ok()?;
    let after = text.split_once("\"cuda\"")?.1;
    let after = after.split_once("\"version\"")?.1;
    let value = after.split('"').nth(1)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_tell_a_release_where_the_version_is_the_toolkits() {
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
            let named = named_version(Path::new(name));
            assert_eq!(
                named.as_ref().and_then(release_of_package),
                expected,
                "{name}"
            );
        }
    }
}

//! One root of a candidate: its directories, its nvcc, and which CUDA it is for.

use std::path::{Path, PathBuf};

use super::files::Skipped;
use super::package_directory::PackageDirectory;
use super::prefix::{Prefix, tidy};
use super::products::named_majors;
use super::{Found, Prober};
use crate::component::{Bundle, Class, Component};
use crate::nvcc::NvccAnswer;
use crate::sources::{Candidate, Layout, companions};
use crate::version::{ToolkitVersion, Version};

/// One root of a candidate.
pub(super) struct OneRoot {
    pub(super) path: PathBuf,
    /// The answer of its nvcc.
    pub(super) answer: Option<NvccAnswer>,
    /// Why its nvcc has no answer.
    pub(super) query_error: Option<String>,
    /// The release according to nvcc, `cuda.h`, `version.json` or the directory's name.
    pub(super) release: Option<ToolkitVersion>,
    /// The majors that its files show; none if the files are the same for every major (cuRAND).
    pub(super) majors: Vec<u32>,
    /// The version in the directory's name, if that is the name of a package.
    package_version: Option<Version>,
    /// The metadata beside it, if it is a directory of Python packages.
    pub(super) packages: Option<PackageDirectory>,
    /// Products whose major is known from a package manager or the directory's name.
    pub(super) named_majors: Vec<(Component, u32)>,
    pub(super) prefix: Prefix,
    /// Files that were skipped while its majors were looked for.
    pub(super) skipped: Skipped,
}

impl OneRoot {
    fn read(
        prober: &Prober<'_>,
        path: PathBuf,
        answer: Option<NvccAnswer>,
        query_error: Option<String>,
    ) -> Self {
        let prefix = Prefix::new(prober, &[&path], answer.as_ref().as_slice());
        let package_version = package_version(&path);
        let release = answer
            .as_ref()
            .and_then(compiler_release)
            .or_else(|| prefix.header_release(prober).map(|(release, _)| release))
            .or_else(|| version_json(prober, &path))
            .or_else(|| package_version.as_ref().and_then(release_of_package));
        let mut skipped = Skipped::default();
        let majors = match release {
            Some(release) => vec![release.major],
            None => prefix.majors(prober, &mut skipped),
        };
        Self {
            packages: PackageDirectory::at(prober, &path),
            named_majors: named_majors(prober, &path, &prefix, !majors.is_empty()),
            path,
            answer,
            query_error,
            release,
            majors,
            package_version,
            prefix,
            skipped,
        }
    }

    /// Whether components of this root may be for a major.
    pub(super) fn serves(&self, major: u32) -> bool {
        if self.majors.is_empty() {
            let mut products = Component::all().filter(|c| c.facts().bundle == Bundle::Product);
            products.any(|product| self.named_major(product).is_none_or(|named| named == major))
        } else {
            self.majors.contains(&major)
        }
    }

    /// The major of a product, if something other than its files names it.
    pub(super) fn named_major(&self, component: Component) -> Option<u32> {
        self.named_majors
            .iter()
            .find(|(known, _)| *known == component)
            .map(|(_, major)| *major)
    }

    /// Whether nothing shows which CUDA it is for.
    pub(super) fn is_of_unknown_major(&self) -> bool {
        self.majors.is_empty() && self.named_majors.is_empty()
    }

    /// Whether a component was found in this root.
    pub(super) fn holds(&self, found: &Found) -> bool {
        let first = found.paths().next();
        first.is_some_and(|path| path.starts_with(&self.path))
    }

    /// Takes over the version of the component's own package. The release of a root is that of its nvcc, which may be
    /// of another package.
    pub(super) fn settle_by_package(&self, found: &mut Found) {
        let facts = found.component.facts();
        if let Some(packages) = &self.packages {
            packages.settle(found);
        } else if facts.follows_toolkit && facts.class != Class::OwnRange {
            found.version = found
                .version
                .take()
                .or_else(|| self.package_version.clone());
        }
    }
}

/// The roots at these paths, and those elsewhere that an nvcc in one of them names: the HPC SDK's nvcc is in
/// `compilers/bin`.
pub(super) fn read_roots(
    prober: &Prober<'_>,
    candidate: &Candidate,
    paths: &[PathBuf],
) -> Vec<OneRoot> {
    let mut roots: Vec<OneRoot> = Vec::new();
    let candidates_nvcc = candidate
        .nvcc()
        .filter(|nvcc| prober.root.is_file(nvcc))
        .map(Path::to_owned);
    for (index, path) in paths.iter().enumerate() {
        let proposed = candidates_nvcc.clone().filter(|_| index == 0);
        let own = || Some(path.join("bin/nvcc")).filter(|nvcc| prober.root.is_file(nvcc));
        let nvcc = proposed.clone().or_else(own);
        let (answer, query_error) = match nvcc.map(|nvcc| (prober.query_nvcc)(&nvcc)).transpose() {
            Ok(answer) => (answer, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let named = proposed.filter(|_| candidate.step.is_explicit());
        let answer = answer.map(|answer| NvccAnswer { named, ..answer });
        let top = answer
            .as_ref()
            .and_then(|answer| answer.top.as_ref())
            .map(|top| tidy(prober, top));
        let mut root = OneRoot::read(prober, path.clone(), answer, query_error);
        if candidate.layout == Layout::SystemProducts {
            root.majors.clear();
        }
        roots.push(root);
        let is_below = |top: &Path| {
            let real = prober.root.resolve(top);
            top == path || real.starts_with(prober.root.resolve(path))
        };
        let Some(top) = top.filter(|top| !is_below(top)) else {
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

pub(super) fn compiler_release(answer: &NvccAnswer) -> Option<ToolkitVersion> {
    release_of_package(&answer.version)
}

fn release_of_package(version: &Version) -> Option<ToolkitVersion> {
    version.to_string().parse().ok()
}

/// The version in the name of an archive (`cuda_crt-linux-x86_64-13.0.88-archive`) or a store path
/// (`…-cuda_crt-13.0.88`).
///
/// No file that could be read in every search has the version of cicc and of the compiler's headers: the headers have
/// none, and cicc has it somewhere in 60 MB of program, and does not print it.
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

/// The release in `version.json` of NVIDIA's installers: `{"cuda": {"name": …, "version": "12.4.1"}, …}`. Instead of a
/// JSON parser, the first `version` after `"cuda"` is read.
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
    fn names_of_packages_have_a_release_if_they_follow_the_toolkit() {
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
                named.as_ref().and_then(release_of_package),
                expected,
                "{name}"
            );
        }
    }
}

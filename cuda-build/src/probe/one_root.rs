//! Reads one root of a candidate: its directories, its nvcc, and its CUDA release.

use std::path::{Path, PathBuf};

use super::packages::PackageDirectory;
use super::products::{named_majors, products};
use super::searched::SearchedDirectories;
use super::{Found, Prober};
use crate::component::Component;
use crate::nvcc::NvccAnswer;
use crate::sources::{Candidate, Layout, companions};
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
            named_majors: named_majors(prober, &path, &searched, !majors.is_empty()),
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
            .find(|(known, _)| *known == product)
            .map(|(_, major)| *major)
    }

    /// Whether the root's CUDA major is unknown: its files, its name and its packages do not show it.
    pub(super) fn is_of_unknown_major(&self) -> bool {
        self.majors.is_empty() && self.named_majors.is_empty()
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
    let mut proposed = candidate.nvcc().filter(|nvcc| prober.root.is_file(nvcc));
    for path in paths {
        let proposed = proposed.take().map(Path::to_owned);
        let named = proposed.clone().filter(|_| candidate.step.is_explicit());
        let own = || Some(path.join("bin/nvcc")).filter(|nvcc| prober.root.is_file(nvcc));
        let nvcc = proposed.or_else(own);
        let (answer, query_error) = match nvcc.map(|nvcc| (prober.query_nvcc)(&nvcc)).transpose() {
            Ok(answer) => (answer.map(|answer| NvccAnswer { named, ..answer }), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let top = answer.as_ref().and_then(|answer| answer.top.as_ref());
        let top = top.map(|top| prober.root.tidy(top));
        let mut root = OneRoot::read(prober, path.clone(), answer, query_error);
        if candidate.layout == Layout::SystemProducts {
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
    let after = text.split_once("\"cuda\"")?.1;
    let after = after.split_once("\"version\"")?.1;
    after.split('"').nth(1)?.parse().ok()
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

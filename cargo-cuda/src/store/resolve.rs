//! Resolves a release and components to one consistent set of exact packages.
//!
//! The extras of the `cuda-toolkit` metapackage pin the component versions that were released
//! together, with two exceptions: for nvJitLink an extra allows a range, whose newest version may
//! belong to a later minor, and some components have no extra. So the metapackage's version is
//! resolved first. Then the metapackage is resolved again, together with one requirement for each
//! component. A minor without a metapackage is resolved from these requirements alone.
//!
//! Header packages belong to no release. They are resolved on their own, without the Python packages that they require.

use std::collections::BTreeSet;

use cargo_metadata::semver::Comparator;
use cuda_build::{Component, ToolkitVersion};
use cuda_find_core::version::bounds;

use super::add::AddRequest;
use super::package::{FetchFrom, PackageSet, PinnedPackage, ReleaseToFetch, wheel_of};
use crate::failure::{Failure, Result};
use crate::output::joined;
use crate::package::requirement::METAPACKAGE;

/// Resolves requirement lines to exact packages, and, if the flag is set, to those that they require. It is an
/// installer or, in tests, a recorded answer.
pub(super) type Resolver<'a> = dyn FnMut(&[String], bool) -> Result<Vec<PinnedPackage>> + 'a;

/// The set to resolve.
#[derive(Clone, Debug)]
pub(super) struct SetSpec<'a> {
    pub request: &'a AddRequest,
    pub components: BTreeSet<Component>,
    /// An earlier set that is extended. Its release and its packages are kept as they are.
    pub base: Option<PackageSet>,
}

/// Resolves a set, and checks that it is consistent.
pub(super) fn resolve(spec: &SetSpec<'_>, resolver: &mut Resolver<'_>) -> Result<PackageSet> {
    let release = &spec.request.release;
    let (version, has_metapackage) = match &spec.base {
        // The version of a set that was resolved without a metapackage has only two numbers.
        Some(base) => (base.version.clone(), base.version.split('.').count() > 2),
        None => match metapackage(release, resolver) {
            Ok(version) => (version, true),
            Err(_) if release.is_minor() => (release.to_string(), false),
            Err(failure) => return Err(failure),
        },
    };
    let Ok(minor) = version.parse::<ToolkitVersion>() else {
        return Err(inconsistent(METAPACKAGE, &version));
    };
    let mut lines = Vec::new();
    if has_metapackage {
        let components = spec.components.iter();
        let extras = joined(components.filter_map(|it| it.facts().extra), ",");
        lines.push(format!("{METAPACKAGE}[{extras}]=={version}"));
    }
    let mut header_lines = Vec::new();
    for component in &spec.components {
        let lines = match component.facts().is_header_package() {
            true => &mut header_lines,
            false => &mut lines,
        };
        lines.extend(spec.requirement(*component, minor));
    }
    let mut set = PackageSet {
        version,
        ..PackageSet::default()
    };
    if !lines.is_empty() {
        set.packages = resolver(&lines, true).map_err(with_releases)?;
    }
    if !header_lines.is_empty() {
        let resolved = resolver(&header_lines, false);
        set.packages.extend(resolved.map_err(|failure| {
            failure.hint(
                "`version` of a component in `[package.metadata.cuda]` is a requirement as in Cargo: `3.8` admits 3.9, \
                 but not 4.0",
            )
        })?);
    }
    set.packages.retain(|package| spec.keeps(&package.name));
    if let Some(base) = &spec.base {
        base.check_files(&set, "the index offers")?;
        // Pinned packages replace the resolved ones, because the pinned hashes are kept.
        set.packages
            .retain(|it| !base.packages.iter().any(|pinned| pinned.is(it)));
        set.packages.extend(base.packages.iter().cloned());
    }
    set.packages.sort();
    if let Some(PinnedPackage { name, version, .. }) = set.inconsistent() {
        return Err(inconsistent(&format!("{name} {version}"), &set.version));
    }
    Ok(set)
}

impl SetSpec<'_> {
    /// Whether a package belongs to the set. Packages without a CUDA component, such as the
    /// metapackage, do not.
    fn keeps(&self, name: &str) -> bool {
        let major = self.request.release.major();
        // Packages that were not requested are omitted, even if requested packages require them.
        if self.request.only.is_empty() {
            return FetchFrom::Wheels.knows(name, major);
        }
        let mut components = self.components.iter();
        let is_requested = components.any(|component| wheel_of(*component, major) == Some(name));
        is_requested || self.pinned(name).is_some()
    }

    /// The package of the base with this name.
    fn pinned(&self, name: &str) -> Option<&PinnedPackage> {
        let mut earlier = self.base.iter().flat_map(|base| &base.packages);
        earlier.find(|package| package.name == name)
    }

    /// The requirement for a component. If a package has its own version numbers (cuBLAS, CCCL …) and the manifest
    /// accepts each, the requirement has no version: the metapackage pins one, or without a metapackage the newest one
    /// is resolved. The probe of the fetched files checks its major.
    fn requirement(&self, component: Component, minor: ToolkitVersion) -> Option<String> {
        let package = wheel_of(component, minor.major)?;
        if let Some(pinned) = self.pinned(package) {
            return Some(format!("{package}=={}", pinned.version));
        }
        let mut clauses = Vec::new();
        if component.facts().follows_toolkit {
            clauses.push(format!("=={minor}.*"));
        }
        let accepted = self.request.accepted.iter();
        let accepted = accepted.filter(|(it, _)| *it == component);
        let comparators = accepted.flat_map(|(_, accepted)| &accepted.comparators);
        clauses.extend(comparators.flat_map(python_clauses));
        Some(package.to_owned() + &clauses.join(","))
    }
}

/// A comparator of Cargo as clauses for a Python package: `>=3.8` and `<4` for `^3.8`.
fn python_clauses(comparator: &Comparator) -> impl Iterator<Item = String> + use<> {
    let bounds = [">=", "<"].into_iter().zip(bounds(comparator));
    bounds.filter_map(|(operator, bound)| Some(format!("{operator}{}", bound?)))
}

/// The version of a release's newest metapackage.
fn metapackage(release: &ReleaseToFetch, resolver: &mut Resolver<'_>) -> Result<String> {
    let answer = resolver(&[format!("{METAPACKAGE}{}", release.clause())], true);
    let answer = answer.map_err(with_releases)?;
    let found = answer.into_iter().find(|it| it.name == METAPACKAGE);
    found
        .map(|package| package.version)
        .ok_or_else(|| inconsistent(METAPACKAGE, &release.to_string()))
}

/// An installer's error does not distinguish what was never released from what a mirror lacks.
fn with_releases(failure: Failure) -> Failure {
    failure.hint(
        "Python packages exist for CUDA 11.8, 12.0 to 12.6, 12.8, 12.9, and 13.0 and newer, and not for each \
         component; `cargo cuda toolkit add 13` fetches the newest 13",
    )
}

fn inconsistent(package: &str, version: &str) -> Failure {
    let offers = format!("the package index offers no consistent CUDA {version}");
    let text = format!("{offers}: {package} does not belong to it");
    Failure::not_released(text)
        .hint("name an older release, such as `13.4`, and remove constraints from the configuration of uv and pip")
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    /// Answers by what is in the requirement lines, as a recorded index of three releases.
    fn index(lines: &[String]) -> Result<Vec<PinnedPackage>> {
        let no = || Failure::installer(format!("no {}", lines.join(" ")));
        let has = |text: &str| lines.iter().any(|line| line.starts_with(text));
        let mut answer = Vec::new();
        let minor = if has("cuda-toolkit") {
            let mut lines = lines.iter();
            let meta = lines.find(|line| line.starts_with("cuda-toolkit")).unwrap();
            let version = match meta.split_once("==").unwrap().1 {
                "13.*" | "13.4.*" | "13.4.3" => "13.4.3",
                "12.*" | "12.9.*" | "12.9.2.0" => "12.9.2.0",
                _ => return Err(no()),
            };
            answer.push(package("cuda-toolkit", version, '0'));
            &version[..4]
        } else if lines.iter().any(|line| line.ends_with("==13.5.*")) {
            "13.5"
        } else {
            return Err(no());
        };
        let listed = |id: &str| lines[0].contains(id) || has(&format!("nvidia-{id}"));
        let suffix = if minor == "12.9" { "-cu12" } else { "" };
        let wanted = |name: &str| {
            has(&format!("nvidia-{name}")) || name.split('-').any(|word| lines[0].contains(word))
        };
        let mut add = |name: &str, version: &str, digit| {
            answer.push(package(&format!("{name}{suffix}"), version, digit));
        };
        let of_minor = format!("{minor}.92");
        if listed("cudart") || has("nvidia-cuda-runtime") {
            add("nvidia-cuda-runtime", &of_minor, '1');
        }
        if wanted("cusparse") {
            add("nvidia-cusparse", "12.8.6.72", '2');
        }
        if wanted("nvjitlink") || wanted("cusparse") {
            let pinned = lines.contains(&format!("nvidia-nvjitlink{suffix}=={minor}.*"));
            let version = if pinned { &of_minor } else { "13.5.37" };
            add("nvidia-nvjitlink", version, '3');
        }
        // A component without an extra, at its newest unless the minor is named.
        if has("nvidia-cudla") {
            let pinned = lines.iter().any(|line| line == "nvidia-cudla==13.4.*");
            let version = if pinned { "13.4.92" } else { "13.5.37" };
            add("nvidia-cudla", version, '4');
        }
        Ok(answer)
    }

    fn request(release: &str) -> AddRequest {
        AddRequest {
            release: release.parse().unwrap(),
            ..AddRequest::default()
        }
    }

    fn spec<'a>(request: &'a AddRequest, components: &[Component]) -> SetSpec<'a> {
        SetSpec {
            request,
            components: components.iter().copied().collect(),
            base: None,
        }
    }

    fn shown(spec: &SetSpec<'_>) -> String {
        match resolve(spec, &mut |lines, _| index(lines)) {
            Ok(set) => {
                let packages = set.packages.iter();
                let packages: Vec<String> = packages
                    .map(|p| format!("{} {}", p.name, p.version))
                    .collect();
                format!("{}: {}", set.version, packages.join(", "))
            }
            Err(error) => error.message,
        }
    }

    #[test]
    fn a_release_and_components_become_exact_packages() {
        use Component::{Cudart, Cudla, Cusparse, Nvjitlink};
        let nvjitlink = "13.4.3: nvidia-cusparse 12.8.6.72, nvidia-nvjitlink 13.4.92";
        let cudla = "13.4.3: nvidia-cuda-runtime 13.4.92, nvidia-cudla 13.4.92";
        for (release, components, expected) in [
            ("13", &[Cudart][..], "13.4.3: nvidia-cuda-runtime 13.4.92"),
            (
                "12",
                &[Cudart],
                "12.9.2.0: nvidia-cuda-runtime-cu12 12.9.92",
            ),
            // nvJitLink stays in the minor.
            ("13", &[Cusparse, Nvjitlink], nvjitlink),
            ("13.4.3", &[Cusparse, Nvjitlink], nvjitlink),
            // A component without an extra follows the minor.
            ("13", &[Cudart, Cudla], cudla),
            // A minor without a metapackage is put together.
            ("13.5", &[Cudart], "13.5: nvidia-cuda-runtime 13.5.92"),
            // A release that never was.
            ("12.7", &[Cudart], "no nvidia-cuda-runtime-cu12==12.7.*"),
        ] {
            assert_eq!(
                shown(&spec(&request(release), components)),
                expected,
                "{release}"
            );
        }
    }

    #[test]
    fn a_later_minor_that_slipped_in_is_an_error() {
        // cuSPARSE requires nvJitLink, which is not requested and so not pinned.
        let mut request = request("13");
        let text = shown(&spec(&request, &[Component::Cusparse]));
        assert!(
            text.contains("no consistent CUDA 13.4.3: nvidia-nvjitlink 13.5.37"),
            "{text}"
        );
        request.only = vec![Component::Cusparse];
        let exact = spec(&request, &[Component::Cusparse]);
        assert_eq!(shown(&exact), "13.4.3: nvidia-cusparse 12.8.6.72");
    }

    #[test]
    fn a_header_package_is_resolved_alone() {
        let mut request = request("13");
        request.accepted = vec![(Component::Cutlass, "3.8".parse().unwrap())];
        let spec = spec(&request, &[Component::Cudart, Component::Cutlass]);
        let mut query = String::new();
        let set = resolve(&spec, &mut |lines, with_dependencies| {
            if with_dependencies {
                return index(lines);
            }
            query = lines.join(" ");
            Ok(vec![package("nvidia-cutlass", "3.8.0.0", '5')])
        });
        assert_eq!(query, "nvidia-cutlass>=3.8,<4");
        assert_eq!(set.unwrap().packages.len(), 2);
    }

    #[test]
    fn requirements_of_cargo_become_pythons() {
        for (cargo, expected) in [
            ("3.5.1", ">=3.5.1,<4"),
            ("^0.0", ">=0.0,<0.1"),
            ("~3.5.1", ">=3.5.1,<3.6"),
            ("=3.5.1", ">=3.5.1,<3.5.2"),
            (">3.5, <=4", ">=3.6,<5"),
            (">=9, <10", ">=9,<10"),
            ("*", ""),
        ] {
            let mut request = request("13");
            request.accepted = vec![(Component::Cutlass, cargo.parse().unwrap())];
            let line =
                spec(&request, &[]).requirement(Component::Cutlass, ToolkitVersion::new(13, 4));
            assert_eq!(line, Some(format!("nvidia-cutlass{expected}")), "{cargo}");
        }
    }

    #[test]
    fn a_base_stays_and_its_files_too() {
        let request = request("13");
        let mut spec = spec(&request, &[Component::Cudart, Component::Cudla]);
        let base = package("nvidia-cuda-runtime", "13.4.92", '1');
        spec.base = Some(PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![base.clone()],
            ..PackageSet::default()
        });
        let mut queries = Vec::new();
        let set = resolve(&spec, &mut |lines, _| {
            queries.push(lines.join(" "));
            index(lines)
        })
        .unwrap();
        let expected =
            "cuda-toolkit[cudart]==13.4.3 nvidia-cuda-runtime==13.4.92 nvidia-cudla==13.4.*";
        assert_eq!(queries, [expected]);
        assert!(set.packages.contains(&base));

        let packages = &mut spec.base.as_mut().unwrap().packages;
        packages[0] = package("nvidia-cuda-runtime", "13.4.92", 'f');
        let error = resolve(&spec, &mut |lines, _| index(lines)).unwrap_err();
        assert_eq!(error.code, crate::exit_code::LOCK, "{error}");
    }
}

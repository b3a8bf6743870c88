//! From a release and components to one consistent set of exact packages.
//!
//! The `cuda-toolkit` metapackage pins, through its extras, the component versions that were
//! released together, so it is resolved first. It leaves two gaps, which a second round closes:
//! it gives nvJitLink a range, whose newest version would be of a later minor, and some components
//! have no extra. A minor without a metapackage is put together from single packages whose
//! versions begin with it.

use std::collections::BTreeSet;

use cuda_build::internal::component::Class;
use cuda_build::{Component, ToolkitVersion};

use super::error::Refusal;
use super::package::{Package, PackageSet, is_known, package_of};
use super::{ReleaseSpec, StoreError};

const METAPACKAGE: &str = "cuda-toolkit";

/// Turns requirement lines into exact packages: an installer, or a recorded answer.
pub(super) type Resolver<'a> = dyn FnMut(&[String]) -> Result<Vec<Package>, Refusal> + 'a;

/// The set to resolve.
#[derive(Clone, Debug)]
pub(super) struct SetSpec {
    pub release: ReleaseSpec,
    pub components: BTreeSet<Component>,
    /// Leave out the packages that other packages require.
    pub exact: bool,
    /// A set whose release and packages are kept as they are.
    pub base: Option<PackageSet>,
}

/// Resolves until the set is complete, and checks that it is consistent.
///
/// # Errors
/// There is no such release, it lacks a component, or the index has no set whose versions belong
/// together.
pub(super) fn resolve(
    spec: &SetSpec,
    resolver: &mut Resolver<'_>,
) -> Result<PackageSet, StoreError> {
    // A base without a metapackage has only a minor.
    let by_minor = spec
        .base
        .as_ref()
        .and_then(|base| only_minor(&base.version));
    let set = match by_minor {
        Some(minor) => put_together(spec, minor, resolver)?,
        None => match resolver(&with_metapackage(spec)) {
            Ok(answer) => complete(spec, answer, resolver)?,
            Err(Refusal::NoMatch { message, .. }) => without_answer(spec, message, resolver)?,
            Err(Refusal::Failed(error)) => return Err(error),
        },
    };
    let set = keep_base(spec, set)?;
    match set.inconsistent() {
        Some(package) => Err(StoreError::Inconsistent {
            package: format!("{} {}", package.name, package.version),
            version: set.version,
        }),
        None => Ok(set),
    }
}

fn only_minor(version: &str) -> Option<ToolkitVersion> {
    (version.split('.').count() == 2).then(|| version.parse().ok())?
}

/// The clause that the metapackage must meet, and so the whole set.
fn metapackage_clause(spec: &SetSpec) -> String {
    spec.base.as_ref().map_or_else(
        || spec.release.clause(),
        |base| format!("=={}", base.version),
    )
}

fn with_metapackage(spec: &SetSpec) -> Vec<String> {
    let facts = spec.components.iter().map(|component| component.facts());
    let extras: Vec<&str> = facts.filter_map(|facts| facts.extra).collect();
    let mut lines = vec![format!(
        "{METAPACKAGE}[{}]{}",
        extras.join(","),
        metapackage_clause(spec)
    )];
    if extras.is_empty() {
        lines[0] = format!("{METAPACKAGE}{}", metapackage_clause(spec));
    }
    for &component in &spec.components {
        let Some(package) = package_of(component, spec.release.major()) else {
            continue;
        };
        match spec.release.minor() {
            Some(minor) if component.facts().class == Class::Provider => {
                lines.push(format!("{package}=={minor}.*"));
            }
            _ if component.facts().extra.is_none() => lines.push(package.to_owned()),
            _ => {}
        }
    }
    lines.extend(pins(spec));
    lines
}

fn pins(spec: &SetSpec) -> impl Iterator<Item = String> {
    let packages = spec.base.iter().flat_map(|base| &base.packages);
    packages.map(|package| format!("{}=={}", package.name, package.version))
}

/// Closes the metapackage's gaps.
fn complete(
    spec: &SetSpec,
    answer: Vec<Package>,
    resolver: &mut Resolver<'_>,
) -> Result<PackageSet, StoreError> {
    let set = split(spec, answer)?;
    let Ok(minor) = set.version.parse::<ToolkitVersion>() else {
        return Err(StoreError::Inconsistent {
            version: set.version,
            package: METAPACKAGE.to_owned(),
        });
    };
    let gaps: Vec<String> = spec
        .components
        .iter()
        .filter_map(|&component| {
            let package = package_of(component, minor.major)?;
            let follows = component.facts().follows_toolkit;
            match set.find(package) {
                None if follows => Some(format!("{package}=={minor}.*")),
                None => Some(package.to_owned()),
                Some(found) if follows && !found.is_of(minor) => {
                    Some(format!("{package}=={minor}.*"))
                }
                Some(_) => None,
            }
        })
        .collect();
    if gaps.is_empty() {
        return Ok(set);
    }
    let mut lines = with_metapackage(spec);
    // The same release, even if a newer one has appeared meanwhile.
    let extras = lines[0].split("==").next().unwrap_or(METAPACKAGE);
    lines[0] = format!("{extras}=={}", set.version);
    lines.extend(gaps);
    match resolver(&lines) {
        Ok(answer) => split(spec, answer),
        Err(Refusal::NoMatch { message, .. }) => Err(unresolvable(spec, message)),
        Err(Refusal::Failed(error)) => Err(error),
    }
}

/// The answer without the metapackage, whose version is the release.
fn split(spec: &SetSpec, mut answer: Vec<Package>) -> Result<PackageSet, StoreError> {
    let place = answer
        .iter()
        .position(|package| package.name == METAPACKAGE);
    let Some(place) = place else {
        return Err(StoreError::IndexLacks {
            package: METAPACKAGE.to_owned(),
            release: spec.release.clone(),
        });
    };
    let version = answer.remove(place).version;
    Ok(PackageSet {
        version,
        packages: with_components(spec, answer),
    })
}

/// The packages of components. Other required packages contain no CUDA component.
fn with_components(spec: &SetSpec, packages: Vec<Package>) -> Vec<Package> {
    let major = spec.release.major();
    let listed = |name: &str| {
        let mut components = spec.components.iter();
        components.any(|&component| package_of(component, major) == Some(name))
            || spec
                .base
                .as_ref()
                .is_some_and(|base| base.find(name).is_some())
    };
    let kept = |package: &Package| {
        if spec.exact {
            listed(&package.name)
        } else {
            is_known(&package.name, major)
        }
    };
    packages.into_iter().filter(kept).collect()
}

/// Finds out whether the release or one of its components does not exist.
fn without_answer(
    spec: &SetSpec,
    message: String,
    resolver: &mut Resolver<'_>,
) -> Result<PackageSet, StoreError> {
    match resolver(&[format!("{METAPACKAGE}{}", metapackage_clause(spec))]) {
        Ok(_) => Err(unresolvable(spec, message)),
        Err(Refusal::Failed(error)) => Err(error),
        Err(Refusal::NoMatch { unknown_name, .. }) => match spec.release.minor() {
            Some(minor) if spec.release.is_minor() && spec.base.is_none() => {
                put_together(spec, minor, resolver)
            }
            _ if unknown_name => Err(StoreError::IndexLacks {
                package: METAPACKAGE.to_owned(),
                release: spec.release.clone(),
            }),
            _ => Err(never_released(spec)),
        },
    }
}

/// A set by minor, without a metapackage. A package that does not follow the toolkit's version
/// (cuBLAS, CCCL …) is the newest one; the probe checks its major by its SONAME.
fn put_together(
    spec: &SetSpec,
    minor: ToolkitVersion,
    resolver: &mut Resolver<'_>,
) -> Result<PackageSet, StoreError> {
    let line = |component: Component| {
        let package = package_of(component, minor.major)?;
        let follows = component.facts().follows_toolkit;
        Some(if follows {
            format!("{package}=={minor}.*")
        } else {
            package.to_owned()
        })
    };
    let mut lines: Vec<String> = spec
        .components
        .iter()
        .filter_map(|&component| line(component))
        .collect();
    lines.extend(pins(spec));
    match resolver(&lines) {
        Ok(answer) => Ok(PackageSet {
            version: minor.to_string(),
            packages: with_components(spec, answer),
        }),
        Err(Refusal::Failed(error)) => Err(error),
        Err(Refusal::NoMatch { message, .. }) => {
            let there = line(Component::Cudart).map(|runtime| resolver(&[runtime]));
            match there {
                Some(Ok(_)) => Err(unresolvable(spec, message)),
                Some(Err(Refusal::Failed(error))) => Err(error),
                _ => Err(never_released(spec)),
            }
        }
    }
}

fn unresolvable(spec: &SetSpec, message: String) -> StoreError {
    StoreError::Unresolvable {
        release: spec.release.clone(),
        message,
    }
}

fn never_released(spec: &SetSpec) -> StoreError {
    StoreError::NeverReleased {
        release: spec.release.clone(),
    }
}

/// Keeps the hashes that were pinned before, and refuses other files of the same version.
fn keep_base(spec: &SetSpec, mut set: PackageSet) -> Result<PackageSet, StoreError> {
    for pinned in spec.base.iter().flat_map(|base| &base.packages) {
        if let Some(found) = set.packages.iter_mut().find(|package| package.is(pinned)) {
            if !found.shares_a_file_with(pinned) {
                let message = format!(
                    "{} {}: pinned {:?}, the index offers {:?}",
                    pinned.name, pinned.version, pinned.hashes, found.hashes
                );
                return Err(StoreError::HashMismatch { message });
            }
            found.hashes.clone_from(&pinned.hashes);
        }
    }
    set.packages.sort();
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    /// Answers by what is in the requirement lines, as a recorded index of three releases.
    fn index(lines: &[String]) -> Result<Vec<Package>, Refusal> {
        let no = || Refusal::NoMatch {
            message: lines.join(" "),
            unknown_name: false,
        };
        let has = |text: &str| lines.iter().any(|line| line.starts_with(text));
        let mut answer = Vec::new();
        let minor = if has("cuda-toolkit") {
            let meta = lines
                .iter()
                .find(|line| line.starts_with("cuda-toolkit"))
                .unwrap();
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
        if listed("cudart") || has("nvidia-cuda-runtime") {
            answer.push(package(
                &format!("nvidia-cuda-runtime{suffix}"),
                &format!("{minor}.92"),
                '1',
            ));
        }
        if wanted("cusparse") {
            answer.push(package(
                &format!("nvidia-cusparse{suffix}"),
                "12.8.6.72",
                '2',
            ));
        }
        if wanted("nvjitlink") || wanted("cusparse") {
            let pinned = lines
                .iter()
                .any(|line| line == &format!("nvidia-nvjitlink{suffix}=={minor}.*"));
            let version = if pinned {
                format!("{minor}.92")
            } else {
                "13.5.37".to_owned()
            };
            answer.push(package(&format!("nvidia-nvjitlink{suffix}"), &version, '3'));
        }
        // A component without an extra, at its newest unless the minor is named.
        if has("nvidia-cudla") {
            let pinned = lines.iter().any(|line| line == "nvidia-cudla==13.4.*");
            answer.push(package(
                "nvidia-cudla",
                if pinned { "13.4.92" } else { "13.5.37" },
                '4',
            ));
        }
        if has("nvidia-cuda-nope") {
            return Err(no());
        }
        Ok(answer)
    }

    fn spec(request: &str, components: &[Component]) -> SetSpec {
        SetSpec {
            release: request.parse().unwrap(),
            components: components.iter().copied().collect(),
            exact: false,
            base: None,
        }
    }

    fn shown(spec: &SetSpec) -> String {
        match resolve(spec, &mut |lines| index(lines)) {
            Ok(set) => {
                let packages: Vec<String> = set
                    .packages
                    .iter()
                    .map(|p| format!("{} {}", p.name, p.version))
                    .collect();
                format!("{}: {}", set.version, packages.join(", "))
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_metapackage_decides() {
        assert_eq!(
            shown(&spec("13", &[Component::Cudart])),
            "13.4.3: nvidia-cuda-runtime 13.4.92"
        );
        assert_eq!(
            shown(&spec("12", &[Component::Cudart])),
            "12.9.2.0: nvidia-cuda-runtime-cu12 12.9.92"
        );
    }

    #[test]
    fn nvjitlink_stays_in_the_minor() {
        let expected = "13.4.3: nvidia-cusparse 12.8.6.72, nvidia-nvjitlink 13.4.92";
        for request in ["13", "13.4", "13.4.3"] {
            assert_eq!(
                shown(&spec(request, &[Component::Cusparse, Component::Nvjitlink])),
                expected
            );
        }
        // With the minor known, one round is enough.
        let mut rounds = 0;
        let spec = spec("13.4", &[Component::Cusparse, Component::Nvjitlink]);
        resolve(&spec, &mut |lines| {
            rounds += 1;
            index(lines)
        })
        .unwrap();
        assert_eq!(rounds, 1);
    }

    #[test]
    fn a_later_minor_that_slipped_in_is_an_error() {
        // cuSPARSE requires nvJitLink, which is not requested and so not pinned.
        let text = shown(&spec("13", &[Component::Cusparse]));
        assert!(
            text.contains("no consistent CUDA 13.4.3: nvidia-nvjitlink 13.5.37"),
            "{text}"
        );
        let mut exact = spec("13", &[Component::Cusparse]);
        exact.exact = true;
        assert_eq!(shown(&exact), "13.4.3: nvidia-cusparse 12.8.6.72");
    }

    #[test]
    fn a_component_without_an_extra_follows_the_minor() {
        let text = shown(&spec("13", &[Component::Cudart, Component::Cudla]));
        assert_eq!(
            text,
            "13.4.3: nvidia-cuda-runtime 13.4.92, nvidia-cudla 13.4.92"
        );
    }

    #[test]
    fn a_minor_without_a_metapackage_is_put_together() {
        assert_eq!(
            shown(&spec("13.5", &[Component::Cudart])),
            "13.5: nvidia-cuda-runtime 13.5.92"
        );
    }

    #[test]
    fn a_release_that_never_was_is_named() {
        for request in ["14", "12.7", "13.5.37"] {
            let text = shown(&spec(request, &[Component::Cudart]));
            assert!(
                text.starts_with(&format!("CUDA {request} was never released")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_base_stays_and_its_files_too() {
        let mut spec = spec("13", &[Component::Cudart, Component::Cudla]);
        let base = package("nvidia-cuda-runtime", "13.4.92", '1');
        spec.base = Some(PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![base.clone()],
        });
        let mut queries = Vec::new();
        let set = resolve(&spec, &mut |lines| {
            queries.push(lines.join(" "));
            index(lines)
        })
        .unwrap();
        assert!(
            queries[0].starts_with("cuda-toolkit[cudart]==13.4.3"),
            "{queries:?}"
        );
        assert!(
            queries[0].ends_with("nvidia-cuda-runtime==13.4.92"),
            "{queries:?}"
        );
        assert_eq!(set.find("nvidia-cuda-runtime"), Some(&base));

        let other = package("nvidia-cuda-runtime", "13.4.92", 'f');
        spec.base = Some(PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![other],
        });
        let error = resolve(&spec, &mut |lines| index(lines)).unwrap_err();
        assert_eq!(error.exit_code(), crate::store::exit_code::LOCK, "{error}");
    }
}

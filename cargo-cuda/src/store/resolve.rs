//! From a request to one consistent set of exact packages.
//!
//! The `cuda-toolkit` metapackage knows which component versions were released together and
//! pins them through its extras, so it is asked first. It leaves two gaps, closed in a second
//! round: nvJitLink is pinned as a range (the newest would be of a later minor), and a component
//! may have no extra. A minor without a metapackage is put together from single packages whose
//! versions start with that minor.

use std::collections::BTreeSet;

use cuda_build::component::{Bundle, Class};
use cuda_build::{Component, ToolkitVersion};

use super::package::{Package, PackageSet, package_of};
use super::refusal::Refused;
use super::{Request, StoreError};

const METAPACKAGE: &str = "cuda-toolkit";

/// Turns requirement lines into exact packages: an installer, or a recorded one.
pub(super) type Ask<'a> = dyn FnMut(&[String]) -> Result<Vec<Package>, Refused> + 'a;

/// What a set has to be.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub request: Request,
    pub components: BTreeSet<Component>,
    /// Leave out packages that others require and nobody asked for.
    pub exact: bool,
    /// A set that was decided before: its version and its packages stay as they are.
    pub base: Option<PackageSet>,
}

/// Asks until the set is complete and consistent.
///
/// # Errors
/// No such version, a component that it does not have, or an index that offers no set whose
/// versions belong together.
pub(super) fn resolve(wish: &Wish, ask: &mut Ask<'_>) -> Result<PackageSet, StoreError> {
    // A base that was put together by minor has no metapackage to ask.
    let by_minor = wish
        .base
        .as_ref()
        .and_then(|base| only_minor(&base.version));
    let set = match by_minor {
        Some(minor) => loose(wish, minor, ask)?,
        None => match ask(&with_metapackage(wish)) {
            Ok(answer) => complete(wish, answer, ask)?,
            Err(Refused::NoMatch { message, .. }) => without_answer(wish, message, ask)?,
            Err(Refused::Failed(error)) => return Err(error),
        },
    };
    let set = keep_base(wish, set)?;
    consistent(&set)?;
    Ok(set)
}

fn only_minor(version: &str) -> Option<ToolkitVersion> {
    (version.split('.').count() == 2).then(|| version.parse().ok())?
}

/// The clause that the metapackage must meet, and so the whole set.
fn metapackage_clause(wish: &Wish) -> String {
    wish.base.as_ref().map_or_else(
        || wish.request.clause(),
        |base| format!("=={}", base.version),
    )
}

fn with_metapackage(wish: &Wish) -> Vec<String> {
    let facts = wish.components.iter().map(|component| component.facts());
    let extras: Vec<&str> = facts.filter_map(|facts| facts.extra).collect();
    let mut lines = vec![format!(
        "{METAPACKAGE}[{}]{}",
        extras.join(","),
        metapackage_clause(wish)
    )];
    if extras.is_empty() {
        lines[0] = format!("{METAPACKAGE}{}", metapackage_clause(wish));
    }
    for &component in &wish.components {
        let Some(package) = package_of(component, wish.request.major()) else {
            continue;
        };
        match wish.request.minor() {
            Some(minor) if component.facts().class == Class::Provider => {
                lines.push(format!("{package}=={minor}.*"));
            }
            _ if component.facts().extra.is_none() => lines.push(package.to_owned()),
            _ => {}
        }
    }
    lines.extend(pins(wish));
    lines
}

fn pins(wish: &Wish) -> impl Iterator<Item = String> {
    let packages = wish.base.iter().flat_map(|base| &base.packages);
    packages.map(|package| format!("{}=={}", package.name, package.version))
}

/// Closes the metapackage's gaps.
fn complete(
    wish: &Wish,
    answer: Vec<Package>,
    ask: &mut Ask<'_>,
) -> Result<PackageSet, StoreError> {
    let set = split(wish, answer)?;
    let Ok(minor) = set.version.parse::<ToolkitVersion>() else {
        return Err(StoreError::Inconsistent {
            version: set.version,
            package: METAPACKAGE.to_owned(),
        });
    };
    let gaps: Vec<String> = wish
        .components
        .iter()
        .filter_map(|&component| {
            let package = package_of(component, minor.major)?;
            let follows = component.facts().follows_toolkit;
            match set.find(package) {
                None if follows => Some(format!("{package}=={minor}.*")),
                None => Some(package.to_owned()),
                Some(found) if follows && !belongs(found, minor) => {
                    Some(format!("{package}=={minor}.*"))
                }
                Some(_) => None,
            }
        })
        .collect();
    if gaps.is_empty() {
        return Ok(set);
    }
    let mut lines = with_metapackage(wish);
    // From here on it is this version, even if a newer one appears meanwhile.
    let extras = lines[0].split("==").next().unwrap_or(METAPACKAGE);
    lines[0] = format!("{extras}=={}", set.version);
    lines.extend(gaps);
    match ask(&lines) {
        Ok(answer) => split(wish, answer),
        Err(Refused::NoMatch { message, .. }) => Err(StoreError::Unresolvable {
            request: wish.request.clone(),
            message,
        }),
        Err(Refused::Failed(error)) => Err(error),
    }
}

/// The answer with the metapackage taken out, which only tells the version.
fn split(wish: &Wish, mut answer: Vec<Package>) -> Result<PackageSet, StoreError> {
    let place = answer
        .iter()
        .position(|package| package.name == METAPACKAGE);
    let Some(place) = place else {
        return Err(StoreError::IndexLacks {
            package: METAPACKAGE.to_owned(),
            request: wish.request.clone(),
        });
    };
    let version = answer.remove(place).version;
    Ok(PackageSet {
        version,
        packages: asked_for(wish, answer),
    })
}

fn asked_for(wish: &Wish, packages: Vec<Package>) -> Vec<Package> {
    let asked = |name: &str| {
        wish.components
            .iter()
            .any(|&c| package_of(c, wish.request.major()) == Some(name))
            || wish
                .base
                .as_ref()
                .is_some_and(|base| base.find(name).is_some())
    };
    packages
        .into_iter()
        .filter(|package| !wish.exact || asked(&package.name))
        .collect()
}

/// The metapackage and the components together gave nothing: which of them is it?
fn without_answer(
    wish: &Wish,
    message: String,
    ask: &mut Ask<'_>,
) -> Result<PackageSet, StoreError> {
    match ask(&[format!("{METAPACKAGE}{}", metapackage_clause(wish))]) {
        Ok(_) => Err(StoreError::Unresolvable {
            request: wish.request.clone(),
            message,
        }),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::NoMatch { unknown_name, .. }) => match wish.request.minor() {
            Some(minor) if wish.request.is_minor() && wish.base.is_none() => {
                loose(wish, minor, ask)
            }
            _ if unknown_name => Err(StoreError::IndexLacks {
                package: METAPACKAGE.to_owned(),
                request: wish.request.clone(),
            }),
            _ => Err(StoreError::NeverReleased {
                request: wish.request.clone(),
            }),
        },
    }
}

/// A set by minor, without a metapackage. What does not follow the toolkit's version (cuBLAS,
/// CCCL …) is the newest that fits; that it is of the right major is proved by its SONAME later.
fn loose(wish: &Wish, minor: ToolkitVersion, ask: &mut Ask<'_>) -> Result<PackageSet, StoreError> {
    let line = |component: Component| {
        let package = package_of(component, minor.major)?;
        let follows = component.facts().follows_toolkit;
        Some(if follows {
            format!("{package}=={minor}.*")
        } else {
            package.to_owned()
        })
    };
    let mut lines: Vec<String> = wish
        .components
        .iter()
        .filter_map(|&component| line(component))
        .collect();
    lines.extend(pins(wish));
    match ask(&lines) {
        Ok(answer) => Ok(PackageSet {
            version: minor.to_string(),
            packages: asked_for(wish, answer),
        }),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::NoMatch { message, .. }) => {
            let there = line(Component::Cudart).map(|runtime| ask(&[runtime]));
            match there {
                Some(Ok(_)) => Err(StoreError::Unresolvable {
                    request: wish.request.clone(),
                    message,
                }),
                Some(Err(Refused::Failed(error))) => Err(error),
                _ => Err(StoreError::NeverReleased {
                    request: wish.request.clone(),
                }),
            }
        }
    }
}

/// Keeps the hashes that were pinned before, and refuses other files under the same version.
fn keep_base(wish: &Wish, mut set: PackageSet) -> Result<PackageSet, StoreError> {
    for pinned in wish.base.iter().flat_map(|base| &base.packages) {
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

fn belongs(package: &Package, minor: ToolkitVersion) -> bool {
    package.minor() == Some((minor.major.into(), minor.minor.into()))
}

/// Every package that follows the toolkit's version must be of its minor.
fn consistent(set: &PackageSet) -> Result<(), StoreError> {
    let minor = set.version.parse::<ToolkitVersion>();
    for component in set.components() {
        let facts = component.facts();
        let Some(package) = set.carrier(component) else {
            continue;
        };
        if facts.bundle != Bundle::Product
            && facts.follows_toolkit
            && !minor.as_ref().is_ok_and(|&minor| belongs(package, minor))
        {
            return Err(StoreError::Inconsistent {
                version: set.version.clone(),
                package: format!("{} {}", package.name, package.version),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    /// Answers by what is in the requirement lines, as a recorded index of three releases.
    fn index(lines: &[String]) -> Result<Vec<Package>, Refused> {
        let no = || Refused::NoMatch {
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
        let asked = |id: &str| lines[0].contains(id) || has(&format!("nvidia-{id}"));
        let suffix = if minor == "12.9" { "-cu12" } else { "" };
        let wanted = |name: &str| {
            has(&format!("nvidia-{name}")) || name.split('-').any(|word| lines[0].contains(word))
        };
        if asked("cudart") || has("nvidia-cuda-runtime") {
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

    fn wish(request: &str, components: &[Component]) -> Wish {
        Wish {
            request: request.parse().unwrap(),
            components: components.iter().copied().collect(),
            exact: false,
            base: None,
        }
    }

    fn shown(wish: &Wish) -> String {
        match resolve(wish, &mut |lines| index(lines)) {
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
            shown(&wish("13", &[Component::Cudart])),
            "13.4.3: nvidia-cuda-runtime 13.4.92"
        );
        assert_eq!(
            shown(&wish("12", &[Component::Cudart])),
            "12.9.2.0: nvidia-cuda-runtime-cu12 12.9.92"
        );
    }

    #[test]
    fn nvjitlink_stays_in_the_minor() {
        let expected = "13.4.3: nvidia-cusparse 12.8.6.72, nvidia-nvjitlink 13.4.92";
        for request in ["13", "13.4", "13.4.3"] {
            assert_eq!(
                shown(&wish(request, &[Component::Cusparse, Component::Nvjitlink])),
                expected
            );
        }
        // With the minor known, one round is enough.
        let mut rounds = 0;
        let wish = wish("13.4", &[Component::Cusparse, Component::Nvjitlink]);
        resolve(&wish, &mut |lines| {
            rounds += 1;
            index(lines)
        })
        .unwrap();
        assert_eq!(rounds, 1);
    }

    #[test]
    fn a_later_minor_that_slipped_in_is_an_error() {
        // cuSPARSE requires nvJitLink, which nobody asked for and so nobody pinned.
        let text = shown(&wish("13", &[Component::Cusparse]));
        assert!(
            text.contains("no consistent CUDA 13.4.3: nvidia-nvjitlink 13.5.37"),
            "{text}"
        );
        let mut exact = wish("13", &[Component::Cusparse]);
        exact.exact = true;
        assert_eq!(shown(&exact), "13.4.3: nvidia-cusparse 12.8.6.72");
    }

    #[test]
    fn a_component_without_an_extra_follows_the_minor() {
        let text = shown(&wish("13", &[Component::Cudart, Component::Cudla]));
        assert_eq!(
            text,
            "13.4.3: nvidia-cuda-runtime 13.4.92, nvidia-cudla 13.4.92"
        );
    }

    #[test]
    fn a_minor_without_a_metapackage_is_put_together() {
        assert_eq!(
            shown(&wish("13.5", &[Component::Cudart])),
            "13.5: nvidia-cuda-runtime 13.5.92"
        );
    }

    #[test]
    fn what_never_was_is_said_so() {
        for request in ["14", "12.7", "13.5.37"] {
            let text = shown(&wish(request, &[Component::Cudart]));
            assert!(
                text.starts_with(&format!("CUDA {request} was never released")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_base_stays_and_its_files_too() {
        let mut wish = wish("13", &[Component::Cudart, Component::Cudla]);
        let base = package("nvidia-cuda-runtime", "13.4.92", '1');
        wish.base = Some(PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![base.clone()],
        });
        let mut asked = Vec::new();
        let set = resolve(&wish, &mut |lines| {
            asked.push(lines.join(" "));
            index(lines)
        })
        .unwrap();
        assert!(
            asked[0].starts_with("cuda-toolkit[cudart]==13.4.3"),
            "{asked:?}"
        );
        assert!(
            asked[0].ends_with("nvidia-cuda-runtime==13.4.92"),
            "{asked:?}"
        );
        assert_eq!(set.find("nvidia-cuda-runtime"), Some(&base));

        let other = package("nvidia-cuda-runtime", "13.4.92", 'f');
        wish.base = Some(PackageSet {
            version: "13.4.3".to_owned(),
            packages: vec![other],
        });
        let error = resolve(&wish, &mut |lines| index(lines)).unwrap_err();
        assert_eq!(error.exit_code(), crate::store::exit_code::LOCK, "{error}");
    }
}

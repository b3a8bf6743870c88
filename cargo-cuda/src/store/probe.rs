//! Proof that a package holds the component it is named for.
//!
//! Some package names are placeholders (`nvidia-npp-cu13`, `nvidia-cuda-runtime-cu13`): they
//! install, and hold nothing. So the files themselves are looked for, by the package's `RECORD`.

use std::path::Path;

use cuda_build::component::Bundle;
use cuda_build::release::NEWEST_MAJOR;
use cuda_build::{Component, Root};

use super::StoreError;
use super::package::{Package, PackageSet, normal_name};

/// Paths below site-packages that an installed package says are its own; none that leave it.
pub(super) fn files_of(site: &Path, package: &Package, root: &Root) -> Vec<String> {
    let Some(directory) = dist_info(site, package, root) else {
        return Vec::new();
    };
    let record = root
        .text(&site.join(directory).join("RECORD"))
        .unwrap_or_default();
    let inside =
        |path: &String| !Path::new(path).is_absolute() && !path.split('/').any(|part| part == "..");
    record
        .lines()
        .filter_map(first_field)
        .filter(inside)
        .collect()
}

/// `nvidia_cuda_runtime-13.4.92.dist-info`, whatever the spelling of the name.
fn dist_info(site: &Path, package: &Package, root: &Root) -> Option<String> {
    let names = root
        .names(site)
        .into_iter()
        .filter_map(|name| name.into_string().ok());
    names.into_iter().find(|name| {
        let split = name
            .strip_suffix(".dist-info")
            .and_then(|stem| stem.rsplit_once('-'));
        split.is_some_and(|(name, version)| {
            normal_name(name) == package.name && version == package.version
        })
    })
}

/// `RECORD` is CSV: a path that holds a comma or a quote is quoted.
fn first_field(line: &str) -> Option<String> {
    let Some(quoted) = line.strip_prefix('"') else {
        return line
            .split(',')
            .next()
            .filter(|path| !path.is_empty())
            .map(str::to_owned);
    };
    let end = quoted.replace("\"\"", "\0\0").find('"')?;
    Some(quoted[..end].replace("\"\"", "\""))
}

/// Checks one component of a set that lies in `site`.
///
/// # Errors
/// [`StoreError::NotInPackage`] names the package and what it should hold.
pub(super) fn probe(
    site: &Path,
    set: &PackageSet,
    component: Component,
    root: &Root,
) -> Result<(), StoreError> {
    let Some(package) = set.carrier(component) else {
        return Err(StoreError::NoPackage {
            component,
            major: set.major(),
        });
    };
    let files = files_of(site, package, root);
    for proof in proofs(component, set.major()) {
        let found = files
            .iter()
            .any(|path| proof.fits(path) && root.is_file(&site.join(path)));
        if !found {
            return Err(StoreError::NotInPackage {
                component,
                package: format!("{} {}", package.name, package.version),
                missing: proof.to_string(),
            });
        }
    }
    Ok(())
}

/// A file that a component can't be without.
#[derive(Debug, PartialEq, Eq)]
enum Proof {
    Header(&'static str),
    Tool(&'static str),
    /// Any of these: one library may have had several SONAMEs within a CUDA major.
    Library(Vec<&'static str>),
    Archive(&'static str),
}

impl Proof {
    fn fits(&self, path: &str) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or_default();
        match self {
            Self::Header(header) => {
                // A header's name may begin with directories of its own (`crt/host_config.h`).
                let directory = path
                    .strip_suffix(header)
                    .and_then(|rest| rest.strip_suffix('/'));
                directory
                    .is_some_and(|directory| directory.split('/').any(|part| part == "include"))
            }
            Self::Tool(tool) => {
                name == *tool && (directory == "bin" || directory.ends_with("/bin"))
            }
            Self::Library(sonames) => sonames.contains(&name),
            Self::Archive(archive) => name == *archive,
        }
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header `{name}`"),
            Self::Tool(name) => write!(f, "program `bin/{name}`"),
            Self::Library(sonames) => write!(f, "library `{}`", sonames.join("` or `")),
            Self::Archive(name) => write!(f, "static library `{name}`"),
        }
    }
}

/// Header, main program and main library, as far as the component has them. For a major that
/// the tables don't know, the SONAME is not known either.
fn proofs(component: Component, major: u32) -> Vec<Proof> {
    let facts = component.facts();
    let mut proofs: Vec<Proof> = facts.header.map(Proof::Header).into_iter().collect();
    proofs.extend(facts.tools.first().map(|tool| Proof::Tool(tool)));
    // The driver's libraries never come in a package.
    if facts.bundle != Bundle::Driver
        && let Some(library) = facts.libraries.first()
    {
        let stem = format!("lib{library}.so");
        let sonames: Vec<&str> = (0..)
            .map_while(|index| facts.soname(index, major))
            .filter(|soname| {
                soname
                    .strip_prefix(&stem)
                    .is_some_and(|end| end.is_empty() || end.starts_with('.'))
            })
            .collect();
        proofs.extend((!sonames.is_empty()).then_some(Proof::Library(sonames)));
    }
    if proofs.is_empty() && major <= NEWEST_MAJOR {
        proofs.extend(
            facts
                .archives
                .first()
                .map(|archive| Proof::Archive(archive)),
        );
    }
    proofs
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    #[test]
    fn every_component_with_a_package_has_a_proof() {
        for component in Component::all() {
            for major in 11..=13 {
                if component.facts().package(major).is_some() {
                    assert!(!proofs(component, major).is_empty(), "{component} {major}");
                }
            }
        }
    }

    #[test]
    fn files_fit_by_their_place() {
        assert!(Proof::Header("cub/version.cuh").fits("nvidia/cu13/include/cccl/cub/version.cuh"));
        assert!(!Proof::Header("npp.h").fits("nvidia/cu13/include/xnpp.h"));
        assert!(!Proof::Header("nvvm.h").fits("nvidia/cu13/nvvm.h"));
        assert!(Proof::Tool("cicc").fits("nvidia/cu13/nvvm/bin/cicc"));
        assert!(!Proof::Tool("nvcc").fits("nvidia/cuda_nvcc/nvcc"));
        assert!(Proof::Library(vec!["libcudart.so.13"]).fits("nvidia/cu13/lib/libcudart.so.13"));
    }

    #[test]
    fn the_main_library_is_a_proof() {
        let cudss = proofs(Component::Cudss, 13);
        assert_eq!(cudss[1], Proof::Library(vec!["libcudss.so.1"]));
        assert!(cudss[1].fits("nvidia/cu13/lib/libcudss.so.1"));
        let nvrtc = proofs(Component::Nvrtc, 12);
        assert_eq!(
            nvrtc,
            [
                Proof::Header("nvrtc.h"),
                Proof::Library(vec!["libnvrtc.so.12"])
            ]
        );
    }

    #[test]
    fn records_are_csv() {
        assert_eq!(first_field("a/b.h,sha256=x,12").as_deref(), Some("a/b.h"));
        assert_eq!(
            first_field("\"a,\"\"b\"\".h\",sha256=x,12").as_deref(),
            Some("a,\"b\".h")
        );
        assert_eq!(first_field(""), None);
    }

    #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
    fn site(record: &str, files: &[&str]) -> tempfile::TempDir {
        let site = tempfile::tempdir().unwrap();
        let info = site.path().join("nvidia_npp_cu13-0.0.1.dist-info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("RECORD"), record).unwrap();
        for file in files {
            let path = site.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        site
    }

    #[test]
    fn a_record_alone_proves_nothing() {
        let record = "nvidia/npp/include/npp.h,,\nnvidia/npp/lib/libnppc.so.13,,\n../../etc/passwd,,\n/etc/hosts,,\n";
        let npp = package("nvidia-npp-cu13", "0.0.1", '0');
        let listed = |files: &[&str]| {
            let site = site(record, files);
            let there = files_of(site.path(), &npp, &Root::system());
            assert_eq!(there.len(), 2, "{there:?}");
            there
                .iter()
                .filter(|path| Root::system().is_file(&site.path().join(path)))
                .count()
        };
        assert_eq!(listed(&[]), 0);
        assert_eq!(listed(&["nvidia/npp/include/npp.h"]), 1);
    }

    #[test]
    fn a_placeholder_is_named() {
        let mut npp = package("nvidia-npp-cu12", "0.0.1", '0');
        let set = |npp: &Package| PackageSet {
            version: "12.9.2".to_owned(),
            packages: vec![npp.clone()],
        };
        let record = "nvidia_npp_cu13-0.0.1.dist-info/RECORD,,\n";
        let error = probe(
            site(record, &[]).path(),
            &set(&npp),
            Component::Npp,
            &Root::system(),
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nvidia-npp-cu12 0.0.1") && text.contains("header `npp.h`"),
            "{text}"
        );
        // A set without the package at all.
        npp.name = "other".to_owned();
        assert!(
            probe(
                Path::new("/nonexistent"),
                &set(&npp),
                Component::Npp,
                &Root::system()
            )
            .is_err()
        );
    }
}

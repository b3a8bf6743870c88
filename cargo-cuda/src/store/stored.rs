//! The toolkits in the store: list, remove, and the checks of their files. Each file of a package is
//! checked by its `RECORD`, and each component by the search's own probe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_build::internal::{Root, Target, store};

use super::directory::Store;
use super::lock::Index;
use super::package::{Manifest, PackageSet, normal_name};
use super::progress::Progress;
use super::{Context, Package, StoreError};

/// A toolkit of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The release.
    pub version: String,
    /// Machine and system that it is for, such as `x86_64-linux`.
    pub platform: String,
    /// The components that were found when it was added.
    pub components: Vec<Component>,
    /// The exact packages.
    pub packages: Vec<Package>,
    /// Of all its files. Toolkits may share files, so the sum over several can be too much.
    pub bytes: u64,
    /// Requests that were last resolved to it, such as `13`.
    pub requests: Vec<String>,
    /// Why it cannot be used as it is.
    pub problem: Option<String>,
}

/// A toolkit that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The directory's name.
    pub name: String,
    /// Where it was.
    pub path: PathBuf,
    /// Of all its files.
    pub bytes: u64,
}

/// All toolkits of the store, sorted by name, also those that cannot be used. Nothing if there is
/// no store yet.
///
/// # Errors
/// No variable names the store, or other users can write in it.
pub fn list(context: &Context) -> Result<Vec<Listed>, StoreError> {
    let store = Store::locate(&context.env)?;
    store.clean();
    let index = Index::read(&store);
    let names = store.names().into_iter();
    Ok(names
        .filter_map(|name| listed(&store, &index, name))
        .collect())
}

fn listed(store: &Store, index: &Index, name: String) -> Option<Listed> {
    let path = store.path(&name);
    let (manifest, problem) = match store.manifest(&name) {
        Ok(manifest) => {
            let manifest = manifest?;
            let problem = damage(&path, &manifest.set(), &Root::system());
            (Some(manifest), problem)
        }
        Err(reason) => (None, Some(reason)),
    };
    let version = name.split('-').next().unwrap_or_default();
    Some(Listed {
        requests: index.requests(&name),
        version: manifest
            .as_ref()
            .map_or(version, |found| &found.version)
            .to_owned(),
        components: manifest
            .as_ref()
            .map(Manifest::components)
            .unwrap_or_default(),
        bytes: manifest.as_ref().map_or(0, |found| found.bytes),
        platform: manifest
            .as_ref()
            .map(|found| found.platform.clone())
            .unwrap_or_default(),
        packages: manifest.map(|found| found.packages).unwrap_or_default(),
        problem,
        path,
        name,
    })
}

/// Removes the toolkit of this name, or of this release as far as it is given.
///
/// # Errors
/// There is no such toolkit, or there are several.
pub fn remove(name: &str, context: &Context) -> Result<Removed, StoreError> {
    let store = Store::locate(&context.env)?;
    let progress = Progress::new(context.messages);
    let all = list(context)?;
    let Listed {
        name, path, bytes, ..
    } = choose(name, all)?;
    let _guard = store.lock(&name, &progress)?;
    Index::change(&store, &progress, |requests| {
        requests.retain(|_, resolved| *resolved != name);
    })?;
    store.discard(&name)?;
    Ok(Removed { name, path, bytes })
}

fn choose(name: &str, mut all: Vec<Listed>) -> Result<Listed, StoreError> {
    let stored = all.iter().map(|toolkit| toolkit.name.clone()).collect();
    if let Some(exact) = all.iter().position(|toolkit| toolkit.name == name) {
        return Ok(all.swap_remove(exact));
    }
    let below = format!("{name}.");
    all.retain(|toolkit| toolkit.version == name || toolkit.version.starts_with(&below));
    let name = name.to_owned();
    match all.pop() {
        Some(one) if all.is_empty() => Ok(one),
        Some(one) => {
            all.push(one);
            let names = all.into_iter().map(|toolkit| toolkit.name).collect();
            Err(StoreError::Ambiguous { name, names })
        }
        None => Err(StoreError::NotStored { name, stored }),
    }
}

/// The files of an installed package, with their sizes: paths below site-packages, none of which
/// leaves it. `None` if the package is not installed there.
pub(super) fn files_of(
    site: &Path,
    package: &Package,
    root: &Root,
) -> Option<BTreeMap<String, Option<u64>>> {
    let names = root.names(site).into_iter();
    let info = names
        .filter_map(|name| name.into_string().ok())
        .find(|name| {
            let stem = name.strip_suffix(".dist-info");
            let parts = stem.and_then(|stem| stem.rsplit_once('-'));
            parts.is_some_and(|(name, version)| {
                normal_name(name) == package.name && version == package.version
            })
        })?;
    let record = root.text(&site.join(info).join("RECORD")).ok()?;
    let inside =
        |path: &str| !Path::new(path).is_absolute() && path.split('/').all(|part| part != "..");
    let files = record.lines().filter_map(parse_line);
    Some(files.filter(|(path, _)| inside(path)).collect())
}

/// Path and size of a line of `RECORD`: `a/b.h,sha256=…,12`. The file is CSV, and a path with a
/// comma or a quote is quoted.
fn parse_line(line: &str) -> Option<(String, Option<u64>)> {
    let size = line.rsplit(',').next()?.trim().parse().ok();
    let path = match line.strip_prefix('"') {
        Some(quoted) => {
            let end = quoted.replace("\"\"", "\0\0").find('"')?;
            quoted[..end].replace("\"\"", "\"")
        }
        None => line.split(',').next()?.to_owned(),
    };
    (!path.is_empty()).then_some((path, size))
}

/// The first package of a set, and its first file, that is missing or has another size.
pub(super) fn damage(site: &Path, set: &PackageSet, root: &Root) -> Option<String> {
    set.packages
        .iter()
        .find_map(|package| damage_of(site, package, root))
}

/// As [`damage`], of one package.
pub(super) fn damage_of(site: &Path, package: &Package, root: &Root) -> Option<String> {
    let Package { name, version, .. } = package;
    let files = files_of(site, package, root).filter(|files| !files.is_empty());
    let Some(files) = files else {
        return Some(format!("package {name} {version} is not installed"));
    };
    files.iter().find_map(|(path, size)| {
        let problem = match root.metadata(&site.join(path)) {
            Ok(found) if found.is_file() && size.is_none_or(|size| size == found.len()) => {
                return None;
            }
            Ok(_) => "is damaged",
            Err(_) => "is missing",
        };
        Some(format!("`{path}` of {name} {version} {problem}"))
    })
}

/// The components of a set that the search finds in `site`.
///
/// # Errors
/// [`StoreError::NotInPackage`] if one of `wanted` is not among them: some package names are
/// placeholders (`nvidia-cuda-runtime-cu13`), which install and contain nothing.
pub(super) fn components(
    site: &Path,
    set: &PackageSet,
    wanted: impl IntoIterator<Item = Component>,
    root: &Root,
) -> Result<Vec<Component>, StoreError> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let Ok(target) = Target::from_triple(&triple) else {
        // Nothing can be built for this machine, and nothing is known of its layout.
        return Ok(set.components().collect());
    };
    let attempt = store::probe(root, &target, site);
    let major = set.major();
    let probed = attempt.sets.iter().find(|probed| probed.major == major);
    let found = |component: Component| probed.is_some_and(|probed| probed.get(component).is_some());
    for component in wanted {
        let Some(package) = set.carrier(component) else {
            return Err(StoreError::NoPackage { component, major });
        };
        if !found(component) {
            let mut unusable = attempt.unusable.iter();
            let reason = unusable.find(|it| it.component == component && it.major == major);
            return Err(StoreError::NotInPackage {
                component,
                package: format!("{} {}", package.name, package.version),
                reason: reason.map_or_else(
                    || "none of its files was found".to_owned(),
                    |it| it.reason.clone(),
                ),
            });
        }
    }
    Ok(set
        .components()
        .filter(|&component| found(component))
        .collect())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests prepare real directories")]
mod tests {
    use std::fs;

    use super::super::package::tests::package;
    use super::*;

    fn toolkit(name: &str) -> Listed {
        Listed {
            name: name.to_owned(),
            path: PathBuf::new(),
            version: name.split('-').next().unwrap().to_owned(),
            platform: String::new(),
            components: Vec::new(),
            packages: Vec::new(),
            bytes: 0,
            requests: Vec::new(),
            problem: None,
        }
    }

    #[test]
    fn one_toolkit_matches_or_none_is_removed() {
        let all = ["12.9.2.0-1", "13.4.3-2", "13.4.3-3", "13.5-4"]
            .map(toolkit)
            .to_vec();
        let chosen = |name: &str| choose(name, all.clone()).map(|toolkit| toolkit.name);
        assert_eq!(chosen("12").unwrap(), "12.9.2.0-1");
        assert_eq!(chosen("13.5").unwrap(), "13.5-4");
        assert_eq!(chosen("13.4.3-3").unwrap(), "13.4.3-3");
        for (name, matching) in [("13.4.3", 2), ("13", 3)] {
            let error = chosen(name).unwrap_err();
            assert!(
                matches!(&error, StoreError::Ambiguous { names, .. } if names.len() == matching),
                "{error}"
            );
        }
        for none in ["1", "", "14", "../13.5-4", "13.4.3-"] {
            assert!(
                matches!(chosen(none), Err(StoreError::NotStored { .. })),
                "{none}"
            );
        }
    }

    #[test]
    fn records_are_csv() {
        let line = |text: &str| parse_line(text);
        assert_eq!(
            line("a/b.h,sha256=x,12"),
            Some(("a/b.h".to_owned(), Some(12)))
        );
        assert_eq!(
            line("\"a,\"\"b\"\".h\",sha256=x,12"),
            Some(("a,\"b\".h".to_owned(), Some(12)))
        );
        assert_eq!(line("a/RECORD,,"), Some(("a/RECORD".to_owned(), None)));
        assert_eq!(line(""), None);
    }

    /// cuFFT 12 as a wheel that contains these files.
    fn site(files: &[(&str, &str)]) -> (tempfile::TempDir, PackageSet) {
        let site = tempfile::tempdir().unwrap();
        let info = "nvidia_cufft_cu12-11.4.1.4.dist-info";
        fs::create_dir_all(site.path().join(info)).unwrap();
        let mut record = format!("{info}/RECORD,,\n../../bin/x,,1\n/etc/hosts,,1\n");
        for (path, text) in files {
            let file = site.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            record.push_str(&format!("{path},,{}\n", text.len()));
        }
        fs::write(site.path().join(info).join("RECORD"), record).unwrap();
        let set = PackageSet {
            version: "12.9.2".to_owned(),
            packages: vec![package("nvidia-cufft-cu12", "11.4.1.4", '0')],
        };
        (site, set)
    }

    const LIBRARY: &str = "nvidia/cufft/lib/libcufft.so.11";
    const WHOLE: [(&str, &str); 2] = [
        (LIBRARY, "library"),
        ("nvidia/cufft/include/cufft.h", "header"),
    ];

    #[test]
    fn a_missing_or_shortened_file_is_damage() {
        let root = Root::system();
        let (site, set) = site(&WHOLE);
        assert_eq!(damage(site.path(), &set, &root), None);
        let library = site.path().join(LIBRARY);
        let expect = |problem: &str| {
            let damage = damage(site.path(), &set, &root).unwrap();
            assert!(
                damage.contains(LIBRARY) && damage.ends_with(problem),
                "{damage}"
            );
        };
        fs::write(&library, "").unwrap();
        expect("is damaged");
        fs::remove_file(&library).unwrap();
        expect("is missing");
        std::os::unix::fs::symlink("absent", &library).unwrap();
        expect("is missing");
        let other = package("nvidia-cufft-cu12", "11.4.1.5", '0');
        assert!(
            damage_of(site.path(), &other, &root)
                .unwrap()
                .ends_with("is not installed")
        );
    }

    #[test]
    fn a_placeholder_is_named() {
        let root = Root::system();
        let (site_packages, set) = site(&WHOLE);
        let found = components(site_packages.path(), &set, [Component::Cufft], &root);
        assert_eq!(found.unwrap(), [Component::Cufft]);
        let (site_packages, set) = site(&[]);
        let error = components(site_packages.path(), &set, [Component::Cufft], &root).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nvidia-cufft-cu12 11.4.1.4") && text.contains("`cufft`"),
            "{text}"
        );
        let found = components(site_packages.path(), &set, [], &root);
        assert_eq!(found.unwrap(), []);
        let error = components(site_packages.path(), &set, [Component::Cublas], &root).unwrap_err();
        assert!(matches!(error, StoreError::NoPackage { .. }), "{error}");
    }
}

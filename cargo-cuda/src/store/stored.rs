//! Lists, removes and checks the toolkits in the store. The files of a package are checked against
//! its `RECORD`, and each component with the probe of the search.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_build::internal::{Root, Target, store};
use serde::{Serialize, Serializer};

use super::directory::Store;
use super::lock::Lock;
use super::package::{Manifest, Package, PackageSet, Source, normal_name};
use super::refusal::{OTHER_SOURCES_HINT, no_package};
use super::{Context, Progress, human_size, parse_release};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;

/// A toolkit of the store.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its directory's name.
    pub name: String,
    /// The directory.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The release.
    pub version: String,
    /// Its platform, such as `x86_64-linux`.
    pub platform: String,
    /// The components that were found when it was added.
    pub components: Vec<String>,
    /// The exact packages.
    pub packages: Vec<Package>,
    /// The size of all its files. Toolkits may share files, so a sum over several may be too large.
    pub bytes: u64,
    /// Requests that were last resolved to it, such as `13`.
    pub requests: Vec<String>,
    /// Why it cannot be used; `None` if it can.
    pub problem: Option<String>,
    /// Whether the problem is that files are missing or have another size. Otherwise the toolkit may be intact, such as
    /// one of a newer cargo-cuda.
    #[serde(skip)]
    is_damaged: bool,
}

/// Serializes a path. Bytes that are not UTF-8 are replaced, because JSON is UTF-8.
pub(super) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// All toolkits of the store, sorted by name, including those that cannot be used. Empty if there
/// is no store yet.
pub fn list(context: &Context) -> Result<Vec<Listed>, Failure> {
    let store = Store::open(&context.env, "toolkits")?;
    let index = Lock::read(&store.index()).unwrap_or_default();
    let names = store.names().into_iter();
    Ok(names
        .filter_map(|name| listed(&store, &index, name))
        .collect())
}

fn listed(store: &Store, index: &Lock, name: String) -> Option<Listed> {
    let path = store.path(&name);
    let (manifest, problem, is_damaged) = match store.manifest(&name) {
        Ok(manifest) => {
            let manifest = manifest?;
            let damage = damage(&path, &manifest.set);
            let is_damaged = damage.is_some();
            (manifest, damage, is_damaged)
        }
        Err(reason) => (Manifest::default(), Some(reason), false),
    };
    Some(Listed {
        is_damaged,
        requests: index.requests_of(&name),
        // A directory's name is the version and a digest.
        version: name.split('-').next().unwrap_or_default().to_owned(),
        platform: manifest.platform,
        components: manifest.components,
        packages: manifest.set.packages,
        bytes: manifest.bytes,
        problem,
        path,
        name,
    })
}

/// Removes the toolkit with this name, or the only one of this full or partial release; with `all`, every one of the
/// release.
pub fn remove(name: &str, all: bool, context: &Context) -> Result<Vec<Listed>, Failure> {
    let store = Store::open(&context.env, "toolkits")?;
    let _lock = store.lock(&Progress::new())?;
    let removed = choose(name, all, list(context)?)?;
    discard(&removed, &store)?;
    Ok(removed)
}

/// Removes toolkits that are not needed: those that are damaged, and those of which another toolkit of the same
/// version has every package. To add one of the latter again, nothing has to be downloaded. Also removes what
/// interrupted downloads have left.
pub fn collect_garbage(context: &Context) -> Result<Vec<Listed>, Failure> {
    let store = Store::open(&context.env, "toolkits")?;
    // Another command may be repairing a toolkit, so the list is read under the lock.
    let _lock = store.lock(&Progress::new())?;
    let all = list(context)?;
    let is_garbage =
        |toolkit: &&Listed| toolkit.is_damaged || all.iter().any(|other| other.supersedes(toolkit));
    let garbage: Vec<Listed> = all.iter().filter(is_garbage).cloned().collect();
    discard(&garbage, &store)?;
    store.remove_archives();
    Ok(garbage)
}

/// The caller holds the lock.
fn discard(toolkits: &[Listed], store: &Store) -> Result<(), Failure> {
    let mut index = Lock::read(&store.index()).unwrap_or_default();
    for toolkit in toolkits {
        index.forget(&toolkit.name);
    }
    index.write(&store.index())?;
    toolkits.iter().try_for_each(|it| store.discard(&it.name))
}

impl Listed {
    /// Whether this toolkit can be used and has every package of `other`, and more.
    fn supersedes(&self, other: &Self) -> bool {
        let has = |package: &Package| {
            self.packages
                .iter()
                .any(|own| own.shares_a_file_with(package))
        };
        self.problem.is_none()
            && (&self.version, &self.platform) == (&other.version, &other.platform)
            && self.packages.len() > other.packages.len()
            && other.packages.iter().all(has)
    }

    /// The toolkit in one line.
    fn summary(&self) -> String {
        let (size, components) = (human_size(self.bytes), self.components.join(", "));
        format!("{}  {size}  {components}", self.name)
    }
}

fn choose(name: &str, all: bool, mut stored: Vec<Listed>) -> Result<Vec<Listed>, Failure> {
    if let Some(exact) = stored.iter().position(|toolkit| toolkit.name == name) {
        return Ok(vec![stored.swap_remove(exact)]);
    }
    let lines = |toolkits: &[Listed]| -> String {
        let lines = toolkits
            .iter()
            .map(|toolkit| format!("\n  {}", toolkit.summary()));
        lines.collect()
    };
    let known = lines(&stored);
    let release = parse_release(name).map_or_else(|_| name.to_owned(), |it| it.to_string());
    let below = format!("{release}.");
    stored.retain(|it| it.version == release || it.version.starts_with(&below));
    let name = printable(name);
    match stored.len() {
        0 if known.is_empty() => Err(Failure::new(
            exit_code::USAGE,
            format!("there is no toolkit `{name}`: none has been fetched"),
        )
        .hint("`cargo cuda toolkit add 13` fetches one")),
        0 => Err(Failure::new(
            exit_code::USAGE,
            format!("there is no toolkit `{name}`; these have been fetched:{known}"),
        )
        .hint("give a name or a release of this list")),
        2.. if !all => Err(Failure::new(
            exit_code::USAGE,
            format!(
                "{} toolkits match `{name}`:{}",
                stored.len(),
                lines(&stored)
            ),
        )
        .hint("give the whole name of one of them, or `--all` to remove all of them")),
        _ => Ok(stored),
    }
}

/// The bytes of all toolkits on the disk. A file that several toolkits share is counted once.
pub fn disk_usage(toolkits: &[Listed]) -> u64 {
    let paths: Vec<&Path> = toolkits
        .iter()
        .map(|toolkit| toolkit.path.as_path())
        .collect();
    super::directory::disk_usage(&paths)
}

/// The files of an installed package, relative to `site`, with their sizes. Paths that lead out of
/// `site` are skipped. `None` if the package is not installed there.
pub(super) fn files_of(site: &Path, package: &Package) -> Option<BTreeMap<String, Option<u64>>> {
    let root = Root::system();
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

/// Path and size of a line of `RECORD`: `a/b.h,sha256=…,12`. A path with a comma would be quoted;
/// NVIDIA's packages have none.
fn parse_line(line: &str) -> Option<(String, Option<u64>)> {
    let (path, rest) = line.split_once(',')?;
    let size = rest.rsplit(',').next()?.trim().parse().ok();
    (!path.is_empty()).then(|| (path.to_owned(), size))
}

/// Describes the first package of a set that is not installed, or the first file that is missing or
/// has the wrong size.
pub(super) fn damage(site: &Path, set: &PackageSet) -> Option<String> {
    set.packages
        .iter()
        .find_map(|package| damage_of(site, package))
}

/// [`damage`] for one package.
pub(super) fn damage_of(site: &Path, package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let files = files_of(site, package).filter(|files| !files.is_empty());
    let Some(files) = files else {
        return Some(format!("package {name} {version} is not installed"));
    };
    files.iter().find_map(|(path, size)| {
        let place = site.join(path);
        let problem = match (size, Root::system().metadata(&place)) {
            (Some(size), Ok(found)) if found.is_file() && *size == found.len() => return None,
            // A link to a directory, or to a file of a package that the set does not have.
            (None, found) if found.is_ok() || Root::system().is_link(&place) => return None,
            (_, Ok(_)) => "is damaged",
            (_, Err(_)) => "is missing",
        };
        Some(format!("`{path}` of {name} {version} {problem}"))
    })
}

/// The components of a set that the search finds in `site`.
pub(super) fn components(
    site: &Path,
    set: &PackageSet,
    wanted: &BTreeSet<Component>,
    target: Option<&Target>,
) -> Result<Vec<Component>, Failure> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let Ok(target) = target
        .cloned()
        .map_or_else(|| Target::from_triple(&triple), Ok)
    else {
        // This platform is not supported, so the probe does not know its layout.
        return Ok(set.components().collect());
    };
    // A root's nvcc would have to be run, and the hash of its archive has been checked.
    if set.source == Source::Redist {
        return Ok(set.components().collect());
    }
    let attempt = store::probe(&Root::system(), &target, site, false);
    let major = set.major();
    let probed = attempt.sets.iter().find(|probed| probed.major == major);
    let is_found = |component: &Component| probed.is_some_and(|set| set.get(*component).is_some());
    // Programs for another platform do not run here, so the probe does not accept them.
    let runs = |component: &Component| target.is_native() || component.facts().tools.is_empty();
    let mut absent = wanted.iter().filter(|component| !is_found(component));
    if let Some(&component) = absent.find(|component| runs(component)) {
        let Some(package) = set.package_for(component) else {
            return Err(no_package(component, major, set.source));
        };
        let mut unusable = attempt.unusable.iter();
        let reason = unusable.find(|it| it.component == component && it.major == major);
        let reason = reason.map_or("none of its files was found", |it| &it.reason);
        let message = format!(
            "package {} {} does not contain `{component}`: {reason}",
            package.name, package.version
        );
        return Err(Failure::new(exit_code::NOT_IN_PACKAGE, message).hint(OTHER_SOURCES_HINT));
    }
    Ok(set.components().filter(is_found).collect())
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
            is_damaged: false,
        }
    }

    #[test]
    fn one_toolkit_matches_or_none_is_removed() {
        let all = ["12.9.2.0-1", "13.4.3-2", "13.4.3-3", "13.5-4"]
            .map(toolkit)
            .to_vec();
        let choose = |name: &str, every: bool| choose(name, every, all.clone());
        let chosen = |name: &str| choose(name, false).map(|mut chosen| chosen.remove(0).name);
        assert_eq!(chosen("12").unwrap(), "12.9.2.0-1");
        assert_eq!(chosen("13.5").unwrap(), "13.5-4");
        assert_eq!(chosen("13.4.3-3").unwrap(), "13.4.3-3");
        assert_eq!(chosen("v12").unwrap(), "12.9.2.0-1");
        assert_eq!(choose("13.4", true).unwrap().len(), 2);
        for (name, matching) in [("13.4.3", 2), ("13", 3)] {
            let error = chosen(name).unwrap_err();
            assert_eq!(error.message.lines().count(), 1 + matching, "{error}");
        }
        for none in ["1", "", "14", "../13.5-4", "13.4.3-"] {
            assert!(
                chosen(none)
                    .unwrap_err()
                    .message
                    .contains("there is no toolkit"),
                "{none}"
            );
        }
    }

    #[test]
    fn a_toolkit_is_superseded_by_one_with_more_packages() {
        let with = |name: &str, packages: &[(&str, char)]| Listed {
            packages: packages
                .iter()
                .map(|(name, digit)| package(name, "1", *digit))
                .collect(),
            ..toolkit(name)
        };
        let small = with("13.4.3-1", &[("a", '0')]);
        let large = with("13.4.3-2", &[("a", '0'), ("b", '1')]);
        assert!(large.supersedes(&small) && !small.supersedes(&large) && !large.supersedes(&large));
        assert!(!with("13.4.2-2", &[("a", '0'), ("b", '1')]).supersedes(&small));
        assert!(!with("13.4.3-2", &[("a", '9'), ("b", '1')]).supersedes(&small));
        let damaged = Listed {
            problem: Some(String::new()),
            ..large
        };
        assert!(!damaged.supersedes(&small));
    }

    #[test]
    fn records_have_path_and_size() {
        let line = |text: &str| parse_line(text);
        assert_eq!(
            line("a/b.h,sha256=x,12"),
            Some(("a/b.h".to_owned(), Some(12)))
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
            ..PackageSet::default()
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
        let (site, set) = site(&WHOLE);
        assert_eq!(damage(site.path(), &set), None);
        let library = site.path().join(LIBRARY);
        let expect = |problem: &str| {
            let damage = damage(site.path(), &set).unwrap();
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
            damage_of(site.path(), &other)
                .unwrap()
                .ends_with("is not installed")
        );
    }

    #[test]
    fn a_placeholder_is_named() {
        let (site_packages, set) = site(&WHOLE);
        let found = components(
            site_packages.path(),
            &set,
            &BTreeSet::from([Component::Cufft]),
            None,
        );
        assert_eq!(found.unwrap(), [Component::Cufft]);
        let (site_packages, set) = site(&[]);
        let error = components(
            site_packages.path(),
            &set,
            &BTreeSet::from([Component::Cufft]),
            None,
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nvidia-cufft-cu12 11.4.1.4") && text.contains("`cufft`"),
            "{text}"
        );
        let found = components(site_packages.path(), &set, &BTreeSet::new(), None);
        assert_eq!(found.unwrap(), []);
        let error = components(
            site_packages.path(),
            &set,
            &BTreeSet::from([Component::Cublas]),
            None,
        )
        .unwrap_err();
        assert!(error.message.contains("no Python package"), "{error}");
    }
}

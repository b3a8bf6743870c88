//! The metadata of a wheel, and what is not valid in it (W18).
//!
//! Sources: the binary distribution format and the core metadata specification of the Python Packaging Authority.

use std::collections::{BTreeMap, BTreeSet};

use crate::requirement::Requirement;
use crate::wheel::filename::FileName;
use crate::wheel::metadata::{Metadata, check_version, normalized_name};
use crate::wheel::record::{self, Digest};

use super::facts::Package;

/// What is read of a wheel before its metadata is checked.
#[derive(Debug, Default)]
pub struct Contents {
    /// The metadata directory, such as `saxpy-0.1.0.dist-info`.
    pub dist_info: String,
    /// The paths of all files.
    pub files: BTreeSet<String>,
    /// The texts of METADATA, WHEEL and RECORD, by these names.
    pub texts: BTreeMap<&'static str, String>,
    /// The digests of all files; `None` if RECORD is not checked, because files are installed already.
    pub digests: Option<BTreeMap<String, Digest>>,
    /// Whether the wheel contains ELF files.
    pub has_libraries: bool,
}

/// The texts that [`Contents`] has.
pub const TEXTS: [&str; 3] = ["METADATA", "WHEEL", "RECORD"];

/// Reads the metadata. `file_name` is the name of the wheel's file, if there is one.
pub fn package(contents: &Contents, file_name: Option<&str>) -> Package {
    let mut package = Package {
        file_name: file_name.and_then(FileName::parse),
        ..Package::default()
    };
    if let (Some(name), None) = (file_name, &package.file_name) {
        package.errors.push(format!(
            "`{name}` is not the file name of a wheel (`name-version-python-abi-platform.whl`)"
        ));
    }
    match contents.texts.get("METADATA") {
        Some(text) => read_metadata(&Metadata::parse(text), contents, &mut package),
        None => package
            .errors
            .push(format!("`{}/METADATA` is missing", contents.dist_info)),
    }
    match contents.texts.get("WHEEL") {
        Some(text) => read_wheel(&Metadata::parse(text), contents, &mut package),
        None => package
            .errors
            .push(format!("`{}/WHEEL` is missing", contents.dist_info)),
    }
    if let Some(digests) = &contents.digests {
        check_record(contents, digests, &mut package);
    }
    package
}

fn read_metadata(metadata: &Metadata, contents: &Contents, package: &mut Package) {
    let mut one = |header: &'static str| match metadata.one(header) {
        Ok(value) => value.to_owned(),
        Err(failure) => {
            package.errors.push(failure.message);
            String::new()
        }
    };
    one("Metadata-Version");
    let (name, version) = (one("Name"), one("Version"));
    package.name = normalized_name(&name);
    let stem = contents.dist_info.trim_end_matches(".dist-info");
    let (distribution, directory_version) = stem.rsplit_once('-').unwrap_or((stem, ""));
    if !name.is_empty() && normalized_name(distribution) != package.name {
        package.errors.push(format!(
            "METADATA has the name `{name}`, and the metadata directory is `{}`",
            contents.dist_info
        ));
    }
    if !version.is_empty() {
        let checked = check_version(&version, directory_version).map_err(|failure| failure.message);
        if checked.is_err() {
            package.errors.push(format!(
                "METADATA has version `{version}`, and the metadata directory is `{}`",
                contents.dist_info
            ));
        }
        if version.contains('+') {
            package.warnings.push(format!(
                "the version `{version}` is a local version, which indexes refuse"
            ));
        }
    }
    if let Some(file_name) = &package.file_name {
        if !name.is_empty() && normalized_name(&file_name.distribution) != package.name {
            package.errors.push(format!(
                "METADATA has the name `{name}`, and the file name has `{}`",
                file_name.distribution
            ));
        }
        if !version.is_empty()
            && let Err(failure) = check_version(&version, &file_name.version)
        {
            package.errors.push(failure.message);
        }
    }
    for text in metadata.all("Requires-Dist") {
        match Requirement::parse(text) {
            Ok(requirement) => package.requires.push(requirement),
            Err(reason) => package
                .errors
                .push(format!("`Requires-Dist: {text}` is not valid: {reason}")),
        }
    }
    check_license(metadata, contents, package);
}

fn check_license(metadata: &Metadata, contents: &Contents, package: &mut Package) {
    let dist_info = &contents.dist_info;
    for file in metadata.all("License-File") {
        // Before version 2.4 of the metadata, the files were beside METADATA.
        let places = [
            format!("{dist_info}/licenses/{file}"),
            format!("{dist_info}/{file}"),
        ];
        if !places.iter().any(|place| contents.files.contains(place)) {
            package.errors.push(format!(
                "METADATA lists the license file `{file}`, which is missing"
            ));
        }
    }
    let headers = ["License-Expression", "License", "License-File"];
    let has_license = headers
        .iter()
        .any(|header| metadata.all(header).next().is_some())
        || metadata
            .all("Classifier")
            .any(|classifier| classifier.starts_with("License ::"));
    if !has_license {
        package.warnings.push("METADATA has no license".to_owned());
    }
}

fn read_wheel(wheel: &Metadata, contents: &Contents, package: &mut Package) {
    let root_is_pure = wheel
        .all("Root-Is-Purelib")
        .any(|value| value.eq_ignore_ascii_case("true"));
    if root_is_pure && contents.has_libraries {
        package
            .warnings
            .push("WHEEL has `Root-Is-Purelib: true`, and the wheel has native modules".to_owned());
    }
    let Some(file_name) = &package.file_name else {
        return;
    };
    let stated: BTreeSet<String> = wheel.all("Tag").flat_map(expand).collect();
    // The build number comes before the tags.
    let mut parts = file_name.rest.rsplitn(4, '-');
    let mut part = || parts.next().unwrap_or_default();
    let (platform, abi, python) = (part(), part(), part());
    let named: BTreeSet<String> = expand(&format!("{python}-{abi}-{platform}")).collect();
    if stated != named {
        let list = |tags: &BTreeSet<String>| tags.iter().cloned().collect::<Vec<_>>().join(", ");
        package.errors.push(format!(
            "WHEEL has the tags {}, and the file name has {}",
            list(&stated),
            list(&named)
        ));
    }
}

/// `py2-none-any` and `py3-none-any` of `py2.py3-none-any`.
fn expand(tag: &str) -> impl Iterator<Item = String> {
    let mut tags = vec![String::new()];
    for part in tag.split('-') {
        tags = tags
            .iter()
            .flat_map(|tag| part.split('.').map(move |choice| format!("{tag}-{choice}")))
            .collect();
    }
    tags.into_iter()
        .map(|tag| tag.trim_start_matches('-').to_owned())
}

fn check_record(contents: &Contents, digests: &BTreeMap<String, Digest>, package: &mut Package) {
    let own = format!("{}/RECORD", contents.dist_info);
    let Some(record) = contents.texts.get("RECORD") else {
        package.errors.push(format!("`{own}` is missing"));
        return;
    };
    // RECORD does not list its own signatures.
    let signatures = [format!("{own}.jws"), format!("{own}.p7s")];
    let listed = digests
        .iter()
        .filter(|(path, _)| **path != own && !signatures.contains(path));
    let listed: BTreeMap<&str, &Digest> = listed
        .map(|(path, digest)| (path.as_str(), digest))
        .collect();
    if let Err(reason) = record::check(record, &own, &listed) {
        package.errors.push(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\nLicense-Expression: MIT\n\
                            License-File: LICENSE\nRequires-Dist: cuda-toolkit[cudart]>=13.0,<14\n";
    const WHEEL: &str = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp39-abi3-manylinux_2_17_x86_64\n\
                         Tag: cp39-abi3-manylinux2014_x86_64\n";
    const NAME: &str = "saxpy_cu13-0.1.0-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";

    fn errors(metadata: &str, wheel: &str, file_name: &str) -> Vec<String> {
        let contents = Contents {
            dist_info: "saxpy_cu13-0.1.0.dist-info".to_owned(),
            files: BTreeSet::from(["saxpy_cu13-0.1.0.dist-info/licenses/LICENSE".to_owned()]),
            texts: BTreeMap::from([
                ("METADATA", metadata.to_owned()),
                ("WHEEL", wheel.to_owned()),
            ]),
            digests: None,
            has_libraries: true,
        };
        let package = package(&contents, Some(file_name));
        package.errors.into_iter().chain(package.warnings).collect()
    }

    #[test]
    fn valid_metadata_has_no_errors() {
        assert!(
            errors(METADATA, WHEEL, NAME).is_empty(),
            "{:?}",
            errors(METADATA, WHEEL, NAME)
        );
    }

    #[test]
    fn faults_of_metadata_are_named() {
        for (metadata, wheel, name, expected) in [
            (
                METADATA.replace("Name", "Names"),
                WHEEL.to_owned(),
                NAME,
                "METADATA has no Name",
            ),
            (
                METADATA.replace("0.1.0", "0.2.0"),
                WHEEL.to_owned(),
                NAME,
                "version `0.2.0`",
            ),
            (
                METADATA.replace("saxpy-", "other-"),
                WHEEL.to_owned(),
                NAME,
                "name `other-cu13`",
            ),
            (
                METADATA.replace(">=13.0", ">==13.0"),
                WHEEL.to_owned(),
                NAME,
                "is not valid",
            ),
            (
                METADATA.replace("LICENSE", "NOTICE"),
                WHEEL.to_owned(),
                NAME,
                "license file `NOTICE`",
            ),
            (
                METADATA.replace("License", "Lizenz"),
                WHEEL.to_owned(),
                NAME,
                "no license",
            ),
            (
                METADATA.to_owned(),
                WHEEL.replace("cp39", "cp310"),
                NAME,
                "WHEEL has the tags cp310",
            ),
            (
                METADATA.to_owned(),
                WHEEL.replace("false", "true"),
                NAME,
                "Root-Is-Purelib",
            ),
            (
                METADATA.to_owned(),
                WHEEL.to_owned(),
                "saxpy.whl",
                "not the file name of a wheel",
            ),
        ] {
            let errors = errors(&metadata, &wheel, name);
            assert!(
                errors.iter().any(|error| error.contains(expected)),
                "{expected}: {errors:?}"
            );
        }
    }
}

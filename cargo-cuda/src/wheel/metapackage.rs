//! The metapackage: a wheel without code, with one extra per CUDA major. `saxpy[cu13]` requires
//! `saxpy-cu13`, so users write one name, and the plain name on the index is taken.
//!
//! There is no extra without CUDA's own packages: an extra can add requirements, but not remove
//! those of `saxpy-cu13`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::archive::Wheel;
use super::archive_writer;
use super::filename::FileName;
use super::metadata::{Metadata, file_name_component};
use super::rewrite::{BuiltWheel, CLASSIFIER};
use super::static_runtime;
use crate::failure::Failure;

const TAG: &str = "py3-none-any";

/// Writes the metapackage of the wheels into `out_dir`. Its description is that of the first wheel.
pub fn write(built: &[BuiltWheel], out_dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(first) = built.first() else {
        return Ok(None);
    };
    let names = built
        .iter()
        .map(|wheel| (wheel.major, wheel.name.as_str()))
        .collect();
    let wheel = metapackage(&Wheel::open(&first.path)?, &first.base_name, &names)?;
    let file_name = FileName {
        distribution: file_name_component(&first.base_name),
        version: first.version.clone(),
        rest: TAG.to_owned(),
    };
    let path = out_dir.join(file_name.to_string());
    archive_writer::write(&wheel, &path)?;
    Ok(Some(path))
}

/// `names` are the distributions by CUDA major.
fn metapackage(
    wheel: &Wheel,
    base_name: &str,
    names: &BTreeMap<u32, &str>,
) -> Result<Wheel, Failure> {
    let mut metadata = Metadata::parse(&wheel.text(&format!("{}/METADATA", wheel.dist_info))?);
    let version = metadata.one("Version")?.to_owned();
    for header in ["Requires-Dist", "Provides-Extra"] {
        metadata.remove(header, |_| true);
    }
    metadata.remove("Classifier", |value| value.starts_with(CLASSIFIER));
    metadata.remove("License-File", |file| file == static_runtime::NOTICE);
    for name in metadata.all_mut("Name") {
        *name = base_name.to_owned();
    }
    for (major, name) in names {
        metadata.add("Provides-Extra", &format!("cu{major}"));
        let requirement = format!("{name}=={version}; extra == 'cu{major}'");
        metadata.add("Requires-Dist", &requirement);
        metadata.add("Classifier", &format!("{CLASSIFIER}{major}"));
    }

    let stem = wheel.dist_info.trim_end_matches(".dist-info");
    let version = stem.rsplit_once('-').map_or(stem, |(_, version)| version);
    let dist_info = format!("{}-{version}.dist-info", file_name_component(base_name));
    let mut new = Wheel::new(dist_info.clone(), BTreeMap::new());
    let licenses = format!("{}/licenses/", wheel.dist_info);
    for path in wheel.entries.keys() {
        if let Some(file) = path.strip_prefix(&licenses)
            && file != static_runtime::NOTICE
        {
            new.set_text(format!("{dist_info}/licenses/{file}"), wheel.bytes(path)?)?;
        }
    }
    new.set_text(format!("{dist_info}/METADATA"), metadata.to_string())?;
    let generator = env!("CARGO_PKG_VERSION");
    let text = format!(
        "Wheel-Version: 1.0\nGenerator: cargo-cuda ({generator})\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    );
    new.set_text(format!("{dist_info}/WHEEL"), text)?;
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metapackage_has_an_extra_per_major() {
        let old = "saxpy_cu12-0.1.0.dist-info";
        let mut wheel = Wheel::new(old.to_owned(), BTreeMap::new());
        let metadata = "Metadata-Version: 2.4\nName: saxpy-cu12\nVersion: 0.1.0\n\
            Classifier: Environment :: GPU :: NVIDIA CUDA :: 12\nClassifier: Programming Language :: Rust\n\
            License-File: LICENSE\nLicense-File: NVIDIA-CUDA-runtime.txt\n\
            Requires-Dist: numpy\nProvides-Extra: plot\nRequires-Dist: x; extra == 'plot'\n\n# saxpy\n";
        for (file, text) in [("METADATA", metadata), ("licenses/LICENSE", "MIT\n")] {
            wheel.set_text(format!("{old}/{file}"), text).unwrap();
        }
        let names = BTreeMap::from([(12, "saxpy-cu12"), (13, "saxpy-cu13")]);
        let made = metapackage(&wheel, "saxpy", &names).unwrap();
        let files: Vec<&str> = made.entries.keys().map(String::as_str).collect();
        assert_eq!(
            files,
            [
                "saxpy-0.1.0.dist-info/METADATA",
                "saxpy-0.1.0.dist-info/WHEEL",
                "saxpy-0.1.0.dist-info/licenses/LICENSE"
            ]
        );
        assert_eq!(
            made.text("saxpy-0.1.0.dist-info/METADATA").unwrap(),
            "Metadata-Version: 2.4\nName: saxpy\nVersion: 0.1.0\nClassifier: Programming Language :: Rust\n\
             Classifier: Environment :: GPU :: NVIDIA CUDA :: 12\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n\
             License-File: LICENSE\nProvides-Extra: cu12\nProvides-Extra: cu13\n\
             Requires-Dist: saxpy-cu12==0.1.0; extra == 'cu12'\n\
             Requires-Dist: saxpy-cu13==0.1.0; extra == 'cu13'\n\n# saxpy\n"
        );
    }
}

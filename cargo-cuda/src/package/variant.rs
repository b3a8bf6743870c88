//! The metadata of wheel variants: wheels of one name and version for different machines, from which an installer
//! chooses.
//!
//! The format is that of the drafts PEP 825 (variants) and PEP 850 (providers). A wheel has its properties in
//! `*.dist-info/variant.json`, and an index has those of all wheels of a version in `<name>-<version>-variants.json`.
//! The properties are those of `nvidia-variant-provider`:
//!
//! | property | an installer accepts it if |
//! |---|---|
//! | `cuda_version_lower_bound` = `13.0` | the driver is for this CUDA release or a newer one |
//! | `sm_arch` = `90_real` | the GPU has this major, and this minor or a higher one |
//! | `sm_arch` = `90_virtual` | the GPU has this major |
//!
//! Of several values of a property, one has to be accepted. The installer prefers the wheel with the highest bound that
//! it accepts, then the one with the highest capability.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cuda_build::ToolkitVersion;
use cuda_find_core::capability::{self, Capability};
use cuda_find_core::env::Env;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::archive;
use super::device::{DeviceCode, ImageKind, Runs, release_of_ptx};
use super::metadata::FileName;
use crate::failure::{Failure, Result};
use crate::output;

/// The schema of PEP 850. It is a draft, so the address changes.
const SCHEMA: &str = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json";

/// The variable with another address.
const SCHEMA_VARIABLE: &str = "CUDA_BUILD_VARIANT_SCHEMA";

const NAMESPACE: &str = "nvidia";
const DRIVER: &str = "cuda_version_lower_bound";
const GPUS: &str = "sm_arch";

/// The file in the metadata directory of a variant.
pub const FILE: &str = "variant.json";

/// The address of the schema: the user's or the one that uv accepts.
pub fn schema(env: &Env) -> String {
    env.text(SCHEMA_VARIABLE).unwrap_or(SCHEMA.to_owned())
}

/// Features with their values.
type Features = BTreeMap<String, Vec<String>>;

/// What `variant.json` and the file of an index have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VariantMetadata {
    #[serde(rename = "$schema")]
    schema: String,
    default_priorities: Value,
    #[serde(default)]
    providers: Value,
    /// The properties of each label, by namespace.
    variants: BTreeMap<String, BTreeMap<String, Features>>,
}

/// What a wheel demands of the machine that installs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    features: Features,
    /// What the device code could also do.
    pub notes: Vec<String>,
}

impl Properties {
    /// The properties of a wheel with this device code, which a toolkit of this release compiled.
    pub fn of(code: &DeviceCode, built_with: ToolkitVersion) -> Result<Self> {
        let first = ToolkitVersion::new(built_with.major, 0);
        let mut notes = Vec::new();
        // Of SASS, only the capabilities in the file: the installer knows on which other GPUs their code runs.
        let images = code.images().into_iter();
        let sass = images.filter(|image| image.kind == ImageKind::Sass);
        let sass = sass.map(|image| (image.capability, "real"));
        let majors: BTreeSet<u32> = capability::all().map(|it| it.capability.major).collect();
        let ptx = majors
            .into_iter()
            .map(|major| (Capability::new(major, 0), "virtual"));
        let drivers = |(gpu, kind)| Some((gpu, kind, driver_for(code, gpu, kind, built_with)?));
        let (mut gpus, ptx) = (
            Vec::from_iter(sass.filter_map(drivers)),
            ptx.filter_map(drivers),
        );
        for (letter, ..) in gpus.iter().filter(|(gpu, ..)| gpu.suffix.is_some()) {
            notes.push(format!(
                "installers know no GPU with {letter}, so they choose it for other code alone"
            ));
        }
        let ptx = Vec::from_iter(ptx);
        let reads_ptx = ptx
            .iter()
            .map(|(.., driver)| *driver)
            .max()
            .unwrap_or(first);
        let oldest = if gpus.is_empty() { reads_ptx } else { first };
        if reads_ptx == oldest {
            gpus.extend(ptx);
        } else {
            notes.push(format!(
                "drivers older than CUDA {reads_ptx} refuse its PTX, so it is chosen for its SASS alone; the wheel \
                 without a label serves other GPUs"
            ));
        }
        if gpus.is_empty() && has_code(code) {
            let text = "has device code, but no GPU has code for every function";
            return Err(Failure::wheel(text).hint(
                "compile all files for the same capabilities, or build without `--variants`",
            ));
        }
        // Each release from the oldest on, because installers prefer the highest bound, and wheels with PTX have
        // higher ones than wheels with SASS.
        let minors = oldest.minor..=built_with.minor.max(oldest.minor);
        let bounds = minors.map(|minor| format!("{}.{minor}", oldest.major));
        let mut features = Features::from([(DRIVER.to_owned(), bounds.collect())]);
        if !gpus.is_empty() {
            let value = |(gpu, kind, _): &(Capability, &str, _)| format!("{}_{kind}", gpu.digits());
            features.insert(GPUS.to_owned(), gpus.iter().map(value).collect());
        }
        Ok(Self { features, notes })
    }

    /// What a wheel with this device code states and does not keep.
    pub fn untrue(&self, code: &DeviceCode, major: u32) -> Vec<String> {
        let values = |feature: &str| self.features.get(feature).into_iter().flatten();
        let first = ToolkitVersion::new(major, 0);
        // `13` is 13.0.
        let bounds = values(DRIVER).filter_map(|it| format!("{it}.0").parse().ok());
        let oldest = bounds.min().unwrap_or(ToolkitVersion::new(0, 0));
        let mut faults = Vec::new();
        if oldest < first {
            faults.push(format!(
                "`{DRIVER}` accepts drivers older than CUDA {major}"
            ));
        }
        if values(GPUS).next().is_none() && has_code(code) {
            faults.push(format!("no `{GPUS}`, but device code for some GPUs"));
        }
        for value in values(GPUS) {
            let (gpu, kind) = value.split_once('_').unwrap_or((value, ""));
            let driver = gpu
                .parse()
                .ok()
                .and_then(|gpu| driver_for(code, gpu, kind, first));
            if driver.is_none_or(|driver| driver > oldest.max(first)) {
                faults.push(format!(
                    "`{value}`, but no code that such a GPU and driver run"
                ));
            }
        }
        faults
    }

    pub fn names_gpus(&self) -> bool {
        self.features.contains_key(GPUS)
    }

    /// `driver for CUDA 13.0 or newer; 80_real, 90_real`.
    pub fn text(&self) -> String {
        let oldest = self.features.get(DRIVER).and_then(|values| values.first());
        let oldest = oldest.map(|oldest| format!("driver for CUDA {oldest} or newer"));
        let gpus = self.features.get(GPUS).map(|gpus| gpus.join(", "));
        output::joined(oldest.into_iter().chain(gpus), "; ")
    }
}

fn has_code(code: &DeviceCode) -> bool {
    code.has(ImageKind::Sass) || code.has(ImageKind::Ptx)
}

/// The oldest CUDA release whose driver runs the code on a GPU, as SASS (`real`) or from PTX (`virtual`); `None` if the
/// GPU has no code for every function. A letter stands for the code itself. PTX that is newer than the tables is that
/// of the toolkit.
fn driver_for(
    code: &DeviceCode,
    gpu: Capability,
    kind: &str,
    built_with: ToolkitVersion,
) -> Option<ToolkitVersion> {
    let major = built_with.major;
    let first = ToolkitVersion::new(major, 0);
    if kind == "virtual" {
        let release = release_of_ptx(code.ptx_for(gpu, major)?);
        return Some(
            release
                .map_or(built_with, |release| release.version)
                .max(first),
        );
    }
    let serves = match gpu.suffix {
        Some(_) => code.images().iter().any(|image| image.capability == gpu),
        None => code.runs_on(gpu, major) == Runs::Native,
    };
    serves.then_some(first)
}

impl VariantMetadata {
    pub fn new(label: &str, properties: &Properties, schema: &str) -> Self {
        let provider = json!({
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            "requires": ["nvidia-variant-provider>=0.0.1"],
        });
        let namespaces = BTreeMap::from([(NAMESPACE.to_owned(), properties.features.clone())]);
        Self {
            schema: schema.to_owned(),
            default_priorities: json!({ "namespace": [NAMESPACE] }),
            providers: json!({ NAMESPACE: provider }),
            variants: BTreeMap::from([(label.to_owned(), namespaces)]),
        }
    }

    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// NVIDIA's properties of a label; `None` if the file has another label.
    pub fn properties(&self, label: &str) -> Option<Properties> {
        let features = self.variants.get(label)?.get(NAMESPACE).cloned();
        Some(Properties {
            features: features.unwrap_or_default(),
            notes: Vec::new(),
        })
    }

    /// Adds the labels of another file. Returns what contradicts this one.
    pub fn merge(&mut self, other: Self) -> Result<(), String> {
        let frame = |it: &Self| {
            (
                it.schema.clone(),
                it.default_priorities.clone(),
                it.providers.clone(),
            )
        };
        if frame(self) != frame(&other) {
            return Err("it has another schema, or other priorities or providers".to_owned());
        }
        for (label, properties) in other.variants {
            let old = self.variants.insert(label.clone(), properties);
            if old.is_some_and(|old| old != self.variants[&label]) {
                return Err(format!("the label {label} has other properties there"));
            }
        }
        Ok(())
    }
}

/// The wheels of one name and version in a directory.
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    /// Whether there is a wheel without a label.
    pub has_plain: bool,
    /// What all variants have together; `None` without a variant.
    pub metadata: Option<VariantMetadata>,
}

impl Siblings {
    /// Reads the metadata of the wheels. Wheels that contradict each other are an error.
    pub fn read(directory: &Path, of: &FileName) -> Result<Self> {
        let mut siblings = Self::default();
        for path in output::files(directory)? {
            let name = FileName::parse(&output::file_name(&path));
            let Some(name) = name.filter(|name| {
                (&name.distribution, &name.version) == (&of.distribution, &of.version)
            }) else {
                continue;
            };
            if name.label.is_none() {
                siblings.has_plain = true;
                continue;
            }
            let contradicts = |reason: String| {
                let text = format!("{}: {reason}", path.display());
                Failure::wheel(text).hint(
                    "build the wheels of one version with the same code and options, or remove the others",
                )
            };
            let text = archive::metadata_file(&path, FILE)?;
            let metadata = VariantMetadata::parse(&text).map_err(contradicts)?;
            match &mut siblings.metadata {
                Some(all) => all.merge(metadata).map_err(contradicts)?,
                None => siblings.metadata = Some(metadata),
            }
        }
        Ok(siblings)
    }
}

/// The name of the file in which an index has the properties of all wheels of a version.
pub fn index_file(of: &FileName) -> String {
    format!("{}-{}-variants.json", of.distribution, of.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::device::DeviceImage;

    /// The code of files: of each, SASS for some capabilities and PTX for others, which CUDA 13.4 wrote.
    fn code(files: &[(&str, &str)]) -> DeviceCode {
        let image = |kind: ImageKind, text: &str| DeviceImage {
            kind,
            capability: text.parse().unwrap(),
            isa: match kind {
                ImageKind::Ptx => (9, 4),
                _ => (0, 0),
            },
            bytes: 1,
        };
        let images = |&(sass, ptx): &(&str, &str)| {
            let sass = sass.split_whitespace().map(|it| image(ImageKind::Sass, it));
            let ptx = ptx.split_whitespace().map(|it| image(ImageKind::Ptx, it));
            sass.chain(ptx).collect()
        };
        DeviceCode {
            fat_binaries: files.iter().map(images).collect(),
            release: None,
        }
    }

    const CUDA_13_4: ToolkitVersion = ToolkitVersion::new(13, 4);

    #[test]
    fn properties_are_what_the_device_code_keeps() {
        for (files, oldest, gpus) in [
            (&[][..], "13.0", ""),
            (&[("8.0 8.6", "")], "13.0", "80_real 86_real"),
            // Drivers for 13.0 run the SASS and refuse the PTX.
            (&[("8.0", "9.0")], "13.0", "80_real"),
            (
                &[("", "9.0")],
                "13.4",
                "90_virtual 100_virtual 110_virtual 120_virtual",
            ),
            // A GPU with 8.0 cannot run PTX for 8.6.
            (
                &[("", "8.6")],
                "13.4",
                "90_virtual 100_virtual 110_virtual 120_virtual",
            ),
            (&[("9.0a 8.0", "")], "13.0", "80_real 90a_real"),
            // 8.6 runs both files, and 8.0 the first alone.
            (&[("8.0", ""), ("8.6", "")], "13.0", "86_real"),
            (&[("8.0", ""), ("9.0a", "")], "13.0", "80_real 90a_real"),
        ] {
            let code = code(files);
            let properties = Properties::of(&code, CUDA_13_4).unwrap();
            assert_eq!(properties.features[DRIVER][0], oldest, "{files:?}");
            let found = properties.features.get(GPUS).cloned().unwrap_or_default();
            assert_eq!(found.join(" "), gpus, "{files:?}");
            // Of a wheel with PTX and one with SASS, the driver's release does not decide.
            assert_eq!(properties.features[DRIVER].last().unwrap(), "13.4");
            assert_eq!(properties.untrue(&code, 13), [""; 0]);
        }
        let nobody = code(&[("8.0", ""), ("9.0", "")]);
        assert!(Properties::of(&nobody, CUDA_13_4).is_err());
    }

    #[test]
    fn properties_that_are_not_kept_are_found() {
        let code = code(&[("8.0", "9.0")]);
        let stated = |driver: &str, gpus: &str| {
            let gpus = gpus.split_whitespace().map(str::to_owned).collect();
            let features = [
                (DRIVER.to_owned(), vec![driver.to_owned()]),
                (GPUS.to_owned(), gpus),
            ];
            Properties {
                features: features.into(),
                notes: Vec::new(),
            }
        };
        for (driver, gpus, faults) in [
            ("13.0", "80_real", 0),
            ("13", "80_real 89_real", 0),
            ("13.4", "80_real 90_virtual", 0),
            ("13.0", "80_real 90_virtual", 1),
            ("13.0", "75_real 90_real", 2),
            ("13.0", "80a_real", 1),
            ("12.0", "80_real", 1),
            ("", "80_real", 1),
            ("13.0", "", 1),
        ] {
            let found = stated(driver, gpus).untrue(&code, 13);
            assert_eq!(found.len(), faults, "{driver} {gpus}: {found:?}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let properties = |sass: &str| Properties::of(&code(&[(sass, "")]), CUDA_13_4).unwrap();
        let metadata =
            |label: &str, sass: &str| VariantMetadata::new(label, &properties(sass), SCHEMA);
        let mut all = metadata("cu13", "8.0");
        let before = all.clone();
        assert!(all.merge(metadata("cu13", "8.0")).is_ok() && all == before);
        assert!(all.merge(metadata("cu13", "9.0")).is_err());
        assert!(all.merge(metadata("cu13_sm90", "9.0")).is_ok());
        assert_eq!(
            all.properties("cu13_sm90"),
            metadata("cu13_sm90", "9.0").properties("cu13_sm90")
        );
        let other = VariantMetadata::new("cu12", &properties("8.0"), "another");
        assert!(all.merge(other).is_err());
        assert_eq!(VariantMetadata::parse(all.to_json().as_bytes()), Ok(all));
    }
}

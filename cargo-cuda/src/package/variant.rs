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

use cuda_build::{Plan, ToolkitVersion};
use cuda_find_core::capability::{self, Capability, supported};
use cuda_find_core::env::Env;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::archive;
use super::device::{DeviceCode, ImageKind};
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
    /// What the user should know about them.
    pub notes: Vec<String>,
}

impl Properties {
    /// The properties of a wheel with this device code, which a toolkit of this release compiled, for `plan` if it is a
    /// thin one.
    pub fn of(code: &DeviceCode, plan: Option<&Plan>, built_with: ToolkitVersion) -> Result<Self> {
        let known = code.without_letters();
        let driver = |gpu| known.driver_for(gpu, plan, built_with);
        // Of SASS, only the capabilities in the file: the installer knows on which other GPUs their code runs.
        let images = code.images().into_iter();
        let images = images.filter(|image| image.kind == ImageKind::Sass);
        let sass = Vec::from_iter(images.map(|image| image.capability));
        let mut real = match plan {
            Some(plan) => plan.real.clone(),
            None if code.fat_binaries.is_empty() => supported(built_with),
            None => sass.clone(),
        };
        real.retain(|gpu| gpu.suffix.is_none() && driver(*gpu).is_some_and(|(_, native)| native));
        let majors: BTreeSet<u32> = capability::all().map(|it| it.capability.major).collect();
        let ptx = majors.into_iter().filter_map(|major| {
            let gpu = Capability::new(major, 0);
            let (release, native) = driver(gpu)?;
            (!native).then_some((gpu, release))
        });
        let (ptx, releases): (Vec<_>, Vec<_>) = ptx.unzip();
        let first = ToolkitVersion::new(built_with.major, 0);
        let reads_ptx = releases.into_iter().max().unwrap_or(first);
        let oldest = if real.is_empty() { reads_ptx } else { first };
        let mut notes = Vec::new();
        let mut letters = sass;
        letters.retain(|gpu| gpu.suffix.is_some());
        if !letters.is_empty() {
            let letters = output::joined(&letters, ", ");
            notes.push(format!(
                "installers do not know {letters}: for such a GPU they take other code or another wheel"
            ));
        }
        let values = |gpus: &[Capability], kind: &str| {
            let value = |gpu: &Capability| format!("{}_{kind}", gpu.digits());
            gpus.iter().map(value).collect::<Vec<_>>()
        };
        let mut gpus = values(&real, "real");
        if reads_ptx == oldest {
            gpus.extend(values(&ptx, "virtual"));
        } else {
            notes.push(format!(
                "drivers older than CUDA {reads_ptx} refuse its PTX, so it is chosen for its SASS alone; the wheel \
                 without a label serves other GPUs"
            ));
        }
        if gpus.is_empty() {
            // No installer offers them, so the wheel is chosen for no GPU.
            gpus = values(&letters, "real");
        }
        if gpus.is_empty() {
            let text = "no GPU has code for every function of the wheel";
            return Err(Failure::wheel(text).hint(
                "compile all files for the same capabilities, or build without `--variants`",
            ));
        }
        // Each release from the oldest on, because installers prefer the highest bound, and wheels with PTX have
        // higher ones than wheels with SASS.
        let minors = oldest.minor..=built_with.minor.max(oldest.minor);
        let bounds = minors.map(|minor| format!("{}.{minor}", oldest.major));
        let features = Features::from([
            (DRIVER.to_owned(), bounds.collect()),
            (GPUS.to_owned(), gpus),
        ]);
        Ok(Self { features, notes })
    }

    /// What a wheel with this device code states and does not keep.
    pub fn untrue(&self, code: &DeviceCode, major: u32) -> Vec<String> {
        let values = |feature: &str| self.features.get(feature).into_iter().flatten();
        let first = ToolkitVersion::new(major, 0);
        // `13` is 13.0.
        let bounds = values(DRIVER).filter_map(|it| format!("{it}.0").parse().ok());
        let oldest = bounds.min().unwrap_or(ToolkitVersion::new(0, 0));
        let known = code.without_letters();
        let mut faults = Vec::new();
        if oldest < first {
            faults.push(format!(
                "`{DRIVER}` accepts drivers older than CUDA {major}"
            ));
        }
        if values(GPUS).next().is_none() && !code.fat_binaries.is_empty() {
            faults.push(format!("no `{GPUS}`, but device code for some GPUs"));
        }
        for value in values(GPUS) {
            let gpu = value.split_once('_').map_or(&**value, |(gpu, _)| gpu);
            let gpu: Option<Capability> = gpu.parse().ok();
            // No machine has a letter.
            if gpu.is_some_and(|gpu| gpu.suffix.is_some()) {
                continue;
            }
            let driver = gpu.and_then(|gpu| known.driver_for(gpu, None, first));
            if driver.is_none_or(|(driver, _)| driver > oldest.max(first)) {
                faults.push(format!(
                    "`{value}`, but no code that such a GPU and driver run"
                ));
            }
        }
        faults
    }

    /// `driver for CUDA 13.0 or newer; 80_real, 90_real`.
    pub fn text(&self) -> String {
        let oldest = self.features.get(DRIVER).and_then(|values| values.first());
        let oldest = oldest.map(|oldest| format!("driver for CUDA {oldest} or newer"));
        let gpus = self.features.get(GPUS).map(|gpus| gpus.join(", "));
        output::joined(oldest.into_iter().chain(gpus), "; ")
    }
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

    /// The labels but these.
    pub fn labels_without(&self, known: &[FileName]) -> Vec<&String> {
        let is_known = |label: &String| known.iter().any(|name| name.label.as_ref() == Some(label));
        self.variants
            .keys()
            .filter(|label| !is_known(label))
            .collect()
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
                    "build all wheels of a version with the same CUDA releases and capabilities, or remove the others",
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
    use cuda_find_core::capability::Declared;

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
        const PTX: &str = "90_virtual 100_virtual 110_virtual 120_virtual";
        // CUDA's own libraries decide.
        let all = "75_real 80_real 86_real 87_real 88_real 89_real 90_real 100_real 103_real 107_real 110_real \
                   120_real 121_real";
        for (files, plan, oldest, gpus) in [
            (&[][..], "", "13.0", all),
            (&[("8.0 8.6", "")], "", "13.0", "80_real 86_real"),
            // Drivers for 13.0 run the SASS and refuse the PTX.
            (&[("8.0", "9.0")], "", "13.0", "80_real"),
            (&[("", "9.0")], "", "13.4", PTX),
            // A GPU with 8.0 cannot run PTX for 8.6.
            (&[("", "8.6")], "", "13.4", PTX),
            (&[("9.0a 8.0", "")], "", "13.0", "80_real"),
            (&[("9.0a", "9.0")], "", "13.4", PTX),
            (&[("9.0a", "")], "", "13.0", "90a_real"),
            // 8.6 runs both files, and 8.0 the first alone.
            (&[("8.0", ""), ("8.6", "")], "", "13.0", "86_real"),
            (&[("8.0", ""), ("9.0a", "")], "", "13.0", "80_real"),
            // A thin wheel is for its capability, whatever code it has: the sources may have chosen by it.
            (&[("8.0 8.6 9.0", "")], "8.6", "13.0", "86_real"),
            (&[], "8.6", "13.0", "86_real"),
            (&[], "9.0-virtual", "13.4", PTX),
        ] {
            let code = code(files);
            let plan = (Declared::parse([plan]).ok()).map(|list| list.named_capabilities());
            let properties = Properties::of(&code, plan.as_ref(), CUDA_13_4).unwrap();
            assert_eq!(properties.features[DRIVER][0], oldest, "{files:?}");
            assert_eq!(properties.features[GPUS].join(" "), gpus, "{files:?}");
            // Of a wheel with PTX and one with SASS, the driver's release does not decide.
            assert_eq!(properties.features[DRIVER].last().unwrap(), "13.4");
            assert_eq!(properties.untrue(&code, 13), [""; 0]);
            let leaves_ptx_out = files == [("8.0", "9.0")];
            let mut notes = properties.notes.iter();
            let has_note =
                notes.any(|note| note.starts_with("drivers older than CUDA 13.4 refuse"));
            assert_eq!(
                has_note, leaves_ptx_out,
                "{files:?}: {:?}",
                properties.notes
            );
        }
        let without_a_common_gpu = code(&[("8.0", ""), ("9.0", "")]);
        assert!(Properties::of(&without_a_common_gpu, None, CUDA_13_4).is_err());
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
            ("13.0", "80_real 90a_real", 0),
            ("12.0", "80_real", 1),
            ("", "80_real", 1),
            ("13.0", "", 1),
        ] {
            let found = stated(driver, gpus).untrue(&code, 13);
            assert_eq!(found.len(), faults, "{driver} {gpus}: {found:?}");
        }
        // 10.3 does not run code for 10.0a.
        let letter = self::code(&[("10.0a", "")]);
        assert_eq!(stated("13.0", "100_real").untrue(&letter, 13).len(), 1);
    }

    #[test]
    fn contradictions_are_refused() {
        let properties =
            |sass: &str| Properties::of(&code(&[(sass, "")]), None, CUDA_13_4).unwrap();
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

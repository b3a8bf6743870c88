//! The result of an audit, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::internal::fatbin::Kind;
use cuda_build::internal::release;
use serde::Serialize;

use super::check::{Code, Finding, Severity};
use super::device::{Coverage, DeviceCode, Image, Runs};
use super::facts::{Artifact, files_as_text};
use super::rules::{self, Majors};
use crate::store::human_size;

/// The result for all arguments.
#[derive(Debug, Serialize)]
pub struct Report {
    pub artifacts: Vec<Audited>,
}

/// The result for one argument.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audited {
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// The name of the distribution; `None` without metadata.
    pub name: Option<String>,
    /// The CUDA majors of the native modules.
    pub cuda_majors: BTreeSet<u32>,
    pub findings: Vec<Finding>,
    /// Findings of the checks that `--allow` names.
    pub allowed: Vec<Finding>,
    pub modules: Vec<Module>,
    pub device_code: Vec<Device>,
}

/// What a native module needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Module {
    pub path: String,
    /// NVIDIA's libraries that the loader must find.
    pub libraries: Vec<String>,
    /// Whether the module can be imported only on a machine with a GPU driver.
    pub import_needs_driver: bool,
    pub search_path: Vec<String>,
}

/// The device code of files that have code for the same GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    pub files: Vec<String>,
    pub images: Vec<ListedImage>,
    /// The oldest driver that runs the SASS; `None` if there is none, or if it is not known.
    pub driver: Option<&'static str>,
    pub gpus: Vec<Coverage>,
}

/// The images of one capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedImage {
    /// `sass`, `ptx`, `lto-ir`, or the number of another kind.
    pub kind: String,
    pub capability: String,
    /// Of PTX, the version of the language.
    pub version: Option<String>,
    /// In the file, which usually has them compressed.
    pub bytes: u64,
}

impl Audited {
    /// Checks an artifact. Findings of the checks in `allow` do not count.
    pub fn new(artifact: &Artifact, allow: &[Code]) -> Self {
        let majors = Majors::of(artifact);
        let is_allowed = |finding: &Finding| allow.iter().any(|code| code.0 == finding.code);
        let (allowed, findings) = rules::findings(artifact).into_iter().partition(is_allowed);
        Self {
            path: artifact.path.clone(),
            size: artifact.size,
            name: artifact
                .package
                .as_ref()
                .map(|package| package.name.clone()),
            cuda_majors: majors.libraries.clone(),
            findings,
            allowed,
            modules: artifact.libraries.iter().filter_map(Module::new).collect(),
            device_code: devices(artifact, &majors),
        }
    }

    pub fn of_severity(&self, severity: Severity) -> Vec<&Finding> {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.severity == severity)
            .collect()
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.path, human_size(self.size));
        for module in &self.modules {
            text.push_str(&module.text());
        }
        for device in &self.device_code {
            text.push_str(&device.text());
        }
        for finding in &self.findings {
            text.push_str(&format!("  {finding}\n    hint: {}\n", finding.hint));
        }
        let count = |severity: Severity| match self.of_severity(severity).len() {
            0 => format!("no {}s", severity.name()),
            1 => format!("1 {}", severity.name()),
            more => format!("{more} {}s", severity.name()),
        };
        let allowed = match self.allowed.len() {
            0 => String::new(),
            count => format!(", {count} allowed"),
        };
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        text.push_str(&format!("  {errors}, {warnings}{allowed}\n"));
        text
    }
}

impl Module {
    /// `None` if the module needs nothing of NVIDIA.
    fn new(library: &super::facts::Library) -> Option<Self> {
        let needed = library.elf.needed.iter();
        let libraries: Vec<String> = needed
            .filter(|soname| crate::wheel::dependencies::is_nvidia_library(soname))
            .cloned()
            .collect();
        (!libraries.is_empty()).then(|| Self {
            path: library.path.clone(),
            import_needs_driver: libraries
                .iter()
                .any(|soname| rules::is_driver_library(soname)),
            libraries,
            search_path: library.elf.search_path().to_vec(),
        })
    }

    fn text(&self) -> String {
        let driver = match self.import_needs_driver {
            true => "; an import needs a GPU driver",
            false => "",
        };
        format!(
            "  {} needs {}{driver}\n",
            self.path,
            self.libraries.join(", ")
        )
    }
}

/// Groups files that have code for the same GPUs.
fn devices(artifact: &Artifact, majors: &Majors) -> Vec<Device> {
    let mut groups: BTreeMap<(u32, Vec<Image>), (Vec<String>, DeviceCode)> = BTreeMap::new();
    for (path, code, major) in rules::device_files(artifact, majors) {
        let images: Vec<Image> = code.images.keys().copied().collect();
        if images.is_empty() {
            continue;
        }
        let (paths, sum) = groups.entry((major, images)).or_default();
        paths.push(path.to_owned());
        for (image, bytes) in &code.images {
            *sum.images.entry(*image).or_default() += bytes;
        }
    }
    let device =
        |((major, _), (files, code)): ((u32, Vec<Image>), (Vec<String>, DeviceCode))| Device {
            files,
            images: code
                .images
                .iter()
                .map(|(image, bytes)| listed(image, *bytes))
                .collect(),
            driver: code
                .capabilities(Kind::Elf)
                .next()
                .and_then(|_| release::driver_floor(major)),
            gpus: code.coverage(major),
        };
    groups.into_iter().map(device).collect()
}

fn listed(image: &Image, bytes: u64) -> ListedImage {
    ListedImage {
        kind: match image.kind {
            Kind::Elf => "sass".to_owned(),
            Kind::Ptx => "ptx".to_owned(),
            Kind::LtoIr => "lto-ir".to_owned(),
            Kind::Other(number) => format!("kind {number}"),
            _ => "unknown".to_owned(),
        },
        capability: image.capability.to_string(),
        version: (image.kind == Kind::Ptx).then(|| format!("{}.{}", image.isa.0, image.isa.1)),
        bytes,
    }
}

impl ListedImage {
    /// `SASS 8.0`.
    pub fn label(&self) -> String {
        let kind = match self.kind.as_str() {
            "sass" | "ptx" | "lto-ir" => self.kind.to_uppercase(),
            other => other.to_owned(),
        };
        format!("{kind} {}", self.capability)
    }

    fn text(&self) -> String {
        let mut text = self.label();
        if let Some(version) = &self.version {
            text.push_str(&format!(" version {version}"));
        }
        if self.bytes > 0 {
            text.push_str(&format!(" ({})", human_size(self.bytes)));
        }
        text
    }
}

impl Device {
    fn text(&self) -> String {
        let files = files_as_text(&self.files);
        let images: Vec<String> = self.images.iter().map(ListedImage::text).collect();
        let mut text = format!("  device code in {files}: {}\n", images.join(", "));
        if let Some(driver) = self.driver {
            text.push_str(&format!("    SASS needs driver {driver} or newer\n"));
        }
        for gpus in &self.gpus {
            let runs = match &gpus.runs {
                Runs::Native => "native".to_owned(),
                Runs::Jit { driver } => format!("JIT from PTX, needs driver {driver}"),
                Runs::Linked => "linked from LTO-IR by nvJitLink".to_owned(),
                Runs::None => "none".to_owned(),
            };
            text.push_str(&format!(
                "    {:<10} {:<24} {runs}\n",
                gpus.generation,
                gpus.capabilities.join(", ")
            ));
        }
        text
    }
}

//! The result of an audit, as text and as JSON.

use std::collections::BTreeSet;

use cuda_find_core::release;
use serde::Serialize;

use super::artifact::{Artifact, Majors};
use super::check::{Finding, Severity};
use super::rules;
use crate::output::{human_size, joined};
use crate::package::device::{DeviceCode, DeviceImage, ImageKind};

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
    pub device_code: Vec<Device>,
}

/// The device code of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    pub file: String,
    pub images: Vec<DeviceImage>,
    /// The oldest driver that runs the SASS; `None` if there is none, or if it is not known.
    pub driver: Option<&'static str>,
}

impl Audited {
    /// Checks an artifact. Findings of the checks whose codes are in `allow` do not count.
    pub fn new(artifact: &Artifact, allow: &[String]) -> Self {
        let majors = Majors::of(artifact);
        let findings = rules::findings(artifact, &majors).into_iter();
        let (allowed, findings) = findings.partition(|finding| {
            let mut codes = allow.iter();
            codes.any(|code| code.eq_ignore_ascii_case(finding.code))
        });
        let device_code = artifact.device_code(&majors).into_iter();
        let device_code = device_code.map(|(path, code, major)| Device::new(path, code, major));
        Self {
            path: artifact.path.clone(),
            size: artifact.size,
            name: artifact.name.clone(),
            cuda_majors: majors.modules,
            findings,
            allowed,
            device_code: device_code.collect(),
        }
    }

    pub fn of_severity(&self, severity: Severity) -> Vec<&Finding> {
        let mut findings = Vec::from_iter(&self.findings);
        findings.retain(|finding| finding.severity == severity);
        findings
    }

    /// The report as text, each hint once.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.path, human_size(self.size));
        text.extend(self.device_code.iter().map(Device::text));
        for (index, finding) in self.findings.iter().enumerate() {
            text.push_str(&format!("  {finding}\n"));
            let next = self.findings.get(index + 1);
            if next.is_none_or(|next| next.code != finding.code) {
                text.push_str(&format!("    hint: {}\n", finding.hint));
            }
        }
        let count = |severity: Severity| self.of_severity(severity).len();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let allowed = self.allowed.len();
        text + &format!("  errors: {errors}, warnings: {warnings}, allowed: {allowed}\n")
    }
}

impl Device {
    fn new(path: &str, code: &DeviceCode, major: u32) -> Self {
        let has_sass = code.has(ImageKind::Sass);
        Self {
            file: path.to_owned(),
            images: code.images(),
            driver: has_sass.then(|| release::driver_floor(major)).flatten(),
        }
    }

    /// `SASS 8.0 (1.2 MB), PTX 9.0 (30.0 kB)`
    pub fn images_as_text(&self) -> String {
        let images = self.images.iter().map(|image| match image.bytes {
            0 => image.label(),
            bytes => format!("{} ({})", image.label(), human_size(bytes)),
        });
        joined(images, ", ")
    }

    fn text(&self) -> String {
        let (file, images) = (&self.file, self.images_as_text());
        let mut text = format!("  device code in {file}: {images}\n");
        if let Some(driver) = self.driver {
            text.push_str(&format!("    SASS needs driver {driver} or newer\n"));
        }
        text
    }
}

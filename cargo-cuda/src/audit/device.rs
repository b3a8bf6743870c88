//! The device code of a file, and which GPUs can run it.

use std::collections::BTreeMap;

use cuda_build::internal::capability::{self, Support};
use cuda_build::internal::fatbin::{Compression, Kind, Outline};
use cuda_build::internal::release;
use cuda_build::{Capability, Plan, ToolkitVersion};
use serde::Serialize;

/// The images of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCode {
    /// Each image once, with the bytes that it takes in the file.
    pub images: BTreeMap<Image, u64>,
    /// The bytes of relocatable code that was left in a linked file.
    pub relocatable: u64,
    /// The bytes of SASS that is not compressed.
    pub uncompressed: u64,
}

/// Code for one capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    pub kind: Kind,
    pub capability: Capability,
    /// The version of the PTX language; `(0, 0)` for other kinds.
    pub isa: (u16, u16),
}

/// What a GPU can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "lowercase")]
pub enum Runs {
    /// SASS.
    Native,
    /// PTX, which the driver compiles when the program starts.
    Jit {
        /// The oldest driver that reads this version of PTX.
        driver: String,
    },
    /// LTO-IR, which nvJitLink links into SASS while the program runs.
    Linked,
    /// Nothing.
    None,
}

/// GPUs of one generation with the same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The name of the generation: Ampere.
    pub generation: &'static str,
    /// The capabilities of its GPUs: 8.0, 8.6.
    pub capabilities: Vec<String>,
    #[serde(flatten)]
    pub runs: Runs,
}

impl DeviceCode {
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.relocatable == 0
    }

    /// Adds an image of a fat binary.
    pub fn add(&mut self, outline: &Outline) {
        let image = Image {
            kind: outline.kind,
            capability: outline.capability,
            isa: match outline.kind {
                Kind::Ptx => outline.version,
                _ => (0, 0),
            },
        };
        *self.images.entry(image).or_default() += outline.len;
        if outline.kind == Kind::Elf && outline.compression == Compression::None {
            self.uncompressed += outline.len;
        }
    }

    /// The capabilities of one kind, ascending.
    pub fn capabilities(&self, kind: Kind) -> impl Iterator<Item = Capability> {
        self.images
            .keys()
            .filter(move |image| image.kind == kind)
            .map(|image| image.capability)
    }

    /// What a GPU can run. `major` is the CUDA major that compiled the code.
    pub fn runs_on(&self, device: Capability, major: u32) -> Runs {
        let toolkit = ToolkitVersion::new(major, 0);
        let plan = |real: Vec<Capability>, ptx: Vec<Capability>| {
            Plan { real, ptx }.runs_on(device, toolkit)
        };
        if plan(self.capabilities(Kind::Elf).collect(), Vec::new()) == Support::Native {
            return Runs::Native;
        }
        // LTO-IR is compiled for the same GPUs as PTX.
        let compiled_from = |kind: Kind| {
            self.images.keys().filter(move |image| {
                image.kind == kind && plan(Vec::new(), vec![image.capability]) == Support::Jit
            })
        };
        match compiled_from(Kind::Ptx).map(|image| image.isa).min() {
            Some(isa) => Runs::Jit {
                driver: driver_for_ptx(isa),
            },
            None if compiled_from(Kind::LtoIr).next().is_some() => Runs::Linked,
            None => Runs::None,
        }
    }

    /// What each GPU can run that the CUDA major supports, and every newer GPU.
    pub fn coverage(&self, major: u32) -> Vec<Coverage> {
        let mut list: Vec<Coverage> = Vec::new();
        for facts in devices(major) {
            let runs = self.runs_on(facts.capability, major);
            let capability = facts.capability.to_string();
            match list.last_mut() {
                Some(last) if last.generation == facts.architecture && last.runs == runs => {
                    last.capabilities.push(capability);
                }
                _ => list.push(Coverage {
                    generation: facts.architecture,
                    capabilities: vec![capability],
                    runs,
                }),
            }
        }
        list
    }

    /// The GPUs that are not older than the oldest image and have no code. Boards with a GPU of their own (Jetson) are
    /// left out, because few wheels are for them.
    pub fn gaps(&self, major: u32) -> Vec<Capability> {
        let Some(oldest) = self
            .images
            .keys()
            .map(|image| image.capability.base())
            .min()
        else {
            return Vec::new();
        };
        devices(major)
            .filter(|facts| facts.jetson != Some(true) && facts.capability >= oldest)
            .map(|facts| facts.capability)
            .filter(|device| self.runs_on(*device, major) == Runs::None)
            .collect()
    }

    /// Whether a GPU that is newer than every known one can run the code.
    pub fn runs_on_future(&self) -> bool {
        [Kind::Ptx, Kind::LtoIr]
            .into_iter()
            .flat_map(|kind| self.capabilities(kind))
            .any(|capability| capability.suffix.is_none())
    }

    /// The capabilities with a suffix whose GPU has no code without a suffix.
    pub fn without_fallback(&self, major: u32) -> Vec<Capability> {
        let portable = Self {
            images: self
                .images
                .iter()
                .filter(|(image, _)| image.capability.suffix.is_none())
                .map(|(image, size)| (*image, *size))
                .collect(),
            ..Self::default()
        };
        let mut missing: Vec<Capability> = self
            .images
            .keys()
            .map(|image| image.capability)
            .filter(|c| c.suffix.is_some() && portable.runs_on(c.base(), major) == Runs::None)
            .collect();
        missing.sort();
        missing.dedup();
        missing
    }
}

/// The GPUs that a CUDA major supports, and newer ones.
fn devices(major: u32) -> impl Iterator<Item = &'static capability::CapabilityFacts> {
    let first = ToolkitVersion::new(major, 0);
    capability::all().filter(move |facts| facts.removed_in.is_none_or(|removed| first < removed))
}

/// The oldest driver that reads PTX of this version: the one of the first CUDA release that writes it.
fn driver_for_ptx(isa: (u16, u16)) -> String {
    let isa = (u32::from(isa.0), u32::from(isa.1));
    let versions = release::majors()
        .flat_map(|major| (0..16).map(move |minor| ToolkitVersion::new(major, minor)));
    let mut releases = versions.filter_map(release::facts);
    match releases.find(|release| release.ptx_isa >= isa) {
        Some(release) => match release.driver {
            Some(driver) => format!("{driver} (CUDA {})", release.version),
            None => format!("that of CUDA {}", release.version),
        },
        None => format!("a driver that reads PTX {}.{}", isa.0, isa.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(sass: &[&str], ptx: &[&str]) -> DeviceCode {
        let mut code = DeviceCode::default();
        let images = sass
            .iter()
            .map(|c| (Kind::Elf, c))
            .chain(ptx.iter().map(|c| (Kind::Ptx, c)));
        for (kind, capability) in images {
            code.add(&Outline {
                kind,
                capability: capability.parse().unwrap(),
                compression: Compression::Zstd,
                version: (8, 8),
                len: 100,
            });
        }
        code
    }

    fn texts(list: &[Capability]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn coverage_names_native_jit_and_none() {
        let code = code(&["8.0", "9.0a"], &["9.0"]);
        let on = |device: &str| code.runs_on(device.parse().unwrap(), 12);
        assert_eq!(on("8.9"), Runs::Native);
        assert_eq!(on("9.0"), Runs::Native);
        let driver = "575.51.03 (CUDA 12.9)".to_owned();
        assert_eq!(on("10.0"), Runs::Jit { driver });
        assert_eq!(on("7.5"), Runs::None);
        let rows = code.coverage(13);
        assert_eq!(rows[0].generation, "Turing");
        assert_eq!(rows[0].runs, Runs::None);
        assert_eq!(rows[1].capabilities, ["8.0", "8.6", "8.7", "8.8"]);
        assert!(code.gaps(12).is_empty() && code.runs_on_future());
    }

    #[test]
    fn gaps_are_between_and_after_the_images() {
        let template = code(&["8.0", "9.0", "12.0"], &["12.0"]);
        assert_eq!(texts(&template.gaps(13)), ["10.0", "10.3", "10.7"]);
        let without_ptx = code(&["8.0"], &[]);
        assert_eq!(texts(&without_ptx.gaps(13))[0], "9.0");
        assert!(!without_ptx.runs_on_future());
        assert!(!code(&["12.0"], &["12.0a"]).runs_on_future());
    }

    #[test]
    fn suffixes_need_portable_code() {
        let missing = |sass: &[&str], ptx: &[&str]| texts(&code(sass, ptx).without_fallback(13));
        assert_eq!(missing(&["8.0", "9.0a"], &["12.0"]), ["9.0a"]);
        assert!(missing(&["9.0", "9.0a"], &[]).is_empty());
        assert!(missing(&["9.0a"], &["8.0"]).is_empty());
        assert_eq!(missing(&["10.0f", "10.3a"], &[]), ["10.0f", "10.3a"]);
    }
}

//! The last line: whether a build will work.

use cuda_build::Component;

use super::{Diagnosis, code_of};
use crate::exit_code;

/// What a build would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The code that a build would end with.
    pub code: u8,
    /// In a sentence.
    pub line: String,
}

impl Verdict {
    /// Whether a build will work.
    pub fn is_good(&self) -> bool {
        self.code == exit_code::SUCCESS
    }
}

/// Judges what was found.
pub fn verdict(diagnosis: &Diagnosis<'_>) -> Verdict {
    let bad = |code: u8, line: &str| Verdict {
        code,
        line: line.to_owned(),
    };
    let toolkit = match &diagnosis.report.toolkit {
        Ok(toolkit) => toolkit,
        Err(error) => return bad(code_of(error), "Not ready to build."),
    };
    if let Some(Err(_)) = diagnosis.capabilities {
        let line = "Not ready to build: the toolkit does not support the declared capabilities.";
        return bad(exit_code::CAPABILITY, line);
    }
    let packages = diagnosis
        .workspace
        .iter()
        .flat_map(|workspace| &workspace.packages);
    // Outside a workspace any crate is meant.
    let compiles = diagnosis.workspace.is_none()
        || packages.into_iter().any(|package| package.uses_cuda_build);
    let has = |component| toolkit.get(component).is_some();
    let refused = diagnosis.host.as_ref().and_then(|host| host.as_ref().err());
    let what = match (has(Component::Nvcc), has(Component::Nvrtc), refused) {
        (true, false, Some(error)) if compiles => {
            let line = "Not ready to build: nvcc has no host compiler that it accepts, and NVRTC is missing.";
            return bad(code_of(error), line);
        }
        (true, false, Some(_)) => {
            "no device code: nvcc has no host compiler that it accepts".to_owned()
        }
        (true, true, Some(_)) => {
            "modules with NVRTC; nvcc has no host compiler that it accepts".to_owned()
        }
        (true, true, None) => "modules with NVRTC or nvcc, libraries with nvcc".to_owned(),
        (true, false, None) => "modules and libraries with nvcc".to_owned(),
        (false, true, _) => "modules with NVRTC; libraries need nvcc, which is missing".to_owned(),
        (false, false, _) => "no device code: neither nvcc nor NVRTC is there".to_owned(),
    };
    let once = match diagnosis.undeclared.is_empty() {
        true => "",
        false => " (`.cu` files need declared capabilities first)",
    };
    Verdict {
        code: exit_code::SUCCESS,
        line: format!(
            "A build will work with CUDA {}{once}: {what}.",
            toolkit.version()
        ),
    }
}

//! The verdict of `doctor`: whether a build will work.

use cuda_build::Component;

use super::{Capabilities, Findings, HostCompilerFindings};
use crate::exit_code;

/// The exit code that a build would have, and the sentence for it.
pub(super) fn verdict(findings: &Findings) -> (u8, String) {
    let not_ready = |code: u8, reason: &str| (code, format!("Not ready to build{reason}."));
    let toolkit = match (&findings.toolkit, &findings.problem) {
        (Some(toolkit), _) => toolkit,
        (None, problem) => {
            let code = problem.as_ref().map(|problem| problem.code);
            return not_ready(code.unwrap_or(exit_code::FAILURE), "");
        }
    };
    if let Some(Capabilities::Refused(_)) = findings.capabilities {
        let reason = ": the toolkit does not support the declared capabilities";
        return not_ready(exit_code::CAPABILITY, reason);
    }
    let missing = findings.missing_for_features.iter();
    let missing: Vec<&str> = missing
        .filter(|missing| missing.is_linked)
        .map(|missing| missing.component)
        .collect();
    if !missing.is_empty() {
        let reason = format!(": missing {}", missing.join(", "));
        return not_ready(exit_code::NOT_FOUND, &reason);
    }
    let nvcc = toolkit.has(Component::Nvcc);
    let nvrtc = toolkit.has(Component::Nvrtc) && !findings.is_cross;
    let refused = match findings.host_compiler {
        Some(HostCompilerFindings::Refused { code, .. }) => Some(code),
        _ => None,
    };
    if !findings.compiles {
        let text = match (nvcc, refused) {
            (true, None) => "Ready to build.",
            (true, Some(_)) => {
                "Ready to build, except crates that call nvcc, which accepts no host compiler here."
            }
            (false, _) => "Ready to build, except crates that call nvcc, which is missing.",
        };
        return (exit_code::SUCCESS, text.to_owned());
    }
    let what = match (nvcc, nvrtc, refused) {
        (true, false, Some(code)) => {
            let reason = ": nvcc accepts no host compiler on this machine, and NVRTC is missing";
            return not_ready(code, reason);
        }
        (true, true, Some(_)) => {
            "modules with NVRTC; nvcc accepts no host compiler on this machine"
        }
        (true, true, None) => "modules with NVRTC or nvcc, libraries with nvcc",
        (true, false, None) => "modules and libraries with nvcc",
        (false, true, _) => "modules with NVRTC; libraries need nvcc, which is missing",
        (false, false, _) if findings.is_cross => "no device code, because nvcc is missing",
        (false, false, _) => "no device code, because nvcc and NVRTC are missing",
    };
    let condition = match findings.capabilities_undeclared.is_empty() {
        true => "",
        false => ", after capabilities are declared",
    };
    let line = format!("Ready to build{condition}: {what}.");
    (exit_code::SUCCESS, line)
}

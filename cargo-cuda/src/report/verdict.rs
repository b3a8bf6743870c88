//! The last line of `doctor`: whether a build will work.

use cuda_build::Component;

use super::{Capabilities, Findings, HostCompilerFindings};
use crate::exit_code;

/// The exit code that a build would have, and the last line of the report.
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
    let (nvcc, nvrtc) = (toolkit.has(Component::Nvcc), toolkit.has(Component::Nvrtc));
    let refused = match findings.host_compiler {
        Some(HostCompilerFindings::Refused { code, .. }) => Some(code),
        _ => None,
    };
    let what = match (nvcc, nvrtc, refused) {
        (true, false, Some(code)) if findings.compiles => {
            let reason = ": nvcc accepts no host compiler on this machine, and NVRTC is missing";
            return not_ready(code, reason);
        }
        (true, false, Some(_)) => "no device code, because nvcc accepts no host compiler here",
        (true, true, Some(_)) => {
            "modules with NVRTC; nvcc accepts no host compiler on this machine"
        }
        (true, true, None) => "modules with NVRTC or nvcc, libraries with nvcc",
        (true, false, None) => "modules and libraries with nvcc",
        (false, true, _) => "modules with NVRTC; libraries need nvcc, which is missing",
        (false, false, _) => "no device code, because nvcc and NVRTC are missing",
    };
    let condition = match findings.capabilities_undeclared.is_empty() {
        true => "",
        false => " (`.cu` files need declared capabilities first)",
    };
    let version = &toolkit.version;
    let line = format!("A build will work with CUDA {version}{condition}: {what}.");
    (exit_code::SUCCESS, line)
}

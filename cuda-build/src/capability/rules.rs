//! Which code runs on which device.
//!
//! - SASS without a suffix runs on devices of the same major whose minor is not smaller.
//! - SASS with `a` runs only on devices of the same capability.
//! - SASS with `f` runs on the devices of its family.
//! - The driver compiles PTX without a suffix for devices of the same or a newer capability.
//! - The driver compiles PTX with a suffix for the devices on which SASS with that suffix runs.
//!
//! `ptxas --help` documents these rules. They were checked for each pair of code and device with `ptxas` 12.9.86 and
//! 13.5.37.

use super::{Capability, Plan, Suffix, facts};
use crate::release;
use crate::version::ToolkitVersion;

/// Which code of a plan a device can run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Support {
    /// SASS.
    Native,
    /// Only PTX, which the driver compiles.
    Jit,
    /// No code.
    None,
}

impl Plan {
    /// Whether a device runs this plan's SASS, or at least its PTX. `check_device` in the
    /// source from [`generated_source`](super::generated_source) has the same result at run time.
    pub fn runs_on(&self, device: Capability, toolkit: ToolkitVersion) -> Support {
        let sass = |code: &Capability| sass_runs_on(*code, device, toolkit);
        let ptx = |code: &Capability| ptx_runs_on(*code, device, toolkit);
        if self.real.iter().any(sass) {
            Support::Native
        } else if self.ptx.iter().any(ptx) {
            Support::Jit
        } else {
            Support::None
        }
    }
}

/// Whether SASS that this toolkit compiled for `code` runs on a device.
///
/// An unknown device is assumed to belong to the families of its major, as 10.7 and 12.1 did when they were new.
/// Before CUDA 13, code for Jetson boards and code for other GPUs are not interchangeable.
pub(super) fn sass_runs_on(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    let not_older = code.major == device.major && code.minor <= device.minor;
    match code.suffix {
        None => not_older && !jetson_mismatch(code, device, toolkit),
        Some(Suffix::ArchSpecific) => code.base() == device.base(),
        Some(Suffix::Family) => {
            let known_outside_family = facts(device).is_some()
                && facts(code).is_some_and(|facts| !facts.family.contains(&device.minor));
            not_older && !known_outside_family
        }
    }
}

/// Whether a driver that is as new as the toolkit can compile PTX for `code` on a device.
fn ptx_runs_on(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    match code.suffix {
        None => code.base() <= device.base(),
        Some(_) => sass_runs_on(code, device, toolkit),
    }
}

fn jetson_mismatch(code: Capability, device: Capability, toolkit: ToolkitVersion) -> bool {
    let jetson = |capability| facts(capability).and_then(|facts| facts.jetson);
    toolkit.major < release::JETSON_UNIFIED_SINCE
        && matches!((jetson(code), jetson(device)), (Some(a), Some(b)) if a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{all, supported};

    const CUDA_12: ToolkitVersion = ToolkitVersion::new(12, 9);
    const CUDA_13: ToolkitVersion = ToolkitVersion::new(13, 5);

    fn c(text: &str) -> Capability {
        text.parse().unwrap()
    }

    #[test]
    fn families_as_ptxas_pairs_them() {
        for (code, devices) in [
            ("10.0f", &["10.0", "10.3", "10.7"][..]),
            ("10.3f", &["10.3", "10.7"]),
            ("10.7f", &["10.7"]),
            ("11.0f", &["11.0"]),
            ("12.0f", &["12.0", "12.1"]),
            ("12.1f", &["12.1"]),
            ("10.1f", &["10.1"]),
        ] {
            let runs: Vec<String> = all()
                .map(|row| row.capability)
                .filter(|&device| sass_runs_on(c(code), device, CUDA_13))
                .map(|device| device.to_string())
                .collect();
            assert_eq!(runs, devices, "{code}");
        }
        assert!(
            sass_runs_on(c("12.0f"), c("12.6"), CUDA_13),
            "a device not known yet joins"
        );
    }

    #[test]
    fn jetson_code_is_apart_before_13() {
        assert!(!sass_runs_on(c("8.6"), c("8.7"), CUDA_12));
        assert!(sass_runs_on(c("8.6"), c("8.7"), CUDA_13));
        assert!(sass_runs_on(c("8.7"), c("8.7"), CUDA_12));
        assert!(ptx_runs_on(c("8.6"), c("8.7"), CUDA_12));
    }

    #[test]
    fn over_all_rows() {
        for toolkit in [CUDA_12, CUDA_13] {
            for code in supported(toolkit) {
                assert!(
                    sass_runs_on(code, code.base(), toolkit),
                    "{code} on its own device"
                );
                for device in all().map(|row| row.capability) {
                    let (sass, ptx) = (
                        sass_runs_on(code, device, toolkit),
                        ptx_runs_on(code, device, toolkit),
                    );
                    assert!(!sass || ptx, "{code} on {device}: SASS runs, so would PTX");
                    assert!(
                        !sass || code.major == device.major,
                        "{code} on {device}: across majors"
                    );
                    assert!(
                        !ptx || code.base() <= device,
                        "{code} on {device}: on an older device"
                    );
                }
            }
        }
    }
}

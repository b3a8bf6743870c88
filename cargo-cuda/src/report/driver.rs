//! Warnings about running the built programs with this machine's driver and GPUs.

use cuda_build::internal::capability::Support;
use cuda_build::internal::driver::Driver;
use cuda_build::internal::release::{self, driver_floor};
use cuda_build::{Capability, Plan, ToolkitVersion};

/// A warning if the driver is older than the toolkit.
pub fn notes(driver: &Driver, toolkit: ToolkitVersion) -> Vec<String> {
    if driver.version >= toolkit {
        return Vec::new();
    }
    let newer = |floor: Option<&str>| match floor {
        Some(floor) => format!("NVIDIA's driver {floor} or newer"),
        None => "a newer driver from NVIDIA".to_owned(),
    };
    let (supported, major) = (driver.version, toolkit.major);
    if supported.major < major {
        return vec![format!(
            "the driver supports only CUDA {supported} and older: programs built with CUDA {toolkit} do not run here; install {}, or \
             build with CUDA {1} (`cargo cuda toolkit add {1}`)",
            newer(driver_floor(major)),
            supported.major
        )];
    }
    let floor = release::facts(toolkit).and_then(|facts| facts.driver);
    vec![format!(
        "the driver is older than CUDA {toolkit}: it runs SASS, but cannot compile this toolkit's PTX; declare the \
         GPUs' own capabilities, or install {}",
        newer(floor)
    )]
}

/// A warning for each GPU of this machine for which a package has no SASS.
pub fn gpu_notes(
    driver: &Driver,
    toolkit: ToolkitVersion,
    package: &str,
    plan: &Plan,
) -> Vec<String> {
    let mut gpus = driver.gpus.clone();
    gpus.sort();
    gpus.dedup();
    let note = |gpu: Capability| match plan.runs_on(gpu, toolkit) {
        Support::Native => None,
        Support::Jit if driver.version < toolkit => Some(format!(
            "{package}: this machine's {gpu} GPU cannot run it: only its PTX matches, and the driver is too old to \
             compile PTX of CUDA {toolkit}; add \"{gpu}\" to `capabilities`"
        )),
        Support::Jit => Some(format!(
            "{package}: only PTX for this machine's {gpu} GPU, which the driver compiles when a program starts; \
             add \"{gpu}\" to `capabilities` to avoid that"
        )),
        Support::None => Some(format!(
            "{package}: no code for this machine's {gpu} GPU, only for {plan}; add \"{gpu}\" to `capabilities`"
        )),
    };
    gpus.into_iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_build::Capability;
    use cuda_build::internal::Declared;

    fn driver(version: (u32, u32), gpus: &[&str]) -> Driver {
        Driver {
            version: ToolkitVersion::new(version.0, version.1),
            gpus: gpus
                .iter()
                .map(|gpu| gpu.parse::<Capability>().unwrap())
                .collect(),
            library: "/usr/lib64/libcuda.so.580.65.06".to_owned(),
            opened_as: "libcuda.so.1".to_owned(),
        }
    }

    #[test]
    fn a_driver_against_the_toolkit() {
        let toolkit = ToolkitVersion::new(13, 0);
        for (version, expected) in [
            ((13, 0), None),
            ((13, 4), None),
            ((14, 0), None),
            (
                (12, 9),
                Some(
                    "programs built with CUDA 13.0 do not run here; install NVIDIA's driver 580.65.06 or newer, or build with \
                     CUDA 12 (`cargo cuda toolkit add 12`)",
                ),
            ),
        ] {
            let notes = notes(&driver(version, &[]), toolkit);
            assert_eq!(
                notes.is_empty(),
                expected.is_none(),
                "{version:?}: {notes:?}"
            );
            assert!(
                expected.is_none_or(|text| notes[0].contains(text)),
                "{notes:?}"
            );
        }
        let older = notes(&driver((12, 2), &[]), ToolkitVersion::new(12, 9));
        assert!(
            older[0].contains("it runs SASS")
                && older[0].ends_with("install NVIDIA's driver 575.51.03 or newer"),
            "{older:?}"
        );
        // No table names the driver of this one: no number is better than a guessed one.
        let unknown = notes(&driver((13, 0), &[]), ToolkitVersion::new(13, 5));
        assert!(
            unknown[0].ends_with("install a newer driver from NVIDIA"),
            "{unknown:?}"
        );
    }

    #[test]
    fn gpus_against_what_is_declared() {
        let toolkit = ToolkitVersion::new(13, 0);
        let plan = Declared::parse(["8.0", "9.0+PTX"])
            .unwrap()
            .plan(toolkit, &[], None)
            .unwrap();
        let notes = |version, gpus: &[&str]| gpu_notes(&driver(version, gpus), toolkit, "p", &plan);
        assert!(notes((13, 0), &["8.0", "8.6", "9.0"]).is_empty());
        let newer = notes((13, 0), &["12.0", "12.0"]);
        assert_eq!(newer.len(), 1);
        assert!(
            newer[0].contains("only PTX for this machine's 12.0 GPU"),
            "{newer:?}"
        );
        assert!(notes((12, 9), &["12.0"])[0].contains("the driver is too old"));
        assert!(notes((13, 0), &["7.5"])[0].contains("no code for this machine's 7.5 GPU"));
    }
}

//! Lists the parts of a toolkit that a package needs, given what it declares and compiles.

use crate::config::{Config, Cudart, Wanted};
use cuda_find_core::component::Component;
use cuda_find_core::select::{Need, Part, Request, RequestedRelease, Strength};

const DECLARED: &str = "declared in `[package.metadata.cuda]`";

/// The request for the components that a package declares, which depend on the CUDA major that is found.
#[must_use]
pub fn request(config: &Config) -> Request {
    let mut toolkit = config.toolkit.clone();
    let release = config.release.and_then(RequestedRelease::comparator);
    toolkit.comparators.extend(release);
    let by_major = config.majors_with_components().map(|major| {
        let components = config.for_major(major).components;
        (major, needs_of(components, config))
    });
    Request {
        // No CUDA release has the major 0, so this is the general list.
        needs: needs_of(config.for_major(0).components, config),
        by_major: by_major.collect(),
        alternatives: Vec::new(),
        major: config.release.map(|release| release.major),
        declared_majors: config.majors.clone(),
        toolkit,
        take_everything: false,
    }
}

fn needs_of(components: &[Wanted], config: &Config) -> Vec<Need> {
    let mut needs = Vec::new();
    for wanted in components {
        let component = wanted.component;
        let is_required_by_script = config.required_by_script.contains(&component);
        let why = if is_required_by_script {
            "required by the build script"
        } else {
            DECLARED
        };
        let mut need = match component {
            // `libcuda.so` exists only on machines with a driver, so the package links a stub that
            // is generated from `cuda.h`, a header of cudart.
            Component::Driver => Need::new(
                Component::Cudart,
                Part::Headers,
                "`cuda.h`, to link with the driver's library",
            ),
            Component::Cudart => runtime(config.cudart, why),
            _ => Need::new(component, Part::main(component), why),
        };
        need.version = wanted.version.clone();
        if wanted.optional && !is_required_by_script {
            need.strength = Strength::Optional;
        }
        needs.push(need);
    }
    needs
}

pub(super) fn runtime(cudart: Cudart, why: &str) -> Need {
    let part = match cudart {
        Cudart::Static => Part::Archive,
        Cudart::Shared => Part::Shared,
    };
    Need::new(Component::Cudart, part, why)
}

pub(super) fn nvrtc(why: &str) -> Need {
    Need::new(Component::Nvrtc, Part::Shared, why)
}

/// nvcc, and the components without which it compiles nothing: cicc, the headers of nvcc and of the runtime. CCCL is
/// optional: `cuda_fp16.h` needs it, but not every kernel includes that header.
pub(super) fn nvcc(why: &str) -> Vec<Need> {
    vec![
        Need::new(Component::Nvcc, Part::Tools, why),
        Need::new(Component::Nvvm, Part::Tools, why),
        Need::new(Component::Crt, Part::Headers, why),
        Need::new(Component::Cudart, Part::Headers, why),
        Need::new(Component::Cccl, Part::Headers, why).with(Strength::Optional),
    ]
}

/// Headers that a kernel for NVRTC may include. They are optional, but if they are found, their
/// versions must be compatible with the toolkit.
pub(super) fn nvrtc_header_needs() -> [Need; 2] {
    let headers =
        |component, why| Need::new(component, Part::Headers, why).with(Strength::Optional);
    [
        headers(Component::Cudart, "headers of the runtime"),
        headers(Component::Cccl, "headers of CUB, Thrust and libcu++"),
    ]
}

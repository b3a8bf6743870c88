//! What a package needs from a toolkit: follows from what it declares and compiles.

use std::path::PathBuf;

use crate::compile::{Engine, Library, Module};
use crate::component::{Bundle, Component};
use crate::config::{Config, Cudart};
use crate::probe::Found;
use crate::root::Root;
use crate::select::{Need, Part, Request, Strength};
use crate::version::ReleaseReq;

/// The request for a package that compiles `modules` and `libraries`, for `major` or for the
/// newest that is found.
#[must_use]
pub fn request(
    config: &Config,
    modules: &[Module],
    libraries: &[Library],
    major: Option<u32>,
) -> Request {
    let mut needs = Vec::new();
    let fixed = |engine: Engine| {
        modules
            .iter()
            .filter(|m| m.wanted_engine() == engine)
            .count()
    };
    let files: usize =
        libraries.iter().map(|l| l.sources().len()).sum::<usize>() + fixed(Engine::Nvcc);
    if files > 0 {
        needs.extend(nvcc_needs(&format!(
            "needed to compile {}",
            count(files, "`.cu` file")
        )));
    }
    if !libraries.is_empty() {
        needs.push(runtime_need(config.cudart, "needed to link device code"));
    }
    if fixed(Engine::Nvrtc) > 0 {
        needs.push(nvrtc_need(&format!(
            "needed to compile {}",
            count(fixed(Engine::Nvrtc), "module")
        )));
    }
    declared(config, major, &mut needs);
    let automatic = fixed(Engine::Auto);
    let alternatives = if automatic == 0 {
        Vec::new()
    } else {
        let why = format!("needed to compile {}", count(automatic, "module"));
        vec![
            vec![nvrtc_need(&format!("{why}; `nvcc` would do as well"))],
            nvcc_needs(&why),
        ]
    };
    if automatic + fixed(Engine::Nvrtc) > 0 {
        // Headers that a kernel may include: used where they are, and then they have to fit.
        needs.push(
            Need::new(Component::Cudart, Part::Headers, "headers of the runtime")
                .with(Strength::Optional),
        );
        needs.push(
            Need::new(
                Component::Cccl,
                Part::Headers,
                "headers of CUB, Thrust and libcu++",
            )
            .with(Strength::Optional),
        );
    }
    let mut toolkit = config.toolkit.clone();
    toolkit
        .comparators
        .extend(config.release.and_then(ReleaseReq::comparator));
    Request {
        needs,
        alternatives,
        major,
        toolkit,
        take_everything: false,
    }
}

fn declared(config: &Config, major: Option<u32>, needs: &mut Vec<Need>) {
    let newest = config.majors.iter().copied().max();
    let components = config
        .for_major(major.or(newest).unwrap_or_default())
        .components;
    for wanted in components {
        let component = wanted.component;
        let facts = component.facts();
        let why = "declared in `[package.metadata.cuda]`";
        let mut need = match component {
            // Only the machine that runs the program has the library. Its stub is made from a header.
            Component::Driver => Need::new(
                Component::Cudart,
                Part::Headers,
                "`cuda.h`, to link with the driver's library",
            ),
            _ if facts.bundle == Bundle::Driver => Need::new(component, Part::Headers, why),
            Component::Cudart => runtime_need(config.cudart, why),
            _ if !facts.libraries.is_empty() => Need::new(component, Part::Shared, why),
            _ if !facts.tools.is_empty() => Need::new(component, Part::Tools, why),
            _ if !facts.archives.is_empty() => Need::new(component, Part::Archive, why),
            _ => Need::new(component, Part::Headers, why),
        };
        need.version = wanted.version.clone();
        if wanted.optional {
            need.strength = Strength::Optional;
        }
        needs.push(need);
    }
}

fn runtime_need(cudart: Cudart, why: &str) -> Need {
    let part = match cudart {
        Cudart::Static => Part::Archive,
        Cudart::Shared => Part::Shared,
    };
    Need::new(Component::Cudart, part, why)
}

fn nvrtc_need(why: &str) -> Need {
    Need::new(Component::Nvrtc, Part::Shared, why)
}

/// nvcc alone compiles nothing: cicc, its own headers and the runtime's belong to it. Without
/// CCCL even `cuda_fp16.h` fails, but not every kernel includes that.
fn nvcc_needs(why: &str) -> Vec<Need> {
    vec![
        Need::new(Component::Nvcc, Part::Tools, why),
        Need::new(Component::Nvvm, Part::Tools, why),
        Need::new(Component::Crt, Part::Headers, why),
        Need::new(Component::Cudart, Part::Headers, why),
        Need::new(Component::Cccl, Part::Headers, why).with(Strength::Optional),
    ]
}

fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

/// Files that change when the component is replaced in place.
pub(super) fn telling_files(root: &Root, found: &Found) -> Vec<PathBuf> {
    let programs = [&found.tools, &found.libraries, &found.archives];
    let program = programs.iter().find_map(|files| files.first()).cloned();
    let header = found.component.facts().header.and_then(|header| {
        let mut headers = found.include.iter().map(|directory| directory.join(header));
        headers.find(|path| root.is_file(path))
    });
    program.into_iter().chain(header).collect()
}

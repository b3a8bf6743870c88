//! Hints after a failed build: what the toolkit or the configuration lacks.

use std::io::Cursor;
use std::path::Path;
use std::time::SystemTime;

use cuda_build::Component;
use cuda_build::internal::Root;
use cuda_build::internal::component::Facts;
use cuda_build::internal::{release, select};

use crate::build::{Build, Scripts};
use crate::dependencies::ORDINARY_NAMES;
use crate::project::Project;
use crate::wheel::elf;

/// What helps if CUDA's static libraries are missing.
const STATIC_LIBRARIES_HINT: &str = "the Python packages do not contain them. Enable the crate's feature for dynamic \
                        linking (`dynamic-link`, `dynamic-linking` or similar), or set CUDA_BUILD_ROOTS or \
                        CUDA_PATH to a toolkit that has them: from NVIDIA's installer or redist archives, \
                        from Debian, or from conda with the `-static` packages";

/// The hints for a build that started at `began` and failed. There are none if the reason is an error in Rust code. A
/// script with cuda-build prints hints itself; only the one about nvcc is repeated.
pub fn hints(build: &Build, project: &Project, began: SystemTime) -> Vec<String> {
    let version = build.toolkit.version();
    let scripts = Scripts::read(&project.root, &build.directory.path, began);
    let absent = absent(build);
    let ids = |facts: &[&Facts]| facts.iter().map(|facts| facts.id).collect::<Vec<_>>();
    let mut hints = Vec::new();

    let is_linked = |name: &str| scripts.linked.contains(name);
    let linked: Vec<&Facts> = absent
        .iter()
        .copied()
        .filter(|facts| match facts.libraries {
            [] => static_names(facts).any(is_linked),
            libraries => libraries.iter().any(|name| is_linked(name)),
        })
        .collect();
    if !linked.is_empty() {
        hints.push(format!(
            "a build script links {}, which this CUDA {version} does not have; {}",
            ids(&linked).join(", "),
            declare(&linked)
        ));
    }
    let with_shared = facts_of(build).filter(|facts| !facts.libraries.is_empty());
    let linked: Vec<&str> = with_shared
        .flat_map(static_names)
        .filter(|name| is_linked(name) && !has_archive(build, name))
        .collect();
    if !linked.is_empty() {
        hints.push(format!(
            "a build script links {}, and this CUDA {version} has no such static library; {STATIC_LIBRARIES_HINT}",
            linked.join(", ")
        ));
    }

    let uses_cuda_build = |name: &str| {
        let mut packages = project.packages();
        packages.any(|package| package.name == name && package.uses_cuda_build)
    };
    let failed: Vec<&str> = scripts.failed.iter().map(String::as_str).collect();
    // Only the script's own messages show what it looked for.
    let script = format!("if the build script of {}", failed.join(", "));
    if !failed.iter().all(|name| uses_cuda_build(name)) {
        if !absent.is_empty() {
            hints.push(format!(
                "{script} looked for a library: this CUDA {version} has no {}; {}",
                ids(&absent).join(", "),
                declare(&absent[..1])
            ));
        }
        if build.plan.is_none() {
            hints.push(format!(
                "{script} reads CUDA_COMPUTE_CAP: no capabilities are declared, and this machine has no GPU; give \
                 `--capabilities 8.0`, or declare `capabilities` in [package.metadata.cuda]"
            ));
        }
    }
    // cuda-build has printed this too, but above what cargo and maturin print.
    if !failed.is_empty() && build.toolkit.get(Component::Nvcc).is_none() {
        let major = version.major;
        let advice = match release::is_nvcc_packaged(major) {
            true => format!("add it with `cargo cuda toolkit add {major}`"),
            false => select::without_nvcc(major),
        };
        hints.push(format!("{script} needs nvcc: {advice}"));
    }
    hints
}

/// The components with libraries that can be fetched for the toolkit's major.
fn facts_of(build: &Build) -> impl Iterator<Item = &'static Facts> {
    let major = build.toolkit.version().major;
    Component::all()
        .map(Component::facts)
        .filter(move |facts| facts.is_part_of_toolkit() && facts.package(major).is_some())
        // `-lOpenCL` of the system is no part of CUDA.
        .filter(|facts| !ORDINARY_NAMES.contains(&facts.component))
        .filter(|facts| !facts.libraries.is_empty() || !facts.archives.is_empty())
}

/// The components whose libraries the toolkit lacks.
fn absent(build: &Build) -> Vec<&'static Facts> {
    let is_absent = |facts: &&Facts| match facts.libraries {
        // A component with only static libraries, such as culibos.
        [] => !static_names(facts).all(|name| has_archive(build, name)),
        _ => build
            .toolkit
            .get(facts.component)
            .is_none_or(|found| found.libraries.is_empty()),
    };
    facts_of(build).filter(is_absent).collect()
}

/// The names of a component's static libraries, as in `-l<name>`.
fn static_names(facts: &Facts) -> impl Iterator<Item = &'static str> + use<> {
    let archives = facts.archives.iter();
    archives.map(|file| file.trim_start_matches("lib").trim_end_matches(".a"))
}

fn has_archive(build: &Build, name: &str) -> bool {
    build.view.contains(format!("lib/lib{name}.a"))
}

/// How to get components.
fn declare(components: &[&Facts]) -> String {
    let ids: Vec<String> = components.iter().map(|c| format!("{:?}", c.id)).collect();
    format!(
        "declare what it needs in `[package.metadata.cuda]`, as in `components = [{}]`, run `cargo cuda fetch`, and \
         commit cuda-toolkits.lock",
        ids.join(", ")
    )
}

const DRIVER_LIBRARY: &str = "libcuda.so.1";

/// After a program failed on a machine without a driver: the reason, if a program in Cargo's target
/// directory links the driver's library. The loader's own message names only the file.
pub fn driver_hint(root: &Root, directory: &Path) -> Option<String> {
    let profiles = root.names(directory).into_iter();
    let deps = profiles.map(|profile| directory.join(profile).join("deps"));
    let mut programs = deps.flat_map(|deps| {
        let names = root.names(&deps).into_iter();
        // Libraries and lists of dependencies have an extension.
        let names = names.filter(|name| !name.to_string_lossy().contains('.'));
        names.map(move |name| deps.join(name)).collect::<Vec<_>>()
    });
    let program = programs.find(|program| {
        let bytes = root.bytes(program).unwrap_or_default();
        let facts = elf::ElfFacts::read(Cursor::new(bytes));
        facts.is_ok_and(|facts| facts.needed.iter().any(|name| name == DRIVER_LIBRARY))
    })?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
    Some(format!(
        "note: `{name}` links the library of NVIDIA's driver, {DRIVER_LIBRARY}, and this machine has no driver, so the \
         program cannot start\nhint: to run tests that need no GPU on such a machine, load the driver when it is used: \
         enable the crate's feature for that (cudarc: `dynamic-loading`), or use libloading"
    ))
}

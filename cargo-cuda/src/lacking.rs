//! Hints after a failed build: what the toolkit or the configuration lacks. Each hint starts with
//! "if", because only the build's own messages show what was missing.

use std::io::Cursor;
use std::path::Path;

use cuda_build::Component;
use cuda_build::internal::Root;
use cuda_build::internal::component::Facts;
use cuda_build::internal::{release, select};

use crate::build::Build;
use crate::dependencies::Guess;
use crate::wheel::elf;

/// The second half of the hint about missing static libraries.
const STATIC_LIBRARIES_HINT: &str = "the Python packages do not contain them. Enable the crate's feature for dynamic \
                        linking (`dynamic-link`, `dynamic-linking` or similar), or set CUDA_BUILD_ROOTS or \
                        CUDA_PATH to a toolkit that has them: from NVIDIA's installer or redist archives, \
                        from Debian, or from conda with the `-static` packages";

/// Up to four hints: about libraries that can be fetched, about static libraries, which cannot be
/// fetched, about undeclared capabilities, and about nvcc.
pub fn hints(build: &Build, guesses: &[Guess]) -> Vec<String> {
    let Build {
        toolkit,
        view,
        plan,
        ..
    } = build;
    let version = toolkit.version();
    let all = Component::all().map(Component::facts);
    let known: Vec<&Facts> = all
        .filter(|facts| facts.is_part_of_toolkit() && facts.package(version.major).is_some())
        .filter(|facts| !facts.libraries.is_empty() || !facts.archives.is_empty())
        .collect();
    let has_archive = |name: &str| view.contains(format!("lib/{name}"));
    let is_there = |facts: &Facts| match facts.libraries {
        // A component with only static libraries, such as culibos.
        [] => facts.archives.iter().all(|name| has_archive(name)),
        _ => toolkit
            .get(facts.component)
            .is_some_and(|found| !found.libraries.is_empty()),
    };
    let absent: Vec<&&Facts> = known.iter().filter(|facts| !is_there(facts)).collect();
    let mut hints = Vec::new();
    hints.extend(absent_hint(build, guesses, &absent));
    let with_shared = known.iter().filter(|facts| !facts.libraries.is_empty());
    let archives: Vec<&str> = with_shared
        .flat_map(|facts| facts.archives.iter().copied())
        .filter(|name| !has_archive(name))
        .map(|name| name.trim_start_matches("lib").trim_end_matches(".a"))
        .collect();
    if !archives.is_empty() {
        hints.push(format!(
            "if the build looked for static libraries: this CUDA {version} has no static {}; {STATIC_LIBRARIES_HINT}",
            joined(archives)
        ));
    }
    if plan.is_none() {
        hints.push(
            "if the build reads CUDA_COMPUTE_CAP: no capabilities are declared, and this machine has no GPU; give \
             `--capabilities 8.0`, or declare `capabilities` in [package.metadata.cuda]"
                .to_owned(),
        );
    }
    if toolkit.get(Component::Nvcc).is_none() {
        let major = version.major;
        let advice = match release::is_nvcc_packaged(major) {
            true => format!("add it with `cargo cuda toolkit add {major}`"),
            false => select::without_nvcc(major),
        };
        hints.push(format!("if the build needs nvcc: {advice}"));
    }
    hints
}

/// The hint about libraries that can be fetched. If the toolkit lacks components that were guessed, the hint names
/// these, otherwise all that the toolkit lacks.
fn absent_hint(build: &Build, guesses: &[Guess], absent: &[&&Facts]) -> Option<String> {
    let version = build.toolkit.version();
    let is_guessed = |facts: &Facts| {
        guesses
            .iter()
            .any(|guess| guess.component == facts.component)
    };
    let guessed: Vec<&str> = absent
        .iter()
        .filter(|it| is_guessed(it))
        .map(|it| it.id)
        .collect();
    let (named, declared) = match guessed.as_slice() {
        [] => (
            absent.iter().map(|facts| facts.id).collect(),
            absent.first()?.id.to_owned(),
        ),
        guessed => (guessed.to_vec(), guessed.join("\", \"")),
    };
    Some(format!(
        "if the build looked for a library: this CUDA {version} has no {}; declare what it needs in \
         `[package.metadata.cuda]`, as in `components = [\"{declared}\"]`, run `cargo cuda fetch`, and commit \
         cuda-toolkits.lock",
        joined(named),
    ))
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

fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

//! The program that starts one of several builds: what each one runs on, as a table in its source.

use std::fmt::Write as _;
use std::path::PathBuf;

use cuda_build::ToolkitVersion;
use cuda_find_core::capability::Capability;
use cuda_find_core::command::Invocation;
use cuda_find_core::release::driver_floor;
use serde::Serialize;

use super::content::Build;
use crate::cargo_arguments::CargoOptions;
use crate::cargo_config::target_directory_name;
use crate::failure::{Failure, Result};
use crate::package::device::{Runs, release_of_ptx};
use crate::project::Project;
use crate::toolkits::builds_directory;
use crate::{output, process};

const SOURCE: &str = include_str!("start_program.rs");

const MANIFEST: &str = "[package]\nname = \"start\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
     [[bin]]\nname = \"start\"\npath = \"main.rs\"\n\
     [profile.release]\nopt-level = \"s\"\npanic = \"abort\"\nstrip = true\n[workspace]\n";

/// What GPUs from one capability to another run of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Code {
    /// The lowest capability, as in 80.
    pub from: u32,
    /// The highest one; `None` for all newer GPUs.
    pub to: Option<u32>,
    /// The oldest CUDA release whose driver runs it.
    pub cuda: String,
    /// Whether it is SASS, which the driver does not have to compile first.
    pub native: bool,
    #[serde(skip)]
    release: ToolkitVersion,
}

/// What the device code of a build runs on. A build without device code of its own runs on every GPU that its CUDA
/// major supports.
pub fn code(build: &Build) -> Vec<Code> {
    let Some(built_with) = build.release else {
        return Vec::new();
    };
    let (major, device) = (built_with.major, &build.elf().device);
    let first = ToolkitVersion::new(major, 0);
    let supported = cuda_find_core::capability::supported(first);
    let lowest = supported.first().map_or(0, |it| it.number());
    let mut list: Vec<Code> = Vec::new();
    let newest = 199;
    for number in 50..=newest {
        let runs = match device.fat_binaries.is_empty() {
            true if number >= lowest => Runs::Native,
            true => Runs::None,
            false => device.runs_on(Capability::new(number / 10, number % 10), major),
        };
        let release = match &runs {
            Runs::None => continue,
            Runs::Jit { isa, .. } => release_of_ptx(*isa).map_or(built_with, |it| it.version),
            Runs::TileJit => built_with,
            Runs::Native | Runs::Linked => first,
        };
        let release = release.max(first);
        let native = runs == Runs::Native;
        let to = (number < newest).then_some(number);
        match list.last_mut() {
            Some(last)
                if last.to.is_some_and(|to| to + 1 == number)
                    && (last.release, last.native) == (release, native) =>
            {
                last.to = to;
            }
            _ => list.push(Code {
                from: number,
                to,
                cuda: release.to_string(),
                native,
                release,
            }),
        }
    }
    list
}

/// The source of the program for these builds, each with the path of its program.
fn source(builds: &[(&Build, String)]) -> String {
    let number = |it: ToolkitVersion| it.major * 1000 + it.minor * 10;
    let mut text = format!("{SOURCE}\nconst BUILDS: &[Build] = &[\n");
    for (build, program) in builds {
        let first = build.release.map(|it| ToolkitVersion::new(it.major, 0));
        let cuda = first.map_or(0, number);
        let driver = first
            .and_then(|it| driver_floor(it.major))
            .unwrap_or_default();
        let name = &build.name;
        let _ = write!(
            text,
            "    Build {{ name: {name:?}, program: {program:?}, cuda: {cuda}, driver: {driver:?}, code: &["
        );
        for Code {
            from,
            to,
            native,
            release,
            ..
        } in code(build)
        {
            let (to, cuda) = (
                to.map_or("c_int::MAX".to_owned(), |to| to.to_string()),
                number(release),
            );
            let _ = write!(
                text,
                "Code {{ from: {from}, to: {to}, cuda: {cuda}, is_native: {native} }}, "
            );
        }
        text.push_str("] },\n");
    }
    text + "];\n"
}

/// Compiles the program with the user's cargo and linker.
pub fn compile(
    builds: &[(&Build, String)],
    cargo: &CargoOptions,
    project: &Project,
) -> Result<PathBuf> {
    let base = builds_directory(&project.env, project.workspace.as_ref())?.join(".start");
    let manifest = base.join("Cargo.toml");
    output::create_directory(&base)?;
    output::write_if_changed(&manifest, MANIFEST.as_bytes())?;
    output::write_if_changed(&base.join("main.rs"), source(builds).as_bytes())?;
    let mut target = base.join("target");
    let cargo_program = project.env.peek("CARGO").unwrap_or("cargo".as_ref());
    let mut call = Invocation::new(cargo_program)
        .args("build --release --quiet --offline --manifest-path".split(' '));
    call = call
        .args([&manifest])
        .args(["--target-dir".as_ref(), target.as_os_str()]);
    let triple = cargo.value("--target");
    if let Some(triple) = &triple {
        call = call.args(["--target", triple]);
    }
    let triple = triple.as_deref().or(project.config.build_target());
    target.extend(triple.map(target_directory_name));
    match process::run(&call, &project.env)? {
        0 => Ok(target.join("release/start")),
        code => {
            let text = format!(
                "cargo ended with code {code}, so the program that starts the builds is missing\n  command: {call}"
            );
            Err(Failure::other(text).hint("correct what cargo's messages above name"))
        }
    }
}

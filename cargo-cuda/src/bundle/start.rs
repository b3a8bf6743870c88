//! The program that starts one of several builds: what each one runs on, as a table in its source.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cuda_build::{Plan, ToolkitVersion};
use cuda_find_core::capability::Capability;
use cuda_find_core::release::driver_floor;
use serde::Serialize;

use super::content::Build;
use crate::cargo_arguments::CargoOptions;
use crate::cargo_config::target_directory_name;
use crate::failure::{Failure, Result};
use crate::package::device::{DeviceCode, as_text};
use crate::project::Project;
use crate::rustflags::only_for_linker;
use crate::{output, process};

const SOURCE: &str = include_str!("start_program.rs");

const MANIFEST: &str = "[package]\nname = \"start\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
     [[bin]]\nname = \"start\"\npath = \"main.rs\"\n\
     [profile.release]\nopt-level = \"s\"\npanic = \"abort\"\nstrip = true\n[workspace]\n";

/// A build as `bundle.json` describes it.
#[derive(Debug, Serialize)]
pub struct Described {
    pub name: String,
    /// The path in the bundle.
    pub program: String,
    /// The release that it was built with; `None` without CUDA.
    pub cuda: Option<String>,
    /// The oldest driver.
    driver: Option<&'static str>,
    code: Vec<Code>,
    /// The oldest release whose driver runs it.
    #[serde(skip)]
    oldest: Option<ToolkitVersion>,
}

/// What GPUs from one capability to another run of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Code {
    /// The lowest capability, as in 80.
    from: u32,
    /// The highest one; `None` for all newer GPUs.
    to: Option<u32>,
    /// The oldest CUDA release whose driver runs it.
    #[serde(serialize_with = "as_text")]
    cuda: ToolkitVersion,
    /// Whether it is SASS, which the driver does not have to compile first.
    native: bool,
}

impl Described {
    pub fn new(build: &Build, program: String) -> Self {
        let oldest = build.release.map(|it| ToolkitVersion::new(it.major, 0));
        let plan = build.plan.as_ref();
        let code = build.release.map(|it| code(&build.elf().device, plan, it));
        Self {
            name: build.name.clone(),
            program,
            cuda: build.release.map(|release| release.to_string()),
            driver: oldest.and_then(|oldest| driver_floor(oldest.major)),
            code: code.unwrap_or_default(),
            oldest,
        }
    }
}

/// The highest capability that is looked at. GPUs from here on are newer than every known one.
const LAST: u32 = 199;

/// What a build runs on.
fn code(device: &DeviceCode, plan: Option<&Plan>, built_with: ToolkitVersion) -> Vec<Code> {
    let mut list: Vec<Code> = Vec::new();
    for number in 50..=LAST {
        let gpu = Capability::new(number / 10, number % 10);
        let Some((cuda, native)) = device.driver_for(gpu, plan, built_with) else {
            continue;
        };
        let new = Code {
            from: number,
            to: (number < LAST).then_some(number),
            cuda,
            native,
        };
        match list.last_mut() {
            Some(last) if last.continues(&new) => last.to = new.to,
            _ => list.push(new),
        }
    }
    list
}

impl Code {
    fn continues(&self, next: &Self) -> bool {
        let is_next = self.to.is_some_and(|to| to + 1 == next.from);
        is_next && (self.cuda, self.native) == (next.cuda, next.native)
    }
}

/// The source of the program for these builds.
fn source(builds: &[Described]) -> String {
    let number = |it: ToolkitVersion| it.major * 1000 + it.minor * 10;
    let mut text = format!("{SOURCE}\nconst BUILDS: &[Build] = &[\n");
    for build in builds {
        let (name, program) = (&build.name, &build.program);
        let (cuda, driver) = (
            build.oldest.map_or(0, number),
            build.driver.unwrap_or_default(),
        );
        let _ = write!(
            text,
            "Build {{ name: {name:?}, program: {program:?}, cuda: {cuda}, driver: {driver:?}, code: &["
        );
        for code in &build.code {
            let (from, cuda, native) = (code.from, number(code.cuda), code.native);
            let to = code.to.unwrap_or(i32::MAX.unsigned_abs());
            let _ = write!(
                text,
                "Code {{ from: {from}, to: {to}, cuda: {cuda}, is_native: {native} }}, "
            );
        }
        text.push_str("] },\n");
    }
    text + "];\n"
}

/// Compiles the program below a directory, with the user's cargo and linker.
pub fn compile(
    builds: &[Described],
    cargo: &CargoOptions,
    project: &Project,
    directory: &Path,
) -> Result<PathBuf> {
    let manifest = directory.join("Cargo.toml");
    output::write(&manifest, MANIFEST.as_bytes())?;
    output::write(&directory.join("main.rs"), source(builds).as_bytes())?;
    let mut target = directory.join("target");
    let mut call = process::cargo(
        &project.env,
        &["build", "--release", "--quiet", "--offline"],
    );
    call = call.args(["--manifest-path".as_ref(), manifest.as_os_str()]);
    call = call.args(["--target-dir".as_ref(), target.as_os_str()]);
    let triple = cargo.value("--target");
    if let Some(triple) = &triple {
        call = call.args(["--target", triple]);
    }
    let triple = triple.as_deref().or(project.config.build_target());
    target.extend(triple.map(target_directory_name));
    // The program runs on other machines than this one.
    let (config, env) = (&project.config, &project.env);
    let (name, flags) = only_for_linker(config, env, project.target.triple());
    call = call.variable(&name, flags);
    let code = process::run(&call, &project.env)?;
    if code == 0 {
        return Ok(target.join("release/start"));
    }
    let text = format!(
        "the program that starts one of the builds could not be compiled: cargo ended with code {code}"
    );
    Err(Failure::other(text).hint(format!(
        "correct what cargo's messages above name; the command was {call}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::device::{DeviceImage, ImageKind};

    fn device(images: &[(ImageKind, &str)]) -> DeviceCode {
        let image = |&(kind, capability): &(ImageKind, &str)| DeviceImage {
            kind,
            capability: capability.parse().unwrap(),
            isa: (9, 4),
            bytes: 1,
        };
        let images = Vec::from_iter(images.iter().map(image));
        DeviceCode {
            fat_binaries: Vec::from_iter((!images.is_empty()).then_some(images)),
            release: None,
        }
    }

    #[test]
    fn a_build_runs_where_its_code_and_its_plan_do() {
        use ImageKind::{Ptx, Sass};
        let sass = [(Sass, "8.0"), (Sass, "9.0a")];
        let ptx = [(Sass, "8.6"), (Ptx, "9.0")];
        let of = |real: &[&str], ptx: &[&str]| {
            let parsed = |list: &[&str]| list.iter().map(|it| it.parse().unwrap()).collect();
            Some(Plan {
                real: parsed(real),
                ptx: parsed(ptx),
            })
        };
        for (images, plan, expected) in [
            (&sass[..], None, "80-90 13.0 true"),
            (&ptx, None, "86-89 13.0 true, 90- 13.4 false"),
            (&[], None, "75- 13.0 true"),
            // Sources may choose by the capability for which a build of `--split` is, whatever code it has.
            (&[], of(&["8.0"], &[]), "80-89 13.0 true"),
            (&[], of(&[], &["9.0"]), "90- 13.4 false"),
            (&ptx, of(&["8.6"], &[]), "86-89 13.0 true"),
        ] {
            let code = code(&device(images), plan.as_ref(), ToolkitVersion::new(13, 4));
            let shown = code.iter().map(|it| {
                let to = it.to.map_or(String::new(), |to| to.to_string());
                format!("{}-{to} {} {}", it.from, it.cuda, it.native)
            });
            assert_eq!(output::joined(shown, ", "), expected, "{images:?} {plan:?}");
        }
    }
}

//! What the messages of a failed build mean ([`cuda_build::diagnosis`]), with what this program knows about the build.

use std::ffi::OsString;
use std::path::Path;

use cuda_build::diagnosis::{CargoBuild, Diagnosis, FailedBuild, Origin};

use crate::cargo_arguments::command_line_with;
use crate::isolated_build::{IsolatedBuild, has_driver};
use crate::package::symbols::{self, Added};
use crate::package::{archive, elf};
use crate::project::Project;

/// What the messages of cargo or maturin mean; nothing if a build script has printed a hint already.
pub fn diagnose(project: &Project, build: &IsolatedBuild, messages: &str) -> Diagnosis {
    let messages = anstream::adapter::strip_str(messages).to_string();
    let mut lines = messages.lines().map(str::trim_start);
    if lines.any(|line| line.starts_with("hint: ")) {
        return Diagnosis::default();
    }
    let dependencies = &project.needs.dependencies;
    let exports = |library: &Path, symbol: &str| {
        archive::open(library).is_ok_and(|(file, _)| elf::exports(file, symbol))
    };
    let major = build.toolkit.version().major;
    let failed = FailedBuild {
        messages: &messages,
        toolkit: &build.toolkit,
        target: &project.target,
        env: &project.env,
        root: &project.root,
        origin: Origin::Cargo(CargoBuild {
            fetching_command: fetching_command().filter(|_| !project.fetch),
            include: build.view.include(),
            declares_capabilities: build.plan.is_some(),
            has_driver: has_driver(),
            macros: macros(project),
            cudarc: dependencies.newest_for_cudarc(),
            exports: &exports,
            added: &|component, symbol| match symbols::added(component, major, symbol)? {
                Added::In(release) => release.release(),
                Added::UpTo(_) => None,
            },
        }),
    };
    failed.diagnose()
}

/// The names of the procedural macros among the packages of the workspace and its dependencies.
fn macros(project: &Project) -> Vec<String> {
    let packages = project
        .workspace
        .iter()
        .flat_map(|it| &it.metadata.packages);
    let targets = packages.flat_map(|package| &package.targets);
    let macros = targets.filter(|target| target.is_proc_macro());
    macros.map(|target| target.name.clone()).collect()
}

/// The command line of this process with `--fetch` after the command. `None` if an installer has started it.
fn fetching_command() -> Option<String> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_of_user = words.iter().all(|word| word != "pep517");
    is_of_user.then(|| command_line_with("--fetch", &words))
}

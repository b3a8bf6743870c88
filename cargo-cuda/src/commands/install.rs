//! What `cargo cuda install` does besides building.
//!
//! Cargo does not notice in one target directory that the sources of a program from git or a registry have changed. So
//! each such call has a directory of its own, as with plain Cargo.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::Capability;
use cuda_build::script::skipped_by;
use cuda_find_core::command::quoted;
use cuda_find_core::root::Root;
use tempfile::TempDir;

use crate::cargo_arguments::{CargoOptions, first_word};
use crate::environment::LOADER_PATH;
use crate::exit_code;
use crate::failure::{Failure, Result};
use crate::isolated_build::IsolatedBuild;
use crate::output::{self, joined};
use crate::package::archive;
use crate::package::elf::ElfFacts;
use crate::process;
use crate::project::{CAPABILITIES, Project};

/// Whether a call installs a program that is not in a local directory.
pub fn is_from_elsewhere(arguments: &[OsString], cargo: &CargoOptions) -> bool {
    let is_named = cargo.has(&["--git"]) || first_word(arguments).is_some();
    is_named && cargo.value("--path").is_none() && !cargo.has(&["--list"])
}

/// The target directory for one call. It is removed with the value.
pub fn target_directory() -> Result<TempDir> {
    TempDir::with_prefix("cargo-cuda-install-").map_err(|error| {
        let directory = std::env::temp_dir();
        let text = format!(
            "could not make a directory in {}: {error}",
            directory.display()
        );
        Failure::disk(text).hint("set `TMPDIR` to a directory with space, or give `--target-dir`")
    })
}

/// After a failed compilation, Cargo's message names the directory with what was compiled. It stays then, for another try.
pub fn keep_if_cargo_names_it(directory: TempDir, messages: &str) {
    let path = directory.path().display().to_string();
    if messages.contains(&path) {
        let _ = directory.keep();
        output::message(&format!(
            "note: with `--target-dir {path}`, another call goes on from there"
        ));
    }
}

/// The manifest of a program from elsewhere is read while Cargo builds it, after its list would have been needed.
///
/// # Errors
/// If no list is given, and this machine has no GPU to build for.
pub fn check_capabilities(project: &Project, gpus: &[Capability]) -> Result<()> {
    let is_given = [CAPABILITIES, "CUDA_COMPUTE_CAP"]
        .iter()
        .any(|name| project.env.peek(name).is_some());
    if is_given || !gpus.is_empty() || skipped_by(&project.env)?.is_some() {
        return Ok(());
    }
    let text = "the capabilities of a program from git or a registry are not known before it is built, and this machine \
                has no GPU";
    Err(Failure::new(exit_code::CAPABILITY, text).hint(
        "give the list, as in `--capabilities 8.0,9.0`; for a program without device code, any list gives the same",
    ))
}

/// The installed programs, before a command and after it.
pub struct InstalledPrograms {
    directory: PathBuf,
    /// The identity of each file, by name.
    before: BTreeMap<PathBuf, String>,
}

impl InstalledPrograms {
    /// Reads the directory in which a call puts programs. `None` if the user has no directory of Cargo.
    pub fn before(project: &Project, cargo: &CargoOptions) -> Option<Self> {
        let directory = project
            .config
            .install_root(&project.env, cargo)?
            .join("bin");
        let before = identities(&project.root, &directory);
        Some(Self { directory, before })
    }

    /// Notes about new programs whose libraries the loader does not find.
    pub fn notes(&self, project: &Project, build: &IsolatedBuild) -> Vec<String> {
        let after = identities(&project.root, &self.directory);
        let new = after
            .iter()
            .filter(|(program, identity)| self.before.get(*program) != Some(*identity));
        new.filter_map(|(program, _)| note(program, project, build))
            .collect()
    }
}

fn identities(root: &Root, directory: &Path) -> BTreeMap<PathBuf, String> {
    let names = root.names(directory).into_iter();
    let files = names.map(|name| directory.join(name));
    files
        .map(|file| {
            let identity = root.identity(&file);
            (file, identity)
        })
        .collect()
}

/// What a program lacks to start by itself, and what starts it.
fn note(program: &Path, project: &Project, build: &IsolatedBuild) -> Option<String> {
    let elf = ElfFacts::read_tables(archive::open(program).ok()?.0).ok()?;
    let (root, multiarch) = (&project.root, project.target.multiarch());
    let listed = project.env.peek(LOADER_PATH).unwrap_or_default();
    let origin = output::parent(program).display().to_string();
    let is_found = |soname: &&str| {
        let mut search_path = elf.search_path().iter();
        let has = |directory: &Path| root.is_file(&directory.join(soname));
        search_path.any(|entry| has(Path::new(&entry.replace("$ORIGIN", &origin))))
            || root
                .loader_directories(listed, multiarch, soname)
                .iter()
                .any(|directory| has(directory))
    };
    let missing: Vec<&str> = elf
        .components()
        .filter(|soname| !is_found(soname))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let name = program.file_name().map(OsStr::to_string_lossy)?;
    let is_on_path = process::on_path(&project.env, &name).is_some_and(|found| found == program);
    let started = match is_on_path {
        true => name.to_string(),
        false => quoted(program.as_os_str()),
    };
    Some(format!(
        "note: {name} needs {}, where the loader does not look: start it with \
         `cargo cuda exec --cuda {} -- {started}`",
        joined(&missing, ", "),
        build.toolkit.version().major
    ))
}

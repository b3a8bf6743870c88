//! Programs in a wheel (maturin's `bindings = "bin"`).
//!
//! Installers put a program into the environment's `bin`, from where no search path leads to site-packages for every
//! Python version. So a program that needs NVIDIA's libraries is moved to `<name>.scripts` below site-packages, as
//! auditwheel does, and a script in its old place starts it.

use super::archive::{Entry, Wheel};
use super::dependencies;
use super::metadata::file_name_component;
use crate::failure::Failure;

/// Moves the programs that have a search path or need a library of NVIDIA's. `name` is the name of the distribution.
pub fn move_below_site_packages(wheel: &mut Wheel, name: &str, major: u32) -> Result<(), Failure> {
    let mut programs = Vec::new();
    for (path, facts) in wheel.modules() {
        let needed = dependencies::components(facts.needed.iter().map(String::as_str), major)?;
        let is_program = path.contains(".data/scripts/");
        if is_program && !(facts.has_no_search_path() && needed.is_empty()) {
            programs.push(path.to_owned());
        }
    }
    for path in programs {
        let program = path.rsplit('/').next().unwrap_or(&path);
        let moved = format!("{}.scripts/{program}", file_name_component(name));
        let script = Entry::new(script(name, &moved).into_bytes(), true)?;
        if let Some(entry) = wheel.entries.insert(path, script) {
            wheel.entries.insert(moved, entry);
        }
    }
    Ok(())
}

/// The script that starts a program. Installers replace `#!python` by the path of the environment's Python.
fn script(name: &str, program: &str) -> String {
    format!(
        "#!python\n\
         import os\n\
         import sys\n\
         from importlib.metadata import distribution\n\
         \n\
         program = str(distribution({name:?}).locate_file({program:?}))\n\
         os.execv(program, [program, *sys.argv[1:]])\n"
    )
}

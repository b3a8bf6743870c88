//! Programs that commands start, fetched where the machine has none: today maturin.

use std::path::PathBuf;

use cuda_build::{Env, Root};

use super::installer::{Installer, requirements_file};
use super::place::Store;
use super::progress::{Progress, human_size};
use super::refusal::Refused;
use super::{Context, StoreError};

/// The version that `wheel` is tested with.
const MATURIN: &str = "1.16.0";

/// The maturin that [`maturin`] fetched earlier.
#[must_use]
pub fn fetched_maturin(env: &Env) -> Option<PathBuf> {
    let program = Store::tools(env)
        .ok()?
        .path(&format!("maturin-{MATURIN}"))
        .join("bin")
        .join("maturin");
    Root::system().is_file(&program).then_some(program)
}

/// maturin in a directory of its own beside the toolkits, fetched by uv or pip unless it is
/// there. Nothing of the user's own Python environments is touched.
///
/// # Errors
/// As [`add`](super::add).
pub fn maturin(context: &Context) -> Result<PathBuf, StoreError> {
    let store = Store::tools(&context.env)?;
    let name = format!("maturin-{MATURIN}");
    let program = store.path(&name).join("bin").join("maturin");
    let root = Root::system();
    if let Some(program) = fetched_maturin(&context.env) {
        return Ok(program);
    }
    let progress = Progress::new(context.messages);
    let _guard = store.lock(&name, &progress)?;
    if root.is_file(&program) {
        return Ok(program);
    }
    let installer = Installer::find(&context.env)?;
    progress.step(&format!(
        "fetching maturin {MATURIN} with {}",
        installer.name()
    ));
    let requirement = format!("maturin=={MATURIN}");
    let mut packages = installer
        .resolve(&[requirement], &context.env, store.directory())
        .map_err(|refused| match refused {
            Refused::Failed(error) => error,
            Refused::NoMatch { message, .. } => StoreError::Index {
                call: "maturin".to_owned(),
                message,
            },
        })?;
    // Its own requirement is a TOML reader for old Pythons that its program does not use.
    packages.retain(|package| package.name == "maturin");
    let part = store.part(&name)?;
    let wanted: Vec<_> = packages.iter().collect();
    let requirements = part.requirements(&requirements_file(&wanted))?;
    installer.install(
        &requirements,
        &part.site(),
        &part.temporary(),
        &context.env,
        &progress,
    )?;
    part.tidy();
    if !root.is_file(&part.site().join("bin").join("maturin")) {
        return Err(StoreError::Installer {
            call: format!("{} (maturin {MATURIN})", installer.name()),
            message: "the package holds no bin/maturin".to_owned(),
        });
    }
    progress.detail(&format!(
        "{} unpacked",
        human_size(super::place::size(&part.site()))
    ));
    store.put(&part, &name)?;
    Ok(program)
}

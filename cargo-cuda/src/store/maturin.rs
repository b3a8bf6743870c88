//! The program maturin, fetched if the machine has none.

use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, Root, store};

use super::directory::{Store, size};
use super::error::Refusal;
use super::installer::{Cache, Installer};
use super::progress::{Progress, human_size};
use super::{Context, StoreError};

/// The version that `wheel` is tested with.
const VERSION: &str = "1.16.0";

/// The maturin that [`maturin`] fetched earlier.
#[must_use]
pub fn fetched_maturin(env: &Env) -> Option<PathBuf> {
    let directory = Store::tools(env).ok()?.path(&name());
    let root = Root::system();
    let program = program(&directory);
    (store::distrust(&root, &directory).is_none() && root.is_file(&program)).then_some(program)
}

/// Fetches maturin into a directory of its own beside the toolkits, with uv or pip, unless it is
/// there. The user's Python environments are not changed.
///
/// # Errors
/// As [`add`](super::add).
pub fn maturin(context: &Context) -> Result<PathBuf, StoreError> {
    if let Some(program) = fetched_maturin(&context.env) {
        return Ok(program);
    }
    let store = Store::tools(&context.env)?;
    store.clean();
    let progress = Progress::new(context.messages);
    let guard = store.lock(&name(), &progress)?;
    // Another process may have fetched it meanwhile.
    if let Some(program) = fetched_maturin(&context.env) {
        return Ok(program);
    }
    let installer = Installer::find(&context.env)?;
    progress.step(&format!(
        "fetching maturin {VERSION} with {}",
        installer.name()
    ));
    let mut packages = installer
        .resolve(&[format!("maturin=={VERSION}")])
        .map_err(|refusal| match refusal {
            Refusal::Failed(error) => error,
            Refusal::NoMatch { message, .. } => StoreError::Index {
                call: "maturin".to_owned(),
                message,
            },
        })?;
    // It requires a TOML reader for old Pythons, which its program does not use.
    packages.retain(|package| package.name == "maturin");
    let part = store.part(&name())?;
    let wanted: Vec<_> = packages.iter().collect();
    installer.install(&wanted, &part, &guard, Cache::Use, &progress)?;
    if !Root::system().is_file(&program(&part.site())) {
        return Err(StoreError::Incomplete {
            installer: installer.name(),
            reason: format!("the package of maturin {VERSION} has no `bin/maturin`"),
        });
    }
    progress.detail(&format!("{} unpacked", human_size(size(&part.site()))));
    installer.check_signals()?;
    store.put(&part, &name())?;
    Ok(program(&store.path(&name())))
}

fn name() -> String {
    format!("maturin-{VERSION}")
}

fn program(directory: &Path) -> PathBuf {
    directory.join("bin").join("maturin")
}

//! `--fetch`: fetches what is missing, so that the command does not fail.

use std::path::{Path, PathBuf};

use cuda_build::Component;
use cuda_build::internal::{Env, ReleaseReq};

use crate::exit_code;
use crate::failure::Failure;
use crate::store::{self, AddRequest, Context, LOCK_FILE, Messages, ReleaseSpec, StoreError};

/// What to fetch.
#[derive(Clone, Copy, Debug)]
pub struct Fetch<'a> {
    /// The CUDA release.
    pub release: ReleaseReq,
    /// Components to fetch besides the default set.
    pub components: &'a [Component],
    /// The workspace whose lock file pins the versions.
    pub workspace: Option<&'a Path>,
}

/// Fetches the newest toolkit of a major.
///
/// # Errors
/// As [`store::add`].
pub fn toolkit(env: &Env, fetch: &Fetch<'_>) -> Result<(), Failure> {
    let release: ReleaseSpec = fetch.release.to_string().parse()?;
    let mut request = AddRequest::new(release);
    request.components = fetch.components.iter().copied().collect();
    store::add(&request, &context(env, fetch.workspace))?;
    Ok(())
}

/// Fetches maturin.
///
/// # Errors
/// As [`store::maturin`].
pub fn maturin(env: &Env) -> Result<PathBuf, Failure> {
    Ok(store::maturin(&context(env, None))?)
}

fn context(env: &Env, workspace: Option<&Path>) -> Context {
    Context {
        env: env.clone(),
        lock_file: workspace.map(|root| root.join(LOCK_FILE)),
        messages: Messages::Auto,
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error.exit_code() {
            0 => exit_code::FAILURE,
            code => code,
        };
        Self {
            code,
            message: error.to_string(),
            hints: error.hints(),
        }
    }
}

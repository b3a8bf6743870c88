//! Lines about what is being compiled. `cargo cuda` prints them while Cargo runs, which hides what build scripts print.

use std::path::{Path, PathBuf};

use super::step::Image;
use cuda_find_core::env::Env;
use cuda_find_core::output;

/// The variable that names the file to which lines are appended.
pub const VARIABLE: &str = "CUDA_BUILD_PROGRESS";

/// Where lines go, and the package that they are about. By default, none are written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    file: Option<PathBuf>,
    package: String,
    /// Whether a build script calls a compiler, so that the number of its files is not known.
    is_one_call: bool,
}

/// The place of an output among those that a build makes.
pub(super) struct PlaceInBuild {
    pub(super) number: usize,
    pub(super) of: usize,
    /// How many processes the compiler may run at once.
    pub(super) processes: usize,
}

impl Progress {
    /// What `cargo cuda` requests, for the package whose build script runs.
    pub(crate) fn from_env(env: &Env, is_one_call: bool) -> Self {
        Self {
            file: env.peek(VARIABLE).map(PathBuf::from),
            package: env.text("CARGO_PKG_NAME").unwrap_or_default(),
            is_one_call,
        }
    }

    /// Writes that no compiler starts for an output, because it was kept.
    pub(super) fn kept(&self) {
        if let Some(file) = &self.file {
            output::append_line(file, &format!("={}", self.package));
        }
    }

    /// Writes that a compiler starts.
    pub(super) fn start(
        &self,
        source: &Path,
        images: &[Image],
        place: &PlaceInBuild,
        reason: Option<&str>,
    ) {
        let Some(file) = &self.file else { return };
        let capabilities = Image::shown(images);
        let reason = reason.map(|reason| format!("; {reason}"));
        let reason = reason.unwrap_or_default();
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let (source, package) = (source.display(), &self.package);
        let line = match self.is_one_call {
            // Scripts often pass absolute paths.
            true => format!("{name} for {capabilities} ({package}{reason})"),
            false => format!(
                "{source} for {capabilities} ({package} {} of {}{reason})",
                place.number, place.of
            ),
        };
        output::append_line(file, &format!("+{line}"));
    }
}

//! Lines about what is being compiled. `cargo cuda` prints them while Cargo runs, which hides what build scripts print.

use std::path::{Path, PathBuf};

use super::step::Image;
use crate::env::Env;
use crate::output;

/// The variable that names the file to which lines are appended.
pub const VARIABLE: &str = "CUDA_BUILD_PROGRESS";

/// Where lines go, and the package that they are about. By default, none are written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    file: Option<PathBuf>,
    package: String,
}

/// The place of an output among those that a build makes, and why it is made.
pub(super) struct Place {
    pub(super) number: usize,
    pub(super) of: usize,
    /// `None` if the output was never made before.
    pub(super) reason: Option<String>,
}

impl Progress {
    /// What `cargo cuda` requests. `package` is the name of the package.
    pub(crate) fn from_env(env: &Env, package: String) -> Self {
        let file = env.peek(VARIABLE).map(PathBuf::from);
        Self { file, package }
    }

    /// Writes that a compiler starts, and returns the value whose end writes that the compiler has ended.
    pub(super) fn start(
        &self,
        source: &Path,
        images: &[Image],
        place: &Place,
        reason: Option<&str>,
    ) -> Option<Running> {
        let file = self.file.clone()?;
        let mut capabilities: Vec<String> = Vec::new();
        for image in images {
            let number = image.capability().to_string();
            match (image, capabilities.last_mut()) {
                (Image::Ptx(_), Some(last)) if *last == number => last.push_str("+PTX"),
                (Image::Ptx(_), _) => capabilities.push(format!("{number} as PTX")),
                (Image::Real(_), _) => capabilities.push(number),
            }
        }
        let reason = reason.map(|reason| format!("; {reason}"));
        let line = format!(
            "{} for {} ({} {} of {}{})",
            source.display(),
            capabilities.join(", "),
            self.package,
            place.number,
            place.of,
            reason.unwrap_or_default()
        );
        output::append_line(&file, &format!("+{line}"));
        Some(Running { file, line })
    }
}

/// A compiler that runs.
pub(super) struct Running {
    file: PathBuf,
    line: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        output::append_line(&self.file, &format!("-{}", self.line));
    }
}
